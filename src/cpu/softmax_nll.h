// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy over rows of many classes (f32 or bf16 scores, int64 labels) and its gradient: the
// forward pass reads each row once from memory and stores two numbers, the backward pass reads it again and
// writes the gradient in the precision that is wanted. Neither probabilities nor widened scores are stored.
#pragma once
#include "plan/kernel.h"

namespace yuloh {

bool softmax_nll_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_softmax_nll(const KernelRequest& r);
std::unique_ptr<Kernel> make_softmax_nll_dx(const KernelRequest& r);

}  // namespace yuloh
