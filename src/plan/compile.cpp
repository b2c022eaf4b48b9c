// SPDX-License-Identifier: Apache-2.0
// Graph -> Plan: passes, layouts, fusion and order (schedule.cpp), kernels, then memory (memory.cpp).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <unordered_map>

#include "passes/passes.h"
#include "plan/builder.h"
#include "plan/plan.h"
#include "tile/fuse.h"

namespace yuloh {
namespace {

bool same_strides(const Shape& s, const Ints& a, const Ints& b) {
  for (uint32_t i = 0; i < s.size(); ++i)
    if (s[i] > 1 && a[i] != b[i]) return false;
  return true;
}

bool is_dense_layout(const PlanValue& v) { return is_dense_in_order(v.type.shape, v.strides); }

// Axes of `strides` from slowest to fastest; extents of 1 keep their place.
Ints axis_order(const Shape& s, const Ints& strides) {
  Ints ax;
  for (uint32_t i = 0; i < s.size(); ++i) ax.push_back(i);
  std::stable_sort(ax.begin(), ax.end(), [&](int64_t a, int64_t b) {
    if (s[a] == 1 || s[b] == 1) return false;
    return strides[a] > strides[b];
  });
  return ax;
}

class Lap {  // adds the time since the last call to a part
 public:
  void to(double* part) {
    const auto now = std::chrono::steady_clock::now();
    *part += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// A composite stays whole, and ops are joined, only if a kernel surely takes it: one that fits its types in
// the layouts that the kernel itself asks for.
bool taken_whole(const Node& n) {
  const auto& list = candidates_for(n.op->name);
  if (list.empty()) return false;
  KernelRequest r{Call(n), {}, {}};
  for (const Value& v : n.inputs) r.in.push_back({v.type(), row_major_strides(v.shape())});
  for (const auto& o : n.outputs) r.out.push_back({o.type, row_major_strides(o.type.shape)});
  std::string why;
  return std::any_of(list.begin(), list.end(),
                     [&](const Candidate& c) { return c.layouts && c.fits(r, &why); });
}
}  // namespace

CompileSeconds& compile_seconds() {
  static CompileSeconds s;
  return s;
}

PlanBuilder::PlanBuilder(const Graph& graph, std::vector<PlanInput> inputs, const PlanOptions& options)
    : options_(options), plan_(std::make_shared<Plan>()) {
  plan_->inputs = std::move(inputs);
  PassOptions po;
  po.rules = options.rules;
  Lap lap;
  po.keep_named = [&](const Node& n) { return options_.library && taken_whole(n); };
  graph_ = run_passes(graph, po);
  order_ = topological(graph_.outputs);
  lap.to(&compile_seconds().passes);
}

int PlanBuilder::id(const Value& v) const { return base_[v.node->slot] + static_cast<int>(v.index); }

int PlanBuilder::new_value(const TensorType& t, Ints strides) {
  values_.push_back({t, std::move(strides), static_cast<int>(values_.size()), 0});
  return static_cast<int>(values_.size()) - 1;
}

// ---- layouts ----

void PlanBuilder::number_values() {
  for (size_t i = 0; i < order_.size(); ++i) {
    Node* n = order_[i];
    n->slot = static_cast<uint32_t>(i);
    base_.push_back(static_cast<int>(values_.size()));
    for (auto& o : n->outputs) new_value(o.type, row_major_strides(o.type.shape));
  }
  for (const Value& v : graph_.outputs) values_[id(v)].is_output = true;
}

void PlanBuilder::assign_layouts() {
  for (Node* n : order_) {
    if (n->kind == Node::Kind::kInput) {
      values_[id({n, 0})].strides = plan_->inputs[n->attrs[0]].strides;
      values_[id({n, 0})].donatable = plan_->inputs[n->attrs[0]].donatable;
    } else if (n->kind == Node::Kind::kOp) {
      if (n->op->view) layout_view(*n);
      else if (is_tile_node(*n)) layout_tile(*n);
      else layout_library(*n);
    }
  }
}

void PlanBuilder::layout_view(Node& n) {
  int in = id(n.inputs[0]);
  Ints strides;
  int64_t offset = 0;
  if (!n.op->view(Call(n), values_[in].strides, &strides, &offset)) {  // e.g. reshape across a permutation
    in = copied(in, row_major_strides(values_[in].type.shape));
    strides.clear(), offset = 0;
    if (!n.op->view(Call(n), values_[in].strides, &strides, &offset))
      fail(ErrorKind::kRuntime, n.op->name, ": not a view of a contiguous tensor.");
  }
  PlanValue& o = values_[id({&n, 0})];
  o.strides = strides;
  o.root = values_[in].root;
  o.offset = values_[in].offset + offset;
}

// Elementwise results follow their largest dense operand, reductions keep the order of the axes that remain.
void PlanBuilder::layout_tile(Node& n) {
  PlanValue& out = values_[id({&n, 0})];
  const Shape& shape = out.type.shape;
  if (n.op->reduce != ReduceKind::kNone) {
    const PlanValue& in = values_[id(n.inputs[0])];
    if (in.type.shape.size() == shape.size())
      out.strides = strides_in_order(shape, axis_order(in.type.shape, in.strides));
    return;
  }
  // State that is updated in place (parameters, moments) keeps its layout: the result can take its storage
  // over.
  for (const Value& v : n.inputs) {
    if (v.node->kind != Node::Kind::kInput || !plan_->inputs[v.node->attrs[0]].donatable) continue;
    const PlanValue& in = values_[id(v)];
    if (in.type == out.type && is_dense_layout(in)) return (void)(out.strides = in.strides);
  }
  for (const Value& v : n.inputs) {
    const PlanValue& in = values_[id(v)];
    if (!(in.type.shape == shape) || !is_dense_layout(in)) continue;
    out.strides = is_row_major(shape, in.strides) ? row_major_strides(shape) : in.strides;
    if (!is_row_major(shape, in.strides)) return;
  }
}

LayoutWish PlanBuilder::wish(const Node& n) const {
  if (options_.library)
    for (const Candidate& c : candidates_for(n.op->name))
      if (c.layouts) return c.layouts(Call(n));
  LayoutWish w;
  if (!n.op->channels_last || candidates_for(n.op->name).empty() || !options_.library) return w;
  if (n.inputs[0].rank() >= 3) w.in.push_back(channels_last_strides(n.inputs[0].shape()));
  for (auto& o : n.outputs)
    w.out.push_back(o.type.shape.size() >= 3 ? channels_last_strides(o.type.shape) : Ints());
  return w;
}

void PlanBuilder::layout_library(Node& n) {
  const LayoutWish w = wish(n);
  for (uint32_t k = 0; k < n.outputs.size() && k < w.out.size(); ++k)
    if (!w.out[k].empty() || n.outputs[k].type.shape.empty()) values_[id({&n, k})].strides = w.out[k];
}

// ---- emission ----

FuseContext PlanBuilder::fuse_context() const {
  FuseContext ctx;
  ctx.enabled = options_.fusion;
  ctx.needed_outside = [this](const Value& v) { return values_[id(v)].is_output; };
  ctx.strides = [this](const Value& v) -> const Ints& { return values_[id(v)].strides; };
  return ctx;
}

int PlanBuilder::copied(int v, const Ints& strides) {
  if (same_strides(values_[v].type.shape, values_[v].strides, strides)) return v;
  for (const auto& [from, to] : copies_)
    if (from == v && same_strides(values_[to].type.shape, values_[to].strides, strides)) return to;
  const int r = new_value(values_[v].type, strides);
  copies_.push_back({v, r});
  return r;
}

void PlanBuilder::emit_copy(int from, int to, int origin) {
  const Value in = make_input(values_[from].type, 0);
  NoGrad guard;
  const Value out = call("assign", {in});
  FuseContext ctx;
  ctx.needed_outside = [](const Value&) { return true; };
  ctx.strides = [&](const Value& v) -> const Ints& { return values_[v.node == in.node ? from : to].strides; };
  TileGroup g{{out.node.get()}, {in}, {out}};
  BuildStep s;
  s.program = std::make_shared<TileProgram>(lower(g, ctx));
  s.kernel = make_tile_kernel(*s.program);
  s.in = {from}, s.out = {to}, s.origin = origin, s.what = "copy";
  steps_.push_back(std::move(s));
  values_[to].written = true;
}

// A value in the layout a kernel wants; emits the copy at its first use.
int PlanBuilder::use(int v, const Ints* strides, int origin) {
  int r = strides && !strides->empty() ? copied(v, *strides) : v;
  ensure_written(r, origin);
  return r;
}
void PlanBuilder::ensure_written(int v, int origin) {
  const int root = values_[v].root;
  if (values_[root].written) return;
  for (size_t i = 0; i < copies_.size(); ++i)
    if (copies_[i].second == root) {
      const int from = copies_[i].first;
      ensure_written(from, origin);
      return emit_copy(from, root, origin);
    }
  fail(ErrorKind::kRuntime, "plan: a value is read before it is made.");
}

void PlanBuilder::emit_group(Unit& u) {
  BuildStep s;
  s.origin = u.group.nodes.back()->pos.instr;
  for (const Value& v : u.group.inputs) s.in.push_back(use(id(v), nullptr, s.origin));
  s.program = std::make_shared<TileProgram>(lower(u.group, fuse_context()));
  s.kernel = make_tile_kernel(*s.program);
  for (const Value& v : u.group.outputs) s.out.push_back(id(v)), values_[id(v)].written = true;
  for (Node* n : u.group.nodes) {
    s.what += (s.what.empty() ? "" : "+") + n->op->name;
    if (*n->op->kind) s.kind = n->op->kind;
    else if (n->op->reduce != ReduceKind::kNone && s.kind == "elementwise") s.kind = "reduction";
  }
  s.may_donate = u.may_donate && options_.donate;
  steps_.push_back(std::move(s));
}

void PlanBuilder::emit_node(Unit& u) {
  Node& n = *u.node;
  BuildStep s;
  s.origin = n.pos.instr;
  s.what = n.op->name;
  s.kind = kernel_kind(*n.op);
  if (s.kind == "conv" && Call(n).integer("groups") > 1) s.kind = "depthwise";
  s.checks = n.op->checks;
  if (n.inputs.empty() && !n.op->random && n.op->host && n.outputs.size() == 1 &&
      numel(n.outputs[0].type.shape) <= 4096 && !values_[id({&n, 0})].is_output)
    return emit_constant(n);
  const LayoutWish w = wish(n);
  KernelRequest r{Call(n), {}, {}};
  for (uint32_t i = 0; i < n.inputs.size(); ++i) {
    s.in.push_back(use(id(n.inputs[i]), i < w.in.size() ? &w.in[i] : nullptr, s.origin));
    r.in.push_back({values_[s.in[i]].type, values_[s.in[i]].strides});
    const Node& from = *n.inputs[i].node;
    if (from.kind == Node::Kind::kInput && s.in[i] == id(n.inputs[i]))
      r.in.back().fixed = plan_->inputs[static_cast<size_t>(from.attrs[0])].fixed.get();
  }
  for (uint32_t k = 0; k < n.outputs.size(); ++k) {
    s.out.push_back(id({&n, k}));
    r.out.push_back({values_[s.out[k]].type, values_[s.out[k]].strides});
  }
  if (n.extra && n.extra->region) s.kernel = make_region_kernel(r, *n.extra->region, options_);
  std::string chosen;
  std::vector<std::string> refusals;
  if (!s.kernel && options_.library)
    s.kernel = make_candidate(r, &chosen, options_.explain ? &refusals : nullptr);
  for (const std::string& line : refusals) {
    plan_->explain.push_back(line);
    s.refused += (s.refused.empty() ? "" : "; ") + line.substr(line.find(": ") + 2);
  }
  std::vector<std::pair<int, int>> moves;  // reference results go through row-major temporaries
  if (!s.kernel) {
    for (uint32_t k = 0; k < n.outputs.size(); ++k) {
      const Shape& shape = n.outputs[k].type.shape;
      if (is_row_major(shape, r.out[k].strides)) continue;
      r.out[k].strides = row_major_strides(shape);
      const int tmp = new_value(n.outputs[k].type, r.out[k].strides);
      moves.push_back({tmp, s.out[k]}), s.out[k] = tmp;
    }
    s.kernel = make_reference(r);
  }
  if (!chosen.empty()) s.what += ":" + chosen;
  for (int o : s.out) values_[o].written = true;
  steps_.push_back(std::move(s));
  for (auto [tmp, out] : moves) emit_copy(tmp, out, n.pos.instr);
}

void PlanBuilder::emit_constant(Node& n) {
  const int v = id({&n, 0});
  KernelRequest r{Call(n), {}, {{values_[v].type, row_major_strides(values_[v].type.shape)}}};
  values_[v].strides = r.out[0].strides;
  auto storage = allocate_storage(
      std::max<size_t>(1, numel(n.outputs[0].type.shape) * dtype_size(n.outputs[0].type.dtype)));
  void* ptrs[1] = {storage->data};
  make_reference(r)->run(ptrs);
  constant_of_[v] = static_cast<int>(plan_->constants.size());
  plan_->constants.push_back(storage);
  values_[v].written = true;
}

std::shared_ptr<const Plan> PlanBuilder::build() {
  CompileSeconds& spent = compile_seconds();
  Lap lap;
  number_values();
  assign_layouts();
  lap.to(&spent.layouts);
  make_units();
  lap.to(&spent.fusion);
  const double primitives = spent.primitives;
  for (Node* n : order_)
    if (n->kind == Node::Kind::kInput) values_[id({n, 0})].written = true;
  for (int u : schedule_) {
    try {
      units_[u].node ? emit_node(units_[u]) : emit_group(units_[u]);
    } catch (Error& e) {
      const Node& n = units_[u].node ? *units_[u].node : *units_[u].group.nodes.back();
      if (e.origin < 0) e.origin = n.pos.instr;
      throw;
    }
  }
  for (const Value& v : graph_.outputs) {
    int x = id(v);
    if (const PlanValue& o = values_[x]; options_.row_major_outputs && !is_row_major(o.type.shape, o.strides))
      x = copied(x, row_major_strides(o.type.shape));
    ensure_written(x, v.node->pos.instr);
    output_ids_.push_back(x);
  }
  lap.to(&spent.kernels);
  spent.kernels -= spent.primitives - primitives;
  plan_memory();
  lap.to(&spent.memory);
  static std::atomic<uint64_t> serial{0};
  plan_->serial = ++serial;
  return plan_;
}

std::shared_ptr<const Plan> compile_plan(const Graph& graph, std::vector<PlanInput> inputs,
                                         const PlanOptions& options) {
  NoGrad guard;
  const SourcePos saved = modes().pos;
  auto plan = PlanBuilder(graph, std::move(inputs), options).build();
  modes().pos = saved;
  return plan;
}

}  // namespace yuloh
