// SPDX-License-Identifier: Apache-2.0
#include "run/tensor.h"

#include "base/cgroup.h"
#include "plan/profile.h"
#include "run/dry_run.h"
#include "run/recording.h"

namespace yuloh {
namespace {
std::mutex g_list_mu;  // guards the pending lists: a tensor may die on another thread than recorded it
bool is_pending(const Value& v) { return pending(v) && !v.node->traced; }
std::function<void()> g_poll;
InterpreterLock g_interpreter;
std::string (*g_resolver)(const SourcePos&) = nullptr;
}  // namespace

// ---- Cell ----

Cell::Cell(Value v) : value_(std::move(v)) {
  if (is_pending(value_)) link();
}
Cell::~Cell() { unlink(); }

void Cell::settle() const {
  Context* c = context_.load(std::memory_order_acquire);
  if (!c) return;
  if (c == &Context::current()) c->await_visitor();
  else c->visit(*this);
}

void Cell::set(Value v) {
  settle();
  if (modes().recording) modes().recording->note_write(this);
  if (DryRun* dry = DryRun::current()) dry->note_write(this);
  // Of a value that was written in place before it ever ran, the first version: what a failing step goes back
  // to.
  if (!is_pending(value_) || !committed_) committed_ = value_;
  value_ = std::move(v);
  ++version_;
  if (is_pending(value_)) link();
  else unlink(), committed_ = {};
}

void Cell::link() {
  Context* now = &Context::current();
  if (context_.load(std::memory_order_relaxed) == now) return;
  unlink();
  std::lock_guard lock(g_list_mu);
  context_.store(now, std::memory_order_relaxed);
  // Newest last would need a tail; order does not matter, flush sorts by node id.
  next_ = now->head_, prev_ = nullptr;
  if (next_) next_->prev_ = this;
  now->head_ = this;
}
void Cell::unlink() {
  Context* c = context_.load(std::memory_order_relaxed);
  if (!c) return;
  std::lock_guard lock(g_list_mu);
  (prev_ ? prev_->next_ : c->head_) = next_;
  if (next_) next_->prev_ = prev_;
  prev_ = next_ = nullptr;
  context_.store(nullptr, std::memory_order_release);
}

// ---- Tensor ----

Tensor::~Tensor() {
  if (leaf_) leaf_->owner = nullptr;
}

Value Tensor::raw() {
  cell_->settle();
  if (!views_) return cell_->value();
  if (view_version_ == cell_->version()) return view_cache_;
  Value v = cell_->value();
  const GradMode mode(
      mode_ != Mode::kStop);  // cached for the whole version: reading under no_grad must not cut it off
  for (const ViewStep& s : *views_) v = apply(*s.op, {v}, s.attrs)[0];
  view_cache_ = v;
  view_version_ = cell_->version();
  return v;
}

Value Tensor::value() {
  Value v = raw();
  if (mode_ == Mode::kAuto) return v;
  if (mode_ == Mode::kStop) {
    if (!v.requires_grad()) return v;
    if (stop_version_ != cell_->version()) {
      NoGrad guard;
      stop_cache_ = apply(get_op("leaf"), {v}, {})[0];
      stop_version_ = cell_->version();
    }
    return stop_cache_;
  }
  if (v.requires_grad() || !modes().grad) return v;
  // Used once more after a backward without a step: the next micro-batch begins, and the last one is a plan
  // of its own. In one plan they would hold the intermediate results of all of them.
  if (grad && !grad_is_zero && is_pending(grad->cell_->value()) && !modes().in_flight && !modes().recording) {
    Context& c = Context::current();
    if (!c.uncut) c.flush();
  }
  if (leaf_version_ != cell_->version() || !leaf_cache_ || leaf_cache_.node->released) {
    if (!leaf_) leaf_ = make_ref<LeafInfo>(), leaf_->owner = this;
    leaf_cache_ = apply(get_op("leaf"), {v}, {})[0];
    leaf_cache_.node->requires_grad = true;
    leaf_cache_.node->make_extra().leaf = leaf_;
    for (auto& [id, h] : hooks_) leaf_cache_.node->extra->hooks.emplace_back(0, h);
    leaf_version_ = cell_->version();
  }
  return leaf_cache_;
}

const TensorType& Tensor::type() {
  if (!views_) return cell_->value().type();
  return raw().type();
}

// A write that is not recorded (no_grad, or through a detached alias) changes the value but not where
// gradients go.
Value Tensor::keep_gradient(Value v) const {
  const Value& old = cell_->value();
  if (!old.requires_grad() || v.requires_grad() || modes().grad) return v;
  GradMode recording(true);
  return apply(get_op("rewritten"), {std::move(v), old}, {})[0];
}

void Tensor::assign(const Value& v) {
  GradMode recorded(modes().grad && mode_ != Mode::kStop);
  leaf_cache_ = {}, stop_cache_ = {};
  leaf_version_ = stop_version_ = ~0ull;
  if (!views_) {
    cell_->set(keep_gradient(v));
    return;
  }
  view_cache_ = {};
  view_version_ = ~0ull;
  std::vector<Value> chain{cell_->value()};
  for (const ViewStep& s : *views_) chain.push_back(apply(*s.op, {chain.back()}, s.attrs)[0]);
  Value w = v;
  for (size_t i = views_->size(); i-- > 0;) {
    const ViewStep& s = (*views_)[i];
    if (!s.op->write)
      fail(ErrorKind::kNotImplemented, s.op->name, ": writing through this view is not defined.");
    const Value& base = chain[i];
    w = s.op->write(Call(*s.op, &base, 1, s.attrs), base, w);
  }
  chain.clear();
  cell_->set(keep_gradient(std::move(w)));
}

Ref<Tensor> Tensor::view_of(const Ref<Tensor>& base, const OpDef& op, const Attrs& attrs, Value v) {
  Ints strides;
  int64_t offset = 0;
  const Ints from =
      base->views_ ? base->views_->back().strides : row_major_strides(v.node->inputs[0].shape());
  if (!op.view(Call(*v.node), from, &strides, &offset))
    return make_ref<Tensor>(std::move(v));  // a reshape that must copy
  auto t = make_ref<Tensor>(*base);
  t->grad = nullptr, t->grad_is_zero = false, t->leaf_ = nullptr, t->hooks_.clear(), t->name.clear();
  t->persistable = t->is_parameter = false;
  t->leaf_cache_ = {}, t->stop_cache_ = {};
  t->leaf_version_ = t->stop_version_ = ~0ull;
  t->mode_ = base->mode_ == Mode::kStop ? Mode::kStop : Mode::kAuto;  // a view of a detached alias is one
  if (!t->views_) t->views_ = std::make_unique<std::vector<ViewStep>>();
  t->views_->push_back({&op, attrs, std::move(strides)});
  t->view_cache_ = std::move(v);
  t->view_version_ = t->cell_->version();
  return t;
}

Tensor::Tensor(const Tensor& o)
    : RefCounted(o),
      cell_(o.cell_),
      views_(o.views_ ? std::make_unique<std::vector<ViewStep>>(*o.views_) : nullptr),
      view_cache_(o.view_cache_),
      view_version_(o.view_version_) {}

Ref<Tensor> Tensor::detach() {
  auto t = make_ref<Tensor>(*this);
  t->mode_ = Mode::kStop;
  return t;
}

bool Tensor::stop_gradient() {
  if (mode_ == Mode::kAuto) return !raw().requires_grad();
  return mode_ == Mode::kStop;
}
void Tensor::set_stop_gradient(bool stop) {
  if (stop == (mode_ == Mode::kStop) && stop == stop_gradient() && mode_ != Mode::kAuto) return;
  if (!stop && !is_float(type().dtype) && !is_complex(type().dtype))
    fail(ErrorKind::kRuntime, "stop_gradient: only floating-point tensors can require gradients, got ",
         type().dtype, ".");
  mode_ = stop ? Mode::kStop : Mode::kTrain;
  leaf_version_ = stop_version_ = ~0ull;
}
bool Tensor::is_leaf() { return stop_gradient() || !raw().requires_grad(); }

int Tensor::add_hook(std::shared_ptr<HookFn> f) {
  const int id = next_hook_++;
  const Value v = value();
  if (!v.requires_grad())
    fail(ErrorKind::kRuntime,
         "register_hook: the tensor does not require a gradient. Hint: set stop_gradient = False.");
  v.node->make_extra().hooks.emplace_back(v.index, f);
  hooks_.emplace_back(id, std::move(f));
  return id;
}
void Tensor::remove_hook(int id) {
  for (size_t i = 0; i < hooks_.size(); ++i) {
    if (hooks_[i].first != id) continue;
    const Value v = value();
    if (v.node->extra)
      std::erase_if(v.node->extra->hooks, [&](auto& h) { return h.second == hooks_[i].second; });
    hooks_.erase(hooks_.begin() + static_cast<long>(i));
    return;
  }
}
void Tensor::retain_grads() {
  const Value v = value();
  if (!v.requires_grad() || (v.node->extra && v.node->extra->leaf)) return;
  // The hook lives on the node this tensor's value comes from; the tensor outlives it or the hook sees null.
  if (!leaf_) leaf_ = make_ref<LeafInfo>(), leaf_->owner = this;
  auto f = std::make_shared<HookFn>([info = leaf_](const Value& g) {
    if (auto* t = static_cast<Tensor*>(info->owner)) {
      NoGrad guard;
      if (t->grad && !t->grad_is_zero) t->grad->assign(call("add", {t->grad->value(), g}));
      else t->grad = make_ref<Tensor>(g), t->grad_is_zero = false;
    }
    return Value();
  });
  v.node->make_extra().hooks.emplace_back(v.index, std::move(f));
}

// Zeros are made only if somebody reads them (gradient()): a step that clears and refills stores none.
void Tensor::clear_grad(bool set_to_zero) {
  if (DryRun* dry = DryRun::current()) dry->note_gradient(this);
  grad_is_zero = set_to_zero && (grad || grad_is_zero);
  grad = nullptr;
}
Ref<Tensor> Tensor::gradient() {
  if (!grad && grad_is_zero) {
    const Shape s = type().shape;
    grad = make_ref<Tensor>(
        call("full", {}, {{"shape", Ints(s.begin(), s.end())}, {"value", 0.0}, {"dtype", type().dtype}}));
  }
  return grad;
}

void Tensor::backward(const Value& g, bool retain_graph) {
  BackwardRequest r;
  r.outputs = {value()};
  r.grads = {g};
  r.retain_graph = retain_graph;
  accumulate_backward(r);
}

void accumulate_backward(const BackwardRequest& r) {
  const profile::RecordScope recording;
  ++Context::current().calls;
  BackwardResult res = backward(r);
  const GradMode mode(r.create_graph);
  for (auto& [info, g] : res.leaves) {
    auto* t = static_cast<Tensor*>(info->owner);
    if (!t) continue;
    if (DryRun* dry = DryRun::current()) dry->note_gradient(t);
    if (t->grad && !t->grad_is_zero) t->grad->assign(call("add", {t->grad->value(), g}));
    else t->grad = make_ref<Tensor>(g), t->grad_is_zero = false;
  }
  Context::current().cut_point();
}

Ref<Buffer> Tensor::materialise() {
  const Value v = value();
  if (is_pending(v) && !modes().recording) Context::current().flush(&v);
  return read_value(v);
}

Flags& flags() {
  static Flags f;
  return f;
}
RunStats& run_stats() {
  static RunStats s;
  return s;
}

namespace {
// Contexts outlive their threads, because cells may: a new thread takes over one whose thread has ended, with
// what is still pending in it.
struct ContextPool {
  std::mutex mu;
  std::vector<Context*> idle, all;
};
ContextPool& context_pool() {
  static auto* p = new ContextPool;
  return *p;
}
}  // namespace

struct ContextLease {
  Context* c = nullptr;
  ContextLease() {
    ContextPool& p = context_pool();
    std::lock_guard lock(p.mu);
    if (p.idle.empty()) p.all.push_back(p.idle.emplace_back(new Context));
    c = p.idle.back();
    p.idle.pop_back();
    c->owner_ = &modes();
  }
  ~ContextLease() {
    ContextPool& p = context_pool();
    std::lock_guard lock(p.mu);
    c->owner_ = nullptr;
    p.idle.push_back(c);
  }
};

bool Context::owner_in_backward() const {
  std::lock_guard lock(context_pool().mu);  // the owner's modes are there as long as its lease
  return owner_ && owner_->in_flight;
}
Context& Context::current() {
  thread_local ContextLease lease;
  return *lease.c;
}
bool Context::has_pending() {
  std::lock_guard lock(g_list_mu);
  return head_ != nullptr;
}
bool Context::over_limit() const {
  static const auto machine = static_cast<int64_t>(machine_memory().total);
  const DryRun* dry = DryRun::current();
  const int64_t limit = dry ? dry->pending_limit() : flags().pending_bytes_limit;
  return !uncut && pending_bytes_ > (limit > 0 ? limit : machine);
}
void Context::cut_point() {
  if (over_limit()) flush();
}

void set_poll(std::function<void()> f) { g_poll = std::move(f); }
const std::function<void()>& poll_function() { return g_poll; }
void set_interpreter_lock(InterpreterLock l) { g_interpreter = l; }
const InterpreterLock& interpreter_lock() { return g_interpreter; }
void set_position_resolver(std::string (*f)(const SourcePos&)) { g_resolver = f; }
std::string describe_position(const SourcePos& p) {
  return g_resolver && p.code ? g_resolver(p) : std::string();
}
std::mutex& pending_list_mutex() { return g_list_mu; }

}  // namespace yuloh
