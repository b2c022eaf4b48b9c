// SPDX-License-Identifier: Apache-2.0
// The search over dp x mp x pp x sharding, where it can matter also over context (long sequences), experts
// and virtual stages. Rules that hold in Paddle's fleet too: mp stays inside a server, heads divide by mp, a
// pipeline goes with sharding stage 1 at most, virtual stages need more than 2 stages and twice as many
// micro-batches. Sequence parallel stays as the job has it: the script for fleet writes it where it is asked
// for.
#include "advise/layout.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace yuloh::advise {
namespace {

// Parts of a sequence that are long enough to be worth a ring.
std::vector<double> contexts(const Network& n, const Job& base, double devices, double fixed) {
  if (fixed > 0)
    return fixed == 1 ||
                   (n.transformer() && std::fmod(n.seq, 2 * fixed) == 0 && std::fmod(devices, fixed) == 0)
               ? std::vector<double>{fixed}
               : std::vector<double>{};
  std::vector<double> r{1};
  for (double k = 2; base.training && n.transformer() && k <= std::min(devices, 32.0) && n.seq / k >= 4096;
       k *= 2)
    if (std::fmod(n.seq, 2 * k) == 0 && std::fmod(devices, k) == 0) r.push_back(k);
  return r;
}
// Experts on every device, inside a server, or as far apart as they go.
std::vector<double> expert_groups(const Network& n, double here, double mp, double group, double fixed) {
  if (fixed > 0)
    return fixed == 1 || (n.experts > 0 && std::fmod(n.experts, fixed) == 0 && std::fmod(group, fixed) == 0)
               ? std::vector<double>{fixed}
               : std::vector<double>{};
  std::vector<double> r{1};
  if (n.experts == 0) return r;
  for (double most : {here / mp, group}) {
    double k = 1;
    while (k * 2 <= most && std::fmod(n.experts, k * 2) == 0 && std::fmod(group, k * 2) == 0) k *= 2;
    if (k > r.back()) r.push_back(k);
  }
  return r;
}
std::vector<double> virtual_stages(const Network& n, const Job& base, double pp, double fixed) {
  if (fixed > 0)
    return std::fmod(n.layers, pp * fixed) == 0 && (pp > 1 || fixed == 1) ? std::vector<double>{fixed}
                                                                          : std::vector<double>{};
  std::vector<double> r{1};
  for (double v : {2.0, 4.0})
    if (base.training && pp > 2 && n.transformer() && std::fmod(n.layers, pp * v) == 0) r.push_back(v);
  return r;
}

// Sizes of a pass worth a try for `batch` samples of one replica, ascending: what divides it, those of few
// passes (whose last is smaller where it does not divide), and one about every power of two.
std::vector<double> micro_batches(double batch) {
  std::vector<double> all;
  const auto of_passes = [&](double k) { all.push_back(std::ceil(batch / k)); };
  for (double k = 1; k <= std::min(batch, 8.0); ++k) of_passes(k);
  for (double b = 1; b <= batch; b *= 2) of_passes(std::ceil(batch / b));
  for (double b = 3; b <= std::min(batch, 2048.0); ++b)
    if (std::fmod(batch, b) == 0) all.push_back(b);
  std::sort(all.begin(), all.end());
  std::vector<double> r;
  for (double b : all)  // neighbours within a sixteenth are one, but what divides goes before what does not
    if (r.empty() || b > r.back() * 1.0625) r.push_back(b);
    else if (std::fmod(batch, r.back()) != 0 && std::fmod(batch, b) == 0) r.back() = b;
  if (r.back() < batch) r.back() = batch;
  return r;
}

// Of `rest` devices that hold the same part of the model, those that share states: what is given, else all of
// them or those inside a server (the others only copy).
std::vector<double> sharing(const Freedom& free, double rest, double stage, double here) {
  if (stage == 0) return {1};
  if (free.sharding > 0)
    return std::fmod(rest, free.sharding) == 0 ? std::vector{free.sharding} : std::vector<double>{};
  if (free.dp > 0) return std::fmod(rest, free.dp) == 0 ? std::vector{rest / free.dp} : std::vector<double>{};
  std::vector<double> r{rest};
  for (double k : divisors(rest))
    if (k > 1 && k < rest && k <= here) r.resize(1), r.push_back(k);
  return r;
}

// What a layout is ranked by: one that only just fits counts as a quarter slower than one with room, one
// whose last pass is smaller as a twentieth.
double rank(const Layout& l, const Device& d) {
  const bool even = std::fmod(l.job.batch / l.job.replicas(), l.job.micro_batch()) == 0;
  return l.step.seconds.point * (l.memory.total.high <= d.memory ? 1 : 1.25) * (even ? 1 : 1.05);
}

struct Search {
  const Network& n;
  const Job& base;
  const Device& d;
  const Fabric& f;
  const Freedom& free;
  std::vector<Layout> found;

  // The best micro-batch and recompute of one split.
  void split(Job j) {
    const double of_replica = base.batch / j.replicas();
    Layout best;
    bool any = false;
    const std::vector<double> micros =
        !free.micro && base.micro > 0 ? std::vector{base.micro} : micro_batches(of_replica);
    for (double b : micros) {
      if (j.pp > 1 && std::fmod(of_replica, b) != 0) continue;  // a pipeline's passes are all of one size
      j.micro = b;
      if (j.vpp > 1 && (std::fmod(j.passes(), j.pp) != 0 || (free.vpp == 0 && j.passes() < 2 * j.pp)))
        continue;
      bool fit = false, roomy = false;
      for (Recompute again : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        if (!free.recompute && base.recompute != again) continue;
        if (free.recompute && again == Recompute::kSelective && (j.flash || !n.transformer() || !j.training))
          continue;
        if (free.recompute && again == Recompute::kFull && (!j.training || roomy))
          continue;  // never faster than what has room
        j.recompute = again;
        Memory m = memory_of(n, j, d);
        if (!fits(m, d)) continue;
        fit = true, roomy |= m.total.high <= d.memory;
        Layout l{j, std::move(m), step_of(n, j, d, f)};
        if (!any || rank(l, d) < rank(best, d)) best = std::move(l), any = true;
      }
      if (!fit) break;  // a larger micro-batch needs more
    }
    if (any) found.push_back(std::move(best));
  }
};

}  // namespace

bool Freedom::allows(const Job& j) const {
  return std::all_of(std::begin(kDegrees), std::end(kDegrees),
                     [&](const Degree& k) { return this->*k.fixed == 0 || this->*k.fixed == j.*k.of; });
}

std::vector<double> divisors(double n) {
  std::vector<double> r, above;
  for (double k = 1; k * k <= n; ++k)
    if (std::fmod(n, k) == 0) {
      r.push_back(k);
      if (k * k < n) above.push_back(n / k);
    }
  r.insert(r.end(), above.rbegin(), above.rend());
  return r;
}

Layout layout_of(const Network& n, const Job& j, const Device& d, const Fabric& f) {
  return {j, memory_of(n, j, d), step_of(n, j, d, f)};
}

std::vector<Layout> search_layouts(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                   double devices, const Freedom& free, size_t keep) {
  if (!(devices >= 1 && devices <= 1 << 17 && devices == std::floor(devices)))
    value_error("advise: the number of devices must be whole and from 1 to ", 1 << 17, ", got ", devices,
                ". Hint: check --devices.");
  if (!f.joins(d, devices)) return {};
  if (base.offload != Offload::kNone && devices > 1 && free.stage && free.pp <= 1) {
    // First the layouts that fleet can do: of states on the host in stage 2, of everything in stage 3.
    Job j = base;
    j.stage = base.offload == Offload::kAll ? 3 : 2;
    Freedom of_fleet = free;
    of_fleet.stage = false, of_fleet.pp = 1;
    auto found = search_layouts(n, j, d, f, devices, of_fleet, keep);
    if (!found.empty()) return found;
  }
  Search s{n, base, d, f, free, {}};
  const double most_mp = free.mp > 0                         ? free.mp
                         : n.transformer() || n.split_by > 1 ? (free.most_mp > 0 ? free.most_mp : d.per_node)
                                                             : 1;
  for (double mp : divisors(devices)) {
    if (mp > most_mp || !n.splits_by(mp)) continue;
    const double here = of_server(devices, mp, d);
    if (free.mp == 0 && devices > here && std::fmod(here, mp) != 0) continue;  // some would lie over servers
    for (double cp : contexts(n, base, devices / mp, free.cp))
      for (double pp : divisors(devices / mp / cp)) {
        if (pp > n.layers || (!base.training && pp > 1 && !n.transformer())) continue;
        const double rest = devices / mp / cp / pp;
        if (std::fmod(base.batch, rest) != 0) continue;
        Job j = base;
        j.mp = mp, j.pp = pp, j.cp = cp;
        for (double ep : expert_groups(n, here, mp, rest * cp, free.ep))
          for (double vpp : virtual_stages(n, base, pp, free.vpp))
            for (double stage = 0; stage <= 3; ++stage) {
              if (stage > 0 && (rest == 1 || !base.training || (stage > 1 && pp > 1))) break;
              if (!free.stage && stage != base.stage) continue;  // also where it leaves no layout
              for (double shards : sharing(free, rest, stage, std::floor(here / mp / cp))) {
                if (stage > 0 && shards == 1) continue;
                j.ep = ep, j.vpp = vpp, j.stage = stage, j.sharding = shards, j.dp = rest / shards;
                if (free.allows(j)) s.split(j);
              }
            }
      }
  }
  std::stable_sort(s.found.begin(), s.found.end(),
                   [&](const Layout& a, const Layout& b) { return rank(a, d) < rank(b, d); });
  if (s.found.size() > keep) s.found.resize(keep);
  return std::move(s.found);
}

}  // namespace yuloh::advise
