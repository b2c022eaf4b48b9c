// SPDX-License-Identifier: Apache-2.0
// One thread's walk over one chunk of a tile program: block by block it points the places at operand memory
// and calls the steps' kernels; accumulators of column and full reductions live here while a chunk is open.
// Data path: tile_kernel.cpp hands out chunks -> Walk -> kernels of tile_table.h.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"
#include "cpu/tile_compile.h"

namespace yuloh::tile {

inline constexpr int64_t kAlign = 64;
inline int64_t round_up(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Per-thread scratch, kept between runs unless a very long row made it large.
inline constexpr int64_t kKeptScratch = 8 << 20;
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
inline thread_local Arena arena;

inline int64_t levels_for(int64_t groups) {
  int64_t n = 1;
  while (groups > 1) groups = (groups + 1) / 2, ++n;
  return n + 1;
}

// Pairwise combination of equal-sized vectors in arrival order: a binary counter whose digit k holds the sum
// of 2^k arrivals. The tree depends on the number of arrivals only, and cutting the sequence at multiples of
// a power of two (as chunks do) gives the same tree.
struct Counter {
  char* levels;  // stride bytes apart
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
    const int64_t table = round_up(n_places * sizeof(char*)),
                  bases = round_up(t.operands.size() * sizeof(char*));
    int64_t need = table + bases + code.scratch, columns = 0, all = 0;
    bool sums_columns =
        false;  // totals alone need no strips: a long row would make them longer than the data
    for (const Accumulator& a : t.accumulators) sums_columns = sums_columns || a.columns;
    const int64_t strip =
        sums_columns ? round_up((t.linear_order ? std::max(t.block_cols, t.cols) : t.block_cols) * 8) : 0;
    const int64_t levels = n_acc ? levels_for((t.chunk_rows + kColGroup - 1) / kColGroup) : 0;
    if (n_acc)
      columns = n_acc * round_up(sizeof(ColumnState)) + n_acc * (levels + 1) * strip,
      all = n_acc * sizeof(AllState);
    const int64_t leaves = t.whole_rows ? (t.cols / kLeaf + 2) * 8 : 0;
    need += columns + all + leaves + kAlign;
    char* m = arena.get(need);
    place_ = reinterpret_cast<char**>(m), m += table;
    base_ = reinterpret_cast<char**>(m), m += bases;
    for (size_t k = 0; k < t.operands.size(); ++k) base_[k] = static_cast<char*>(ptrs[t.operands[k].buffer]);
    for (int64_t k = t.operands.size(); k < n_places; ++k) {
      const Place& p = code.places[k];
      place_[k] =
          p.kind == Place::Kind::kConst ? const_cast<char*>(t.constants.data()) + p.offset : m + p.offset;
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
      // Totals want row after row, so column sums are kept for the whole width meanwhile.
      wide_ = true, first_col_ = c0, end_col_ = c1;
      open_columns(c1 - c0);
      for (int64_t r = r0; r < r1; ++r) columns(r, r + 1, c0, c1);
      close_columns(c0, c1 - c0);
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
      if (!wide_) open_columns(n);
      for (int64_t r = r0; r < r1;) {
        int64_t rn = std::min(t_.block_rows, r1 - r);
        if (t_.clamp) rn = std::min(rn, t_.clamp - r % t_.clamp);
        if (r != r0) locate(r, c);
        if (t_.outer.size() > 1 && !t_.clamp) segment(r, rn);
        row_ = r;
        run(code_.body, rn, n, c);
        r += rn;
      }
      if (!wide_) close_columns(c, n);
      c += n;
    } while (c < c1);
  }

  static int64_t offset(const Operand& o, const int64_t* index, size_t n) {
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
        const Operand& o = t_.operands[k];
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

  void move(const Step& s, char* reg, int64_t rows, int64_t cols,
            int64_t col) {  // load or store of one block
    const Operand& o = t_.operands[s.operand];
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
      go(base_[s.operand] + offset(o, g.index, t_.outer.size()) + col * o.inner, reg + g.first * unit,
         g.count);
  }
  static void call(const Step& s, bool load, char* mem, char* reg, int64_t rows, int64_t cols, int64_t rs,
                   int64_t cs) {
    if (load) s.load(reg, mem, rows, cols, rs, cs);
    else s.load(mem, reg, rows, cols, rs, cs);
  }

  void run(const std::vector<Step>& steps, int64_t rows, int64_t cols, int64_t col) {
    for (const Step& s : steps) {
      switch (s.kind) {
        case Step::Kind::kPrim: {
          const void* c = s.c == UINT16_MAX ? static_cast<const void*>(&flag_) : place_[s.c];
          const int64_t r = s.extent == Extent::kGrid ? rows : 1;
          const int64_t n = s.extent == Extent::kAll    ? rows * cols
                            : s.extent == Extent::kOne  ? 1
                            : s.extent == Extent::kRows ? rows
                                                        : cols;
          s.prim(place_[s.d], place_[s.a], place_[s.b], c, r, n);
          break;
        }
        case Step::Kind::kLoad: move(s, place_[s.d], rows, cols, col); break;
        case Step::Kind::kStore:
          if (stores_) move(s, place_[s.a], rows, cols, col);
          break;
        case Step::Kind::kReplicate:
          for (int64_t r = 0; r < rows; ++r)
            std::memcpy(place_[s.d] + r * cols * s.size, place_[s.a], cols * s.size);
          break;
        case Step::Kind::kRowReduce: {
          const int64_t n = s.extent == Extent::kRows ? rows : 1;
          s.row(place_[s.d], place_[s.a], n, cols, s.strided ? t_.operands[s.operand].row / s.size : cols,
                leaves_);
          break;
        }
        case Step::Kind::kColReduce: column_step(s, rows, cols, col); break;
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
  void column_step(const Step& s, int64_t rows, int64_t cols, int64_t col) {
    const Accumulator& a = t_.accumulators[s.d];
    ColumnState& c = column_[s.d];
    const int64_t stride = s.strided ? t_.operands[s.operand].row / s.size : cols;
    s.col(c.acc + (wide_ ? (col - first_col_) * s.size : 0), place_[s.a], rows, cols, stride);
    if (wide_) {
      if (col + cols < end_col_) return;  // the row is not complete yet
      cols = end_col_ - first_col_;
    }
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
  void open_leaf(int k) {
    t_.accumulators[k].ops->identity(all_[k].lanes, nullptr, nullptr, nullptr, 1, kLanes);
  }
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
  int64_t first_col_ = 0, end_col_ = 0;
  bool wide_ = false;
  int32_t flag_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace yuloh::tile
