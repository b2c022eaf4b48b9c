// SPDX-License-Identifier: Apache-2.0
// How to split a job over devices, and what to change so that it fits: every combination is estimated, none
// is guessed.
#pragma once
#include <string>
#include <vector>

#include "advise/step.h"

namespace yuloh::advise {

struct Layout {
  Job job;
  Memory memory;
  StepTime step;
};

// What the search may change besides dp, mp, pp, sharding and the micro-batch.
struct Freedom {
  bool recompute = true;
  bool stage = true;
  bool micro = true;
  double most_mp = 0;                                                    // 0: the devices of one server
  double dp = 0, mp = 0, pp = 0, sharding = 0, cp = 0, ep = 0, vpp = 0;  // fixed degrees; 0: free

  bool allows(const Job& j) const {
    const auto same = [](double fixed, double got) { return fixed == 0 || fixed == got; };
    return same(dp, j.dp) && same(mp, j.mp) && same(pp, j.pp) && same(sharding, j.sharding) &&
           same(cp, j.cp) && same(ep, j.ep) && same(vpp, j.vpp);
  }
};

std::vector<double> divisors(double n);  // of a whole number, ascending

Layout layout_of(const Network& n, const Job& j, const Device& d, const Fabric& f);

// The `keep` fastest splits over `devices` whose point estimate fits, each (dp, mp, pp, sharding, stage) once
// with its best micro-batch and recompute. Empty: none fits. The batch of `base` is the global one and stays.
std::vector<Layout> search_layouts(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                   double devices, const Freedom& free, size_t keep);

struct Change {
  std::string what;    // accumulate, batch, precision, flash, recompute, offload, optimizer, lora, qlora,
                       // weight_bits, cache_bits, sharding, tensor, pipeline, experts_over, context
  std::string detail;  // "4", "bf16", "12 of 32 layers", "stage 2 over 8"
  Layout after;
  double saved = 0;                   // bytes of the fullest device
  double time_factor = 1;             // seconds of one sample on one device, after / before
  bool fits = false, surely = false;  // the estimate; even its high end
};

// Single changes to `base`, those first that surely make it fit, then those whose estimate does (least time
// added first), then by bytes saved.
std::vector<Change> changes(const Network& n, const Job& base, const Device& d, const Fabric& f);
// A shortest list of changes on the same devices that together make it fit; empty when none does (or when it
// fits).
std::vector<Change> changes_to_fit(const Network& n, const Job& base, const Device& d, const Fabric& f);

}  // namespace yuloh::advise
