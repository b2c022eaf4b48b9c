// SPDX-License-Identifier: Apache-2.0
// Crop, flip and resampling of the loader's images. The resampling is the scheme that Pillow documents and
// uses for 8-bit images: a separable filter stretched by the shrinking factor, weights rounded to 22-bit
// fractions, a horizontal and a vertical pass, each rounded to 8 bits. Integer sums have no order, so SIMD
// changes no bit.
#include "data/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/intrinsics.h"

namespace yuloh::data {
namespace {

constexpr int kBits = 22;  // of a weight's fraction: 8 bits of pixel and 2 of headroom stay below 2^32

double weight_of(Filter filter, double x) {
  x = std::fabs(x);
  if (filter == Filter::kBilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// For every output position: the first input position and `taps` weights, zero beyond those that count.
struct Weights {
  int taps = 0;
  std::vector<int> first, count, value;
  std::vector<int> start,
      wide;  // each weight four times, in groups of kGroup taps: what `across` multiplies with
};
constexpr int kGroup = 4;

void make_weights(int in, int out, Filter filter, Weights* w) {
  const double scale = static_cast<double>(in) / out, stretch = std::max(scale, 1.0), shrink = 1 / stretch;
  const double support = (filter == Filter::kBilinear ? 1.0 : 2.0) * stretch;
  w->taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  w->first.resize(out), w->count.resize(out), w->value.assign(static_cast<size_t>(out) * w->taps, 0);
  std::vector<double> k(w->taps);
  for (int o = 0; o < out; ++o) {
    const double centre = (o + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(centre - support + 0.5));
    const int count = std::min(in, static_cast<int>(centre + support + 0.5)) - first;
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += k[i] = weight_of(filter, (i + first - centre + 0.5) * shrink);
    for (int i = 0; i < count; ++i) {
      const double v = sum != 0 ? k[i] / sum : k[i];
      w->value[static_cast<size_t>(o) * w->taps + i] =
          static_cast<int>((v < 0 ? -0.5 : 0.5) + v * (1 << kBits));
    }
    w->first[o] = first, w->count[o] = count;
  }
}

int groups_of(const Weights& w) {
  return (*std::max_element(w.count.begin(), w.count.end()) + kGroup - 1) / kGroup;
}
void widen(int in, Weights* w) {
  const int groups = groups_of(*w), span = groups * kGroup, out = static_cast<int>(w->first.size());
  w->start.resize(out), w->wide.assign(static_cast<size_t>(out) * span * 4, 0);
  for (int o = 0; o < out; ++o) {
    w->start[o] =
        std::min(w->first[o], std::max(0, in - span));  // so that no group reaches far beyond the row
    int* k = w->wide.data() + (static_cast<size_t>(o) * span + w->first[o] - w->start[o]) * 4;
    for (int i = 0; i < w->count[o]; ++i)
      std::fill_n(k + i * 4, 4, w->value[static_cast<size_t>(o) * w->taps + i]);
  }
}

struct PassArgs {
  const Image* in;
  Image* out;
  const Weights* w;
};

YULOH_INLINE uint8_t rounded(int sum) {
  sum >>= kBits;
  return static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

// Across: out[o] = sum of in[first + i] * value[i] in every row, kGroup taps of four channels at once.
// Vectors read up to 12 bytes beyond a row's last pixel (the next row's, or the slack) and weigh them with 0.
// Intrinsics, because g++ 12 widens bytes one by one.
void across_plain(const PassArgs& a) {
  for (int y = 0; y < a.out->height; ++y)
    for (int o = 0; o < a.out->width; ++o) {
      const uint8_t* p = a.in->row(y) + a.w->first[o] * 4;
      const int* k = a.w->value.data() + static_cast<size_t>(o) * a.w->taps;
      int sum[4] = {1 << (kBits - 1), 1 << (kBits - 1), 1 << (kBits - 1), 1 << (kBits - 1)};
      for (int i = 0; i < a.w->count[o]; ++i)
        for (int c = 0; c < 4; ++c) sum[c] += p[i * 4 + c] * k[i];
      for (int c = 0; c < 4; ++c) a.out->row(y)[o * 4 + c] = rounded(sum[c]);
    }
}

#if defined(__x86_64__)
YULOH_TARGET_AVX2 YULOH_INLINE void put(__m128i sum, uint8_t* out) {
  sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(1 << (kBits - 1))), kBits);
  sum = _mm_packs_epi32(sum, sum);  // both packings clamp
  const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
  std::memcpy(out, &bytes, 4);
}

YULOH_TARGET_AVX512 void across_avx512(const PassArgs& a) {
  const int groups = groups_of(*a.w), width = a.out->width;
  for (int y = 0; y < a.out->height; ++y) {
    const uint8_t* in = a.in->row(y);
    uint8_t* out = a.out->row(y);
    const int* k = a.w->wide.data();
    for (int o = 0; o < width; ++o) {
      const uint8_t* p = in + a.w->start[o] * 4;
      __m512i sum = _mm512_setzero_si512();
      for (int g = 0; g < groups; ++g, k += 16) {
        const __m512i pixels =
            _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + g * 16)));
        sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(pixels, _mm512_loadu_si512(k)));
      }
      const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
      put(_mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)), out + o * 4);
    }
  }
}

YULOH_TARGET_AVX2 void across_avx2(const PassArgs& a) {
  const int groups = groups_of(*a.w), width = a.out->width;
  for (int y = 0; y < a.out->height; ++y) {
    const uint8_t* in = a.in->row(y);
    uint8_t* out = a.out->row(y);
    const int* k = a.w->wide.data();
    for (int o = 0; o < width; ++o) {
      const uint8_t* p = in + a.w->start[o] * 4;
      __m256i sum = _mm256_setzero_si256();
      for (int g = 0; g < 2 * groups; ++g, k += 8) {
        const __m256i pixels =
            _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + g * 8)));
        sum = _mm256_add_epi32(
            sum, _mm256_mullo_epi32(pixels, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(k))));
      }
      put(_mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)), out + o * 4);
    }
  }
}
#endif

void across(const PassArgs& a) {
#if defined(__x86_64__)
  if (cpu_isa() == Isa::kAvx512) return across_avx512(a);
  if (cpu_isa() == Isa::kAvx2) return across_avx2(a);
#endif
  across_plain(a);
}

template <class E>
YULOH_INLINE void down_body(
    const PassArgs& a) {  // every column likewise; a strip of columns keeps its sums in registers
  constexpr int kStrip = 64;
  const int bytes = a.out->width * 4;
  for (int o = 0; o < a.out->height; ++o) {
    const int first = a.w->first[o], count = a.w->count[o];
    const int* k = a.w->value.data() + static_cast<size_t>(o) * a.w->taps;
    uint8_t* out = a.out->row(o);
    int x = 0;
    for (; x + kStrip <= bytes; x += kStrip) {
      int sum[kStrip];
      YULOH_SIMD
      for (int j = 0; j < kStrip; ++j) sum[j] = 1 << (kBits - 1);
      for (int i = 0; i < count; ++i) {
        const uint8_t* p = a.in->row(first + i) + x;
        const int v = k[i];
        YULOH_SIMD
        for (int j = 0; j < kStrip; ++j) sum[j] += p[j] * v;
      }
      YULOH_SIMD
      for (int j = 0; j < kStrip; ++j) out[x + j] = rounded(sum[j]);
    }
    for (; x < bytes; ++x) {
      int sum = 1 << (kBits - 1);
      for (int i = 0; i < count; ++i) sum += a.in->row(first + i)[x] * k[i];
      out[x] = rounded(sum);
    }
  }
}
YULOH_MULTI_ISA(down, PassArgs)

}  // namespace

void crop(const Image& in, const Rect& r, Image* out) {
  out->reshape(r.width, r.height);
  const int x0 = std::clamp(-r.left, 0, r.width), x1 = std::clamp(in.width - r.left, x0, r.width);
  for (int y = 0; y < r.height; ++y) {
    uint8_t* to = out->row(y);
    const int from = y + r.top;
    if (from < 0 || from >= in.height || x0 == x1) {
      std::memset(to, 0, static_cast<size_t>(r.width) * 4);
      continue;
    }
    std::memset(to, 0, static_cast<size_t>(x0) * 4);
    std::memcpy(to + x0 * 4, in.row(from) + (r.left + x0) * 4, static_cast<size_t>(x1 - x0) * 4);
    std::memset(to + x1 * 4, 0, static_cast<size_t>(r.width - x1) * 4);
  }
}

void resize(const Image& in, int width, int height, Filter filter, bool down_first, Image* scratch,
            Image* out) {
  thread_local Weights weights;
  const bool wide = width != in.width, tall = height != in.height;
  if (!wide && !tall) return crop(in, {0, 0, height, width}, out);
  const Image* from = &in;
  for (const bool is_down : {down_first, !down_first}) {
    if (!(is_down ? tall : wide)) continue;
    Image* to = from == &in && wide && tall ? scratch : out;
    if (is_down) {
      make_weights(in.height, height, filter, &weights);
      to->reshape(from->width, height);
      down<SimdF32>({from, to, &weights});
    } else {
      make_weights(in.width, width, filter, &weights);
      widen(in.width, &weights);
      to->reshape(width, from->height);
      across({from, to, &weights});
    }
    from = to;
  }
}

void flip(Image* image, bool horizontal, bool vertical) {
  const size_t bytes = static_cast<size_t>(image->width) * 4;
  if (vertical)
    for (int y = 0; y < image->height / 2; ++y)
      std::swap_ranges(image->row(y), image->row(y) + bytes, image->row(image->height - 1 - y));
  if (!horizontal) return;
  for (int y = 0; y < image->height; ++y) {
    uint8_t* p = image->row(y);
    for (int a = 0, b = image->width - 1; a < b; ++a, --b)
      std::swap_ranges(p + a * 4, p + a * 4 + 4, p + b * 4);
  }
}

}  // namespace yuloh::data
