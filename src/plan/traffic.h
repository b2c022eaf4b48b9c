// SPDX-License-Identifier: Apache-2.0
// Which of a plan's memory traffic goes past the caches. A kernel's arithmetic and bytes (KernelCost) are its
// own affair; where those bytes lie depends on what ran before it, which only the whole plan knows.
#pragma once
#include <vector>

#include "plan/plan.h"

namespace yuloh {

// Per step the share (0 to 1) of the bytes of its arguments that were last touched more than `cache` bytes of
// traffic ago, in a plan that runs again and again. `slots`: Step::slots of every step, in order.
std::vector<double> far_shares(const std::vector<const std::vector<Slot>*>& slots, double cache);
std::vector<double> far_shares(const Plan& plan, double cache);

}  // namespace yuloh
