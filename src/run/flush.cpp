// SPDX-License-Identifier: Apache-2.0
// Flush: from live handles to a run Plan. Collects the pending nodes that live cells (and the tape) need, hashes their
// structure, finds or compiles the Plan, runs it on the leaves' buffers and hands the results back to the nodes.
#include <algorithm>
#include <bit>
#include <chrono>
#include <unordered_map>

#include "plan/profile.h"
#include "run/dry_run.h"
#include "run/executor.h"
#include "run/plan_cache.h"
#include "run/tensor.h"

namespace yuloh {

std::mutex& pending_list_mutex();

namespace {
using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

uint32_t g_mark = 0;

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

  // After a failure that no node can be blamed for (memory): every value runs by itself, the ones that need least first,
  // so that one that cannot be had does not take others with it (fresh parameters, copies). What fails then, or comes
  // too late, raises the error when it is read.
  void rescue(const Error& e) {
    if (!blameless_) return;
    std::vector<std::pair<size_t, Value>> waiting;
    for (const Ref<Cell>& c : cells_)
      if (pending(c->value_) && !has_error(*c->value_.node)) {
        roots_ = {c->value_};
        walk();
        waiting.emplace_back(order_.size(), c->value_);
      }
    std::stable_sort(waiting.begin(), waiting.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    const auto t0 = Clock::now();
    for (const auto& [size, v] : waiting) {
      if (!pending(v) || has_error(*v.node)) continue;
      try {
        if (seconds_since(t0) > kRescueSeconds) throw e;
        Flush(ctx_).run_alone(v);
      } catch (const Error& again) {
        set_error(v.node.get(), again.message(), again.kind());
      }
    }
  }

 private:
  void run_roots(const Value* want) {
    const auto t0 = Clock::now();
    profile::PhaseScope lookup(profile::Phase::kLookup);
    while (!roots_.empty() && !walk()) drop_failed(want);
    if (roots_.empty()) return;
    keep_for_tape();
    number();
    const PlanKey key = hash();
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
      guarded(none, [&] { plan = compile(); });
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
    execute(*plan);
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
      failed(Error(ErrorKind::kMemory, "out of memory for the work of a step. Hint: use a smaller batch."), r);
    } catch (const std::exception& e) {
      failed(Error(ErrorKind::kRuntime, e.what()), r);
    }
  }

  struct Leaf {
    Value v;
    uint32_t edges = 0;
    bool donatable = false;
  };

  static const OpDef* leaf_op() {
    static const OpDef* op = &get_op("leaf");
    return op;
  }
  static bool pending(const Value& v) { return v && v.node->kind == Node::Kind::kOp && !v.node->materialised(v.index); }

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

  [[noreturn]] static void rethrow(const Node& n) { throw Error(static_cast<ErrorKind>(n.extra->error_kind), n.extra->error); }

  // Pending nodes the roots reach, in creation order. False: some depend on a value that failed before.
  bool walk() {
    ++g_mark;
    order_.clear();
    bool sound = true;
    std::vector<Node*> stack;
    auto visit = [&](const Value& v) {
      if (!pending(v) || v.node->mark == g_mark) return;
      v.node->mark = g_mark;
      stack.push_back(v.node.get());
    };
    for (const Value& v : roots_) visit(v);
    while (!stack.empty()) {
      Node* n = stack.back();
      stack.pop_back();
      if (n->executed && !has_error(*n)) set_error(n, cat(op_name(*n), ": a value that was not kept is read again (internal error)."), ErrorKind::kRuntime);
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
        if ((in >> std::min(k, 31u) & 1) && pending(v)) kept.push_back(v);
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

  uint32_t leaf_number(const Value& v) {
    Node* n = v.node.get();
    if (n->outputs.size() == 1) {  // the usual case: scratch fields remember the number
      if (n->mark != g_mark) {
        n->mark = g_mark;
        n->slot = static_cast<uint32_t>(leaves_.size());
        leaves_.push_back({v});
      }
      ++leaves_[n->slot].edges;
      return n->slot;
    }
    const auto [it, fresh] = multi_.try_emplace({n, v.index}, static_cast<uint32_t>(leaves_.size()));
    if (fresh) leaves_.push_back({v});
    ++leaves_[it->second].edges;
    return it->second;
  }

  // Codes of node inputs: odd = leaf number, even = (node, output). Decides which leaves may be overwritten.
  static uint64_t output_code(const Value& v) { return uint64_t{v.node->slot} << 32 | uint64_t{v.index} << 1; }
  void number() {
    for (Node* n : order_)
      for (const Value& v : n->inputs)
        codes_.push_back(pending(v) ? output_code(v) : uint64_t{leaf_number(v)} << 1 | 1);
    for (const Value& v : committed_)
      if (v.node->mark == g_mark && v.node->kind != Node::Kind::kScalar) add_edge(v);
    for (Leaf& l : leaves_) {
      Node* n = l.v.node.get();
      if (n->kind == Node::Kind::kScalar) continue;
      const Buffer& b = *n->outputs[l.v.index].buffer;
      // +1: the reference in leaves_ itself. Outputs of multi-output nodes are not counted: never donated. Nor is a
      // part of a larger storage: what takes a storage over starts at its first byte.
      l.donatable = flags().donate && !alone_ && n->outputs.size() == 1 && n->use_count() == l.edges + 1 && b.use_count() == 1 &&
                    b.storage->use_count() == 1 && !b.storage->free && b.offset == 0 && !own_gradient_reads(l.v);
    }
    committed_.clear();
  }
  // sigmoid's gradient reads sigmoid's result: an in-place op on it must not take the buffer while the tape lives.
  static bool own_gradient_reads(const Value& v) {
    const Node& n = *v.node;
    return n.kind == Node::Kind::kOp && n.requires_grad && !n.released && (needs_outputs(n) >> v.index & 1);
  }
  void add_edge(const Value& v) {
    Node* n = v.node.get();
    // One reference by the cell's committed value and one by our copy of it in committed_.
    if (n->outputs.size() == 1 && n->slot < leaves_.size() && leaves_[n->slot].v == v) leaves_[n->slot].edges += 2;
  }

  // By structure, as everything else: a body that is recorded anew is the same plan, and an address may be used again.
  static void mix_region(PlanKey* k, const Graph& g) {
    std::unordered_map<const Node*, uint64_t> number;
    auto mix = [&](const Value& v) {
      const auto it = number.find(v.node.get());
      if (it == number.end()) fail(ErrorKind::kRuntime, "loop: the body reads a value that is not one of its inputs.");
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

  PlanKey hash() const {
    PlanKey k;
    const Flags& f = flags();
    k.mix(f.fusion | f.library << 1 | f.donate << 2 | f.rules << 3);
    size_t c = 0;
    for (Node* n : order_) {
      k.mix(n->op->uid);
      for (int64_t w : n->attrs) k.mix(static_cast<uint64_t>(w));
      for (uint32_t i = 0; i < n->inputs.size(); ++i) k.mix(codes_[c++]);
      if (n->extra && n->extra->region) mix_region(&k, *n->extra->region);
    }
    for (const Leaf& l : leaves_) {
      const TensorType& t = l.v.type();
      k.mix(static_cast<uint64_t>(t.dtype) | t.shape.size() << 8 | uint64_t{l.donatable} << 16 |
            uint64_t{l.v.node->kind == Node::Kind::kScalar} << 17);
      for (Dim d : t.shape) k.mix(static_cast<uint64_t>(d));
      if (l.v.node->kind != Node::Kind::kScalar)
        for (int64_t s : l.v.node->outputs[l.v.index].buffer->strides) k.mix(static_cast<uint64_t>(s));
    }
    for (const Value& v : outputs_) k.mix(output_code(v));
    return k;
  }

  // A closed copy of the pending graph: placeholders for leaves, origins for error positions.
  std::shared_ptr<const Plan> compile() {
    Graph g;
    std::vector<PlanInput> inputs;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const Leaf& l = leaves_[i];
      const bool scalar = l.v.node->kind == Node::Kind::kScalar;
      g.inputs.push_back(make_input(l.v.type(), static_cast<int64_t>(i)));
      inputs.push_back({l.v.type(), scalar ? Ints() : l.v.node->outputs[l.v.index].buffer->strides, l.donatable, scalar});
    }
    std::vector<Ref<Node>> copy;
    copy.reserve(order_.size());
    size_t c = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      Node* n = order_[i];
      auto m = make_ref<Node>();
      m->op = n->op, m->id = next_node_id(), m->attrs = n->attrs;
      m->pos.instr = static_cast<int32_t>(i);
      for (const auto& o : n->outputs) m->outputs.push_back({o.type, nullptr});
      for (uint32_t k = 0; k < n->inputs.size(); ++k) {
        const uint64_t code = codes_[c++];
        m->inputs.push_back(code & 1 ? g.inputs[code >> 1] : Value(copy[code >> 32], static_cast<uint32_t>(code) >> 1));
      }
      if (n->extra && n->extra->region) m->make_extra().region = n->extra->region;
      copy.push_back(std::move(m));
    }
    for (const Value& v : outputs_) g.outputs.push_back(Value(copy[v.node->slot], v.index));
    copy.clear();
    PlanOptions o;
    o.fusion = flags().fusion, o.library = flags().library, o.donate = flags().donate, o.rules = flags().rules;
    const char* env = getenv("YULOH_EXPLAIN");
    o.explain = env || profile::on();
    o.lifetimes = DryRun::current() != nullptr;
    o.explain_fusion = env && std::string_view(env).find("fusion") != std::string_view::npos;
    auto plan = compile_plan(g, std::move(inputs), o);
    explain(*plan);
    return plan;
  }

  // YULOH_EXPLAIN=plan,fusion,kernels: what was compiled, what did not fuse and why, which candidates refused and why.
  static void explain(const Plan& plan) {
    const char* env = getenv("YULOH_EXPLAIN");
    if (!env) return;
    const std::string_view want = env;
    if (want.find("plan") != want.npos) fputs(plan.dump().c_str(), stderr);
    for (const std::string& line : plan.explain) {
      const bool kernel = line.find(" refused: ") != line.npos;
      if (want.find(kernel ? "kernels" : "fusion") != want.npos) fprintf(stderr, "%s\n", line.c_str());
    }
  }

  void execute(const Plan& plan) {
    PlanRun r;
    r.inputs.resize(leaves_.size());
    r.scalars_double.resize(leaves_.size());
    r.scalars_int.resize(leaves_.size());
    for (size_t i = 0; i < leaves_.size(); ++i) {
      Node& n = *leaves_[i].v.node;
      if (n.kind == Node::Kind::kScalar) {
        r.scalars_int[i] = n.attrs[0];
        r.scalars_double[i] = scalar_as_double(n);
      } else {
        r.inputs[i] = n.outputs[leaves_[i].v.index].buffer;
      }
    }
    guarded(r, [&] { run_plan(plan, &r, poll_function()); });
    finish(r);
  }

  // Which pending nodes a failure spoils: those that depend on the node to blame. Where state was overwritten already,
  // all but what is made from nothing (initial values). Where nothing is to blame, none: see rescue().
  std::vector<char> spoiled(const PlanRun& r) {
    const int blame = r.failed_origin < static_cast<int>(order_.size()) ? r.failed_origin : -1;
    blameless_ = blame < 0 || r.wrote_donated;
    std::vector<char> bad(order_.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      if (static_cast<int>(i) == blame) bad[i] = 1;
      for (const Value& v : order_[i]->inputs)
        if (pending(v) ? bad[v.node->slot] != 0 : r.wrote_donated && v.node->kind != Node::Kind::kScalar) bad[i] = 1;
    }
    return bad;
  }

  std::string position_of(int32_t origin) const {
    return origin >= 0 && origin < static_cast<int>(order_.size()) ? describe_position(order_[origin]->pos) : "";
  }

  // Parameters go back to what they were; what could not be computed re-raises the same error from now on.
  [[noreturn]] void failed(const Error& e, const PlanRun& r) {
    if (alone_) throw Error(e);
    Error err = e;
    if (const std::string at = position_of(r.failed_origin); !at.empty()) err.append(cat("\n  recorded at ", at));
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
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].node->outputs[outputs_[i].index].buffer = std::move(r.outputs[i]);
    std::vector<Value> drop;  // inputs die after the loop: clearing may free nodes of order_
    for (size_t i = 0; i < order_.size(); ++i) {
      Node* n = order_[i];
      if (n->op == leaf_op()) continue;  // a name for its input, made once per version and used by many graphs
      if (n->op->view && !n->materialised(0)) continue;  // no kernel ran: other views may still read through it
      if (alone_) continue;  // other values may still need the inner ones
      n->executed = true;
      if (tape_[i] && !n->released) continue;
      for (Value& v : n->inputs) drop.push_back(std::move(v));
      n->inputs.clear();
    }
    order_.clear();
    // A result of a multi-output node gets a node of its own: its buffer can be handed on (donated) independently.
    if (!alone_)
      for (const Ref<Cell>& c : cells_) {
        Value& v = c->value_;
        if (v.node->outputs.size() > 1 && !v.node->requires_grad && v.node->materialised(v.index)) {
          Ref<Buffer> b = v.node->outputs[v.index].buffer;
          // Updated in place: the old node's memory holds the new value already, so nobody reads the old one.
          Node* old = c->committed_.node.get();
          if (old && old->kind == Node::Kind::kData && old->outputs[0].buffer == b && old->outputs[0].type == v.type()) {
            old->id = next_node_id();
            v = std::move(c->committed_);
          } else {
            v = make_data(v.type(), std::move(b));
          }
        }
      }
    unlink_all();  // last: a cell that is on no list may be read by any thread
  }

  struct NodeIndex {
    Node* n;
    uint32_t i;
    bool operator==(const NodeIndex& o) const { return n == o.n && i == o.i; }
  };
  struct NodeIndexHash {
    size_t operator()(const NodeIndex& k) const { return reinterpret_cast<size_t>(k.n) * 31 + k.i; }
  };

  Context& ctx_;
  static constexpr double kRescueSeconds = 1;
  bool alone_ = false, blameless_ = false;
  std::vector<Ref<Cell>> cells_;
  std::vector<Value> roots_, outputs_, committed_;
  std::vector<Node*> order_;
  std::vector<char> tape_;
  std::vector<Leaf> leaves_;
  std::unordered_map<NodeIndex, uint32_t, NodeIndexHash> multi_;
  std::vector<uint64_t> codes_;
};

namespace {
void prepare_to_run() {
  if (prepare_executor()) cache().clear();
}
}  // namespace

// The owner of a graph that another thread runs sees `visited_` at its next operation and waits there. It is set before
// the two threads meet, so the owner is not in the middle of one.
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
    // In the middle of a backward, whose own values no cell holds, only what is asked for; the rest stays as it is.
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
    // With both locks nobody records and nobody runs. The owner may have written the cell anew before we had the second.
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
