// SPDX-License-Identifier: Apache-2.0
// Quantisation steps that the default domain's and com.microsoft's operators share (onnx_ops_quant.cpp).
#pragma once
#include "formats/onnx_ops.h"

namespace yuloh::formats {

// round(x / scale) + zero, limited to the range of the element type. `zero` may be null.
Value quantized(const Value& x, const Value& scale, const Value& zero, int type, bool saturate);
// Input `at` less its zero point, per tensor or along `axis`, in the type to compute in.
Value less_zero(const Import& i, size_t at, size_t zero_at, int64_t axis, DType work);
Value scale_like(const Value& v, int64_t rank,
                 int64_t axis);  // a scale per tensor or along `axis`, as float32

struct DynamicQuantized {
  Value y, scale, zero;  // uint8, from the range of the values
};
DynamicQuantized dynamic_quantized(const Value& x);

}  // namespace yuloh::formats
