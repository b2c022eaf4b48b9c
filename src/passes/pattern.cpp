// SPDX-License-Identifier: Apache-2.0
#include "passes/pattern.h"

#include <algorithm>

namespace yuloh {

AttrValue attr_value(const Call& c, const ArgSpec& a) {
  if (!c.has(a.name)) return std::monostate{};
  switch (a.kind) {
    case ArgKind::kInt: return c.integer(a.name);
    case ArgKind::kFloat: return c.real(a.name);
    case ArgKind::kBool: return c.flag(a.name);
    case ArgKind::kStr: return c.str(a.name);
    case ArgKind::kDType: return c.dtype(a.name);
    case ArgKind::kInts: return c.ints(a.name);
    default: return c.reals(a.name);
  }
}

namespace {

Pat make(Pattern p) { return std::make_shared<const Pattern>(std::move(p)); }

// Axes are compared as axes, not as spelled: -1 of rank 3 is 2.
AttrValue canonical(AttrValue v, const ArgSpec& a, const Value& x) {
  if (a.name != "axis" || !x) return v;
  const int64_t rank = x.rank();
  if (auto* i = std::get_if<int64_t>(&v); i && *i < 0) *i += rank;
  if (std::holds_alternative<std::monostate>(v) && a.kind == ArgKind::kInts) v = Ints();
  if (auto* l = std::get_if<Ints>(&v)) v = normalize_axes("axis", *l, rank);
  return v;
}

bool match_attrs(const Pattern& p, const Node& n, Bindings* b) {
  const Call c(n);
  for (const ArgSpec& a : n.op->args) {
    if (a.is_input()) continue;
    const auto it =
        std::find_if(p.attrs.begin(), p.attrs.end(), [&](const PatAttr& x) { return a.name == x.name; });
    const Value x = n.inputs.empty() ? Value() : n.inputs[0];
    const AttrValue have = canonical(attr_value(c, a), a, x);
    if (it == p.attrs.end()) {
      if (!a.has_default || !(have == canonical(default_of(a), a, x))) return false;
    } else if (!it->var) {
      if (!(have == canonical(it->value, a, x))) return false;
    } else if (const AttrValue* bound = b->attr(it->var)) {
      if (!(have == *bound)) return false;
    } else {
      b->set(it->var, have);
    }
  }
  return true;
}

bool commutes(const std::string& op) {
  return op == "add" || op == "multiply" || op == "maximum" || op == "minimum";
}

bool is_number(const Value& v, double want) {
  static const OpDef* full = find_op("full");
  return v.node->op == full && full && Call(*v.node).real("value") == want;
}

bool match_inputs(const Pattern& p, const Node& n, const std::vector<int>& order, Bindings* b) {
  Bindings attempt = *b;
  for (size_t i = 0; i < p.in.size(); ++i)
    if (!match(p.in[i], n.inputs[order[i]], &attempt)) return false;
  *b = std::move(attempt);
  return true;
}
}  // namespace

Pat any(const char* name) { return make({Pattern::Kind::kVar, name}); }
Pat number(double v) { return make({Pattern::Kind::kConst, "", v}); }
Pat op(const char* name, std::vector<Pat> in, std::vector<PatAttr> attrs) {
  return make({Pattern::Kind::kOp, name, 0, std::move(in), std::move(attrs)});
}

const Value* Bindings::value(const std::string& name) const {
  for (auto& [n, v] : values)
    if (n == name) return &v;
  return nullptr;
}
const AttrValue* Bindings::attr(const std::string& name) const {
  for (auto& [n, v] : attrs)
    if (n == name) return &v;
  return nullptr;
}

bool match(const Pat& p, const Value& v, Bindings* b) {
  if (p->kind == Pattern::Kind::kVar) {
    if (const Value* bound = b->value(p->name)) return *bound == v;
    b->values.emplace_back(p->name, v);
    return true;
  }
  const Node& n = *v.node;
  if (n.kind != Node::Kind::kOp || v.index != 0) return false;
  if (p->kind == Pattern::Kind::kConst) return is_number(v, p->value);
  if (n.op->name != p->name || n.inputs.size() != p->in.size() || !match_attrs(*p, n, b)) return false;
  if (!match_inputs(*p, n, {0, 1, 2, 3, 4, 5}, b) &&
      !(p->in.size() == 2 && commutes(p->name) && match_inputs(*p, n, {1, 0}, b)))
    return false;
  b->nodes.push_back(&n);
  return true;
}

Value build(const Pat& p, const Bindings& b, DType dtype) {
  if (p->kind == Pattern::Kind::kVar) return *b.value(p->name);
  if (p->kind == Pattern::Kind::kConst)
    return call("full", {}, {{"shape", Ints()}, {"value", p->value}, {"dtype", dtype}});
  Values in;
  for (const Pat& x : p->in) {
    DType t = dtype;  // a number takes the type of a sibling
    for (const Pat& y : p->in)
      if (y->kind == Pattern::Kind::kVar) t = b.value(y->name)->dtype();
    in.push_back(build(x, b, t));
  }
  const OpDef& row = get_op(p->name);
  AttrEncoder attrs;
  for (const ArgSpec& a : row.args) {
    if (a.kind == ArgKind::kOptTensor) attrs.add_count(1);
    if (a.kind == ArgKind::kTensorList)
      attrs.add_count(static_cast<int64_t>(p->in.size()));  // lists stand alone
    if (a.is_input()) continue;
    const auto it =
        std::find_if(p->attrs.begin(), p->attrs.end(), [&](const PatAttr& x) { return a.name == x.name; });
    attrs.add(a, it == p->attrs.end() ? default_of(a) : it->var ? *b.attr(it->var) : it->value);
  }
  return apply(row, std::move(in), std::move(attrs.words))[0];
}

}  // namespace yuloh
