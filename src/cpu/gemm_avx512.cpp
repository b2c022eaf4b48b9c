// SPDX-License-Identifier: Apache-2.0
// GEMM micro-kernels for AVX-512: 14 x 32, 28 accumulators of the 32 registers.
#include <algorithm>
#include <utility>

#include "cpu/gemm_kernels.h"
#include "cpu/intrinsics.h"

#if defined(__x86_64__)
YULOH_BEGIN_AVX512
namespace yuloh::gemm_detail {
namespace {
struct V {
  using R = __m512;
  static constexpr int n = 16;
  static __mmask16 part(int count) { return static_cast<__mmask16>((1u << count) - 1); }
  static R zero() { return _mm512_setzero_ps(); }
  static R load(const float* p) { return _mm512_loadu_ps(p); }
  static R load_part(const float* p, int count) { return _mm512_maskz_loadu_ps(part(count), p); }
  static R set1(float v) { return _mm512_set1_ps(v); }
  static R fma(R a, R b, R c) { return _mm512_fmadd_ps(a, b, c); }
  static R add(R a, R b) { return _mm512_add_ps(a, b); }
  static R max(R a, R b) { return _mm512_max_ps(a, b); }  // the second operand where one is NaN
  static void store(float* p, R v) { _mm512_storeu_ps(p, v); }
  static void store_part(float* p, R v, int count) { _mm512_mask_storeu_ps(p, part(count), v); }
  static float sum(R v) { return _mm512_reduce_add_ps(v); }
  static void transpose(const float* src, int64_t row, float* dst, int64_t out) {
    R r[16], t[16];
    for (int i = 0; i < 16; ++i) r[i] = load(src + i * row);
    for (int i = 0; i < 16; i += 2)
      t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    for (int i = 0; i < 16; i += 4)
      for (int j = 0; j < 2; ++j) {
        r[i + 2 * j] = _mm512_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
        r[i + 2 * j + 1] = _mm512_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
      }
    // r[4q + j]: column j of each 128-bit lane for rows 4q..4q+3; now the lanes are transposed.
    for (int j = 0; j < 4; ++j) {
      const R lo0 = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88),
              hi0 = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
      const R lo1 = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88),
              hi1 = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
      store(dst + j * out, _mm512_shuffle_f32x4(lo0, lo1, 0x88));
      store(dst + (4 + j) * out, _mm512_shuffle_f32x4(hi0, hi1, 0x88));
      store(dst + (8 + j) * out, _mm512_shuffle_f32x4(lo0, lo1, 0xdd));
      store(dst + (12 + j) * out, _mm512_shuffle_f32x4(hi0, hi1, 0xdd));
    }
  }
};
constexpr int kRows = 14;
#include "cpu/gemm_kernels.inl"
}  // namespace
const Kernels& kernels_avx512() {
  static const Kernels t = make_table(std::make_integer_sequence<int, kRows>{});
  return t;
}
}  // namespace yuloh::gemm_detail
YULOH_END_TARGET
#else
namespace yuloh::gemm_detail {
const Kernels& kernels_avx512() { return kernels_portable(); }
}  // namespace yuloh::gemm_detail
#endif
