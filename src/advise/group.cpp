// SPDX-License-Identifier: Apache-2.0
#include "advise/group.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace yuloh::advise {

void check(const Freedom& free) {
  const auto whole = [](double v) {
    if (!(v >= 0 && v <= 1 << 20 && v == std::floor(v)))
      value_error("advise: a degree must be a whole number up to ", 1 << 20, ", or 0 for a free one, got ", v,
                  ". Hint: check --dp, --mp and the like.");
  };
  whole(free.most_mp);
  for (const Degree& k : kDegrees) whole(free.*k.fixed);
}

double given_devices(const Freedom& free) {
  double r = 1;
  for (double v : {free.dp, free.mp, free.pp, free.sharding, free.cp}) r *= v > 0 ? v : 1;
  return r;
}

bool holds_full(const Network& n, const Job& j, const Device& d) {
  const Memory m = memory_of(n, j, d);
  return m.total.point + (in_flight(j) - 1) * m.of(MemoryKind::kCache).point <= d.memory;
}

namespace {
// Whether stages may lie on several servers of this device: nobody joins boards, hosts or cards without a
// link for one model.
bool over_servers(const Network& n, const Device& d, const Fabric& f) {
  return n.transformer() && d.link > 0 && d.kind != DeviceKind::kEdge && d.kind != DeviceKind::kCpu &&
         f.joins(d, d.per_node + 1);
}
constexpr double kMostStages = 8;
}  // namespace

bool least_group(const Network& n, Job& j, const Device& d, const Fabric& f, const Freedom& free,
                 const std::function<bool(const Job&)>& held) {
  const auto given = [](double fixed) { return fixed > 0 ? fixed : 1; };
  j.dp = j.sharding = j.ep = 1, j.stage = 0;
  j.pp = given(free.pp), j.cp = given(free.cp), j.vpp = given(free.vpp);
  const auto could = [&] { return f.joins(d, j.devices()) && held(j); };
  if (free.mp > 0) j.mp = free.mp;
  else
    for (j.mp = 1; j.mp * 2 <= d.per_node && n.splits_by(j.mp * 2) && !could(); j.mp *= 2) {}
  if (could()) return true;
  if (free.pp > 0 || !over_servers(n, d, f)) return false;
  for (j.pp = 2; j.pp <= std::min(kMostStages, n.layers); j.pp *= 2)
    if (could()) return true;
  return false;
}

std::optional<Layout> group_layout(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                   double count, const Freedom& free) {
  Job j = base;
  if (free.mp == 0) {
    const bool wider = free.pp == 0 && over_servers(n, d, f);
    j.mp = 1, j.pp = wider ? 1 : j.pp;
    const double each = j.devices();
    for (j.mp = count / each; wider && j.mp > d.per_node && j.pp < kMostStages; j.mp /= 2) j.pp *= 2;
    if (j.mp < 1 || j.mp != std::floor(j.mp) || !n.splits_by(j.mp) || j.mp > d.per_node || j.pp > n.layers)
      return std::nullopt;
  }
  if (j.devices() != count || !f.joins(d, count)) return std::nullopt;
  Layout l = layout_of(n, j, d, f);
  if (!fits(l.memory, d)) return std::nullopt;
  return l;
}

}  // namespace yuloh::advise
