// SPDX-License-Identifier: Apache-2.0
// Matrix solvers, batched over leading axes, computed in double and rounded once. They are reference loops
// for the sizes that layers and scripts use (up to a few hundred rows). Gradients are written with matmul and
// the solvers themselves. Empty batches and empty matrices are fine everywhere.
#include "ops/linalg.h"

#include <algorithm>
#include <cmath>

namespace yuloh {
namespace {
using namespace linalg;

// LU with partial pivoting in place; returns the sign of the permutation, 0 when a pivot is exactly 0.
int factor_lu(Matrix& a, int64_t n, std::vector<int64_t>& perm) {
  int sign = 1;
  perm.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) perm[i] = i;
  bool singular = false;
  for (int64_t k = 0; k < n; ++k) {
    int64_t p = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::abs(a[i * n + k]) > std::abs(a[p * n + k])) p = i;
    if (a[p * n + k] == 0) {
      singular = true;
      continue;
    }
    if (p != k) {
      for (int64_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[p * n + j]);
      std::swap(perm[k], perm[p]);
      sign = -sign;
    }
    for (int64_t i = k + 1; i < n; ++i) {
      const double f = a[i * n + k] /= a[k * n + k];
      if (f != 0)
        for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
    }
  }
  return singular ? 0 : sign;
}
void solve_lu(const Matrix& lu, const std::vector<int64_t>& perm, int64_t n, Matrix& b, int64_t m) {
  Matrix x(b.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) x[i * m + j] = b[perm[i] * m + j];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < i; ++k)
      for (int64_t j = 0; j < m; ++j) x[i * m + j] -= lu[i * n + k] * x[k * m + j];
  for (int64_t i = n; i-- > 0;) {
    for (int64_t k = i + 1; k < n; ++k)
      for (int64_t j = 0; j < m; ++j) x[i * m + j] -= lu[i * n + k] * x[k * m + j];
    for (int64_t j = 0; j < m; ++j) x[i * m + j] /= lu[i * n + i];
  }
  b = std::move(x);
}
[[noreturn]] void singular(std::string_view op, int64_t batch) {
  value_error(op, ": the matrix is singular (batch ", batch, "); expected an invertible matrix.");
}

void host_solve(const HostCall& h) {
  const int64_t n = rows(h.in[0].shape), m = cols(h.in[1].shape);
  for (int64_t b = 0; b < batches(h.in[0]); ++b) {
    Matrix a = read(h.in[0], b), x = read(h.in[1], b);
    std::vector<int64_t> perm;
    if (n && factor_lu(a, n, perm) == 0) singular(h.call.str("who"), b);
    if (n) solve_lu(a, perm, n, x, m);
    write(h.out[0], b, x);
  }
}
void host_triangular(const HostCall& h) {
  const bool upper = h.call.flag("upper"), unit = h.call.flag("unitriangular");
  const int64_t n = rows(h.in[0].shape), m = cols(h.in[1].shape);
  for (int64_t b = 0; b < batches(h.in[0]); ++b) {
    const Matrix a = read(h.in[0], b);
    Matrix x = read(h.in[1], b);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step;
      for (int64_t k = upper ? i + 1 : 0; k < (upper ? n : i); ++k)
        for (int64_t j = 0; j < m; ++j) x[i * m + j] -= a[i * n + k] * x[k * m + j];
      if (!unit)
        for (int64_t j = 0; j < m; ++j) x[i * m + j] /= a[i * n + i];
    }
    write(h.out[0], b, x);
  }
}
void host_cholesky(const HostCall& h) {
  const int64_t n = rows(h.in[0].shape);
  for (int64_t b = 0; b < batches(h.in[0]); ++b) {
    const Matrix a = read(h.in[0], b);
    Matrix l(a.size(), 0);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double s = a[i * n + j];
        for (int64_t k = 0; k < j; ++k) s -= l[i * n + k] * l[j * n + k];
        if (i == j && !(s > 0))
          value_error("cholesky: the matrix is not positive definite, got pivot ", s, " in row ", i,
                      " (batch ", b, ").");
        l[i * n + j] = i == j ? std::sqrt(s) : s / l[j * n + j];
      }
    write(h.out[0], b, l);
  }
}
void host_slogdet(const HostCall& h) {
  const int64_t n = rows(h.in[0].shape);
  for (int64_t b = 0; b < batches(h.in[0]); ++b) {
    Matrix a = read(h.in[0], b);
    std::vector<int64_t> perm;
    double sign = n ? factor_lu(a, n, perm) : 1, log = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double d = a[i * n + i];
      if (d < 0) sign = -sign;
      log += std::log(std::abs(d));
    }
    if (sign == 0) log = -INFINITY;
    write(h.out[0], b, {sign});
    write(h.out[1], b, {log});
  }
}
void host_lu(const HostCall& h) {
  const int64_t n = rows(h.in[0].shape);
  for (int64_t b = 0; b < batches(h.in[0]); ++b) {
    Matrix a = read(h.in[0], b);
    std::vector<int64_t> perm, at(static_cast<size_t>(n));
    factor_lu(a, n, perm);
    write(h.out[0], b, a);
    for (int64_t i = 0; i < n; ++i) at[i] = i;  // the permutation as successive row exchanges, counted from 1
    for (int64_t i = 0; i < n; ++i) {
      int64_t p = i;
      while (at[p] != perm[i]) ++p;
      std::swap(at[i], at[p]);
      h.out[1].as<int32_t>()[b * n + i] = static_cast<int32_t>(p + 1);
    }
  }
}

// ---- types and gradients ----
Value solve(const Value& a, const Value& b) { return call("solve_core", {a, b}, {{"who", "solve"}}); }
Types infer_solve(const Call& c) {
  require_matrix(c, 0, true), require_matrix(c, 1, false);
  const Shape &a = c.type(0).shape, &b = c.type(1).shape;
  if (!(batch_of(a) == batch_of(b)) || rows(a) != rows(b))
    value_error(c.name(), ": shapes do not fit, got ", a, " and ", b, "; expected equal batches and rows.");
  return {c.type(1)};
}
Values solve_vjp(const Call& c, const Values& g) {
  const Value gb = solve(t(c["x"]), g[0]);
  return {-matmul(gb, c.out(), false, true), gb};
}
Values triangular_vjp(const Call& c, const Values& g) {
  const bool upper = c.flag("upper"), unit = c.flag("unitriangular");
  const Value gb = call("triangular_core", {t(c["x"]), g[0]}, {{"upper", !upper}, {"unitriangular", unit}});
  const Value ga = -matmul(gb, c.out(), false, true);
  return {call(upper ? "triu" : "tril", {ga}, {{"diagonal", unit ? (upper ? 1 : -1) : 0}}), gb};
}
// With S = L^T gL, P = tril(S) with halved diagonal: gA = L^-T P L^-1, symmetrised.
Values cholesky_vjp(const Call& c, const Values& g) {
  const Value l = c.out(), s = matmul(l, tril(g[0], 0), true, false);
  const Value p = tril(s, 0) - s * eye_like(s) * 0.5;
  const Value left = call("triangular_core", {t(l), p}, {{"upper", true}, {"unitriangular", false}});
  const Value both = t(call("triangular_core", {t(l), t(left)}, {{"upper", true}, {"unitriangular", false}}));
  return {(both + t(both)) * 0.5};
}
Types infer_slogdet(const Call& c) {
  require_matrix(c, 0, true);
  const Shape b = batch_of(c.type(0).shape);
  return {{c.type(0).dtype, b}, {c.type(0).dtype, b}};
}
Values slogdet_vjp(const Call& c, const Values& g) {
  if (!g[1]) return {Value()};
  const Value inv_t = solve(t(c["x"]), broadcast_to(eye_like(c["x"]), c["x"].shape()));
  return {inv_t * column(column(g[1]))};
}
const Register factorisations{
    {.schema = "solve_core(Tensor x, Tensor y, str who) -> Tensor",
     .doc = "z with x z = y for square x and equal batches; a singular x raises ValueError.",
     .infer = infer_solve,
     .host = host_solve,
     .vjp = solve_vjp,
     .needs = "x out",
     .checks = true},
    {.schema = "triangular_core(Tensor x, Tensor y, bool upper, bool unitriangular) -> Tensor",
     .doc = "z with x z = y for triangular x and equal batches.",
     .infer = infer_solve,
     .host = host_triangular,
     .vjp = triangular_vjp,
     .needs = "x out"},
    {.schema = "cholesky_lower(Tensor x) -> Tensor",
     .doc = "Lower triangular L with L L^T = x; a matrix that is not positive definite raises ValueError.",
     .infer = [](const Call& c) -> Types { return require_matrix(c, 0, true), Types{c.type(0)}; },
     .host = host_cholesky,
     .vjp = cholesky_vjp,
     .needs = "out",
     .checks = true},
    {.schema = "slogdet_core(Tensor x) -> Tensor, Tensor",
     .doc = "Sign and logarithm of the absolute determinant.",
     .infer = infer_slogdet,
     .host = host_slogdet,
     .vjp = slogdet_vjp,
     .needs = "x"},
    {.schema = "lu_core(Tensor x) -> Tensor, Tensor",
     .doc = "LU factors in one matrix and the row exchanges, counted from 1.",
     .infer = [](const Call& c) -> Types {
       require_matrix(c, 0, true);
       return {c.type(0), {DType::kInt32, with_last(batch_of(c.type(0).shape), {rows(c.type(0).shape)})}};
     },
     .host = host_lu,
     .no_grad = true},
};
}  // namespace
}  // namespace yuloh
