// SPDX-License-Identifier: Apache-2.0
// Activation functions: elementwise ones as scalar bodies, row-wise ones (softmax family) as composites with
// a gradient rule written on their result.
#include "ops/rows.h"

#define YULOH_ACT(n, py, text, ...)                                                     \
  {                                                                                     \
    .schema = n "(Tensor x) -> Tensor", .python = py, .doc = text, .infer = float_only, \
    .scalar = __VA_ARGS__, .inplace_variant = true                                      \
  }

namespace yuloh {
namespace {
using S = Scalar;

Types float_only(const Call& c) { return require_float(c, 0), same(c); }
S sigmoid(S x) { return S(1) / (S(1) + exp(-x)); }
S zero_or(S c, S x) { return select(c, x, S(0)); }
// log(1 + exp(x)) without overflow.
S softplus1(S x) { return max(x, S(0)) + log1p(exp(-abs(x))); }

const Register plain{
    {.schema = "relu(Tensor x) -> Tensor",
     .python = YULOH_F("relu"),
     .doc = "max(x, 0); NaN stays.",
     .infer = same,
     .scalar = [](S x) { return max(x, S(0)); },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("relu_grad", {c.out(), g[0]})};
     },
     .needs = "out",
     .inplace_variant = true},
    {.schema = "relu_grad(Tensor y, Tensor g) -> Tensor",
     .inner = true,
     .doc = "g where y > 0, else 0.",
     .infer = same,
     .scalar = [](S y, S g) { return zero_or(y > S(0), g); }},
    {.schema = "relu6(Tensor x) -> Tensor",
     .python = YULOH_F("relu6"),
     .doc = "x limited to [0, 6].",
     .infer = float_only,
     .scalar = [](S x) { return min(max(x, S(0)), S(6)); },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("relu6_grad", {c.out(), g[0]})};
     },
     .needs = "out",
     .inplace_variant = true},
    {.schema = "relu6_grad(Tensor y, Tensor g) -> Tensor",
     .inner = true,
     .doc = "g where 0 < y < 6, else 0.",
     .infer = same,
     .scalar =
         [](S y, S g) {
           const S below = zero_or(y < S(6), g);
           return zero_or(y > S(0), below);
         }},
    {.schema = "sigmoid(Tensor x) -> Tensor",
     .python = YULOH_F("sigmoid") " paddle.sigmoid paddle.Tensor.sigmoid",
     .doc = "1 / (1 + exp(-x)).",
     .infer = same_float,
     .scalar = [](S x) { return sigmoid(x); },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("sigmoid_grad", {c.out(), g[0]})};
     },
     .needs = "out",
     .inplace_variant = true},
    {.schema = "sigmoid_grad(Tensor y, Tensor g) -> Tensor",
     .inner = true,
     .doc = "g * y * (1 - y).",
     .infer = same,
     .scalar = [](S y, S g) { return g * y * (S(1) - y); }},
    YULOH_ACT("silu", YULOH_F("silu"), "x * sigmoid(x).", [](S x) { return x * sigmoid(x); }),
    YULOH_ACT("log_sigmoid", YULOH_F("log_sigmoid"), "log(sigmoid(x)) without overflow.",
              [](S x) { return min(x, S(0)) - log1p(exp(-abs(x))); }),
    YULOH_ACT("mish", YULOH_F("mish"), "x * tanh(log(1 + exp(x))).",
              [](S x) { return x * tanh(softplus1(x)); }),
    YULOH_ACT("softsign", YULOH_F("softsign"), "x / (1 + |x|).", [](S x) { return x / (S(1) + abs(x)); }),
    YULOH_ACT("tanhshrink", YULOH_F("tanhshrink"), "x - tanh(x).", [](S x) { return x - tanh(x); }),
    YULOH_ACT("hardswish", YULOH_F("hardswish"), "x * min(max(x + 3, 0), 6) / 6.",
              [](S x) { return x * min(max(x + S(3), S(0)), S(6)) / S(6); }),
    {.schema = "swish(Tensor x) -> Tensor",
     .python = YULOH_F("swish"),
     .doc = "x * sigmoid(x).",
     .infer = float_only,
     .scalar = [](S x) { return x * sigmoid(x); }},
    {.schema = "gelu(Tensor x, bool approximate=False) -> Tensor",
     .python = YULOH_F("gelu"),
     .doc = "x times the normal distribution function of x, exact or by tanh.",
     .infer = float_only,
     .scalar =
         [](const Call& c, S x) {
           if (c.flag("approximate"))
             return S(0.5) * x * (S(1) + tanh(S(0.7978845608028654) * (x + S(0.044715) * x * x * x)));
           return S(0.5) * x * (S(1) + erf(x * S(0.7071067811865476)));
         },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("gelu_grad", {c.in[0], g[0]}, {{"approximate", c.flag("approximate")}})};
     },
     .needs = "x"},
    {.schema = "gelu_grad(Tensor x, Tensor g, bool approximate=False) -> Tensor",
     .inner = true,
     .doc = "g times the slope of gelu at x, in few passes.",
     .infer = same,
     .scalar =
         [](const Call& c, S x, S g) {
           if (c.flag("approximate")) {
             const S k(0.7978845608028654), a(0.044715), square = x * x;
             const S t = tanh(k * (x + a * x * square));
             return (S(0.5) * (S(1) + t) + S(0.5) * x * (S(1) - t * t) * k * (S(1) + S(3) * a * square)) * g;
           }
           const S below = erf(x * S(0.7071067811865476)) * S(0.5) + S(0.5);
           const S density = exp(x * x * S(-0.5));
           return (x * density * S(0.3989422804014327) + below) * g;
         }},
    {.schema = "leaky_relu(Tensor x, float negative_slope=0.01) -> Tensor",
     .python = YULOH_F("leaky_relu"),
     .doc = "x where x > 0, else negative_slope * x.",
     .infer = float_only,
     .scalar = [](const Call& c, S x) { return select(x > S(0), x, x * S(c.real("negative_slope"))); },
     .inplace_variant = true},
    {.schema = "elu(Tensor x, float alpha=1.0) -> Tensor",
     .python = YULOH_F("elu"),
     .doc = "x where x > 0, else alpha * (exp(x) - 1).",
     .infer = float_only,
     .scalar = [](const Call& c,
                  S x) { return select(x > S(0), x, S(c.real("alpha")) * expm1(min(x, S(0)))); },
     .inplace_variant = true},
    {.schema = "celu(Tensor x, float alpha=1.0) -> Tensor",
     .python = YULOH_F("celu"),
     .doc = "max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).",
     .infer = float_only,
     .scalar =
         [](const Call& c, S x) {
           return select(x > S(0), x, S(c.real("alpha")) * expm1(min(x, S(0)) / S(c.real("alpha"))));
         }},
    {.schema = "selu(Tensor x, float scale=1.0507009873554805, float alpha=1.6732632423543772) -> Tensor",
     .python = YULOH_F("selu"),
     .doc = "scale * (x where x > 0, else alpha * (exp(x) - 1)).",
     .infer = float_only,
     .scalar =
         [](const Call& c, S x) {
           return S(c.real("scale")) * select(x > S(0), x, S(c.real("alpha")) * expm1(min(x, S(0))));
         }},
    {.schema = "hardsigmoid(Tensor x, float slope=0.1666667, float offset=0.5) -> Tensor",
     .python = YULOH_F("hardsigmoid"),
     .doc = "slope * x + offset limited to [0, 1].",
     .infer = float_only,
     .scalar = [](const Call& c,
                  S x) { return min(max(x * S(c.real("slope")) + S(c.real("offset")), S(0)), S(1)); }},
    {.schema = "hardtanh(Tensor x, float min=-1.0, float max=1.0) -> Tensor",
     .python = YULOH_F("hardtanh"),
     .doc = "x limited to [min, max].",
     .infer = float_only,
     .scalar = [](const Call& c, S x) { return min(max(x, S(c.real("min"))), S(c.real("max"))); },
     .inplace_variant = true},
    {.schema = "hardshrink(Tensor x, float threshold=0.5) -> Tensor",
     .python = YULOH_F("hardshrink"),
     .doc = "x where |x| > threshold, else 0.",
     .infer = float_only,
     .scalar = [](const Call& c, S x) { return zero_or(abs(x) > S(c.real("threshold")), x); }},
    {.schema = "softshrink(Tensor x, float threshold=0.5) -> Tensor",
     .python = YULOH_F("softshrink"),
     .doc = "x moved towards 0 by threshold, 0 within.",
     .infer = float_only,
     .scalar =
         [](const Call& c, S x) {
           const S t(c.real("threshold"));
           return select(x > t, x - t, select(x < -t, x + t, S(0)));
         }},
    {.schema = "softplus(Tensor x, float beta=1.0, float threshold=20.0) -> Tensor",
     .python = YULOH_F("softplus"),
     .doc = "log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold.",
     .infer = float_only,
     .scalar =
         [](const Call& c, S x) {
           const S bx = x * S(c.real("beta"));
           return select(bx > S(c.real("threshold")), x, softplus1(bx) / S(c.real("beta")));
         }},
    {.schema = "thresholded_relu(Tensor x, float threshold=1.0, float value=0.0) -> Tensor",
     .python = YULOH_F("thresholded_relu"),
     .doc = "x where x > threshold, else value.",
     .infer = float_only,
     .scalar = [](const Call& c, S x) { return select(x > S(c.real("threshold")), x, S(c.real("value"))); },
     .inplace_variant = true},
    {.schema = "prelu_apply(Tensor x, Tensor weight) -> Tensor",
     .doc = "x where x > 0, else weight * x, weight broadcast.",
     .infer = float_only,
     .scalar = [](S x, S w) { return select(x > S(0), x, x * w); }},
};

Ints one_axis(const Call& c) { return {normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size())}; }
Types infer_rowwise(const Call& c) {
  require_float(c, 0);
  one_axis(c);
  const DType t = c.has("dtype") ? c.dtype("dtype") : c.type(0).dtype;
  if (!is_float(t))
    type_error(c.name(), ": dtype of the result, got ", t, "; expected a floating point dtype.");
  return {{t, c.type(0).shape}};
}
Value converted(const Call& c) { return c.has("dtype") ? cast(c["x"], c.dtype("dtype")) : c["x"]; }
Value shifted(const Value& x, const Ints& axis) {  // x - max(x); an empty axis has no maximum and needs none
  return x.rank() && x.shape()[axis[0]] == 0 ? x : x - max(x, axis);
}
Values softmax_body(const Call& c) {
  const Value x = converted(c);
  if (x.rank() == 0) return {ones_like(x)};
  const Ints k = one_axis(c);
  const Value e = exp(shifted(x, k));
  return {e / sum(e, k)};
}
Values log_softmax_body(const Call& c) {
  const Value x = converted(c);
  if (x.rank() == 0) return {zeros_like(x)};
  const Ints k = one_axis(c);
  const Value s = shifted(x, k);
  return {s - log(sum(exp(s), k))};
}
const Register rowwise{
    {.schema = "softmax(Tensor x, int axis=-1, dtype? dtype=None) -> Tensor",
     .python = YULOH_F("softmax") " paddle.softmax paddle.Tensor.softmax",
     .doc = "exp(x) / sum(exp(x)) along axis.",
     .infer = infer_rowwise,
     .expand = softmax_body,
     .vjp = [](const Call& c, const Values& g) -> Values {
       const Value y = c.out(), gy = g[0] * y;
       if (y.rank() == 0) return {zeros_like(c["x"])};
       return {cast(gy - y * sum(gy, one_axis(c)), c.type(0).dtype)};
     },
     .needs = "out",
     .inplace_variant = true},
    {.schema = "log_softmax(Tensor x, int axis=-1, dtype? dtype=None) -> Tensor",
     .python = YULOH_F("log_softmax"),
     .doc = "Logarithm of softmax along axis.",
     .infer = infer_rowwise,
     .expand = log_softmax_body,
     .vjp = [](const Call& c, const Values& g) -> Values {
       if (g[0].rank() == 0) return {zeros_like(c["x"])};
       return {cast(g[0] - exp(c.out()) * sum(g[0], one_axis(c)), c.type(0).dtype)};
     },
     .needs = "out"},
};
}  // namespace
}  // namespace yuloh
