// SPDX-License-Identifier: Apache-2.0
// Matrix factorisations and solvers, batched over leading axes, computed in double and rounded once (float64 in double).
// They are reference loops for the sizes that layers and scripts use (up to a few hundred rows). Gradients are written
// with matmul and the factorisations themselves. Empty batches and empty matrices are fine everywhere.
#include <cmath>
#include <functional>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

using Matrix = std::vector<double>;  // row-major

void require_matrix(const Call& c, uint32_t i, bool square) {
  require_float(c, i);
  require_rank(c, i, 2);
  const Shape& s = c.type(i).shape;
  if (square && s[s.size() - 1] != s[s.size() - 2])
    value_error(c.name(), ": the matrix is not square, got shape ", s, "; expected equal last extents.");
}
Shape batch_of(const Shape& s) { return Shape(s.begin(), s.end() - 2); }
Shape with_last(Shape batch, std::initializer_list<Dim> last) {
  for (Dim d : last) batch.push_back(d);
  return batch;
}
int64_t rows(const Shape& s) { return s[s.size() - 2]; }
int64_t cols(const Shape& s) { return s[s.size() - 1]; }

Matrix read(const HostOperand& x, int64_t batch) {
  const int64_t r = rows(x.shape), k = cols(x.shape), size = static_cast<int64_t>(dtype_size(x.dtype));
  const Shape lead = batch_of(x.shape);
  Ints ls(x.strides.begin(), x.strides.end() - 2);
  const int64_t base = lead.empty() ? 0 : offset_at(lead, ls, batch);
  const int64_t rs = x.strides[x.strides.size() - 2], cs = x.strides.back();
  Matrix m(static_cast<size_t>(r * k));
  for (int64_t i = 0; i < r; ++i)
    for (int64_t j = 0; j < k; ++j) m[i * k + j] = load_double(x.as<char>() + (base + i * rs + j * cs) * size, x.dtype);
  return m;
}
void write(const HostOperand& o, int64_t batch, const Matrix& m) {
  const int64_t size = static_cast<int64_t>(dtype_size(o.dtype)), n = static_cast<int64_t>(m.size());
  for (int64_t i = 0; i < n; ++i) store_double(o.as<char>() + (batch * n + i) * size, o.dtype, m[i]);
}
int64_t batches(const HostOperand& x) { return yuloh::numel(batch_of(x.shape)); }

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
          value_error("cholesky: the matrix is not positive definite, got pivot ", s, " in row ", i, " (batch ", b, ").");
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

// Householder reflections; q is rows x k, r is k x cols with k = min(rows, cols). Diagonal signs as LAPACK leaves them.
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
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1)), c = 1 / std::sqrt(t * t + 1), s = t * c;
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
      for (int64_t j = 0; j < i; ++j) (lower ? a[j * n + i] : a[i * n + j]) = lower ? a[i * n + j] : a[j * n + i];
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
            alpha += u[i * k + p] * u[i * k + p], beta += u[i * k + q] * u[i * k + q], gamma += u[i * k + p] * u[i * k + q];
          if (gamma == 0 || std::abs(gamma) <= 1e-15 * std::sqrt(alpha * beta)) continue;
          rotated = true;
          const double zeta = (beta - alpha) / (2 * gamma);
          const double t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta)), c = 1 / std::sqrt(1 + t * t), s = c * t;
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
    Matrix left(static_cast<size_t>(tall * k), 0), right(static_cast<size_t>(k * k)), s(static_cast<size_t>(k));
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

// ---- types and gradients ----
Value t(const Value& x) { return swap_last(x); }
Value eye_like(const Value& x) { return call("eye_static", {}, {{"num_rows", rows(x.shape())}, {"num_columns", cols(x.shape())}, {"dtype", x.dtype()}}); }
Value solve(const Value& a, const Value& b) { return call("solve_core", {a, b}, {{"who", "solve"}}); }
Value column(const Value& v) { return call("unsqueeze", {v}, {{"axis", -1}}); }
Value row(const Value& v) { return call("unsqueeze", {v}, {{"axis", -2}}); }
Value tril(const Value& x, int64_t d) { return call("tril", {x}, {{"diagonal", d}}); }

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
Types infer_qr(const Call& c) {
  require_matrix(c, 0, false);
  const std::string& mode = c.str("mode");
  if (mode != "reduced" && mode != "complete") value_error("qr: unknown mode, got '", mode, "'; expected 'reduced', 'complete' or 'r'.");
  const Shape& s = c.type(0).shape;
  const int64_t k = mode == "reduced" ? std::min(rows(s), cols(s)) : rows(s);
  return {{c.type(0).dtype, with_last(batch_of(s), {rows(s), k})}, {c.type(0).dtype, with_last(batch_of(s), {k, cols(s)})}};
}
// For full column rank: M = R gR^T - gQ^T Q, gA = (gQ + Q copyltu(M)) R^-T.
Values qr_vjp(const Call& c, const Values& g) {
  const Value q = c.out(0), r = c.out(1);
  if (rows(c.type(0).shape) < cols(c.type(0).shape) || c.str("mode") != "reduced")
    fail(ErrorKind::kNotImplemented, "qr: the gradient needs mode='reduced' and at least as many rows as columns, got shape ", c.type(0).shape, ".");
  const Value gq = g[0] ? g[0] : zeros_like(q), gr = g[1] ? g[1] : zeros_like(r);
  const Value m = matmul(r, gr, false, true) - matmul(gq, q, true, false);
  const Value sym = tril(m, 0) + t(tril(m, -1));
  const Value rhs = gq + matmul(q, sym);
  return {t(call("triangular_core", {r, t(rhs)}, {{"upper", true}, {"unitriangular", false}}))};
}
Types infer_eigh(const Call& c) {
  require_matrix(c, 0, true);
  if (c.str("UPLO") != "L" && c.str("UPLO") != "U") value_error("eigh: unknown UPLO, got '", c.str("UPLO"), "'; expected 'L' or 'U'.");
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
  return {{c.type(0).dtype, with_last(b, {rows(s), k})}, {c.type(0).dtype, with_last(b, {k})}, {c.type(0).dtype, with_last(b, {k, cols(s)})}};
}
Values svd_vjp(const Call& c, const Values& g) {
  const Value u = c.out(0), s = c.out(1), vh = c.out(2);
  const Value d = square(row(s)) - square(column(s)), zero = equal(d, constant_like(0, d));
  const Value f = where_or(un("logical_not", zero), un("reciprocal", where(zero, constant_like(1, d), d)), 0);
  Value mid;
  auto add = [&](const Value& v) { mid = mid ? mid + v : v; };
  Value gx;
  if (g[1]) add(broadcast_to(eye_like(matmul(u, u, true, false)), matmul(u, u, true, false).shape()) * row(g[1]));
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
    {.schema = "qr_core(Tensor x, str mode='reduced') -> Tensor, Tensor",
     .doc = "Orthonormal Q and upper triangular R with Q R = x.",
     .infer = infer_qr,
     .host = host_qr,
     .vjp = qr_vjp,
     .needs = "out out1"},
    {.schema = "eigh(Tensor x, str UPLO='L') -> Tensor, Tensor",
     .python = "paddle.linalg.eigh",
     .doc = "Eigenvalues (ascending) and eigenvectors (columns) of a symmetric matrix, of which one triangle is read.",
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
