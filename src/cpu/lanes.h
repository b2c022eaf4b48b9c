// SPDX-License-Identifier: Apache-2.0
// Lanes: 16 floats that stay in registers, for loop nests whose sums must not go through memory. Vector
// extensions of the compiler, so that one body serves every instruction set (multi_isa.h); elements are
// loaded from f32 or bf16.
#pragma once
#include <cstring>

#include "cpu/multi_isa.h"

namespace yuloh {

constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
typedef uint32_t LaneBits __attribute__((vector_size(64)));
typedef uint16_t HalfLanes __attribute__((vector_size(32)));

// By reference, and always inlined: values of this size have no calling convention without AVX-512.
YULOH_INLINE void load_lanes(const float* p, Lanes& v) { std::memcpy(&v, p, sizeof v); }
YULOH_INLINE void load_lanes(const uint16_t* p, Lanes& v) {
  HalfLanes h;
  std::memcpy(&h, p, sizeof h);
  const LaneBits u = __builtin_convertvector(h, LaneBits) << 16;
  std::memcpy(&v, &u, sizeof v);
}
YULOH_INLINE void store_lanes(float* p, const Lanes& v) { std::memcpy(p, &v, sizeof v); }
YULOH_INLINE void store_lanes(uint16_t* p, const Lanes& v) {  // to nearest, even at ties, as float_to_bf16
  LaneBits u;
  std::memcpy(&u, &v, sizeof u);
  const LaneBits near = (u + 0x7fff + ((u >> 16) & 1)) >> 16, nan = (u >> 16) | 0x40;
  const LaneBits is_nan = (LaneBits)((u & 0x7fffffff) > 0x7f800000);
  const HalfLanes h = __builtin_convertvector((nan & is_nan) | (near & ~is_nan), HalfLanes);
  std::memcpy(p, &h, sizeof h);
}

}  // namespace yuloh
