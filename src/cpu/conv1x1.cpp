// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "cpu/conv_product.h"
#include "cpu/onednn_matmul.h"
#include "cpu/parallel.h"
#include "ops/window.h"

namespace yuloh {
namespace {

struct Pointwise {
  Role role;
  DType dtype;
  Window3 w;
  int64_t batch, in_channels, out_channels, in_positions, out_positions;
  bool gather;  // output rows are not simply the input rows
};

bool analyse(const KernelRequest& r, Pointwise* t, std::string* why) {
  t->role = role_of(r.call);
  const Operand& x = t->role == Role::kGradInput ? r.out[0] : r.in[0];
  const Operand& wt = t->role == Role::kGradWeight ? r.out[0] : r.in[1];
  const Operand& y = t->role == Role::kForward ? r.out[0] : t->role == Role::kGradInput ? r.in[0] : r.in[1];
  t->dtype = x.type.dtype;
  for (const Operand* o : {&x, &y})
    if (numel(o->type.shape) == 0 || !is_channels_last(o->type.shape, o->strides)) {
      *why = "an activation is empty or not channels-last";
      return false;
    }
  if (r.call.integer("groups") != 1 || !is_row_major(wt.type.shape, wt.strides)) {
    *why = "groups or a permuted weight";
    return false;
  }
  const Window w = window_of(r.call, spatial_of(wt.type.shape));
  t->w = window3(w, spatial_of(x.type.shape), spatial_of(y.type.shape));
  t->batch = x.type.shape[0], t->in_channels = x.type.shape[1], t->out_channels = y.type.shape[1];
  t->in_positions = t->out_positions = 1, t->gather = false;
  for (int i = 0; i < 3; ++i) {
    if (t->w.k[i] != 1 || t->w.p[i] != 0 || (t->w.out[i] - 1) * t->w.s[i] >= t->w.in[i]) {
      *why = "the kernel is not 1x1 without padding";
      return false;
    }
    t->in_positions *= t->w.in[i], t->out_positions *= t->w.out[i];
    t->gather |= t->w.out[i] != t->w.in[i];
  }
  return true;
}

MatrixStrides rows(int64_t row, int64_t col = 1) { return {{}, row, col}; }

// Forward y = x W^T, input gradient gx = g W, weight gradient gW = g^T x; W is [O, I].
MatrixProblem product(const Pointwise& t) {
  const int64_t m = t.batch * t.out_positions, i = t.in_channels, o = t.out_channels;
  switch (t.role) {
    case Role::kForward: return {t.dtype, m, o, i, {}, rows(i), rows(1, i), rows(o)};
    case Role::kGradInput: return {t.dtype, m, i, o, {}, rows(o), rows(i), rows(i)};
    default: return {t.dtype, o, i, m, {}, rows(1, o), rows(i), rows(i)};
  }
}

class Conv1x1Kernel final : public Kernel {
 public:
  Conv1x1Kernel(const Pointwise& t, std::unique_ptr<Kernel> gemm) : t_(t), gemm_(std::move(gemm)) {
    size_ = static_cast<int64_t>(dtype_size(t.dtype));
    if (t.gather)
      rows_bytes_ =
          (static_cast<size_t>(t.batch * t.out_positions * t.in_channels * size_) + 63) & ~size_t{63};
    cost = gemm_->cost;
  }
  size_t workspace_bytes() const override { return rows_bytes_ + gemm_->workspace_bytes(); }
  void keeps(KeptBytes* k) const override { k->add(sizeof *this), gemm_->keeps(k); }
  bool reads(size_t input) const override { return t_.role != Role::kForward || gemm_->reads(input); }
  std::string describe() const override {
    return cat("conv1x1", t_.gather ? "+rows" : "", ":", gemm_->describe());
  }
  void run(void* const* ptrs) override {
    char* few = static_cast<char*>(ptrs[3]);
    void* p[4] = {ptrs[0], ptrs[1], ptrs[2], few + rows_bytes_};
    if (t_.role == Role::kGradWeight) std::swap(p[0], p[1]);  // gW = g^T x: the gradient is the left operand
    if (t_.gather && t_.role != Role::kGradInput) {
      move_rows(static_cast<char*>(ptrs[0]), few, true);
      p[t_.role == Role::kForward ? 0 : 1] = few;
    }
    if (t_.gather && t_.role == Role::kGradInput) p[2] = few;
    gemm_->run(p);
    if (t_.gather && t_.role == Role::kGradInput) move_rows(static_cast<char*>(ptrs[2]), few, false);
  }

 private:
  // Copies the input rows that outputs read to `few`, or back (then all other rows become zero).
  void move_rows(char* all, char* few, bool out) const {
    const int64_t bytes = t_.in_channels * size_;
    parallel_for(t_.batch, [&](int64_t n) {
      char *a = all + n * t_.in_positions * bytes, *f = few + n * t_.out_positions * bytes;
      if (!out) std::memset(a, 0, t_.in_positions * bytes);
      const Window3& w = t_.w;
      for (int64_t i = 0; i < w.out[0]; ++i)
        for (int64_t j = 0; j < w.out[1]; ++j)
          for (int64_t k = 0; k < w.out[2]; ++k, f += bytes) {
            char* row = a + ((i * w.s[0] * w.in[1] + j * w.s[1]) * w.in[2] + k * w.s[2]) * bytes;
            std::memcpy(out ? f : row, out ? row : f, bytes);
          }
    });
  }

  Pointwise t_;
  std::unique_ptr<Kernel> gemm_;
  int64_t size_;
  size_t rows_bytes_ = 0;
};
}  // namespace

bool conv1x1_fits(const KernelRequest& r, std::string* why) {
  Pointwise t;
  if (!analyse(r, &t, why)) return false;
  return onednn::product_fits(product(t), why);
}
std::unique_ptr<Kernel> make_conv1x1(const KernelRequest& r) {
  Pointwise t;
  std::string why;
  if (!analyse(r, &t, &why)) return nullptr;
  // One that neither lies in a file nor can be computed again would be there twice: that is for small ones.
  const bool small = numel(r.in[1].type.shape) <= 1 << 16;
  FixedData* fixed = t.role == Role::kForward ? r.in[1].fixed : nullptr;
  auto gemm = onednn::make_product(
      product(t), fixed && (fixed->in_file() || fixed->computed() || small) ? fixed : nullptr);
  return gemm ? std::make_unique<Conv1x1Kernel>(t, std::move(gemm)) : nullptr;
}

}  // namespace yuloh
