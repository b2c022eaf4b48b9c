// SPDX-License-Identifier: Apache-2.0
// Arithmetic and mathematical functions, one value at a time. Gradients, SIMD code and the reference derive
// from the bodies.
#include <cmath>

#include "ops/rows.h"

namespace yuloh {
namespace {
const double kPi = 3.14159265358979323846;
using S = Scalar;

const Register arithmetic{
    YULOH_MAP2("add", YULOH_BOTH("add"), "x + y with broadcasting.", same, [](S x, S y) { return x + y; }),
    YULOH_MAP2("subtract", YULOH_BOTH("subtract"), "x - y with broadcasting.", same,
               [](S x, S y) { return x - y; }),
    YULOH_MAP2("multiply", YULOH_BOTH("multiply"), "x * y with broadcasting.", same,
               [](S x, S y) { return x * y; }),
    YULOH_MAP2("divide", YULOH_BOTH("divide"), "x / y with broadcasting; integers are divided as float32.",
               same_float, [](S x, S y) { return x / y; }),
    YULOH_MAP2("maximum", YULOH_BOTH("maximum"), "The larger of x and y; NaN wins.", same,
               [](S x, S y) { return max(x, y); }),
    YULOH_MAP2("minimum", YULOH_BOTH("minimum"), "The smaller of x and y; NaN wins.", same,
               [](S x, S y) { return min(x, y); }),
    YULOH_MAP2("fmax", YULOH_BOTH("fmax"), "The larger of x and y; a number wins over NaN.", same,
               [](S x, S y) { return select(isnan(x), y, select(isnan(y), x, max(x, y))); }),
    YULOH_MAP2("fmin", YULOH_BOTH("fmin"), "The smaller of x and y; a number wins over NaN.", same,
               [](S x, S y) { return select(isnan(x), y, select(isnan(y), x, min(x, y))); }),
    YULOH_MAP2("pow", YULOH_BOTH("pow"), "x to the power y.", same, [](S x, S y) { return pow(x, y); }),
    YULOH_MAP2("atan2", YULOH_BOTH("atan2"), "Angle of the point (y, x) in radians, from -pi to pi.",
               same_float, [](S x, S y) { return atan2(x, y); }),
    YULOH_MAP2("hypot", YULOH_BOTH("hypot"), "sqrt(x * x + y * y).", same_float,
               [](S x, S y) { return sqrt(x * x + y * y); }),
    YULOH_MAP2("logaddexp", YULOH_BOTH("logaddexp"), "log(exp(x) + exp(y)) without overflow.", same_float,
               [](S x, S y) {
                 const S m = max(x, y);
                 return select(x == y, x + S(0.6931471805599453), m + log1p(exp(-abs(x - y))));
               }),
    YULOH_MAP2(
        "heaviside", YULOH_BOTH("heaviside"), "0 where x < 0, y where x is 0, 1 where x > 0.", same,
        [](S x, S y) { return select(x == S(0), y, select(x < S(0), S(0), select(x > S(0), S(1), x))); }),
    YULOH_MAP2("copysign", YULOH_BOTH("copysign"), "The magnitude of x with the sign of y.", same_float,
               [](S x, S y) { return select((y < S(0)) | (S(1) / y < S(0)), -abs(x), abs(x)); }),
    {.schema = "lerp(Tensor x, Tensor y, number weight) -> Tensor",
     .python = YULOH_BOTH("lerp"),
     .doc = "x + weight * (y - x).",
     .infer = same_float,
     .scalar = [](S x, S y, S w) { return x + w * (y - x); },
     .inplace_variant = true},
    {.schema = "affine(Tensor x, float scale=1.0, float shift=0.0, float divisor=1.0) -> Tensor",
     .doc = "x * scale / divisor + shift with constants that are part of the structure; used by bodies and "
            "gradients.",
     .infer = same,
     .scalar =
         [](const Call& c, S x) {
           if (c.real("scale") == -1) x = -x;
           else if (c.real("scale") != 1) x = x * S(c.real("scale"));
           if (c.real("divisor") != 1) x = x / S(c.real("divisor"));
           return c.real("shift") != 0 ? x + S(c.real("shift")) : x;
         }},
    {.schema = "scale(Tensor x, number scale=1.0, number bias=0.0, bool bias_after_scale=True) -> Tensor",
     .python = YULOH_BOTH("scale"),
     .doc = "x * scale + bias, or (x + bias) * scale when bias_after_scale is False, in the dtype of x.",
     .infer = like_first,
     .scalar = [](const Call& c, S x, S s,
                  S b) { return c.flag("bias_after_scale") ? x * s + b : (x + b) * s; },
     .inplace_variant = true},
    {.schema = "clip(Tensor x, number min, number max) -> Tensor",
     .doc = "x limited to [min, max]; NaN stays.",
     .infer = like_first,
     .scalar = [](S x, S lo, S hi) { return select(x < lo, lo, select(x > hi, hi, x)); }},
    {.schema = "clip_low(Tensor x, number min) -> Tensor",
     .doc = "x not below min; NaN stays.",
     .infer = like_first,
     .scalar = [](S x, S lo) { return select(x < lo, lo, x); }},
    {.schema = "clip_high(Tensor x, number max) -> Tensor",
     .doc = "x not above max; NaN stays.",
     .infer = like_first,
     .scalar = [](S x, S hi) { return select(x > hi, hi, x); }},
    {.schema = "addcmul(Tensor x, Tensor a, Tensor b, float value=1.0) -> Tensor",
     .doc = "x + value * a * b.",
     .infer = same,
     .scalar = [](const Call& c, S x, S a, S b) { return x + S(c.real("value")) * a * b; }},
    {.schema = "multiply_sum(Tensor a, Tensor b, Tensor d, Tensor e) -> Tensor",
     .inner = true,
     .doc = "a * b + d * e.",
     .infer = same,
     .scalar = [](S a, S b, S d, S e) { return a * b + d * e; }},
};

// Integer division never traps: the kernels wrap; a zero divisor is reported by the check rows in
// compare.cpp.
const Register integer_division{
    YULOH_MAP2("floor_div_unchecked", "", "floor(x / y); a zero integer divisor gives 0.", same,
               [](S x, S y) { return floor_div(x, y); }),
    YULOH_MAP2("mod_unchecked", "", "x - y * floor(x / y), with the sign of y.", same,
               [](S x, S y) { return mod(x, y); }),
    YULOH_MAP2("fmod_unchecked", "", "x - y * trunc(x / y), with the sign of x.", same,
               [](S x, S y) { return fmod(x, y); }),
};

const Register functions{
    YULOH_MAP1("neg", YULOH_BOTH("neg"), "-x.", same, [](S x) { return -x; }),
    YULOH_MAP1("abs", YULOH_BOTH("abs"), "|x|.", same, [](S x) { return abs(x); }),
    YULOH_MAP1("sign", YULOH_BOTH("sign"), "-1, 0 or 1 by the sign of x; NaN stays NaN.", same,
               [](S x) { return sign(x); }),
    YULOH_MAP1("exp", YULOH_BOTH("exp"), "e to the power x.", same_float, [](S x) { return exp(x); }),
    YULOH_MAP1("expm1", YULOH_BOTH("expm1"), "exp(x) - 1, accurate near 0.", same_float,
               [](S x) { return expm1(x); }),
    YULOH_MAP1("log", YULOH_BOTH("log"), "Natural logarithm.", same_float, [](S x) { return log(x); }),
    YULOH_MAP1("log2", YULOH_BOTH("log2"), "Logarithm to base 2.", same_float,
               [](S x) { return log(x) * S(1.4426950408889634); }),
    YULOH_MAP1("log10", YULOH_BOTH("log10"), "Logarithm to base 10.", same_float,
               [](S x) { return log(x) * S(0.4342944819032518); }),
    YULOH_MAP1("log1p", YULOH_BOTH("log1p"), "log(1 + x), accurate near 0.", same_float,
               [](S x) { return log1p(x); }),
    YULOH_MAP1("sqrt", YULOH_BOTH("sqrt"), "Square root; NaN below 0.", same_float,
               [](S x) { return sqrt(x); }),
    YULOH_MAP1("rsqrt", YULOH_BOTH("rsqrt"), "1 / sqrt(x).", same_float, [](S x) { return S(1) / sqrt(x); }),
    YULOH_MAP1("square", YULOH_BOTH("square"), "x * x.", same, [](S x) { return x * x; }),
    YULOH_MAP1("reciprocal", YULOH_BOTH("reciprocal"), "1 / x.", same_float, [](S x) { return S(1) / x; }),
    YULOH_MAP1("sin", YULOH_BOTH("sin"), "Sine, x in radians.", same_float, [](S x) { return sin(x); }),
    YULOH_MAP1("cos", YULOH_BOTH("cos"), "Cosine, x in radians.", same_float, [](S x) { return cos(x); }),
    YULOH_MAP1("tan", YULOH_BOTH("tan"), "Tangent, x in radians.", same_float, [](S x) { return tan(x); }),
    YULOH_MAP1("asin", YULOH_BOTH("asin"), "Inverse sine in radians.", same_float,
               [](S x) { return asin(x); }),
    YULOH_MAP1("acos", YULOH_BOTH("acos"), "Inverse cosine in radians.", same_float,
               [](S x) { return acos(x); }),
    YULOH_MAP1("atan", YULOH_BOTH("atan"), "Inverse tangent in radians.", same_float,
               [](S x) { return atan(x); }),
    YULOH_MAP1("sinh", YULOH_BOTH("sinh"), "Hyperbolic sine.", same_float, [](S x) { return sinh(x); }),
    YULOH_MAP1("cosh", YULOH_BOTH("cosh"), "Hyperbolic cosine.", same_float, [](S x) { return cosh(x); }),
    YULOH_MAP1("tanh", YULOH_BOTH("tanh") " paddle.nn.functional.tanh", "Hyperbolic tangent.", same_float,
               [](S x) { return tanh(x); }),
    YULOH_MAP1("asinh", YULOH_BOTH("asinh"), "Inverse hyperbolic sine.", same_float,
               [](S x) { return asinh(x); }),
    YULOH_MAP1("acosh", YULOH_BOTH("acosh"), "Inverse hyperbolic cosine.", same_float,
               [](S x) { return acosh(x); }),
    YULOH_MAP1("atanh", YULOH_BOTH("atanh"), "Inverse hyperbolic tangent.", same_float,
               [](S x) { return atanh(x); }),
    YULOH_MAP1("erf", YULOH_BOTH("erf"), "Gauss error function.", same_float, [](S x) { return erf(x); }),
    YULOH_MAP1("erfinv", YULOH_BOTH("erfinv"), "Inverse of erf.", same_float, [](S x) { return erfinv(x); }),
    YULOH_MAP1("floor", YULOH_BOTH("floor"), "Largest integer that is not above x.", same,
               [](S x) { return floor(x); }),
    YULOH_MAP1("ceil", YULOH_BOTH("ceil"), "Smallest integer that is not below x.", same,
               [](S x) { return ceil(x); }),
    YULOH_MAP1("trunc", YULOH_BOTH("trunc"), "x without its fraction.", same, [](S x) { return trunc(x); }),
    YULOH_MAP1("frac", YULOH_BOTH("frac"), "x - trunc(x).", same, [](S x) { return x - trunc(x); }),
    {.schema = "lgamma(Tensor x) -> Tensor",
     .python = YULOH_BOTH("lgamma") " paddle.gammaln paddle.Tensor.gammaln",
     .doc = "Logarithm of |gamma(x)|.",
     .infer = same_float,
     .scalar = [](S x) { return lgamma(x); },
     .vjp = [](const Call& c, const Values& g) -> Values { return {g[0] * un("digamma", c["x"])}; },
     .needs = "x",
     .inplace_variant = true},
    {.schema = "digamma(Tensor x) -> Tensor",
     .python = YULOH_BOTH("digamma"),
     .doc = "Derivative of lgamma.",
     .infer = same_float,
     .scalar = [](S x) { return digamma(x); },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {g[0] * call("polygamma_core", {c["x"]}, {{"n", 1}})};
     },
     .needs = "x",
     .inplace_variant = true},
    YULOH_MAP1("deg2rad", YULOH_BOTH("deg2rad"), "Degrees to radians.", same_float,
               [](S x) { return x * S(kPi / 180); }),
    YULOH_MAP1("rad2deg", YULOH_BOTH("rad2deg"), "Radians to degrees.", same_float,
               [](S x) { return x * S(180 / kPi); }),
    {.schema = "round(Tensor x, int decimals=0) -> Tensor",
     .python = YULOH_BOTH("round"),
     .doc = "Nearest value with `decimals` digits after the point, halves to even.",
     .infer = same,
     .scalar =
         [](const Call& c, S x) {
           const int64_t d = c.integer("decimals");
           if (d == 0) return round(x);
           const S s(std::pow(10.0, static_cast<double>(d < 0 ? -d : d)));
           return d > 0 ? round(x * s) / s : round(x / s) * s;
         },
     .inplace_variant = true},
    {.schema = "logit(Tensor x, float? eps=None) -> Tensor",
     .python = YULOH_BOTH("logit"),
     .doc = "log(x / (1 - x)); x is first limited to [eps, 1 - eps] when eps is given, else outside [0, 1] "
            "is NaN.",
     .infer = same_float,
     .scalar =
         [](const Call& c, S x) {
           if (c.has("eps")) {
             const double e = c.real("eps");
             x = select(x < S(e), S(e), select(x > S(1 - e), S(1 - e), x));
           }
           return log(x / (S(1) - x));
         },
     .inplace_variant = true},
    {.schema = "nan_to_num(Tensor x, float nan=0.0, float? posinf=None, float? neginf=None) -> Tensor",
     .python = YULOH_BOTH("nan_to_num"),
     .doc = "Replaces NaN and infinities; None stands for the largest (lowest) finite value of the dtype.",
     .infer = same,
     .scalar =
         [](const Call& c, S x) {
           const DType t = c.n_in ? c.type(0).dtype : DType::kFloat32;
           const double top = t == DType::kFloat64    ? 1.7976931348623157e308
                              : t == DType::kFloat16  ? 65504.0
                              : t == DType::kBFloat16 ? 3.3895313892515355e38
                                                      : 3.4028234663852886e38;
           const double hi = c.has("posinf") ? c.real("posinf") : top,
                        lo = c.has("neginf") ? c.real("neginf") : -top;
           return select(isnan(x), S(c.real("nan")), select(isinf(x), select(x > S(0), S(hi), S(lo)), x));
         },
     .inplace_variant = true},
    {.schema = "stanh(Tensor x, float scale_a=0.67, float scale_b=1.7159) -> Tensor",
     .python = YULOH_BOTH("stanh"),
     .doc = "scale_b * tanh(scale_a * x).",
     .infer = same_float,
     .scalar = [](const Call& c, S x) { return S(c.real("scale_b")) * tanh(S(c.real("scale_a")) * x); }},
};
}  // namespace
}  // namespace yuloh
