// SPDX-License-Identifier: Apache-2.0
// GEMM micro-kernels in plain C++: 4 x 8, what any compiler turns into the baseline's vectors.
#include <algorithm>
#include <utility>

#include "cpu/gemm_kernels.h"

namespace yuloh::gemm_detail {
namespace {
struct V {
  struct R {
    float v[4];
  };
  static constexpr int n = 4;
  template <class F>
  static R each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  static R zero() { return {}; }
  static R load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  static R load_part(const float* p, int count) {
    return each([&](int i) { return i < count ? p[i] : 0.0f; });
  }
  static R set1(float s) {
    return each([&](int) { return s; });
  }
  static R fma(R a, R b, R c) {
    return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  static R add(R a, R b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  static R max(R a, R b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static void store(float* p, R r) { store_part(p, r, n); }
  static void store_part(float* p, R r, int count) {
    for (int i = 0; i < count; ++i) p[i] = r.v[i];
  }
  static float sum(R r) { return (r.v[0] + r.v[2]) + (r.v[1] + r.v[3]); }
  static void transpose(const float* src, int64_t row, float* dst, int64_t out) {
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) dst[j * out + i] = src[i * row + j];
  }
};
constexpr int kRows = 4;
#include "cpu/gemm_kernels.inl"
}  // namespace
const Kernels& kernels_portable() {
  static const Kernels t = make_table(std::make_integer_sequence<int, kRows>{});
  return t;
}
}  // namespace yuloh::gemm_detail
