// SPDX-License-Identifier: Apache-2.0
// Maximum pooling for AVX2: 8 channels at once, f32.
#include <algorithm>
#include <cstring>

#include "cpu/intrinsics.h"
#include "cpu/pool_kernels.h"

#if defined(__x86_64__)
YULOH_BEGIN_AVX2
namespace yuloh {
namespace {
struct V {
  using F = __m256;
  using I = __m256i;
  using M = __m256i;
  static constexpr int n = 8;
  static M part(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F load(const float* p, M m) { return _mm256_maskload_ps(p, m); }
  static void store(float* p, F v, M m) { _mm256_maskstore_ps(p, m, v); }
  static void store(int32_t* p, I v, M m) { _mm256_maskstore_epi32(p, m, v); }
  static I set1(int32_t v) { return _mm256_set1_epi32(v); }
  static M above(F v, F best) {
    return _mm256_castps_si256(
        _mm256_and_ps(_mm256_cmp_ps(best, best, _CMP_ORD_Q), _mm256_cmp_ps(v, best, _CMP_NLE_UQ)));
  }
  static M equal(I x, I y) { return _mm256_cmpeq_epi32(x, y); }
  static F select(M m, F x, F y) { return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(m)); }
  static I select(M m, I x, I y) { return _mm256_blendv_epi8(y, x, m); }
  static F keep(M m, F x) { return _mm256_and_ps(_mm256_castsi256_ps(m), x); }
};
#include "cpu/pool_kernels.inl"
}  // namespace
const MaxPoolKernels* max_pool_avx2() {
  static const MaxPoolKernels k = table<float>();
  return &k;
}
}  // namespace yuloh
YULOH_END_TARGET
#else
namespace yuloh {
const MaxPoolKernels* max_pool_avx2() { return nullptr; }
}  // namespace yuloh
#endif
