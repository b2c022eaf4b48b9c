// SPDX-License-Identifier: Apache-2.0
// The choice of devices (advise/choice.h).
#include "advise/choice.h"

#include <cmath>
#include <vector>

#include "advise/queue.h"
#include "base/error.h"

namespace yuloh::advise {
namespace {

void positive(const char* what, double v, double high) {
  if (!(std::isfinite(v) && v > 0 && v <= high))
    value_error("advise: ", what, " must be above 0 and at most ", high, ", got ", v, ". Hint: check --",
                what, ".");
}

ServingOption serve_on(const Network& n, Job j, const Device& d, const Fabric& f, double rate, double limit,
                       double max_batch) {
  ServingOption o;
  j.dp = j.pp = j.sharding = j.cp = j.ep = j.vpp = 1, j.stage = 0;
  const auto with_batch = [&](double b) {
    Job k = j;
    k.batch = k.micro = b;
    return k;
  };
  const auto held = [&](double b) { return fits(memory_of(n, with_batch(b), d), d); };
  for (j.mp = 1; !held(1); j.mp *= 2)
    if (j.mp * 2 > d.per_node || !n.splits_by(j.mp * 2))
      return o.copies = 0, o.possible = false, o;
  o.group = j.mp;
  double most = max_batch;
  while (most > 1 && !held(most)) most = std::floor(most / 2);
  std::vector<double> known;  // seconds of a batch, where they were asked for
  const auto seconds = [&](double b) {
    const size_t i = static_cast<size_t>(b);
    if (i >= known.size()) known.resize(i + 1, -1);
    if (known[i] < 0) known[i] = step_of(n, with_batch(b), d, f).seconds.point;
    return known[i];
  };
  const auto late = [&](double copies) { return queue_of(rate / copies, most, seconds).p99 > limit; };
  const auto settle = [&](Queue q) {
    o.p50 = q.p50, o.p99 = q.p99, o.batch = q.batch, o.load = q.load, o.busy = q.busy;
    o.seconds = step_of(n, with_batch(std::max(1.0, std::round(q.batch))), d, f).seconds;
  };
  constexpr double kMostCopies = 1e6;
  double high = std::max(1.0, std::ceil(rate * seconds(most) / most / kMostLoad)), low = high - 1;
  while (high <= kMostCopies && seconds(1) <= limit && late(high)) low = high, high *= 2;
  if (high > kMostCopies || seconds(1) > limit)  // not even a request alone
    return o.copies = 0, o.possible = false, settle(queue_of(1e-3 / seconds(1), most, seconds)), o;
  while (high - low > 1) {
    const double mid = std::floor((low + high) / 2);
    (late(mid) ? low : high) = mid;
  }
  o.copies = high;
  settle(queue_of(rate / high, most, seconds));
  // How much more these copies could take.
  double holds = rate, breaks = std::max(rate, kMostLoad * most / seconds(most) * high);
  for (int i = 0; i < 12 && breaks > holds * 1.01; ++i) {
    const double mid = (holds + breaks) / 2;
    (queue_of(mid / high, most, seconds).p99 > limit ? breaks : holds) = mid;
  }
  o.most_rate = holds;
  if (d.price >= 0) {
    o.cost_hour = d.price * o.group * o.copies;
    o.per_money = o.cost_hour > 0 ? rate * 3600 / o.cost_hour : -1;
  }
  return o;
}

}  // namespace

std::vector<TrainingOption> train_options(const Network& n, const Job& base,
                                          const std::vector<Device>& devices, const Fabric& f, double samples,
                                          double limit_hours, double most, const Freedom& free) {
  positive("samples", samples, 1e18);
  if (!(std::isfinite(limit_hours) && limit_hours >= 0))
    value_error("advise: hours must be above 0, got ", limit_hours, ". Hint: check --hours.");
  std::vector<TrainingOption> r;
  for (size_t i = 0; i < devices.size(); ++i)
    for (double count = 1; count <= most; count *= 2) {
      const Device& d = devices[i];
      if (count > d.per_node && (d.kind == "edge")) break;  // boards are not clustered for training
      auto found = search_layouts(n, base, d, f, count, free, 1);
      if (found.empty()) continue;
      TrainingOption o;
      o.device = i, o.count = count, o.layout = std::move(found[0]);
      o.hours = o.layout.step.seconds * (samples / base.batch / 3600);
      o.kilowatt_hours = o.hours.point * d.watts * count / 1000;
      if (d.price >= 0) o.cost = o.hours.point * d.price * count;
      o.in_time = limit_hours == 0 || o.hours.point <= limit_hours;
      r.push_back(std::move(o));
    }
  return r;
}

std::vector<ServingOption> serve_options(const Network& n, const Job& base,
                                         const std::vector<Device>& devices, const Fabric& f, double rate,
                                         double limit, double max_batch) {
  positive("rate", rate, 1e9), positive("p99", limit, 1e6), positive("max-batch", max_batch, 65536);
  std::vector<ServingOption> r;
  for (size_t i = 0; i < devices.size(); ++i) {
    r.push_back(serve_on(n, base, devices[i], f, rate, limit, std::floor(max_batch)));
    r.back().device = i;
  }
  return r;
}

}  // namespace yuloh::advise
