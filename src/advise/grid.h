// SPDX-License-Identifier: Apache-2.0
// Every combination of a few choices, estimated at once: what the page's sliders look up. A step has the
// job's batch, in as many micro-batches as that makes, one at least.
#pragma once
#include <vector>

#include "advise/step.h"

namespace yuloh::advise {

struct Axes {
  std::vector<Precision> precision;
  std::vector<Recompute> recompute;
  std::vector<double> mp, pp, data, stage, micro;
  // The same for every combination, as far as it goes with it: parts of the sequence, virtual stages, at most
  // so many devices that share states, and experts.
  double cp = 1, vpp = 1, shards = kNoBound, ep = kNoBound;
  static constexpr double kNoBound = 1 << 20;
};
struct Grid {
  // One value for each combination, the last axis running fastest; NaN where the combination cannot be.
  std::vector<std::vector<double>> low, point, high;  // by kind of device: bytes of one
  std::vector<size_t> memory_of;                      // by device: which of these is its kind's
  std::vector<std::vector<double>> seconds;           // by device: of one sample of the whole job
};
Grid grid_of(const Network& n, const Job& base, const std::vector<Device>& devices, const Fabric& f,
             const Axes& a);

}  // namespace yuloh::advise
