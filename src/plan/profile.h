// SPDX-License-Identifier: Apache-2.0
// Profile: what ran when, and which memory was held, for `yuloh profile` and paddle.profiler. The run of a
// Plan reports kernels and storages, run/ the phases of a flush, py/ the time spent recording. Off, it costs
// one relaxed load per flush and per recorded call, nothing per kernel. Times are nanoseconds of the
// monotonic clock (Python's time.perf_counter_ns), so that Python's own events lie on the same axis.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace yuloh::profile {

enum class Phase : uint8_t { kLookup, kCompile, kRun };
const char* phase_name(Phase p);

struct StepRecord {
  std::string what, how, refused,
      where;  // ops, kernel, candidates that stood before it and why not, "file:line"
  DType dtype;
  double flops, bytes;
  std::string_view kind;    // Step::kind
  std::vector<Slot> slots;  // Step::slots
};
struct HeldRecord {  // a storage of a plan: a result, or what lies in the arena when most of it is in use
  std::string what, where;
  size_t bytes;
};
struct PlanRecord {
  size_t arena_bytes, peak_bytes;
  std::vector<StepRecord> steps;
  std::vector<HeldRecord> results, arena;
};
struct KernelEvent {
  uint32_t plan, step;
  int32_t thread;
  int64_t begin, end;
};
struct PhaseEvent {
  Phase phase;
  int32_t thread;
  int64_t begin, end;
};
struct MemoryEvent {
  int64_t when;
  const void* block;
  int64_t bytes;         // negative: given back
  int32_t plan, result;  // plan -1: taken outside of a plan; result -1: the arena
};
struct Data {
  std::vector<PlanRecord> plans;
  std::vector<KernelEvent> kernels;
  std::vector<PhaseEvent> phases;
  std::vector<MemoryEvent> memory;
  size_t held_at_start = 0;
  int64_t recording = 0;  // ns inside recorded calls, without the flushes that they set off
  uint64_t recorded = 0;  // calls
};

extern std::atomic<bool> g_on;
inline bool on() { return g_on.load(std::memory_order_relaxed); }
void start();  // forgets what was recorded before
void stop();
Data snapshot();
int64_t recording_ns();  // Data::recording so far
int64_t now();

// The number of a plan, which is described at its first sight. `where` tells the source position of a graph
// position.
uint32_t plan_number(const Plan& plan, const std::function<std::string(int32_t)>& where);
void kernel_ran(uint32_t plan, uint32_t step, int64_t begin);

class PhaseScope {
 public:
  explicit PhaseScope(Phase p) : phase_(p), begin_(on() ? now() : 0) {}
  ~PhaseScope() { end(); }
  void end();

 private:
  Phase phase_;
  int64_t begin_;
};
class RecordScope {
 public:
  RecordScope() : begin_(on() ? now() : 0) {
    if (begin_) enter();
  }
  ~RecordScope() {
    if (begin_) leave();
  }

 private:
  void enter();
  void leave();
  int64_t begin_, flushed_ = 0;
  bool nested_ = false;
};
class HolderScope {  // storages taken by this thread meanwhile belong to this part of a plan
 public:
  HolderScope(int32_t plan, int32_t result);
  ~HolderScope();
};

}  // namespace yuloh::profile
