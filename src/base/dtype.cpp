// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace yuloh {
namespace {
struct Row {
  std::string_view name;
  int bits;
  bool kernels;
};
// clang-format off
constexpr Row kRows[kNumDTypes] = {
    {"bool", 8, true}, {"uint8", 8, true}, {"int8", 8, true}, {"int16", 16, true}, {"int32", 32, true},
    {"int64", 64, true}, {"float16", 16, true}, {"bfloat16", 16, true}, {"float32", 32, true},
    {"float64", 64, true}, {"complex64", 64, false}, {"complex128", 128, false}, {"float8_e4m3fn", 8, false},
    {"float8_e5m2", 8, false}, {"int4", 4, false}, {"pstring", 64, false}, {"sequence", 64, false},
};
// clang-format on
template <class T>
T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void write(void* p, T v) {
  std::memcpy(p, &v, sizeof v);
}
int64_t saturating_int(double v) {
  if (std::isnan(v)) return INT64_MIN;
  if (v >= 9.223372036854775807e18) return INT64_MAX;
  if (v <= -9.223372036854775808e18) return INT64_MIN;
  return static_cast<int64_t>(v);
}
}  // namespace

std::string_view dtype_name(DType t) { return kRows[static_cast<int>(t)].name; }
int dtype_bits(DType t) { return kRows[static_cast<int>(t)].bits; }
bool dtype_has_kernels(DType t) { return kRows[static_cast<int>(t)].kernels; }

bool dtype_from_name(std::string_view s, DType* t) {
  if (const auto dot = s.rfind('.'); dot != s.npos) s = s.substr(dot + 1);
  for (int i = 0; i < kNumDTypes; ++i)
    if (kRows[i].name == s) return *t = static_cast<DType>(i), true;
  if (s == "float") return *t = DType::kFloat32, true;
  if (s == "double") return *t = DType::kFloat64, true;
  if (s == "int") return *t = DType::kInt64, true;
  if (s == "half") return *t = DType::kFloat16, true;
  return false;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);  // a is the "smaller" enum value from here on
  if (is_complex(b)) return a == DType::kFloat64 || b == DType::kComplex128 ? DType::kComplex128 : b;
  if (is_float(b)) {
    if (!is_float(a)) return b;
    if (a == DType::kFloat16 && b == DType::kBFloat16) return DType::kFloat32;
    return b;
  }
  if (a == DType::kBool) return b;
  if (a == DType::kUInt8) return b == DType::kInt8 ? DType::kInt16 : b;
  return b;
}

#ifdef __FLT16_MAX__
float half_to_float(uint16_t h) {
  _Float16 v;
  std::memcpy(&v, &h, 2);
  return static_cast<float>(v);
}
uint16_t float_to_half(float f) {
  const _Float16 v = static_cast<_Float16>(f);
  uint16_t h;
  std::memcpy(&h, &v, 2);
  return h;
}
#else  // clang 14 on x86 (fuzz targets)
float half_to_float(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const float v = exponent == 31 ? (mantissa ? NAN : INFINITY)
                                 : std::ldexp(static_cast<float>(exponent ? mantissa + 1024 : mantissa),
                                              (exponent ? exponent : 1) - 25);
  return h & 0x8000 ? -v : v;
}
uint16_t float_to_half(float f) {
  const auto sign = static_cast<uint16_t>(std::signbit(f) ? 0x8000 : 0);
  if (std::isnan(f)) return sign | 0x7e00;
  const float a = std::fabs(f);
  if (a >= 65520.0f) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(a, &exponent);
  exponent =
      std::max(exponent - 1, -14);  // of the unit digit; the grid below is exact, nearbyint rounds to even
  const int q = static_cast<int>(std::nearbyint(std::ldexp(a, 10 - exponent)));
  return static_cast<uint16_t>(sign | (q < 1024 ? q : ((exponent + 15) << 10) + (q - 1024)));
}
#endif

double load_double(const void* p, DType t) {
  switch (t) {
    case DType::kFloat16: return half_to_float(read<uint16_t>(p));
    case DType::kBFloat16: return bf16_to_float(read<uint16_t>(p));
    case DType::kFloat32: return read<float>(p);
    case DType::kFloat64: return read<double>(p);
    default: return static_cast<double>(load_int(p, t));
  }
}
int64_t load_int(const void* p, DType t) {
  switch (t) {
    case DType::kBool: return read<uint8_t>(p) != 0;
    case DType::kUInt8: return read<uint8_t>(p);
    case DType::kInt8: return read<int8_t>(p);
    case DType::kInt16: return read<int16_t>(p);
    case DType::kInt32: return read<int32_t>(p);
    case DType::kInt64: return read<int64_t>(p);
    default: return saturating_int(load_double(p, t));
  }
}
void store_double(void* p, DType t, double v) {
  switch (t) {
    case DType::kFloat16: return write(p, float_to_half(static_cast<float>(v)));
    case DType::kBFloat16: return write(p, float_to_bf16(static_cast<float>(v)));
    case DType::kFloat32: return write(p, static_cast<float>(v));
    case DType::kFloat64: return write(p, v);
    case DType::kBool: return write(p, static_cast<uint8_t>(v != 0));
    default: return store_int(p, t, saturating_int(v));
  }
}
void store_int(void* p, DType t, int64_t v) {
  switch (t) {
    case DType::kBool: return write(p, static_cast<uint8_t>(v != 0));
    case DType::kUInt8: return write(p, static_cast<uint8_t>(v));
    case DType::kInt8: return write(p, static_cast<int8_t>(v));
    case DType::kInt16: return write(p, static_cast<int16_t>(v));
    case DType::kInt32: return write(p, static_cast<int32_t>(v));
    case DType::kInt64: return write(p, v);
    default: return store_double(p, t, static_cast<double>(v));
  }
}

}  // namespace yuloh
