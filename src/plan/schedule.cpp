// SPDX-License-Identifier: Apache-2.0
// The units of a plan (tile groups and single nodes) and their order: checks run before donated writes,
// gradients die while they are in cache. Part of PlanBuilder, between layouts and kernels (compile.cpp).
#include <algorithm>
#include <numeric>
#include <queue>

#include "plan/builder.h"

namespace yuloh {

void PlanBuilder::make_units() {
  FuseContext ctx = fuse_context();
  ctx.explain = options_.explain_fusion ? &plan_->explain : nullptr;
  std::vector<TileGroup> groups = fuse(order_, ctx);
  std::vector<int> unit_of(order_.size(), -1);
  for (TileGroup& g : groups) {
    for (Node* n : g.nodes) unit_of[n->slot] = static_cast<int>(units_.size());
    units_.push_back({std::move(g), nullptr, 0});
  }
  for (Node* n : order_)
    if (n->kind == Node::Kind::kOp && unit_of[n->slot] < 0 && !n->op->view && !is_tile_node(*n)) {
      unit_of[n->slot] = static_cast<int>(units_.size());
      units_.push_back({{}, n, 0});
    }
  // A view belongs to no unit: its producers are those of its root.
  std::vector<std::vector<int>> users(units_.size());
  std::vector<int> waits(units_.size(), 0);
  auto producer = [&](Value v) {
    while (v.node->kind == Node::Kind::kOp && v.node->op->view) v = v.node->inputs[0];
    return unit_of[v.node->slot];
  };
  auto link = [&](int u, const Node& n) {
    for (const Value& v : n.inputs)
      if (const int p = producer(v); p >= 0 && p != u) users[p].push_back(u), ++waits[u];
  };
  for (size_t u = 0; u < units_.size(); ++u) {
    Unit& unit = units_[u];
    if (unit.node) link(static_cast<int>(u), *unit.node), unit.position = unit.node->slot;
    for (Node* n : unit.group.nodes) link(static_cast<int>(u), *n), unit.position = n->slot;
    unit.late = writes_donatable(unit);
    unit.checks = unit.node && unit.node->op->checks;
  }
  find_due(users);
  schedule(users, waits);
}

// A unit's place is that of its last node, which may lie behind a reader's: a parameter's initial value fused
// with its first decay, the seed of the backward pass with Adam's powers. A reader wants it no later than at
// its own place. Every edge leads to a larger place of the group (fuse.h): one walk backwards over those.
void PlanBuilder::find_due(const std::vector<std::vector<int>>& users) {
  const auto place = [&](int u) {
    return units_[u].node ? size_t{units_[u].position} : units_[u].group.position;
  };
  std::vector<int> backwards(units_.size());
  std::iota(backwards.begin(), backwards.end(), 0);
  std::sort(backwards.begin(), backwards.end(), [&](int a, int b) { return place(a) > place(b); });
  for (int u : backwards)
    for (int v : users[u]) units_[u].due = std::min({units_[u].due, units_[v].due, units_[v].position});
}

bool PlanBuilder::writes_donatable(const Unit& u) const {
  for (const Value& v : u.group.outputs) {
    if (!values_[id(v)].is_output) continue;
    for (const Value& i : u.group.inputs) {
      const PlanValue& in = values_[values_[id(i)].root];
      if (i.node->kind == Node::Kind::kInput && plan_->inputs[i.node->attrs[0]].donatable &&
          in.type.shape == v.shape())
        return true;
    }
  }
  return false;
}

void PlanBuilder::find_donatable(Unit* u) const {
  auto read = [&](const Value& v) {
    const int root = values_[id(v)].root;
    auto& reads = u->donatable_in;
    if (!values_[root].donatable || std::find(reads.begin(), reads.end(), root) != reads.end()) return;
    reads.push_back(root);
    const bool wanted = std::any_of(u->group.outputs.begin(), u->group.outputs.end(), [&](const Value& o) {
      return values_[id(o)].is_output && o.type() == values_[root].type;
    });
    if (wanted) u->wanted.push_back(root);
  };
  if (u->node)
    for (const Value& v : u->node->inputs) read(v);
  for (const Value& v : u->group.inputs) read(v);
}

// By position, or that of the first reader, except for units that overwrite donated state: they wait for
// every check and for the other readers of that state, and then run at once, so that gradients die while they
// are in cache. They do not wait beyond the turn of what reads them: what comes after that (repeated forward
// passes) would be done too early and be held. Single numbers (powers of Adam's betas) cost nothing to hold,
// while what waits for them may hold much: they go first.
void PlanBuilder::schedule(const std::vector<std::vector<int>>& users, std::vector<int>& waits) {
  using Entry = std::pair<uint64_t, int>;  // (priority, unit): smallest first
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<int> parked, left(values_.size(), 0);  // left: units yet to read a donatable input
  int checks = 0;
  for (Unit& u : units_) {
    find_donatable(&u);
    checks += u.checks;
    for (int r : u.donatable_in) ++left[r];
  }
  const auto at_once = [&](const Unit& u) {
    return u.late ||
           (!u.group.outputs.empty() && std::all_of(u.group.outputs.begin(), u.group.outputs.end(),
                                                    [](const Value& v) { return numel(v.shape()) == 1; }));
  };
  auto push = [&](int u) {
    ready.push({at_once(units_[u]) ? 0 : std::min(units_[u].position, units_[u].due) + uint64_t{1}, u});
  };
  auto must_wait = [&](int u) {
    if (!units_[u].late) return false;
    if (checks) return true;
    const auto& wanted = units_[u].wanted;
    return std::any_of(wanted.begin(), wanted.end(), [&](int r) { return left[r] > 1; });
  };
  auto run = [&](int u) {
    units_[u].may_donate = checks == 0;
    bool freed = units_[u].checks && --checks == 0;  // something that a parked unit waits for has happened
    schedule_.push_back(u);
    for (int r : units_[u].donatable_in) freed = --left[r] == 1 || freed;
    for (int v : users[u])
      if (--waits[v] == 0) push(v);
    if (freed) std::erase_if(parked, [&](int p) { return !must_wait(p) && (push(p), true); });
  };
  for (size_t u = 0; u < units_.size(); ++u)
    if (waits[u] == 0) push(static_cast<int>(u));
  const auto turn = [&](int u) { return std::pair(units_[u].due, units_[u].position); };
  while (!ready.empty() || !parked.empty()) {
    const auto first =
        std::min_element(parked.begin(), parked.end(), [&](int a, int b) { return turn(a) < turn(b); });
    // Updates that wait for each other, or for what needs them: the first one gets storage of its own.
    if (ready.empty() || (first != parked.end() && uint64_t{units_[*first].due} + 1 < ready.top().first)) {
      const int u = *first;
      parked.erase(first);
      run(u);
      continue;
    }
    const int u = ready.top().second;
    ready.pop();
    if (must_wait(u)) parked.push_back(u);
    else run(u);
  }
  if (schedule_.size() != units_.size()) fail(ErrorKind::kRuntime, "plan: fusion made a cycle.");
}

}  // namespace yuloh
