// SPDX-License-Identifier: Apache-2.0
#include "advise/account.h"

#include <algorithm>
#include <map>

#include "advise/eager.h"
#include "advise/split.h"
#include "plan/traffic.h"

namespace yuloh::advise {
namespace {
// The dry run allocates as the real one does; what differs is when threads and loaders hold a buffer a little
// longer.
constexpr double kPeakSpread = 0.02;
// Of PyTorch's steps, beside what an empty process of it takes: 8 measured ones lay between 0.93 and 1.52
// times the account (docs/estimates.md).
constexpr double kEagerLow = 0.9, kEagerHigh = 1.55;

int32_t scope_of(const DryFlush& f, int32_t step) {
  return step < 0 || step >= static_cast<int32_t>(f.plan->steps.size())
             ? 0
             : f.scope_of(f.plan->steps[static_cast<size_t>(step)]);
}
bool is_backward(int32_t scope) { return scope < 0; }
int32_t plain(int32_t scope) { return scope < 0 ? -1 - scope : scope; }

enum Class { kActivation, kGradient, kTemporary, kUpdate };
Class class_of(const DryFlush& f, const ValueLife& v) {
  const int32_t made = scope_of(f, v.made);
  if (made == kScopeOptimizer) return kUpdate;
  if (!is_backward(made)) return kActivation;
  return scope_of(f, v.last_reader) == kScopeOptimizer || v.leaves ? kGradient : kTemporary;
}

struct Held {
  double by[4] = {0, 0, 0, 0}, workspace = 0;
  double sum() const { return by[0] + by[1] + by[2] + by[3] + workspace; }
};

// What a plan's arena holds when most of it is in use.
Held fullest(const DryFlush& f) {
  const size_t n = f.plan->steps.size();
  std::vector<Held> change(n + 1);
  for (const ValueLife& v : f.plan->lives) {
    if (v.leaves) continue;
    const Class c = class_of(f, v);
    change[static_cast<size_t>(v.made)].by[c] += static_cast<double>(v.bytes);
    change[static_cast<size_t>(v.last) + 1].by[c] -= static_cast<double>(v.bytes);
  }
  Held now, most;
  for (size_t i = 0; i < n; ++i) {
    for (int c = 0; c < 4; ++c) now.by[c] += change[i].by[c];
    now.workspace = static_cast<double>(f.plan->steps[i].kernel->workspace_bytes());
    if (now.sum() > most.sum()) most = now;
  }
  return most;
}

void add_memory(const DryRun& run, const MemoryStats& end, const Rates& rates, Facts* facts) {
  MemoryFacts& m = facts->memory;
  m.peak = Figure::within(static_cast<double>(end.max_allocated), kPeakSpread, Origin::kComputed);
  m.reserved = Figure::within(static_cast<double>(end.max_reserved), kPeakSpread, Origin::kComputed);
  m.interpreter = rates.interpreter, m.scratch += rates.scratch;
  size_t steps = 0;  // of the largest plan
  for (const DryFlush& f : run.flushes) steps = std::max(steps, f.plan->steps.size());
  m.code = static_cast<double>(run.cache.bytes()) * rates.code_share +
           static_cast<double>(steps) * rates.step_bytes;
  m.process = Figure::within(m.reserved.value + m.interpreter + m.scratch + m.code, rates.process_spread,
                             Origin::kComputed);
  const auto at =
      std::find_if(run.flushes.begin(), run.flushes.end(), [](const DryFlush& f) { return f.peak; });
  if (at != run.flushes.end()) {
    const Held h = fullest(*at);
    m.activations = h.by[kActivation], m.gradients += h.by[kGradient];
    m.temporaries = h.by[kTemporary] + h.by[kUpdate], m.workspace = h.workspace;
    for (const ValueLife& v : at->plan->lives)
      if (v.leaves && facts->training && class_of(*at, v) == kActivation &&
          plain(scope_of(*at, v.made)) >= kScopeFirstLayer)
        m.activations += static_cast<double>(v.bytes);
  }
  const double named = m.weights + m.buffers + m.gradients + m.optimizer + m.activations + m.temporaries +
                       m.workspace + m.inputs;
  m.slack = m.peak.value - named;
}

void add_eager(const DryRun& run, size_t from, Facts* facts) {
  const MemoryFacts& m = facts->memory;
  double most = 0;
  for (size_t k = from; k < run.flushes.size(); ++k)
    most = std::max(most, eager_peak(run.flushes[k], facts->training));
  const double held = m.weights + m.buffers + m.optimizer + m.inputs + most;
  facts->memory.eager = {held, held * kEagerLow, held * kEagerHigh, Origin::kComputed};
}

void add_work(const DryRun& run, size_t from, double read, const Rates& rates, Facts* facts) {
  double seconds = 0, calls = 0;
  std::map<std::pair<std::string, std::string>, KindFacts> kinds;
  for (size_t k = from; k < run.flushes.size(); ++k) {
    const DryFlush& f = run.flushes[k];
    const std::vector<double> far = far_shares(*f.plan, rates.cache);
    calls += static_cast<double>(f.calls);
    for (size_t i = 0; i < f.plan->steps.size(); ++i) {
      const Step& s = f.plan->steps[i];
      const int32_t scope = scope_of(f, static_cast<int32_t>(i));
      const KernelCost& cost = s.kernel->cost;
      facts->flops += cost.flops, facts->moved += cost.bytes, ++facts->kernels;
      const std::string kind = scope == kScopeOptimizer ? "optimizer" : std::string(s.kind);
      KindFacts& t = kinds[{kind, std::string(dtype_name(s.dtype))}];
      t.kind = kind, t.dtype = std::string(dtype_name(s.dtype));
      const double time = rates.seconds(work_of(s, scope == kScopeOptimizer, far[i]));
      ++t.calls, t.flops += cost.flops, t.moved += cost.bytes, t.seconds += time, t.origin = rates.origin,
                                                                                  seconds += time;
      for (int32_t l = plain(scope) - kScopeFirstLayer;
           l >= 0 && l < static_cast<int32_t>(facts->layers.size());
           l = facts->layers[static_cast<size_t>(l)].parent) {
        LayerFacts& layer = facts->layers[static_cast<size_t>(l)];
        (is_backward(scope) ? layer.flops_backward : layer.flops_forward) += cost.flops;
        (is_backward(scope) ? layer.moved_backward : layer.moved_forward) += cost.bytes;
        (is_backward(scope) ? layer.seconds_backward : layer.seconds_forward) += time;
      }
    }
    if (!facts->training) continue;
    for (const ValueLife& v : f.plan->lives) {  // made by the forward pass, needed by the backward pass
      const int32_t made = scope_of(f, v.made);
      if (is_backward(made) || (!v.leaves && !is_backward(scope_of(f, v.last_reader)))) continue;
      for (int32_t l = made - kScopeFirstLayer; l >= 0 && l < static_cast<int32_t>(facts->layers.size());
           l = facts->layers[static_cast<size_t>(l)].parent)
        facts->layers[static_cast<size_t>(l)].activation_bytes += static_cast<double>(v.bytes);
    }
  }
  const double n = static_cast<double>(std::max<int64_t>(1, facts->accumulate));
  for (LayerFacts& l : facts->layers) {
    for (double* x : {&l.flops_forward, &l.flops_backward, &l.moved_forward, &l.moved_backward,
                      &l.activation_bytes, &l.seconds_forward, &l.seconds_backward})
      *x /= n;
  }
  seconds +=
      rates.host_seconds(facts->training, calls, static_cast<double>(facts->kernels), facts->moved, read);
  if (rates.origin == Origin::kAssumed)
    facts->notes.push_back(
        "seconds: catalogue peak x assumed efficiency; yuloh calibrate measures this machine.");
  if (!rates.disturbed.empty())
    facts->notes.push_back(cat("seconds: ", rates.disturbed, "; yuloh calibrate measures again."));
  facts->seconds = Figure::factor(seconds, rates.spread, rates.origin), facts->device = rates.device;
  for (auto& [key, t] : kinds) facts->kinds.push_back(std::move(t));
}
}  // namespace

Facts account(const DryRun& run, const MemoryStats& end, const Rates& rates, Subject subject) {
  Facts f = std::move(subject.facts);
  const double read = f.memory.scratch;  // results that are read, before the libraries' own comes on top
  add_memory(run, end, rates, &f);
  add_eager(run, std::min(subject.steady_from, run.flushes.size()), &f);
  add_work(run, std::min(subject.steady_from, run.flushes.size()), read, rates, &f);
  f.split = split_of(run, std::min(subject.steady_from, run.flushes.size()), f);
  return f;
}

}  // namespace yuloh::advise
