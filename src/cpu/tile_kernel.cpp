// SPDX-License-Identifier: Apache-2.0
#include "cpu/tile_kernel.h"

#include <algorithm>
#include <atomic>

#include "base/weak_cache.h"
#include "cpu/cpu_features.h"
#include "cpu/parallel.h"
#include "cpu/tile_walk.h"

namespace yuloh {
namespace {
using namespace tile;

constexpr double kSecondsPerWork = 1.25e-11;  // rough, AVX-512 in cache
constexpr double kSerialWork =
    400000;  // element-additions, about 5 us: below, waking the team costs more than it saves
class CpuTileKernel final : public Kernel {
 public:
  explicit CpuTileKernel(const TileProgram& p) : t_(compile(p)) {
    double steps = 0;
    for (const TileInstr& i : p.instrs)
      steps += (i.kind == TileInstr::Kind::kPrim && !i.row) || i.kind >= TileInstr::Kind::kRowReduce;
    cost.flops = steps * static_cast<double>(t_.rows) * static_cast<double>(t_.cols);
    for (const TileInstr& i : p.instrs) {
      using K = TileInstr::Kind;
      const bool reads = i.kind == K::kLoad, writes = i.kind == K::kStore || i.kind >= K::kColReduce;
      if (reads || writes) cost.bytes += traffic(t_.operands[reads ? i.a : i.b]);
    }
  }
  size_t workspace_bytes() const override { return t_.workspace; }
  void keeps(KeptBytes* k) const override {
    k->add(sizeof *this + t_.constants.size() + t_.operands.size() * sizeof(tile::Operand) +
           t_.accumulators.size() * sizeof(Accumulator));
    for (const TileCode* c : {&t_.fast, &t_.safe})
      k->add((c->hoisted.size() + c->body.size()) * sizeof(tile::Step) + c->places.size() * sizeof(Place));
  }
  std::string describe() const override {
    return cat("tile:", isa_name(t_.isa), " ", t_.rows, "x", t_.cols, " in ", t_.block_rows, "x",
               t_.block_cols, ", ", t_.fast.body.size(), " steps");
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
    int64_t chunk_rows = t_.chunk_rows, chunk_cols = t_.chunk_cols, row_chunks = t_.row_chunks,
            col_chunks = t_.col_chunks;
    const double work =
        t_.weight * static_cast<double>(t_.rows) * static_cast<double>(std::max<int64_t>(1, t_.cols));
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
    else parallel_for(n, one, work * kSecondsPerWork);
    if (bad)
      throw Error(
          ErrorKind::kZeroDivision,
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
      // chunks are complete subtrees, so they meet pairwise in order; a lone last one waits for the next
      // level
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

namespace {
// Layers of one shape, and optimizer updates at every batch size, are the same programs over and over.
std::shared_ptr<Kernel> shared_tile_kernel(const TileProgram& p) {
  static auto* cache = new WeakCache<Kernel>;
  return cache->get(key_of(p) + static_cast<char>(cpu_isa()),
                    [&] { return std::shared_ptr<Kernel>(make_cpu_tile_kernel(p)); });
}
}  // namespace

void register_cpu_tile() { register_tile_backend(shared_tile_kernel); }

}  // namespace yuloh
