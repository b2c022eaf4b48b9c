// SPDX-License-Identifier: Apache-2.0
// The rule of advise/ranking.h.
#include "advise/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"

namespace yuloh::advise {
namespace {

constexpr double kQuarter = 1.25;    // what twice the speed, and room in memory, are worth
constexpr double kNextFaster = 1.5;  // from here on a larger machine is another choice
constexpr size_t kPicks = 5;

struct Rule {
  const std::vector<Way>& ways;
  const std::vector<Market>& devices;
  const Asked& asked;
  Ranking r;

  static bool host(const Market& m) { return m.host || m.use == Use::kCpu; }
  static bool usual(const Market& m) { return row(m.use).usual && !host(m); }
  const Market& market(size_t i) const { return devices[ways[i].device]; }
  double amount(size_t i) const { return r.amount(ways[i]); }

  // What is meant for other work comes behind all that is meant for this.
  int grade(size_t i) const {
    const Market& m = market(i);
    if (!usual(m) && !asked.named && !r.priced) return 2;
    return m.small && asked.training && asked.size >= 2 ? 1 : 0;
  }
  // Of what costs nothing the power says which is less.
  bool paid(size_t i) const { return !(r.priced && ways[i].cost == 0); }
  double score(size_t i) const {
    const Way& w = ways[i];
    const double least = paid(i) ? amount(i) : Ranking().amount(w);
    return least * (w.tight ? kQuarter : 1) * (asked.limited ? 1 : std::pow(w.time, std::log2(kQuarter)));
  }
  auto key(size_t i) const {
    return std::make_tuple(grade(i), paid(i), score(i), ways[i].time, ways[i].tight);
  }

  bool does(size_t i) const { return ways[i].able && (!r.priced || ways[i].cost >= 0); }
  template <class Key>
  std::vector<size_t> sorted(bool able, const Key& by) const {
    std::vector<size_t> v;
    for (size_t i = 0; i < ways.size(); ++i)
      if (does(i) == able && std::isfinite(ways[i].time)) v.push_back(i);
    std::stable_sort(v.begin(), v.end(), [&](size_t a, size_t b) { return by(a) < by(b); });
    return v;
  }
  std::vector<size_t> once(const std::vector<size_t>& order) const {
    std::vector<size_t> v;
    std::vector<bool> seen(devices.size());
    for (size_t i : order) {
      if (!seen[ways[i].device]) v.push_back(i);
      seen[ways[i].device] = true;
    }
    return v;
  }

  void order() {
    r.order = sorted(true, [&](size_t i) { return key(i); });
    if (asked.given) {
      r.order.erase(std::remove(r.order.begin(), r.order.end(), *asked.given), r.order.end());
      r.order.insert(r.order.begin(), *asked.given);
    }
    r.each = once(r.order);
    if (asked.number) r.kept = asked.given.has_value();
    if (!r.each.empty() && r.kept.value_or(true)) r.first = r.each[0];
    if (r.each.empty()) r.late = once(sorted(false, [&](size_t i) { return ways[i].time; }));
  }

  // The first of each use: no host where there is anything else, no board for the training of what is not
  // small. Of a large model few uses are left: the common cards besides, then others of the servers.
  void picks() {
    const bool any = std::any_of(r.each.begin(), r.each.end(), [&](size_t i) { return usual(market(i)); });
    const bool no_board = asked.training && asked.size > 0;
    std::vector<bool> in(ways.size());
    size_t taken = 0;
    const auto take = [&](size_t i) { taken += !in[i], in[i] = true; };
    std::vector<bool> of_use(size_of_table<Use>);
    for (size_t i : r.each) {
      const Use u = market(i).use;
      if (asked.named || r.priced || r.first == i ||
          !(of_use[static_cast<size_t>(u)] || (any && host(market(i))) ||
            (any && no_board && u == Use::kEdge)))
        take(i);
      of_use[static_cast<size_t>(u)] = true;
    }
    for (bool common : {true, false})
      for (size_t i : r.each)
        if (asked.size >= 2 && taken < kPicks && (common ? market(i).common : market(i).use == Use::kServer))
          take(i);
    for (size_t i : r.each)
      if (in[i] && r.picks.size() < kPicks) r.picks.push_back(i);
  }

  void beside() {
    if (!r.first) return;
    const size_t f = *r.first;
    const auto least = [&](std::optional<size_t>& to, size_t i) {
      if (!to || amount(i) < amount(*to)) to = i;
    };
    for (size_t i : r.order) {
      if (amount(i) < amount(f) && !ways[i].tight && (r.priced || grade(i) == grade(f))) least(r.cheaper, i);
      if (kNextFaster * ways[i].time <= ways[f].time && amount(i) >= amount(f) &&
          (market(i).use == market(f).use || row(market(i).use).larger))
        least(r.next, i);
    }
  }

  void why() {
    if (!r.first) return;
    if (asked.number) r.why = r.cheaper ? Why::kGivenThough : Why::kGiven;
    else if (devices.size() > 1) r.why = r.cheaper ? Why::kThough : Why::kLeast;
    else if (ways.size() == 1)  // no other number was tried
      r.why = Why::kNothing;
    else if (r.cheaper) r.why = Why::kNumberThough;
    else if (r.priced) r.why = Why::kNumberCheapest;
    else if (ways[*r.first].count > 1) r.why = asked.limited ? Why::kNumberInTime : Why::kNumberHolds;
  }
};

}  // namespace

double Ranking::amount(const Way& w) const {
  const double known = priced ? w.cost : w.watts > 0 ? w.watts : -1;
  return known < 0 ? std::numeric_limits<double>::infinity() : known;
}

Ranking rank(const std::vector<Way>& ways, const std::vector<Market>& devices, const Asked& asked) {
  for (const Way& w : ways)
    if (w.device >= devices.size() || std::isnan(w.cost) || std::isnan(w.watts) || !(w.time > 0))
      value_error("advise: a way names device ", w.device, " of ", devices.size(), ", costs ", w.cost,
                  ", draws ", w.watts, " W and takes ", w.time, " s; expected numbers and a time above 0.");
  if (asked.given && *asked.given >= ways.size()) value_error("advise: no such way was given.");
  Rule rule{ways, devices, asked, {}};
  rule.r.priced = std::any_of(ways.begin(), ways.end(), [](const Way& w) { return w.cost >= 0; });
  rule.order(), rule.picks(), rule.beside(), rule.why();
  return std::move(rule.r);
}

}  // namespace yuloh::advise
