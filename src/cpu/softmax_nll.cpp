// SPDX-License-Identifier: Apache-2.0
#include "cpu/softmax_nll.h"

#include <algorithm>
#include <cstring>

#include "cpu/cpu_features.h"
#include "cpu/parallel.h"
#include "cpu/tile_table.h"

namespace yuloh {
namespace {

constexpr int64_t kFewClasses = 256;  // below, rows are short and the tile program of the body is as good

bool bf16(const Operand& o) { return o.type.dtype == DType::kBFloat16; }

class NllKernel : public Kernel {
 public:
  explicit NllKernel(const KernelRequest& r)
      : x_bf16_(bf16(r.in[0])), out_bf16_(bf16(r.out[0])), ignore_(r.call.integer("ignore_index")) {
    const Shape& s = r.in[0].type.shape;
    classes_ = s[s.size() - 1], rows_ = numel(s) / classes_;
    cost.flops = 4.0 * static_cast<double>(rows_ * classes_);
    for (const auto* v : {&r.in, &r.out})
      for (const Operand& o : *v)
        cost.bytes += static_cast<double>(numel(o.type.shape) * dtype_size(o.type.dtype));
  }
  std::string describe() const override { return cat("yuloh_nll:", isa_name(cpu_isa())); }

 protected:
  template <class F>
  void each_row(F&& f) const {
    const int64_t per = std::max<int64_t>(1, 16384 / classes_);
    parallel_for((rows_ + per - 1) / per, [&](int64_t task) {
      for (int64_t r = task * per; r < std::min(rows_, (task + 1) * per); ++r) f(r);
    });
  }
  const char* row(const void* x, int64_t r) const {
    return static_cast<const char*>(x) + r * classes_ * (x_bf16_ ? 2 : 4);
  }
  float at(const void* x, int64_t r, int64_t k) const {
    if (x_bf16_) return bf16_to_float(static_cast<const uint16_t*>(x)[r * classes_ + k]);
    return static_cast<const float*>(x)[r * classes_ + k];
  }
  const tile::Table& table_ = tile::table_for(cpu_isa());
  bool x_bf16_, out_bf16_;
  int64_t ignore_, classes_, rows_;
};

class Forward final : public NllKernel {  // x, label -> nll, lse
 public:
  using NllKernel::NllKernel;
  void run(void* const* ptrs) override {
    const auto* label = static_cast<const int64_t*>(ptrs[1]);
    auto *nll = static_cast<float*>(ptrs[2]), *lse = static_cast<float*>(ptrs[3]);
    each_row([&](int64_t r) {
      table_.nll_lse[x_bf16_](row(ptrs[0], r), classes_, lse + r);
      const int64_t k = label[r];
      nll[r] = k >= 0 && k < classes_ ? lse[r] - at(ptrs[0], r, k) : 0.0f;
    });
  }
};

class Backward final : public NllKernel {  // x, label, lse, g -> dx
 public:
  using NllKernel::NllKernel;
  bool may_overwrite(size_t in, size_t) const override { return in == 0; }  // dx over x
  void run(void* const* ptrs) override {
    const auto* label = static_cast<const int64_t*>(ptrs[1]);
    const auto *lse = static_cast<const float*>(ptrs[2]), *g = static_cast<const float*>(ptrs[3]);
    const int64_t bytes = classes_ * (out_bf16_ ? 2 : 4);
    each_row([&](int64_t r) {
      char* out = static_cast<char*>(ptrs[4]) + r * bytes;
      if (label[r] == ignore_ || g[r] == 0.0f) return (void)std::memset(out, 0, static_cast<size_t>(bytes));
      table_.nll_dx[x_bf16_][out_bf16_](row(ptrs[0], r), classes_, lse[r], g[r], label[r], out);
    });
  }
};
}  // namespace

bool softmax_nll_fits(const KernelRequest& r, std::string* why) {
  const TensorType& x = r.in[0].type;
  const int64_t rank = x.shape.size(), axis = r.call.integer("axis");
  if (axis != rank - 1 && axis != -1) {
    *why = "the classes are not the last axis";
    return false;
  }
  if (numel(x.shape) == 0 || x.shape[rank - 1] < kFewClasses) {
    *why = "few classes";
    return false;
  }
  const auto real = [](DType t) { return t == DType::kFloat32 || t == DType::kBFloat16; };
  bool right = real(x.dtype) && r.in[1].type.dtype == DType::kInt64;
  if (r.in.size() == 2) right = right && r.out[0].type.dtype == DType::kFloat32;
  else
    right = right && real(r.out[0].type.dtype) && r.in[2].type.dtype == DType::kFloat32 &&
            r.in[3].type.dtype == DType::kFloat32;
  for (const auto* v : {&r.in, &r.out})
    for (const Operand& o : *v) right = right && is_row_major(o.type.shape, o.strides);
  if (!right) *why = "dtypes, or operands not stored by rows";
  return right;
}
std::unique_ptr<Kernel> make_softmax_nll(const KernelRequest& r) { return std::make_unique<Forward>(r); }
std::unique_ptr<Kernel> make_softmax_nll_dx(const KernelRequest& r) { return std::make_unique<Backward>(r); }

}  // namespace yuloh
