// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a depthwise convolution, vectorised over channels: for the kernels where the library
// works group by group (anything but 3x3, and 3x3 on planes of at most 2x2), which is up to two hundred times
// slower. (Its forward and its input gradient run at the speed of the L3 cache: measured against the same
// design, kept.)
#include <algorithm>
#include <cstring>

#include "cpu/conv_product.h"
#include "cpu/lanes.h"
#include "cpu/parallel.h"
#include "ops/window.h"

namespace yuloh {
namespace {

constexpr int kBlock = 4;  // lanes of one channel block: independent sums that hide the latency
constexpr int64_t kBlockChannels = kBlock * kLanes;
constexpr int64_t kMaxTaps = 125;

struct Depthwise {
  Window3 w;
  bool bf16;
  int64_t batch, channels, taps;
  int64_t in_positions() const { return w.in[0] * w.in[1] * w.in[2]; }
  int64_t out_positions() const { return w.out[0] * w.out[1] * w.out[2]; }
};

struct WeightArgs {
  const Depthwise* d;
  const void *x, *g;
  float* sums;          // [taps][channels] of these images
  int64_t first, last;  // images
  int64_t channel, width;
};

template <int V, class T>
YULOH_INLINE void weight_block(const Depthwise& d, const T* x, const T* g, float* sums, int64_t pitch,
                               int64_t images) {
  const Window3& w = d.w;
  const int64_t x_image = d.in_positions() * d.channels, g_image = d.out_positions() * d.channels;
  for (int64_t t = 0; t < d.taps; ++t) std::memset(sums + t * pitch, 0, sizeof(float) * V * kLanes);
  // Small planes: several images share one trip of a sum between memory and registers.
  const int64_t group = std::max<int64_t>(1, 32 / d.out_positions());
  for (int64_t first = 0; first < images; first += group, x += group * x_image, g += group * g_image) {
    const int64_t here = std::min(group, images - first);
    for (int64_t o0 = 0; o0 < w.out[0]; ++o0)
      for (int64_t o1 = 0; o1 < w.out[1]; ++o1)
        for (int64_t t = 0; t < d.taps; ++t) {
          const int64_t k2 = t % w.k[2] * w.d[2] - w.p[2];
          const int64_t i = o0 * w.s[0] - w.p[0] + t / (w.k[1] * w.k[2]) * w.d[0];
          const int64_t j = o1 * w.s[1] - w.p[1] + t / w.k[2] % w.k[1] * w.d[1];
          if (i < 0 || i >= w.in[0] || j < 0 || j >= w.in[1] || k2 >= w.in[2]) continue;
          const int64_t lo = k2 < 0 ? (-k2 + w.s[2] - 1) / w.s[2] : 0;
          const int64_t hi = std::min(w.out[2], (w.in[2] - 1 - k2) / w.s[2] + 1);
          if (lo >= hi) continue;
          const T* xs = x + ((i * w.in[1] + j) * w.in[2] + lo * w.s[2] + k2) * d.channels;
          const T* gs = g + ((o0 * w.out[1] + o1) * w.out[2] + lo) * d.channels;
          float* at = sums + t * pitch;
          Lanes sum[V];
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) load_lanes(at + v * kLanes, sum[v]);
          for (int64_t n = 0; n < here; ++n, xs += x_image, gs += g_image) {
            const T *xr = xs, *gr = gs;
            for (int64_t q = lo; q < hi; ++q, xr += w.s[2] * d.channels, gr += d.channels)
#pragma GCC unroll 8
              for (int v = 0; v < V; ++v) {
                Lanes xv, gv;
                load_lanes(xr + v * kLanes, xv), load_lanes(gr + v * kLanes, gv);
                sum[v] += xv * gv;
              }
          }
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) store_lanes(at + v * kLanes, sum[v]);
        }
  }
}

template <class E>
YULOH_INLINE void weight_body(const WeightArgs& a) {
  using T = typename E::T;
  const Depthwise& d = *a.d;
  const int64_t images = a.last - a.first, end = a.channel + a.width;
  const T* x = static_cast<const T*>(a.x) + a.first * d.in_positions() * d.channels;
  const T* g = static_cast<const T*>(a.g) + a.first * d.out_positions() * d.channels;
  int64_t c = a.channel;
  for (; c + kBlockChannels <= end; c += kBlockChannels)
    weight_block<kBlock>(d, x + c, g + c, a.sums + c, d.channels, images);
  for (; c + kLanes <= end; c += kLanes) weight_block<1>(d, x + c, g + c, a.sums + c, d.channels, images);
  if (c < end && end >= kLanes) {  // the last lanes from the end; those before c are another block's
    float last[kMaxTaps * kLanes];
    const int64_t from = end - kLanes;
    weight_block<1>(d, x + from, g + from, last, kLanes, images);
    for (int64_t t = 0; t < d.taps; ++t)
      for (int64_t i = c; i < end; ++i) a.sums[t * d.channels + i] = last[t * kLanes + i - from];
    return;
  }
  for (; c < end; ++c)
    for (int64_t t = 0; t < d.taps; ++t) {
      float sum = 0;
      const T *xs = x + c, *gs = g + c;
      for (int64_t n = 0; n < images; ++n, xs += d.in_positions() * d.channels)
        for (int64_t q = 0; q < d.out_positions(); ++q, gs += d.channels) {
          const Window3& w = d.w;
          const int64_t at[3] = {q / (w.out[1] * w.out[2]), q / w.out[2] % w.out[1], q % w.out[2]};
          const int64_t tap[3] = {t / (w.k[1] * w.k[2]), t / w.k[2] % w.k[1], t % w.k[2]};
          int64_t p = 0;
          for (int i = 0; i < 3 && p >= 0; ++i) {
            const int64_t s = at[i] * w.s[i] - w.p[i] + tap[i] * w.d[i];
            p = s < 0 || s >= w.in[i] ? -1 : p * w.in[i] + s;
          }
          if (p >= 0) sum += E::get(xs[p * d.channels]) * E::get(gs[0]);
        }
      a.sums[t * d.channels + c] = sum;
    }
}
YULOH_MULTI_ISA(weight, WeightArgs)

// Adds the partial sums up, in order, and writes them as users see weights: [channels][taps].
struct FinishArgs {
  float* sums;  // [parts][taps][channels]
  void* out;
  int64_t channels, taps, parts;
};
template <class E>
YULOH_INLINE void finish_body(const FinishArgs& a) {
  auto* out = static_cast<typename E::T*>(a.out);
  const int64_t n = a.taps * a.channels;
  for (int64_t p = 1; p < a.parts; ++p) {
    YULOH_SIMD
    for (int64_t i = 0; i < n; ++i) a.sums[i] += a.sums[p * n + i];
  }
  for (int64_t c = 0; c < a.channels; ++c)
    for (int64_t t = 0; t < a.taps; ++t) out[c * a.taps + t] = E::put(a.sums[t * a.channels + c]);
}
YULOH_MULTI_ISA(finish, FinishArgs)

bool analyse(const KernelRequest& r, Depthwise* d, std::string* why) {
  const Operand &x = r.in[0], &y = r.in[1], &wt = r.out[0];
  const Shape &xs = x.type.shape, &ys = y.type.shape, &ws = wt.type.shape;
  const auto refuse = [why](const char* reason) {
    *why = reason;
    return false;
  };
  if (r.call.integer("groups") != xs[1] || xs[1] != ys[1] || xs[1] < 8) return refuse("not depthwise");
  if (x.type.dtype != DType::kFloat32 && x.type.dtype != DType::kBFloat16) return refuse("dtype");
  if (numel(xs) == 0 || numel(ys) == 0) return refuse("an operand is empty");
  if (!is_channels_last(xs, x.strides) || !is_channels_last(ys, y.strides) || !is_row_major(ws, wt.strides))
    return refuse("an activation is not channels-last");
  d->batch = xs[0], d->channels = xs[1], d->taps = numel(ws) / xs[1];
  if (d->taps > kMaxTaps) return refuse("a large kernel");
  d->w = window3(window_of(r.call, spatial_of(ws)), spatial_of(xs), spatial_of(ys));
  d->bf16 = x.type.dtype == DType::kBFloat16;
  const bool library_is_fast = ws.size() == 4 && ws[2] == 3 && ws[3] == 3 && d->out_positions() > 4;
  return library_is_fast ? refuse("the library is faster on 3x3") : true;
}

class DepthwiseGradKernel final : public Kernel {
 public:
  explicit DepthwiseGradKernel(const Depthwise& d) : d_(d) {
    blocks_ = (d_.channels + kBlockChannels - 1) / kBlockChannels;
    // About 16 chunks of images x channel blocks; the sums of each part of the images add up in order.
    parts_ = std::clamp<int64_t>(16 / blocks_, 1, d_.batch);
    const double in = static_cast<double>(d_.batch * d_.in_positions() * d_.channels);
    const double out = static_cast<double>(d_.batch * d_.out_positions() * d_.channels);
    const double weights = static_cast<double>(d_.channels * d_.taps);
    cost.flops = 2.0 * out * static_cast<double>(d_.taps);
    cost.bytes = (in + out + weights) * (d_.bf16 ? 2 : 4);
  }
  size_t workspace_bytes() const override { return sizeof(float) * d_.channels * d_.taps * parts_; }
  std::string describe() const override { return "yuloh_depthwise_grad_weight"; }
  void run(void* const* ptrs) override {
    float* sums = static_cast<float*>(ptrs[3]);
    const int64_t per = (d_.batch + parts_ - 1) / parts_;
    parallel_for(
        parts_ * blocks_,
        [&](int64_t i) {
          const int64_t part = i / blocks_, c = i % blocks_ * kBlockChannels;
          const WeightArgs a{&d_,
                             ptrs[0],
                             ptrs[1],
                             sums + part * d_.channels * d_.taps,
                             std::min(part * per, d_.batch),
                             std::min((part + 1) * per, d_.batch),
                             c,
                             std::min(kBlockChannels, d_.channels - c)};
          d_.bf16 ? weight<SimdBF16>(a) : weight<SimdF32>(a);
        },
        cost.flops / 30e9);
    const FinishArgs f{sums, ptrs[2], d_.channels, d_.taps, parts_};
    d_.bf16 ? finish<SimdBF16>(f) : finish<SimdF32>(f);
  }

 private:
  Depthwise d_;
  int64_t blocks_, parts_;
};
}  // namespace

bool depthwise_grad_fits(const KernelRequest& r, std::string* why) {
  Depthwise d;
  return analyse(r, &d, why);
}
std::unique_ptr<Kernel> make_depthwise_grad(const KernelRequest& r) {
  Depthwise d;
  std::string why;
  return analyse(r, &d, &why) ? std::make_unique<DepthwiseGradKernel>(d) : nullptr;
}

}  // namespace yuloh
