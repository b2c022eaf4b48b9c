// SPDX-License-Identifier: Apache-2.0
// The profile as Python sees it: plain lists of tuples, put together by yuloh/profiler.
#include "plan/profile.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "cpu/peaks.h"
#include "py/py_tensor.h"

namespace nb = nanobind;

namespace yuloh::py {
namespace {
template <class List, class F>
nb::list listed(const List& list, F f) {
  nb::list r;
  for (const auto& x : list) r.append(f(x));
  return r;
}

nb::dict plan_of(const profile::PlanRecord& p) {
  const auto held = [](const profile::HeldRecord& h) { return nb::make_tuple(h.what, h.where, h.bytes); };
  nb::dict d;
  d["arena_bytes"] = p.arena_bytes, d["peak_bytes"] = p.peak_bytes;
  d["results"] = listed(p.results, held), d["arena"] = listed(p.arena, held);
  d["steps"] = listed(p.steps, [](const profile::StepRecord& s) {
    return nb::make_tuple(s.what, s.how, s.refused, s.where, std::string(dtype_name(s.dtype)), s.flops,
                          s.bytes);
  });
  return d;
}

nb::dict profile_data() {
  const profile::Data data = profile::snapshot();
  nb::dict d;
  d["plans"] = listed(data.plans, plan_of);
  d["kernels"] = listed(data.kernels, [](const profile::KernelEvent& k) {
    return nb::make_tuple(k.plan, k.step, k.thread, k.begin, k.end);
  });
  d["phases"] = listed(data.phases, [](const profile::PhaseEvent& p) {
    return nb::make_tuple(profile::phase_name(p.phase), p.thread, p.begin, p.end);
  });
  d["memory"] = listed(data.memory, [](const profile::MemoryEvent& m) {
    return nb::make_tuple(m.when, reinterpret_cast<uintptr_t>(m.block), m.bytes, m.plan, m.result);
  });
  d["held_at_start"] = data.held_at_start;
  d["recording_ns"] = data.recording, d["recorded"] = data.recorded;
  return d;
}

// One row per kernel run: (ops, kernel, seconds, FLOP, bytes moved).
nb::list profile_rows() {
  const profile::Data data = profile::snapshot();
  return listed(data.kernels, [&](const profile::KernelEvent& k) {
    const profile::StepRecord& s = data.plans[k.plan].steps[k.step];
    return nb::make_tuple(s.what, s.how, static_cast<double>(k.end - k.begin) * 1e-9, s.flops, s.bytes);
  });
}
}  // namespace

void bind_profile(nb::module_& m) {
  m.def("start_profile", [] { profile::start(); });
  m.def("stop_profile", [] { profile::stop(); });
  m.def("profile_data", profile_data);
  m.def("profile_recording_ns", [] { return profile::recording_ns(); });
  m.def("_profile_rows", profile_rows);
  m.def(
      "machine_peaks",
      [](double seconds) {
        nb::dict d;
        nb::gil_scoped_release unlocked;
        const auto peaks = machine_peaks(seconds);
        nb::gil_scoped_acquire locked;
        for (const auto& p : peaks) d[p.name] = p.rate;
        return d;
      },
      nb::arg("seconds") = 0.05);
}

}  // namespace yuloh::py
