// SPDX-License-Identifier: Apache-2.0
// The grid of advise/grid.h.
#include "advise/grid.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace yuloh::advise {
namespace {

bool possible(const Network& n, const Job& j, double data) {
  if (j.mp > 1 && !n.splits_by(j.mp)) return false;
  if (j.pp > n.layers || (j.stage > 0 && data == 1) || (j.stage > 1 && j.pp > 1)) return false;
  return j.training || (j.pp == 1 && j.stage == 0 && j.recompute == "none");
}

}  // namespace

Grid grid_of(const Network& n, const Job& base, const std::vector<Device>& devices, const Fabric& f,
             const Axes& a) {
  const double size = double(a.precision.size()) * a.recompute.size() * a.mp.size() * a.pp.size() *
                      a.data.size() * a.stage.size() * a.micro.size();
  if (devices.empty() || size < 1 || size * (3 + devices.size()) > 1e6)
    value_error("advise: a grid of ", size, " combinations and ", devices.size(),
                " devices; expected 1 to 1e6 figures.");
  Grid g;
  g.seconds.resize(devices.size());
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto one = [&](Job j, double data, double micro) {
    const bool ok = possible(n, j, data);
    while (n.experts > 0 && std::fmod(data, 2 * j.ep) == 0 && std::fmod(n.experts, 2 * j.ep) == 0) j.ep *= 2;
    j.micro = micro, j.batch = micro * data * (j.pp > 1 ? a.passes : 1);
    (j.stage > 0 ? j.sharding : j.dp) = data;
    const Interval m = ok ? memory_of(n, j, devices[0]).total : Interval(none, none, none);
    g.low.push_back(m.low), g.point.push_back(m.point), g.high.push_back(m.high);
    for (size_t i = 0; i < devices.size(); ++i)
      g.seconds[i].push_back(ok ? step_of(n, j, devices[i], f).seconds.point / j.batch : none);
  };
  Job j = base;
  j.dp = j.sharding = j.cp = j.ep = j.vpp = 1, j.recompute_layers = 0;
  for (const std::string& p : a.precision)
    for (const std::string& r : a.recompute)
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
