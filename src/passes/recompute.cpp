// SPDX-License-Identifier: Apache-2.0
// Work that is cheaper to do again than to read from memory. The gradient of relu behind a batch norm asks where its
// result was positive; the norm's own gradient reads the norm's input in the same loop, so that the answer costs four
// operations there and the result is not read at all.
#include "ops/op.h"
#include "passes/passes.h"

namespace yuloh {

bool recompute_mask(const Ref<Node>& n, PassContext* c, Values* replacement) {
  static const OpDef *relu = find_op("relu"), *relu_grad = find_op("relu_grad"), *relu6 = find_op("relu6"),
                     *relu6_grad = find_op("relu6_grad"), *affine = find_op("norm_affine"),
                     *moments = find_op("channel_moments");
  const bool six = n->op == relu6_grad;
  if ((!six && n->op != relu_grad) || !c->options.keep_named) return false;
  const auto made_by = [](const Value& v, const OpDef* op) { return v.node->kind == Node::Kind::kOp && v.node->op == op; };
  const Value &y = n->inputs[0], &g = n->inputs[1];
  if (y.dtype() != DType::kFloat32 || !made_by(y, six ? relu6 : relu)) return false;
  const Value& z = y.node->inputs[0];
  if (!made_by(z, affine)) return false;
  const auto& in = z.node->inputs;
  // With the batch's own statistics x is kept for the norm's gradient; with others it might be kept for this alone.
  Value mean = in[1];
  while (mean.node->kind == Node::Kind::kOp && mean.node->op->view) {
    const Value below = mean.node->inputs[0];
    mean = below;
  }
  if (!made_by(mean, moments)) return false;
  *replacement = {call("norm_relu_grad", {in[0], in[1], in[2], in[3], in[4], g}, {{"six", six}})};
  return true;
}

}  // namespace yuloh
