// SPDX-License-Identifier: Apache-2.0
// Dry runs as Python sees them: begin, mark what is recorded, end with the Facts as JSON. yuloh/advise drives
// them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <map>

#include "advise/account.h"
#include "cpu/parallel.h"
#include "plan/profile.h"
#include "plan/traffic.h"
#include "py/objects.h"

namespace nb = nanobind;

namespace yuloh::py {
namespace {
struct Running {
  std::unique_ptr<DryRun> run;
  uint64_t number = 0;
  ~Running() { (void)run.release(); }  // the thread ended inside: no interpreter to compute or restore with
};
thread_local Running t_run;
// Of all threads, by number; under the interpreter's lock.
std::map<uint64_t, DryRun*>& open_runs() {
  static auto* runs = new std::map<uint64_t, DryRun*>;
  return *runs;
}

DryRun& running() {
  if (!t_run.run) fail(ErrorKind::kRuntime, "dry run: none is running in this thread.");
  return *t_run.run;
}

uint64_t begin_run(int64_t pending_limit) {
  static uint64_t last = 0;
  auto run = std::make_unique<DryRun>(pending_limit);
  const uint64_t number = ++last;
  open_runs()[number] = run.get();
  t_run.run = std::move(run), t_run.number = number;
  return number;
}

// `number` 0: whichever runs in this thread, if one does.
void end_run(uint64_t number) {
  if (number && number != t_run.number) {
    const auto it = open_runs().find(number);
    if (it == open_runs().end()) fail(ErrorKind::kRuntime, "dry run: it has ended already.");
    it->second->left = true;
    fail(ErrorKind::kRuntime,
         "dry run: it ends in another thread than it began in, which stays in it and can read nothing until "
         "it "
         "ends it itself. Hint: enter and leave it in one thread.");
  }
  const std::unique_ptr<DryRun> run = std::move(t_run.run);  // ends whatever happens
  open_runs().erase(std::exchange(t_run.number, 0));
  if (run) run->finish();
}
nlohmann::json parsed(const std::string& text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    value_error("device file: not JSON (", e.what(), "). Hint: run yuloh calibrate.");
  }
}
advise::Rates rates_of(const std::string& device) {
  return device.empty() ? advise::Rates::assumed(num_threads()) : advise::Rates::from_json(parsed(device));
}
}  // namespace

void bind_dry_run(nb::module_& m) {
  m.def(
      "set_scope", [](int32_t scope) { return std::exchange(modes().pos.scope, scope); },
      "The part of the model that is recorded from now on; returns what it was.");
  m.def("dry_begin", begin_run, nb::arg("pending_limit") = 0, "Returns the number that dry_end takes.");
  m.def("dry_borrow", [](nb::handle t) { running().borrow(Ref<Tensor>(&tensor_of(t.ptr()))); });
  m.def("dry_flushes", [] { return t_run.run ? t_run.run->flushes.size() : 0; });
  m.def("dry_plans_bytes", [] { return t_run.run ? t_run.run->cache.bytes() : 0; });
  m.def("dry_end", end_run, nb::arg("number") = 0);
  m.def("in_dry_run", [] { return DryRun::current() != nullptr; });
  // `device`: the text of a device file, "": none. What is needed and how long it takes, of the flushes from
  // `steady_from`.
  m.def(
      "dry_facts",
      [](const std::string& facts, size_t steady_from, const std::string& device) {
        advise::Subject s{advise::facts_from_json(parsed(facts)), steady_from};
        return to_json(advise::account(running(), memory_stats(), rates_of(device), std::move(s))).dump();
      },
      nb::arg("facts"), nb::arg("steady_from"), nb::arg("device"));
  // Per kernel of those flushes: (name, kind, dtype, roof in seconds, FLOP, bytes moved, share of them from
  // beyond the caches, estimated seconds).
  m.def(
      "dry_kernels",
      [](size_t from, const std::string& device) {
        nb::list l;
        const advise::Rates rates = rates_of(device);
        for (size_t k = from; k < running().flushes.size(); ++k) {
          const DryFlush& f = running().flushes[k];
          const std::vector<double> far = far_shares(*f.plan, rates.cache);
          for (size_t i = 0; i < f.plan->steps.size(); ++i) {
            const Step& s = f.plan->steps[i];
            const advise::Work w = advise::work_of(s, f.scope_of(s) == advise::kScopeOptimizer, far[i]);
            l.append(nb::make_tuple(w.name, std::string(s.kind), std::string(dtype_name(s.dtype)),
                                    rates.roof(w), w.flops, w.bytes, w.far, rates.seconds(w)));
          }
        }
        return l;
      },
      nb::arg("steady_from"), nb::arg("device"));
  // What start_profile recorded, per step of a plan: (name, dtype, median of the seconds, FLOP, bytes moved,
  // share of them from beyond `cache`, how often it ran).
  m.def(
      "profile_costs",
      [](double cache) {
        const profile::Data data = profile::snapshot();
        std::vector<std::vector<double>> far;
        for (const profile::PlanRecord& p : data.plans) {
          std::vector<const std::vector<Slot>*> slots;
          for (const profile::StepRecord& s : p.steps) slots.push_back(&s.slots);
          far.push_back(far_shares(slots, cache));
        }
        std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> times;
        for (const profile::KernelEvent& k : data.kernels) times[{k.plan, k.step}].push_back(k.end - k.begin);
        nb::list l;
        for (auto& [at, ns] : times) {
          const profile::StepRecord& s = data.plans[at.first].steps[at.second];
          std::nth_element(ns.begin(), ns.begin() + static_cast<int64_t>(ns.size() / 2), ns.end());
          l.append(nb::make_tuple(advise::Rates::name_of(s.kind, s.what, false),
                                  std::string(dtype_name(s.dtype)),
                                  static_cast<double>(ns[ns.size() / 2]) * 1e-9, s.flops, s.bytes,
                                  far[at.first][at.second], ns.size()));
        }
        return l;
      },
      nb::arg("cache"));
  // What a device file says of kernels (name, dtype, FLOP, bytes moved, far share): seconds of each.
  m.def(
      "rates_seconds",
      [](const std::string& device, nb::list kernels) {
        nb::list l;
        const advise::Rates rates = rates_of(device);
        for (nb::handle k : kernels) {
          advise::Work w{nb::cast<std::string>(k[0]),
                         {},
                         nb::cast<double>(k[2]),
                         nb::cast<double>(k[3]),
                         nb::cast<double>(k[4])};
          if (!dtype_from_object(nb::object(k[1]).ptr(), &w.dtype))
            type_error("rates_seconds: unknown dtype.");
          l.append(rates.seconds(w));
        }
        return l;
      },
      nb::arg("device"), nb::arg("kernels"));
  m.def("dry_tensor",
        [](nb::handle shape, const std::string& dtype) {  // of no value: takes memory and that is all
          running();
          TensorType t{DType::kFloat32, as_shape(shape.ptr(), "dry_tensor")};
          if (!dtype_from_object(nb::str(dtype.c_str()).ptr(), &t.dtype))
            type_error("dry_tensor: unknown dtype, got ", dtype, ".");
          return tensor_object(make_data(t, allocate_buffer(t)));
        });
  m.def("empty_layer_facts", [] {
    advise::Facts f;
    f.layers.emplace_back();
    return to_json(f)["layers"][0].dump();
  });
  m.attr("optimizer_scope") = advise::kScopeOptimizer, m.attr("first_layer_scope") = advise::kScopeFirstLayer;
  m.attr("device_file_version") = advise::kDeviceFileVersion, m.attr("cold_traffic") = advise::kColdTraffic;
  m.def("empty_facts", [] { return to_json(advise::Facts()).dump(); });
}

}  // namespace yuloh::py
