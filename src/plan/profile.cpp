// SPDX-License-Identifier: Apache-2.0
#include "plan/profile.h"

#include <chrono>
#include <mutex>
#include <unordered_map>

namespace yuloh::profile {

std::atomic<bool> g_on{false};

namespace {
std::mutex g_mu;
Data& data() {
  static Data* d = new Data;
  return *d;
}
std::unordered_map<uint64_t, uint32_t>& numbers() {  // by Plan::serial: an address may be used again
  static auto* m = new std::unordered_map<uint64_t, uint32_t>;
  return *m;
}
std::atomic<int32_t> g_threads{0};
thread_local int32_t t_thread = g_threads++;
thread_local int32_t t_plan = -1, t_result = -1;
thread_local int64_t t_flushed = 0;  // ns in flush phases, ever
thread_local bool t_recording = false;

void memory_changed(const void* block, size_t bytes, bool taken) {
  const int64_t size = static_cast<int64_t>(bytes);
  std::lock_guard lock(g_mu);
  data().memory.push_back({now(), block, taken ? size : -size, taken ? t_plan : -1, taken ? t_result : -1});
}

PlanRecord describe(const Plan& plan, const std::function<std::string(int32_t)>& where) {
  PlanRecord r{plan.arena_bytes, plan.peak_bytes, {}, {}, {}};
  r.results.resize(plan.own_bytes.size());
  for (const Step& s : plan.steps) {
    r.steps.push_back({s.what, s.kernel->describe(), s.refused, where ? where(s.origin) : "", s.dtype,
                       s.kernel->cost.flops, s.kernel->cost.bytes, s.kind, s.slots});
    for (const Slot& x : s.slots)  // the first step that names a result makes it
      if (x.kind == Slot::Kind::kOwn && r.results[x.index].what.empty())
        r.results[x.index] = {s.what, r.steps.back().where, plan.own_bytes[x.index]};
  }
  for (const auto& [step, bytes] : plan.arena_peak)
    r.arena.push_back({r.steps[step].what, r.steps[step].where, bytes});
  return r;
}
}  // namespace

const char* phase_name(Phase p) {
  return p == Phase::kLookup ? "lookup" : p == Phase::kCompile ? "compile" : "run";
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void start() {
  const size_t held =
      memory_stats().allocated;  // takes the allocator's lock, which the hook holds when it takes ours
  std::lock_guard lock(g_mu);
  data() = {};
  numbers().clear();
  data().held_at_start = held;
  g_on = true;
  set_memory_hook(memory_changed);
}
void stop() {
  set_memory_hook(nullptr);
  g_on = false;
}
Data snapshot() {
  std::lock_guard lock(g_mu);
  return data();
}

int64_t recording_ns() {
  std::lock_guard lock(g_mu);
  return data().recording;
}

uint32_t plan_number(const Plan& plan, const std::function<std::string(int32_t)>& where) {
  {
    std::lock_guard lock(g_mu);
    if (auto it = numbers().find(plan.serial); it != numbers().end()) return it->second;
  }
  PlanRecord r = describe(plan, where);  // may ask the interpreter for positions: not under the lock
  std::lock_guard lock(g_mu);
  const auto [it, fresh] = numbers().try_emplace(plan.serial, static_cast<uint32_t>(data().plans.size()));
  if (fresh) data().plans.push_back(std::move(r));
  return it->second;
}

void kernel_ran(uint32_t plan, uint32_t step, int64_t begin) {
  const int64_t end = now();
  std::lock_guard lock(g_mu);
  if (plan < data().plans.size() && step < data().plans[plan].steps.size())  // else it began before start()
    data().kernels.push_back({plan, step, t_thread, begin, end});
}

void PhaseScope::end() {
  if (!begin_) return;
  const int64_t end = now();
  t_flushed += end - begin_;
  std::lock_guard lock(g_mu);
  data().phases.push_back({phase_, t_thread, begin_, end});
  begin_ = 0;
}

void RecordScope::enter() { nested_ = t_recording, t_recording = true, flushed_ = t_flushed; }
void RecordScope::leave() {
  if (nested_) return;
  t_recording = false;
  const int64_t spent = now() - begin_ - (t_flushed - flushed_);
  std::lock_guard lock(g_mu);
  data().recording += spent, ++data().recorded;
}

HolderScope::HolderScope(int32_t plan, int32_t result) { t_plan = plan, t_result = result; }
HolderScope::~HolderScope() { t_plan = t_result = -1; }

}  // namespace yuloh::profile
