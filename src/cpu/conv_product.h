// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products on the plain weight, before the library's convolution in the lists: the
// library reorders the weight at every call, which at small spatial extents costs more than the arithmetic.
// conv1x1: 1x1 kernels; strided ones gather their rows first.
// conv_dense: where most taps meet only padding (3x3 on 2x2), the whole spatial plane becomes one matrix row
// and the weight is spread into a (positions x channels) matrix; then no padding is multiplied.
// conv_rows: what the taps of an output position read becomes one matrix row, where the library's kernels are
// slow on small planes (strided ones, bf16 weight gradients).
#pragma once
#include "plan/kernel.h"

namespace yuloh {

// Which of the three convolution rows a request is for.
enum class Role { kForward, kGradInput, kGradWeight };
inline Role role_of(const Call& c) {
  return c.name() == "conv"              ? Role::kForward
         : c.name() == "conv_grad_input" ? Role::kGradInput
                                         : Role::kGradWeight;
}

bool conv1x1_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_conv1x1(const KernelRequest& r);
bool conv_dense_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_conv_dense(const KernelRequest& r);
bool conv_rows_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_conv_rows(const KernelRequest& r);
// Input gradient where there are few input channels (conv_narrow.cpp).
bool conv_narrow_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_conv_narrow(const KernelRequest& r);
// Weight gradient of depthwise convolutions, where the library has no kernel of its own for them.
bool depthwise_grad_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_depthwise_grad(const KernelRequest& r);

}  // namespace yuloh
