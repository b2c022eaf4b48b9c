// SPDX-License-Identifier: Apache-2.0
// Recompute, graph to graph: the part of the graph that a function recorded becomes a closed Graph. Its
// values are recorded without gradients, behind a `custom_grad` that keeps only what goes into the function;
// the backward puts the same nodes on top of `again` of that (so passes do not find them equal to the first
// ones) and differentiates those.
#include <algorithm>
#include <unordered_map>

#include "grad/backward.h"

namespace yuloh {
namespace {

// A copy of one recorded node over other inputs; what it means for gradients goes along.
Ref<Node> copied(const Node& n, SmallVec<Value, 3> inputs, bool gradients) {
  auto r = make_ref<Node>();
  r->op = n.op, r->attrs = n.attrs, r->id = next_node_id(), r->pos = n.pos;
  r->traced = n.op->random && modes().tracing;
  for (const auto& o : n.outputs) r->outputs.push_back({o.type, nullptr});
  bool any = false;
  for (const Value& v : inputs) any = any || v.requires_grad(), r->traced = r->traced || v.node->traced;
  r->inputs = std::move(inputs);
  r->requires_grad = gradients && n.requires_grad && any;
  if (!n.extra) return r;
  NodeExtra& x = r->make_extra();
  x.region = n.extra->region;
  if (gradients) x.hooks = n.extra->hooks, x.custom_vjp = n.extra->custom_vjp, x.replay = n.extra->replay;
  return r;
}

class Segment {
 public:
  // Inside: recorded since `first`, not yet computed. Parameters and all that was there before are what goes
  // in.
  Segment(const Values& outputs, uint64_t first) {
    const auto is_inside = [&](const Value& v) {
      const Node& n = *v.node;
      return pending(v) && n.id >= first && !(n.extra && n.extra->leaf);
    };
    const std::vector<Node*> inside = reached({outputs.begin(), outputs.end()}, is_inside);
    auto graph = std::make_shared<Graph>();
    std::unordered_map<const Node*, Ref<Node>> copy;
    const auto now = [&](const Value& v) -> Value {
      if (v.node->kind == Node::Kind::kScalar) return v;
      if (const auto it = copy.find(v.node.get()); it != copy.end() && is_inside(v))
        return Value(it->second, v.index);
      const auto at = std::find(entries.begin(), entries.end(), v) - entries.begin();
      if (static_cast<size_t>(at) == entries.size()) {
        entries.push_back(v);
        graph->inputs.push_back(make_input(v.type(), at));
        graph->inputs.back().node->requires_grad = v.requires_grad();
      }
      return graph->inputs[static_cast<size_t>(at)];
    };
    for (Node* n : inside) {
      SmallVec<Value, 3> in;
      for (const Value& v : n->inputs) in.push_back(now(v));
      copy.emplace(n, copied(*n, std::move(in), true));
    }
    for (const Value& v : outputs) graph->outputs.push_back(now(v));
    this->graph = std::move(graph);
  }
  std::shared_ptr<const Graph> graph;
  std::vector<Value> entries;
};

// Records the nodes of a closed graph over `entries`.
Values instantiate(const Graph& g, const std::vector<Value>& entries, bool again) {
  std::unordered_map<const Node*, Ref<Node>> copy;
  const auto now = [&](const Value& v) -> Value {
    if (v.node->kind == Node::Kind::kInput) return entries[static_cast<size_t>(v.node->attrs[0])];
    const auto it = copy.find(v.node.get());
    return it == copy.end() ? v : Value(it->second, v.index);
  };
  for (Node* n : topological(g.outputs)) {
    if (n->kind != Node::Kind::kOp) continue;
    SmallVec<Value, 3> in;
    for (const Value& v : n->inputs) in.push_back(now(v));
    Ref<Node> m = copied(*n, std::move(in), again);
    if (again && m->pos.scope >= 0) m->pos.scope = -1 - m->pos.scope;
    copy.emplace(n, std::move(m));
  }
  Values r;
  for (const Value& v : g.outputs) r.push_back(now(v));
  return r;
}
}  // namespace

Values recompute(const Values& outputs, uint64_t first) {
  Values inner;  // what was made since
  for (const Value& v : outputs)
    if (v.requires_grad() && v.node->id >= first && pending(v)) inner.push_back(v);
  if (inner.empty()) return outputs;
  Segment s(inner, first);
  Values all = instantiate(*s.graph, s.entries, false);
  for (const Value& v : s.entries) all.push_back(v);
  const GradMode on(true);
  const Values made = call_all("custom_grad", all, {{"n", static_cast<int64_t>(inner.size())}});
  made[0].node->make_extra().replay = s.graph;
  Values r;
  uint32_t next = 0;
  for (const Value& v : outputs) r.push_back(next < inner.size() && inner[next] == v ? made[next++] : v);
  return r;
}

Values replay_gradient(const Node& n, const Values& g, const Values& before) {
  if (modes().grad)
    fail(ErrorKind::kNotImplemented,
         "recompute: gradients of gradients are not computed through a recomputed function. Hint: "
         "call the function itself where create_graph=True is needed.");
  const size_t n_out = n.outputs.size();
  std::vector<Value> entries;
  BackwardRequest r;
  r.leaves = false;
  for (size_t i = n_out; i < n.inputs.size(); ++i) {
    const Value& v = n.inputs[static_cast<uint32_t>(i)];
    Value x = call("again", {v});
    if (v.requires_grad()) {  // where this differentiation ends
      x.node->requires_grad = true;
      x.node->make_extra().leaf = make_ref<LeafInfo>();
      r.wanted.push_back(x);
      r.before.push_back(before[static_cast<uint32_t>(i)]);
    }
    entries.push_back(std::move(x));
  }
  const Values out = instantiate(*n.extra->replay, entries, true);
  for (uint32_t i = 0; i < out.size(); ++i)
    if (g[i] && out[i].requires_grad()) r.outputs.push_back(out[i]), r.grads.push_back(g[i]);
  Values result(static_cast<uint32_t>(n.inputs.size()));
  if (r.outputs.empty()) return result;
  BackwardResult done = backward(r);
  size_t next = 0;
  for (size_t i = n_out; i < n.inputs.size(); ++i)
    if (n.inputs[static_cast<uint32_t>(i)].requires_grad())
      result[static_cast<uint32_t>(i)] = done.wanted[next++];
  return result;
}

}  // namespace yuloh
