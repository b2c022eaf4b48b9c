// SPDX-License-Identifier: Apache-2.0
// Loop nests: how one reduction walks its input, decided from shape, axes and the layouts of its input and
// result alone, so the tree of a sum is the same whether the reduction is fused or not. Also the axis
// arithmetic that fuse.cpp (may these nodes share a nest?) and lower.cpp (print the nest) both need.
#pragma once
#include "ir/node.h"
#include "tile/program.h"

namespace yuloh {

using AxisMask = uint32_t;  // bit i: axis i of the domain

// A row of at most this many columns may stay whole in registers; a longer one is accumulated piece by piece.
inline constexpr int64_t kMaxRow = 8192;

struct Nest {
  enum class Mode : uint8_t { kMap, kRow, kCol, kAll } mode = Mode::kMap;
  AxisMask reduced = 0;  // axes of extent > 1 only
  Ints order;  // axes of extent > 1, outermost first: kept, reduced, inner run (kCol, kAll); kept, run (kRow)
  uint32_t n_keep = 0;   // leading axes that are not reduced (kCol, kAll)
  uint32_t n_inner = 0;  // trailing axes that form the inner loop; 0 (kMap, kAll): whatever merges
};
// One loop nest for two reductions, each with the tree it has alone: rows with rows, and with columns or
// totals that walk the rows in the same order. Sets *joint to the nest that serves both.
bool join_nests(const Nest& a, const Nest& b, Nest* joint);

// `in` and `out` are the strides of the reduced value and of the result, one per axis of `domain`.
Nest reduce_nest(const Shape& domain, AxisMask reduced, const Ints& in, const Ints& out);
// Axes of extent > 1, the one with the largest step first; broadcast axes (step 0) outermost.
Ints axis_order(const Shape& domain, const Ints& strides);
// True if the trailing `n` axes of `order` are one strided walk for an operand with these strides.
bool run_merges(const Shape& domain, const Ints& order, uint32_t n, const Ints& strides);
// Axes that a reduction row reduces.
AxisMask reduced_axes(const Node& n);

// Where a value stands in a group: over the whole domain, or one number per row (reduced axes kept as 1, or
// dropped).
enum class Level : uint8_t { kFull, kRowKeep, kRowDrop, kTerminal };
// Strides of `v` (shape, own strides) over the axes of the domain, seen from a node of the given level.
Ints domain_strides(const Shape& domain, AxisMask reduced, Level level, const Shape& shape,
                    const Ints& strides);
Shape row_shape(const Shape& domain, AxisMask reduced, Level level);  // of kRowKeep / kRowDrop values
Level scalar_level(const Shape& domain, AxisMask reduced, bool rows, const Shape& out, bool* ok);

}  // namespace yuloh
