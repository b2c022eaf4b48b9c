// SPDX-License-Identifier: Apache-2.0
// Attention of one head after the other in f32, with f32 or bf16 operands: scores of a block of queries live
// in L1 and L2 only, keys that no query of a block may see are not multiplied, and the gradient computes the
// weights again. Operands are read with whatever strides they have (views of one joint projection). Heads are
// spread over the threads; the cut depends on shapes only.
#pragma once
#include "plan/kernel.h"

namespace yuloh {

bool attention_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_attention(const KernelRequest& r);
std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& r);
LayoutWish any_layout(const Call& c);  // takes what comes, results by rows

}  // namespace yuloh
