// SPDX-License-Identifier: Apache-2.0
// matmul: batches broadcast, a 1-D operand acts as a row (left) or column (right) whose unit axis the result
// drops, and transposes apply to the last two axes. Gradient: two more products, summed over broadcast batch
// axes. Library kernels: cpu/onednn_matmul.cpp, cpu/gemm.cpp; the loop here is the reference and serves
// integers.
#include "ops/matmul.h"

#include "ops/fn.h"
#include "ops/host.h"
#include "ops/window.h"

namespace yuloh {

MatmulShape matmul_shape(const Call& c) {
  const Shape &x = c.type(0).shape, &y = c.type(1).shape;
  if (x.empty() || y.empty())
    value_error(c.name(), ": operands need at least one axis, got x ", x, " and y ", y, ".");
  MatmulShape s;
  s.x_vector = x.size() == 1, s.y_vector = y.size() == 1;
  s.transpose_x = !s.x_vector && c.flag("transpose_x");
  s.transpose_y = !s.y_vector && c.flag("transpose_y");
  const uint32_t rx = x.size(), ry = y.size();
  const int64_t kx = s.x_vector ? x[0] : x[rx - (s.transpose_x ? 2 : 1)];
  const int64_t ky = s.y_vector ? y[0] : y[ry - (s.transpose_y ? 1 : 2)];
  if (kx != ky)
    value_error(c.name(), ": inner extents differ, got x ", x, s.transpose_x ? " (transposed)" : "",
                " and y ", y, s.transpose_y ? " (transposed)" : "", ", that is ", kx, " against ", ky,
                "; expected equal extents. Hint: check transpose_x and transpose_y.");
  s.k = kx;
  if (!s.x_vector) s.m = x[rx - (s.transpose_x ? 1 : 2)];
  if (!s.y_vector) s.n = y[ry - (s.transpose_y ? 2 : 1)];
  const Shape bx(x.begin(), x.end() - (s.x_vector ? 1 : 2)), by(y.begin(), y.end() - (s.y_vector ? 1 : 2));
  s.batch = broadcast_shapes(c.name(), bx, by);
  return s;
}

MatrixStrides matmul_strides(const MatmulShape& s, int which, const Shape& shape, const Ints& strides) {
  MatrixStrides r;
  const bool no_row = which == 0 ? s.x_vector : which == 2 && s.x_vector;
  const bool no_col = which == 1 ? s.y_vector : which == 2 && s.y_vector;
  uint32_t used = 0;  // trailing axes that belong to the matrix
  const auto take = [&] { return strides[strides.size() - ++used]; };
  r.col = no_col ? 0 : take();
  r.row = no_row ? 0 : take();
  if ((which == 0 && s.transpose_x) || (which == 1 && s.transpose_y)) std::swap(r.row, r.col);
  r.batch = Ints(s.batch.size(), 0);
  const uint32_t have = shape.size() - used;
  for (uint32_t i = 0; i < have; ++i)
    if (shape[i] != 1) r.batch[s.batch.size() - have + i] = strides[i];
  return r;
}

namespace {

Types infer(const Call& c) {
  const DType t = c.type(0).dtype;
  if (t == DType::kBool || !dtype_has_kernels(t))
    type_error(c.name(), ": dtype is not supported, got ", t, "; expected a numeric dtype.");
  expect_same_dtype(c, 0, 1);
  const MatmulShape s = matmul_shape(c);
  TensorType r{t, s.batch};
  if (!s.x_vector) r.shape.push_back(s.m);
  if (!s.y_vector) r.shape.push_back(s.n);
  numel(r.shape);  // overflow check
  return {r};
}

// x [..., k] times one matrix y: all leading axes are rows, so that the gradient of y is one product over all
// of them instead of one per batch and a sum.
Values grad_of_flat(const MatmulShape& s, const Value& x, const Value& y, const Value& g) {
  const int64_t rows = numel(s.batch) * s.m;
  const Value fx = reshape(x, {rows, s.k}), fg = reshape(g, {rows, s.n});
  const Value gx = matmul(fg, y, false, !s.transpose_y);
  const Value gy = s.transpose_y ? matmul(fg, fx, true, false) : matmul(fx, fg, true, false);
  return {reshape(gx, x.shape()), gy};
}

Values vjp(const Call& c, const Values& gs) {
  const MatmulShape s = matmul_shape(c);
  const Value &x = c.in[0], &y = c.in[1], &g = gs[0];
  if (s.x_vector && s.y_vector) return {g * y, g * x};
  if (!s.x_vector && y.rank() == 2 && x.rank() > 2 && !s.transpose_x) return grad_of_flat(s, x, y, g);
  // Vectors become matrices first; afterwards batch axes that were broadcast are summed away.
  const Value mx = s.x_vector ? reshape(x, {1, s.k}) : x;
  const Value my = s.y_vector ? reshape(y, {s.k, 1}) : y;
  Shape full = s.batch;
  full.push_back(s.m), full.push_back(s.n);
  const Value mg = reshape(g, full);
  const Value gx =
      s.transpose_x ? matmul(my, mg, s.transpose_y, true) : matmul(mg, my, false, !s.transpose_y);
  const Value gy =
      s.transpose_y ? matmul(mg, mx, true, s.transpose_x) : matmul(mx, mg, !s.transpose_x, false);
  return {reshape(sum_to(gx, mx.shape()), x.shape()), reshape(sum_to(gy, my.shape()), y.shape())};
}

template <class Load, class Store, class Acc>
void loop(const MatmulShape& s, const MatrixStrides& x, const MatrixStrides& y, const MatrixStrides& z,
          Load load_x, Load load_y, Store store, Acc zero) {
  const int64_t batches = numel(s.batch);
  for (int64_t b = 0; b < batches; ++b) {
    int64_t ox = 0, oy = 0, oz = 0, rest = b;
    for (int i = static_cast<int>(s.batch.size()) - 1; i >= 0; --i) {
      const int64_t q = rest % s.batch[i];
      rest /= s.batch[i];
      ox += q * x.batch[i], oy += q * y.batch[i], oz += q * z.batch[i];
    }
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        Acc acc = zero;
        for (int64_t k = 0; k < s.k; ++k)
          acc += load_x(ox + i * x.row + k * x.col) * load_y(oy + k * y.row + j * y.col);
        store(oz + i * z.row + j * z.col, acc);
      }
  }
}

// float64 is what other precisions are checked against: the same sums in the same order, four rows and eight
// columns at a time over columns of y that were copied side by side (20 times as fast as the loop above).
void loop_f64(const MatmulShape& s, const MatrixStrides& x, const MatrixStrides& y, const MatrixStrides& z,
              const double* px, const double* py, double* pz) {
  constexpr int64_t kRows = 4, kColumns = 8;
  std::vector<double> panel(static_cast<size_t>(s.k * kColumns));
  const int64_t batches = numel(s.batch);
  for (int64_t b = 0; b < batches; ++b) {
    int64_t ox = 0, oy = 0, oz = 0, rest = b;
    for (int i = static_cast<int>(s.batch.size()) - 1; i >= 0; --i) {
      const int64_t q = rest % s.batch[i];
      rest /= s.batch[i];
      ox += q * x.batch[i], oy += q * y.batch[i], oz += q * z.batch[i];
    }
    for (int64_t j = 0; j < s.n; j += kColumns) {
      const int64_t columns = std::min(kColumns, s.n - j);
      for (int64_t k = 0; k < s.k; ++k)
        for (int64_t c = 0; c < kColumns; ++c)
          panel[static_cast<size_t>(k * kColumns + c)] =
              c < columns ? py[oy + k * y.row + (j + c) * y.col] : 0;
      for (int64_t i = 0; i < s.m; i += kRows) {
        const int64_t rows = std::min(kRows, s.m - i);
        double acc[kRows][kColumns] = {};
        const double* from[kRows];
        for (int64_t r = 0; r < kRows; ++r) from[r] = px + ox + (i + std::min(r, rows - 1)) * x.row;
        for (int64_t k = 0; k < s.k; ++k)
          for (int64_t r = 0; r < kRows; ++r) {
            const double v = from[r][k * x.col];
            for (int64_t c = 0; c < kColumns; ++c)
              acc[r][c] += v * panel[static_cast<size_t>(k * kColumns + c)];
          }
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) pz[oz + (i + r) * z.row + (j + c) * z.col] = acc[r][c];
      }
    }
  }
}

void host(const HostCall& h) {
  const MatmulShape s = matmul_shape(h.call);
  const MatrixStrides x = matmul_strides(s, 0, h.in[0].shape, h.in[0].strides);
  const MatrixStrides y = matmul_strides(s, 1, h.in[1].shape, h.in[1].strides);
  const MatrixStrides z = matmul_strides(s, 2, h.out[0].shape, h.out[0].strides);
  const DType t = h.in[0].dtype;
  const size_t size = dtype_size(t);
  const auto at = [size](void* p, int64_t i) {
    return static_cast<char*>(p) + i * static_cast<int64_t>(size);
  };
  if (t == DType::kFloat64 && h.out[0].dtype == t)
    return loop_f64(s, x, y, z, static_cast<const double*>(h.in[0].data),
                    static_cast<const double*>(h.in[1].data), static_cast<double*>(h.out[0].data));
  if (is_float(t)) {
    using Load = std::function<double(int64_t)>;
    const Load lx = [&](int64_t i) { return load_double(at(h.in[0].data, i), t); };
    const Load ly = [&](int64_t i) { return load_double(at(h.in[1].data, i), t); };
    loop(
        s, x, y, z, lx, ly, [&](int64_t i, double v) { store_double(at(h.out[0].data, i), t, v); }, 0.0);
    return;
  }
  using Load = std::function<uint64_t(int64_t)>;  // unsigned: overflow wraps
  const Load lx = [&](int64_t i) { return static_cast<uint64_t>(load_int(at(h.in[0].data, i), t)); };
  const Load ly = [&](int64_t i) { return static_cast<uint64_t>(load_int(at(h.in[1].data, i), t)); };
  loop(
      s, x, y, z, lx, ly,
      [&](int64_t i, uint64_t v) { store_int(at(h.out[0].data, i), t, static_cast<int64_t>(v)); },
      uint64_t{0});
}

Types infer_bias(const Call& c) {
  const Types r = infer(c);
  const TensorType& b = c.type(2);
  if (r[0].shape.size() < 2 || b.shape != Shape{r[0].shape.back()} || b.dtype != r[0].dtype)
    value_error(c.name(), ": bias does not fit, got shape ", b.shape, " and dtype ", b.dtype,
                "; expected one ", r[0].dtype, " for each column of ", r[0].shape, ".");
  return r;
}
void host_bias(const HostCall& h) {
  host(h);
  const HostOperand &b = h.in[2], &z = h.out[0];
  const size_t size = dtype_size(z.dtype);
  for (int64_t i = 0; i < z.numel(); ++i) {
    char* at = static_cast<char*>(z.data) + offset_at(z.shape, z.strides, i) * static_cast<int64_t>(size);
    const char* add =
        static_cast<const char*>(b.data) + i % b.shape[0] * b.strides[0] * static_cast<int64_t>(size);
    store_double(at, z.dtype, load_double(at, z.dtype) + load_double(add, z.dtype));
  }
}

int64_t column_axis(const Call& c) {  // the last axis of the result: axis 1 of matrices only
  return c.type(0).shape.size() != 2 || c.type(1).shape.size() != 2 ? -1 : c.flag("transpose_y") ? 0 : 1;
}

const Register rows{
    {.schema = "matmul_bias(Tensor x, Tensor y, Tensor bias, bool transpose_x=False, bool transpose_y=False) "
               "-> Tensor",
     .inner = true,
     .doc = "matmul(x, y) + bias for one floating point number a column; what plans make of the two "
            "(passes/rules.cpp).",
     .infer = infer_bias,
     .host = host_bias,
     .no_grad = true,
     .contraction = true,
     .channel_axis = column_axis},
    {.schema = "matmul(Tensor x, Tensor y, bool transpose_x=False, bool transpose_y=False) -> Tensor",
     .python = "paddle.matmul paddle.Tensor.matmul paddle.linalg.matmul",
     .doc = "Matrix product of the last two axes; leading axes broadcast, 1-D operands are vectors.",
     .infer = infer,
     .host = host,
     .vjp = vjp,
     .needs = "x y",
     .contraction = true,
     .channel_axis = column_axis},
};

}  // namespace
}  // namespace yuloh
