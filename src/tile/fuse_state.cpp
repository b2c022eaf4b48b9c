// SPDX-License-Identifier: Apache-2.0
#include "tile/fuse_state.h"

namespace yuloh {
namespace {
bool refuse(const char** why, const char* reason) {
  *why = reason;
  return false;
}
}  // namespace

const GroupState::Member* GroupState::find(const Node* n) const {
  for (size_t i = members.size(); i-- > 0;)
    if (members[i].node == n) return &members[i];
  return nullptr;
}

bool GroupState::add(Node* n, const FuseContext& ctx, const char** why) {
  if (closed) return refuse(why, "the group is closed");
  if (members.size() >= kMaxNodes) return refuse(why, "the group has too many nodes");
  const size_t before = externals.size();
  const bool ok = n->op->reduce != ReduceKind::kNone ? add_reduce(n, ctx, why) : add_scalar(n, ctx, why);
  if (!ok) externals.erase(externals.begin() + before, externals.end());
  return ok;
}

// One operand: a member's value (then the levels must agree) or memory (then the nest must be able to walk
// it).
bool GroupState::read(const Value& v, Level reader, const FuseContext& ctx, const char** why) {
  if (const Member* m = find(v.node.get())) {
    if (m->level == Level::kTerminal) return refuse(why, "it needs a reduction that ends with the loop");
    if (m->level == Level::kFull && reader == Level::kFull) return true;
    if (m->level == Level::kRowKeep && reader != Level::kRowDrop) return true;
    if (m->level == Level::kRowKeep && row_shape(domain, rows, Level::kRowDrop).empty()) return true;
    if (m->level == Level::kRowDrop && reader == Level::kRowDrop) return true;
    return refuse(why, "a per-row value meets another alignment");
  }
  if (is_tile_constant(*v.node)) return true;
  Ints strides = domain_strides(domain, rows, reader, v.shape(), ctx.strides(v));
  for (const External& e : externals)
    if (*e.value == v && e.strides == strides) return true;
  if (externals.size() >= kMaxInputs && !members.empty()) return refuse(why, "too many operands");
  if (!run_merges(domain, nest.order, nest.n_inner, strides))
    return refuse(why, "an operand cannot follow the reduction's inner loop");
  externals.push_back({&v, std::move(strides)});
  return true;
}

bool GroupState::add_scalar(Node* n, const FuseContext& ctx, const char** why) {
  const Shape& out = n->outputs[0].type.shape;
  if (!has_domain()) domain = out, elements = numel(out);
  bool ok;
  const Level level = scalar_level(domain, rows, nest.mode == Nest::Mode::kRow, out, &ok);
  if (!ok) return refuse(why, "the iteration domains differ");
  if (elements == 0) closed = true;
  for (const Value& v : n->inputs)
    if (!read(v, level, ctx, why)) return false;
  members.push_back({n, level});
  return true;
}

bool GroupState::add_reduce(Node* n, const FuseContext& ctx, const char** why) {
  const Value& x = n->inputs[0];
  if (!has_domain()) domain = x.shape(), elements = numel(domain);
  if (!(x.shape() == domain)) return refuse(why, "the reduction walks another domain");
  const AxisMask axes = reduced_axes(*n);
  if (domain.size() > TileProgram::kMaxOuter && !members.empty()) return refuse(why, "too many axes");
  const Value out(Ref<Node>(n), 0);
  const Level shape_level = Call(*n).flag("keepdim") ? Level::kRowKeep : Level::kRowDrop;
  const Nest mine = reduce_nest(domain, axes, ctx.strides(x),
                                domain_strides(domain, axes, shape_level, out.shape(), ctx.strides(out)));
  if (elements == 0 || mine.mode == Nest::Mode::kMap) {  // an empty or one-element reduction stands alone
    if (!members.empty()) return refuse(why, "a trivial reduction stands alone");
    closed = true;
  }
  Nest joint = mine;
  if (nest.mode != Nest::Mode::kMap && !join_nests(nest, mine, &joint))
    return refuse(why, "the reductions have different trees");
  if (mine.mode == Nest::Mode::kRow && rows && rows != axes)
    return refuse(why, "the row reductions name different axes");
  for (const External& e : externals)
    if (!run_merges(domain, joint.order, joint.n_inner, e.strides))
      return refuse(why, "an operand cannot follow the reduction's inner loop");
  const Nest saved = nest;
  nest = std::move(joint);
  if (!read(x, Level::kFull, ctx, why)) {
    nest = saved;
    return false;
  }
  if (mine.mode == Nest::Mode::kRow) rows = axes;
  Level level = Level::kTerminal;
  if (mine.mode == Nest::Mode::kRow) {
    level = row_shape(domain, axes, Level::kRowDrop).empty() ? Level::kRowKeep : shape_level;
  }
  members.push_back({n, level});
  return true;
}

}  // namespace yuloh
