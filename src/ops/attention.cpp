// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention as one op: the scores, as many numbers as the square of the length, are
// neither kept for the gradient nor stored by the kernel (cpu/attention.cpp). The body and its gradient are
// the plain formulas.
#include <cmath>

#include "ops/fn.h"
#include "ops/window.h"

namespace yuloh {
namespace {

DType wide(DType t) { return is_half(t) ? DType::kFloat32 : t; }
Value as(const Value& x, DType t) { return x.dtype() == t ? x : cast(x, t); }
Value heads_first(const Value& x) { return transpose(x, {0, 2, 1, 3}); }

// [rows, columns]: key j takes part for query i where j <= i.
Value lower(int64_t rows, int64_t columns) {
  return call("less_equal", {iota({1, columns}, 1, DType::kInt64), iota({rows, 1}, 0, DType::kInt64)});
}

struct Parts {  // heads first
  Value q, k, v;
  bool causal;
  explicit Parts(const Call& c)
      : q(heads_first(c["q"]) * c.real("scale")),
        k(heads_first(c["k"])),
        v(heads_first(c["v"])),
        causal(c.flag("causal")) {}
  Value scores() const {
    const Value s = as(matmul(q, k, false, true), wide(q.dtype()));
    return causal ? where_or(mask(), s, -3.0e38) : s;
  }
  Value mask() const { return lower(q.shape()[2], k.shape()[2]); }
  Value hide(const Value& p) const { return causal ? where_or(mask(), p, 0) : p; }
};

Types infer_attention(const Call& c) {
  require_float(c, 0);
  expect_same_dtype(c, 0, 1);
  expect_same_dtype(c, 0, 2);
  const Shape &q = c.type(0).shape, &k = c.type(1).shape, &v = c.type(2).shape;
  if (q.size() != 4 || k.size() != 4 || !(k == v) || q[0] != k[0] || q[2] != k[2] || q[3] != k[3] ||
      numel(k) == 0)
    value_error(c.name(),
                ": operands are not [batch, length, heads, width] of one batch, head count and width, got q ",
                q, ", k ", k, " and v ", v, ".");
  return {{c.type(0).dtype, q}, {wide(c.type(0).dtype), {q[0], q[2], q[1]}}};
}

Values attention(const Call& c) {
  const Parts p(c);
  const Value s = p.scores(), m = max(s, {-1}), e = p.hide(exp(s - m)), total = sum(e, {-1});
  const Value out = matmul(as(e / total, p.q.dtype()), p.v);
  return {heads_first(out), reshape(m + log(total), {s.shape()[0], s.shape()[1], s.shape()[2]})};
}

Values attention_grad(const Call& c) {
  const Parts p(c);
  const DType t = p.q.dtype(), w = wide(t);
  const Value g = heads_first(c["g"]), out = heads_first(c["out"]);
  Shape rows = c["lse"].shape();
  rows.push_back(1);
  const Value weights = p.hide(exp(p.scores() - reshape(c["lse"], rows)));
  Value delta = sum(as(g, w) * as(out, w), {-1});
  if (const Value gl = c["gl"]) delta = delta - reshape(gl, rows);
  const Value ds = as(weights * (as(matmul(g, p.v, false, true), w) - delta), t);
  return {heads_first(matmul(ds, p.k)) * c.real("scale"), heads_first(matmul(ds, p.q, true)),
          heads_first(matmul(as(weights, t), g, true))};
}

const Register rows{
    {.schema = "scaled_dot_product_attention(Tensor q, Tensor k, Tensor v, float scale, bool causal=False) "
               "-> Tensor, "
               "Tensor",
     .doc = "softmax(q k' * scale) v over [batch, length, heads, width]; with causal, query i sees keys "
            "0..i. Second: "
            "log(sum(exp(scores))) [batch, heads, length].",
     .infer = infer_attention,
     .expand = attention,
     .vjp = [](const Call& c, const Values& g) -> Values {
       const Value out = c.out(0);
       return call_all("scaled_dot_product_attention_grad",
                       {c["q"], c["k"], c["v"], out, c.out(1), g[0] ? g[0] : zeros_like(out), g[1]},
                       {{"scale", c.real("scale")}, {"causal", c.flag("causal")}});
     },
     .needs = "q k v out out1",
     .kind = "attention"},
    {.schema =
         "scaled_dot_product_attention_grad(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor g, "
         "Tensor? gl=None, float scale=1.0, bool causal=False) -> Tensor, Tensor, Tensor",
     .inner = true,
     .doc =
         "Gradients of scaled_dot_product_attention for q, k and v; the weights are computed again from lse.",
     .infer = [](const Call& c) -> Types {
       return {c.type(0), c.type(1), c.type(2)};
     },
     .expand = attention_grad,
     .kind = "attention"},
};

}  // namespace
}  // namespace yuloh
