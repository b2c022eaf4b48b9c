// SPDX-License-Identifier: Apache-2.0
#include "cpu/tile_kernel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cpu/parallel.h"
#include "cpu/tile_compile.h"

namespace yuloh {
namespace {
using namespace tile;

constexpr int64_t kAlign = 64;
constexpr double kSerialWork = 400000;  // element-additions, about 5 us: below, waking the team costs more than it saves
int64_t round_up(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Per-thread scratch, kept between runs unless a very long row made it large.
constexpr int64_t kKeptScratch = 8 << 20;
struct Arena {
  char* data = nullptr;
  int64_t bytes = 0;
  ~Arena() { std::free(data); }
  char* get(int64_t need) {
    if (need > bytes) {
      std::free(data);
      data = static_cast<char*>(std::aligned_alloc(kAlign, round_up(need)));
      bytes = data ? need : 0;
      if (!data) throw Error(ErrorKind::kMemory, cat("tile: out of memory for ", need, " bytes of scratch."));
    }
    return data;
  }
  void trim() {
    if (bytes > kKeptScratch) std::free(data), data = nullptr, bytes = 0;
  }
};
thread_local Arena arena;

int64_t levels_for(int64_t groups) {
  int64_t n = 1;
  while (groups > 1) groups = (groups + 1) / 2, ++n;
  return n + 1;
}

// Pairwise combination of equal-sized vectors in arrival order: a binary counter whose digit k holds the sum of 2^k
// arrivals. The tree depends on the number of arrivals only, and cutting the sequence at multiples of a power of two
// (as chunks do) gives the same tree.
struct Counter {
  char* levels;     // stride bytes apart
  int64_t stride;
  int64_t count = 0;
  void push(const ReduceEntry& ops, char* v, int64_t n, int64_t size) {
    int k = 0;
    for (; count >> k & 1; ++k) ops.combine(v, levels + k * stride, v, nullptr, 1, n);
    std::memcpy(levels + k * stride, v, n * size);
    ++count;
  }
  void finish(const ReduceEntry& ops, char* v, int64_t n, int64_t size) {
    bool first = true;
    if (!count) ops.identity(v, nullptr, nullptr, nullptr, 1, n);
    for (int k = 0; count >> k; ++k) {
      if (!(count >> k & 1)) continue;
      if (first) std::memcpy(v, levels + k * stride, n * size);
      else ops.combine(v, levels + k * stride, v, nullptr, 1, n);
      first = false;
    }
  }
};

struct alignas(64) ColumnState {  // one kColReduce while a column block is walked
  char* acc;
  Counter counter;
  int64_t rows = 0;  // in the open group
};
struct AllState {  // one kAllReduce: the open leaf
  alignas(64) char lanes[kLanes * 8];
  int64_t fill = 0, leaf = 0;
};

struct Segment {  // rows of a block with constant strides
  int64_t first, count;
  int64_t index[TileProgram::kMaxOuter];
};

// One thread's walk over one chunk.
class Walk {
 public:
  Walk(const TilePlan& t, const TileCode& code, void* const* ptrs, char* workspace, bool stores)
      : t_(t), code_(code), workspace_(workspace), stores_(stores) {
    const int64_t n_places = code.places.size(), n_acc = t.accumulators.size();
    const int64_t table = round_up(n_places * sizeof(char*)), bases = round_up(t.operands.size() * sizeof(char*));
    int64_t need = table + bases + code.scratch, columns = 0, all = 0;
    const int64_t strip = round_up(t.block_cols * 8);
    const int64_t levels = n_acc ? levels_for((t.chunk_rows + kColGroup - 1) / kColGroup) : 0;
    if (n_acc) columns = n_acc * round_up(sizeof(ColumnState)) + n_acc * (levels + 1) * strip, all = n_acc * sizeof(AllState);
    const int64_t leaves = t.whole_rows ? (t.cols / kLeaf + 2) * 8 : 0;
    need += columns + all + leaves + kAlign;
    char* m = arena.get(need);
    place_ = reinterpret_cast<char**>(m), m += table;
    base_ = reinterpret_cast<char**>(m), m += bases;
    for (size_t k = 0; k < t.operands.size(); ++k) base_[k] = static_cast<char*>(ptrs[t.operands[k].buffer]);
    for (int64_t k = t.operands.size(); k < n_places; ++k) {
      const Place& p = code.places[k];
      place_[k] = p.kind == Place::Kind::kConst ? const_cast<char*>(t.constants.data()) + p.offset : m + p.offset;
    }
    m += code.scratch;
    for (int64_t k = 0; n_acc && k < n_acc; ++k) {
      if (k == 0) column_ = reinterpret_cast<ColumnState*>(m);
      new (m) ColumnState{m + round_up(sizeof(ColumnState)) * (n_acc - k) + k * (levels + 1) * strip, {}, 0};
      column_[k].counter = {column_[k].acc + strip, strip};
      m += round_up(sizeof(ColumnState));
      static_assert(sizeof(ColumnState) <= kAlign);
    }
    m += n_acc * (levels + 1) * strip;
    all_ = reinterpret_cast<AllState*>(m), m += all;
    leaves_ = m;
  }

  void chunk(int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    row_begin_ = r0;
    for (size_t k = 0; k < t_.accumulators.size(); ++k) {
      if (t_.accumulators[k].columns) continue;
      all_[k].fill = 0, all_[k].leaf = (r0 * t_.cols + c0) / kLeaf;
      open_leaf(static_cast<int>(k));
    }
    if (t_.linear_order && t_.block_cols < t_.cols) {
      for (int64_t r = r0; r < r1; ++r) columns(r, r + 1, c0, c1);
    } else {
      columns(r0, r1, c0, c1);
    }
    for (size_t k = 0; k < t_.accumulators.size(); ++k)
      if (!t_.accumulators[k].columns && all_[k].fill) close_leaf(static_cast<int>(k));
  }
  int32_t flag() const { return flag_; }

 private:
  void columns(int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    int64_t c = c0;
    do {  // once even without columns: a row reduction of nothing has a value
      const int64_t n = std::min(t_.block_cols, c1 - c);
      locate(r0, c);
      if (!code_.hoisted.empty()) run(code_.hoisted, t_.block_rows, n, c);
      open_columns(n);
      for (int64_t r = r0; r < r1;) {
        int64_t rn = std::min(t_.block_rows, r1 - r);
        if (t_.clamp) rn = std::min(rn, t_.clamp - r % t_.clamp);
        if (r != r0) locate(r, c);
        if (t_.outer.size() > 1 && !t_.clamp) segment(r, rn);
        row_ = r;
        run(code_.body, rn, n, c);
        r += rn;
      }
      close_columns(c, n);
      c += n;
    } while (c < c1);
  }

  static int64_t offset(const tile::Operand& o, const int64_t* index, size_t n) {
    int64_t s = 0;
    for (size_t d = 0; d < n; ++d) s += index[d] * o.outer[d];
    return s;
  }
  void index_of(int64_t row, int64_t* index) const {
    for (size_t d = t_.outer.size(); d-- > 1;) index[d] = row % t_.outer[d], row /= t_.outer[d];
    if (!t_.outer.empty()) index[0] = row;
  }
  void locate(int64_t row, int64_t col) {  // operand pointers of the block that starts here
    const size_t n = t_.outer.size();
    if (n <= 1) {
      for (size_t k = 0; k < t_.operands.size(); ++k) {
        const tile::Operand& o = t_.operands[k];
        place_[k] = base_[k] + row * o.row + col * o.inner;
      }
      return;
    }
    int64_t index[TileProgram::kMaxOuter];
    index_of(row, index);
    for (size_t k = 0; k < t_.operands.size(); ++k)
      place_[k] = base_[k] + offset(t_.operands[k], index, n) + col * t_.operands[k].inner;
  }
  void segment(int64_t row, int64_t count) {
    segments_.clear();
    const Dim last = t_.outer.back();
    for (int64_t r = 0; r < count;) {
      Segment s;
      index_of(row + r, s.index);
      s.first = r, s.count = std::min(count - r, last - s.index[t_.outer.size() - 1]);
      segments_.push_back(s);
      r += s.count;
    }
  }

  void move(const Step& s, char* reg, int64_t rows, int64_t cols, int64_t col) {  // load or store of one block
    const tile::Operand& o = t_.operands[s.operand];
    char* mem = place_[s.operand];
    const bool load = s.kind == Step::Kind::kLoad;
    const auto go = [&](char* m, char* r, int64_t rn) {
      if (s.extent == Extent::kOne) return call(s, load, m, r, 1, 1, 0, 1);
      if (s.extent == Extent::kCols) return call(s, load, m, r, 1, cols, 0, o.inner / o.size);
      if (s.extent == Extent::kRows) return call(s, load, m, r, 1, rn, 0, o.row / o.size);
      call(s, load, m, r, rn, cols, o.row / o.size, o.inner / o.size);
    };
    const bool by_rows = s.extent == Extent::kRows || s.extent == Extent::kAll;
    if (o.linear || t_.clamp || !by_rows || rows == 1) return go(mem, reg, rows);
    const int64_t unit = (s.extent == Extent::kAll ? cols : 1) * s.size;
    for (const Segment& g : segments_)
      go(base_[s.operand] + offset(o, g.index, t_.outer.size()) + col * o.inner, reg + g.first * unit, g.count);
  }
  static void call(const Step& s, bool load, char* mem, char* reg, int64_t rows, int64_t cols, int64_t rs, int64_t cs) {
    if (load) s.load(reg, mem, rows, cols, rs, cs);
    else s.load(mem, reg, rows, cols, rs, cs);
  }

  void run(const std::vector<Step>& steps, int64_t rows, int64_t cols, int64_t col) {
    for (const Step& s : steps) {
      switch (s.kind) {
        case Step::Kind::kPrim: {
          const void* c = s.c == UINT16_MAX ? static_cast<const void*>(&flag_) : place_[s.c];
          const int64_t r = s.extent == Extent::kGrid ? rows : 1;
          const int64_t n = s.extent == Extent::kAll ? rows * cols
                            : s.extent == Extent::kOne ? 1
                            : s.extent == Extent::kRows ? rows : cols;
          s.prim(place_[s.d], place_[s.a], place_[s.b], c, r, n);
          break;
        }
        case Step::Kind::kLoad: move(s, place_[s.d], rows, cols, col); break;
        case Step::Kind::kStore:
          if (stores_) move(s, place_[s.a], rows, cols, col);
          break;
        case Step::Kind::kReplicate:
          for (int64_t r = 0; r < rows; ++r) std::memcpy(place_[s.d] + r * cols * s.size, place_[s.a], cols * s.size);
          break;
        case Step::Kind::kRowReduce: {
          const int64_t n = s.extent == Extent::kRows ? rows : 1;
          s.row(place_[s.d], place_[s.a], n, cols, s.strided ? t_.operands[s.operand].row / s.size : cols, leaves_);
          break;
        }
        case Step::Kind::kColReduce: column_step(s, rows, cols); break;
        case Step::Kind::kAllReduce: all_step(s, rows, cols); break;
      }
    }
  }

  // ---- accumulation ----
  void open_columns(int64_t cols) {
    for (size_t k = 0; k < t_.accumulators.size(); ++k) {
      if (!t_.accumulators[k].columns) continue;
      column_[k].counter.count = 0, column_[k].rows = 0;
      t_.accumulators[k].ops->identity(column_[k].acc, nullptr, nullptr, nullptr, 1, cols);
    }
  }
  void column_step(const Step& s, int64_t rows, int64_t cols) {
    const Accumulator& a = t_.accumulators[s.d];
    ColumnState& c = column_[s.d];
    const int64_t stride = s.strided ? t_.operands[s.operand].row / s.size : cols;
    s.col(c.acc, place_[s.a], rows, cols, stride);
    c.rows += rows;
    if (c.rows < kColGroup) return;
    c.counter.push(*a.ops, c.acc, cols, s.size);
    a.ops->identity(c.acc, nullptr, nullptr, nullptr, 1, cols);
    c.rows = 0;
  }
  void close_columns(int64_t col, int64_t cols) {
    for (size_t k = 0; k < t_.accumulators.size(); ++k) {
      const Accumulator& a = t_.accumulators[k];
      if (!a.columns) continue;
      ColumnState& c = column_[k];
      if (c.rows) c.counter.push(*a.ops, c.acc, cols, a.size);
      char* out = workspace_ + a.workspace + (row_begin_ / t_.chunk_rows * t_.cols + col) * a.size;
      c.counter.finish(*a.ops, out, cols, a.size);
    }
  }
  void open_leaf(int k) { t_.accumulators[k].ops->identity(all_[k].lanes, nullptr, nullptr, nullptr, 1, kLanes); }
  void close_leaf(int k) {
    const Accumulator& a = t_.accumulators[k];
    a.ops->fold(all_[k].lanes, kLanes);
    std::memcpy(workspace_ + a.workspace + all_[k].leaf * a.size, all_[k].lanes, a.size);
    ++all_[k].leaf, all_[k].fill = 0;
  }
  void feed(const Step& s, const char* data, int64_t n) {
    AllState& a = all_[s.d];
    while (n > 0) {
      const int64_t take = std::min(n, kLeaf - a.fill);
      s.lanes(a.lanes, data, take, a.fill % kLanes);
      a.fill += take, data += take * s.size, n -= take;
      if (a.fill == kLeaf) close_leaf(s.d), open_leaf(s.d);
    }
  }
  void all_step(const Step& s, int64_t rows, int64_t cols) {
    if (!s.strided) return feed(s, place_[s.a], rows * cols);
    for (int64_t r = 0; r < rows; ++r) feed(s, place_[s.a] + r * t_.operands[s.operand].row, cols);
  }

  const TilePlan& t_;
  const TileCode& code_;
  char* workspace_;
  bool stores_;
  char** place_;
  char** base_;
  ColumnState* column_ = nullptr;
  AllState* all_ = nullptr;
  char* leaves_ = nullptr;
  int64_t row_begin_ = 0, row_ = 0;
  int32_t flag_ = 0;
  std::vector<Segment> segments_;
};

class CpuTileKernel final : public Kernel {
 public:
  explicit CpuTileKernel(const TileProgram& p) : t_(compile(p)) {
    double steps = 0;
    for (const TileInstr& i : p.instrs) steps += i.kind == TileInstr::Kind::kPrim && !i.row;
    cost.flops = steps * static_cast<double>(t_.rows) * static_cast<double>(t_.cols);
    for (const TileInstr& i : p.instrs) {
      using K = TileInstr::Kind;
      const bool reads = i.kind == K::kLoad, writes = i.kind == K::kStore || i.kind >= K::kColReduce;
      if (reads || writes) cost.bytes += traffic(t_.operands[reads ? i.a : i.b]);
    }
  }
  size_t workspace_bytes() const override { return t_.workspace; }
  std::string describe() const override {
    return cat("tile:", isa_name(t_.isa), " ", t_.rows, "x", t_.cols, " in ", t_.block_rows, "x", t_.block_cols, ", ",
               t_.fast.body.size(), " steps");
  }

  void run(void* const* ptrs) override {
    const bool empty = t_.rows == 0 || (t_.cols == 0 && !t_.whole_rows);
    char* workspace = nullptr;
    if (t_.workspace) workspace = static_cast<char*>(ptrs[buffers()]);
    if (!empty) {
      if (t_.checks) pass(t_.safe, ptrs, workspace, false);  // raises before anything is written
      pass(t_.checks || overlap(ptrs) ? t_.safe : t_.fast, ptrs, workspace, true);
    }
    for (const Accumulator& a : t_.accumulators) finish(a, empty, ptrs, workspace);
  }

 private:
  double traffic(const tile::Operand& o) const {
    double n = static_cast<double>(o.size);
    if (o.inner) n *= static_cast<double>(t_.cols);
    for (size_t d = 0; d < t_.outer.size(); ++d)
      if (o.outer[d]) n *= static_cast<double>(t_.outer[d]);
    return n;
  }
  int buffers() const {
    int n = 0;
    for (const tile::Operand& o : t_.operands) n = std::max(n, o.buffer + 1);
    return std::max(n, n_buffers_);
  }
  // Does a buffer that is written early share memory with one that is read later in the same block?
  bool overlap(void* const* ptrs) const {
    for (const auto& [out, in] : t_.fast.hazards)
      for (const tile::Operand& w : t_.operands) {
        if (w.buffer != out) continue;
        for (const tile::Operand& r : t_.operands) {
          if (r.buffer != in) continue;
          const char* pw = static_cast<const char*>(ptrs[out]);
          const char* pr = static_cast<const char*>(ptrs[in]);
          if (pw + w.low < pr + r.high && pr + r.low < pw + w.high) return true;
        }
      }
    return false;
  }

  void pass(const TileCode& code, void* const* ptrs, char* workspace, bool stores) {
    int64_t chunk_rows = t_.chunk_rows, chunk_cols = t_.chunk_cols, row_chunks = t_.row_chunks, col_chunks = t_.col_chunks;
    const double work = t_.weight * static_cast<double>(t_.rows) * static_cast<double>(std::max<int64_t>(1, t_.cols));
    const bool serial = work < kSerialWork;
    if (!t_.fixed_chunks && !serial) {
      const int64_t n = std::min<int64_t>(num_threads(), static_cast<int64_t>(work / (kSerialWork / 2)));
      if (t_.rows >= n) {
        chunk_rows = (t_.rows + n - 1) / n;
        if (t_.block_rows > 1) chunk_rows = (chunk_rows + t_.block_rows - 1) / t_.block_rows * t_.block_rows;
        row_chunks = (t_.rows + chunk_rows - 1) / chunk_rows;
      } else if (!t_.whole_rows) {
        const int64_t blocks = (t_.cols + t_.block_cols - 1) / t_.block_cols;
        chunk_cols = (blocks + n - 1) / n * t_.block_cols;
        col_chunks = (t_.cols + chunk_cols - 1) / chunk_cols;
      }
    }
    std::atomic<int32_t> bad{0};
    const int64_t n = row_chunks * col_chunks;
    const auto one = [&](int64_t i) {
      Walk walk(t_, code, ptrs, workspace, stores);
      const int64_t r = i / col_chunks * chunk_rows, c = i % col_chunks * chunk_cols;
      walk.chunk(r, std::min(t_.rows, r + chunk_rows), c, std::min(t_.cols, c + chunk_cols));
      if (walk.flag()) bad = 1;
      arena.trim();
    };
    if (serial || n == 1)
      for (int64_t i = 0; i < n; ++i) one(i);
    else
      parallel_for(n, one);
    if (bad)
      throw Error(ErrorKind::kZeroDivision,
                  "integer division or remainder by zero; expected divisors other than 0. Hint: mask them first or "
                  "divide as floats.");
  }

  void finish(const Accumulator& a, bool empty, void* const* ptrs, char* workspace) const {
    const tile::Operand& o = t_.operands[a.operand];
    const StoreFn store = t_.table->store[static_cast<int>(o.dtype)];
    char* out = static_cast<char*>(ptrs[o.buffer]);
    char* v = workspace + a.workspace;
    if (!a.columns) {
      const int64_t leaves = (t_.rows * t_.cols + kLeaf - 1) / kLeaf;
      if (empty) a.ops->identity(v, nullptr, nullptr, nullptr, 1, 1);
      else a.ops->fold(v, leaves);
      return store(out, v, 1, 1, 0, 1);
    }
    if (empty) {
      a.ops->identity(v, nullptr, nullptr, nullptr, 1, t_.cols);
    } else if (t_.row_chunks > 1) {
      // chunks are complete subtrees, so they meet pairwise in order; a lone last one waits for the next level
      const int64_t line = t_.cols * a.size;
      for (int64_t step = 1; step < t_.row_chunks; step *= 2)
        for (int64_t i = 0; i + step < t_.row_chunks; i += 2 * step)
          a.ops->combine(v + i * line, v + i * line, v + (i + step) * line, nullptr, 1, t_.cols);
    }
    store(out, v, 1, t_.cols, 0, t_.cols == 1 ? 1 : o.inner / o.size);
  }

 public:
  int n_buffers_ = 0;

 private:
  TilePlan t_;
};
}  // namespace

std::unique_ptr<Kernel> make_cpu_tile_kernel(const TileProgram& p) {
  if (p.keep > 0) return make_kept_tile_kernel(p);
  auto k = std::make_unique<CpuTileKernel>(p);
  k->n_buffers_ = p.n_buffers;
  return k;
}

void register_cpu_tile() { register_tile_backend(make_cpu_tile_kernel); }

}  // namespace yuloh
