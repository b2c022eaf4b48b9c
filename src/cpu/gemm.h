// SPDX-License-Identifier: Apache-2.0
// Our own f32 matrix product with fused epilogue (bias, residual add, relu). Micro-kernels for AVX-512, AVX2
// and plain C++ are picked at run time; operands may have any strides; work is cut by shape only, so results
// do not depend on the number of threads. Stands beside oneDNN in the matmul list and is chosen where it is
// faster (docs/design.md).
#pragma once
#include "cpu/matrix.h"

namespace yuloh {

struct GemmEpilogue {
  const float* bias = nullptr;  // one value per column
  const float* add = nullptr;   // a matrix of the result's shape; rows add_stride apart
  int64_t add_stride = 0;
  bool relu = false;
};

// z = epilogue(x y) for one matrix: x (m, k), y (k, n), z (m, n) with z.col == 1; strides in elements.
struct GemmProblem {
  int64_t m, n, k;
  const float *x, *y;
  float* z;
  int64_t x_row, x_col, y_row, y_col, z_row;
  GemmEpilogue epilogue;
};
void gemm(const GemmProblem& p);  // parallel over tiles of z

bool own_product_fits(const MatrixProblem& p, std::string* why);
std::unique_ptr<Kernel> make_own_product(const MatrixProblem& p);
// Measured rule: our kernel beats the library's on this problem.
bool own_product_is_faster(const MatrixProblem& p);

bool gemm_fits(const KernelRequest& r, std::string* why);         // anything it can do (second place)
bool gemm_faster_fits(const KernelRequest& r, std::string* why);  // only where it is faster (first place)
std::unique_ptr<Kernel> make_gemm(const KernelRequest& r);

}  // namespace yuloh
