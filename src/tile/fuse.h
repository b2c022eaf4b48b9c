// SPDX-License-Identifier: Apache-2.0
// Fusion: which nodes of an expanded graph become one tile program, and that program. Only rows whose
// lowering is `scalar` or `reduce` take part; views, host loops and library ops stand between groups. Data
// path: passes/ (expand, simplify) -> plan/ assigns layouts -> fuse -> lower -> plan/ makes the kernel.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/node.h"
#include "tile/program.h"

namespace yuloh {

struct TileGroup {
  std::vector<Node*> nodes;  // topological
  std::vector<Value>
      inputs;  // distinct values read from outside, in first-use order (pointer order of the program)
  std::vector<Value>
      outputs;  // distinct values somebody outside reads (they follow the inputs in pointer order)
  // A safe place to run: an index into `order` after everything the group reads and not after anything that
  // reads it (a group may have moved down past its first node to meet a later partner).
  size_t position = 0;
};

struct FuseContext {
  bool enabled = true;  // off: every node is its own group
  std::function<bool(const Value&)>
      needed_outside;  // graph outputs (consumers inside the graph are seen by fuse itself)
  std::function<const Ints&(const Value&)> strides;  // layout of every value, assigned before fusion
  std::vector<std::string>* explain = nullptr;       // what fused, and why neighbours did not
};

// Partitions the tile nodes of `order` into convex groups (no path leaves a group and comes back). `order` is
// the whole topological order; the result lists groups of tile nodes only.
std::vector<TileGroup> fuse(const std::vector<Node*>& order, const FuseContext& ctx);
// Lines of YULOH_EXPLAIN=fusion, for groups made from `order` (whose `slot` still is the index).
void explain_fusion(const std::vector<Node*>& order, const std::vector<TileGroup>& groups,
                    const FuseContext& ctx);
// The loop nest of one group. Results are bit-equal to running its nodes one by one (elementwise), reductions
// use the same fixed tree fused or not.
TileProgram lower(const TileGroup& group, const FuseContext& ctx);
bool is_tile_node(const Node& n);
// An elementwise row without inputs (`full`): groups that read it hold the number instead of an operand, so
// it is a group of its own only if a library op, a view or the outside reads it, and in no group otherwise.
bool is_tile_constant(const Node& n);

}  // namespace yuloh
