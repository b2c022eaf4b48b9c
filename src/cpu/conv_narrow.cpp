// SPDX-License-Identifier: Apache-2.0
// Input gradient of a convolution with few input channels (f32, stride 1). The library gives each of them a
// lane of its own and leaves the other lanes empty; here the taps of a kernel row fill them: for every
// position of a row of the output gradient one GEMM micro-kernel makes the contributions to [kernel width x
// input channels] neighbouring elements of the result, which are then added up where they overlap.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/conv_product.h"
#include "cpu/gemm_kernels.h"
#include "cpu/multi_isa.h"
#include "cpu/parallel.h"
#include "ops/window.h"

namespace yuloh {
namespace {

constexpr int64_t kLanes =
    16;  // result elements that are added up at once: more than the channels there may be

struct FoldArgs {
  const float* parts;  // [output width][stride]
  int64_t stride, width, kernel, channels;
  float* row;  // [width + kernel - 1][channels], kLanes more may be written
};
struct SumF32 {};
template <class>
YULOH_INLINE void fold_row_body(const FoldArgs& a) {
  for (int64_t i = 0; i < a.width + a.kernel - 1; ++i) {
    float s[kLanes] = {};
    for (int64_t k = std::max<int64_t>(0, i - a.width + 1); k < a.kernel && k <= i; ++k) {
      const float* part = a.parts + (i - k) * a.stride + k * a.channels;
      YULOH_SIMD
      for (int64_t c = 0; c < kLanes; ++c) s[c] += part[c];
    }
    float* out = a.row + i * a.channels;
    YULOH_SIMD
    for (int64_t c = 0; c < kLanes; ++c) out[c] = s[c];
  }
}
YULOH_MULTI_ISA(fold_row, FoldArgs)

struct Narrow {
  Window3 w;
  int64_t batch, in_channels, out_channels;
};

bool analyse(const KernelRequest& r, Narrow* t, std::string* why) {
  const Operand &g = r.in[0], &wt = r.in[1], &x = r.out[0];
  if (x.type.dtype != DType::kFloat32) {
    *why = "dtype is not float32";
    return false;
  }
  for (const Operand* o : {&x, &g})
    if (numel(o->type.shape) == 0 || !is_channels_last(o->type.shape, o->strides)) {
      *why = "an activation is empty or not channels-last";
      return false;
    }
  if (r.call.integer("groups") != 1 || !is_row_major(wt.type.shape, wt.strides)) {
    *why = "groups or a permuted weight";
    return false;
  }
  t->w = window3(window_of(r.call, spatial_of(wt.type.shape)), spatial_of(x.type.shape),
                 spatial_of(g.type.shape));
  t->batch = x.type.shape[0], t->in_channels = x.type.shape[1], t->out_channels = g.type.shape[1];
  for (int i = 0; i < 3; ++i)
    if (t->w.s[i] != 1 || t->w.d[i] != 1 || (i == 0 && t->w.k[i] != 1)) {
      *why = "strides, dilation or a third spatial axis";
      return false;
    }
  if (t->w.k[2] < 3 || t->in_channels > kLanes || t->w.k[2] * t->in_channels > gemm_detail::kernels().nr) {
    *why = "a kernel row does not fill the lanes, or more than fills them";
    return false;
  }
  return true;
}

class ConvNarrowKernel final : public Kernel {
 public:
  explicit ConvNarrowKernel(const Narrow& t) : t_(t), gemm_(gemm_detail::kernels()) {
    used_ = t.w.k[2] * t.in_channels;
    wide_ = used_ > gemm_.nr / 2;
    lanes_ = wide_ ? gemm_.nr : gemm_.nr / 2;
    cost.flops =
        2.0 * static_cast<double>(t.batch * t.w.out[1] * t.w.out[2] * t.out_channels * t.w.k[1] * used_);
    cost.bytes = 4.0 * static_cast<double>(t.batch * (t.w.in[1] * t.w.in[2] * t.in_channels +
                                                      t.w.out[1] * t.w.out[2] * t.out_channels) +
                                           t.w.k[1] * t.out_channels * used_);
  }
  size_t workspace_bytes() const override {
    return sizeof(float) * static_cast<size_t>(t_.w.k[1] * t_.out_channels * lanes_);
  }
  std::string describe() const override { return "conv_narrow"; }
  void run(void* const* ptrs) override {
    const auto *g = static_cast<const float*>(ptrs[0]), *weight = static_cast<const float*>(ptrs[1]);
    auto *x = static_cast<float*>(ptrs[2]), *panel = static_cast<float*>(ptrs[3]);
    pack(weight, panel);
    const Window3& w = t_.w;
    // A chunk is some rows of one sample; which rows does not depend on the number of threads.
    const int64_t per = std::max<int64_t>(1, 16 / w.out[2]), blocks = (w.in[1] + per - 1) / per;
    parallel_for(
        t_.batch * blocks,
        [&](int64_t chunk) {
          const int64_t n = chunk / blocks, h0 = chunk % blocks * per;
          thread_local std::vector<float> scratch;
          const size_t parts = static_cast<size_t>(w.out[2] * lanes_) + kLanes,
                       line = static_cast<size_t>((w.out[2] + w.k[2]) * t_.in_channels) + kLanes;
          if (scratch.size() < parts + line) scratch.resize(parts + line);
          for (int64_t h = h0; h < std::min(h0 + per, w.in[1]); ++h)
            row(g + n * w.out[1] * w.out[2] * t_.out_channels, panel, h, scratch.data(),
                scratch.data() + parts, x + (n * w.in[1] + h) * w.in[2] * t_.in_channels);
        },
        cost.flops / 1e11);
  }

 private:
  // panel[kernel row][output channel][kernel column x input channel], zeros beyond.
  void pack(const float* weight, float* panel) const {
    const int64_t taps = t_.w.k[1] * t_.w.k[2];
    std::memset(panel, 0, workspace_bytes());
    for (int64_t i = 0; i < t_.w.k[1]; ++i)
      for (int64_t o = 0; o < t_.out_channels; ++o)
        for (int64_t j = 0; j < t_.w.k[2]; ++j)
          for (int64_t c = 0; c < t_.in_channels; ++c)
            panel[(i * t_.out_channels + o) * lanes_ + j * t_.in_channels + c] =
                weight[(o * t_.in_channels + c) * taps + i * t_.w.k[2] + j];
  }
  void row(const float* g, const float* panel, int64_t h, float* parts, float* line, float* x) const {
    const Window3& w = t_.w;
    // Output rows o with h = o - padding + kernel row.
    const int64_t first = std::max<int64_t>(0, h + w.p[1] - w.k[1] + 1),
                  last = std::min(w.out[1] - 1, h + w.p[1]);
    const int64_t bytes = sizeof(float) * w.in[2] * t_.in_channels;
    if (first > last) return (void)std::memset(x, 0, bytes);
    for (int64_t at = 0; at < w.out[2]; at += gemm_.mr) {
      const int64_t rows = std::min<int64_t>(gemm_.mr, w.out[2] - at);
      for (int64_t o = first; o <= last; ++o) {
        gemm_detail::MicroArgs m{};
        m.k = t_.out_channels;
        m.a = g + (o * w.out[2] + at) * t_.out_channels, m.a_row = t_.out_channels, m.a_col = 1;
        m.b = panel + (h + w.p[1] - o) * t_.out_channels * lanes_, m.b_row = lanes_;
        m.c = parts + at * lanes_, m.c_row = lanes_;
        m.columns = static_cast<int>(lanes_);
        m.accumulate = o != first;
        (wide_ ? gemm_.micro : gemm_.half)[rows](m);
      }
    }
    fold_row<SumF32>({parts, lanes_, w.out[2], w.k[2], t_.in_channels, line});
    // Stride 1: the line is the input row with its padding.
    std::memcpy(x, line + w.p[2] * t_.in_channels, bytes);
  }

  Narrow t_;
  const gemm_detail::Kernels& gemm_;
  int64_t used_, lanes_;
  bool wide_;
};
}  // namespace

bool conv_narrow_fits(const KernelRequest& r, std::string* why) {
  Narrow t;
  return analyse(r, &t, why);
}
std::unique_ptr<Kernel> make_conv_narrow(const KernelRequest& r) {
  Narrow t;
  std::string why;
  return analyse(r, &t, &why) ? std::make_unique<ConvNarrowKernel>(t) : nullptr;
}

}  // namespace yuloh
