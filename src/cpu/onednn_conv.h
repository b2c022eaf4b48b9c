// SPDX-License-Identifier: Apache-2.0
// Convolution and its gradients by oneDNN: channels-last activations, weights in Paddle's plain layout. The
// library chooses its blocked weight layout; the reorder is a separate step in the kernel's workspace.
#pragma once
#include "plan/kernel.h"

namespace yuloh::onednn {

bool conv_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_conv(const KernelRequest& r);
LayoutWish conv_layouts(const Call& c);  // channels-last activations; weights as they come

}  // namespace yuloh::onednn
