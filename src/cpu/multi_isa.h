// SPDX-License-Identifier: Apache-2.0
// One plain loop nest compiled for several instruction sets, picked at run time: write `fn_body` as an
// always-inline template over the element type, then YULOH_MULTI_ISA(fn, Args) makes `fn<E>(const Args&)`.
// For kernels that are bound by memory and need no intrinsics (cpu/pool.cpp, cpu/moments.cpp); hot ones use
// intrinsics (cpu/gemm_*.cpp).
#pragma once
#include "base/dtype.h"
#include "cpu/cpu_features.h"

#if defined(__x86_64__)
#define YULOH_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define YULOH_TARGET_AVX2 __attribute__((target("avx2,fma")))
#else
#define YULOH_TARGET_AVX512
#define YULOH_TARGET_AVX2
#endif
#define YULOH_INLINE inline __attribute__((always_inline))
#define YULOH_SIMD _Pragma("omp simd")

#define YULOH_MULTI_ISA(fn, Args)                       \
  template <class E>                                    \
  YULOH_TARGET_AVX512 void fn##_avx512(const Args& a) { \
    fn##_body<E>(a);                                    \
  }                                                     \
  template <class E>                                    \
  YULOH_TARGET_AVX2 void fn##_avx2(const Args& a) {     \
    fn##_body<E>(a);                                    \
  }                                                     \
  template <class E>                                    \
  void fn(const Args& a) {                              \
    switch (cpu_isa()) {                                \
      case Isa::kAvx512: return fn##_avx512<E>(a);      \
      case Isa::kAvx2: return fn##_avx2<E>(a);          \
      default: return fn##_body<E>(a);                  \
    }                                                   \
  }

namespace yuloh {

// Element access in f32, vectorisable.
struct SimdF32 {
  using T = float;
  static YULOH_INLINE float get(float v) { return v; }
  static YULOH_INLINE float put(float v) { return v; }
};
struct SimdBF16 {
  using T = uint16_t;
  static YULOH_INLINE float get(uint16_t v) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(v) << 16);
  }
  static YULOH_INLINE uint16_t put(float f) {  // as float_to_bf16, without a branch
    const uint32_t u = __builtin_bit_cast(uint32_t, f);
    const uint32_t r = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40 : r);
  }
};

}  // namespace yuloh
