// SPDX-License-Identifier: Apache-2.0
// Shapes of a matrix product with broadcast batches, 1-D operands and transposes (Paddle's rules), resolved
// once for inference, gradient, reference loop and library kernels: whatever the operands look like, a kernel
// sees batch x (m, k) times batch x (k, n) with strides.
#pragma once
#include "ops/op.h"

namespace yuloh {

struct MatmulShape {
  Shape batch;  // broadcast batch extents
  int64_t m = 1, n = 1, k = 1;
  bool x_vector = false, y_vector = false;        // 1-D operands: their unit axis is absent from the result
  bool transpose_x = false, transpose_y = false;  // false for vectors
};
MatmulShape matmul_shape(const Call& c);  // throws kValue

struct MatrixStrides {  // elements; batch has one entry per broadcast batch axis, 0 where the operand is
                        // broadcast
  Ints batch;
  int64_t row, col;
};
// Strides of operand `which` (0: x as (m, k), 1: y as (k, n), 2: the result as (m, n)).
MatrixStrides matmul_strides(const MatmulShape& s, int which, const Shape& shape, const Ints& strides);

}  // namespace yuloh
