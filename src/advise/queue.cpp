// SPDX-License-Identifier: Apache-2.0
#include "advise/queue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace yuloh::advise {
namespace {

constexpr size_t kArrivals = 50000, kWarmUp = 2500;

// Moments of arrival at a rate of one.
const std::vector<double>& arrivals() {
  static const std::vector<double> made = [] {
    std::mt19937_64 draw(99);
    std::vector<double> r(kArrivals);
    double t = 0;
    for (double& at : r) at = t += -std::log1p(-static_cast<double>(draw() >> 11) * 0x1p-53);
    return r;
  }();
  return made;
}

double quantile(std::vector<double>& v, double share) {
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(v.size()));
  std::nth_element(v.begin(), at, v.end());
  return *at;
}

}  // namespace

Queue queue_of(double rate, double most, const std::function<double(double)>& seconds, size_t stages) {
  Queue q;
  const double share = 1 / static_cast<double>(std::max<size_t>(stages, 1));
  q.load = rate * seconds(most) * share / most;
  if (!(q.load <= kMostLoad))
    return q.p50 = q.p99 = std::numeric_limits<double>::infinity(), q.busy = 1, q.batch = most, q;
  const std::vector<double>& at = arrivals();
  const size_t bound = static_cast<size_t>(std::min(most, static_cast<double>(kArrivals)));
  std::vector<double> took;
  took.reserve(kArrivals);
  std::vector<double> free(std::max<size_t>(stages, 1));  // of each stage, when
  double worked = 0;
  size_t batches = 0;
  for (size_t i = 0; i < kArrivals; ++batches) {
    const double start = std::max(free[0], at[i] / rate);
    size_t end = i + 1;
    while (end < kArrivals && end - i < bound && at[end] / rate <= start) ++end;
    const double s = seconds(static_cast<double>(end - i));
    worked += s * share;
    double now = start;
    for (double& of_stage : free) now = of_stage = std::max(now, of_stage) + s * share;
    for (; i < end; ++i)
      if (i >= kWarmUp) took.push_back(now - at[i] / rate);
  }
  q.batch = static_cast<double>(kArrivals) / static_cast<double>(batches);
  q.busy = worked / free[0];
  q.p50 = quantile(took, 0.50), q.p99 = quantile(took, 0.99);
  return q;
}

}  // namespace yuloh::advise
