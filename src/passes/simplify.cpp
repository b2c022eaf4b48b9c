// SPDX-License-Identifier: Apache-2.0
// Identities that follow from the kind of row alone, whatever the op is called: a view that changes nothing, an
// elementwise op whose expression is its argument, a reduction over axes of extent 1.
#include "ops/op.h"
#include "passes/passes.h"

namespace yuloh {
namespace {

bool same_walk(const Shape& s, const Ints& a, const Ints& b) {
  for (uint32_t i = 0; i < s.size(); ++i)
    if (s[i] > 1 && a[i] != b[i]) return false;
  return true;
}

bool identity_view(const Node& n, Values* out) {
  const TensorType& t = n.outputs[0].type;
  if (n.outputs.size() != 1 || !(n.inputs[0].type() == t)) return false;
  const Ints before = row_major_strides(t.shape);
  Ints after;
  int64_t offset = 0;
  if (!n.op->view(Call(n), before, &after, &offset) || offset != 0 || !same_walk(t.shape, before, after)) return false;
  *out = {n.inputs[0]};
  return true;
}

// Bodies such as x * 1, assign, cast to the same dtype: the root of the expression is an argument.
bool identity_scalar(const Node& n, Values* out) {
  bool candidate = false;  // recording an expression with static attributes costs; first look at the types
  for (const Value& v : n.inputs) candidate |= v.type() == n.outputs[0].type;
  if (!candidate) return false;
  const auto e = scalar_expr(Call(n));
  if (e->root < 0) return false;
  const ExprNode* root = &e->nodes[e->root];
  if (root->prim == Prim::kCast && static_cast<int>(root->imm) == static_cast<int>(n.outputs[0].type.dtype)) root = &e->nodes[root->a];
  if (root->prim != Prim::kArg) return false;
  const Value& v = n.inputs[root->a];
  if (!(v.type() == n.outputs[0].type)) return false;
  *out = {v};
  return true;
}
}  // namespace

bool simplify_node(const Ref<Node>& n, PassContext*, Values* replacement) {
  const OpDef& op = *n->op;
  if (op.view) return identity_view(*n, replacement);
  if (op.scalar || op.expr) return identity_scalar(*n, replacement);
  return false;
}

}  // namespace yuloh
