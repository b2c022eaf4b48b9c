// SPDX-License-Identifier: Apache-2.0
// A product and the bias that is added to its rows become one op: the bias is added while the result is in registers,
// which saves a trip of the whole result through memory. In float32 only: the sum is rounded when the bias is added, as it
// would be on its way to memory. In half precision one rounding would be missing, unless somebody reads the product.
#include "ops/matmul.h"
#include "passes/passes.h"

namespace yuloh {

bool join_bias(const Ref<Node>& n, PassContext* c, Values* replacement) {
  static const OpDef *add = find_op("add"), *matmul = find_op("matmul"), *joined = find_op("matmul_bias");
  constexpr int64_t kSmall = 400000;  // multiplications: below, the product is not the library's (cpu/gemm.cpp)
  if (n->op != add || !c->options.keep_named) return false;
  for (int k = 0; k < 2; ++k) {
    const Value &z = n->inputs[k], &bias = n->inputs[1 - k];
    if (z.node->kind != Node::Kind::kOp || z.node->op != matmul || c->shared.count(z.node.get())) continue;
    if (z.dtype() != DType::kFloat32 || bias.dtype() != z.dtype()) continue;
    const Value &x = z.node->inputs[0], &y = z.node->inputs[1];
    if (x.rank() < 2 || y.rank() != 2 || !(bias.shape() == Shape{z.shape().back()})) continue;
    const Call call(*z.node);
    const MatmulShape s = matmul_shape(call);
    const int64_t rows = numel(s.batch) * s.m;
    if (rows < 2 || s.n < 2 || rows * s.n * s.k <= kSmall) continue;
    AttrEncoder attrs;
    for (const ArgSpec& a : joined->args)
      if (!a.is_input()) attrs.add(a, AttrValue(call.flag(a.name)));
    const Values out = apply(*joined, {x, y, bias}, std::move(attrs.words));
    if (!c->options.keep_named(*out[0].node)) return false;
    *replacement = out;
    return true;
  }
  return false;
}

}  // namespace yuloh
