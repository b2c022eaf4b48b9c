// SPDX-License-Identifier: Apache-2.0
// What the matrix rows share: batched matrices read as double, checks, and small graph helpers for their
// gradients. Only src/ops/linalg.cpp and src/ops/decompose.cpp include it.
#pragma once
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh::linalg {

using Matrix = std::vector<double>;  // row-major

inline void require_matrix(const Call& c, uint32_t i, bool square) {
  require_float(c, i);
  require_rank(c, i, 2);
  const Shape& s = c.type(i).shape;
  if (square && s[s.size() - 1] != s[s.size() - 2])
    value_error(c.name(), ": the matrix is not square, got shape ", s, "; expected equal last extents.");
}
inline Shape batch_of(const Shape& s) { return Shape(s.begin(), s.end() - 2); }
inline Shape with_last(Shape batch, std::initializer_list<Dim> last) {
  for (Dim d : last) batch.push_back(d);
  return batch;
}
inline int64_t rows(const Shape& s) { return s[s.size() - 2]; }
inline int64_t cols(const Shape& s) { return s[s.size() - 1]; }

inline Matrix read(const HostOperand& x, int64_t batch) {
  const int64_t r = rows(x.shape), k = cols(x.shape), size = static_cast<int64_t>(dtype_size(x.dtype));
  const Shape lead = batch_of(x.shape);
  Ints ls(x.strides.begin(), x.strides.end() - 2);
  const int64_t base = lead.empty() ? 0 : offset_at(lead, ls, batch);
  const int64_t rs = x.strides[x.strides.size() - 2], cs = x.strides.back();
  Matrix m(static_cast<size_t>(r * k));
  for (int64_t i = 0; i < r; ++i)
    for (int64_t j = 0; j < k; ++j)
      m[i * k + j] = load_double(x.as<char>() + (base + i * rs + j * cs) * size, x.dtype);
  return m;
}
inline void write(const HostOperand& o, int64_t batch, const Matrix& m) {
  const int64_t size = static_cast<int64_t>(dtype_size(o.dtype)), n = static_cast<int64_t>(m.size());
  for (int64_t i = 0; i < n; ++i) store_double(o.as<char>() + (batch * n + i) * size, o.dtype, m[i]);
}
inline int64_t batches(const HostOperand& x) { return yuloh::numel(batch_of(x.shape)); }

inline Value t(const Value& x) { return swap_last(x); }
inline Value eye_like(const Value& x) {
  return call("eye_static", {},
              {{"num_rows", rows(x.shape())}, {"num_columns", cols(x.shape())}, {"dtype", x.dtype()}});
}
inline Value column(const Value& v) { return call("unsqueeze", {v}, {{"axis", -1}}); }
inline Value row(const Value& v) { return call("unsqueeze", {v}, {{"axis", -2}}); }
inline Value tril(const Value& x, int64_t d) { return call("tril", {x}, {{"diagonal", d}}); }

}  // namespace yuloh::linalg
