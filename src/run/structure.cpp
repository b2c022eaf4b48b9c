// SPDX-License-Identifier: Apache-2.0
#include "run/structure.h"

#include <cstdlib>

#include "passes/passes.h"
#include "plan/profile.h"
#include "run/dry_run.h"
#include "run/tensor.h"

namespace yuloh {
namespace {

bool is_scalar(const Value& v) { return v.node->kind == Node::Kind::kScalar; }
const Buffer& buffer_of(const Value& v) { return *v.node->outputs[v.index].buffer; }
// Codes of node inputs: odd = leaf number, even = (node, output).
uint64_t output_code(const Value& v) { return uint64_t{v.node->slot} << 32 | uint64_t{v.index} << 1; }

// sigmoid's gradient reads sigmoid's result: an in-place op on it must not take the buffer while the tape
// lives.
bool own_gradient_reads(const Value& v) {
  const Node& n = *v.node;
  return n.kind == Node::Kind::kOp && n.requires_grad && !n.released && (needs_outputs(n) >> v.index & 1);
}

// By structure, as everything else: a body that is recorded anew is the same plan, and an address may be used
// again.
void mix_region(PlanKey* k, const Graph& g) {
  std::unordered_map<const Node*, uint64_t> number;
  auto mix = [&](const Value& v) {
    const auto it = number.find(v.node.get());
    if (it == number.end())
      fail(ErrorKind::kRuntime, "loop: the body reads a value that is not one of its inputs.");
    k->mix(it->second << 32 | v.index);
  };
  for (const Node* n : topological(g.outputs)) {
    k->mix(static_cast<uint64_t>(n->kind) | uint64_t{n->op ? n->op->uid : 0} << 2);
    k->mix(static_cast<uint64_t>(n->outputs[0].type.dtype));
    for (Dim d : n->outputs[0].type.shape) k->mix(static_cast<uint64_t>(d));
    for (int64_t w : n->attrs) k->mix(static_cast<uint64_t>(w));
    for (const Value& v : n->inputs) mix(v);
    if (n->extra && n->extra->region) mix_region(k, *n->extra->region);
    number.emplace(n, number.size());
  }
  for (const Value& v : g.outputs) mix(v);
}

// YULOH_EXPLAIN=plan,fusion,kernels: what was compiled, what did not fuse and why, which candidates refused
// and why.
void explain(const Plan& plan, std::string_view want) {
  if (want.find("plan") != want.npos) fputs(plan.dump().c_str(), stderr);
  for (const std::string& line : plan.explain) {
    const bool kernel = line.find(" refused: ") != line.npos;
    if (want.find(kernel ? "kernels" : "fusion") != want.npos) fprintf(stderr, "%s\n", line.c_str());
  }
}
}  // namespace

uint32_t fresh_mark() {
  static uint32_t mark = 0;  // under the executor's lock
  return ++mark;
}

Structure::Structure(const std::vector<Node*>& order, const std::vector<Value>& outputs,
                     std::vector<Value> committed, bool donate)
    : order_(order), outputs_(outputs) {
  for (const Node* n : order)
    for (const Value& v : n->inputs)
      codes_.push_back(pending(v) ? output_code(v) : uint64_t{leaf_number(v)} << 1 | 1);
  for (const Value& v : committed) count_committed(v);
  for (Leaf& l : leaves_) l.donatable = donate && !is_scalar(l.v) && may_donate(l);
}

uint32_t Structure::leaf_number(const Value& v) {
  Node* n = v.node.get();
  uint32_t number = static_cast<uint32_t>(leaves_.size());
  if (n->outputs.size() != 1) {
    number = multi_.try_emplace({n, v.index}, number).first->second;
  } else if (n->mark == mark_) {  // the usual case: scratch fields remember the number
    number = n->slot;
  } else {
    n->mark = mark_, n->slot = number;
  }
  if (number == leaves_.size()) leaves_.push_back({v});
  ++leaves_[number].edges;
  return number;
}

// One reference by the cell's committed value and one by our copy of it.
void Structure::count_committed(const Value& v) {
  const Node& n = *v.node;
  if (n.mark == mark_ && !is_scalar(v) && leaves_[n.slot].v == v) leaves_[n.slot].edges += 2;
}

// +1: the reference in leaves_ itself. Outputs of multi-output nodes are not counted: never donated. Nor is a
// part of a larger storage: what takes a storage over starts at its first byte.
bool Structure::may_donate(const Leaf& l) const {
  const Node& n = *l.v.node;
  const Buffer& b = buffer_of(l.v);
  return n.outputs.size() == 1 && n.use_count() == l.edges + 1 && b.use_count() == 1 &&
         b.storage->use_count() == 1 && !b.storage->free && b.offset == 0 && !own_gradient_reads(l.v);
}

PlanKey Structure::key() const {
  PlanKey k;
  const Flags& f = flags();
  k.mix(f.fusion | f.library << 1 | f.donate << 2 | f.rules << 3);
  size_t c = 0;
  for (const Node* n : order_) {
    k.mix(n->op->uid);
    for (int64_t w : n->attrs) k.mix(static_cast<uint64_t>(w));
    for (uint32_t i = 0; i < n->inputs.size(); ++i) k.mix(codes_[c++]);
    if (n->extra && n->extra->region) mix_region(&k, *n->extra->region);
  }
  for (const Leaf& l : leaves_) {
    const TensorType& t = l.v.type();
    k.mix(static_cast<uint64_t>(t.dtype) | t.shape.size() << 8 | uint64_t{l.donatable} << 16 |
          uint64_t{is_scalar(l.v)} << 17);
    for (Dim d : t.shape) k.mix(static_cast<uint64_t>(d));
    if (!is_scalar(l.v))
      for (int64_t s : buffer_of(l.v).strides) k.mix(static_cast<uint64_t>(s));
  }
  for (const Value& v : outputs_) k.mix(output_code(v));
  return k;
}

// A closed copy of the pending graph: placeholders for leaves, places in order_ for error positions.
std::shared_ptr<const Plan> Structure::compile() const {
  Graph g;
  std::vector<PlanInput> inputs;
  for (const Leaf& l : leaves_) {
    g.inputs.push_back(make_input(l.v.type(), static_cast<int64_t>(inputs.size())));
    inputs.push_back(
        {l.v.type(), is_scalar(l.v) ? Ints() : buffer_of(l.v).strides, l.donatable, is_scalar(l.v)});
  }
  std::vector<Ref<Node>> copy;
  copy.reserve(order_.size());
  size_t c = 0;
  for (const Node* n : order_) {
    SmallVec<Value, 3> in;
    for (uint32_t k = 0; k < n->inputs.size(); ++k) {
      const uint64_t code = codes_[c++];
      in.push_back(code & 1 ? g.inputs[code >> 1]
                            : Value(copy[code >> 32], static_cast<uint32_t>(code) >> 1));
    }
    Ref<Node> m = with_inputs(*n, std::move(in));
    m->pos = {nullptr, static_cast<int32_t>(copy.size())};
    copy.push_back(std::move(m));
  }
  for (const Value& v : outputs_) g.outputs.push_back(Value(copy[v.node->slot], v.index));
  copy.clear();
  const char* want = getenv("YULOH_EXPLAIN");
  PlanOptions o;
  o.fusion = flags().fusion, o.library = flags().library, o.donate = flags().donate, o.rules = flags().rules;
  o.explain = want || profile::on();
  o.lifetimes = DryRun::current() != nullptr;
  o.explain_fusion = want && std::string_view(want).find("fusion") != std::string_view::npos;
  auto plan = compile_plan(g, std::move(inputs), o);
  if (want) explain(*plan, want);
  return plan;
}

void Structure::feed(PlanRun* r) const {
  r->inputs.resize(leaves_.size()), r->scalars_double.resize(leaves_.size()),
      r->scalars_int.resize(leaves_.size());
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Node& n = *leaves_[i].v.node;
    if (is_scalar(leaves_[i].v)) r->scalars_int[i] = n.attrs[0], r->scalars_double[i] = scalar_as_double(n);
    else r->inputs[i] = n.outputs[leaves_[i].v.index].buffer;
  }
}

}  // namespace yuloh
