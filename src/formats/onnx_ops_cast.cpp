// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: conversions between element types, those that the IR holds in a wider one included.
#include <cmath>

#include "formats/onnx_ops.h"

namespace yuloh::formats {

// Rounds to a grid whose step is a power of two that follows the magnitude: exact arithmetic in float32, ties
// to even.
Value to_minifloat(const Value& x, int type, bool saturate) {
  const Value v = to(x, DType::kFloat32), magnitude = abs(v);
  const MinifloatFormat& f = *minifloat_format(type);
  const Value size =
      minimum(magnitude, constant_like(4 * f.largest, magnitude));  // infinities keep out of the grid
  const double lowest = std::ldexp(1, 1 - f.bias);                  // smallest normal number
  // floor(log2) may be one off at powers of two; the grid of the smaller exponent holds the power, too.
  Value e = call("floor", {call("log2", {maximum(size, constant_like(lowest, size))})});
  Value step = call("pow", {constant_like(2, e), e - f.mantissa_bits});
  Value q = call("round", {size / step}) * step;
  const Value unit = constant_like(1, q), too_large = greater_than(q, constant_like(f.largest, q));
  const double nan = std::nan("");
  const Value infinite = equal(magnitude, constant_like(INFINITY, magnitude));
  Value beyond;
  if (saturate || type == kOnnxFloat4E2M1) {
    beyond = constant_like(f.largest, q);
    if (type != kOnnxFloat4E2M1 && !f.infinity) beyond = where(infinite, constant_like(f.largest, q), beyond);
  } else {
    beyond = constant_like(f.infinity ? INFINITY : nan, q);
  }
  q = where(too_large, beyond, q);
  if (f.infinity && saturate) q = where(infinite, constant_like(f.largest, q), q);
  const Value signed_q = where(call("signbit", {v}), -q, q);
  const Value result =
      f.signed_zero ? signed_q : where(equal(q, constant_like(0, q)), constant_like(0, q), signed_q);
  return where(call("isnan", {v}), type == kOnnxFloat4E2M1 ? unit * f.largest : unit * nan, result);
}

Value cast_to(const Value& v, int, int type, bool saturate) {
  const OnnxTypeInfo* info = onnx_type_info(type);
  if (!info || info->dtype == DType::kString || is_complex(info->dtype))
    fail(ErrorKind::kNotImplemented, "onnx: Cast to ", info ? info->name : "an unknown type",
         " is not supported.");
  if (type == kOnnxFloat8E8M0) fail(ErrorKind::kNotImplemented, "onnx: Cast to float8e8m0 is not supported.");
  if (!info->wider) return to(v, info->dtype);
  if (info->dtype == DType::kFloat32) return to_minifloat(v, type, saturate);
  return to(wrapped(to(v, info->bits == 64   ? DType::kInt64
                          : info->bits >= 16 ? info->dtype
                                             : DType::kInt32),
                    type),
            info->dtype);
}
void out_cast(Import& i, const Value& v, int type, bool saturate) {
  i.out(cast_to(v, i.stored_as(0), type, saturate));
  const OnnxTypeInfo* info = onnx_type_info(type);
  i.out_stored_as(0, info->wider ? type : 0);
}

namespace {
void bit_cast(Import& i) {
  const int type = static_cast<int>(i.integer("to", 0));
  const OnnxTypeInfo* info = onnx_type_info(type);
  const FileTensor t = i.host(0);
  if (!info || info->wider || t.stored_as || t.type.dtype == DType::kString ||
      info->dtype == DType::kString || dtype_bits(t.type.dtype) != info->bits)
    i.unsupported("only types of equal width that are held as they are");
  const TensorType type_out{info->dtype, t.type.shape};
  auto b = make_ref<Buffer>(*t.buffer);
  i.out(make_data(type_out, b));
  i.out_stored_as(0, 0);
}

const ImportTable table(Dialect::kOnnx, {
                                            {"Cast",
                                             [](Import& i) {
                                               out_cast(i, i.in(0), static_cast<int>(i.integer("to", 1)),
                                                        i.integer("saturate", 1));
                                             }},
                                            {"CastLike",
                                             [](Import& i) {
                                               out_cast(i, i.in(0),
                                                        onnx_type_of(i.in(1).dtype(), i.stored_as(1)),
                                                        i.integer("saturate", 1));
                                             }},
                                            {"BitCast", bit_cast},
                                        });
}  // namespace
}  // namespace yuloh::formats
