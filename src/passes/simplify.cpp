// SPDX-License-Identifier: Apache-2.0
// Simplifications that follow from the kind of row alone, whatever the op is called: a view that changes
// nothing, a reshape of a reshape, a view of a constant, an elementwise op whose expression is its argument
// or that broadcasts an operand anyway, a reduction over axes of extent 1.
#include "ops/op.h"
#include "passes/passes.h"

namespace yuloh {
namespace {

bool same_walk(const Shape& s, const Ints& a, const Ints& b) {
  for (uint32_t i = 0; i < s.size(); ++i)
    if (s[i] > 1 && a[i] != b[i]) return false;
  return true;
}
bool is_view(const Node& n) {
  return n.kind == Node::Kind::kOp && n.op->view && !n.op->barrier && n.outputs.size() == 1;
}

// Where the view of a row-major input lies; false if it would need a copy.
bool view_walk(const Node& n, Ints* strides, int64_t* offset) {
  *offset = 0;
  return n.op->view(Call(n), row_major_strides(n.inputs[0].shape()), strides, offset);
}
// Same elements in the same order under another shape.
bool is_reshape(const Node& n) {
  if (!is_view(n)) return false;
  const Shape& out = n.outputs[0].type.shape;
  if (numel(out) != numel(n.inputs[0].shape()) || numel(out) == 0) return false;
  Ints strides;
  int64_t offset;
  return view_walk(n, &strides, &offset) && offset == 0 && same_walk(out, strides, row_major_strides(out));
}
// The input repeated along new axes and axes of extent 1, as elementwise ops do by themselves.
bool is_broadcast(const Node& n) {
  if (!is_view(n)) return false;
  const Shape &in = n.inputs[0].shape(), &out = n.outputs[0].type.shape;
  if (in.size() > out.size()) return false;
  const Ints before = row_major_strides(in);
  Ints after;
  int64_t offset;
  if (!view_walk(n, &after, &offset) || offset != 0) return false;
  const uint32_t extra = out.size() - in.size();
  for (uint32_t i = 0; i < out.size(); ++i) {
    if (out[i] == 1 && (i < extra || in[i - extra] == 1)) continue;
    const bool repeated = i < extra || in[i - extra] != out[i];
    if (repeated ? after[i] != 0 : after[i] != before[i - extra]) return false;
  }
  return true;
}

Ints to_ints(const Shape& s) { return Ints(s.begin(), s.end()); }

bool simplify_view(const Ref<Node>& n, PassContext* c, Values* out) {
  const TensorType& t = n->outputs[0].type;
  if (!is_view(*n)) return false;
  const Node& in = *n->inputs[0].node;
  Ints after;
  int64_t offset;
  if (n->inputs[0].type() == t && view_walk(*n, &after, &offset) && offset == 0 &&
      same_walk(t.shape, row_major_strides(t.shape), after)) {
    c->fired = "view_of_everything";
    *out = {n->inputs[0]};
    return true;
  }
  static const OpDef* full = find_op("full");
  if (in.op && in.op == full) {
    c->fired = "view_of_a_constant";
    *out = {call("full", {},
                 {{"shape", to_ints(t.shape)}, {"value", Call(in).real("value")}, {"dtype", t.dtype}})};
    return true;
  }
  if (is_view(in) && is_reshape(*n) && is_reshape(in)) {
    c->fired = "reshape_twice";
    *out = {call("view_as_shape", {in.inputs[0]}, {{"shape", to_ints(t.shape)}})};
    return true;
  }
  return false;
}

// Bodies such as x * 1, assign, cast to the same dtype: the root of the expression is an argument.
bool identity_scalar(const Node& n, PassContext* c, Values* out) {
  bool candidate = false;  // recording an expression with static attributes costs; first look at the types
  for (const Value& v : n.inputs) candidate |= v.type() == n.outputs[0].type;
  if (!candidate) return false;
  const auto e = scalar_expr(Call(n));
  if (e->root < 0) return false;
  const ExprNode* root = &e->nodes[e->root];
  if (root->prim == Prim::kCast && static_cast<int>(root->imm) == static_cast<int>(n.outputs[0].type.dtype))
    root = &e->nodes[root->a];
  if (root->prim != Prim::kArg) return false;
  const Value& v = n.inputs[root->a];
  if (!(v.type() == n.outputs[0].type)) return false;
  c->fired = "elementwise_identity";
  *out = {v};
  return true;
}

// add(x, broadcast_to(b, shape of x)) reads b itself.
bool drop_broadcasts(const Ref<Node>& n, PassContext* c, Values* out) {
  SmallVec<Value, 3> inputs = n->inputs;
  bool changed = false;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (!is_broadcast(*inputs[i].node)) continue;
    const Value shown = inputs[i];
    inputs[i] = shown.node->inputs[0];
    Shape s;
    for (const Value& v : inputs) s = broadcast_shapes(n->op->name, s, v.shape());
    if (s == n->outputs[0].type.shape) changed = true;
    else inputs[i] = shown;
  }
  if (!changed) return false;
  c->fired = "broadcast_is_implied";
  *out = {Value(with_inputs(*n, std::move(inputs)), 0)};
  return true;
}

// concat(concat(a, b), c) along one axis is concat(a, b, c).
bool flatten_concat(const Node& n, PassContext* c, Values* out) {
  static const OpDef* concat = find_op("concat_same");
  if (!concat || n.op != concat) return false;
  const int64_t rank = n.outputs[0].type.shape.size();
  auto axis = [&](const Node& m) { return normalize_axis("concat", Call(m).integer("axis"), rank); };
  Values flat;
  for (const Value& v : n.inputs) {
    if (v.node->op == concat && axis(*v.node) == axis(n))
      for (const Value& x : v.node->inputs) flat.push_back(x);
    else flat.push_back(v);
  }
  if (flat.size() == n.inputs.size()) return false;
  c->fired = "concat_of_concat";
  *out = {call("concat_same", std::move(flat), {{"axis", axis(n)}})};
  return true;
}

bool trivial_reduction(const Node& n, PassContext* c, Values* out) {
  const ReduceKind k = n.op->reduce;
  const Value& x = n.inputs[0];
  if (numel(x.shape()) != numel(n.outputs[0].type.shape) || numel(x.shape()) == 0) return false;
  if ((k == ReduceKind::kAny || k == ReduceKind::kAll) && x.dtype() != DType::kBool) return false;
  const TensorType& t = n.outputs[0].type;
  const Value v = x.dtype() == t.dtype ? x : call("cast", {x}, {{"dtype", t.dtype}});
  c->fired = "reduction_of_extent_one";
  *out = {v.shape() == t.shape ? v : call("view_as_shape", {v}, {{"shape", to_ints(t.shape)}})};
  return true;
}
}  // namespace

bool simplify_node(const Ref<Node>& n, PassContext* c, Values* replacement) {
  if (n->op->view) return simplify_view(n, c, replacement);
  if (n->op->reduce != ReduceKind::kNone) return trivial_reduction(*n, c, replacement);
  if (!n->op->scalar && !n->op->expr && n->op->reduce == ReduceKind::kNone)
    return flatten_concat(*n, c, replacement);
  return identity_scalar(*n, c, replacement) || drop_broadcasts(n, c, replacement);
}

}  // namespace yuloh
