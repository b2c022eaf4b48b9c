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

// R[(n, q), (t, i)] = x[n, p(q, t), i], or 0 where tap t leads outside; V[o, (t, i)] = W[o, i, t]:
//   forward y = R V^T,  weight gradient V = y^T R,
//   input gradient: y V added up over the places that R was read from.
struct Rows {
  Role role;
  DType dtype;
  Window3 w;
  int64_t batch, in_channels, out_channels, in_positions, out_positions, taps;
  std::vector<int32_t> source;  // [q][t] -> p; -1: none
  int64_t rows() const { return batch * out_positions; }
  int64_t columns() const { return taps * in_channels; }
};

void find_sources(Rows* r) {
  const Window3& w = r->w;
  r->source.assign(r->out_positions * r->taps, -1);
  for (int64_t q = 0; q < r->out_positions; ++q)
    for (int64_t t = 0; t < r->taps; ++t) {
      const int64_t o[3] = {q / (w.out[1] * w.out[2]), q / w.out[2] % w.out[1], q % w.out[2]};
      const int64_t k[3] = {t / (w.k[1] * w.k[2]), t / w.k[2] % w.k[1], t % w.k[2]};
      int64_t p = 0;
      for (int i = 0; i < 3 && p >= 0; ++i) {
        const int64_t at = o[i] * w.s[i] - w.p[i] + k[i] * w.d[i];
        p = at < 0 || at >= w.in[i] ? -1 : p * w.in[i] + at;
      }
      r->source[q * r->taps + t] = static_cast<int32_t>(p);
    }
}

// Measured on ResNet-50's 3x3 convolutions (batch 64, 2 cores with AVX-512): at most 2x2 outputs run at 80 %
// of the peak against 35-45 % in the library, whose bf16 weight gradient also loses at 4x4; elsewhere the
// library wins.
bool pays(const Rows& t) {
  return t.out_positions <= 4 ||
         (t.role == Role::kGradWeight && t.dtype == DType::kBFloat16 && t.out_positions <= 16);
}

bool analyse(const KernelRequest& r, Rows* t, std::string* why) {
  t->role = role_of(r.call);
  const Operand& x = t->role == Role::kGradInput ? r.out[0] : r.in[0];
  const Operand& wt = t->role == Role::kGradWeight ? r.out[0] : r.in[1];
  const Operand& y = t->role == Role::kForward ? r.out[0] : t->role == Role::kGradInput ? r.in[0] : r.in[1];
  const auto refuse = [why](const char* reason) {
    *why = reason;
    return false;
  };
  t->dtype = x.type.dtype;
  for (const Operand* o : {&x, &y})
    if (numel(o->type.shape) == 0 || !is_channels_last(o->type.shape, o->strides))
      return refuse("an activation is empty or not channels-last");
  if (r.call.integer("groups") != 1 || !is_row_major(wt.type.shape, wt.strides))
    return refuse("groups or a permuted weight");
  t->w = window3(window_of(r.call, spatial_of(wt.type.shape)), spatial_of(x.type.shape),
                 spatial_of(y.type.shape));
  t->batch = x.type.shape[0], t->in_channels = x.type.shape[1], t->out_channels = y.type.shape[1];
  t->in_positions = t->out_positions = t->taps = 1;
  for (int i = 0; i < 3; ++i)
    t->in_positions *= t->w.in[i], t->out_positions *= t->w.out[i], t->taps *= t->w.k[i];
  if (t->in_channels < 16) return refuse("few channels");
  if (!pays(*t)) return refuse("the spatial plane is large");
  find_sources(t);
  return true;
}

MatrixProblem product(const Rows& t) {
  const int64_t m = t.rows(), k = t.columns(), o = t.out_channels;
  const auto by_row = [](int64_t row, int64_t col = 1) { return MatrixStrides{{}, row, col}; };
  switch (t.role) {
    case Role::kForward: return {t.dtype, m, o, k, {}, by_row(k), by_row(1, k), by_row(o)};
    case Role::kGradInput: return {t.dtype, m, k, o, {}, by_row(o), by_row(k), by_row(k), true};
    default: return {t.dtype, o, k, m, {}, by_row(1, o), by_row(k), by_row(k), true};
  }
}

// Between a weight of one output channel as users see it, [in_channels][taps], and its row of V.
struct TurnArgs {
  const void* from;
  void* to;
  int64_t channels, taps;
};
template <class E>
YULOH_INLINE void turn_in_body(const TurnArgs& a) {
  const auto* from = static_cast<const typename E::T*>(a.from);
  auto* to = static_cast<typename E::T*>(a.to);
  for (int64_t i = 0; i < a.channels; ++i)
    for (int64_t t = 0; t < a.taps; ++t) to[t * a.channels + i] = from[i * a.taps + t];
}
template <class E>
YULOH_INLINE void turn_out_body(const TurnArgs& a) {
  const auto* from = static_cast<const float*>(a.from);
  auto* to = static_cast<typename E::T*>(a.to);
  for (int64_t i = 0; i < a.channels; ++i)
    for (int64_t t = 0; t < a.taps; ++t) to[i * a.taps + t] = E::put(from[t * a.channels + i]);
}
YULOH_MULTI_ISA(turn_in, TurnArgs)
YULOH_MULTI_ISA(turn_out, TurnArgs)

struct AddArgs {
  const Rows* g;
  const float* rows;  // of one image
  float* sums;        // [in_positions][in_channels], scratch
  void* x;
};
template <class E>
YULOH_INLINE void add_up_body(const AddArgs& a) {
  const Rows& g = *a.g;
  const int64_t n = g.in_channels, all = g.in_positions * n;
  std::memset(a.sums, 0, sizeof(float) * all);
  const float* from = a.rows;
  for (size_t s = 0; s < g.source.size(); ++s, from += n) {
    if (g.source[s] < 0) continue;
    float* sum = a.sums + g.source[s] * n;
    YULOH_SIMD
    for (int64_t i = 0; i < n; ++i) sum[i] += from[i];
  }
  auto* x = static_cast<typename E::T*>(a.x);
  YULOH_SIMD
  for (int64_t i = 0; i < all; ++i) x[i] = E::put(a.sums[i]);
}
YULOH_MULTI_ISA(add_up, AddArgs)

class ConvRowsKernel final : public Kernel {
 public:
  ConvRowsKernel(Rows t, std::unique_ptr<Kernel> gemm) : t_(std::move(t)), gemm_(std::move(gemm)) {
    size_ = static_cast<int64_t>(dtype_size(t_.dtype));
    const bool wide = t_.role == Role::kGradInput;  // products that are added up stay f32
    rows_bytes_ = align(t_.rows() * t_.columns() * (wide ? 4 : size_));
    weight_bytes_ = align(t_.out_channels * t_.columns() * (t_.role == Role::kGradWeight ? 4 : size_));
    if (wide) sums_bytes_ = align(t_.in_positions * t_.in_channels * 4);
    cost = gemm_->cost;
  }
  size_t workspace_bytes() const override {
    return rows_bytes_ + weight_bytes_ + kChunks * sums_bytes_ + gemm_->workspace_bytes();
  }
  void keeps(KeptBytes* k) const override {
    k->add(sizeof *this + t_.source.size() * sizeof t_.source[0]);
    gemm_->keeps(k);
  }
  std::string describe() const override { return "conv_rows:" + gemm_->describe(); }
  void run(void* const* ptrs) override {
    char *rows = static_cast<char*>(ptrs[3]), *weight = rows + rows_bytes_, *sums = weight + weight_bytes_;
    char* rest = sums + kChunks * sums_bytes_;
    if (t_.role != Role::kGradInput) gather(static_cast<const char*>(ptrs[0]), rows);
    if (t_.role != Role::kGradWeight) turn(static_cast<char*>(ptrs[1]), weight, size_, size_, true);
    void* product[3][3] = {{rows, weight, ptrs[2]}, {ptrs[0], weight, rows}, {ptrs[1], rows, weight}};
    void** p = product[static_cast<int>(t_.role)];
    void* const arguments[4] = {p[0], p[1], p[2], rest};
    gemm_->run(arguments);
    if (t_.role == Role::kGradWeight) turn(weight, static_cast<char*>(ptrs[2]), 4, size_, false);
    if (t_.role == Role::kGradInput)
      chunked(t_.batch, [&](int64_t chunk, int64_t n) {
        const AddArgs a{&t_, reinterpret_cast<const float*>(rows) + n * t_.out_positions * t_.columns(),
                        reinterpret_cast<float*>(sums + chunk * sums_bytes_),
                        static_cast<char*>(ptrs[2]) + n * t_.in_positions * t_.in_channels * size_};
        t_.dtype == DType::kFloat32 ? add_up<SimdF32>(a) : add_up<SimdBF16>(a);
      });
  }

 private:
  static constexpr int64_t kChunks = 16;
  static size_t align(int64_t n) { return (static_cast<size_t>(n) + 63) & ~size_t{63}; }
  template <class F>
  static void chunked(int64_t count, F&& f) {
    const int64_t per = (count + kChunks - 1) / kChunks;
    parallel_for(kChunks, [&](int64_t b) {
      for (int64_t i = b * per; i < std::min((b + 1) * per, count); ++i) f(b, i);
    });
  }
  void gather(const char* x, char* rows) const {
    const int64_t bytes = t_.in_channels * size_;
    chunked(t_.batch, [&](int64_t, int64_t n) {
      const char* image = x + n * t_.in_positions * bytes;
      char* to = rows + n * t_.out_positions * t_.taps * bytes;
      for (const int32_t p : t_.source) {
        if (p < 0) std::memset(to, 0, bytes);
        else std::memcpy(to, image + p * bytes, bytes);
        to += bytes;
      }
    });
  }
  void turn(char* from, char* to, int64_t from_size, int64_t to_size, bool in) const {
    const int64_t n = t_.columns();
    const bool f32 = t_.dtype == DType::kFloat32;
    const auto fn = in    ? (f32 ? turn_in<SimdF32> : turn_in<SimdBF16>)
                    : f32 ? turn_out<SimdF32>
                          : turn_out<SimdBF16>;
    chunked(t_.out_channels, [&](int64_t, int64_t o) {
      fn({from + o * n * from_size, to + o * n * to_size, t_.in_channels, t_.taps});
    });
  }

  Rows t_;
  std::unique_ptr<Kernel> gemm_;
  int64_t size_;
  size_t rows_bytes_, weight_bytes_, sums_bytes_ = 0;
};
}  // namespace

bool conv_rows_fits(const KernelRequest& r, std::string* why) {
  Rows t;
  return analyse(r, &t, why) && onednn::product_fits(product(t), why);
}
std::unique_ptr<Kernel> make_conv_rows(const KernelRequest& r) {
  Rows t;
  std::string why;
  if (!analyse(r, &t, &why)) return nullptr;
  auto gemm = onednn::make_product(product(t));
  return gemm ? std::make_unique<ConvRowsKernel>(std::move(t), std::move(gemm)) : nullptr;
}

}  // namespace yuloh
