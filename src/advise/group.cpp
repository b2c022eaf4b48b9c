// SPDX-License-Identifier: Apache-2.0
#include "advise/group.h"

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

bool least_group(const Network& n, Job& j, const Device& d, const Freedom& free,
                 const std::function<bool(const Job&)>& held) {
  const auto given = [](double fixed) { return fixed > 0 ? fixed : 1; };
  j.dp = j.sharding = j.ep = 1, j.stage = 0;
  j.pp = given(free.pp), j.cp = given(free.cp), j.vpp = given(free.vpp);
  if (free.mp > 0) return j.mp = free.mp, held(j);
  for (j.mp = 1; j.mp == 1 || (j.mp <= d.per_node && n.splits_by(j.mp)); j.mp *= 2)
    if (held(j)) return true;
  return false;
}

std::optional<Layout> group_layout(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                   double count, const Freedom& free) {
  Job j = base;
  if (free.mp == 0) {
    j.mp = 1, j.mp = count / j.devices();
    if (j.mp < 1 || j.mp != std::floor(j.mp) || !n.splits_by(j.mp) || j.mp > d.per_node) return std::nullopt;
  }
  if (j.devices() != count) return std::nullopt;
  Layout l = layout_of(n, j, d, f);
  if (!fits(l.memory, d)) return std::nullopt;
  return l;
}

}  // namespace yuloh::advise
