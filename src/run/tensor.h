// SPDX-License-Identifier: Apache-2.0
// What users hold: a Tensor is a view function over a storage Cell. Recording an op makes a node and a Tensor
// whose cell holds the pending value; writing in place gives the cell a new version that every alias reads
// through its view. A Context (one per thread) knows the cells whose values are pending; `flush` runs what
// they reach, once.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "grad/backward.h"
#include "ops/op.h"
#include "plan/plan.h"

namespace yuloh {

class Context;

class Cell : public RefCounted {
 public:
  explicit Cell(Value v);
  ~Cell();
  const Value& value() const { return value_; }
  uint64_t version() const { return version_; }
  void set(Value v);  // a new version; the last materialised one is kept until the new one has been computed
  void settle()
      const;  // before this thread looks: what another thread records is run, what it is running is awaited

 private:
  friend class Context;
  friend class Flush;
  void link();
  void unlink();
  Value value_, committed_;
  uint64_t version_ = 0;
  std::atomic<Context*> context_{
      nullptr};  // whose pending list this is on; cleared last, when the value is in place
  Cell *prev_ = nullptr, *next_ = nullptr;
};

struct ViewStep {
  const OpDef* op;
  Attrs attrs;
  Ints
      strides;  // after this step, over a row-major base: decides whether a further reshape aliases or copies
};

class Tensor : public RefCounted {
 public:
  explicit Tensor(Value v) : cell_(make_ref<Cell>(std::move(v))) {}
  Tensor(const Tensor& o);  // an alias: same cell, same views
  ~Tensor();
  // The value to record with: through the views, as a differentiation leaf or cut from the graph where that
  // applies.
  Value value();
  const TensorType& type();
  void assign(const Value& v);  // in place, seen by every alias
  static Ref<Tensor> view_of(const Ref<Tensor>& base, const OpDef& op, const Attrs& attrs, Value v);
  Ref<Tensor> detach();
  bool stop_gradient();
  void set_stop_gradient(bool stop);
  bool is_leaf();
  void backward(const Value& grad, bool retain_graph);
  int add_hook(std::shared_ptr<HookFn> f);
  void remove_hook(int id);
  void retain_grads();
  void clear_grad(bool set_to_zero);
  Ref<Tensor> gradient();     // what `.grad` reads
  Ref<Buffer> materialise();  // runs what is pending; throws what failed
  const Ref<Cell>& cell() const { return cell_; }
  uint64_t version() const { return cell_->version(); }

  Ref<Tensor> grad;           // accumulated gradient, null: none
  bool grad_is_zero = false;  // cleared to zero: reads as zeros until the next accumulation
  std::string name;
  bool persistable = false;
  bool is_parameter = false;

 private:
  enum class Mode : uint8_t { kAuto, kStop, kTrain };
  Value raw();  // through the views only
  Value keep_gradient(Value v) const;
  Ref<Cell> cell_;
  std::unique_ptr<std::vector<ViewStep>> views_;
  Value view_cache_, leaf_cache_, stop_cache_;
  uint64_t view_version_ = ~0ull, leaf_version_ = ~0ull, stop_version_ = ~0ull;
  Ref<LeafInfo> leaf_;
  Mode mode_ = Mode::kAuto;
  int next_hook_ = 0;
  std::vector<std::pair<int, std::shared_ptr<HookFn>>> hooks_;
};

// Runs a backward and adds the results to the leaves' .grad.
void accumulate_backward(const BackwardRequest& r);

struct Flags {
  bool fusion = true, eager = false, library = true, donate = true, rules = true;
  int64_t plan_cache_bytes = int64_t{512} << 20;  // what plans may keep: least recently used ones go
  bool native_loader = true;                      // DataLoader may use src/data; false: the Python path
  int64_t pending_bytes_limit = 0;                // 0: the machine's memory (bytes counted before fusion)
};
Flags& flags();

struct RunStats {
  uint64_t plans = 0, hits = 0, flushes = 0, kernels = 0, nodes = 0;
  uint64_t kept_plans = 0, kept_bytes = 0;  // what the plan cache holds now
  double compile_seconds = 0, lookup_seconds = 0, run_seconds = 0;
};
RunStats& run_stats();

class Context {
 public:
  static Context& current();
  // Runs everything live handles reach (plus `want`, if given); gives the interpreter's lock up meanwhile.
  void flush(const Value* want = nullptr);
  // Runs what `v` needs and nothing else; of that, what somebody holds gets its value too.
  void compute(const Value& v);
  bool has_pending();
  void note_bytes(int64_t b) { pending_bytes_ += b; }
  bool over_limit() const;
  void cut_point();  // backward, step, clear_grad, ...: flush if the byte bound is exceeded or eager
  // From another thread: runs this context's graph, at the least as far as the cell's value.
  void visit(const Cell& cell);
  void await_visitor();      // another thread runs this context's graph: it is not ours to touch until it has
  int uncut = 0;             // > 0: within a recomputed function, where what a cut keeps would defeat it
  uint64_t calls = 0;        // recorded by Python, ever
  bool step_closed = false;  // optimizer.step() was recorded and has not run yet

 private:
  friend class Cell;
  friend class Flush;
  friend struct ContextLease;
  Cell* head_ = nullptr;
  std::atomic<bool> visited_{false};
  bool owner_in_backward() const;
  const Modes* owner_ = nullptr;  // of the thread that records here; null when it has ended
  int64_t pending_bytes_ = 0;
};

// Set by the binding: called between kernels (Ctrl-C), and to describe a source position ("file:line").
void set_poll(std::function<void()> f);
struct InterpreterLock {
  void* (*release)() = nullptr;  // null: this thread does not hold it
  void (*acquire)(void*) = nullptr;
};
void set_interpreter_lock(InterpreterLock l);
void set_position_resolver(std::string (*f)(const SourcePos&));
std::string describe_position(const SourcePos& p);
void clear_plan_cache();
void before_fork();  // called by the thread that forks, and after_fork by it in parent and child
void after_fork();

}  // namespace yuloh
