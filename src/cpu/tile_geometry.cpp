// SPDX-License-Identifier: Apache-2.0
// The first half of compiling a tile program: axes that every operand walks as one are merged, the block
// shape follows from the L1 cache, chunk boundaries from the shape.
#include <algorithm>
#include <numeric>

#include "cpu/tile_compile.h"

namespace yuloh::tile {
namespace {
using Kind = TileInstr::Kind;
constexpr int64_t kBlock = 2048;  // elements per block, at most (squares of transposed operands: twice that)
constexpr int64_t kL1 =
    36 * 1024;  // bytes that the blocks of all operands and two registers may take: measured
constexpr int64_t kMinChunk = 16384;  // elements per chunk of a reduction

// Rough cost of one element in additions: decides when threads pay.
double weight_of(const TileInstr& i) {
  if (i.kind != Kind::kPrim) return i.row ? 0 : 1;
  if (i.row) return 0;
  const bool f64 = i.type == CType::kF64;
  switch (i.prim) {
    case Prim::kExp:
    case Prim::kLog:
    case Prim::kTanh:
    case Prim::kErf: return f64 ? 40 : 8;
    case Prim::kExpm1:
    case Prim::kLog1p:
    case Prim::kSin:
    case Prim::kCos:
    case Prim::kTan: return f64 ? 60 : 15;
    case Prim::kPow: return f64 ? 100 : 25;
    case Prim::kDiv:
    case Prim::kSqrt:
    case Prim::kRsqrt: return 3;
    case Prim::kFloorDiv:
    case Prim::kMod:
    case Prim::kFMod:
    case Prim::kAtan2: return 40;
    case Prim::kAsin:
    case Prim::kAcos:
    case Prim::kAtan:
    case Prim::kSinh:
    case Prim::kCosh:
    case Prim::kAsinh:
    case Prim::kAcosh:
    case Prim::kAtanh: return f64 ? 60 : 20;
    case Prim::kErfinv:
    case Prim::kLgamma:
    case Prim::kDigamma: return 150;
    default: return 1;
  }
}

// ---- geometry: merged axes, block shape, chunks ----
class Geometry {
 public:
  Geometry(const TileProgram& p, TilePlan* plan) : p_(p), t_(*plan) {}
  void run() {
    for (const TileInstr& i : p_.instrs) {
      row_reduce_ |= i.kind == Kind::kRowReduce;
      col_reduce_ |= i.kind == Kind::kColReduce;
      all_reduce_ |= i.kind == Kind::kAllReduce;
      computes_ |= i.kind == Kind::kPrim && !i.row;
      t_.weight += weight_of(i);
    }
    t_.whole_rows = row_reduce_ || p_.needs_whole_rows;
    t_.linear_order = all_reduce_;
    take_axes();
    merge();
    for (Dim d : t_.outer) t_.rows *= d;
    describe_operands();
    block_shape();
    chunks();
  }

 private:
  void take_axes() {
    for (const TileOperand& o : p_.operands)
      t_.operands.push_back({o.dtype, o.buffer, static_cast<int64_t>(dtype_size(o.dtype)), {}, 0, true, 0});
    for (size_t d = 0; d < p_.outer.size(); ++d) {
      if (p_.outer[d] == 1) continue;
      t_.outer.push_back(p_.outer[d]);
      for (size_t k = 0; k < t_.operands.size(); ++k)
        t_.operands[k].outer.push_back(p_.operands[k].outer_strides[d] * t_.operands[k].size);
    }
    t_.cols = p_.inner;
    for (size_t k = 0; k < t_.operands.size(); ++k)
      t_.operands[k].inner = p_.inner == 1 ? 0 : p_.operands[k].inner_stride * t_.operands[k].size;
  }
  bool mergeable(size_t d) const {  // axis d with d + 1
    for (const Operand& o : t_.operands)
      if (o.outer[d] != o.outer[d + 1] * t_.outer[d + 1]) return false;
    return true;
  }
  bool inner_mergeable() const {
    for (const Operand& o : t_.operands)
      if (t_.cols != 1 && o.outer.back() != o.inner * t_.cols) return false;
    return true;
  }
  void merge() {
    for (size_t d = t_.outer.size(); d-- > 1;)
      if (mergeable(d - 1)) {
        t_.outer[d] *= t_.outer[d - 1];
        t_.outer.erase(d - 1);
        for (Operand& o : t_.operands) o.outer.erase(d - 1);
      }
    if (t_.whole_rows || col_reduce_) return;
    while (!t_.outer.empty() && inner_mergeable()) {
      for (Operand& o : t_.operands) {
        if (t_.cols == 1) o.inner = o.outer.back();
        o.outer.pop_back();
      }
      t_.cols *= t_.outer.back();
      t_.outer.pop_back();
    }
  }
  void describe_operands() {
    for (Operand& o : t_.operands) {
      o.row = o.outer.empty() ? 0 : o.outer.back();
      for (size_t d = 0; d + 1 < t_.outer.size(); ++d)
        o.linear &= o.outer[d] == o.outer[d + 1] * t_.outer[d + 1];
      const auto span = [&](int64_t extent, int64_t stride) {
        if (extent > 1) (stride < 0 ? o.low : o.high) += (extent - 1) * stride;
      };
      o.high = o.size;
      span(t_.cols, o.inner);
      for (size_t d = 0; d < t_.outer.size(); ++d) span(t_.outer[d], o.outer[d]);
    }
  }
  bool transposed()
      const {  // an operand whose memory runs along the rows: square blocks use whole cache lines
    for (const Operand& o : t_.operands)
      if (!t_.outer.empty() && t_.outer.back() > 1 && std::abs(o.outer.back()) == o.size &&
          std::abs(o.inner) > o.size)
        return true;
    return false;
  }
  // Streams of a block share the L1 cache. An operand that all rows share is there as itself and as copies.
  int64_t block_elements(bool square) const {
    if (square) return 2 * kBlock;
    int64_t bytes = 2 * 4;
    for (const Operand& o : t_.operands) {
      bool rows = t_.rows <= 1;
      for (const int64_t s : o.outer) rows |= s != 0;
      if (o.inner != 0) bytes += size_of(compute_type(o.dtype)) * (rows ? 1 : 2);
    }
    return std::clamp<int64_t>(kL1 / bytes / 256 * 256, 512, kBlock);
  }
  void block_shape() {
    const int64_t cols = std::max<int64_t>(1, t_.cols);
    const bool square = !t_.whole_rows && transposed();
    const int64_t block = col_reduce_ && !t_.whole_rows ? kBlock : block_elements(square);
    int64_t limit = block;
    // Plain column sums: several rows per block keep accumulators in registers. With arithmetic before them,
    // whole rows (or single ones) let operands stay where they are.
    if (col_reduce_ && !t_.whole_rows) limit = !computes_ ? 256 : cols <= kBlock ? cols : kBlock / 2;
    t_.block_cols = t_.whole_rows ? cols : std::min(cols, limit);
    if (square)
      t_.block_cols =
          std::min<int64_t>(cols, std::max<int64_t>(64, block / std::min<Dim>(64, t_.outer.back())));
    t_.block_rows = std::clamp<int64_t>(block / t_.block_cols, 1, std::max<int64_t>(1, t_.rows));
    if (t_.block_cols < cols && (t_.linear_order || (col_reduce_ && computes_))) t_.block_rows = 1;
    // One group of rows cannot be cut; single rows let its columns be (chunks() below), so that threads share
    // it.
    if (col_reduce_ && computes_ && !t_.whole_rows && !all_reduce_ && t_.rows <= kColGroup && cols >= 512)
      t_.block_rows = 1;
    if (col_reduce_) {
      int64_t pow2 = 1;
      while (pow2 * 2 <= std::min<int64_t>(t_.block_rows, kColGroup)) pow2 *= 2;
      t_.block_rows = pow2;
    }
    // Blocks within one run of the last outer axis have constant strides; give that up only for very short
    // runs.
    if (t_.outer.size() > 1) {
      const Dim last = t_.outer.back();
      if (col_reduce_ ? last % t_.block_rows == 0 : last * cols >= 256) t_.clamp = last;
    }
  }
  void chunks() {
    t_.fixed_chunks = col_reduce_ || all_reduce_;
    t_.chunk_rows = std::max<int64_t>(1, t_.rows), t_.chunk_cols = std::max<int64_t>(1, t_.cols);
    if (!t_.fixed_chunks) return;  // decided per run, by thread count
    const int64_t cols = std::max<int64_t>(1, t_.cols);
    if (all_reduce_ && t_.rows <= 1) {
      t_.chunk_cols = kMinChunk;
    } else {
      int64_t unit = col_reduce_ ? kColGroup : 1;
      if (all_reduce_)
        unit = std::max<int64_t>(unit, kLeaf / std::gcd<int64_t>(kLeaf, cols));  // powers of two, both
      while (unit < t_.rows && unit * cols < kMinChunk) unit *= 2;
      while (col_reduce_ && unit < t_.rows && (t_.rows + unit - 1) / unit > 256) unit *= 2;
      t_.chunk_rows = unit;
      // few rows: columns may be split too, which touches no column's sum (blocks of several rows only at
      // their own width)
      const int64_t piece = t_.block_rows == 1 ? 256 : t_.block_cols;
      if (col_reduce_ && !t_.whole_rows && !all_reduce_ && unit >= t_.rows && cols >= 2 * piece)
        t_.chunk_cols = piece * std::max<int64_t>(1, kMinChunk / (piece * std::max<int64_t>(1, t_.rows)));
    }
    t_.row_chunks = std::max<int64_t>(1, (t_.rows + t_.chunk_rows - 1) / t_.chunk_rows);
    t_.col_chunks = std::max<int64_t>(1, (t_.cols + t_.chunk_cols - 1) / t_.chunk_cols);
  }
  const TileProgram& p_;
  TilePlan& t_;
  bool row_reduce_ = false, col_reduce_ = false, all_reduce_ = false, computes_ = false;
};
}  // namespace

void plan_geometry(const TileProgram& p, TilePlan* plan) { Geometry(p, plan).run(); }

}  // namespace yuloh::tile
