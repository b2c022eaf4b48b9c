// SPDX-License-Identifier: Apache-2.0
// The one walk that applies the pipeline: old node -> new values, memoised; equal new nodes are one node
// (CSE).
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ops/op.h"
#include "passes/passes.h"

namespace yuloh {
namespace {
constexpr int kMaxDepth = 64;  // nesting of composites and chains of rules at one node

uint64_t mix(uint64_t h, uint64_t w) {
  h = (h ^ w) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}
const void* region_of(const Node& n) { return n.extra ? n.extra->region.get() : nullptr; }

class Rewriter {
 public:
  Rewriter(const PassOptions& o, const std::vector<Pass>& passes, std::unordered_set<const Node*> kept = {})
      : options_(o), passes_(passes), context_{o, nullptr, {}, std::move(kept)} {}

  Graph run(const Graph& g) {
    const std::vector<Node*> order = topological(g.outputs);
    done_.reserve(order.size() * 2);
    seen_.reserve(order.size());
    for (Node* n : order)
      for (const Value& v : n->inputs) ++uses_[v.node.get()];
    for (const Value& v : g.outputs) uses_[v.node.get()] += 2;
    for (Node* n : order)
      if (n->kind == Node::Kind::kOp) {
        Ref<Node> fresh = copy(*n);
        if (context_.kept.count(n)) context_.kept.insert(fresh.get()), keep_.push_back(fresh);
        rewrite(n, std::move(fresh), 0);
      }
    Graph r{g.inputs, {}};
    for (const Value& v : g.outputs) r.outputs.push_back(now(v));
    return r;
  }

 private:
  Value now(const Value& v) const {
    const auto it = done_.find(v.node.get());
    return it == done_.end() ? v : it->second[v.index];
  }
  // The node over rewritten inputs. A fresh node keeps the recording order: later nodes have larger ids.
  Ref<Node> copy(const Node& n) const {
    SmallVec<Value, 3> inputs;
    for (const Value& v : n.inputs) inputs.push_back(now(v));
    return with_inputs(n, std::move(inputs));
  }

  // Decides what stands for `old`: the pipeline's replacement of `fresh` (the same node over new inputs), or
  // itself.
  void rewrite(Node* old, Ref<Node> fresh, int depth) {
    if (depth > kMaxDepth)
      fail(ErrorKind::kRuntime, "passes: ", old->op->name, " is rewritten without end (",
           context_.fired ? context_.fired : "expand", ").");
    Values out;
    if (!replace(fresh, depth, &out)) {
      const Ref<Node> n = unique(std::move(fresh));
      for (uint32_t i = 0; i < n->outputs.size(); ++i) out.push_back(Value(n, i));
    }
    if (out.size() < old->outputs.size())
      fail(ErrorKind::kRuntime, "passes: ", old->op->name, " lost an output.");
    if (const auto u = uses_.find(old); u != uses_.end() && u->second > 1)
      for (const Value& v : out) context_.shared.insert(v.node.get());
    done_.insert_or_assign(old, std::move(out));
    keep_.push_back(Ref<Node>(old));
  }

  bool replace(const Ref<Node>& n, int depth, Values* out) {
    const SourcePos saved = modes().pos;
    modes().pos = n->pos;  // replacements belong to the same line of the user's code
    const uint64_t first = next_node_id();
    bool hit = false;
    for (const Pass& p : passes_) {
      if (!p.always && !options_.rules) continue;
      context_.fired = p.name;
      if (!(hit = p.apply(n, &context_, out))) continue;
      if (options_.explain && p.apply != expand_node)
        options_.explain->push_back(cat(context_.fired, ": ", n->op->name));
      check_types(*n, *out);
      break;
    }
    modes().pos = saved;
    if (!hit) return false;
    for (Node* m : made_since(*out, first)) {
      const bool changed =
          std::any_of(m->inputs.begin(), m->inputs.end(), [&](const Value& v) { return !(now(v) == v); });
      rewrite(m, changed ? copy(*m) : Ref<Node>(m), depth + 1);
    }
    for (Value& v : *out) v = now(v);
    return true;
  }
  void check_types(const Node& n, const Values& out) const {
    for (uint32_t i = 0; i < n.outputs.size() && i < out.size(); ++i)
      if (out[i] && !(out[i].type() == n.outputs[i].type))
        fail(ErrorKind::kRuntime, "passes: ", context_.fired, " changed the type of ", n.op->name, " from ",
             n.outputs[i].type, " to ", out[i].type(), ".");
  }
  // Nodes of a replacement, inputs first: those with an id from `first` on.
  std::vector<Node*> made_since(const Values& roots, uint64_t first) const {
    return reached({roots.begin(), roots.end()}, [&](const Value& v) {
      return v && v.node->kind == Node::Kind::kOp && v.node->id >= first && !done_.count(v.node.get());
    });
  }

  Ref<Node> unique(Ref<Node> n) {
    if (!options_.rules || n->op->random || n->op->barrier) return n;
    uint64_t h = mix(n->op->uid, reinterpret_cast<uint64_t>(region_of(*n)));
    for (const Value& v : n->inputs) h = mix(mix(h, reinterpret_cast<uint64_t>(v.node.get())), v.index);
    for (int64_t w : n->attrs) h = mix(h, static_cast<uint64_t>(w));
    for (auto [it, end] = seen_.equal_range(h); it != end; ++it) {
      const Node& m = *it->second;
      if (m.op == n->op && m.inputs == n->inputs && m.attrs == n->attrs && region_of(m) == region_of(*n))
        return it->second;
    }
    seen_.emplace(h, n);
    return n;
  }

  const PassOptions& options_;
  const std::vector<Pass>& passes_;
  PassContext context_;
  std::unordered_map<const Node*, Values> done_;
  std::unordered_map<const Node*, int> uses_;
  std::unordered_multimap<uint64_t, Ref<Node>> seen_;
  std::vector<Ref<Node>> keep_;  // replaced nodes stay alive: their addresses are keys
};
}  // namespace

Ref<Node> with_inputs(const Node& n, SmallVec<Value, 3> inputs) {
  auto r = make_ref<Node>();
  r->op = n.op, r->pos = n.pos, r->attrs = n.attrs, r->id = next_node_id();
  r->inputs = std::move(inputs);
  r->traced = n.op->random && n.traced;
  for (const Value& v : r->inputs) r->traced = r->traced || v.node->traced;
  for (const auto& o : n.outputs) r->outputs.push_back({o.type, nullptr});
  if (region_of(n)) r->make_extra().region = n.extra->region;
  return r;
}

Graph run_passes(const Graph& g, const PassOptions& o) {
  NoGrad guard;
  return Rewriter(o, pipeline()).run(g);
}
Graph run_inference_passes(const Graph& g, const PassOptions& o) {
  NoGrad guard;
  Graph r = g;
  for (const std::vector<Pass>& walk : inference_pipelines())
    r = Rewriter(o, walk, small_segments(r, o)).run(r);
  return r;
}

}  // namespace yuloh
