// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN: f32 and bf16, transposes and views through strides, no copies.
#pragma once
#include "cpu/matrix.h"

namespace yuloh::onednn {

bool product_fits(const MatrixProblem& m, std::string* why);
// Null: the library has no implementation. `fixed`: the right operand where it never changes; it is kept
// packed.
std::unique_ptr<Kernel> make_product(const MatrixProblem& m, FixedData* fixed = nullptr);
bool matmul_fits(const KernelRequest& r, std::string* why);
bool matmul_bias_fits(const KernelRequest& r, std::string* why);  // where the product itself is the library's
std::unique_ptr<Kernel> make_matmul(const KernelRequest& r);

}  // namespace yuloh::onednn
