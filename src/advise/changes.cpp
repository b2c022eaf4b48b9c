// SPDX-License-Identifier: Apache-2.0
// What to change so that a job fits: each change alone, with the bytes it saves and the time it adds, and a
// shortest list of those that need no further device.
#include <algorithm>
#include <cmath>

#include "advise/layout.h"
#include "base/error.h"

namespace yuloh::advise {
namespace {

constexpr double kLittle = 0.05;  // of a device's memory

struct Changing {
  const Network& n;
  const Job& base;
  const Device& d;
  const Fabric& f;
  Layout before;
  std::vector<Change> list;

  static double per_sample(const Layout& l) { return l.step.seconds.point / l.job.batch; }

  void add(ChangeKind what, std::string detail, const Job& j) {
    Change c{what, std::move(detail), layout_of(n, j, d, f)};
    c.saved = before.memory.total.point - c.after.memory.total.point;
    c.time_factor = per_sample(c.after) / per_sample(before);
    c.work_factor = c.time_factor * c.after.job.devices() / base.devices();
    c.fits = fits(c.after.memory, d), c.surely = surely_fits(c.after.memory, d);
    c.same = row(what).same && j.batch == base.batch;
    if (c.saved > 1e6) list.push_back(std::move(c));
  }
  // A number of passes, layers or devices is the least whose high end fits, else whose estimate does.
  bool fit(const Job& j, bool surely) const {
    const Memory m = memory_of(n, j, d);
    return surely ? surely_fits(m, d) : fits(m, d);
  }

  void micro_batches() {
    Job j = base;
    const double b = base.micro_batch();
    double k = 1;  // the fewest parts that fit, else single samples
    const auto parts = [&](bool surely) {
      for (double of : divisors(b))
        if (of > 1 && (k = of, j.micro = b / of, fit(j, surely))) return true;
      return false;
    };
    if (!parts(true)) parts(false);
    if (k > 1 && base.training) add(ChangeKind::kAccumulate, cat(k), j);
    const double most = largest_micro_batch(n, base, d);
    if (most > 0 && most < b) {
      j = base, j.micro = most, j.batch = most * base.passes() * j.replicas();
      add(ChangeKind::kBatch, cat(j.batch), j);
    }
  }
  void precision() {
    if (row(base.precision).weight < 4) return;
    Job j = base;
    j.precision = d.peak(Precision::kBf16) > 0   ? Precision::kBf16
                  : d.peak(Precision::kFp16) > 0 ? Precision::kFp16
                                                 : base.precision;
    if (j.precision != base.precision) add(ChangeKind::kPrecision, name(j.precision), j);
  }
  void recompute() {
    Job j = base;
    if (n.transformer() && !base.flash) j.flash = true, add(ChangeKind::kFlash, "", j), j = base;
    if (!base.training || base.recompute == Recompute::kFull || n.again_flops > 0) return;
    if (n.transformer() && !base.flash && base.recompute == Recompute::kNone)
      j.recompute = Recompute::kSelective, add(ChangeKind::kRecompute, name(j.recompute), j);
    j.recompute = Recompute::kFull;
    if (n.transformer()) {  // the first k layers, as few as make it fit
      for (bool surely : {true, false})
        for (double k = base.pp; k < n.layers; k += base.pp)
          if (j.recompute_layers = k, fit(j, surely))
            return add(ChangeKind::kRecompute, cat(k, "/", n.layers), j);
    }
    j.recompute_layers = 0;
    add(ChangeKind::kRecompute, name(j.recompute), j);
  }
  void offload() {
    Job j = base;
    if (row(d.kind).hosts) return;
    if (base.training && base.offload == Offload::kNone && row(base.optimizer).states > 0)
      j.offload = Offload::kOptimizer, add(ChangeKind::kOffload, name(j.offload), j);
    if (base.offload != Offload::kAll)
      j.offload = Offload::kAll, add(ChangeKind::kOffload, name(j.offload), j);
  }
  void optimizer() {
    if (!base.training || row(base.optimizer).states < 8) return;  // two moments
    Job j = base;
    j.optimizer = Optimizer::kAdafactor, add(ChangeKind::kOptimizer, name(j.optimizer), j);
  }
  // Changes of the training or of the results, not only of where things lie.
  void others() {
    if (!n.transformer()) return;
    Job j = base;
    if (base.training && base.lora == 0 && std::min(n.hidden, n.head_dim * n.kv_heads) >= 16) {
      j.lora = 16, add(ChangeKind::kLora, "16", j);
      j.weight_bits = 4, add(ChangeKind::kQlora, "16/4", j);
    }
    const double bits = base.weight_bits > 0 ? base.weight_bits : 8 * weight_bytes(base);
    for (double to : {8.0, 4.0})
      if (to < bits && (!base.training || base.lora > 0))
        j = base, j.weight_bits = to, add(ChangeKind::kWeightBits, cat(to), j);
    if (!base.training && n.kind == ModelKind::kDecoder && cache_bytes(base) > 1)
      j = base, j.cache_bits = 8, add(ChangeKind::kCacheBits, "8", j);
  }
  // Over 2, 4, 8 times as many devices: the fewest that fit, else the most.
  template <class Set>
  void wider(ChangeKind what, Set set) {
    for (bool surely : {true, false})
      for (double k : {2.0, 4.0, 8.0}) {
        Job j = base;
        std::string detail;
        if (!set(j, k, &detail)) break;
        try {
          check(j, n);
        } catch (const Error&) { break; }
        if (fit(j, surely) || (k == 8 && !surely)) return add(what, detail, j);
      }
  }
  // `k` times as many replicas share the batch, in as many fewer passes; what they cannot share grows.
  void share(Job& j, double k) const {
    if (std::fmod(base.batch, j.replicas()) != 0) return void(j.batch *= k);
    if (j.micro > 0)
      for (double of : divisors(base.batch / j.replicas()))
        if (of <= base.micro) j.micro = of;
  }
  void more_devices() {
    for (double stage : {1.0, 2.0, 3.0})
      if (base.training && (stage > base.stage || base.sharding == 1))
        wider(ChangeKind::kSharding, [&](Job& j, double k, std::string* s) {
          if (j.pp > 1 && stage > 1) return false;
          j.stage = stage, j.sharding *= k, share(j, k);
          return *s = cat(stage, "/", j.sharding), true;
        });
    if (n.splits_by(2))
      wider(ChangeKind::kTensor,
            [&](Job& j, double k, std::string* s) { return j.mp *= k, *s = cat(j.mp), j.mp <= d.per_node; });
    if (n.experts > 0 && base.training)
      wider(ChangeKind::kExpertsOver, [&](Job& j, double k, std::string* s) {
        j.ep *= k, j.dp *= k, share(j, k);
        return *s = cat(j.ep), true;
      });
    if (n.transformer() && base.training)
      wider(ChangeKind::kContext,
            [&](Job& j, double k, std::string* s) { return j.cp *= k, *s = cat(j.cp), true; });
    if (base.training || n.transformer())
      wider(ChangeKind::kPipeline, [&](Job& j, double k, std::string* s) {
        j.pp *= k;
        if (j.pp > n.layers || j.stage > 1) return false;
        for (double parts = 2 * j.pp; parts >= 2 && j.micro == base.micro && j.passes() < j.pp;
             parts /= 2)  // fill it
          if (std::fmod(base.micro_batch(), parts) == 0) j.micro = base.micro_batch() / parts;
        return *s = cat(j.pp), true;
      });
  }
  void all() { micro_batches(), precision(), recompute(), offload(), optimizer(), others(), more_devices(); }
};

// Not much time for hardly any memory, nor for what fits without it.
bool sensible(const Change& c, const Memory& before, const Device& d) {
  const bool already = surely_fits(before, d), little = c.saved < kLittle * d.memory;
  return !(little && c.work_factor > 1.05 && (already || !c.fits)) && !(already && c.work_factor > 2);
}

}  // namespace

std::vector<Change> changes(const Network& n, const Job& base, const Device& d, const Fabric& f) {
  Changing c{n, base, d, f, layout_of(n, base, d, f), {}};
  c.all();
  std::erase_if(c.list, [&](const Change& x) { return !sensible(x, c.before.memory, d); });
  std::stable_sort(c.list.begin(), c.list.end(), [](const Change& a, const Change& b) {
    if (a.surely != b.surely) return a.surely;
    if (a.fits != b.fits) return a.fits;
    if (a.same != b.same) return a.same;
    return a.fits ? a.work_factor < b.work_factor : a.saved > b.saved;
  });
  return std::move(c.list);
}

std::vector<Change> changes_to_fit(const Network& n, const Job& base, const Device& d, const Fabric& f) {
  const auto single = [&](const Job& j) {
    Changing c{n, j, d, f, layout_of(n, j, d, f), {}};
    c.micro_batches(), c.precision(), c.recompute(), c.offload();
    std::erase_if(c.list, [](const Change& x) { return x.what == ChangeKind::kBatch; });
    return c.list;
  };
  std::vector<Change> taken;
  Job now = base;
  size_t enough = 0;  // so many make the estimate fit, if not its high end
  while (taken.size() < 8 && !surely_fits(memory_of(n, now, d), d)) {
    std::vector<Change> next = single(now);
    if (next.empty()) break;
    // What fits at the least time; before that, what saves most for the time it adds.
    const auto worth = [](const Change& c) { return c.saved / std::max(c.time_factor - 0.98, 0.02); };
    auto best = next.begin();
    for (auto i = next.begin(); i != next.end(); ++i)
      if (i->surely != best->surely ? i->surely
          : i->surely               ? i->time_factor < best->time_factor
                                    : worth(*i) > worth(*best))
        best = i;
    now = best->after.job;
    taken.push_back(std::move(*best));
    if (enough == 0 && taken.back().fits) enough = taken.size();
  }
  if (!surely_fits(memory_of(n, now, d), d)) taken.resize(enough);
  return taken;
}

std::vector<Rescue> rescues(const Network& n, const Job& base, const Device& d, const Fabric& f,
                            double devices, const Freedom& free) {
  std::vector<Job> tried(n.transformer() && base.lora == 0 ? 4 : 2, base);
  tried[0].offload = Offload::kOptimizer, tried[1].offload = Offload::kAll;
  for (size_t i = 2; i < tried.size(); ++i) tried[i].lora = 16;
  if (tried.size() > 3) tried[3].weight_bits = 4;
  if (std::fmod(base.batch, devices) != 0) {  // it may be the batch that does not lie over them
    tried.push_back(base);
    tried.back().batch = devices * std::ceil(base.batch / devices);
  }
  std::vector<Rescue> made;
  for (const Job& j : tried) {
    try {
      check(j, n);
    } catch (const Error&) {  // they do not go together
      continue;
    }
    auto found = search_layouts(n, j, d, f, devices, free, 1);
    if (!found.empty()) made.push_back({j, std::move(found[0])});
  }
  return made;
}

}  // namespace yuloh::advise
