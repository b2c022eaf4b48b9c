// SPDX-License-Identifier: Apache-2.0
// DryRun: a real run without kernels. While one lives, this thread records, differentiates, compiles and
// allocates as ever, but in dry memory (base/buffer.h), with a plan cache of its own, and no kernel runs:
// what is read is zero. It keeps what was "run": Plans, in order, and where in the model each step comes
// from. advise/ reads needs off it.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "run/dry_parts.h"
#include "run/plan_cache.h"
#include "run/tensor.h"

namespace yuloh {

struct DryNode {                // as it was recorded: before passes, fusion and planning
  std::vector<int32_t> inputs;  // nodes of the same flush; -1: there before
  size_t bytes = 0;             // of its results
  // OpDef::eager in bytes: what another system keeps beside the results, what it copies while the op runs.
  double eager_keeps = 0, eager_copies = 0;
  bool view = false, leaves = false;
};

struct DryFlush {
  std::shared_ptr<const Plan> plan;
  std::vector<int32_t> scopes;  // SourcePos::scope by origin
  std::vector<DryNode> nodes;   // by origin
  bool peak = false;            // the allocator's peak so far was reached while it ran
  size_t held = 0;              // bytes in use before it
  uint64_t calls = 0;           // that Python made since the flush before
  int32_t scope_of(const Step& s) const {
    return s.origin >= 0 && s.origin < static_cast<int32_t>(scopes.size())
               ? scopes[static_cast<size_t>(s.origin)]
               : 0;
  }
};

class DryRun {
 public:
  // Runs what is pending first. `pending_limit`: bytes pending before a plan is cut (Context::over_limit), 0:
  // none.
  explicit DryRun(int64_t pending_limit);
  ~DryRun();  // gives tensors from outside their values and gradients back
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;
  static DryRun* current();
  static bool any() { return any_.load(std::memory_order_relaxed); }  // whether there was one in this process

  // "Runs" what is pending, at the end; an interrupt comes through. Without it the destructor does, and
  // swallows that.
  void finish();
  // A tensor from outside takes part: it gets dry storage for its value and no gradient, both until the end.
  void borrow(const Ref<Tensor>& t);
  // Called before a cell takes a new value, a tensor a new gradient: those from outside get the old one back
  // at the end.
  void note_write(Cell* cell);
  void note_gradient(Tensor* t);
  int64_t pending_limit() const { return limit_; }
  void begin(const std::shared_ptr<const Plan>& plan, const std::vector<Node*>& order,
             const std::vector<Value>& outputs);
  void end();

  PlanCache cache;
  std::vector<DryFlush> flushes;
  DryParts parts;
  MemoryStats at_peak{};  // read in the flush that made the peak
  // Its block was left in another thread, which cannot end it: until this one does, nothing is read, or zeros
  // would be taken for values.
  std::atomic<bool> left = false;

 private:
  static inline std::atomic<bool> any_ = false;
  struct Graded {
    Ref<Tensor> tensor, grad;
    bool grad_is_zero;
  };
  int64_t limit_;
  uint64_t first_ = next_node_id();  // nodes with smaller ids were there before
  bool finished_ = false, restoring_ = false;
  size_t most_ = 0;
  uint64_t calls_ = 0;
  RngState rng_;
  std::optional<DryMemory> memory_;
  std::vector<std::pair<Ref<Cell>, Value>> written_;
  std::vector<Graded> graded_;
  std::unordered_set<const void*> noted_;  // the cells and tensors of both
};

// What was made in a dry run and is read outside of it, or at all after its block was left in another thread.
void refuse_dry(const Buffer& b);
// The same as an operand outside, where it is recorded (plan/run.cpp refuses what comes another way).
void refuse_dry_operand(const Value& v, std::string_view op);

}  // namespace yuloh
