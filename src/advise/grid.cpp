// SPDX-License-Identifier: Apache-2.0
// The grid of advise/grid.h.
#include "advise/grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace yuloh::advise {
namespace {

bool possible(const Network& n, const Job& j, double data) {
  if (j.mp > 1 && !n.splits_by(j.mp)) return false;
  if (j.pp > n.layers || (j.stage > 0 && data == 1) || (j.stage > 1 && j.pp > 1)) return false;
  if (j.sequence_parallel && std::fmod(n.seq, j.mp) != 0) return false;
  if (j.stage > 0 && std::fmod(data, j.sharding) != 0) return false;
  return j.training || j.stage == 0;
}

}  // namespace

Grid grid_of(const Network& n, const Job& base, const std::vector<Device>& devices, const Fabric& f,
             const Axes& a) {
  const double size = double(a.precision.size()) * a.recompute.size() * a.mp.size() * a.pp.size() *
                      a.data.size() * a.stage.size() * a.micro.size();
  if (devices.empty() || size < 1 || size * (3 + devices.size()) > 1e6)
    value_error("advise: a grid of ", size, " combinations and ", devices.size(),
                " devices; expected 1 to 1e6 figures.");
  // Numbers as those of a job; what merely does not go together is NaN below.
  for (const auto* axis : {&a.mp, &a.pp, &a.data, &a.micro})
    for (double v : *axis)
      if (!(v >= 1 && v <= 1 << 20 && v == std::floor(v)))
        value_error("advise: degrees and micro-batches of a grid are whole numbers from 1, got ", v, ".");
  for (double v : a.stage)
    if (!(v >= 0 && v <= 3 && v == std::floor(v)))
      value_error("advise: stage must be 0, 1, 2 or 3, got ", v, ".");
  for (double v : {a.cp, a.vpp, a.shards, a.ep})
    if (!(v >= 1 && v <= Axes::kNoBound && v == std::floor(v)))
      value_error("advise: what all of a grid have in common are whole numbers from 1, got ", v, ".");
  if (a.cp > 1 && (!n.transformer() || std::fmod(n.seq, 2 * a.cp) != 0))
    value_error("advise: a grid's parts of a sequence must divide it, got ", a.cp, " of ", n.seq, ".");
  Grid g;
  g.seconds.resize(devices.size());
  std::vector<const Device*> kinds;  // runtime and buffers differ by kind alone
  for (const Device& d : devices) {
    size_t k = 0;
    while (k < kinds.size() && kinds[k]->kind != d.kind) ++k;
    if (k == kinds.size()) kinds.push_back(&d);
    g.memory_of.push_back(k);
  }
  g.low.resize(kinds.size()), g.point.resize(kinds.size()), g.high.resize(kinds.size());
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto one = [&](Job j, double data, double micro) {
    if (j.stage > 0) j.sharding = std::min(data, a.shards), j.dp = data / j.sharding;
    else j.dp = data;
    const bool ok = possible(n, j, data);
    while (n.experts > 0 && 2 * j.ep <= a.ep && std::fmod(data * j.cp, 2 * j.ep) == 0 &&
           std::fmod(n.experts, 2 * j.ep) == 0)
      j.ep *= 2;
    double passes = std::max(1.0, std::floor(base.batch / data / micro));
    if (j.pp > 1 && a.vpp > 1 && passes >= j.pp && std::fmod(n.layers, j.pp * a.vpp) == 0)
      j.vpp = a.vpp, passes = std::floor(passes / j.pp) * j.pp;
    j.micro = micro, j.batch = micro * data * passes;
    for (size_t k = 0; k < kinds.size(); ++k) {
      const Interval m = ok ? memory_of(n, j, *kinds[k]).total : Interval(none, none, none);
      g.low[k].push_back(m.low), g.point[k].push_back(m.point), g.high[k].push_back(m.high);
    }
    for (size_t i = 0; i < devices.size(); ++i)
      g.seconds[i].push_back(ok ? step_of(n, j, devices[i], f).seconds.point / j.batch : none);
  };
  Job j = base;
  j.dp = j.sharding = j.ep = j.vpp = 1, j.cp = a.cp, j.recompute_layers = 0;
  for (Precision p : a.precision)
    for (Recompute r : a.recompute)
      for (double mp : a.mp)
        for (double pp : a.pp)
          for (double data : a.data)
            for (double stage : a.stage)
              for (double micro : a.micro) {
                j.precision = p, j.recompute = r, j.mp = mp, j.pp = pp, j.stage = stage;
                one(j, data, micro);
              }
  return g;
}

}  // namespace yuloh::advise
