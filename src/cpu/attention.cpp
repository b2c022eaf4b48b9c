// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/cpu_features.h"
#include "cpu/gemm_kernels.h"
#include "cpu/parallel.h"
#include "cpu/tile_table.h"

namespace yuloh {
namespace {
using gemm_detail::Kernels;

constexpr int64_t kQueries = tile::kLanes;  // of one block of scores

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// z (m x n) = or += x (m x k) y (k x n); y may be read up to `nr` floats past its last column.
struct Product {
  int64_t m, n, k;
  const float* x;
  int64_t x_row, x_col;
  const float* y;
  int64_t y_row, y_panel;  // y_panel: from one panel of nr columns to the next
  float* z;
  int64_t z_row;
  bool add;
};
void multiply(const Kernels& t, const Product& p) {
  const int64_t step = divide_up(p.m, divide_up(p.m, t.mr));
  gemm_detail::MicroArgs a = {};
  a.k = p.k, a.a_row = p.x_row, a.a_col = p.x_col, a.b_row = p.y_row, a.c_row = p.z_row, a.accumulate = p.add;
  for (int64_t n = 0; n < p.n; n += t.nr) {
    a.columns = static_cast<int>(std::min<int64_t>(t.nr, p.n - n));
    a.b = p.y + n / t.nr * p.y_panel;
    const auto& micro = a.columns <= t.nr / 2 ? t.half : t.micro;
    for (int64_t m = 0; m < p.m; m += step) {
      a.a = p.x + m * p.x_row, a.c = p.z + m * p.z_row + n;
      micro[std::min(step, p.m - m)](a);
    }
  }
}

// Pieces of a stretch of the plan's memory; each starts at a multiple of 64 bytes and ends with room to
// spare.
class Scratch {
 public:
  explicit Scratch(void* memory) : next_(static_cast<float*>(memory)) {}
  static size_t room(int64_t floats) { return static_cast<size_t>((floats + 15) / 16 * 16 + 64); }
  float* take(int64_t floats) {
    float* p = next_;
    next_ += room(floats);
    return p;
  }

 private:
  float* next_;
};

struct Head {  // a [batch, length, heads, width] operand, one head at a time as a dense f32 matrix
  DType dtype;
  Ints strides;
  char* at(void* base, int64_t batch, int64_t head) const {
    return static_cast<char*>(base) +
           (batch * strides[0] + head * strides[2]) * static_cast<int64_t>(dtype_size(dtype));
  }
};

class Attention : public Kernel {
 public:
  Attention(const KernelRequest& r, double products)
      : scale_(static_cast<float>(r.call.real("scale"))), causal_(r.call.flag("causal")) {
    const Shape &q = r.in[0].type.shape, &k = r.in[1].type.shape;
    batch_ = q[0], queries_ = q[1], heads_ = q[2], width_ = q[3], keys_ = k[1];
    for (const Operand& o : r.in) in_.push_back({o.type.dtype, o.strides});
    for (const Operand& o : r.out) out_.push_back({o.type.dtype, o.strides});
    double seen = 0;
    for (int64_t i = 0; i < queries_; i += kQueries) seen += static_cast<double>(rows(i) * last_key(i));
    parts_ = std::min<int64_t>(batch_ * heads_, std::max(num_threads(), default_threads()));
    cost.flops = 2 * products * seen * static_cast<double>(batch_ * heads_ * width_);
    for (const auto* v : {&r.in, &r.out})
      for (const Operand& o : *v)
        cost.bytes += static_cast<double>(numel(o.type.shape) * dtype_size(o.type.dtype));
  }
  std::string describe() const override { return cat("yuloh_attention:", isa_name(cpu_isa())); }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(parts_) * scratch_floats() * sizeof(float);
  }

 protected:
  int64_t rows(int64_t first) const { return std::min(kQueries, queries_ - first); }
  int64_t last_key(int64_t first) const { return causal_ ? std::min(keys_, first + rows(first)) : keys_; }
  virtual size_t scratch_floats() const = 0;  // for one head at a time
  // f(batch, head, scratch) for every head, in parallel. Each part has a stretch of the workspace.
  template <class F>
  void each_head(void* const* ptrs, F&& f) const {
    char* workspace = static_cast<char*>(ptrs[in_.size() + out_.size()]);
    const int64_t n = batch_ * heads_;
    parallel_for(
        parts_,
        [&](int64_t part) {
          for (int64_t i = n * part / parts_; i < n * (part + 1) / parts_; ++i) {
            Scratch s(workspace + static_cast<size_t>(part) * scratch_floats() * sizeof(float));
            f(i / heads_, i % heads_, s);
          }
        },
        cost.flops / 1e11);
  }
  // Asks for the rows of the head that this thread takes next: they lie a whole token apart, too far for the
  // hardware to see them coming.
  void fetch_next(void* const* ptrs, int i, int64_t b, int64_t h, int64_t length) const {
    if (++h == heads_) h = 0, ++b;
    if (b == batch_) return;
    const Head& o = in_[i];
    const int64_t size = static_cast<int64_t>(dtype_size(o.dtype)), bytes = width_ * size;
    if (o.strides[3] != 1) return;
    const char* row = o.at(ptrs[i], b, h);
    for (int64_t r = 0; r < length; ++r, row += o.strides[1] * size)
      for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
  }
  float* load(Scratch& scratch, void* const* ptrs, int i, int64_t b, int64_t h, int64_t length) const {
    float* out = scratch.take(length * width_);
    const Head& o = in_[i];
    table_.load[static_cast<int>(o.dtype)](out, o.at(ptrs[i], b, h), length, width_, o.strides[1],
                                           o.strides[3]);
    fetch_next(ptrs, i, b, h, length);
    return out;
  }
  void store(void* const* ptrs, int i, int64_t b, int64_t h, int64_t length, const float* from) const {
    const Head& o = out_[i];
    table_.store[static_cast<int>(o.dtype)](o.at(ptrs[in_.size() + i], b, h), from, length, width_,
                                            o.strides[1], o.strides[3]);
  }
  void times(float* x, int64_t rows, int64_t columns, const float* factor) const {  // row r by factor[r]
    table_.prim[static_cast<int>(Prim::kMul)][static_cast<int>(CType::kF32)][2](x, x, factor, nullptr, rows,
                                                                                columns);
  }
  // Rows [first, first + kQueries) of x, transposed, in panels of nr columns; 0 where there is no row.
  void transposed(const float* x, int64_t first, float* out) const {
    for (int64_t j = 0; j < kQueries; j += t_.nr) {
      const int64_t n = std::clamp<int64_t>(queries_ - first - j, 0, t_.nr);
      gemm_detail::pack(t_, x + (first + j) * width_, width_, 1, static_cast<int>(n), width_,
                        out + j * width_, t_.nr, t_.nr);
    }
  }
  // keys x kQueries: x (keys x width) times such a transpose
  void scores(const float* x, int64_t n, const float* panels, float* z) const {
    multiply(t_, {n, kQueries, width_, x, width_, 1, panels, t_.nr, t_.nr * width_, z, kQueries, false});
  }
  // queries x width: weights (keys x kQueries, transposed) times y (keys x width)
  void weighted(const float* weights, int64_t m, int64_t n, const float* y, float* z) const {
    multiply(t_, {m, width_, n, weights, 1, kQueries, y, width_, t_.nr, z, width_, false});
  }
  // keys x width: weights (keys x queries) times y (queries x width), added
  void weighted_back(const float* weights, int64_t m, int64_t n, const float* y, float* z) const {
    multiply(t_, {n, width_, m, weights, kQueries, 1, y, width_, t_.nr, z, width_, true});
  }
  int64_t diagonal(int64_t first, int64_t n) const { return causal_ ? std::min(first, n) : n; }

  const Kernels& t_ = gemm_detail::kernels();
  const tile::Table& table_ = tile::table_for(cpu_isa());
  float scale_;
  bool causal_;
  int64_t batch_, queries_, heads_, width_, keys_;
  int64_t parts_ = 1;  // threads at most: decided once, so that the plan knows the memory
  std::vector<Head> in_, out_;
};

class Forward final : public Attention {  // q, k, v -> out, lse
 public:
  explicit Forward(const KernelRequest& r) : Attention(r, 2) {}
  void run(void* const* ptrs) override {
    each_head(ptrs, [&](int64_t b, int64_t h, Scratch& scratch) {
      const int64_t Q = queries_ * width_;
      float *q = load(scratch, ptrs, 0, b, h, queries_), *k = load(scratch, ptrs, 1, b, h, keys_),
            *v = load(scratch, ptrs, 2, b, h, keys_);
      float *out = scratch.take(Q), *qt = scratch.take(kQueries * width_),
            *s = scratch.take(kQueries * keys_);
      times(q, 1, Q, &scale_);
      float* lse = static_cast<float*>(ptrs[4]) + (b * heads_ + h) * queries_;
      for (int64_t i = 0; i < queries_; i += kQueries) {
        const int64_t m = rows(i), n = last_key(i);
        float block_lse[kQueries], inverse[kQueries];
        transposed(q, i, qt);
        scores(k, n, qt, s);
        table_.attention_softmax({s, nullptr, n, diagonal(i, n), block_lse, inverse});
        weighted(s, m, n, v, out + i * width_);
        times(out + i * width_, m, width_, inverse);
        std::copy(block_lse, block_lse + m, lse + i);
      }
      store(ptrs, 0, b, h, queries_, out);
    });
  }

 protected:
  size_t scratch_floats() const override {
    return 2 * Scratch::room(queries_ * width_) + 2 * Scratch::room(keys_ * width_) +
           Scratch::room(kQueries * width_) + Scratch::room(kQueries * keys_);
  }
};

class Backward final : public Attention {  // q, k, v, out, lse, g -> dq, dk, dv
 public:
  explicit Backward(const KernelRequest& r) : Attention(r, 5) {}
  void run(void* const* ptrs) override {
    each_head(ptrs, [&](int64_t b, int64_t h, Scratch& scratch) {
      const int64_t Q = queries_ * width_, K = keys_ * width_;
      float *q = load(scratch, ptrs, 0, b, h, queries_), *k = load(scratch, ptrs, 1, b, h, keys_),
            *v = load(scratch, ptrs, 2, b, h, keys_), *out = load(scratch, ptrs, 3, b, h, queries_),
            *g = load(scratch, ptrs, 5, b, h, queries_);
      float *dq = scratch.take(Q), *dk = scratch.take(K), *dv = scratch.take(K),
            *qt = scratch.take(kQueries * width_), *gt = scratch.take(kQueries * width_),
            *s = scratch.take(kQueries * keys_), *ds = scratch.take(kQueries * keys_),
            *delta = scratch.take(queries_), *lse = scratch.take(queries_);
      times(q, 1, Q, &scale_);
      std::fill(dk, dk + K, 0.0f);
      std::fill(dv, dv + K, 0.0f);
      std::fill(delta + queries_, delta + queries_ + kQueries,
                0.0f);  // rows of the last block that do not exist
      std::fill(lse + queries_, lse + queries_ + kQueries, 0.0f);
      table_.row_dots(g, out, queries_, width_, delta);
      std::memcpy(lse, static_cast<float*>(ptrs[4]) + (b * heads_ + h) * queries_, sizeof(float) * queries_);
      for (int64_t i = 0; i < queries_; i += kQueries) {
        const int64_t m = rows(i), n = last_key(i);
        transposed(q, i, qt);
        transposed(g, i, gt);
        scores(k, n, qt, s);
        scores(v, n, gt, ds);
        table_.attention_softmax_back({s, ds, n, diagonal(i, n), lse + i, delta + i});
        weighted(ds, m, n, k, dq + i * width_);
        weighted_back(ds, m, n, q + i * width_, dk);
        weighted_back(s, m, n, g + i * width_, dv);
      }
      times(dq, 1, Q, &scale_);
      store(ptrs, 0, b, h, queries_, dq);
      store(ptrs, 1, b, h, keys_, dk);
      store(ptrs, 2, b, h, keys_, dv);
    });
  }

 protected:
  size_t scratch_floats() const override {
    return 4 * Scratch::room(queries_ * width_) + 4 * Scratch::room(keys_ * width_) +
           2 * Scratch::room(kQueries * width_) + 2 * Scratch::room(kQueries * keys_) +
           2 * Scratch::room(queries_);
  }
};
}  // namespace

bool attention_fits(const KernelRequest& r, std::string* why) {
  const DType t = r.in[0].type.dtype;
  if ((t != DType::kFloat32 && t != DType::kBFloat16) || numel(r.in[0].type.shape) == 0) {
    *why = "an operand is empty or neither float32 nor bfloat16";
    return false;
  }
  if (r.in.size() > 6) {
    *why = "log(sum(exp)) itself has a gradient";
    return false;
  }
  const Operand& lse = r.in.size() > 3 ? r.in[4] : r.out[1];
  if (!is_row_major(lse.type.shape, lse.strides)) {
    *why = "lse is not stored by rows";
    return false;
  }
  return true;
}
std::unique_ptr<Kernel> make_attention(const KernelRequest& r) { return std::make_unique<Forward>(r); }
std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& r) { return std::make_unique<Backward>(r); }
LayoutWish any_layout(const Call&) { return {}; }

}  // namespace yuloh
