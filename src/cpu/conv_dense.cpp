// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "cpu/conv_product.h"
#include "cpu/multi_isa.h"
#include "cpu/onednn_matmul.h"
#include "cpu/parallel.h"
#include "ops/window.h"

namespace yuloh {
namespace {

// With P input and Q output positions, D[(q, o), (p, i)] = W[o, i, tap(q, p)], or 0 where no tap leads from p
// to q:
//   forward y = x D^T,  input gradient gx = gy D,  weight gradient gD = gy^T x folded back over the pairs of
//   a tap.
struct Dense {
  Role role;
  DType dtype;
  int64_t batch, in_channels, out_channels, in_positions, out_positions, taps;
  std::vector<int64_t> tap_of;  // [q][p]; -1: none
  std::vector<int64_t> used;    // taps that lead anywhere
  int64_t pairs() const { return in_positions * out_positions; }
};

void find_taps(const Window3& w, Dense* d) {
  d->in_positions = w.in[0] * w.in[1] * w.in[2], d->out_positions = w.out[0] * w.out[1] * w.out[2];
  d->taps = w.k[0] * w.k[1] * w.k[2];
  d->tap_of.assign(d->pairs(), -1);
  for (int64_t q = 0; q < d->out_positions; ++q)
    for (int64_t t = 0; t < d->taps; ++t) {
      const int64_t o[3] = {q / (w.out[1] * w.out[2]), q / w.out[2] % w.out[1], q % w.out[2]};
      const int64_t k[3] = {t / (w.k[1] * w.k[2]), t / w.k[2] % w.k[1], t % w.k[2]};
      int64_t p = 0;
      for (int i = 0; i < 3 && p >= 0; ++i) {
        const int64_t at = o[i] * w.s[i] - w.p[i] + k[i] * w.d[i];
        p = at < 0 || at >= w.in[i] ? -1 : p * w.in[i] + at;
      }
      if (p >= 0) d->tap_of[q * d->in_positions + p] = t;
    }
  d->used.clear();
  for (int64_t t = 0; t < d->taps; ++t)
    if (std::find(d->tap_of.begin(), d->tap_of.end(), t) != d->tap_of.end()) d->used.push_back(t);
}

// Nanoseconds per (input channel, output channel), from measurements on one core with AVX-512 (2 x 10^11
// FLOP/s): the products, and what is moved to spread or reorder the weight. Only the comparison matters.
double dense_cost(const Dense& d) {
  return static_cast<double>(d.pairs()) * (static_cast<double>(d.batch) / 125 + 0.75);
}
double direct_cost(const Dense& d) {
  return static_cast<double>(d.taps) * (static_cast<double>(d.batch * d.out_positions) / 150 + 1.7);
}

constexpr int64_t kMaxPositions = 64;

bool analyse(const KernelRequest& r, Dense* d, std::string* why) {
  d->role = role_of(r.call);
  const Operand& x = d->role == Role::kGradInput ? r.out[0] : r.in[0];
  const Operand& wt = d->role == Role::kGradWeight ? r.out[0] : r.in[1];
  const Operand& y = d->role == Role::kForward ? r.out[0] : d->role == Role::kGradInput ? r.in[0] : r.in[1];
  d->dtype = x.type.dtype;
  for (const Operand* o : {&x, &y})
    if (numel(o->type.shape) == 0 || !is_channels_last(o->type.shape, o->strides)) {
      *why = "an activation is empty or not channels-last";
      return false;
    }
  if (r.call.integer("groups") != 1 || !is_row_major(wt.type.shape, wt.strides)) {
    *why = "groups or a permuted weight";
    return false;
  }
  const Window3 w = window3(window_of(r.call, spatial_of(wt.type.shape)), spatial_of(x.type.shape),
                            spatial_of(y.type.shape));
  for (int i = 0; i < 3; ++i)
    if (w.in[i] > kMaxPositions || w.out[i] > kMaxPositions) {
      *why = "the spatial plane is large";
      return false;
    }
  d->batch = x.type.shape[0], d->in_channels = x.type.shape[1], d->out_channels = y.type.shape[1];
  if (w.in[0] * w.in[1] * w.in[2] > kMaxPositions || w.out[0] * w.out[1] * w.out[2] > kMaxPositions) {
    *why = "the spatial plane is large";
    return false;
  }
  find_taps(w, d);
  if (dense_cost(*d) >= direct_cost(*d)) {
    *why = "padding is too small a part of the work";
    return false;
  }
  return true;
}

MatrixStrides rows(int64_t row, int64_t col = 1) { return {{}, row, col}; }

MatrixProblem product(const Dense& d) {
  const int64_t m = d.batch, i = d.in_positions * d.in_channels, o = d.out_positions * d.out_channels;
  switch (d.role) {
    case Role::kForward: return {d.dtype, m, o, i, {}, rows(i), rows(1, i), rows(o)};
    case Role::kGradInput: return {d.dtype, m, i, o, {}, rows(o), rows(i), rows(i)};
    default: return {d.dtype, o, i, m, {}, rows(1, o), rows(i), rows(i)};
  }
}

// The weight of one output channel: [in_channels][taps] in `w`; its rows of D for every output position in
// `d`.
struct SpreadArgs {
  const Dense* geometry;
  void *w, *d;
  float* scratch;  // [taps][in_channels]
};
template <class E>
YULOH_INLINE void spread_body(const SpreadArgs& a) {
  const Dense& g = *a.geometry;
  auto* line = reinterpret_cast<typename E::T*>(a.scratch);
  const auto* w = static_cast<const typename E::T*>(a.w);
  const int64_t n = g.in_channels, taps = g.taps;
  for (const int64_t t : g.used) {
    YULOH_SIMD
    for (int64_t i = 0; i < n; ++i) line[t * n + i] = w[i * taps + t];
  }
  for (int64_t q = 0; q < g.out_positions; ++q) {
    auto* row = static_cast<typename E::T*>(a.d) + q * g.out_channels * g.in_positions * n;
    for (int64_t p = 0; p < g.in_positions; ++p) {
      const int64_t t = g.tap_of[q * g.in_positions + p];
      if (t < 0) std::memset(row + p * n, 0, sizeof(*row) * n);
      else std::memcpy(row + p * n, line + t * n, sizeof(*row) * n);
    }
  }
}
template <class E>
YULOH_INLINE void fold_body(const SpreadArgs& a) {
  const Dense& g = *a.geometry;
  const int64_t n = g.in_channels, taps = g.taps;
  std::memset(a.scratch, 0, sizeof(float) * taps * n);
  for (int64_t q = 0; q < g.out_positions; ++q) {
    const auto* row = static_cast<const typename E::T*>(a.d) + q * g.out_channels * g.in_positions * n;
    for (int64_t p = 0; p < g.in_positions; ++p) {
      const int64_t t = g.tap_of[q * g.in_positions + p];
      if (t < 0) continue;
      YULOH_SIMD
      for (int64_t i = 0; i < n; ++i) a.scratch[t * n + i] += E::get(row[p * n + i]);
    }
  }
  auto* w = static_cast<typename E::T*>(a.w);
  for (int64_t t = 0; t < taps; ++t) {
    YULOH_SIMD
    for (int64_t i = 0; i < n; ++i) w[i * taps + t] = E::put(a.scratch[t * n + i]);
  }
}
YULOH_MULTI_ISA(spread, SpreadArgs)
YULOH_MULTI_ISA(fold, SpreadArgs)

class ConvDenseKernel final : public Kernel {
 public:
  ConvDenseKernel(const Dense& d, std::unique_ptr<Kernel> gemm) : d_(d), gemm_(std::move(gemm)) {
    size_ = static_cast<int64_t>(dtype_size(d.dtype));
    matrix_bytes_ = align(static_cast<size_t>(d.pairs() * d.in_channels * d.out_channels * size_));
    scratch_floats_ = static_cast<int64_t>(align(sizeof(float) * d.taps * d.in_channels) / sizeof(float));
    cost = gemm_->cost;
  }
  size_t workspace_bytes() const override {
    return matrix_bytes_ + sizeof(float) * kBlocks * scratch_floats_ + gemm_->workspace_bytes();
  }
  void keeps(KeptBytes* k) const override {
    k->add(sizeof *this + d_.tap_of.size() * sizeof(int64_t));
    gemm_->keeps(k);
  }
  std::string describe() const override { return "conv_dense:" + gemm_->describe(); }
  void run(void* const* ptrs) override {
    char* matrix = static_cast<char*>(ptrs[3]);
    float* scratch = reinterpret_cast<float*>(matrix + matrix_bytes_);
    void* rest = scratch + kBlocks * scratch_floats_;
    if (d_.role == Role::kGradWeight) {
      void* p[4] = {ptrs[1], ptrs[0], matrix, rest};
      gemm_->run(p);
      each_channel(static_cast<char*>(ptrs[2]), matrix, scratch,
                   d_.dtype == DType::kFloat32 ? fold<SimdF32> : fold<SimdBF16>);
    } else {
      each_channel(static_cast<char*>(ptrs[1]), matrix, scratch,
                   d_.dtype == DType::kFloat32 ? spread<SimdF32> : spread<SimdBF16>);
      void* p[4] = {ptrs[0], matrix, ptrs[2], rest};
      gemm_->run(p);
    }
  }

 private:
  static constexpr int64_t kBlocks = 16;  // chunks of output channels, each with its scratch
  static size_t align(size_t n) { return (n + 63) & ~size_t{63}; }
  void each_channel(char* w, char* matrix, float* scratch, void (*fn)(const SpreadArgs&)) const {
    const int64_t per = (d_.out_channels + kBlocks - 1) / kBlocks;
    parallel_for(kBlocks, [&](int64_t b) {
      for (int64_t o = b * per; o < std::min((b + 1) * per, d_.out_channels); ++o)
        fn({&d_, w + o * d_.in_channels * d_.taps * size_,
            matrix + o * d_.in_positions * d_.in_channels * size_, scratch + b * scratch_floats_});
    });
  }
  Dense d_;
  std::unique_ptr<Kernel> gemm_;
  int64_t size_, scratch_floats_;
  size_t matrix_bytes_;
};
}  // namespace

bool conv_dense_fits(const KernelRequest& r, std::string* why) {
  Dense d;
  return analyse(r, &d, why) && onednn::product_fits(product(d), why);
}
std::unique_ptr<Kernel> make_conv_dense(const KernelRequest& r) {
  Dense d;
  std::string why;
  if (!analyse(r, &d, &why)) return nullptr;
  auto gemm = onednn::make_product(product(d));
  return gemm ? std::make_unique<ConvDenseKernel>(d, std::move(gemm)) : nullptr;
}

}  // namespace yuloh
