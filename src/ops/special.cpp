// SPDX-License-Identifier: Apache-2.0
// Special functions that no tile primitive exists for, and pairs of integers: reference loops computed in
// double.
#include <cmath>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

template <double (*F)(double)>
void map1(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const int64_t n = o.numel(), xs = static_cast<int64_t>(dtype_size(x.dtype)),
                os = static_cast<int64_t>(dtype_size(o.dtype));
  Walk<1> w(x.shape, {x.strides});
  for (int64_t i = 0; i < n; ++i, w.next())
    store_double(o.as<char>() + i * os, o.dtype, F(load_double(x.as<char>() + w.offset[0] * xs, x.dtype)));
}
Ints spread(const HostOperand& x, const Shape& s) {
  Ints r(s.size(), 0);
  const uint32_t extra = s.size() - x.shape.size();
  for (uint32_t i = 0; i < x.shape.size(); ++i) r[i + extra] = x.shape[i] == 1 ? 0 : x.strides[i];
  return r;
}
template <class F>
void map2(const HostCall& h, F&& f) {  // f(pointer to x, pointer to y, pointer to out)
  const HostOperand &x = h.in[0], &y = h.in[1], &o = h.out[0];
  const int64_t n = o.numel(), xs = static_cast<int64_t>(dtype_size(x.dtype)),
                ys = static_cast<int64_t>(dtype_size(y.dtype)),
                os = static_cast<int64_t>(dtype_size(o.dtype));
  Walk<2> w(o.shape, {spread(x, o.shape), spread(y, o.shape)});
  for (int64_t i = 0; i < n; ++i, w.next())
    f(x.as<char>() + w.offset[0] * xs, y.as<char>() + w.offset[1] * ys, o.as<char>() + i * os);
}

// Modified Bessel functions times exp(-|x|): power series up to 20, then the asymptotic series (error below
// 1e-12).
double bessel_scaled(double x, int order) {
  const double a = std::abs(x);
  double r;
  if (a < 20) {
    double term = order ? a / 2 : 1, sum = term;
    for (int k = 1; k < 200 && term > sum * 1e-17; ++k) term *= a * a / 4 / (k * (k + order)), sum += term;
    r = sum * std::exp(-a);
  } else {
    const double mu = 4.0 * order * order;
    double term = 1, sum = 1;
    for (int k = 1; k < 40; ++k) {
      const double next = -term * (mu - (2.0 * k - 1) * (2.0 * k - 1)) / (k * 8 * a);
      if (std::abs(next) > std::abs(term)) break;
      term = next, sum += term;
    }
    r = sum / std::sqrt(2 * 3.14159265358979323846 * a);
  }
  return order && x < 0 ? -r : r;
}
double i0e(double x) { return bessel_scaled(x, 0); }
double i1e(double x) { return bessel_scaled(x, 1); }
double i0(double x) { return i0e(x) * std::exp(std::abs(x)); }
double i1(double x) { return i1e(x) * std::exp(std::abs(x)); }

double factorial(int64_t n) { return std::tgamma(static_cast<double>(n) + 1); }
// n-th derivative of digamma (n >= 1): recurrence up to 20, then the asymptotic series. Far below zero the
// sum over all integers, which has period 1, less the part to the left.
double polygamma_of(int64_t n, double x) {
  if (x <= 0 && x == std::floor(x)) return INFINITY;
  const double s = n % 2 ? 1 : -1, d = static_cast<double>(n);
  if (x < -20) {
    const double f = x - std::floor(x);
    return polygamma_of(n, f) + s * (polygamma_of(n, 1 - f) - polygamma_of(n, 1 - x));
  }
  double sum = 0;
  while (x < 20) sum += 1 / std::pow(x, d + 1), x += 1;
  static const double b[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
  double tail = factorial(n - 1) / std::pow(x, d) + factorial(n) / (2 * std::pow(x, d + 1));
  for (int k = 1; k <= 7; ++k)
    tail += b[k - 1] * std::tgamma(2.0 * k + d) / std::tgamma(2.0 * k + 1) / std::pow(x, 2.0 * k + d);
  return s * (factorial(n) * sum + tail);
}
void host_polygamma(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const int64_t n = o.numel(), k = h.call.integer("n"), xs = static_cast<int64_t>(dtype_size(x.dtype)),
                os = static_cast<int64_t>(dtype_size(o.dtype));
  Walk<1> w(x.shape, {x.strides});
  for (int64_t i = 0; i < n; ++i, w.next())
    store_double(o.as<char>() + i * os, o.dtype,
                 polygamma_of(k, load_double(x.as<char>() + w.offset[0] * xs, x.dtype)));
}

// Regularised lower incomplete gamma function: series below a + 1, continued fraction above.
double gamma_lower(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return NAN;
  if (x == 0) return 0;
  if (std::isinf(x)) return 1;
  const double scale = std::exp(-x + a * std::log(x) - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double k = a + 1; term > sum * 1e-17; ++k) term *= x / k, sum += term;
    return sum * scale;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, f = d;
  for (int k = 1; k < 1000; ++k) {
    const double an = -k * (k - a);
    b += 2;
    d = 1 / (an * d + b), c = b + an / c;
    const double delta = c * d;
    f *= delta;
    if (std::abs(delta - 1) < 1e-16) break;
  }
  return 1 - scale * f;
}
template <bool Upper>
void host_gammainc(const HostCall& h) {
  const DType x = h.in[0].dtype, y = h.in[1].dtype, o = h.out[0].dtype;
  map2(h, [&](const void* a, const void* b, void* r) {
    const double p = gamma_lower(load_double(a, x), load_double(b, y));
    store_double(r, o, Upper ? 1 - p : p);
  });
}
template <class F>
void integers(const HostCall& h, F&& f) {
  const DType x = h.in[0].dtype, y = h.in[1].dtype, o = h.out[0].dtype;
  map2(h, [&](const void* a, const void* b, void* r) { store_int(r, o, f(load_int(a, x), load_int(b, y))); });
}
uint64_t magnitude(int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }
uint64_t gcd_of(uint64_t a, uint64_t b) {
  while (b) a = std::exchange(b, a % b);
  return a;
}
void host_gcd(const HostCall& h) {
  integers(h, [](int64_t a, int64_t b) { return static_cast<int64_t>(gcd_of(magnitude(a), magnitude(b))); });
}
void host_lcm(const HostCall& h) {
  integers(h, [](int64_t a, int64_t b) {
    const uint64_t g = gcd_of(magnitude(a), magnitude(b));
    return g ? static_cast<int64_t>(magnitude(a) / g * magnitude(b)) : int64_t{0};
  });
}
void host_nextafter(const HostCall& h) {
  const bool wide = h.out[0].dtype == DType::kFloat64;
  map2(h, [&](const void* a, const void* b, void* r) {
    if (wide)
      *static_cast<double*>(r) =
          std::nextafter(*static_cast<const double*>(a), *static_cast<const double*>(b));
    else
      *static_cast<float*>(r) = std::nextafterf(*static_cast<const float*>(a), *static_cast<const float*>(b));
  });
}
Types infer_nextafter(const Call& c) {
  const Types t = same(c);
  if ((t[0].dtype != DType::kFloat32 && t[0].dtype != DType::kFloat64) || c.type(0).dtype != c.type(1).dtype)
    type_error("nextafter: dtype is not supported, got ", c.type(0).dtype, " and ", c.type(1).dtype,
               "; expected two float32 or two float64.");
  return t;
}
Types infer_float(const Call& c) { return same_float(c); }
Value times_g(const Values& g, const Value& d) { return g[0] * d; }

const Register functions{
    {.schema = "i0(Tensor x) -> Tensor",
     .python = YULOH_BOTH("i0"),
     .doc = "Modified Bessel function of order 0.",
     .infer = infer_float,
     .host = map1<i0>,
     .vjp = [](const Call& c, const Values& g) -> Values { return {times_g(g, un("i1", c["x"]))}; },
     .needs = "x",
     .inplace_variant = true},
    {.schema = "i1(Tensor x) -> Tensor",
     .python = YULOH_BOTH("i1"),
     .doc = "Modified Bessel function of order 1.",
     .infer = infer_float,
     .host = map1<i1>,
     .vjp = [](const Call& c, const Values& g) -> Values {  // i0 - i1 / x, which is 1/2 at 0
       const Value x = c["x"], zero = equal(x, constant_like(0, x));
       const Value safe = where(zero, constant_like(1, x), x);
       return {times_g(g, where(zero, constant_like(0.5, x), un("i0", x) - c.out() / safe))};
     },
     .needs = "x out"},
    {.schema = "i0e(Tensor x) -> Tensor",
     .python = YULOH_BOTH("i0e"),
     .doc = "i0(x) * exp(-|x|).",
     .infer = infer_float,
     .host = map1<i0e>,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {times_g(g, un("i1e", c["x"]) - sign(c["x"]) * c.out())};
     },
     .needs = "x out"},
    {.schema = "i1e(Tensor x) -> Tensor",
     .python = YULOH_BOTH("i1e"),
     .doc = "i1(x) * exp(-|x|).",
     .infer = infer_float,
     .host = map1<i1e>,
     .vjp = [](const Call& c, const Values& g) -> Values {
       const Value x = c["x"], zero = equal(x, constant_like(0, x));
       const Value safe = where(zero, constant_like(1, x), x);
       return {times_g(g, where(zero, constant_like(0.5, x),
                                un("i0e", x) - c.out() * (sign(x) + un("reciprocal", safe))))};
     },
     .needs = "x out"},
    {.schema = "polygamma_core(Tensor x, int n) -> Tensor",
     .doc = "n-th derivative of digamma, n >= 1.",
     .infer = infer_float,
     .host = host_polygamma,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {times_g(g, call("polygamma_core", {c["x"]}, {{"n", c.integer("n") + 1}}))};
     },
     .needs = "x"},
    {.schema = "polygamma(Tensor x, int n) -> Tensor",
     .python = YULOH_BOTH("polygamma"),
     .doc = "n-th derivative of digamma; n = 0 is digamma itself.",
     .infer =
         [](const Call& c) {
           if (c.integer("n") < 0)
             value_error("polygamma: n is negative, got ", c.integer("n"), "; expected n >= 0.");
           return same_float(c);
         },
     .expand = [](const Call& c) -> Values {
       if (c.integer("n") == 0) return {un("digamma", c["x"])};
       return {call("polygamma_core", {c["x"]}, {{"n", c.integer("n")}})};
     },
     .inplace_variant = true},
    {.schema = "sinc(Tensor x) -> Tensor",
     .python = YULOH_BOTH("sinc"),
     .doc = "sin(pi x) / (pi x), 1 at 0.",
     .infer = infer_float,
     .scalar =
         [](Scalar x) {
           const Scalar y = x * Scalar(3.14159265358979323846);
           return select(x == Scalar(0), Scalar(1), sin(y) / select(x == Scalar(0), Scalar(1), y));
         },
     .inplace_variant = true},
    {.schema = "gammainc(Tensor x, Tensor y) -> Tensor",
     .python = YULOH_BOTH("gammainc"),
     .doc = "Regularised lower incomplete gamma function of shape x at y.",
     .infer = infer_float,
     .host = host_gammainc<false>,
     .no_grad = true},
    {.schema = "gammaincc(Tensor x, Tensor y) -> Tensor",
     .python = YULOH_BOTH("gammaincc"),
     .doc = "1 - gammainc(x, y).",
     .infer = infer_float,
     .host = host_gammainc<true>,
     .no_grad = true},
    {.schema = "gcd(Tensor x, Tensor y) -> Tensor",
     .python = YULOH_BOTH("gcd"),
     .doc = "Greatest common divisor of integers.",
     .infer = integral,
     .host = host_gcd,
     .no_grad = true,
     .inplace_variant = true},
    {.schema = "lcm(Tensor x, Tensor y) -> Tensor",
     .python = YULOH_BOTH("lcm"),
     .doc = "Least common multiple of integers.",
     .infer = integral,
     .host = host_lcm,
     .no_grad = true,
     .inplace_variant = true},
    {.schema = "nextafter(Tensor x, Tensor y) -> Tensor",
     .python = YULOH_BOTH("nextafter"),
     .doc = "The next floating point value after x towards y.",
     .infer = infer_nextafter,
     .host = host_nextafter,
     .no_grad = true},
    {.schema = "ldexp(Tensor x, Tensor y) -> Tensor",
     .python = YULOH_BOTH("ldexp"),
     .doc = "x * 2 to the power y.",
     .infer = infer_float,
     .expand = [](const Call& c) -> Values {
       const DType t = same_float(c)[0].dtype;
       return {cast(c["x"], t) * call("pow", {constant(2, t), cast(c["y"], t)})};
     },
     .inplace_variant = true},
};
}  // namespace
}  // namespace yuloh
