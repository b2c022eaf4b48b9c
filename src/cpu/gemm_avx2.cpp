// SPDX-License-Identifier: Apache-2.0
// GEMM micro-kernels for AVX2 with FMA: 6 x 16, 12 accumulators of the 16 registers.
#include <algorithm>
#include <utility>

#include "cpu/gemm_kernels.h"
#include "cpu/intrinsics.h"

#if defined(__x86_64__)
YULOH_BEGIN_AVX2
namespace yuloh::gemm_detail {
namespace {
struct V {
  using R = __m256;
  static constexpr int n = 8;
  static __m256i part(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static R zero() { return _mm256_setzero_ps(); }
  static R load(const float* p) { return _mm256_loadu_ps(p); }
  static R load_part(const float* p, int count) { return _mm256_maskload_ps(p, part(count)); }
  static R set1(float v) { return _mm256_set1_ps(v); }
  static R fma(R a, R b, R c) { return _mm256_fmadd_ps(a, b, c); }
  static R add(R a, R b) { return _mm256_add_ps(a, b); }
  static R max(R a, R b) { return _mm256_max_ps(a, b); }  // the second operand where one is NaN
  static void store(float* p, R v) { _mm256_storeu_ps(p, v); }
  static void store_part(float* p, R v, int count) { _mm256_maskstore_ps(p, part(count), v); }
  static float sum(R v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
  }
  static void transpose(const float* src, int64_t row, float* dst, int64_t out) {
    R r[8], t[8];
    for (int i = 0; i < 8; ++i) r[i] = load(src + i * row);
    for (int i = 0; i < 8; i += 2)
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    for (int i = 0; i < 8; i += 4)
      for (int j = 0; j < 2; ++j) {
        r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
        r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
      }
    for (int j = 0; j < 4; ++j) {
      store(dst + j * out, _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
      store(dst + (4 + j) * out, _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
    }
  }
};
constexpr int kRows = 6;
#include "cpu/gemm_kernels.inl"
}  // namespace
const Kernels& kernels_avx2() {
  static const Kernels t = make_table(std::make_integer_sequence<int, kRows>{});
  return t;
}
}  // namespace yuloh::gemm_detail
YULOH_END_TARGET
#else
namespace yuloh::gemm_detail {
const Kernels& kernels_avx2() { return kernels_portable(); }
}  // namespace yuloh::gemm_detail
#endif
