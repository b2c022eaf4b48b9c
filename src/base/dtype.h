// SPDX-License-Identifier: Apache-2.0
// Element types: what a tensor's bytes mean. The lowest room of the house; every other header may include it.
// The enum holds all types the IR can name (fp8, int4, complex, string, sequence included); kernels exist for
// the ones `dtype_has_kernels` accepts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace yuloh {

enum class DType : uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt4,
  kString,
  kSequence,
};
inline constexpr int kNumDTypes = 17;

std::string_view dtype_name(DType t);                // "float32"
bool dtype_from_name(std::string_view s, DType* t);  // accepts "float32", "paddle.float32"
int dtype_bits(DType t);
inline size_t dtype_size(DType t) { return static_cast<size_t>(dtype_bits(t) + 7) / 8; }
inline bool is_integer(DType t) { return t >= DType::kUInt8 && t <= DType::kInt64; }
inline bool is_integral(DType t) { return t <= DType::kInt64; }  // bool counts
inline bool is_float(DType t) {
  return (t >= DType::kFloat16 && t <= DType::kFloat64) || t == DType::kFloat8E4M3 || t == DType::kFloat8E5M2;
}
inline bool is_half(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }
inline bool is_complex(DType t) { return t == DType::kComplex64 || t == DType::kComplex128; }
bool dtype_has_kernels(DType t);
// The published promotion table: symmetric, never truncates (docs/semantics.md).
DType promote(DType a, DType b);

// Scalar conversions between storage formats (round to nearest even).
float half_to_float(uint16_t h);
uint16_t float_to_half(float f);
inline float bf16_to_float(uint16_t h) {
  union {
    uint32_t u;
    float f;
  } v{static_cast<uint32_t>(h) << 16};
  return v.f;
}
inline uint16_t float_to_bf16(float f) {
  union {
    float f;
    uint32_t u;
  } v{f};
  if ((v.u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((v.u >> 16) | 0x40);
  return static_cast<uint16_t>((v.u + 0x7fffu + ((v.u >> 16) & 1)) >> 16);
}
// Reads/writes one element as double / int64 (host-side helpers for scalars, printing and reference kernels).
double load_double(const void* p, DType t);
int64_t load_int(const void* p, DType t);
void store_double(void* p, DType t, double v);
void store_int(void* p, DType t, int64_t v);

}  // namespace yuloh
