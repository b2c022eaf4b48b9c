// SPDX-License-Identifier: Apache-2.0
#include "cpu/peaks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "base/buffer.h"
#include "cpu/cpu_features.h"
#include "cpu/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace yuloh {
namespace {
constexpr int64_t kRounds = 200000;  // about half a millisecond
volatile float g_sink;               // keeps the results of the loops alive

// Best seconds of body() within a time limit, at least three tries.
template <class F>
double best_seconds(double limit, F body) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30, spent = 0;
  for (int i = 0; i < 3 || spent < limit; ++i) {
    const auto t0 = Clock::now();
    body();
    const double s = std::chrono::duration<double>(Clock::now() - t0).count();
    best = std::min(best, s), spent += s;
  }
  return best;
}

// A loop of `kChains` independent accumulators (different ones, else the compiler makes them one) hides the
// latency of any multiply-add unit so far.
constexpr int kChains = 12;  // as many as fit beside their operands into 16 registers
struct Loop {
  const char* name;
  double per_round;  // operations
  float (*run)();
};

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float fp32_avx2() {
  __m256 acc[kChains], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) acc[c] = _mm256_set1_ps(static_cast<float>(c));
  for (int64_t i = 0; i < kRounds; ++i) {
    asm volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) acc[c] = _mm256_fmadd_ps(acc[c], x, y);
  }
  float s = 0;
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) s += _mm256_cvtss_f32(acc[c]);
  return s;
}
__attribute__((target("avx512f"))) float fp32_avx512() {
  __m512 acc[kChains], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) acc[c] = _mm512_set1_ps(static_cast<float>(c));
  for (int64_t i = 0; i < kRounds; ++i) {
    asm volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) acc[c] = _mm512_fmadd_ps(acc[c], x, y);
  }
  float s = 0;
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) s += _mm512_cvtss_f32(acc[c]);
  return s;
}
__attribute__((target("avx512f,avx512bf16"))) float bf16_avx512() {
  __m512 acc[kChains], x = _mm512_set1_ps(1e-3f);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) acc[c] = _mm512_set1_ps(static_cast<float>(c));
  for (int64_t i = 0; i < kRounds; ++i) {
    asm volatile("" : "+v"(x));
    const __m512bh h = (__m512bh)x;
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) acc[c] = _mm512_dpbf16_ps(acc[c], h, h);
  }
  float s = 0;
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) s += _mm512_cvtss_f32(acc[c]);
  return s;
}
__attribute__((target("avx512f,avx512vnni"))) float int8_avx512() {
  __m512i acc[kChains], x = _mm512_set1_epi8(1);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) acc[c] = _mm512_set1_epi32(c);
  for (int64_t i = 0; i < kRounds; ++i) {
    asm volatile("" : "+v"(x));
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) acc[c] = _mm512_dpbusd_epi32(acc[c], x, x);
  }
  int s = 0;
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) s += _mm512_cvtsi512_si32(acc[c]);
  return static_cast<float>(s);
}

std::vector<Loop> loops() {
  std::vector<Loop> l;
  const bool wide = hardware_isa() == Isa::kAvx512;
  if (wide) l.push_back({"fp32", 2.0 * 16 * kChains, fp32_avx512});
  else if (hardware_isa() == Isa::kAvx2) l.push_back({"fp32", 2.0 * 8 * kChains, fp32_avx2});
  if (wide && cpu_has_avx512_bf16()) l.push_back({"bf16", 2.0 * 32 * kChains, bf16_avx512});
  if (wide && __builtin_cpu_supports("avx512vnni")) l.push_back({"int8", 2.0 * 64 * kChains, int8_avx512});
  return l;
}
#else
std::vector<Loop> loops() { return {}; }
#endif
}  // namespace

std::vector<Peak> machine_peaks(double seconds) {
  const int threads = num_threads();
  std::vector<Peak> peaks;
  for (const Loop& l : loops()) {
    const double s =
        best_seconds(seconds, [&] { parallel_for(threads, [&](int64_t) { g_sink = l.run(); }); });
    peaks.push_back({l.name, l.per_round * static_cast<double>(kRounds) * threads / s});
  }
  constexpr size_t kBytes = size_t{192} << 20;  // beyond the caches of any machine that this has run on
  const auto from = allocate_storage(kBytes), to = allocate_storage(kBytes);
  std::memset(from->data, 1, kBytes);
  std::memset(to->data, 1, kBytes);
  const size_t part = kBytes / static_cast<size_t>(threads) / 64 * 64;
  const auto place = [&](const auto& s, int64_t i) {
    return static_cast<char*>(s->data) + static_cast<size_t>(i) * part;
  };
  const double read = best_seconds(seconds, [&] {
    parallel_for(threads, [&](int64_t i) {
      const auto* p = reinterpret_cast<const uint64_t*>(place(from, i));
      uint64_t sum[16] = {};
      for (size_t k = 0; k + 16 <= part / 8; k += 16)
        for (size_t j = 0; j < 16; ++j) sum[j] |= p[k + j];
      uint64_t all = 0;
      for (uint64_t s : sum) all |= s;
      g_sink = static_cast<float>(all);
    });
  });
  const double copy = best_seconds(seconds, [&] {
    parallel_for(threads, [&](int64_t i) { std::memcpy(place(to, i), place(from, i), part); });
  });
  const double moved = static_cast<double>(part) * threads;
  peaks.push_back({"read", moved / read});
  peaks.push_back({"copy", 2 * moved / copy});
  return peaks;
}

}  // namespace yuloh
