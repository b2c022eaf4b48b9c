// SPDX-License-Identifier: Apache-2.0
// The choice of devices (advise/choice.h). The latency under load is a model of greedy batching, not a
// measurement: a request that has just missed a batch waits for it and runs in the next; both are as large as
// the arrivals make them, the next one with the 99th percentile of a Poisson count.
#include "advise/choice.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace yuloh::advise {
namespace {

constexpr double kMostBusy = 0.9;

void positive(const char* what, double v, double high) {
  if (!(std::isfinite(v) && v > 0 && v <= high))
    value_error("advise: ", what, " must be above 0 and at most ", high, ", got ", v, ". Hint: check --",
                what, ".");
}

// 99 of 100 requests of `rate`/s to one server answer within this, when it takes whatever waits (at most
// `max_batch`) as soon as it is free; infinite where it cannot keep up. *batch: the batch that the load
// settles at.
template <class Seconds>
double p99_of(double rate, double max_batch, Seconds seconds, double* batch) {
  double b = 1;
  for (;; b = b < 8 ? b + 1 : std::floor(b * 1.25)) {
    if (b > max_batch) b = max_batch;
    if (rate * seconds(b) <= kMostBusy * b) break;
    if (b == max_batch) return std::numeric_limits<double>::infinity();
  }
  *batch = b;
  const double next = std::min(max_batch, std::ceil(b + 2.33 * std::sqrt(b)));
  return b == 1 && rate * seconds(1) < 0.01 ? seconds(1) : seconds(b) + seconds(next);
}

ServingOption serve_on(const Network& n, Job j, const Device& d, const Fabric& f, double rate, double limit,
                       double max_batch) {
  ServingOption o;
  j.dp = j.pp = j.sharding = 1, j.stage = 0;
  const auto with_batch = [&](double b) {
    Job k = j;
    k.batch = k.micro = b;
    return k;
  };
  const auto held = [&](double b) { return fits(memory_of(n, with_batch(b), d), d); };
  for (j.mp = 1; !held(1); j.mp *= 2)
    if (!n.transformer() || j.mp * 2 > d.per_node || std::fmod(n.heads, j.mp * 2) != 0)
      return o.copies = 0, o.possible = false, o;
  o.group = j.mp;
  double most = max_batch;
  while (most > 1 && !held(most)) most = std::floor(most / 2);
  const auto seconds = [&](double b) { return step_of(n, with_batch(b), d, f).seconds.point; };
  const auto late = [&](double copies, double* b) { return p99_of(rate / copies, most, seconds, b); };
  double batch = 1, high = 1;
  if (2 * seconds(1) > limit)
    return o.copies = 0, o.possible = false, o.p99 = 2 * seconds(1),
           o.seconds = step_of(n, with_batch(1), d, f).seconds, o;
  while (late(high, &batch) > limit && high < 1e7) high *= 2;
  if (high >= 1e7) return o.copies = 0, o.possible = false, o;
  double low = std::floor(high / 2);
  while (high - low > 1) {
    const double mid = std::floor((low + high) / 2);
    (late(mid, &batch) > limit ? low : high) = mid;
  }
  o.copies = high, o.p99 = late(high, &batch), o.batch = batch;
  o.seconds = step_of(n, with_batch(batch), d, f).seconds;
  o.busy = rate / high * o.seconds.point / batch;
  double least = rate / high, up = least;
  double b;
  for (int i = 0; i < 40 && p99_of(up * 1.1, most, seconds, &b) <= limit; ++i) up *= 1.1;
  o.most_rate = up * high;
  if (d.price >= 0) {
    o.cost_hour = d.price * o.group * o.copies;
    o.per_money = o.cost_hour > 0 ? rate * 3600 / o.cost_hour : -1;
  }
  return o;
}

}  // namespace

std::vector<TrainingOption> train_options(const Network& n, const Job& base,
                                          const std::vector<Device>& devices, const Fabric& f, double samples,
                                          double limit_hours, double most) {
  positive("samples", samples, 1e18);
  if (!(std::isfinite(limit_hours) && limit_hours >= 0))
    value_error("advise: hours must be above 0, got ", limit_hours, ". Hint: check --hours.");
  std::vector<TrainingOption> r;
  for (size_t i = 0; i < devices.size(); ++i)
    for (double count = 1; count <= most; count *= 2) {
      const Device& d = devices[i];
      if (count > d.per_node && (d.kind == "edge")) break;  // boards are not clustered for training
      auto found = search_layouts(n, base, d, f, count, Freedom{}, 1);
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
