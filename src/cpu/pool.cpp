// SPDX-License-Identifier: Apache-2.0
#include "cpu/pool.h"

#include <algorithm>
#include <cstring>

#include "cpu/multi_isa.h"
#include "cpu/parallel.h"
#include "cpu/pool_kernels.h"

namespace yuloh {
namespace {

constexpr int64_t kBlock = 64;  // channels per chunk: scratch stays in L1

template <class F>
YULOH_INLINE void each_output(const Window3& w, F&& f) {
  int64_t o[3], q = 0;
  for (o[0] = 0; o[0] < w.out[0]; ++o[0])
    for (o[1] = 0; o[1] < w.out[1]; ++o[1])
      for (o[2] = 0; o[2] < w.out[2]; ++o[2]) f(o, q++);
}
template <class F>
YULOH_INLINE void each_tap(const Window3& w, const int64_t o[3], F&& f) {
  const Taps a = pool_taps(w, 0, o[0]), b = pool_taps(w, 1, o[1]), e = pool_taps(w, 2, o[2]);
  for (int64_t i = a.begin; i < a.end; ++i)
    for (int64_t j = b.begin; j < b.end; ++j)
      for (int64_t k = e.begin; k < e.end; ++k) f((i * w.in[1] + j) * w.in[2] + k);
}

// best[c], at[c]: first maximum of the window and its position; NaN wins and the first one stays.
template <class E>
YULOH_INLINE void window_max(const PoolArgs& a, const int64_t o[3], float* best, int32_t* at) {
  const auto* x = static_cast<const typename E::T*>(a.x);
  bool first = true;
  each_tap(
      a.g->w, o, [&](int64_t p) __attribute__((always_inline)) {
        const auto* row = x + p * a.channels;
        const int32_t pos = static_cast<int32_t>(p);
        if (first) {
          YULOH_SIMD
          for (int64_t c = 0; c < a.width; ++c) best[c] = E::get(row[c]), at[c] = pos;
          first = false;
          return;
        }
        YULOH_SIMD
        for (int64_t c = 0; c < a.width; ++c) {
          const float v = E::get(row[c]), b = best[c];
          const bool better = (v > b) | ((v != v) & (b == b));
          best[c] = better ? v : b;
          at[c] = better ? pos : at[c];
        }
      });
}

template <class E>
YULOH_INLINE void max_forward_body(const PoolArgs& a) {
  float best[kBlock];
  int32_t at[kBlock];
  each_output(
      a.g->w, [&](const int64_t* o, int64_t q) __attribute__((always_inline)) {
        window_max<E>(a, o, best, at);
        auto* y = static_cast<typename E::T*>(a.out) + q * a.channels;
        YULOH_SIMD
        for (int64_t c = 0; c < a.width; ++c) y[c] = E::put(best[c]);
        if (a.index) std::memcpy(a.index + q * a.channels, at, sizeof(int32_t) * a.width);
      });
}

YULOH_INLINE void clear_plane(const PoolArgs& a) {
  const int64_t positions = a.g->w.in[0] * a.g->w.in[1] * a.g->w.in[2];
  for (int64_t p = 0; p < positions; ++p)
    std::memset(a.plane + p * a.plane_stride, 0, sizeof(float) * a.width);
}
template <class E>
YULOH_INLINE void store_plane(const PoolArgs& a) {
  if (std::is_same_v<E, SimdF32>) return;
  auto* out = static_cast<typename E::T*>(a.out);
  const int64_t positions = a.g->w.in[0] * a.g->w.in[1] * a.g->w.in[2];
  for (int64_t p = 0; p < positions; ++p) {
    YULOH_SIMD
    for (int64_t c = 0; c < a.width; ++c) out[p * a.channels + c] = E::put(a.plane[p * a.plane_stride + c]);
  }
}

template <class E>
YULOH_INLINE void max_backward_body(const PoolArgs& a) {
  float best[kBlock];
  int32_t at[kBlock];
  clear_plane(a);
  each_output(
      a.g->w, [&](const int64_t* o, int64_t q) __attribute__((always_inline)) {
        window_max<E>(a, o, best, at);
        const auto* g = static_cast<const typename E::T*>(a.v) + q * a.channels;
        each_tap(
            a.g->w, o, [&](int64_t p) __attribute__((always_inline)) {
              float* row = a.plane + p * a.plane_stride;
              const int32_t pos = static_cast<int32_t>(p);
              YULOH_SIMD
              for (int64_t c = 0; c < a.width; ++c) row[c] += at[c] == pos ? E::get(g[c]) : 0.0f;
            });
      });
  store_plane<E>(a);
}

template <class E>
YULOH_INLINE void max_take_body(const PoolArgs& a) {
  float best[kBlock];
  int32_t at[kBlock];
  const auto* v = static_cast<const typename E::T*>(a.v);
  each_output(
      a.g->w, [&](const int64_t* o, int64_t q) __attribute__((always_inline)) {
        window_max<E>(a, o, best, at);
        auto* y = static_cast<typename E::T*>(a.out) + q * a.channels;
        for (int64_t c = 0; c < a.width; ++c) y[c] = v[at[c] * a.channels + c];
      });
}

template <class E>
YULOH_INLINE void avg_forward_body(const PoolArgs& a) {
  const auto* x = static_cast<const typename E::T*>(a.x);
  float acc[kBlock];
  each_output(
      a.g->w, [&](const int64_t* o, int64_t q) __attribute__((always_inline)) {
        std::memset(acc, 0, sizeof acc);
        each_tap(
            a.g->w, o, [&](int64_t p) __attribute__((always_inline)) {
              YULOH_SIMD
              for (int64_t c = 0; c < a.width; ++c) acc[c] += E::get(x[p * a.channels + c]);
            });
        const float d = static_cast<float>(pool_divisor(*a.g, a.exclusive, a.divisor, o));
        auto* y = static_cast<typename E::T*>(a.out) + q * a.channels;
        YULOH_SIMD
        for (int64_t c = 0; c < a.width; ++c) y[c] = E::put(acc[c] / d);
      });
}

template <class E>
YULOH_INLINE void avg_backward_body(const PoolArgs& a) {
  clear_plane(a);
  each_output(
      a.g->w, [&](const int64_t* o, int64_t q) __attribute__((always_inline)) {
        const float d = static_cast<float>(pool_divisor(*a.g, a.exclusive, a.divisor, o));
        const auto* g = static_cast<const typename E::T*>(a.v) + q * a.channels;
        each_tap(
            a.g->w, o, [&](int64_t p) __attribute__((always_inline)) {
              float* row = a.plane + p * a.plane_stride;
              YULOH_SIMD
              for (int64_t c = 0; c < a.width; ++c) row[c] += E::get(g[c]) / d;
            });
      });
  store_plane<E>(a);
}

YULOH_MULTI_ISA(max_forward, PoolArgs)
YULOH_MULTI_ISA(max_backward, PoolArgs)
YULOH_MULTI_ISA(max_take, PoolArgs)
YULOH_MULTI_ISA(avg_forward, PoolArgs)
YULOH_MULTI_ISA(avg_backward, PoolArgs)

struct PoolOp {
  std::string_view name;
  PoolFn f32, bf16;
  bool is_avg, is_grad;
  int shaped_like_x;  // operand (inputs, then outputs) that has the shape of the un-pooled tensor
};
constexpr PoolOp kOps[] = {
    {"max_pool", max_forward<SimdF32>, max_forward<SimdBF16>, false, false, 0},
    {"max_pool_with_index", max_forward<SimdF32>, max_forward<SimdBF16>, false, false, 0},
    {"max_pool_grad", max_backward<SimdF32>, max_backward<SimdBF16>, false, true, 0},
    {"max_pool_take", max_take<SimdF32>, max_take<SimdBF16>, false, false, 0},
    {"avg_pool", avg_forward<SimdF32>, avg_forward<SimdBF16>, true, false, 0},
    {"avg_pool_grad", avg_backward<SimdF32>, avg_backward<SimdBF16>, true, true, 1},
};
const PoolOp* pool_op(std::string_view name) {
  for (const PoolOp& o : kOps)
    if (o.name == name) return &o;
  return nullptr;
}

class PoolKernel final : public Kernel {
 public:
  explicit PoolKernel(const KernelRequest& r)
      : op_(*pool_op(r.call.name())), n_in_(r.in.size()), n_out_(r.out.size()) {
    const Operand& x = op_.shaped_like_x == 0 ? r.in[0] : r.out[0];
    g_ = pool_geometry(r.call, x.type.shape);
    batch_ = x.type.shape[0], channels_ = x.type.shape[1];
    size_ = static_cast<int64_t>(dtype_size(x.type.dtype));
    in_positions_ = g_.w.in[0] * g_.w.in[1] * g_.w.in[2];
    out_positions_ = g_.w.out[0] * g_.w.out[1] * g_.w.out[2];
    exclusive_ = op_.is_avg && r.call.flag("exclusive");
    divisor_ = op_.is_avg && r.call.has("divisor") ? r.call.integer("divisor") : 0;
    for (int i = 0; i < 3; ++i)
      for (int64_t o = 0; o < g_.w.out[i]; ++o) taps_[i].push_back(pool_taps(g_.w, i, o));
    for (int64_t i = 0; i < g_.w.k[0]; ++i)
      for (int64_t j = 0; j < g_.w.k[1]; ++j)
        for (int64_t k = 0; k < g_.w.k[2]; ++k) offsets_.push_back((i * g_.w.in[1] + j) * g_.w.in[2] + k);
    choose(x.type.dtype == DType::kBFloat16);
    for (const auto* list : {&r.in, &r.out})
      for (const Operand& o : *list)
        cost.bytes += static_cast<double>(numel(o.type.shape) * dtype_size(o.type.dtype));
  }
  size_t workspace_bytes() const override {
    return op_.is_grad && size_ != 4 && !once_
               ? sizeof(float) * static_cast<size_t>(batch_ * channels_ * in_positions_)
               : 0;
  }
  std::string describe() const override { return cat("yuloh_pool:", op_.name); }
  void run(void* const* ptrs) override {
    const int64_t blocks = (channels_ + kBlock - 1) / kBlock;
    parallel_for(batch_ * blocks, [&](int64_t chunk) {
      const int64_t n = chunk / blocks, c = chunk % blocks * kBlock;
      const int64_t big = n * in_positions_ * channels_ + c, small = n * out_positions_ * channels_ + c;
      PoolArgs a{&g_,        channels_,       std::min(kBlock, channels_ - c),
                 nullptr,    nullptr,         nullptr,
                 nullptr,    nullptr,         0,
                 exclusive_, divisor_,        {taps_[0].data(), taps_[1].data(), taps_[2].data()},
                 &gaps_,     offsets_.data(), static_cast<int64_t>(offsets_.size())};
      const auto at = [&](int i, int64_t offset) { return static_cast<char*>(ptrs[i]) + offset * size_; };
      const bool two_inputs = n_in_ == 2, avg_grad = op_.is_avg && op_.is_grad;
      a.x = avg_grad ? nullptr : at(0, big);
      if (two_inputs) a.v = at(1, op_.is_grad ? small : big);
      if (avg_grad) a.v = at(0, small);
      a.out = at(n_in_, op_.is_grad ? big : small);
      if (n_out_ == 2) a.index = static_cast<int32_t*>(ptrs[n_in_ + 1]) + small;
      if (op_.is_grad && size_ == 4) {
        a.plane = static_cast<float*>(a.out), a.plane_stride = channels_;
      } else if (op_.is_grad && !once_) {
        a.plane = static_cast<float*>(ptrs[n_in_ + n_out_]) + (n * channels_ + c) * in_positions_;
        a.plane_stride = a.width;
      }
      fn_(a);
    });
  }

 private:
  // The vector kernel where there is one, else the plain loops.
  void choose(bool bf16) {
    fn_ = bf16 ? op_.bf16 : op_.f32;
    const MaxPoolKernels* k = cpu_isa() == Isa::kAvx512 ? max_pool_avx512(channels_)
                              : cpu_isa() == Isa::kAvx2 ? max_pool_avx2()
                                                        : nullptr;
    if (!k) return;
    if (op_.name == "max_pool" && k->forward[bf16]) fn_ = k->forward[bf16];
    if (op_.name == "max_pool_with_index" && k->index[bf16]) fn_ = k->index[bf16];
    if (op_.name == "max_pool_grad" && k->backward[bf16] && find_gaps())
      fn_ = k->backward[bf16], once_ = true;
  }
  // False: some windows overlap.
  bool find_gaps() {
    std::vector<char> seen[3];
    for (int i = 0; i < 3; ++i) {
      seen[i].assign(static_cast<size_t>(g_.w.in[i]), 0);
      for (const Taps& t : taps_[i])
        for (int64_t p = t.begin; p < t.end; ++p)
          if (seen[i][p]++) return false;
    }
    for (int64_t p = 0; p < in_positions_; ++p) {
      const int64_t c = p % g_.w.in[2], b = p / g_.w.in[2] % g_.w.in[1], a = p / (g_.w.in[1] * g_.w.in[2]);
      if (!seen[0][a] || !seen[1][b] || !seen[2][c]) gaps_.push_back(p);
    }
    return true;
  }
  const PoolOp& op_;
  std::vector<Taps> taps_[3];
  std::vector<int64_t> gaps_, offsets_;
  bool once_ = false;  // every position of a gradient is written once
  int n_in_, n_out_;
  PoolGeometry g_;
  PoolFn fn_;
  int64_t batch_, channels_, size_, in_positions_, out_positions_, divisor_;
  bool exclusive_;
};
}  // namespace

bool pool_fits(const KernelRequest& r, std::string* why) {
  const DType t = r.in[0].type.dtype;
  if (t != DType::kFloat32 && t != DType::kBFloat16) {
    *why = cat("dtype ", t);
    return false;
  }
  for (const auto* list : {&r.in, &r.out})
    for (const Operand& o : *list)
      if (numel(o.type.shape) == 0 || !is_channels_last(o.type.shape, o.strides)) {
        *why = "an operand is empty or not channels-last";
        return false;
      }
  return true;
}
std::unique_ptr<Kernel> make_pool(const KernelRequest& r) { return std::make_unique<PoolKernel>(r); }

LayoutWish all_channels_last(const Call& c) {
  const auto wish = [](const Shape& s) {
    return s.size() >= 3 ? channels_last_strides(s) : row_major_strides(s);
  };
  LayoutWish w;
  for (uint32_t i = 0; i < c.n_in; ++i) w.in.push_back(wish(c.type(i).shape));
  for (const TensorType& t : c.op.infer(c)) w.out.push_back(wish(t.shape));
  return w;
}

}  // namespace yuloh
