// SPDX-License-Identifier: Apache-2.0
// YULOH_EXPLAIN=fusion: what became one kernel, and for each value that goes through memory between two
// kernels, why. Reads the finished groups, so it says what is, not what was tried on the way.
#include <algorithm>
#include <map>

#include "ops/op.h"
#include "tile/fuse.h"
#include "tile/fuse_state.h"

namespace yuloh {
namespace {
std::string names(const std::vector<Node*>& nodes) {
  std::string s;
  for (const Node* n : nodes) s += (s.empty() ? "" : " + ") + n->op->name;
  return s;
}

class Explainer {
 public:
  Explainer(const std::vector<Node*>& order, const std::vector<TileGroup>& groups, const FuseContext& ctx)
      : order_(order), groups_(groups), ctx_(ctx), group_of_(order.size(), -1), users_(order.size()) {
    for (size_t g = 0; g < groups.size(); ++g)
      for (const Node* n : groups[g].nodes) group_of_[n->slot] = static_cast<int>(g);
    for (const Node* n : order)
      for (const Value& v : n->inputs)
        if (known(v)) users_[v.node->slot].push_back(n->slot);
  }

  void run() {
    std::map<std::string, int> together, apart;
    size_t nodes = 0;
    for (const TileGroup& g : groups_) {
      nodes += g.nodes.size();
      if (g.nodes.size() > 1) ++together[cat("fused ", g.nodes.size(), " into one loop: ", names(g.nodes))];
    }
    std::map<std::pair<int, int>, std::string> seen;  // reasons between two groups
    for (const Node* c : order_)
      for (const Value& v : c->inputs)
        if (const Node* p = c->op && c->op->view ? nullptr : maker(v)) {
          const std::string why = p != v.node.get() && group_of_[p->slot] >= 0 && group_of_[c->slot] >= 0
                                      ? cat(v.node->op->name, " between them is a view of memory")
                                      : reason(*p, *c, &seen);
          if (!why.empty()) ++apart[cat("apart: ", p->op->name, " | ", c->op->name, ": ", why)];
        }
    ctx_.explain->push_back(
        cat("fusion: ", nodes, " elementwise ops and reductions became ", groups_.size(), " kernels"));
    for (const auto* list : {&together, &apart})
      for (const auto& [line, times] : *list)
        ctx_.explain->push_back(times > 1 ? cat(line, " (", times, " times)") : line);
  }

 private:
  bool known(
      const Value& v) const {  // made by an op of this graph; a constant lies in the programs that read it
    const uint32_t i = v.node->slot;
    return i < order_.size() && order_[i] == v.node.get() && v.node->kind == Node::Kind::kOp &&
           !is_tile_constant(*v.node);
  }

  // What wrote the memory that `v` lies in; null: it came from outside, or is a constant.
  const Node* maker(const Value& v) const {
    const Value* at = &v;
    while (known(*at) && at->node->op->view) at = &at->node->inputs[0];
    return known(*at) ? at->node.get() : nullptr;
  }

  // Why the value of `p` that `c` reads goes through memory; empty: it does not, or neither of them could be
  // fused.
  std::string reason(const Node& p, const Node& c, std::map<std::pair<int, int>, std::string>* seen) const {
    const int a = group_of_[p.slot], b = group_of_[c.slot];
    if (a < 0 && b < 0) return "";
    if (a < 0 || b < 0) return cat((a < 0 ? p : c).op->name, " has a kernel of its own");
    if (a == b) return "";
    if (!ctx_.enabled) return "fusion is off";
    const auto [it, fresh] = seen->try_emplace({a, b});
    if (fresh) it->second = between(a, b);
    return it->second;
  }

  std::string between(int a, int b) const {
    const TileGroup &first = groups_[a], &second = groups_[b];
    std::vector<Node*> nodes = first.nodes;
    nodes.insert(nodes.end(), second.nodes.begin(), second.nodes.end());
    std::sort(nodes.begin(), nodes.end(), [](Node* x, Node* y) { return x->slot < y->slot; });
    const std::string through = between_them(a, b);
    if (!through.empty()) return cat(through, " stands between and is in neither");
    int stored = 0;
    for (const Node* n : nodes) stored += surely_stored(*n);
    if (stored > GroupState::kMaxSureOutputs) return "too many stored results";
    GroupState joined, one, two;
    const char* why = "";
    for (Node* n : nodes)
      if (!joined.add(n, ctx_, &why)) return why;
    for (Node* n : first.nodes) one.add(n, ctx_, &why);
    for (Node* n : second.nodes) two.add(n, ctx_, &why);
    if (!(one.domain == two.domain)) return "the iteration domains differ";
    return cat(names(first.nodes), " is read by an earlier kernel too");
  }

  bool surely_stored(const Node& n) const {
    if (ctx_.needed_outside && ctx_.needed_outside(Value(Ref<Node>(const_cast<Node*>(&n)), 0))) return true;
    return std::any_of(users_[n.slot].begin(), users_[n.slot].end(),
                       [&](uint32_t u) { return !is_tile_node(*order_[u]); });
  }

  // An op outside of both groups on a way from `a` to `b`, by name; empty: there is none.
  std::string between_them(int a, int b) const {
    std::vector<char> reached(order_.size(), 0);
    std::vector<uint32_t> via(order_.size(), 0);  // the first foreign op on the way
    const auto spread = [&](uint32_t from) {
      for (const uint32_t u : users_[from])
        if (!reached[u] && group_of_[u] != a)
          reached[u] = 1, via[u] = order_[via[from]]->op->view ? u : via[from];
    };
    for (const Node* n : groups_[a].nodes) {
      for (const uint32_t u : users_[n->slot])
        if (group_of_[u] != a && group_of_[u] != b && !reached[u]) reached[u] = 1, via[u] = u;
    }
    for (uint32_t i = 0; i < order_.size(); ++i) {
      if (!reached[i]) continue;
      if (group_of_[i] == b) return order_[via[i]]->op->name;
      spread(i);
      if (group_of_[i] >= 0)  // all of its group runs together
        for (const Node* n : groups_[group_of_[i]].nodes)
          if (n->slot > i && !reached[n->slot]) reached[n->slot] = 1, via[n->slot] = via[i];
    }
    return "";
  }

  const std::vector<Node*>& order_;
  const std::vector<TileGroup>& groups_;
  const FuseContext& ctx_;
  std::vector<int> group_of_;
  std::vector<std::vector<uint32_t>> users_;
};
}  // namespace

void explain_fusion(const std::vector<Node*>& order, const std::vector<TileGroup>& groups,
                    const FuseContext& ctx) {
  Explainer(order, groups, ctx).run();
}

}  // namespace yuloh
