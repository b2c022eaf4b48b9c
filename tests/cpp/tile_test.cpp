// SPDX-License-Identifier: Apache-2.0
// The tile interpreter: every primitive and type on edge values, tail lengths and operand forms.
#include "tile_program_builder.h"

namespace yuloh {
namespace {
class PrimIsa : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Tile, PrimIsa, ::testing::Values(Isa::kSse2, Isa::kAvx2, Isa::kAvx512),
                         [](auto& i) { return std::string(isa_name(i.param)); });

template <class T>
std::vector<T> run_unary(Prim q, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  Prog p({}, x.size());
  const int r = p.prim(q, kCType<T>, p.load(kDType<T>, {}, 1));
  p.store(kDType<T>, {}, 1, r);
  p.run({const_cast<T*>(x.data()), y.data()});
  return y;
}
struct UnaryCase {
  Prim prim;
  double (*f)(double);
  double bound;  // ulps, float32
  double lo = -1e5, hi = 1e5;
};
double rint_even(double x) { return std::nearbyint(x); }
const UnaryCase kUnary[] = {
    {Prim::kNeg, [](double x) { return -x; }, 0},
    {Prim::kAbs, [](double x) { return std::fabs(x); }, 0},
    {Prim::kSign, [](double x) { return x > 0    ? 1.0
                                        : x < 0  ? -1.0
                                        : x == 0 ? 0.0
                                                 : x; }, 0},
    {Prim::kExp, [](double x) { return std::exp(x); }, 1.2, -110, 95},
    {Prim::kExpm1, [](double x) { return std::expm1(x); }, 0.6, -110, 95},
    {Prim::kLog, [](double x) { return std::log(x); }, 1.2, 0, 1e30},
    {Prim::kLog1p, [](double x) { return std::log1p(x); }, 0.6, -2, 1e30},
    {Prim::kSqrt, [](double x) { return std::sqrt(x); }, 0.51},
    {Prim::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.6, 0, 1e30},
    {Prim::kSin, [](double x) { return std::sin(x); }, 0.6},
    {Prim::kCos, [](double x) { return std::cos(x); }, 0.6},
    {Prim::kTan, [](double x) { return std::tan(x); }, 0.6},
    {Prim::kAsin, [](double x) { return std::asin(x); }, 0.6, -1.1, 1.1},
    {Prim::kAcos, [](double x) { return std::acos(x); }, 0.6, -1.1, 1.1},
    {Prim::kAtan, [](double x) { return std::atan(x); }, 0.6},
    {Prim::kSinh, [](double x) { return std::sinh(x); }, 0.6, -95, 95},
    {Prim::kCosh, [](double x) { return std::cosh(x); }, 0.6, -95, 95},
    {Prim::kTanh, [](double x) { return std::tanh(x); }, 1.6, -12, 12},
    {Prim::kAsinh, [](double x) { return std::asinh(x); }, 0.6},
    {Prim::kAcosh, [](double x) { return std::acosh(x); }, 0.6, 0.5, 1e6},
    {Prim::kAtanh, [](double x) { return std::atanh(x); }, 0.6, -1.1, 1.1},
    {Prim::kErf, [](double x) { return std::erf(x); }, 1.6, -6, 6},
    {Prim::kFloor, [](double x) { return std::floor(x); }, 0},
    {Prim::kCeil, [](double x) { return std::ceil(x); }, 0},
    {Prim::kRound, rint_even, 0},
    {Prim::kTrunc, [](double x) { return std::trunc(x); }, 0},
    {Prim::kLgamma, [](double x) { return std::lgamma(x); }, 0.6, 0, 1e4},
};

TEST_P(PrimIsa, UnaryFloat32) {
  for (const UnaryCase& c : kUnary) {
    const auto x = numbers<float>(60000, c.lo, c.hi, 7);
    const auto y = run_unary<float>(c.prim, x);
    double worst = 0, at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = c.f(x[i]), e = ulp_error(y[i], want);
      if (e > worst) worst = e, at = x[i];
      if (want == 0 && !std::isnan(want) && c.bound == 0) {
        ASSERT_EQ(std::signbit(want), std::signbit(y[i])) << prim_info(c.prim).name << " of " << x[i];
      }
    }
    EXPECT_LE(worst, c.bound) << prim_info(c.prim).name << " worst at " << at;
    RecordProperty(prim_info(c.prim).name, std::to_string(worst));
    if (std::getenv("YULOH_TEST_VERBOSE"))
      std::printf("%-8s %-8s %.3f ulp\n", isa_name(GetParam()), prim_info(c.prim).name, worst);
  }
}
TEST_P(PrimIsa, UnaryFloat64) {
  for (const UnaryCase& c : kUnary) {
    const auto x = numbers<double>(3000, c.lo, c.hi, 8);
    const auto y = run_unary<double>(c.prim, x);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(ulp_error(y[i], c.f(x[i])), 2) << prim_info(c.prim).name << " of " << x[i] << " got " << y[i];
  }
}
TEST_P(PrimIsa, EveryTailLength) {
  for (int n = 0; n <= 70; ++n)
    for (const UnaryCase& c : kUnary) {
      const auto x = numbers<float>(n, c.lo, c.hi, n, false);
      const auto y = run_unary<float>(c.prim, x);
      for (int i = 0; i < n; ++i)
        ASSERT_LE(ulp_error(y[i], c.f(x[i])), c.bound)
            << prim_info(c.prim).name << " n " << n << " x " << x[i];
    }
}
TEST_P(PrimIsa, SpecialFunctions) {
  const auto inv =
      run_unary<double>(Prim::kErfinv, {0, 0.1, -0.5, 0.9, 0.999999, -0.9999999999, 1, -1, 2, kNaN});
  const double x[] = {0, 0.1, -0.5, 0.9, 0.999999, -0.9999999999};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(std::erf(inv[i]), x[i], 3e-16);
  EXPECT_EQ(inv[6], kInf);
  EXPECT_EQ(inv[7], -kInf);
  EXPECT_TRUE(std::isnan(inv[8]) && std::isnan(inv[9]));
  const auto d = run_unary<double>(Prim::kDigamma, {1, 0.5, -0.5, 10, 100.5, 0, -1});
  EXPECT_NEAR(d[0], -0.5772156649015329, 1e-14);
  EXPECT_NEAR(d[1], -1.9635100260214235, 1e-14);
  EXPECT_NEAR(d[2], 0.03648997397857652, 1e-14);
  EXPECT_NEAR(d[3], 2.251752589066721, 1e-14);
  EXPECT_NEAR(d[4], std::log(100.5) - 0.5 / 100.5 - 1 / (12 * 100.5 * 100.5), 1e-9);
  EXPECT_TRUE(std::isinf(d[5]) && std::isnan(d[6]));
}

// ---- binary: all operand forms ----
template <class T>
using Fn2 = std::function<double(double, double)>;
double np_mod(double x, double y) {
  const double m = std::fmod(x, y);
  return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
double np_floor_div(double x, double y) {
  if (y == 0) return x / y;
  const double m = std::fmod(x, y);
  double q = (x - m) / y;
  if (m != 0 && (m < 0) != (y < 0)) q -= 1;
  return q == 0 ? std::copysign(0.0, x / y) : std::floor(q) + (q - std::floor(q) > 0.5);
}
double np_max(double x, double y) { return std::isnan(x) || x > y ? x : y; }
double np_min(double x, double y) { return std::isnan(x) || x < y ? x : y; }

enum class Form { kVector, kRow, kUniform, kColumn };
Ints outer_of(Form f, int64_t cols) {
  return f == Form::kVector ? Ints{cols} : f == Form::kRow ? Ints{1} : Ints{0};
}
int64_t inner_of(Form f) { return f == Form::kVector || f == Form::kColumn ? 1 : 0; }
int64_t at(Form f, int64_t r, int64_t c, int64_t cols) {
  return f == Form::kVector ? r * cols + c : f == Form::kRow ? r : f == Form::kColumn ? c : 0;
}

template <class T, class D>
void check_binary(Prim q, const std::function<double(double, double)>& f, double bound, double lo,
                  double hi) {
  for (const auto& [rows, cols] :
       {std::pair<int, int>{5, 7}, {3, 70}, {1, 3000}, {700, 3}, {2, 5000}, {40, 1}}) {
    const auto a = numbers<T>(rows * cols, lo, hi, 1), b = numbers<T>(rows * cols, lo, hi, 2);
    for (Form fa : {Form::kVector, Form::kRow, Form::kUniform, Form::kColumn})
      for (Form fb : {Form::kVector, Form::kRow, Form::kUniform, Form::kColumn}) {
        std::vector<D> d(rows * cols);
        Prog p({rows}, cols);
        const int ra = p.load(kDType<T>, outer_of(fa, cols), inner_of(fa)),
                  rb = p.load(kDType<T>, outer_of(fb, cols), inner_of(fb));
        const int r = p.prim(q, kCType<T>, ra, rb);
        p.store(kDType<D>, {cols}, 1, r);
        p.run({const_cast<T*>(a.data()), const_cast<T*>(b.data()), d.data()});
        for (int i = 0; i < rows; ++i)
          for (int j = 0; j < cols; ++j) {
            const T x = a[at(fa, i, j, cols)], y = b[at(fb, i, j, cols)];
            const D got = d[i * cols + j];
            const double want = f(x, y);
            if constexpr (std::is_floating_point_v<D>)
              ASSERT_LE(ulp_error(got, want), bound) << prim_info(q).name << " " << x << ", " << y << " got "
                                                     << got << " forms " << int(fa) << int(fb);
            else
              ASSERT_EQ(got, static_cast<D>(want))
                  << prim_info(q).name << " " << x << ", " << y << " forms " << int(fa) << int(fb);
          }
      }
  }
}
struct BinaryCase {
  Prim prim;
  double (*f)(double, double);
  double bound = 0.51;
};
const BinaryCase kBinary[] = {
    {Prim::kAdd, [](double x, double y) { return x + y; }},
    {Prim::kSub, [](double x, double y) { return x - y; }},
    {Prim::kMul, [](double x, double y) { return x * y; }},
    {Prim::kDiv, [](double x, double y) { return x / y; }},
    {Prim::kMax, np_max},
    {Prim::kMin, np_min},
    {Prim::kAtan2, [](double x, double y) { return std::atan2(x, y); }},
    {Prim::kFMod, [](double x, double y) { return std::fmod(x, y); }},
};
const BinaryCase kCompare[] = {
    {Prim::kEq, [](double x, double y) { return double(x == y); }},
    {Prim::kNe, [](double x, double y) { return double(x != y); }},
    {Prim::kLt, [](double x, double y) { return double(x < y); }},
    {Prim::kLe, [](double x, double y) { return double(x <= y); }},
    {Prim::kGt, [](double x, double y) { return double(x > y); }},
    {Prim::kGe, [](double x, double y) { return double(x >= y); }},
};
TEST_P(PrimIsa, BinaryFloat) {
  for (const auto& c : kBinary) {
    check_binary<float, float>(c.prim, c.f, c.bound, -100, 100);
    check_binary<double, double>(c.prim, c.f, 1, -100, 100);
  }
  check_binary<float, float>(
      Prim::kPow, [](double x, double y) { return std::pow(x, y); }, 0.6, -20, 20);
  check_binary<float, float>(
      Prim::kPow, [](double x, double y) { return std::pow(x, y); }, 0.6, 0.001, 20);
  check_binary<double, double>(Prim::kMod, np_mod, 0.5, -100, 100);
  check_binary<double, double>(Prim::kFloorDiv, np_floor_div, 0.5, -100, 100);
  check_binary<float, float>(
      Prim::kFloorDiv,
      [](double x, double y) {  // in float, as NumPy does
        const float a = x, b = y;
        if (b == 0) return static_cast<double>(a / b);
        const float m = std::fmod(a, b);
        float q = (a - m) / b;
        if (m != 0 && (m < 0) != (b < 0)) q -= 1;
        return static_cast<double>(q == 0 ? std::copysign(0.0f, a / b)
                                          : std::floor(q) + (q - std::floor(q) > 0.5f));
      },
      0.5, -100, 100);
}
TEST_P(PrimIsa, Compare) {
  for (const auto& c : kCompare) {
    check_binary<float, uint8_t>(c.prim, c.f, 0, -3, 3);
    check_binary<double, uint8_t>(c.prim, c.f, 0, -3, 3);
    check_binary<int64_t, uint8_t>(c.prim, c.f, 0, -3, 3);
  }
  for (Prim q : {Prim::kIsNan, Prim::kIsInf, Prim::kIsFinite}) {
    const auto x = numbers<float>(500, -3, 3, 5);
    std::vector<uint8_t> y(x.size());
    Prog p({}, x.size());
    p.store(DType::kBool, {}, 1, p.prim(q, CType::kF32, p.load(DType::kFloat32, {}, 1)));
    p.run({const_cast<float*>(x.data()), y.data()});
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i], q == Prim::kIsNan   ? std::isnan(x[i])
                      : q == Prim::kIsInf ? std::isinf(x[i])
                                          : std::isfinite(x[i]));
  }
}
TEST_P(PrimIsa, Integers) {
  for (const auto& c : kBinary)
    if (c.prim == Prim::kAdd || c.prim == Prim::kSub || c.prim == Prim::kMul || c.prim == Prim::kMax ||
        c.prim == Prim::kMin)
      check_binary<int64_t, int64_t>(c.prim, c.f, 0, -1000, 1000);
  check_binary<int64_t, int64_t>(
      Prim::kFloorDiv, [](double x, double y) { return std::floor(x / y); }, 0, 1, 90);
  const auto two = [](Prim q, int64_t a, int64_t b) {
    int64_t d = 99;
    Prog p({}, 1);
    const int x = p.load(DType::kInt64, {}, 1), y = p.load(DType::kInt64, {}, 1);
    p.store(DType::kInt64, {}, 1, p.prim(q, CType::kI64, x, y));
    p.run({&a, &b, &d});
    return d;
  };
  for (int64_t a : {-7, -6, -1, 0, 1, 6, 7})
    for (int64_t b : {-3, -2, 2, 3, -1, 1}) {
      EXPECT_EQ(two(Prim::kFloorDiv, a, b), std::floor(double(a) / double(b)));
      EXPECT_EQ(two(Prim::kMod, a, b), a - b * std::floor(double(a) / double(b)));
      EXPECT_EQ(two(Prim::kDiv, a, b), a / b);
      EXPECT_EQ(two(Prim::kFMod, a, b), a % b);
    }
  EXPECT_EQ(two(Prim::kFloorDiv, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(two(Prim::kMod, INT64_MIN, -1), 0);
  EXPECT_EQ(two(Prim::kAdd, INT64_MAX, 1), INT64_MIN);
  EXPECT_EQ(two(Prim::kPow, 3, 5), 243);
  EXPECT_EQ(two(Prim::kPow, 2, -1), 0);
  EXPECT_EQ(two(Prim::kPow, -1, -3), -1);
  EXPECT_EQ(two(Prim::kPow, 5, 0), 1);
  EXPECT_EQ(two(Prim::kShl, 3, 4), 48);
  EXPECT_EQ(two(Prim::kShl, 3, 64), 0);
  EXPECT_EQ(two(Prim::kShr, -8, 1), -4);
  EXPECT_EQ(two(Prim::kShr, -8, 80), -1);
  EXPECT_EQ(two(Prim::kAnd, 12, 10), 8);
  EXPECT_EQ(two(Prim::kOr, 12, 10), 14);
  EXPECT_EQ(two(Prim::kXor, 12, 10), 6);
  EXPECT_EQ(run_unary<int64_t>(Prim::kAbs, {INT64_MIN, -3})[0], INT64_MIN);
  EXPECT_EQ(run_unary<int64_t>(Prim::kNot, {5})[0], -6);
  EXPECT_EQ(run_unary<uint8_t>(Prim::kNot, {1, 0})[0], 0);
}
TEST_P(PrimIsa, ZeroDivisionRaisesAndWritesNothing) {
  for (Prim q : {Prim::kFloorDiv, Prim::kMod, Prim::kFMod, Prim::kDiv}) {
    std::vector<int64_t> a(100000, 7), b(100000, 2), d(100000, 42);
    b[77777] = 0;
    Prog p({}, 100000);
    const int x = p.load(DType::kInt64, {}, 1), y = p.load(DType::kInt64, {}, 1);
    p.store(DType::kInt64, {}, 1, p.prim(q, CType::kI64, x, y));
    try {
      p.run({a.data(), b.data(), d.data()});
      FAIL();
    } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::kZeroDivision); }
    for (int64_t v : d) ASSERT_EQ(v, 42);
    b[77777] = 2;
    p.run({a.data(), b.data(), d.data()});
    EXPECT_EQ(d[5], q == Prim::kFloorDiv || q == Prim::kDiv ? 3 : 1);
  }
}

// ---- select and fma in all forms ----
TEST_P(PrimIsa, SelectAndFma) {
  const int rows = 6, cols = 45;
  const auto a = numbers<float>(rows * cols, -3, 3, 1, false),
             b = numbers<float>(rows * cols, -3, 3, 2, false);
  std::vector<uint8_t> c(rows * cols);
  for (size_t i = 0; i < c.size(); ++i) c[i] = i % 3 == 0;
  const Form forms[] = {Form::kVector, Form::kRow, Form::kUniform, Form::kColumn};
  for (Form fc : forms)
    for (Form fa : forms)
      for (Form fb : forms) {
        std::vector<float> s(rows * cols), m(rows * cols);
        Prog p({rows}, cols);
        const int rc = p.load(DType::kBool, outer_of(fc, cols), inner_of(fc));
        const int ra = p.load(DType::kFloat32, outer_of(fa, cols), inner_of(fa)),
                  rb = p.load(DType::kFloat32, outer_of(fb, cols), inner_of(fb));
        p.store(DType::kFloat32, {cols}, 1, p.prim(Prim::kSelect, CType::kF32, rc, ra, rb));
        const int f = p.cast(CType::kB8, CType::kF32, rc);
        p.store(DType::kFloat32, {cols}, 1, p.prim(Prim::kFma, CType::kF32, f, ra, rb));
        p.run({c.data(), const_cast<float*>(a.data()), const_cast<float*>(b.data()), s.data(), m.data()});
        for (int i = 0; i < rows; ++i)
          for (int j = 0; j < cols; ++j) {
            const bool t = c[at(fc, i, j, cols)];
            const float x = a[at(fa, i, j, cols)], y = b[at(fb, i, j, cols)];
            ASSERT_EQ(s[i * cols + j], t ? x : y);
            ASSERT_EQ(m[i * cols + j], std::fma(t ? 1.f : 0.f, x, y));
          }
      }
}

}  // namespace
}  // namespace yuloh
