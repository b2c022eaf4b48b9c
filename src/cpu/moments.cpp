// SPDX-License-Identifier: Apache-2.0
// channel_moments for channels-last inputs: mean and biased variance of every channel in one pass over
// memory. Each chunk of rows is summed, then its squared deviations from the chunk's own mean are taken while
// it is still in cache; chunks combine in order (so nothing depends on the thread count, and no large mean
// cancels).
#include <algorithm>
#include <cstring>

#include "cpu/multi_isa.h"
#include "cpu/parallel.h"
#include "cpu/pool.h"

namespace yuloh {
namespace {

struct MomentsArgs {
  const void* x;
  int64_t rows, channels;
  float *mean, *m2;  // of this chunk
};

template <class E>
YULOH_INLINE void moments_body(const MomentsArgs& a) {
  const auto* x = static_cast<const typename E::T*>(a.x);
  const int64_t c_n = a.channels;
  std::memset(a.mean, 0, sizeof(float) * c_n);
  std::memset(a.m2, 0, sizeof(float) * c_n);
  int64_t r = 0;
  for (; r + 4 <= a.rows; r += 4) {
    const auto* p = x + r * c_n;
    YULOH_SIMD
    for (int64_t c = 0; c < c_n; ++c)
      a.mean[c] += (E::get(p[c]) + E::get(p[c + c_n])) + (E::get(p[c + 2 * c_n]) + E::get(p[c + 3 * c_n]));
  }
  for (; r < a.rows; ++r) {
    YULOH_SIMD
    for (int64_t c = 0; c < c_n; ++c) a.mean[c] += E::get(x[r * c_n + c]);
  }
  const float n = static_cast<float>(a.rows);
  YULOH_SIMD
  for (int64_t c = 0; c < c_n; ++c) a.mean[c] /= n;
  for (r = 0; r + 2 <= a.rows; r += 2) {
    const auto* p = x + r * c_n;
    YULOH_SIMD
    for (int64_t c = 0; c < c_n; ++c) {
      const float d0 = E::get(p[c]) - a.mean[c], d1 = E::get(p[c + c_n]) - a.mean[c];
      a.m2[c] += d0 * d0 + d1 * d1;
    }
  }
  for (; r < a.rows; ++r) {
    YULOH_SIMD
    for (int64_t c = 0; c < c_n; ++c) {
      const float d = E::get(x[r * c_n + c]) - a.mean[c];
      a.m2[c] += d * d;
    }
  }
}
YULOH_MULTI_ISA(moments, MomentsArgs)

class MomentsKernel final : public Kernel {
 public:
  explicit MomentsKernel(const KernelRequest& r) {
    const TensorType& t = r.in[0].type;
    channels_ = t.shape[1], rows_ = numel(t.shape) / channels_;
    bf16_ = t.dtype == DType::kBFloat16;
    // A chunk fits in half of a small L2, and there are at least 4 and at most 256 chunks.
    per_chunk_ = std::max<int64_t>(1, (96 << 10) / (4 * channels_));
    per_chunk_ = std::min(per_chunk_, (rows_ + 3) / 4);
    per_chunk_ = std::max(per_chunk_, (rows_ + 255) / 256);
    chunks_ = (rows_ + per_chunk_ - 1) / per_chunk_;
    cost.bytes = static_cast<double>(numel(t.shape)) * static_cast<double>(dtype_size(t.dtype));
    cost.flops = 4.0 * static_cast<double>(numel(t.shape));
  }
  size_t workspace_bytes() const override {
    return sizeof(float) * 2 * static_cast<size_t>((chunks_ + 2) * channels_);
  }
  std::string describe() const override { return "yuloh_moments"; }
  void run(void* const* ptrs) override {
    double* totals = static_cast<double*>(ptrs[3]);
    float* partial = reinterpret_cast<float*>(totals + 2 * channels_);
    parallel_for(chunks_, [&](int64_t i) {
      const int64_t row = i * per_chunk_;
      float* mean = partial + 2 * i * channels_;
      const char* x = static_cast<const char*>(ptrs[0]) + row * channels_ * (bf16_ ? 2 : 4);
      const MomentsArgs a{x, std::min(per_chunk_, rows_ - row), channels_, mean, mean + channels_};
      bf16_ ? moments<SimdBF16>(a) : moments<SimdF32>(a);
    });
    combine(partial, totals, totals + channels_, static_cast<float*>(ptrs[1]), static_cast<float*>(ptrs[2]));
  }

 private:
  // Pairwise update of (count, mean, squared deviations) in f64, vectorised over channels.
  void combine(const float* partial, double* m, double* m2, float* mean, float* variance) const {
    std::fill(m, m + 2 * channels_, 0.0);
    double n = 0;
    for (int64_t i = 0; i < chunks_; ++i) {
      const double k = static_cast<double>(std::min(per_chunk_, rows_ - i * per_chunk_));
      const double share = k / (n + k), weight = n * share;
      const float *cm = partial + 2 * i * channels_, *cm2 = cm + channels_;
      YULOH_SIMD
      for (int64_t c = 0; c < channels_; ++c) {
        const double d = cm[c] - m[c];
        m[c] += d * share;
        m2[c] += cm2[c] + d * d * weight;
      }
      n += k;
    }
    for (int64_t c = 0; c < channels_; ++c)
      mean[c] = static_cast<float>(m[c]), variance[c] = static_cast<float>(m2[c] / n);
  }
  int64_t rows_, channels_, per_chunk_, chunks_;
  bool bf16_;
};
}  // namespace

bool moments_fits(const KernelRequest& r, std::string* why) {
  const TensorType& t = r.in[0].type;
  const bool last = t.shape.size() == 2 ? is_row_major(t.shape, r.in[0].strides)
                                        : is_channels_last(t.shape, r.in[0].strides);
  if ((t.dtype != DType::kFloat32 && t.dtype != DType::kBFloat16) || numel(t.shape) == 0 || !last) {
    *why = "x is empty, not channels-last or neither float32 nor bfloat16";
    return false;
  }
  return true;
}
std::unique_ptr<Kernel> make_moments(const KernelRequest& r) { return std::make_unique<MomentsKernel>(r); }

}  // namespace yuloh
