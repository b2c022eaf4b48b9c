// SPDX-License-Identifier: Apache-2.0
#include "cpu/gemm.h"

#include <algorithm>

#include "cpu/cpu_features.h"
#include "cpu/gemm_kernels.h"
#include "cpu/parallel.h"

namespace yuloh {
namespace gemm_detail {

const Kernels& kernels() {
  switch (cpu_isa()) {
    case Isa::kAvx512: return kernels_avx512();
    case Isa::kAvx2: return kernels_avx2();
    default: return kernels_portable();
  }
}

namespace {
void pack_generic(const float* s, int64_t r_stride, int64_t k_stride, int rows, int64_t k, float* out,
                  int64_t stride, int width) {
  for (int64_t q = 0; q < k; ++q)
    for (int r = 0; r < width; ++r) out[q * stride + r] = r < rows ? s[r * r_stride + q * k_stride] : 0.0f;
}
}  // namespace
void pack(const Kernels& t, const float* s, int64_t r_stride, int64_t k_stride, int rows, int64_t k,
          float* out, int64_t stride, int width) {
  if (r_stride == 1) t.pack_rows(s, k_stride, rows, k, out, stride, width);
  else if (k_stride == 1) t.pack_transposed(s, r_stride, rows, k, out, stride, width);
  else pack_generic(s, r_stride, k_stride, rows, k, out, stride, width);
}

}  // namespace gemm_detail

namespace {
using gemm_detail::kernels;
using gemm_detail::Kernels;
using gemm_detail::MicroArgs;

constexpr int64_t kBlockK = 256;  // a packed panel of y (256 x 32 floats) fills two thirds of a 48 kB L1
constexpr int64_t kBlockM = 168;  // 12 micro-tiles of rows; packed x (168 x 256 floats) stays in L2
constexpr int64_t kPanelX = 16;   // distance of k steps in packed x: 14 rows used of 16
constexpr int64_t kBlockN = 512;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
// The block size <= most that divides n most evenly, a multiple of unit.
int64_t even_block(int64_t n, int64_t most, int64_t unit) {
  const int64_t blocks = std::max<int64_t>(1, divide_up(n, most));
  return std::max(unit, divide_up(divide_up(n, blocks), unit) * unit);
}

// How z is cut; by shape only.
struct Cut {
  int64_t m, n, k;  // block sizes
  int64_t m_blocks, n_blocks;
  bool pack_x, pack_y;
};
// Rows a multiple of 2 KiB apart fall on the same few cache sets.
bool conflicts(int64_t stride) { return stride * 4 % 2048 == 0; }

Cut cut_of(const GemmProblem& p, const Kernels& t) {
  Cut c;
  c.k = p.k <= kBlockK + kBlockK / 2 ? p.k : even_block(p.k, kBlockK, 8);
  c.m = even_block(p.m, kBlockM, t.mr);
  c.n = even_block(p.n, kBlockN, t.nr);
  // At least 4 tasks where each still has some 100,000 multiplications.
  const auto tasks = [&] { return divide_up(p.m, c.m) * divide_up(p.n, c.n); };
  const int64_t wanted = std::clamp<int64_t>(p.m * p.n * p.k / 100000, 1, 4);
  while (tasks() < wanted && c.n > 2 * t.nr) c.n = divide_up(c.n / 2, t.nr) * t.nr;
  while (tasks() < wanted && c.m > 2 * t.mr) c.m = divide_up(c.m / 2, t.mr) * t.mr;
  c.m_blocks = divide_up(p.m, c.m), c.n_blocks = divide_up(p.n, c.n);
  const bool x_strided = p.x_row != 1 && p.x_col != 1;
  c.pack_x = c.n > 2 * t.nr && (x_strided || p.x_row == 1 || (conflicts(p.x_row) && p.m > 8));
  c.pack_y = p.y_col != 1 || c.m > 2 * t.mr;
  return c;
}

// Packing buffers, one pair per thread for its life: 32 kB + 168 kB and some.
struct Buffers {
  std::vector<float> memory;
  float* get(size_t floats) {
    if (memory.size() < floats + 16) memory.resize(floats + 16);
    return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63});
  }
};
thread_local Buffers x_buffer, y_buffer;

class Block {  // one task: rows [m0, m1) x columns [n0, n1) of z over all k
 public:
  Block(const GemmProblem& p, const Kernels& t, const Cut& c, int64_t task) : p_(p), t_(t), c_(c) {
    m0_ = task % c.m_blocks * c.m, m1_ = std::min(m0_ + c.m, p.m);
    n0_ = task / c.m_blocks * c.n, n1_ = std::min(n0_ + c.n, p.n);
    step_ = divide_up(m1_ - m0_, divide_up(m1_ - m0_, t.mr));  // 64 rows: 13 13 13 13 12, not 14 14 14 14 8
  }
  void run() {
    for (int64_t k0 = 0; k0 < p_.k; k0 += c_.k) {
      const int64_t kn = std::min(c_.k, p_.k - k0);
      const float* packed = c_.pack_x ? pack_rows_of_x(k0, kn) : nullptr;
      int64_t n = n0_;
      if (m1_ - m0_ == 1 && !c_.pack_y)
        for (; n + 4 * t_.nr <= n1_; n += 4 * t_.nr) wide_columns(n, k0, kn);
      for (; n < n1_; n += t_.nr) columns(n, k0, kn, packed);
    }
  }

 private:
  const float* pack_rows_of_x(int64_t k0, int64_t kn) {
    float* out = x_buffer.get(divide_up(m1_ - m0_, step_) * kn * kPanelX);
    for (int64_t m = m0_; m < m1_; m += step_)
      gemm_detail::pack(t_, p_.x + m * p_.x_row + k0 * p_.x_col, p_.x_row, p_.x_col,
                        static_cast<int>(m1_ - m < step_ ? m1_ - m : step_), kn,
                        out + (m - m0_) / step_ * kn * kPanelX, kPanelX, kPanelX);
    return out;
  }
  MicroArgs panel(int64_t n, int64_t k0, int64_t kn) const {
    MicroArgs a = {};
    a.k = kn;
    a.accumulate = k0 > 0, a.last = k0 + kn == p_.k;
    a.relu = p_.epilogue.relu, a.add_row = p_.epilogue.add_stride, a.c_row = p_.z_row;
    if (p_.epilogue.bias) a.bias = p_.epilogue.bias + n;
    a.b = p_.y + k0 * p_.y_row + n * p_.y_col, a.b_row = p_.y_row;
    return a;
  }
  void columns(int64_t n, int64_t k0, int64_t kn, const float* packed) {
    MicroArgs a = panel(n, k0, kn);
    a.columns = static_cast<int>(std::min<int64_t>(t_.nr, n1_ - n));
    const bool half = a.columns <= t_.nr / 2;
    const int width = half ? t_.nr / 2 : t_.nr;
    if (c_.pack_y || a.columns < width) {
      float* out = y_buffer.get(kn * width);
      gemm_detail::pack(t_, a.b, p_.y_col, p_.y_row, a.columns, kn, out, width, width);
      a.b = out, a.b_row = width;
    }
    for (int64_t m = m0_; m < m1_; m += step_) {
      if (packed) a.a = packed + (m - m0_) / step_ * kn * kPanelX, a.a_row = 1, a.a_col = kPanelX;
      else a.a = p_.x + m * p_.x_row + k0 * p_.x_col, a.a_row = p_.x_row, a.a_col = p_.x_col;
      a.c = p_.z + m * p_.z_row + n;
      if (p_.epilogue.add) a.add = p_.epilogue.add + m * a.add_row + n;
      const int64_t rows = m1_ - m < step_ ? m1_ - m : step_;
      (half ? t_.half : t_.micro)[rows](a);
    }
  }
  // A single row times an unpacked matrix.
  void wide_columns(int64_t n, int64_t k0, int64_t kn) {
    MicroArgs a = panel(n, k0, kn);
    a.columns = 4 * t_.nr;
    a.a = p_.x + m0_ * p_.x_row + k0 * p_.x_col, a.a_row = p_.x_row, a.a_col = p_.x_col;
    a.c = p_.z + m0_ * p_.z_row + n;
    if (p_.epilogue.add) a.add = p_.epilogue.add + m0_ * a.add_row + n;
    t_.wide(a);
  }
  const GemmProblem& p_;
  const Kernels& t_;
  const Cut& c_;
  int64_t m0_ = 0, m1_ = 0, n0_ = 0, n1_ = 0, step_ = 1;
};

// z[i] = x[i, :] . y for rows with unit k stride on both sides.
void dots(const GemmProblem& p, const Kernels& t) {
  const int64_t rows = std::max<int64_t>(1, 65536 / std::max<int64_t>(p.k, 1));
  parallel_for(divide_up(p.m, rows), [&](int64_t task) {
    for (int64_t i = task * rows; i < std::min(p.m, (task + 1) * rows); ++i) {
      float v = t.dot(p.x + i * p.x_row, p.y, p.k);
      const GemmEpilogue& e = p.epilogue;
      if (e.bias) v += e.bias[0];
      if (e.add) v += e.add[i * e.add_stride];
      p.z[i * p.z_row] = e.relu && v < 0 ? 0.0f : v;
    }
  });
}
}  // namespace

void gemm(const GemmProblem& p) {
  const Kernels& t = kernels();
  if (p.n == 1 && p.x_col == 1 && p.y_row == 1) return dots(p, t);
  const Cut c = cut_of(p, t);
  parallel_for(c.m_blocks * c.n_blocks, [&](int64_t task) { Block(p, t, c, task).run(); });
}

namespace {
// The same product read the other way round: z^T = y^T x^T. Wanted when z is stored by columns, for a row
// vector times a matrix stored by columns, and for a matrix stored by columns times a vector.
bool want_swap(const MatrixProblem& p) {
  if (p.z.col != 1 && p.n != 1) return true;
  if (p.m == 1 && p.n != 1 && p.y.row == 1 && p.y.col != 1) return true;
  return p.n == 1 && p.m != 1 && p.x.row == 1 && p.x.col != 1;
}
MatrixProblem swapped(const MatrixProblem& p) {
  MatrixProblem q = p;
  std::swap(q.m, q.n);
  std::swap(q.x, q.y);
  for (MatrixStrides* s : {&q.x, &q.y, &q.z}) std::swap(s->row, s->col);
  return q;
}

class GemmKernel final : public Kernel {
 public:
  explicit GemmKernel(const MatrixProblem& p) : swap_(want_swap(p)), p_(swap_ ? swapped(p) : p) {
    cost = p.cost();
    if (p_.n == 1) p_.z.col = 1;
    if (p_.n == 1 && p_.k > 1 && p_.y.row != 1 && p_.x.col == 1) pack_vector_ = true;
  }
  size_t workspace_bytes() const override {
    return pack_vector_ ? sizeof(float) * static_cast<size_t>(p_.k) : 0;
  }
  std::string describe() const override { return cat("yuloh_gemm:", isa_name(cpu_isa())); }
  void run(void* const* ptrs) override {
    const float *x = static_cast<const float*>(ptrs[swap_ ? 1 : 0]),
                *y = static_cast<const float*>(ptrs[swap_ ? 0 : 1]);
    const float* bias = p_.bias ? static_cast<const float*>(ptrs[2]) : nullptr;
    if (bias) ++ptrs;
    float* z = static_cast<float*>(ptrs[2]);
    const int64_t batches = p_.batches();
    const bool small = p_.m * p_.n * p_.k < 200000;  // then batches are the tasks
    if (batches > 1 && small) {
      const int64_t per = std::max<int64_t>(1, 100000 / std::max<int64_t>(1, p_.m * p_.n * p_.k));
      parallel_for((batches + per - 1) / per, [&](int64_t task) {
        for (int64_t b = task * per; b < std::min(batches, (task + 1) * per); ++b)
          one(x, y, z, b, ptrs[3], bias);
      });
      return;
    }
    for (int64_t b = 0; b < batches; ++b) one(x, y, z, b, ptrs[3], bias);
  }

 private:
  void one(const float* x, const float* y, float* z, int64_t batch, void* work, const float* bias) const {
    int64_t ox = 0, oy = 0, oz = 0;
    for (int i = static_cast<int>(p_.batch.size()) - 1; i >= 0; --i) {
      const int64_t q = batch % p_.batch[i];
      batch /= p_.batch[i];
      ox += q * p_.x.batch[i], oy += q * p_.y.batch[i], oz += q * p_.z.batch[i];
    }
    GemmProblem g{p_.m,     p_.n,     p_.k,     x + ox,   y + oy,   z + oz,
                  p_.x.row, p_.x.col, p_.y.row, p_.y.col, p_.z.row, {bias, nullptr, 0, false}};
    if (pack_vector_ && p_.batch.empty()) {
      float* v = static_cast<float*>(work);
      for (int64_t i = 0; i < p_.k; ++i) v[i] = g.y[i * p_.y.row];
      g.y = v, g.y_row = 1;
    }
    if (p_.k == 1) g.x_col = 1, g.y_row = 1;
    gemm(g);
  }
  bool swap_;
  MatrixProblem p_;
  bool pack_vector_ = false;
};
}  // namespace

bool own_product_fits(const MatrixProblem& p, std::string* why) {
  if (p.dtype != DType::kFloat32) {
    *why = cat("dtype ", p.dtype);
    return false;
  }
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.batches() == 0) {
    *why = "an operand is empty";
    return false;
  }
  if (p.z.col != 1 && p.z.row != 1 && p.n != 1 && p.m != 1) {
    *why = "the result has no unit stride";
    return false;
  }
  if (p.bias && want_swap(p)) {
    *why = "the bias would run along the rows";
    return false;
  }
  return true;
}
std::unique_ptr<Kernel> make_own_product(const MatrixProblem& p) { return std::make_unique<GemmKernel>(p); }

bool own_product_is_faster(const MatrixProblem& p) {
  // Measured: vectors, few rows on a matrix stored by rows that fits a cache (no packing: 1.8 times faster),
  // and products too small for the library's overhead. Everywhere else the library is 0 to 15 % ahead.
  if (p.m == 1 || p.n == 1) return true;
  if (p.m <= 8 && p.y.col == 1 && p.n * p.k <= (1 << 20)) return true;
  return p.batches() * p.m * p.n * p.k <= 400000;
}

bool gemm_fits(const KernelRequest& r, std::string* why) {
  if (r.in.size() > 2 && r.in[2].strides[0] != 1) {
    *why = "the bias is strided";
    return false;
  }
  return own_product_fits(matrix_problem(r), why);
}
bool gemm_faster_fits(const KernelRequest& r, std::string* why) {
  const MatrixProblem p = matrix_problem(r);
  if (!own_product_fits(p, why)) return false;
  if (own_product_is_faster(p)) return true;
  *why = "the library is faster on this shape";
  return false;
}
std::unique_ptr<Kernel> make_gemm(const KernelRequest& r) { return make_own_product(matrix_problem(r)); }

}  // namespace yuloh
