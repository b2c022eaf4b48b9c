// SPDX-License-Identifier: Apache-2.0
// Weight gradient of a depthwise convolution, vectorised over channels: for the kernels where the library
// works group by group (anything but 3x3, and 3x3 on a single position), which is up to a hundred times
// slower.
#include <algorithm>
#include <cstring>

#include "cpu/conv_product.h"
#include "cpu/multi_isa.h"
#include "cpu/parallel.h"
#include "ops/window.h"

namespace yuloh {
namespace {

constexpr int64_t kBlock = 64;  // channels of one chunk
constexpr int64_t kMaxTaps = 125;

struct DepthwiseArgs {
  const Window3* w;
  int64_t batch, channels, width;
  const void *x, *g;  // moved to the first channel
  void* out;          // [width][taps]
};

template <class E>
YULOH_INLINE void depthwise_grad_body(const DepthwiseArgs& a) {
  const Window3& w = *a.w;
  const int64_t taps = w.k[0] * w.k[1] * w.k[2];
  float acc[kMaxTaps * kBlock];
  std::memset(acc, 0, sizeof(float) * taps * kBlock);
  const auto *x = static_cast<const typename E::T*>(a.x), *g = static_cast<const typename E::T*>(a.g);
  const int64_t sample = w.in[0] * w.in[1] * w.in[2] * a.channels;
  for (int64_t n = 0; n < a.batch; ++n, x += sample)
    for (int64_t o0 = 0; o0 < w.out[0]; ++o0)
      for (int64_t o1 = 0; o1 < w.out[1]; ++o1)
        for (int64_t o2 = 0; o2 < w.out[2]; ++o2, g += a.channels)
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t i = o0 * w.s[0] - w.p[0] + t / (w.k[1] * w.k[2]) * w.d[0];
            const int64_t j = o1 * w.s[1] - w.p[1] + t / w.k[2] % w.k[1] * w.d[1];
            const int64_t k = o2 * w.s[2] - w.p[2] + t % w.k[2] * w.d[2];
            if (i < 0 || i >= w.in[0] || j < 0 || j >= w.in[1] || k < 0 || k >= w.in[2]) continue;
            const auto* row = x + ((i * w.in[1] + j) * w.in[2] + k) * a.channels;
            float* sum = acc + t * kBlock;
            YULOH_SIMD
            for (int64_t c = 0; c < a.width; ++c) sum[c] += E::get(row[c]) * E::get(g[c]);
          }
  auto* out = static_cast<typename E::T*>(a.out);
  for (int64_t c = 0; c < a.width; ++c)
    for (int64_t t = 0; t < taps; ++t) out[c * taps + t] = E::put(acc[t * kBlock + c]);
}
YULOH_MULTI_ISA(depthwise_grad, DepthwiseArgs)

class DepthwiseGradKernel final : public Kernel {
 public:
  explicit DepthwiseGradKernel(const KernelRequest& r) {
    const Shape &x = r.in[0].type.shape, &y = r.in[1].type.shape, &wt = r.out[0].type.shape;
    w_ = window3(window_of(r.call, spatial_of(wt)), spatial_of(x), spatial_of(y));
    batch_ = x[0], channels_ = x[1], taps_ = numel(wt) / channels_;
    bf16_ = r.in[0].type.dtype == DType::kBFloat16;
    cost.flops = 2.0 * static_cast<double>(numel(y) * taps_);
    cost.bytes = static_cast<double>((numel(x) + numel(y) + numel(wt)) * size());
  }
  std::string describe() const override { return "yuloh_depthwise_grad_weight"; }
  void run(void* const* ptrs) override {
    parallel_for((channels_ + kBlock - 1) / kBlock, [&](int64_t b) {
      const int64_t c = b * kBlock;
      const auto at = [&](int i, int64_t elements) {
        return static_cast<char*>(ptrs[i]) + elements * size();
      };
      const DepthwiseArgs a{&w_,      batch_,   channels_,       std::min(kBlock, channels_ - c),
                            at(0, c), at(1, c), at(2, c * taps_)};
      bf16_ ? depthwise_grad<SimdBF16>(a) : depthwise_grad<SimdF32>(a);
    });
  }

 private:
  int64_t size() const { return bf16_ ? 2 : 4; }
  Window3 w_;
  int64_t batch_, channels_, taps_;
  bool bf16_;
};
}  // namespace

bool depthwise_grad_fits(const KernelRequest& r, std::string* why) {
  const Shape &x = r.in[0].type.shape, &y = r.in[1].type.shape, &wt = r.out[0].type.shape;
  const DType t = r.in[0].type.dtype;
  const auto refuse = [why](const char* reason) {
    *why = reason;
    return false;
  };
  if (r.call.integer("groups") != x[1] || x[1] != y[1] || x[1] < 8) return refuse("not depthwise");
  if (t != DType::kFloat32 && t != DType::kBFloat16) return refuse("dtype");
  if (numel(x) == 0 || numel(y) == 0) return refuse("an operand is empty");
  if (!is_channels_last(x, r.in[0].strides) || !is_channels_last(y, r.in[1].strides) ||
      !is_row_major(wt, r.out[0].strides))
    return refuse("an activation is not channels-last");
  const int64_t taps = numel(wt) / x[1];
  if (taps > kMaxTaps) return refuse("a large kernel");
  const bool library_is_fast = wt.size() == 4 && wt[2] == 3 && wt[3] == 3 && y[2] * y[3] > 1;
  return library_is_fast ? refuse("the library is faster on 3x3") : true;
}
std::unique_ptr<Kernel> make_depthwise_grad(const KernelRequest& r) {
  return std::make_unique<DepthwiseGradKernel>(r);
}

}  // namespace yuloh
