// SPDX-License-Identifier: Apache-2.0
#include "grad/backward.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace yuloh {

Value sum_to(const Value& g, const Shape& shape);  // ops/fn.cpp

namespace {
// An elementwise row: derivative times g, reduced over what broadcasting repeated.
Values scalar_node_gradient(const Node& n, const Value& g) {
  Values r(n.inputs.size());
  for (uint32_t i = 0; i < n.inputs.size(); ++i) {
    const Value& x = n.inputs[i];
    if (!x.requires_grad()) continue;
    const OpDef* d = scalar_gradient(*n.op, static_cast<int>(i));
    if (!d) {  // piecewise constant: the gradient exists and is zero
      r[i] =
          call("full", {},
               {{"shape", Ints(x.shape().begin(), x.shape().end())}, {"value", 0.0}, {"dtype", x.dtype()}});
      continue;
    }
    Value gi = g;
    const bool is_g_itself = d->expr && d->expr->nodes[d->expr->root].prim == Prim::kArg;
    if (!is_g_itself) {
      Values in;
      for (int k : d->inplace_args) in.push_back(k < static_cast<int>(n.inputs.size()) ? n.inputs[k] : g);
      gi = apply(*d, std::move(in), n.attrs)[0];
    }
    gi = sum_to(gi, x.shape());
    if (gi.dtype() != x.dtype()) gi = call("cast", {gi}, {{"dtype", x.dtype()}});
    r[i] = gi;
  }
  return r;
}

struct BackwardScope {  // what the walk itself adds (seeds, sums) belongs to no layer
  const int32_t saved = modes().pos.scope;
  BackwardScope() { modes().pos.scope = -1; }
  ~BackwardScope() { modes().pos.scope = saved; }
};

class Walk final : InFlight {
 public:
  explicit Walk(const BackwardRequest& r) : req_(r), mode_(r.create_graph) {}

  BackwardResult run() {
    const BackwardScope scope;
    res_.wanted.resize(req_.wanted.size());
    for (size_t i = 0; i < req_.outputs.size(); ++i)
      seed(req_.outputs[i], i < req_.grads.size() ? req_.grads[i] : Value());
    for (size_t i = 0; i < req_.before.size(); ++i)
      if (req_.before[i]) slot(req_.wanted[i]) = req_.before[i];
    while (!heap_.empty()) {
      Ref<Node> n = heap_.top().node;
      heap_.pop();
      visit(n);
    }
    if (!req_.retain_graph && !req_.create_graph)
      release();  // a graph of gradients refers to what was recorded
    return std::move(res_);
  }

 private:
  struct ById {
    Ref<Node> node;
    bool operator<(const ById& o) const { return node->id < o.node->id; }
  };

  void seed(const Value& y, Value g) {
    if (!y.requires_grad())
      fail(ErrorKind::kRuntime,
           "backward: the tensor does not depend on anything that requires a gradient; expected "
           "stop_gradient=False somewhere before it. Hint: set x.stop_gradient = False on an input.");
    if (!g)
      g = call("full", {},
               {{"shape", Ints(y.shape().begin(), y.shape().end())}, {"value", 1.0}, {"dtype", y.dtype()}});
    else if (!(g.shape() == y.shape()))
      value_error("backward: grad_tensor does not fit, got shape ", g.shape(), "; expected ", y.shape(), ".");
    add(y, g);
  }

  // What v has received so far; it will be visited.
  Value& slot(const Value& v) {
    auto [it, fresh] = state_.try_emplace(v.node.get());
    if (fresh) {
      it->second.resize(v.node->outputs.size());
      heap_.push({v.node});
    }
    return it->second[v.index];
  }

  void add(const Value& v, const Value& g) {
    Value& sum = slot(v);
    sum = sum ? call("add", {sum, g}) : g;
  }

  // Recorded again: a walk of its own, which goes on with the sums of this one.
  void replay(const Node& n) {
    Values before(n.inputs.size());
    for (uint32_t i = 0; i < n.inputs.size(); ++i)
      if (const auto it = state_.find(n.inputs[i].node.get()); it != state_.end())
        before[i] = it->second[n.inputs[i].index];
    const Values sums = replay_gradient(n, now_, before);
    for (uint32_t i = 0; i < sums.size(); ++i)
      if (sums[i]) slot(n.inputs[i]) = sums[i];
  }

  void visit(const Ref<Node>& n) {
    const auto it = state_.find(n.get());
    now_ = std::move(it->second);
    state_.erase(it);
    if (n->extra && !n->extra->hooks.empty()) run_hooks(*n);
    const Values& g = now_;
    for (size_t i = 0; i < req_.wanted.size(); ++i)
      if (req_.wanted[i].node == n) res_.wanted[i] = g[req_.wanted[i].index];
    if (n->extra && n->extra->leaf) {
      if (req_.leaves) res_.leaves.emplace_back(n->extra->leaf, g[0]);
      return;
    }
    if (n->released)
      fail(ErrorKind::kRuntime,
           "backward: going through the same graph a second time, but its saved values were freed "
           "(op ",
           op_name(*n), "). Hint: call backward(retain_graph=True) the first time.");
    const SourcePos saved = modes().pos;
    modes().pos = n->pos;  // an error in a gradient names the line of the forward op
    if (n->pos.scope >= 0) modes().pos.scope = -1 - n->pos.scope;
    const bool again = n->extra && n->extra->replay;
    const Values gi = again ? Values() : node_gradient(*n, g);
    if (again) replay(*n);
    modes().pos = saved;
    for (uint32_t i = 0; i < gi.size() && i < n->inputs.size(); ++i)
      if (gi[i] && n->inputs[i].requires_grad()) add(n->inputs[i], fitted(*n, i, gi[i]));
    visited_.push_back(n);
  }

  // What broadcasting repeated is summed, what promotion widened is narrowed; a user's function must match by
  // itself.
  static Value fitted(const Node& n, uint32_t i, Value g) {
    const Value& x = n.inputs[i];
    if (!(g.shape() == x.shape())) {
      if (n.extra && n.extra->custom_vjp)
        value_error("backward: the gradient of input ", i, " of ", op_name(n), " does not fit, got shape ",
                    g.shape(), "; expected ", x.shape(), ".");
      g = sum_to(g, x.shape());
    }
    return g.dtype() == x.dtype() ? g : call("cast", {g}, {{"dtype", x.dtype()}});
  }

  void run_hooks(const Node& n) {
    const auto hooks = n.extra->hooks;  // a hook may remove itself
    for (const auto& [index, hook] : hooks) {
      if (!now_[index]) continue;
      Value h;
      {
        const GradMode mode(users_mode_);  // a hook may record and differentiate a graph of its own
        h = (*hook)(now_[index]);
      }
      if (h && h.requires_grad() && !req_.create_graph) h = call("leaf", {h});
      if (h && !(h.shape() == now_[index].shape()))
        value_error("backward: a gradient hook changed the shape, got ", h.shape(), "; expected ",
                    now_[index].shape(), ".");
      const DType t = now_[index].dtype();
      if (h) now_[index] = h.dtype() == t ? h : call("cast", {h}, {{"dtype", t}});
    }
  }
  void collect(std::vector<Value>* out) const override {
    for (const auto& [node, g] : state_) out->insert(out->end(), g.begin(), g.end());
    out->insert(out->end(), now_.begin(), now_.end());
    for (const auto& [leaf, g] : res_.leaves) out->push_back(g);
    out->insert(out->end(), res_.wanted.begin(), res_.wanted.end());
  }

  void release() {
    for (const Ref<Node>& n : visited_) {
      n->released = true;
      if (n->executed) n->inputs.clear();
    }
  }

  const BackwardRequest& req_;
  BackwardResult res_;
  const bool users_mode_ = modes().grad;
  GradMode mode_;
  std::unordered_map<Node*, Values>
      state_;   // cotangents of the outputs of nodes that are still to be visited
  Values now_;  // of the node being visited
  std::priority_queue<ById> heap_;
  std::vector<Ref<Node>> visited_;
};
}  // namespace

Values node_gradient(const Node& n, const Values& g) {
  if (n.extra && n.extra->custom_vjp) return n.extra->custom_vjp(g);
  bool any = false;
  for (const Value& v : g) any = any || v;
  if (!any) return {};
  if (n.op->vjp) return n.op->vjp(Call(n), g);
  if (n.op->scalar || n.op->expr) return scalar_node_gradient(n, g[0]);
  fail(ErrorKind::kNotImplemented, n.op->name, ": no gradient rule.");
}

BackwardResult backward(const BackwardRequest& r) { return Walk(r).run(); }

}  // namespace yuloh
