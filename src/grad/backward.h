// SPDX-License-Identifier: Apache-2.0
// Gradients, graph to graph: the recorded nodes are the tape. `backward` walks them in reverse creation
// order, asks each row for its gradient and returns new Values; nothing is computed. Iterative, so a chain of
// a million nodes works.
#pragma once
#include <utility>
#include <vector>

#include "ops/op.h"

namespace yuloh {

struct BackwardRequest {
  std::vector<Value> outputs, grads;  // grads[i] null: ones of the output's type
  std::vector<Value> wanted;          // paddle.grad: values whose gradients are returned
  std::vector<Value>
      before;          // what each of `wanted` has received already (null: nothing): sums go on from there
  bool leaves = true;  // collect gradients of leaves
  bool retain_graph = false, create_graph = false;
};
struct BackwardResult {
  std::vector<std::pair<Ref<LeafInfo>, Value>> leaves;
  std::vector<Value> wanted;  // null: unreachable
};
BackwardResult backward(const BackwardRequest& r);

// Gradients of one node with respect to its inputs (null: none), given those of its outputs.
Values node_gradient(const Node& n, const Values& g);

// What a function recorded since the node with id `first`, as values that keep nothing but what goes into it:
// its backward records the same nodes (and draws the same random numbers) once more. Values recorded before
// stay as they are.
Values recompute(const Values& outputs, uint64_t first);
// The gradient of the custom_grad that recompute made. `before`: what each input has received from nodes
// recorded later; what this node adds is added to that one by one, as without recompute, and the sums are
// returned.
Values replay_gradient(const Node& n, const Values& g, const Values& before);

}  // namespace yuloh
