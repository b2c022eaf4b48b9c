// SPDX-License-Identifier: Apache-2.0
// A matmul request as kernels see it: batch x (m, k) times batch x (k, n) with strides, batch axes merged
// where the strides allow, and everything turned into one product where y is one matrix for all batches.
// Shared by the oneDNN and the own GEMM candidates.
#pragma once
#include "ops/matmul.h"
#include "plan/kernel.h"

namespace yuloh {

struct MatrixProblem {
  DType dtype;
  int64_t m, n, k;
  Shape batch;  // merged
  MatrixStrides x, y, z;
  bool f32_result = false;  // z is f32 whatever x and y are
  bool bias = false;        // a third operand, dense, of the dtype of x: added to every row
  int64_t batches() const { return numel(batch); }
  std::string key() const;  // all fields, for caches
  KernelCost cost() const;
};
MatrixProblem matrix_problem(const KernelRequest& r);

}  // namespace yuloh
