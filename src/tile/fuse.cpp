// SPDX-License-Identifier: Apache-2.0
// Greedy fusion in one walk of the topological order, then one sweep of moves.
//
// Every unit (a group, or a node that is no tile node) has a position: an index into `order`. Invariant:
// every edge between different units leads to a strictly larger position. A node may therefore join any group
// whose position is not below that of any unit it reads, and no path can leave a group and come back: the
// check is one comparison per input.
#include "tile/fuse.h"

#include <algorithm>

#include "ops/op.h"
#include "tile/fuse_state.h"

namespace yuloh {
namespace {
class Fuser {
 public:
  Fuser(const std::vector<Node*>& order, const FuseContext& ctx) : order_(order), ctx_(ctx) {
    for (size_t i = 0; i < order.size(); ++i) order[i]->slot = static_cast<uint32_t>(i);
    unit_of_.assign(order.size(), -1);
    reader_.assign(order.size(), -1);
    link_consumers();
  }
  std::vector<TileGroup> run() {
    for (size_t i = 0; i < order_.size(); ++i)
      if (is_tile_node(*order_[i])) place(static_cast<int>(i));
    if (ctx_.enabled) move_down();
    return finish();
  }

 private:
  struct Unit {
    GroupState state;
    int position;
    int sure_outputs = 0;
    bool alive = true;
  };

  int index(const Value& v) const {
    const uint32_t i = v.node->slot;  // scratch of whoever walked last: it may be stale outside `order`
    return i < order_.size() && order_[i] == v.node.get() ? static_cast<int>(i) : -1;
  }
  static int at(const Node* n) { return static_cast<int>(n->slot); }  // of a node in `order`
  int position(int i) const {                                         // leaves are there from the start
    if (order_[i]->kind != Node::Kind::kOp || is_tile_constant(*order_[i])) return -1;
    return unit_of_[i] < 0 ? i : units_[unit_of_[i]].position;
  }

  void link_consumers() {  // compressed lists: consumers of node i are users_[first_[i] .. first_[i + 1])
    first_.assign(order_.size() + 1, 0);
    for (Node* n : order_)
      for (const Value& v : n->inputs)
        if (const int p = index(v); p >= 0) ++first_[p + 1];
    for (size_t i = 0; i < order_.size(); ++i) first_[i + 1] += first_[i];
    users_.resize(first_.back());
    std::vector<int> at(first_.begin(), first_.end() - 1);
    for (size_t c = 0; c < order_.size(); ++c)
      for (const Value& v : order_[c]->inputs)
        if (const int p = index(v); p >= 0) users_[at[p]++] = static_cast<int>(c);
  }
  bool needed_outside(Node* n) const {
    return ctx_.needed_outside && ctx_.needed_outside(Value(Ref<Node>(n), 0));
  }
  bool surely_stored(int i) const {
    for (int k = first_[i]; k < first_[i + 1]; ++k)
      if (!is_tile_node(*order_[users_[k]])) return true;
    return needed_outside(order_[i]);
  }

  void place(int i) {
    const bool constant = is_tile_constant(*order_[i]);
    if (constant && !surely_stored(i)) return;
    int unit = ctx_.enabled && !constant ? choose(i) : -1;
    if (unit < 0) {
      unit = static_cast<int>(units_.size());
      units_.push_back({{}, i});
      const char* why = "";
      if (!units_[unit].state.add(order_[i], ctx_, &why))
        fail(ErrorKind::kRuntime, "fuse: ", op_name(*order_[i]), " alone was refused: ", why);
      if (units_[unit].state.elements == 1 && !constant) scalar_unit_ = unit;
    }
    unit_of_[i] = unit;
    units_[unit].sure_outputs += surely_stored(i);
    for (const Value& v : order_[i]->inputs)
      if (const int p = index(v); p >= 0 && !is_tile_constant(*v.node)) reader_[p] = unit;
  }

  // The group that node i joins, or -1. Candidates: the latest producer's, readers of the same operands, and
  // for one-element nodes the latest group of such (they cost a call each otherwise).
  int choose(int i) {
    int latest = -1, producer = -1;
    for (const Value& v : order_[i]->inputs)
      if (const int p = index(v); p >= 0 && position(p) > latest) latest = position(p), producer = p;
    if (producer >= 0 && unit_of_[producer] >= 0 && join(unit_of_[producer], i)) return unit_of_[producer];
    for (const Value& v : order_[i]->inputs) {
      const int p = index(v);
      if (p < 0 || reader_[p] < 0 || units_[reader_[p]].position < latest) continue;
      const Unit& u = units_[reader_[p]];
      if (u.alive && numel(v.shape()) == u.state.elements && join(reader_[p], i)) return reader_[p];
    }
    const bool one_element =
        order_[i]->op->reduce == ReduceKind::kNone && numel(order_[i]->outputs[0].type.shape) == 1;
    if (one_element && scalar_unit_ >= 0 && units_[scalar_unit_].position >= latest && join(scalar_unit_, i))
      return scalar_unit_;
    return -1;
  }

  bool join(int unit, int i) {
    Unit& u = units_[unit];
    const char* why = "";
    return u.sure_outputs + surely_stored(i) <= GroupState::kMaxSureOutputs &&
           u.state.add(order_[i], ctx_, &why);
  }

  // A group whose first reader is a group may run as late as that reader: join the two if one nest serves
  // both.
  void move_down() {
    std::vector<int> by_position;
    for (size_t u = 0; u < units_.size(); ++u) by_position.push_back(static_cast<int>(u));
    std::sort(by_position.begin(), by_position.end(),
              [&](int a, int b) { return units_[a].position > units_[b].position; });
    for (int a : by_position) {
      const int b = first_reader(a);
      if (b >= 0) merge(a, b);
    }
  }
  int first_reader(int a) const {
    int best = INT32_MAX, unit = -1;
    for (const auto& m : units_[a].state.members) {
      const int i = at(m.node);
      for (int k = first_[i]; k < first_[i + 1]; ++k) {
        const int c = users_[k];
        if (unit_of_[c] == a || position(c) >= best) continue;
        best = position(c), unit = unit_of_[c];
      }
    }
    return unit;
  }
  void merge(int a, int b) {
    Unit &from = units_[a], &to = units_[b];
    const char* why = "";
    if (from.sure_outputs + to.sure_outputs > GroupState::kMaxSureOutputs ||
        !(from.state.domain == to.state.domain))
      return;
    std::vector<Node*> nodes;
    for (const auto& m : from.state.members) nodes.push_back(m.node);
    for (const auto& m : to.state.members) nodes.push_back(m.node);
    std::sort(nodes.begin(), nodes.end(), [&](Node* x, Node* y) { return at(x) < at(y); });
    GroupState joined;
    for (Node* n : nodes)
      if (!joined.add(n, ctx_, &why)) return;
    for (const auto& m : from.state.members) unit_of_[at(m.node)] = b;
    to.state = std::move(joined);
    to.sure_outputs += from.sure_outputs;
    from.alive = false;
  }

  std::vector<TileGroup> finish() {
    std::vector<TileGroup> groups;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (!units_[u].alive) continue;
      TileGroup g;
      g.position = units_[u].position;
      for (const auto& m : units_[u].state.members) {
        g.nodes.push_back(m.node);
        if (read_elsewhere(at(m.node), static_cast<int>(u)) || needed_outside(m.node))
          g.outputs.push_back(Value(Ref<Node>(m.node), 0));
      }
      for (const auto& e : units_[u].state.externals)
        if (std::find(g.inputs.begin(), g.inputs.end(), *e.value) == g.inputs.end())
          g.inputs.push_back(*e.value);
      groups.push_back(std::move(g));
    }
    std::sort(groups.begin(), groups.end(), [](auto& a, auto& b) { return a.position < b.position; });
    return groups;
  }
  bool read_elsewhere(int i, int unit) const {
    for (int k = first_[i]; k < first_[i + 1]; ++k)
      if (unit_of_[users_[k]] != unit) return true;
    return false;
  }

  const std::vector<Node*>& order_;
  const FuseContext& ctx_;
  std::vector<int> unit_of_, reader_, first_, users_;
  std::vector<Unit> units_;
  int scalar_unit_ = -1;
};
}  // namespace

bool is_tile_node(const Node& n) {
  return n.kind == Node::Kind::kOp && n.op &&
         (n.op->scalar || n.op->expr || n.op->reduce != ReduceKind::kNone);
}

bool is_tile_constant(const Node& n) { return n.inputs.empty() && is_tile_node(n); }

std::vector<TileGroup> fuse(const std::vector<Node*>& order, const FuseContext& ctx) {
  std::vector<TileGroup> groups = Fuser(order, ctx).run();
  if (ctx.explain) explain_fusion(order, groups, ctx);
  return groups;
}

}  // namespace yuloh
