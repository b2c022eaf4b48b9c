// SPDX-License-Identifier: Apache-2.0
// ONNX's element types and how the IR holds them. Types without a counterpart are held in the next wider one
// that has all their values (uint16 as int32, float8 as float32, uint4 as uint8); `stored_as` remembers what
// they are. uint64 shares int64's bits: values from 2^63 on read as negative.
#pragma once
#include "base/dtype.h"

namespace yuloh::formats {

enum OnnxType : int {
  kOnnxFloat = 1,
  kOnnxUInt8,
  kOnnxInt8,
  kOnnxUInt16,
  kOnnxInt16,
  kOnnxInt32,
  kOnnxInt64,
  kOnnxString,
  kOnnxBool,
  kOnnxFloat16,
  kOnnxDouble,
  kOnnxUInt32,
  kOnnxUInt64,
  kOnnxComplex64,
  kOnnxComplex128,
  kOnnxBFloat16,
  kOnnxFloat8E4M3,
  kOnnxFloat8E4M3Fnuz,
  kOnnxFloat8E5M2,
  kOnnxFloat8E5M2Fnuz,
  kOnnxUInt4,
  kOnnxInt4,
  kOnnxFloat4E2M1,
  kOnnxFloat8E8M0,
  kOnnxUInt2,
  kOnnxInt2,
};
struct OnnxTypeInfo {
  const char* name;
  DType dtype;  // as held
  int bits;     // in the file
  bool wider;   // held wider than stored
};
const OnnxTypeInfo* onnx_type_info(int64_t type);  // null: no such type
int onnx_type_of(DType t, int stored_as);          // the element type of a value

// An 8- or 4-bit float's bits as a number, and the nearest such number to x (ties to even). `saturate`: what
// is too large becomes the largest finite value, else the type's infinity or NaN.
float minifloat_to_float(int type, unsigned bits);
struct MinifloatFormat {
  int exponent_bits, mantissa_bits, bias;
  double largest;
  bool infinity, nan, signed_zero;
};
const MinifloatFormat* minifloat_format(int type);  // null: not one (float8e8m0 neither)

}  // namespace yuloh::formats
