// SPDX-License-Identifier: Apache-2.0
// Matrix decompositions: QR, symmetric eigenvalues, thin SVD; batched, computed in double and rounded once.
#include <algorithm>
#include <cmath>

#include "ops/linalg.h"

namespace yuloh {
namespace {
using namespace linalg;

// Householder reflections; q is rows x k, r is k x cols with k = min(rows, cols). Diagonal signs as LAPACK
// leaves them.
void host_qr(const HostCall& h) {
  const int64_t m = rows(h.in[0].shape), n = cols(h.in[0].shape), k = cols(h.out[0].shape);
  for (int64_t b = 0; b < batches(h.in[0]); ++b) {
    Matrix a = read(h.in[0], b), q(static_cast<size_t>(m * k), 0);
    std::vector<std::vector<double>> vs;
    for (int64_t j = 0; j < std::min(m, n); ++j) {
      std::vector<double> v(static_cast<size_t>(m), 0);
      double norm = 0, tail = 0;
      for (int64_t i = j; i < m; ++i) v[i] = a[i * n + j], norm += v[i] * v[i];
      for (int64_t i = j + 1; i < m; ++i) tail += v[i] * v[i];
      if (tail == 0) norm = 0;  // already upper: no reflection, as LAPACK
      if (norm > 0) {
        v[j] += (v[j] > 0 ? 1 : -1) * std::sqrt(norm);
        double vv = 0;
        for (int64_t i = j; i < m; ++i) vv += v[i] * v[i];
        for (double& x : v) x /= std::sqrt(vv);
        for (int64_t c = j; c < n; ++c) {
          double dot = 0;
          for (int64_t i = j; i < m; ++i) dot += v[i] * a[i * n + c];
          for (int64_t i = j; i < m; ++i) a[i * n + c] -= 2 * dot * v[i];
        }
      } else {
        std::fill(v.begin(), v.end(), 0.0);
      }
      vs.push_back(std::move(v));
    }
    for (int64_t i = 0; i < k; ++i) q[i * k + i] = 1;
    for (size_t j = vs.size(); j-- > 0;)
      for (int64_t c = 0; c < k; ++c) {
        double dot = 0;
        for (int64_t i = 0; i < m; ++i) dot += vs[j][i] * q[i * k + c];
        for (int64_t i = 0; i < m; ++i) q[i * k + c] -= 2 * dot * vs[j][i];
      }
    Matrix r(static_cast<size_t>(k * n), 0);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i; j < n; ++j) r[i * n + j] = a[i * n + j];
    write(h.out[0], b, q);
    write(h.out[1], b, r);
  }
}

// Symmetric eigenvalues by cyclic Jacobi rotations, ascending; columns of v are the vectors.
void jacobi(Matrix& a, Matrix& v, int64_t n) {
  v.assign(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i) v[i * n + i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, diag = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) (i == j ? diag : off) += a[i * n + j] * a[i * n + j];
    if (!(off > 1e-32 * (diag + off))) break;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1)),
                     c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int64_t k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y, a[k * n + q] = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y, a[q * n + k] = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = v[k * n + p], y = v[k * n + q];
          v[k * n + p] = c * x - s * y, v[k * n + q] = s * x + c * y;
        }
      }
  }
}
void host_eigh(const HostCall& h) {
  const int64_t n = rows(h.in[0].shape);
  const bool lower = h.call.str("UPLO") == "L";
  for (int64_t b = 0; b < batches(h.in[0]); ++b) {
    Matrix a = read(h.in[0], b), v;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < i; ++j)
        (lower ? a[j * n + i] : a[i * n + j]) = lower ? a[i * n + j] : a[j * n + i];
    jacobi(a, v, n);
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return a[i * n + i] < a[j * n + j]; });
    Matrix w(static_cast<size_t>(n)), u(v.size());
    for (int64_t i = 0; i < n; ++i) {
      w[i] = a[order[i] * n + order[i]];
      for (int64_t k = 0; k < n; ++k) u[k * n + i] = v[k * n + order[i]];
    }
    write(h.out[0], b, w);
    write(h.out[1], b, u);
  }
}
// Thin SVD by one-sided Jacobi on the taller side; singular values descending.
void host_svd(const HostCall& h) {
  const int64_t m = rows(h.in[0].shape), n = cols(h.in[0].shape), k = std::min(m, n), tall = std::max(m, n);
  for (int64_t b = 0; b < batches(h.in[0]); ++b) {
    const Matrix a = read(h.in[0], b);
    Matrix u(static_cast<size_t>(tall * k)), v(static_cast<size_t>(k * k), 0);
    for (int64_t i = 0; i < tall; ++i)
      for (int64_t j = 0; j < k; ++j) u[i * k + j] = m >= n ? a[i * n + j] : a[j * n + i];
    for (int64_t i = 0; i < k; ++i) v[i * k + i] = 1;
    for (int sweep = 0; sweep < 60; ++sweep) {
      bool rotated = false;
      for (int64_t p = 0; p < k; ++p)
        for (int64_t q = p + 1; q < k; ++q) {
          double alpha = 0, beta = 0, gamma = 0;
          for (int64_t i = 0; i < tall; ++i)
            alpha += u[i * k + p] * u[i * k + p], beta += u[i * k + q] * u[i * k + q],
                gamma += u[i * k + p] * u[i * k + q];
          if (gamma == 0 || std::abs(gamma) <= 1e-15 * std::sqrt(alpha * beta)) continue;
          rotated = true;
          const double zeta = (beta - alpha) / (2 * gamma);
          const double t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta)),
                       c = 1 / std::sqrt(1 + t * t), s = c * t;
          auto turn = [&](Matrix& w, int64_t count) {
            for (int64_t i = 0; i < count; ++i) {
              const double x = w[i * k + p], y = w[i * k + q];
              w[i * k + p] = c * x - s * y, w[i * k + q] = s * x + c * y;
            }
          };
          turn(u, tall), turn(v, k);
        }
      if (!rotated) break;
    }
    std::vector<double> sv(static_cast<size_t>(k), 0);
    for (int64_t j = 0; j < k; ++j) {
      for (int64_t i = 0; i < tall; ++i) sv[j] += u[i * k + j] * u[i * k + j];
      sv[j] = std::sqrt(sv[j]);
    }
    std::vector<int64_t> order(static_cast<size_t>(k));
    for (int64_t i = 0; i < k; ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return sv[i] > sv[j]; });
    Matrix left(static_cast<size_t>(tall * k), 0), right(static_cast<size_t>(k * k)),
        s(static_cast<size_t>(k));
    for (int64_t j = 0; j < k; ++j) {
      s[j] = sv[order[j]];
      for (int64_t i = 0; i < tall; ++i) left[i * k + j] = s[j] > 0 ? u[i * k + order[j]] / s[j] : 0;
      for (int64_t i = 0; i < k; ++i) right[i * k + j] = v[i * k + order[j]];
    }
    for (int64_t j = 0; j < k; ++j) {  // a zero singular value: any unit vector orthogonal to the others
      if (s[j] > 0) continue;
      for (int64_t e = 0; e < tall; ++e) {
        std::vector<double> w(static_cast<size_t>(tall), 0);
        w[e] = 1;
        for (int pass = 0; pass < 2; ++pass)
          for (int64_t c = 0; c < k; ++c) {
            double dot = 0;
            for (int64_t i = 0; i < tall; ++i) dot += w[i] * left[i * k + c];
            for (int64_t i = 0; i < tall; ++i) w[i] -= dot * left[i * k + c];
          }
        double norm = 0;
        for (double x : w) norm += x * x;
        if (norm < 0.1 / static_cast<double>(tall)) continue;
        for (int64_t i = 0; i < tall; ++i) left[i * k + j] = w[i] / std::sqrt(norm);
        break;
      }
    }
    auto transposed = [](const Matrix& x, int64_t r, int64_t c) {
      Matrix y(x.size());
      for (int64_t i = 0; i < r; ++i)
        for (int64_t j = 0; j < c; ++j) y[j * r + i] = x[i * c + j];
      return y;
    };
    write(h.out[0], b, m >= n ? left : right);
    write(h.out[1], b, s);
    write(h.out[2], b, m >= n ? transposed(right, k, k) : transposed(left, tall, k));
  }
}

Types infer_qr(const Call& c) {
  require_matrix(c, 0, false);
  const std::string& mode = c.str("mode");
  if (mode != "reduced" && mode != "complete")
    value_error("qr: unknown mode, got '", mode, "'; expected 'reduced', 'complete' or 'r'.");
  const Shape& s = c.type(0).shape;
  const int64_t k = mode == "reduced" ? std::min(rows(s), cols(s)) : rows(s);
  return {{c.type(0).dtype, with_last(batch_of(s), {rows(s), k})},
          {c.type(0).dtype, with_last(batch_of(s), {k, cols(s)})}};
}
// For full column rank: M = R gR^T - gQ^T Q, gA = (gQ + Q copyltu(M)) R^-T.
Values qr_vjp(const Call& c, const Values& g) {
  const Value q = c.out(0), r = c.out(1);
  if (rows(c.type(0).shape) < cols(c.type(0).shape) || c.str("mode") != "reduced")
    fail(ErrorKind::kNotImplemented,
         "qr: the gradient needs mode='reduced' and at least as many rows as columns, got shape ",
         c.type(0).shape, ".");
  const Value gq = g[0] ? g[0] : zeros_like(q), gr = g[1] ? g[1] : zeros_like(r);
  const Value m = matmul(r, gr, false, true) - matmul(gq, q, true, false);
  const Value sym = tril(m, 0) + t(tril(m, -1));
  const Value rhs = gq + matmul(q, sym);
  return {t(call("triangular_core", {r, t(rhs)}, {{"upper", true}, {"unitriangular", false}}))};
}
Types infer_eigh(const Call& c) {
  require_matrix(c, 0, true);
  if (c.str("UPLO") != "L" && c.str("UPLO") != "U")
    value_error("eigh: unknown UPLO, got '", c.str("UPLO"), "'; expected 'L' or 'U'.");
  const Shape& s = c.type(0).shape;
  return {{c.type(0).dtype, with_last(batch_of(s), {rows(s)})}, c.type(0)};
}
Value inverse_gaps(const Value& w) {  // 1 / (w_j - w_i), 0 where they are equal
  const Value d = row(w) - column(w), zero = equal(d, constant_like(0, d));
  return where_or(un("logical_not", zero), un("reciprocal", where(zero, constant_like(1, d), d)), 0);
}
Values eigh_vjp(const Call& c, const Values& g) {
  const Value w = c.out(0), v = c.out(1);
  Value inner;
  if (g[0]) inner = eye_like(v) * row(g[0]);
  if (g[1]) {
    const Value m = inverse_gaps(w) * matmul(v, g[1], true, false);
    inner = inner ? inner + m : m;
  }
  const Value full_gradient = matmul(matmul(v, inner), v, false, true);
  return {(full_gradient + t(full_gradient)) * 0.5};
}
Types infer_svd(const Call& c) {
  require_matrix(c, 0, false);
  const Shape& s = c.type(0).shape;
  const int64_t k = std::min(rows(s), cols(s));
  const Shape b = batch_of(s);
  return {{c.type(0).dtype, with_last(b, {rows(s), k})},
          {c.type(0).dtype, with_last(b, {k})},
          {c.type(0).dtype, with_last(b, {k, cols(s)})}};
}
Values svd_vjp(const Call& c, const Values& g) {
  const Value u = c.out(0), s = c.out(1), vh = c.out(2);
  const Value d = square(row(s)) - square(column(s)), zero = equal(d, constant_like(0, d));
  const Value f = where_or(un("logical_not", zero), un("reciprocal", where(zero, constant_like(1, d), d)), 0);
  Value mid;
  auto add = [&](const Value& v) { mid = mid ? mid + v : v; };
  Value gx;
  if (g[1])
    add(broadcast_to(eye_like(matmul(u, u, true, false)), matmul(u, u, true, false).shape()) * row(g[1]));
  if (g[0]) {
    const Value m = f * matmul(u, g[0], true, false);
    add((m + t(m)) * row(s));
  }
  if (g[2]) {
    const Value m = f * matmul(vh, g[2], false, true);
    add(column(s) * (m + t(m)));
  }
  gx = matmul(matmul(u, mid), vh);
  if (g[0] && rows(u.shape()) > cols(u.shape())) {
    const Value p = g[0] / row(s);
    gx = gx + matmul(p - matmul(u, matmul(u, p, true, false)), vh);
  }
  if (g[2] && cols(vh.shape()) > rows(vh.shape())) {
    const Value p = g[2] / column(s);
    gx = gx + matmul(u, p - matmul(matmul(p, vh, false, true), vh));
  }
  return {gx};
}

const Register decompositions{
    {.schema = "qr_core(Tensor x, str mode='reduced') -> Tensor, Tensor",
     .doc = "Orthonormal Q and upper triangular R with Q R = x.",
     .infer = infer_qr,
     .host = host_qr,
     .vjp = qr_vjp,
     .needs = "out out1"},
    {.schema = "eigh(Tensor x, str UPLO='L') -> Tensor, Tensor",
     .python = "paddle.linalg.eigh",
     .doc = "Eigenvalues (ascending) and eigenvectors (columns) of a symmetric matrix, of which one triangle "
            "is read.",
     .infer = infer_eigh,
     .host = host_eigh,
     .vjp = eigh_vjp,
     .needs = "out out1"},
    {.schema = "svd_core(Tensor x) -> Tensor, Tensor, Tensor",
     .doc = "U, singular values (descending) and V^T of the thin decomposition.",
     .infer = infer_svd,
     .host = host_svd,
     .vjp = svd_vjp,
     .needs = "out out1 out2"},
};
}  // namespace
}  // namespace yuloh
