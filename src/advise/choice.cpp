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
constexpr double kMostWaiting =
    0.75;  // of the time: from here on devices hardly do anything but wait for one another
constexpr double kYear = 24 * 365;  // hours

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

void check(const Goals& g, size_t devices) {
  whole("most", g.most);
  if (g.samples != 0) positive("samples", g.samples, 1e18);
  if (g.rate != 0) positive("rate", g.rate, 1e9);
  positive("p99", g.p99, 1e6), positive("max-batch", g.max_batch, 65536);
  if (g.count != 0) whole("count", g.count);
  for (double count : g.counts) whole("count", count);
  if (!(std::isfinite(g.hours) && g.hours >= 0))
    value_error("advise: hours must be above 0, got ", g.hours, ". Hint: check --hours.");
  if (!g.counts.empty() && g.counts.size() != devices)
    value_error("advise: ", g.counts.size(), " numbers were given for ", devices, " devices.");
}

// Alone: what does not fit one device needs a link between them; a CPU would take years over a large model,
// and does not come up unless it was named.
double most_of(const Network& n, const Job& j, const Device& d, bool named, double given, double most) {
  const bool alone = d.kind == DeviceKind::kEdge || d.kind == DeviceKind::kCpu || d.link <= 0;
  given = d.pair_link > 0 ? std::max(given, 2.0) : given;
  const bool years = d.kind == DeviceKind::kCpu && j.training && size_class(n.params) >= 2;
  return years && !named ? 0 : alone ? given : most;
}

struct Chooser {
  const Network& n;
  const Job& base;
  const Fabric& f;
  const Goals& goals;
  const Freedom& free;
  const bool trains = base.training && goals.samples > 0, serves = !base.training && goals.rate > 0;
  Choice made{};
  std::vector<std::pair<size_t, Option>> last{};

  // `count` devices that hold the job; nothing where its memory does not fit.
  std::optional<Option> held_by(const Device& d, double count) const {
    Option o;
    if (base.training) {
      auto found = search_layouts(n, base, d, f, count, free, 1);
      if (!found.empty()) o.layout = std::move(found[0]);
    } else {
      o.layout = group_layout(n, base, d, f, count, free);
    }
    if (!o.layout) return std::nullopt;
    o.count = count, o.watts = d.watts * count, o.cost = times_price(d.price, count);
    o.time = o.layout->step.seconds.point, o.tight = !surely_fits(o.layout->memory, d);
    if (!trains) return o;
    o.hours = o.layout->step.seconds * (goals.samples / base.batch / 3600);
    o.time = o.hours.point * 3600;
    o.able = goals.hours == 0 || o.hours.point <= goals.hours;
    o.sure = goals.hours == 0 || o.hours.high <= goals.hours;
    o.kilowatt_hours = o.hours.point * o.watts / 1000, o.cost = times_price(o.cost, o.hours.point);
    return o;
  }

  // As many copies as keep the latency, or as make up `count` devices; `slow`: at the slow end of the
  // interval.
  // The least group holds the model; a wider one answers sooner, so that fewer devices may do.
  Option serving(const Device& d, double count, bool slow = false) const {
    Option o = serving_in(free, d, count, slow);
    if (free.mp > 0 || free.pp > 0) return o;
    for (double mp = 2; mp <= d.per_node && n.splits_by(mp); mp *= 2) {
      if (mp <= o.group) continue;
      Freedom wider = free;
      wider.mp = mp, wider.pp = 1;
      const Option w = serving_in(wider, d, count, slow);
      if (w.able && (!o.able || w.count < o.count)) o = w;
    }
    return o;
  }
  Option serving_in(const Freedom& given, const Device& d, double count, bool slow) const {
    Option o;
    o.able = o.sure = false, o.time = o.slow = kInfinite;
    Job j = base;
    const auto with_batch = [&](double b) {
      Job k = j;
      k.batch = k.micro = b;
      return k;
    };
    const auto held = [&](double b) { return holds_full(n, with_batch(b), d); };
    if (!least_group(n, j, d, f, given, [&](const Job&) { return held(1); })) return o;
    o.count = o.group = j.devices();
    if (count > 0 && given.dp > 0 && count != given.dp * o.group)
      value_error("advise: ", count, " devices are not ", given.dp, " copies of the model on ", o.group,
                  " each. Hint: leave --count or --dp away.");
    const double fixed = count > 0 ? count / o.group : given.dp;
    if (fixed > 0 && fixed != std::floor(fixed)) return o;
    double most = std::floor(goals.max_batch);
    while (most > 1 && !held(most)) most = std::floor(most / 2);
    std::vector<double> known;  // seconds of a batch, where they were asked for
    const auto end_of = [&](const Interval& i) { return slow ? i.high : i.point; };
    const auto seconds = [&](double b) {
      const size_t i = static_cast<size_t>(b);
      if (i >= known.size()) known.resize(i + 1, -1);
      if (known[i] < 0) known[i] = end_of(step_of(n, with_batch(b), d, f).seconds);
      return known[i];
    };
    const auto queue = [&](double rate) {
      return queue_of(rate, most, seconds, static_cast<size_t>(in_flight(j)));
    };
    const auto late = [&](double copies) { return queue(goals.rate / copies).p99 > goals.p99; };
    const auto settle = [&](Queue q) {
      o.p50 = q.p50, o.p99 = o.time = q.p99, o.batch = q.batch, o.load = q.load, o.busy = q.busy;
      o.seconds = step_of(n, with_batch(std::max(1.0, std::round(q.batch))), d, f).seconds;
    };
    constexpr double kMostCopies = 1e6;
    double high =
        fixed > 0 ? fixed
                  : std::max(1.0, std::ceil(goals.rate * seconds(most) / in_flight(j) / most / kMostLoad));
    double low = high - 1;
    while (fixed == 0 && high <= kMostCopies && seconds(1) <= goals.p99 && late(high)) low = high, high *= 2;
    if (high > kMostCopies || seconds(1) > goals.p99 ||
        (fixed > 0 && late(high)))  // not even a request alone, or not so many
      return settle(queue(1e-3 / seconds(1))), o;
    while (high - low > 1) {
      const double mid = std::floor((low + high) / 2);
      (late(mid) ? low : high) = mid;
    }
    o.copies = high, o.able = true;
    settle(queue(goals.rate / high));
    const Interval alone = step_of(n, with_batch(1), d, f).seconds;
    const double slower = slow ? 1 : alone.high / alone.point;
    o.slow = queue_of(
                 goals.rate / high, most, [&](double b) { return slower * seconds(b); },
                 static_cast<size_t>(in_flight(j)))
                 .p99;
    o.sure = o.slow <= goals.p99;
    // How much more these copies could take.
    double holds = goals.rate,
           breaks = std::max(goals.rate, kMostLoad * most / seconds(most) * in_flight(j) * high);
    for (int i = 0; i < 12 && breaks > holds * 1.01; ++i) {
      const double mid = (holds + breaks) / 2;
      (queue(mid / high).p99 > goals.p99 ? breaks : holds) = mid;
    }
    o.most_rate = holds;
    o.count = o.group * o.copies, o.able = fixed > 0 || o.count <= goals.most;
    o.watts = d.watts * o.count;
    o.cost = times_price(d.price, o.count), o.cost_year = times_price(o.cost, kYear);
    o.per_money = for_money(goals.rate * 3600, o.cost);
    return o;
  }

  // One number of a device, whatever its share of the peak.
  std::optional<Option> exactly(const Device& d, double count) const {
    return serves ? serving(d, count) : held_by(d, count);
  }
  void add(size_t device, std::optional<Option> o) {
    if (!o) return;
    o->device = device;
    made.options.push_back(std::move(*o));
  }

  void every_number(size_t i, const Device& d) {
    if (serves) return add(i, serving(d, 0));
    const int size = size_class(n.params);
    const double given = given_devices(free);
    const double usual = !base.training && size < 2 ? 1 : size < 3 ? 8 : 1024;
    const double enough = std::max(given, std::min(goals.most, usual));
    const double top = trains ? goals.most : most_of(n, base, d, goals.named, given, enough);
    std::optional<Option> poor;  // the fewest that hold it, where they mostly wait
    for (double count = given; count <= top; count *= 2) {
      if (trains && count > d.per_node && d.kind == DeviceKind::kEdge)
        break;  // boards are not clustered for training
      auto o = held_by(d, count);
      if (!o) continue;
      if (!trains && count > 1 && waiting_share(o->layout->step) > kMostWaiting) {
        if (!poor) poor = std::move(o);
        continue;
      }
      add(i, std::move(o));
      if (!trains) return;
    }
    if (poor) last.emplace_back(i, std::move(*poor));
  }
  // What mostly waits is an answer where it was asked about, or where there is no other.
  void rather_than_nothing() {
    if (goals.named || made.options.empty())
      for (auto& [device, option] : last) add(device, std::move(option));
  }

  void rank_by(Asked asked, const std::vector<Market>& market) {
    made.ranking = rank(std::vector<Way>(made.options.begin(), made.options.end()), market, asked);
  }

  // The way with the number that the user gave, of the device that is looked at.
  std::optional<size_t> given(size_t device, const Device& d) {
    auto& all = made.options;
    const auto same = [&](const Option& o) { return o.device == device && o.count == goals.count; };
    auto at = std::find_if(all.begin(), all.end(), same);
    if (at == all.end()) {
      add(device, exactly(d, goals.count));
      at = std::find_if(all.begin(), all.end(), same);
    }
    if (at == all.end() || !at->able) return std::nullopt;
    return static_cast<size_t>(at - all.begin());
  }

  // Where the first keeps its time by the estimate alone: the least of its device that keeps it even at the
  // slow end.
  void make_sure(const std::vector<Device>& devices) {
    if (!made.ranking.first || made.options[*made.ranking.first].sure) return;
    const Option& first = made.options[*made.ranking.first];
    std::optional<Option>& to = made.sure;
    if (serves) {
      Option o = serving(devices[first.device], 0, true);
      o.device = first.device;
      if (o.able) to = std::move(o);
      return;
    }
    for (const Option& o : made.options)
      if (o.device == first.device && o.able && o.sure && (!to || o.count < to->count)) to = o;
  }

  void mark_pareto() {
    const bool priced = made.ranking.priced;
    const auto against = [&](const Option& o) { return priced ? o.cost : o.kilowatt_hours; };
    std::vector<Option*> order;
    for (Option& o : made.options)
      if (priced ? o.cost >= 0 : o.kilowatt_hours > 0) order.push_back(&o);
    std::stable_sort(order.begin(), order.end(), [&](const Option* a, const Option* b) {
      return std::make_tuple(a->hours.point, against(*a)) < std::make_tuple(b->hours.point, against(*b));
    });
    double least = kInfinite;
    for (Option* o : order)
      if (against(*o) < least) least = against(*o), o->pareto = true;
  }
};

}  // namespace

Choice choose(const Network& n, const Job& base, const std::vector<Device>& devices,
              const std::vector<Market>& market, const Fabric& f, const Goals& goals, const Freedom& free) {
  check(goals, devices.size()), check(free);
  if (devices.empty() || devices.size() != market.size())
    value_error("advise: a choice is of one device or more, got ", devices.size(), " devices and ",
                market.size(), " markets.");
  Chooser c{n, base, f, goals, free};
  if (c.serves && (free.sharding > 1 || free.ep > 1))
    value_error("advise: sharding and experts over devices are not reckoned for a rate, got sharding ",
                std::max(1.0, free.sharding), " and ep ", std::max(1.0, free.ep),
                ". Hint: --mp holds a copy on several devices, --dp says how many copies.");
  for (size_t i = 0; i < devices.size(); ++i) {
    if (goals.counts.empty()) c.every_number(i, devices[i]);
    else c.add(i, c.exactly(devices[i], goals.counts[i]));
  }
  c.rather_than_nothing();
  Asked asked;
  asked.named = goals.named, asked.limited = c.serves || (c.trains && goals.hours > 0);
  asked.training = base.training, asked.size = size_class(n.params);
  c.rank_by(asked, market);
  const std::vector<size_t>& each = c.made.ranking.each;
  if (goals.count > 0 && (goals.named || !each.empty())) {
    const size_t device = goals.named ? 0 : c.made.options[each[0]].device;
    asked.number = true, asked.given = c.given(device, devices[device]);
    c.rank_by(asked, market);
  }
  c.make_sure(devices);
  if (c.trains) c.mark_pareto();
  return std::move(c.made);
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
    const auto held = [&](const Job& k) { return holds_full(n, k, d); };
    Freedom fixed = free;  // of one device, unless a group was asked for
    if (fixed.mp == 0) fixed.mp = 1;
    if (fixed.pp == 0) fixed.pp = 1;
    for (double b = 1; b <= max_batch; b *= 2) {
      j.batch = j.micro = b;
      if (!least_group(n, j, d, f, fixed, held)) break;
      found = std::max(found, in_flight(j) * b / step_of(n, j, d, f).seconds.point / j.devices());
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
  if (!least_group(n, j, d, f, free, [&](const Job& k) {
        r.decoding = decoding_of(n, k, d, f, share);
        return r.decoding.most.point >= 1;
      }))
    return std::nullopt;
  r.group = j.devices();
  return r;
}

double with_energy(const Device& d, double energy, bool listed) {
  if (!(energy >= 0 && energy <= 1e6))
    value_error("advise: --energy-price must be from 0 to 1e6, got ", energy, ".");
  return d.watts > 0 && (d.price >= 0 || !listed) ? std::max(d.price, 0.0) + d.watts / 1000 * energy : -1;
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
  y.machines = std::max(1.0, std::ceil(y.hours / kYear));
  return y;
}

}  // namespace yuloh::advise
