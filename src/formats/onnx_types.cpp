// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx_types.h"

#include <cmath>
#include <iterator>
#include <limits>

namespace yuloh::formats {
namespace {
constexpr OnnxTypeInfo kTypes[] = {
    {"undefined", DType::kSequence, 0, false},
    {"float32", DType::kFloat32, 32, false},
    {"uint8", DType::kUInt8, 8, false},
    {"int8", DType::kInt8, 8, false},
    {"uint16", DType::kInt32, 16, true},
    {"int16", DType::kInt16, 16, false},
    {"int32", DType::kInt32, 32, false},
    {"int64", DType::kInt64, 64, false},
    {"string", DType::kString, 64, false},
    {"bool", DType::kBool, 8, false},
    {"float16", DType::kFloat16, 16, false},
    {"float64", DType::kFloat64, 64, false},
    {"uint32", DType::kInt64, 32, true},
    {"uint64", DType::kInt64, 64, true},
    {"complex64", DType::kComplex64, 64, false},
    {"complex128", DType::kComplex128, 128, false},
    {"bfloat16", DType::kBFloat16, 16, false},
    {"float8e4m3fn", DType::kFloat32, 8, true},
    {"float8e4m3fnuz", DType::kFloat32, 8, true},
    {"float8e5m2", DType::kFloat32, 8, true},
    {"float8e5m2fnuz", DType::kFloat32, 8, true},
    {"uint4", DType::kUInt8, 4, true},
    {"int4", DType::kInt8, 4, true},
    {"float4e2m1", DType::kFloat32, 4, true},
    {"float8e8m0", DType::kFloat32, 8, true},
    {"uint2", DType::kUInt8, 2, true},
    {"int2", DType::kInt8, 2, true},
};
constexpr MinifloatFormat kE4M3{4, 3, 7, 448, false, true, true}, kE4M3Fnuz{4, 3, 8, 240, false, true, false},
    kE5M2{5, 2, 15, 57344, true, true, true}, kE5M2Fnuz{5, 2, 16, 57344, false, true, false},
    kE2M1{2, 1, 1, 6, false, false, true};
}  // namespace

const OnnxTypeInfo* onnx_type_info(int64_t type) {
  return type >= 1 && type < static_cast<int64_t>(std::size(kTypes)) ? &kTypes[type] : nullptr;
}
int onnx_type_of(DType t, int stored_as) {
  if (stored_as) return stored_as;
  for (int i = 1; i < static_cast<int>(std::size(kTypes)); ++i)
    if (kTypes[i].dtype == t && !kTypes[i].wider) return i;
  return 0;
}

const MinifloatFormat* minifloat_format(int type) {
  switch (type) {
    case kOnnxFloat8E4M3: return &kE4M3;
    case kOnnxFloat8E4M3Fnuz: return &kE4M3Fnuz;
    case kOnnxFloat8E5M2: return &kE5M2;
    case kOnnxFloat8E5M2Fnuz: return &kE5M2Fnuz;
    case kOnnxFloat4E2M1: return &kE2M1;
    default: return nullptr;
  }
}

float minifloat_to_float(int type, unsigned bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (type == kOnnxFloat8E8M0) return bits == 255 ? kNan : std::ldexp(1.0f, static_cast<int>(bits) - 127);
  const MinifloatFormat& f = *minifloat_format(type);
  const int width = f.exponent_bits + f.mantissa_bits;
  const float sign = bits >> width & 1 ? -1.0f : 1.0f;
  const int exponent = static_cast<int>(bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  const int mantissa = static_cast<int>(bits & ((1u << f.mantissa_bits) - 1));
  if (f.nan && !f.signed_zero && bits == 1u << width) return kNan;
  if (f.infinity && exponent == (1 << f.exponent_bits) - 1)
    return mantissa ? kNan : sign * std::numeric_limits<float>::infinity();
  const float v = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits)
                                : std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)),
                                             exponent - f.bias - f.mantissa_bits);
  return v > f.largest ? kNan : sign * v;  // e4m3fn: all ones is NaN
}

}  // namespace yuloh::formats
