// SPDX-License-Identifier: Apache-2.0
// Normalisation rows: what norm.cpp (composites, gradients) and norm_rows.cpp (their elementwise parts)
// share.
#pragma once
#include "ops/op.h"

namespace yuloh {

// Statistics of half-precision tensors are kept in float32.
DType stat_dtype(DType t);

}  // namespace yuloh
