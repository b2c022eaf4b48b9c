// SPDX-License-Identifier: Apache-2.0
// Accounts a recorded step as a system that runs op by op would hold it: no fusion, no planning, results
// stored as they come and freed after their last reader, which for what a gradient reads is a backward op.
#pragma once
#include "run/dry_run.h"

namespace yuloh::advise {

// Bytes of intermediate results, gradients and transient copies at the peak of one flush, beside parameters
// and state.
double eager_peak(const DryFlush& flush, bool training);

}  // namespace yuloh::advise
