// SPDX-License-Identifier: Apache-2.0
// Our own pooling kernels: channels-last, vectorised over channels, f32 and bf16. Candidates of the pooling
// rows; the rows' host loops stay the reference.
#pragma once
#include "plan/kernel.h"

namespace yuloh {

bool pool_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_pool(const KernelRequest& r);
bool moments_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_moments(const KernelRequest& r);
LayoutWish all_channels_last(const Call& c);  // every operand of rank >= 3

}  // namespace yuloh
