// SPDX-License-Identifier: Apache-2.0
// Flush: from live handles to a run Plan. Collects the pending nodes that live cells (and the tape) need,
// finds the Plan of their structure (structure.h) or compiles it, runs it on the leaves' buffers and hands
// the results back to the nodes.
#include <algorithm>
#include <chrono>

#include "plan/profile.h"
#include "run/dry_run.h"
#include "run/executor.h"
#include "run/structure.h"
#include "run/tensor.h"

namespace yuloh {

std::mutex& pending_list_mutex();

namespace {
using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

PlanCache& cache() {
  if (DryRun* dry = DryRun::current()) return dry->cache;
  static auto* c = new PlanCache;
  return *c;
}
}  // namespace

class Flush {
 public:
  explicit Flush(Context& c) : ctx_(c) {}

  void run(const Value* want) {
    ctx_.pending_bytes_ = 0;  // what is not reached below is dead
    collect_roots(want);
    run_roots(want);
  }

  static bool waits(const Value& v) { return pending(v) && !has_error(*v.node); }

  // Computes one value and leaves the graph below it as it is.
  void run_alone(const Value& v) {
    alone_ = true;
    if (!pending(v) || has_error(*v.node)) return;
    roots_ = {v};
    run_roots(nullptr);
  }

  // Computes one value and, of the graph below it, what others hold.
  void run_held(const Value& v) {
    if (has_error(*v.node)) rethrow(*v.node);
    if (!pending(v)) return;  // another thread was faster
    roots_ = {v};
    walk();
    std::vector<uint32_t> edges(order_.size(), 0);
    for (Node* n : order_)
      for (const Value& in : n->inputs)
        if (pending(in)) ++edges[in.node->slot];
    ++edges[v.node->slot];  // roots_
    std::vector<Value> held;
    for (Node* n : order_)
      if (n->use_count() > edges[n->slot])
        for (uint32_t i = 0; i < n->outputs.size(); ++i)
          if (!n->materialised(i)) held.push_back(Value(n, i));
    roots_ = std::move(held);
    run_roots(&v);
  }

  // After a failure that no node can be blamed for (memory): every value runs by itself, the ones that need
  // least first, so that one that cannot be had does not take others with it (fresh parameters, copies). What
  // fails then, or comes too late, raises the error when it is read.
  void rescue(const Error& e) {
    if (!blameless_) return;
    std::vector<std::pair<size_t, Value>> waiting;
    for (const Ref<Cell>& c : cells_)
      if (pending(c->value_) && !has_error(*c->value_.node)) {
        roots_ = {c->value_};
        walk();
        waiting.emplace_back(order_.size(), c->value_);
      }
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
    const auto t0 = Clock::now();
    for (const auto& [size, v] : waiting) {
      if (!pending(v) || has_error(*v.node)) continue;
      try {
        if (seconds_since(t0) > kRescueSeconds) throw e;
        Flush(ctx_).run_alone(v);
      } catch (const Error& again) { set_error(v.node.get(), again.message(), again.kind()); }
    }
  }

 private:
  void run_roots(const Value* want) {
    const auto t0 = Clock::now();
    profile::PhaseScope lookup(profile::Phase::kLookup);
    while (!roots_.empty() && !walk()) drop_failed(want);
    if (roots_.empty()) return;
    keep_for_tape();
    const Structure structure(order_, outputs_, std::move(committed_), flags().donate && !alone_);
    const PlanKey key = structure.key();
    std::shared_ptr<const Plan> plan = cache().find(key);
    RunStats& st = run_stats();
    st.lookup_seconds += seconds_since(t0);
    lookup.end();
    ++st.flushes;
    if (plan) {
      ++st.hits;
    } else {
      const auto t1 = Clock::now();
      const profile::PhaseScope compiling(profile::Phase::kCompile);
      PlanRun none;
      guarded(none, [&] { plan = structure.compile(); });
      cache().put(key, plan, static_cast<size_t>(std::max<int64_t>(0, flags().plan_cache_bytes)));
      ++st.plans;
      st.kept_plans = cache().size(), st.kept_bytes = cache().bytes();
      st.compile_seconds += seconds_since(t1);
    }
    const auto t2 = Clock::now();
    const size_t n_nodes = order_.size();
    const profile::PhaseScope running(profile::Phase::kRun);
    if (profile::on()) profile::plan_number(*plan, [&](int32_t origin) { return position_of(origin); });
    DryRun* dry = DryRun::current();
    if (dry) dry->begin(plan, order_, outputs_);
    execute(*plan, structure);
    if (dry) dry->end();
    st.run_seconds += seconds_since(t2);
    st.kernels += plan->steps.size();
    st.nodes += n_nodes;
  }

  // Everything but an interrupt (which leaves the graph pending) becomes an Error that the graph remembers.
  template <class F>
  void guarded(PlanRun& r, F f) {
    try {
      return f();
    } catch (const Error& e) {
      if (r.failed_origin < 0) r.failed_origin = e.origin;
      failed(e, r);
    } catch (const std::bad_alloc&) {
      failed(Error(ErrorKind::kMemory, "out of memory for the work of a step. Hint: use a smaller batch."),
             r);
    } catch (const std::exception& e) { failed(Error(ErrorKind::kRuntime, e.what()), r); }
  }

  static const OpDef* leaf_op() {
    static const OpDef* op = &get_op("leaf");
    return op;
  }

  void collect_roots(const Value* want) {
    std::vector<Value> all;
    {
      std::lock_guard lock(pending_list_mutex());
      for (Cell* c = ctx_.head_; c; c = c->next_) {
        if (!c->try_ref()) continue;  // dying on another thread
        cells_.push_back(Ref<Cell>(c));
        c->unref();
        all.push_back(c->value_);
        if (c->committed_) committed_.push_back(c->committed_);
      }
    }
    if (&ctx_ == &Context::current()) {
      std::vector<Value> held;
      for (const InFlight* f = modes().in_flight; f; f = f->outer()) f->collect(&held);
      for (Value& v : held)
        if (v) all.push_back(std::move(v));
    }
    if (want) {
      if (has_error(*want->node)) rethrow(*want->node);
      all.push_back(*want);
    }
    std::sort(all.begin(), all.end(), [](const Value& x, const Value& y) {
      return x.node->id != y.node->id ? x.node->id < y.node->id : x.index < y.index;
    });
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const Value& v : all)
      if (pending(v) && !v.node->traced && !has_error(*v.node)) roots_.push_back(v);
  }

  [[noreturn]] static void rethrow(const Node& n) {
    throw Error(static_cast<ErrorKind>(n.extra->error_kind), n.extra->error);
  }

  // Pending nodes the roots reach, in creation order. False: some depend on a value that failed before.
  bool walk() {
    const uint32_t mark = fresh_mark();
    order_.clear();
    bool sound = true;
    std::vector<Node*> stack;
    auto visit = [&](const Value& v) {
      if (!pending(v) || v.node->mark == mark) return;
      v.node->mark = mark;
      stack.push_back(v.node.get());
    };
    for (const Value& v : roots_) visit(v);
    while (!stack.empty()) {
      Node* n = stack.back();
      stack.pop_back();
      if (n->executed && !has_error(*n))
        set_error(n, cat(op_name(*n), ": a value that was not kept is read again (internal error)."),
                  ErrorKind::kRuntime);
      order_.push_back(n);
      if (has_error(*n)) {
        sound = false;
        continue;
      }
      for (const Value& v : n->inputs) visit(v);
    }
    std::sort(order_.begin(), order_.end(), [](Node* x, Node* y) { return x->id < y->id; });
    for (size_t i = 0; i < order_.size(); ++i) order_[i]->slot = static_cast<uint32_t>(i);
    outputs_ = roots_;
    return sound;
  }

  static bool has_error(const Node& n) { return n.extra && !n.extra->error.empty(); }
  static void set_error(Node* n, const std::string& message, ErrorKind kind) {
    n->make_extra().error = message;
    n->extra->error_kind = static_cast<int>(kind);
  }

  // What depends on a failed value fails with the same error; everything else still runs.
  void drop_failed(const Value* want) {
    for (Node* n : order_)
      for (const Value& v : n->inputs)
        if (!has_error(*n) && pending(v) && has_error(*v.node))
          set_error(n, v.node->extra->error, static_cast<ErrorKind>(v.node->extra->error_kind));
    if (want && has_error(*want->node)) rethrow(*want->node);
    std::erase_if(roots_, [](const Value& v) { return has_error(*v.node); });
    if (roots_.empty()) unlink_all();
  }

  // What the gradient rules of still-differentiable nodes name must survive this flush (DESIGN 3.3).
  void keep_for_tape() {
    tape_.assign(order_.size(), 0);
    tape_leaves_.clear();
    bool any = false;
    for (const Value& v : roots_)
      if (v.node->requires_grad && !v.node->released) tape_[v.node->slot] = 1, any = true;
    if (!any) return;
    std::vector<Value> kept;
    for (size_t i = order_.size(); i-- > 0;) {
      if (!tape_[i]) continue;
      Node* n = order_[i];
      if (n->extra && n->extra->leaf) continue;
      const uint32_t in = needs_inputs(*n), out = needs_outputs(*n);
      for (uint32_t k = 0; k < n->inputs.size(); ++k) {
        const Value& v = n->inputs[k];
        if (in >> std::min(k, 31u) & 1) (pending(v) ? kept : tape_leaves_).push_back(v);
        if (v.requires_grad() && pending(v) && !v.node->released) tape_[v.node->slot] = 1;
      }
      for (uint32_t k = 0; k < n->outputs.size(); ++k)
        if (k < 32 && (out >> k & 1)) kept.push_back(Value(n, k));
    }
    for (Value& v : kept) outputs_.push_back(std::move(v));
    std::sort(outputs_.begin(), outputs_.end(), [](const Value& x, const Value& y) {
      return x.node->slot != y.node->slot ? x.node->slot < y.node->slot : x.index < y.index;
    });
    outputs_.erase(std::unique(outputs_.begin(), outputs_.end()), outputs_.end());
  }

  void execute(const Plan& plan, const Structure& structure) {
    PlanRun r;
    structure.feed(&r);
    guarded(r, [&] { run_plan(plan, &r, poll_function()); });
    finish(r);
  }

  // Which pending nodes a failure spoils: those that depend on the node to blame. Where state was overwritten
  // already, all but what is made from nothing (initial values). Where nothing is to blame, none: see
  // rescue().
  std::vector<char> spoiled(const PlanRun& r) {
    const int blame = r.failed_origin < static_cast<int>(order_.size()) ? r.failed_origin : -1;
    blameless_ = blame < 0 || r.wrote_donated;
    std::vector<char> bad(order_.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      if (static_cast<int>(i) == blame) bad[i] = 1;
      for (const Value& v : order_[i]->inputs)
        if (pending(v) ? bad[v.node->slot] != 0 : r.wrote_donated && v.node->kind != Node::Kind::kScalar)
          bad[i] = 1;
    }
    return bad;
  }

  std::string position_of(int32_t origin) const {
    return origin >= 0 && origin < static_cast<int>(order_.size()) ? describe_position(order_[origin]->pos)
                                                                   : "";
  }

  // Parameters go back to what they were; what could not be computed re-raises the same error from now on.
  [[noreturn]] void failed(const Error& e, const PlanRun& r) {
    if (alone_) throw Error(e);
    Error err = e;
    if (const std::string at = position_of(r.failed_origin); !at.empty())
      err.append(cat("\n  recorded at ", at));
    const std::vector<char> bad = spoiled(r);
    for (size_t i = 0; i < order_.size(); ++i)
      if (bad[i] && order_[i]->op != leaf_op()) set_error(order_[i], err.message(), err.kind());
    for (const Ref<Cell>& c : cells_) {
      if (!c->committed_ || has_error(*c->committed_.node)) continue;
      Value back = c->committed_;
      c->value_ = std::move(back);
      ++c->version_;
    }
    unlink_all();
    throw err;
  }

  void unlink_all() {
    for (const Ref<Cell>& c : cells_)
      if (!pending(c->value_) || has_error(*c->value_.node)) c->committed_ = {}, c->unlink();
  }

  void finish(PlanRun& r) {
    for (size_t i = 0; i < outputs_.size(); ++i)
      outputs_[i].node->outputs[outputs_[i].index].buffer = std::move(r.outputs[i]);
    std::vector<Value> drop;  // inputs die after the loop: clearing may free nodes of order_
    for (size_t i = 0; i < order_.size(); ++i) {
      Node* n = order_[i];
      if (n->op == leaf_op())
        continue;  // a name for its input, made once per version and used by many graphs
      if (n->op->view && !n->materialised(0))
        continue;            // no kernel ran: other views may still read through it
      if (alone_) continue;  // other values may still need the inner ones
      n->executed = true;
      if (tape_[i] && !n->released) continue;
      for (Value& v : n->inputs) drop.push_back(std::move(v));
      n->inputs.clear();
    }
    order_.clear();
    // A result of a multi-output node gets a node of its own: its buffer can be handed on (donated)
    // independently.
    if (!alone_)
      for (const Ref<Cell>& c : cells_) {
        Value& v = c->value_;
        if (v.node->outputs.size() > 1 && !v.node->requires_grad && v.node->materialised(v.index)) {
          Ref<Buffer> b = v.node->outputs[v.index].buffer;
          // Updated in place: the old node's memory holds the new value already, so nobody reads the old one.
          Node* old = c->committed_.node.get();
          if (old && old->kind == Node::Kind::kData && old->outputs[0].buffer == b &&
              old->outputs[0].type == v.type()) {
            old->id = next_node_id();
            v = std::move(c->committed_);
          } else {
            v = make_data(v.type(), std::move(b));
          }
        }
      }
    unlink_all();  // last: a cell that is on no list may be read by any thread
  }

  Context& ctx_;
  static constexpr double kRescueSeconds = 1;
  bool alone_ = false, blameless_ = false;
  std::vector<Ref<Cell>> cells_;
  std::vector<Value> roots_, outputs_, committed_;
  std::vector<Node*> order_;
  std::vector<char> tape_;
  std::vector<Value>
      tape_leaves_;  // computed before, named by the gradient rules of what runs now: held, so not donated
};

namespace {
void prepare_to_run() {
  if (prepare_executor()) cache().clear();
}
}  // namespace

// The owner of a graph that another thread runs sees `visited_` at its next operation and waits there. It is
// set before the two threads meet, so the owner is not in the middle of one.
void Context::await_visitor() {
  if (!visited_.load(std::memory_order_acquire)) return;
  const Unlocked unlocked;
  const Running running;
}

void Context::flush(const Value* want) {
  if (modes().recording) return want ? compute(*want) : void();  // a program's nodes are not this graph's
  const Unlocked unlocked;
  const Running running;
  step_closed = false;
  prepare_to_run();
  Flush f(*this);
  try {
    f.run(want);
  } catch (const Error& e) {
    f.rescue(e);
    throw;
  }
}

void Context::compute(const Value& v) {
  const Unlocked unlocked;
  const Running running;
  prepare_to_run();
  Flush(*this).run_held(v);
}

void Context::visit(const Cell& cell) {
  Unlocked unlocked;
  const Running running;
  struct Visit {
    std::atomic<bool>& on;
    explicit Visit(std::atomic<bool>& x) : on(x) { on.store(true, std::memory_order_release); }
    ~Visit() { on.store(false, std::memory_order_release); }
  } const visit(visited_);
  prepare_to_run();
  for (;;) {
    unlocked.meet();
    // In the middle of a backward, whose own values no cell holds, only what is asked for; the rest stays as
    // it is.
    if (owner_in_backward()) {
      Flush(*this).run_alone(Value(cell.value_));
      return unlocked.relock();
    }
    {
      Flush f(*this);
      try {
        f.run(nullptr);
      } catch (const Error& e) {
        f.rescue(e);
        throw;
      }
    }
    // With both locks nobody records and nobody runs. The owner may have written the cell anew before we had
    // the second.
    unlocked.relock();
    if (cell.context_.load(std::memory_order_acquire) != this || !Flush::waits(cell.value_)) return;
    unlocked.unlock();
  }
}

void clear_plan_cache() {
  const Unlocked unlocked;
  const Running running;
  cache().clear();
  run_stats().kept_plans = run_stats().kept_bytes = 0;
}

}  // namespace yuloh
