// SPDX-License-Identifier: Apache-2.0
#include "run/dry_parts.h"

#include <algorithm>
#include <utility>

#include "ops/op.h"

namespace yuloh {
namespace {
const ArgSpec* argument(const OpDef& op, std::string_view name) {
  const auto it =
      std::find_if(op.args.begin(), op.args.end(), [&](const ArgSpec& a) { return a.name == name; });
  return it == op.args.end() || it->is_input() ? nullptr : &*it;
}
bool flag(const Call& c, std::string_view name) { return argument(c.op, name) && c.flag(name); }

// The axes that a row with an `axis` argument mixes; nothing where it has none.
bool mixed_axes(const Call& c, Ints* axes) {
  const ArgSpec* axis = argument(c.op, "axis");
  if (!axis || c.n_in == 0 || !c.has("axis")) return false;
  const int64_t rank = c.type(0).shape.size();
  if (axis->kind == ArgKind::kInts) *axes = normalize_axes(c.op.name, c.ints("axis"), rank);
  else if (axis->kind == ArgKind::kInt && rank > 0)
    *axes = Ints{normalize_axis(c.op.name, c.integer("axis"), rank)};
  else return false;
  return true;
}
}  // namespace

int32_t DryParts::number_of(const Value& v) {
  // Views of what is there already are made as they are recorded: no flush has them.
  if (v.node->kind == Node::Kind::kOp && v.node->op->view && !v.node->inputs.empty() &&
      v.node->materialised(v.index) && !numbers_.count(v.node->id)) {
    const int32_t scope = std::exchange(scope_, v.node->pos.scope);
    numbers_[v.node->id];  // known from here on: add_part asks for the number of its result
    add_part(*v.node, flush_, -1);
    scope_ = scope;
  }
  std::vector<int32_t>& known = numbers_[v.node->id];
  if (known.size() <= v.index) known.resize(v.index + 1, -1);
  int32_t& number = known[v.index];
  if (number < 0) {
    number = static_cast<int32_t>(values.size());
    values.push_back({v.shape(), -1, -1, true, false});
  }
  return number;
}

void DryParts::leaves(const Value& v) {
  if (const auto it = numbers_.find(v.node->id);
      it != numbers_.end() && v.index < it->second.size() && it->second[v.index] >= 0)
    values[static_cast<size_t>(it->second[v.index])].leaves = true;
}

void DryParts::add(const Node& n, int32_t flush, int32_t number) {
  if (n.pos.scope < 0) return;
  scope_ = n.pos.scope, flush_ = flush;
  n.op->expand && !(n.extra && n.extra->region) ? take_apart(n, flush, number) : add_part(n, flush, number);
}

void DryParts::take_apart(const Node& n, int32_t flush, int32_t number) {
  Values stand_ins;
  for (const Value& v : n.inputs) {
    // What is known of an operand's value (a count, a seed) may decide about the body.
    const bool scalar = v.node->kind == Node::Kind::kScalar;
    stand_ins.push_back(scalar ? v : make_input(v.type(), static_cast<int64_t>(stand_ins.size())));
    if (!scalar) numbers_[stand_ins.back().node->id] = {number_of(v)};
  }
  const NoGrad no_grad;
  const Values results = n.op->expand(Call(*n.op, stand_ins.data(), stand_ins.size(), n.attrs));
  std::vector<Value> made_of;
  std::copy_if(results.begin(), results.end(), std::back_inserter(made_of),
               [](const Value& v) { return static_cast<bool>(v); });
  for (const Node* inner : topological(made_of))
    if (inner->kind == Node::Kind::kOp)
      inner->op->expand ? take_apart(*inner, flush, -1) : add_part(*inner, flush, -1);
  for (uint32_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    const int32_t made = number_of(results[i]);
    std::vector<int32_t>& known = numbers_[n.id];
    if (known.size() <= i) known.resize(i + 1, -1);
    known[i] = made;
    DryValue& v = values[static_cast<size_t>(made)];
    if (v.node < 0 && !v.leaf) v.flush = flush, v.node = number;
  }
}

void DryParts::add_part(const Node& n, int32_t flush, int32_t number) {
  const Call c(n);
  DryPart p;
  p.flush = flush, p.scope = scope_;
  for (const Value& v : n.inputs) p.in.push_back(number_of(v));
  for (uint32_t i = 0; i < n.outputs.size(); ++i) {
    p.out.push_back(number_of(Value(Ref<Node>(const_cast<Node*>(&n)), i)));
    DryValue& v = values[static_cast<size_t>(p.out.back())];
    v.leaf = false, v.flush = flush, v.node = number;
  }
  int64_t offset = 0;
  const OpDef& op = *n.op;
  if (op.scalar || op.expr) p.does = DryPart::Does::kEach;
  else if (op.view && c.n_in > 0 && op.view(c, row_major_strides(c.type(0).shape), &p.strides, &offset))
    p.does = DryPart::Does::kView;
  else if (op.contraction && kernel_kind(op) == "gemm" && c.n_in >= 2) p.does = DryPart::Does::kProduct;
  else if (!op.random && mixed_axes(c, &p.axes)) p.does = DryPart::Does::kAlong;
  p.transpose_x = flag(c, "transpose_x"), p.transpose_y = flag(c, "transpose_y");
  parts.push_back(std::move(p));
}

}  // namespace yuloh
