// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: matrix products and Einsum.
#include "formats/onnx_ops.h"

namespace yuloh::formats {

// Integers multiply in float64: exact up to 2^53.
Value mat_mul(const Value& a, const Value& b) {
  if (!is_integral(a.dtype())) return matmul(a, b);
  return cast(matmul(cast(a, DType::kFloat64), cast(b, DType::kFloat64)), a.dtype());
}

namespace {
void gemm(Import& i) {
  const double alpha = i.real("alpha", 1), beta = i.real("beta", 1);
  Value a = i.in(0), b = i.in(1);
  const bool ta = i.integer("transA", 0), tb = i.integer("transB", 0);
  Value y;
  if (is_integral(a.dtype())) y = mat_mul(ta ? swap_last(a) : a, tb ? swap_last(b) : b);
  else y = matmul(a, b, ta, tb);
  if (alpha != 1) y = y * alpha;
  if (i.has(2)) y = y + (beta == 1 ? i.in(2) : i.in(2) * beta);
  i.out(y);
}
void fused_mat_mul(Import& i) {
  if (i.integer("transBatchA", 0) || i.integer("transBatchB", 0))
    i.unsupported("transBatchA and transBatchB");
  const Value y = matmul(i.in(0), i.in(1), i.integer("transA", 0), i.integer("transB", 0));
  i.out(i.real("alpha", 1) == 1 ? y : y * i.real("alpha", 1));
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"MatMul", [](Import& i) { i.out(mat_mul(i.in(0), i.in(1))); }},
                            {"Gemm", gemm},
                            {"Einsum",
                             [](Import& i) {
                               Values xs;
                               const DType t = i.in(0).dtype();
                               for (size_t k = 0; k < i.n_inputs(); ++k)
                                 xs.push_back(is_integral(t) ? cast(i.in(k), DType::kFloat64) : i.in(k));
                               i.out(to(einsum(i.text("equation", ""), xs), t));
                             }},
                            {"com.microsoft.FusedMatMul", fused_mat_mul},
                            {"Det",
                             [](Import& i) {
                               const Values r = call_all("slogdet_core", {i.in(0)});
                               i.out(r[0] * exp(r[1]));
                             }},
                        });
}  // namespace
}  // namespace yuloh::formats
