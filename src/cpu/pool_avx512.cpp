// SPDX-License-Identifier: Apache-2.0
// Maximum pooling for AVX-512, f32 and bf16: 16 channels at once, or 8 where there are no more (a wide access
// to a few channels crosses a cache line nearly every time).
#include <algorithm>
#include <cstring>

#include "cpu/intrinsics.h"
#include "cpu/pool_kernels.h"

#if defined(__x86_64__)
YULOH_BEGIN_AVX512
namespace yuloh {
namespace {
namespace wide {
struct V {
  using F = __m512;
  using I = __m512i;
  using M = __mmask16;
  static constexpr int n = 16;
  static M part(int count) { return static_cast<M>((1u << count) - 1); }
  static F load(const float* p, M m) { return _mm512_maskz_loadu_ps(m, p); }
  static F load(const uint16_t* p, M m) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
  }
  static void store(float* p, F v, M m) { _mm512_mask_storeu_ps(p, m, v); }
  static void store(uint16_t* p, F v, M m) {  // exact: a value that was loaded, or zero
    _mm512_mask_cvtepi32_storeu_epi16(p, m, _mm512_srli_epi32(_mm512_castps_si512(v), 16));
  }
  static void store(int32_t* p, I v, M m) { _mm512_mask_storeu_epi32(p, m, v); }
  static I set1(int32_t v) { return _mm512_set1_epi32(v); }
  static M above(F v, F best) {
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(best, best, _CMP_ORD_Q), v, best, _CMP_NLE_UQ);
  }
  static M equal(I x, I y) { return _mm512_cmpeq_epi32_mask(x, y); }
  static F select(M m, F x, F y) { return _mm512_mask_blend_ps(m, y, x); }
  static I select(M m, I x, I y) { return _mm512_mask_blend_epi32(m, y, x); }
  static F keep(M m, F x) { return _mm512_maskz_mov_ps(m, x); }
};
#include "cpu/pool_kernels.inl"
}  // namespace wide
namespace narrow {
struct V {
  using F = __m256;
  using I = __m256i;
  using M = __mmask8;
  static constexpr int n = 8;
  static M part(int count) { return static_cast<M>((1u << count) - 1); }
  static F load(const float* p, M m) { return _mm256_maskz_loadu_ps(m, p); }
  static F load(const uint16_t* p, M m) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(m, p)), 16));
  }
  static void store(float* p, F v, M m) { _mm256_mask_storeu_ps(p, m, v); }
  static void store(uint16_t* p, F v, M m) {
    _mm256_mask_cvtepi32_storeu_epi16(p, m, _mm256_srli_epi32(_mm256_castps_si256(v), 16));
  }
  static void store(int32_t* p, I v, M m) { _mm256_mask_storeu_epi32(p, m, v); }
  static I set1(int32_t v) { return _mm256_set1_epi32(v); }
  static M above(F v, F best) {
    return _mm256_mask_cmp_ps_mask(_mm256_cmp_ps_mask(best, best, _CMP_ORD_Q), v, best, _CMP_NLE_UQ);
  }
  static M equal(I x, I y) { return _mm256_cmpeq_epi32_mask(x, y); }
  static F select(M m, F x, F y) { return _mm256_mask_blend_ps(m, y, x); }
  static I select(M m, I x, I y) { return _mm256_mask_blend_epi32(m, y, x); }
  static F keep(M m, F x) { return _mm256_maskz_mov_ps(m, x); }
};
#include "cpu/pool_kernels.inl"
}  // namespace narrow
}  // namespace
const MaxPoolKernels* max_pool_avx512(int64_t channels) {
  static const MaxPoolKernels many = wide::table<float, uint16_t>(), few = narrow::table<float, uint16_t>();
  return channels <= narrow::V::n ? &few : &many;
}
}  // namespace yuloh
YULOH_END_TARGET
#else
namespace yuloh {
const MaxPoolKernels* max_pool_avx512(int64_t) { return nullptr; }
}  // namespace yuloh
#endif
