// SPDX-License-Identifier: Apache-2.0
// The choice of devices (advise/choice.h).
#include "advise/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "advise/group.h"
#include "advise/queue.h"
#include "base/error.h"

namespace yuloh::advise {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kLeastShare = 0.12;  // of the peak: below it devices mostly wait for one another
constexpr size_t kBest = 8;           // options that a choice names

void positive(const char* what, double v, double high) {
  if (!(std::isfinite(v) && v > 0 && v <= high))
    value_error("advise: ", what, " must be above 0 and at most ", high, ", got ", v, ". Hint: check --",
                what, ".");
}
void whole(const char* what, double v) {
  if (!(v >= 1 && v <= 1 << 17 && v == std::floor(v)))
    value_error("advise: ", what, " must be a whole number from 1 to ", 1 << 17, ", got ", v,
                ". Hint: check --", what, ".");
}

// Requests or the like for a unit of money: nothing where no price is known, no end of them where it is 0.
double for_money(double amount, double money) {
  return money < 0 ? -1 : money == 0 ? kInfinite : amount / money;
}
double times_price(double price, double by) { return price < 0 ? -1 : price * by; }
double power(double watts) { return watts > 0 ? watts : kInfinite; }  // what is not known comes last

// Alone: what does not fit one device needs a link between them; a CPU would take years over a large model.
double most_of(const Network& n, const Job& j, const Device& d, double given, double most) {
  const bool alone = d.kind == DeviceKind::kEdge || d.kind == DeviceKind::kCpu || d.link <= 0;
  return d.kind == DeviceKind::kCpu && j.training && size_class(n.params) >= 2 ? 0 : alone ? given : most;
}

ServingOption serve_on(const Network& n, const Job& base, const Device& d, const Fabric& f, double rate,
                       double limit, double max_batch, const Freedom& free) {
  ServingOption o;
  Job j = base;
  const auto with_batch = [&](double b) {
    Job k = j;
    k.batch = k.micro = b;
    return k;
  };
  const auto held = [&](double b) { return fits(memory_of(n, with_batch(b), d), d); };
  if (!least_group(n, j, d, free, [&](const Job&) { return held(1); }))
    return o.copies = 0, o.possible = false, o;
  o.group = j.devices();
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
  const bool fixed = free.dp > 0;
  double high = fixed ? free.dp : std::max(1.0, std::ceil(rate * seconds(most) / most / kMostLoad));
  double low = high - 1;
  while (!fixed && high <= kMostCopies && seconds(1) <= limit && late(high)) low = high, high *= 2;
  if (high > kMostCopies || seconds(1) > limit ||
      (fixed && late(high)))  // not even a request alone, or not so many
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
  const double all = o.group * o.copies;
  o.watts = d.watts * all;
  o.cost_hour = times_price(d.price, all), o.cost_year = times_price(o.cost_hour, 24 * 365);
  o.per_money = for_money(rate * 3600, o.cost_hour);
  return o;
}

// The options marked by `able`, least first: by cost where prices are known (those without one drop out),
// then power, then time.
template <class Option, class Able, class Cost, class Time>
std::vector<size_t> ranked(const std::vector<Option>& all, bool priced, const Able& able, const Cost& cost,
                           const Time& time) {
  std::vector<size_t> r;
  for (size_t i = 0; i < all.size(); ++i)
    if (able(all[i]) && !(priced && cost(all[i]) < 0)) r.push_back(i);
  const auto key = [&](size_t i) {
    return std::make_tuple(priced ? cost(all[i]) : 0.0, power(all[i].watts), time(all[i]));
  };
  std::stable_sort(r.begin(), r.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return r;
}

void mark_pareto(TrainingChoice& c) {
  const auto against = [&](const TrainingOption& o) { return c.priced ? o.cost : o.kilowatt_hours; };
  std::vector<TrainingOption*> order;
  for (TrainingOption& o : c.options)
    if (c.priced ? o.cost >= 0 : o.kilowatt_hours > 0) order.push_back(&o);
  std::stable_sort(order.begin(), order.end(), [&](const TrainingOption* a, const TrainingOption* b) {
    return std::make_tuple(a->hours.point, against(*a)) < std::make_tuple(b->hours.point, against(*b));
  });
  double least = kInfinite;
  for (TrainingOption* o : order)
    if (against(*o) < least) least = against(*o), o->pareto = true;
}

}  // namespace

std::vector<LeastOption> least_options(const Network& n, const Job& base, const std::vector<Device>& devices,
                                       const Fabric& f, double most, const Freedom& free) {
  whole("most", most), check(free);
  const int size = size_class(n.params);
  const double given = given_devices(free);
  const double top = std::max(given, !base.training && size < 2 ? 1 : size < 3 ? 8 : std::min(most, 1024.0));
  std::vector<LeastOption> r;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Device& d = devices[i];
    for (double count = given; count <= most_of(n, base, d, given, top); count *= 2) {
      std::optional<Layout> l;
      if (base.training) {
        auto found = search_layouts(n, base, d, f, count, free, 1);
        if (!found.empty()) l = std::move(found[0]);
      } else {
        l = group_layout(n, base, d, f, count, free);
      }
      // Tokens one by one read the weights and hardly reckon: there the share says nothing of waiting.
      const bool reckons = base.training || base.new_tokens == 0;
      if (!l || (count > 1 && reckons && l->step.share_of_peak < kLeastShare)) continue;
      r.push_back({i, count, std::move(*l), d.watts * count, times_price(d.price, count)});
      break;
    }
  }
  const bool priced = std::all_of(r.begin(), r.end(), [](const LeastOption& o) { return o.price >= 0; });
  std::stable_sort(r.begin(), r.end(), [&](const LeastOption& a, const LeastOption& b) {
    const auto key = [&](const LeastOption& o) {
      return std::make_tuple(devices[o.device].kind == DeviceKind::kEdge, priced ? o.price : 0.0,
                             power(o.watts), -o.layout.step.share_of_peak);
    };
    return key(a) < key(b);
  });
  return r;
}

std::optional<TrainingOption> train_on(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                       double count, double samples, const Freedom& free) {
  positive("samples", samples, 1e18), check(free);
  auto found = search_layouts(n, base, d, f, count, free, 1);
  if (found.empty()) return std::nullopt;
  TrainingOption o;
  o.count = count, o.layout = std::move(found[0]);
  o.hours = o.layout.step.seconds * (samples / base.batch / 3600);
  o.watts = d.watts * count;
  o.kilowatt_hours = o.hours.point * d.watts * count / 1000;
  o.cost = times_price(d.price, o.hours.point * count);
  return o;
}

TrainingChoice train_options(const Network& n, const Job& base, const std::vector<Device>& devices,
                             const Fabric& f, double samples, double limit_hours, double most,
                             const Freedom& free) {
  positive("samples", samples, 1e18), whole("most", most), check(free);
  if (!(std::isfinite(limit_hours) && limit_hours >= 0))
    value_error("advise: hours must be above 0, got ", limit_hours, ". Hint: check --hours.");
  TrainingChoice c;
  for (size_t i = 0; i < devices.size(); ++i)
    for (double count = given_devices(free); count <= most; count *= 2) {
      const Device& d = devices[i];
      if (count > d.per_node && d.kind == DeviceKind::kEdge) break;  // boards are not clustered for training
      auto o = train_on(n, base, d, f, count, samples, free);
      if (!o) continue;
      o->device = i;
      o->in_time = limit_hours == 0 || o->hours.point <= limit_hours;
      c.priced |= o->cost >= 0;
      c.options.push_back(std::move(*o));
    }
  mark_pareto(c);
  std::vector<bool> taken(devices.size());
  for (size_t i : ranked(
           c.options, c.priced, [](const TrainingOption& o) { return o.in_time; },
           [](const TrainingOption& o) { return o.cost; },
           [](const TrainingOption& o) { return o.hours.point; })) {
    const size_t d = c.options[i].device;
    if (c.best.size() < kBest && !(devices.size() > 2 && taken[d])) c.best.push_back(i);
    taken[d] = true;
  }
  return c;
}

ServingChoice serve_options(const Network& n, const Job& base, const std::vector<Device>& devices,
                            const Fabric& f, double rate, double limit, double max_batch,
                            const Freedom& free) {
  positive("rate", rate, 1e9), positive("p99", limit, 1e6), positive("max-batch", max_batch, 65536);
  check(free);
  if (free.sharding > 1 || free.ep > 1)
    value_error("advise: sharding and experts over devices are not reckoned for a rate, got sharding ",
                std::max(1.0, free.sharding), " and ep ", std::max(1.0, free.ep),
                ". Hint: --mp holds a copy on several devices, --dp says how many copies.");
  ServingChoice c;
  for (size_t i = 0; i < devices.size(); ++i) {
    c.options.push_back(serve_on(n, base, devices[i], f, rate, limit, std::floor(max_batch), free));
    c.options.back().device = i;
    c.priced |= c.options.back().cost_hour >= 0;
  }
  c.best = ranked(
      c.options, c.priced, [](const ServingOption& o) { return o.possible; },
      [](const ServingOption& o) { return o.cost_hour; }, [](const ServingOption& o) { return o.p99; });
  if (c.best.size() > kBest) c.best.resize(kBest);
  return c;
}

RateOption rates_of(const Network& n, const Job& base, const Device& d, const Fabric& f, double max_batch,
                    const Freedom& free) {
  positive("max-batch", max_batch, 65536), check(free);
  RateOption r;
  const auto best = [&](Precision precision) {
    double found = -1;
    if (d.peak(precision) <= 0) return found;
    Job j = base;
    j.precision = precision, j.training = false;
    const auto held = [&](const Job& k) { return fits(memory_of(n, k, d), d); };
    Freedom fixed = free;
    if (fixed.mp == 0) fixed.mp = 1;  // of one device, unless a group was asked for
    for (double b = 1; b <= max_batch; b *= 2) {
      j.batch = j.micro = b;
      if (!least_group(n, j, d, fixed, held)) break;
      found = std::max(found, b / step_of(n, j, d, f).seconds.point / j.devices());
    }
    return found;
  };
  r.fp32 = best(Precision::kFp32), r.fp16 = best(Precision::kFp16), r.int8 = best(Precision::kInt8);
  const double most = std::max({r.fp32, r.fp16, r.int8});
  if (most <= 0) return r;
  r.per_money = for_money(most * 3600, d.price);
  if (d.watts > 0) r.per_watt_hour = most * 3600 / d.watts;
  return r;
}

std::optional<GroupDecoding> decoding_on(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                         double share, const Freedom& free) {
  check(free);
  Job j = base;
  GroupDecoding r;
  if (!least_group(n, j, d, free, [&](const Job& k) {
        r.decoding = decoding_of(n, k, d, f, share);
        return r.decoding.most.point >= 1;
      }))
    return std::nullopt;
  r.group = j.devices();
  return r;
}

Yearly yearly(double runs_per_day, double hours_of_run, double servers, double price, double days) {
  const auto amount = [](const char* what, double v) {
    if (!(std::isfinite(v) && v >= 0))
      value_error("cost: ", what, " must be a number of 0 or more, got ", v, ". Hint: check the option.");
  };
  amount("runs_per_day", runs_per_day), amount("servers", servers), amount("price", price),
      amount("days", days);
  if (!std::isfinite(hours_of_run))
    value_error("cost: hours_saved must be finite, got ", hours_of_run, ". Hint: give --hours-saved.");
  const auto rounded = [](double v) { return std::abs(v) < 1e9 ? std::round(v * 1e6) / 1e6 : v; };
  Yearly y;
  y.hours = rounded(runs_per_day * hours_of_run * days);
  y.money = rounded(y.hours * servers * price);
  return y;
}

}  // namespace yuloh::advise
