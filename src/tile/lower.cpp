// SPDX-License-Identifier: Apache-2.0
// TileGroup -> TileProgram: choose the order of the axes, merge axes that every operand walks as one,
// describe operands, emit the nodes. Reductions dictate the nest (fuse_nest.h); maps follow the layout of
// their largest operands.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "ops/op.h"
#include "tile/fuse_state.h"
#include "tile/lower_emit.h"

namespace yuloh {
namespace {

double identity_of(ReduceKind k, DType t) {
  const bool real = is_float(t);
  switch (k) {
    case ReduceKind::kProd:
    case ReduceKind::kAll: return 1;
    case ReduceKind::kMax: return real ? -HUGE_VAL : static_cast<double>(INT64_MIN);
    case ReduceKind::kMin: return real ? HUGE_VAL : static_cast<double>(INT64_MAX);
    default: return 0;
  }
}

// Over booleans a maximum is "any" and a product is "all".
ReduceKind accumulator_kind(ReduceKind k, DType out) {
  if (out != DType::kBool) return k;
  return k == ReduceKind::kMax || k == ReduceKind::kSum || k == ReduceKind::kAny ? ReduceKind::kAny
                                                                                 : ReduceKind::kAll;
}

class Lowering {
 public:
  Lowering(const TileGroup& g, const FuseContext& ctx) : g_(g), ctx_(ctx) {
    const char* why = "";
    for (Node* n : g.nodes)
      if (!state_.add(n, ctx, &why))
        fail(ErrorKind::kRuntime, "lower: ", op_name(*n), " does not fit its group: ", why);
    trivial_ = state_.nest.mode == Nest::Mode::kMap;
    if (!trivial_) order_ = state_.nest.order;
    p_.n_buffers = static_cast<int>(g.inputs.size() + g.outputs.size());
  }

  TileProgram run() {
    if (state_.elements == 0 && g_.nodes[0]->op->reduce != ReduceKind::kNone) return empty_reduction();
    for (const auto& m : state_.members) emit(m);
    choose_nest();
    p_.needs_whole_rows = state_.nest.mode == Nest::Mode::kRow;
    emitter_.finish(&p_);
    return std::move(p_);
  }

 private:
  struct Operand {  // before axes are merged
    int buffer;
    DType dtype;
    Ints strides;  // over the domain
    bool output;
  };
  struct Result {
    int reg = -1;
    DType dtype;
    bool rounded = false;
  };

  int buffer_of(const Value& v, bool output) const {
    const auto& list = output ? g_.outputs : g_.inputs;
    const auto it = std::find(list.begin(), list.end(), v);
    if (it == list.end()) return -1;
    return static_cast<int>(it - list.begin()) + (output ? static_cast<int>(g_.inputs.size()) : 0);
  }
  int operand(const Value& v, const Ints& strides, bool output) {
    const int b = buffer_of(v, output);
    if (b < 0) fail(ErrorKind::kRuntime, "lower: an operand of the group has no pointer.");
    for (size_t i = 0; i < operands_.size(); ++i)
      if (operands_[i].buffer == b && operands_[i].strides == strides) return static_cast<int>(i);
    operands_.push_back({b, v.dtype(), strides, output});
    return static_cast<int>(operands_.size()) - 1;
  }
  Ints strides_of(const Value& v, Level level) const {
    return domain_strides(state_.domain, state_.rows, level, v.shape(), ctx_.strides(v));
  }
  bool per_row(const Ints& strides) const {
    return order_.empty() ||
           strides[order_.back()] == 0;  // axes only merge into the inner loop with an equal step
  }

  int argument(const Value& v, Level level) {
    if (const auto it = results_.find(v.node.get()); it != results_.end()) {
      Result& r = it->second;
      if (!r.rounded) r.reg = emitter_.round(r.reg, r.dtype), r.rounded = true;
      return r.reg;
    }
    if (is_tile_constant(*v.node)) return constant(v);
    const Ints strides = strides_of(v, level);
    return emitter_.load(operand(v, strides, false), v.dtype(), per_row(strides));
  }

  int constant(const Value& v) {
    bool exact;
    const int reg = emitter_.expression(*scalar_expr(Call(*v.node)), {}, {}, v.dtype(), &exact);
    return exact ? reg : emitter_.round(reg, v.dtype());
  }

  void emit(const GroupState::Member& m) {
    if (trivial_ && order_.empty() && state_.elements > 1) order_ = order_for_map();
    m.node->op->reduce != ReduceKind::kNone ? emit_reduce(m) : emit_scalar(m);
  }
  void emit_scalar(const GroupState::Member& m) {
    std::vector<int> args;
    std::vector<DType> dtypes;
    const Call call(*m.node);
    const auto expr = scalar_expr(call);
    for (uint32_t i = 0; i < m.node->inputs.size(); ++i) {
      const Value& v = m.node->inputs[i];
      const bool used = expr->uses_arg(static_cast<int>(i));
      args.push_back(used ? argument(v, m.level) : -1);
      dtypes.push_back(v.dtype());
    }
    const Value out(Ref<Node>(m.node), 0);
    Result r{.dtype = out.dtype()};
    r.reg = emitter_.expression(*expr, args, dtypes, r.dtype, &r.rounded);
    results_[m.node] = r;
    store(out, r.reg, strides_of(out, m.level));
  }
  void store(const Value& out, int reg, const Ints& strides) {
    if (buffer_of(out, true) < 0) return;
    emitter_.store(reg, operand(out, strides, true), out.dtype(), per_row(strides));
  }

  void emit_reduce(const GroupState::Member& m) {
    const Value out(Ref<Node>(m.node), 0);
    const ReduceKind kind = accumulator_kind(m.node->op->reduce, out.dtype());
    int reg = argument(m.node->inputs[0], Level::kFull);
    const bool logical = kind == ReduceKind::kAny || kind == ReduceKind::kAll;
    reg = emitter_.cast(reg, logical ? CType::kB8 : compute_type(out.dtype()));
    const Level shape_level = Call(*m.node).flag("keepdim") ? Level::kRowKeep : Level::kRowDrop;
    const Ints strides =
        domain_strides(state_.domain, reduced_axes(*m.node), shape_level, out.shape(), ctx_.strides(out));
    if (m.level != Level::kTerminal) {
      const int row = emitter_.cast(emitter_.row_reduce(reg, kind), compute_type(out.dtype()));
      results_[m.node] = {row, out.dtype(), false};
      return store(out, row, strides);
    }
    if (trivial_) return store(out, reg, strides);  // every reduced extent is 1
    if (buffer_of(out, true) < 0) return;           // nobody reads it
    const int64_t inner = order_.back();
    const bool columns = !(reduced_axes(*m.node) >> inner & 1);
    emitter_.accumulate(reg, kind, columns, operand(out, strides, true), out.dtype());
  }

  // A reduction over nothing: its result is the identity everywhere.
  TileProgram empty_reduction() {
    const Value& out = g_.outputs[0];
    const int reg = emitter_.full(
        emitter_.constant(identity_of(g_.nodes[0]->op->reduce, out.dtype()), compute_type(out.dtype())));
    state_.domain = out.shape();
    operands_.push_back({static_cast<int>(g_.inputs.size()), out.dtype(), ctx_.strides(out), true});
    order_ = axis_order(state_.domain, ctx_.strides(out));
    const bool one = numel(out.shape()) == 1;
    if (one) operands_[0].strides = Ints(out.rank(), 0);
    emitter_.store(reg, 0, out.dtype(), one);
    state_.nest = {};
    trivial_ = true;
    state_.elements = numel(out.shape());
    choose_nest();
    emitter_.finish(&p_);
    return std::move(p_);
  }

  // ---- the nest ----
  // The order of axes that most bytes of full-size operands agree on (outputs included: they are always
  // full).
  Ints order_for_map() const {
    std::vector<std::pair<Ints, double>> votes;
    auto vote = [&](const Value& v, const Ints& strides) {
      for (uint32_t a = 0; a < state_.domain.size(); ++a)
        if (state_.domain[a] > 1 && strides[a] == 0) return;
      const Ints order = axis_order(state_.domain, strides);
      const double bytes = static_cast<double>(dtype_size(v.dtype()));
      for (auto& [o, w] : votes)
        if (o == order) return void(w += bytes);
      votes.push_back({order, bytes});
    };
    for (const auto& e : state_.externals) vote(*e.value, e.strides);
    for (const Value& v : g_.outputs)
      if (const auto* m = state_.find(v.node.get()); m->level == Level::kFull)
        vote(v, strides_of(v, Level::kFull));
    if (votes.empty()) return axis_order(state_.domain, row_major_strides(state_.domain));
    auto best =
        std::max_element(votes.begin(), votes.end(), [](auto& a, auto& b) { return a.second < b.second; });
    return best->first;
  }

  void choose_nest() {
    const uint32_t n = order_.size();
    if (state_.elements == 0) {  // nothing to walk
      p_.inner = 0;
      for (const Operand& o : operands_) p_.operands.push_back({o.dtype, {}, 1, o.buffer});
      return;
    }
    // Segments that may not be merged across: kept | reduced | inner run (maps: one segment).
    auto segment = [&](uint32_t i) {
      if (trivial_) return 0;
      return i >= n - state_.nest.n_inner ? 2 : i < state_.nest.n_keep ? 0 : 1;
    };
    std::vector<Ints> strides(operands_.size());  // per operand, per merged dim
    Shape extents;
    std::vector<int> segments;
    for (uint32_t i = 0; i < n; ++i) {
      const int64_t axis = order_[i], extent = state_.domain[axis];
      bool merge = !extents.empty() && segments.back() == segment(i);
      for (size_t k = 0; merge && k < operands_.size(); ++k)
        merge = strides[k].back() == operands_[k].strides[axis] * extent;
      if (merge) extents.back() *= extent;
      else extents.push_back(extent), segments.push_back(segment(i));
      for (size_t k = 0; k < operands_.size(); ++k) {
        if (merge) strides[k].back() = operands_[k].strides[axis];
        else strides[k].push_back(operands_[k].strides[axis]);
      }
    }
    if (!extents.empty()) {
      p_.inner = extents.back();
      p_.outer = Shape(extents.begin(), extents.end() - 1);
      p_.keep = trivial_ ? 0 : static_cast<int>(std::count(segments.begin(), segments.end(), 0));
    }
    if (state_.nest.mode == Nest::Mode::kRow) p_.keep = 0;
    if (p_.outer.size() > TileProgram::kMaxOuter)
      fail(ErrorKind::kNotImplemented, op_name(*g_.nodes[0]), ": the operands need ", p_.outer.size() + 1,
           " separate loops, got shape ", state_.domain, "; expected at most ", TileProgram::kMaxOuter + 1,
           ". Hint: make the operand contiguous first.");
    for (size_t k = 0; k < operands_.size(); ++k) {
      const Ints& s = strides[k];
      TileOperand o{operands_[k].dtype, {}, s.empty() ? 0 : s.back(), operands_[k].buffer};
      for (uint32_t d = 0; d + 1 < s.size(); ++d) o.outer_strides.push_back(s[d]);
      p_.operands.push_back(std::move(o));
    }
  }

  const TileGroup& g_;
  const FuseContext& ctx_;
  GroupState state_;
  bool trivial_ = true;  // no reduction decides the nest
  Ints order_;
  Emitter emitter_;
  std::vector<Operand> operands_;
  std::map<const Node*, Result> results_;
  TileProgram p_;
};
}  // namespace

TileProgram lower(const TileGroup& group, const FuseContext& ctx) { return Lowering(group, ctx).run(); }

}  // namespace yuloh
