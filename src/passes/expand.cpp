// SPDX-License-Identifier: Apache-2.0
// A composite op is replaced by its body unless a kernel candidate takes it whole (DESIGN 2.2).
#include "ops/op.h"
#include "passes/passes.h"

namespace yuloh {

bool expand_node(const Ref<Node>& n, PassContext* c, Values* replacement) {
  if (!n->op->expand) return false;
  if (c->options.keep_named && c->options.keep_named(*n)) return false;
  *replacement = n->op->expand(Call(*n));
  return true;
}

// A kernel that reads half precision needs no widened copy of it.
bool absorb_cast(const Ref<Node>& n, PassContext* c, Values* replacement) {
  static const OpDef* cast = find_op("cast");
  if (!n->op->takes_narrow || !c->options.keep_named) return false;
  const Value x = n->inputs[0];
  if (x.node->kind != Node::Kind::kOp || x.node->op != cast || !is_half(x.node->inputs[0].dtype()))
    return false;
  SmallVec<Value, 3> inputs = n->inputs;
  inputs[0] = x.node->inputs[0];
  AttrEncoder attrs;
  const Call old(*n);
  for (const ArgSpec& a : n->op->args)
    if (!a.is_input()) attrs.add(a, a.name == "dtype" ? AttrValue(x.dtype()) : attr_value(old, a));
  const Values out = apply(*n->op, Values(inputs.begin(), inputs.end()), std::move(attrs.words));
  if (!c->options.keep_named(*out[0].node)) return false;
  *replacement = out;
  return true;
}

}  // namespace yuloh
