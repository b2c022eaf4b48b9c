// SPDX-License-Identifier: Apache-2.0
// The tile interpreter against plain loops: every primitive and type on edge values and every tail length, all operand
// forms, layouts, reductions, instruction sets, thread counts, zero division, fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "base/error.h"
#include "cpu/cpu_features.h"
#include "cpu/parallel.h"
#include "cpu/tile_kernel.h"
#include "cpu/tile_table.h"

namespace yuloh {
namespace {
using Kind = TileInstr::Kind;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- a small program builder ----
struct Prog {
  TileProgram p;
  explicit Prog(Shape outer, int64_t inner) { p.outer = outer, p.inner = inner; }
  int operand(DType t, Ints outer, int64_t inner) {
    p.operands.push_back({t, outer, inner, p.n_buffers++});
    return static_cast<int>(p.operands.size()) - 1;
  }
  int add(TileInstr i) {
    i.dst = p.n_regs++;
    p.instrs.push_back(i);
    return i.dst;
  }
  int load(int op) {
    const CType t = compute_type(p.operands[op].dtype);
    return add({.kind = Kind::kLoad, .type = t, .from = t, .dtype = p.operands[op].dtype, .a = op});
  }
  int load(DType t, Ints outer, int64_t inner) { return load(operand(t, outer, inner)); }
  int prim(Prim q, CType from, int a, int b = -1, int c = -1) {
    return add({.kind = Kind::kPrim, .prim = q, .type = prim_info(q).to_bool ? CType::kB8 : from, .from = from, .a = a, .b = b, .c = c});
  }
  int cast(CType from, CType to, int a) {
    return add({.kind = Kind::kPrim, .prim = Prim::kCast, .type = to, .from = from, .a = a});
  }
  int constant(CType t, double v) {
    return add({.kind = Kind::kPrim, .prim = Prim::kConst, .type = t, .from = t, .imm = v, .row = true});
  }
  int round(CType t, DType to, int a) { return add({.kind = Kind::kRound, .type = t, .from = t, .dtype = to, .a = a}); }
  int row_reduce(ReduceKind k, CType t, int a) {
    p.needs_whole_rows = true;
    return add({.kind = Kind::kRowReduce, .reduce = k, .type = t, .from = t, .a = a, .row = true});
  }
  void store(int op, int a) { p.instrs.push_back({.kind = Kind::kStore, .dtype = p.operands[op].dtype, .a = a, .b = op}); }
  void store(DType t, Ints outer, int64_t inner, int a) { store(operand(t, outer, inner), a); }
  void accumulate(bool columns, ReduceKind k, DType t, int a, int64_t inner) {
    const int op = operand(t, Ints(p.outer.size(), 0), inner);
    const CType c = compute_type(t);
    p.instrs.push_back({.kind = columns ? Kind::kColReduce : Kind::kAllReduce, .reduce = k, .type = c, .from = c, .dtype = t, .dst = 0, .a = a, .b = op});
  }
  void run(std::vector<void*> ptrs) {
    verify(p);
    auto k = make_cpu_tile_kernel(p);
    std::vector<double> workspace(k->workspace_bytes() / 8 + 8);
    ptrs.push_back(workspace.data());
    k->run(ptrs.data());
  }
};

template <class T>
constexpr DType kDType = std::is_same_v<T, float> ? DType::kFloat32 : std::is_same_v<T, double> ? DType::kFloat64
                         : std::is_same_v<T, int64_t> ? DType::kInt64 : DType::kBool;
template <class T>
constexpr CType kCType = std::is_same_v<T, float> ? CType::kF32 : std::is_same_v<T, double> ? CType::kF64
                         : std::is_same_v<T, int64_t> ? CType::kI64 : CType::kB8;

template <class T>
double ulp_error(T got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInf;
  const T w = static_cast<T>(want);
  if (std::isinf(w)) return got == w || std::abs(static_cast<double>(got)) >= std::numeric_limits<T>::max() ? 0 : kInf;
  if (!std::isfinite(got)) return kInf;
  int e;
  std::frexp(std::max(std::abs(want), static_cast<double>(std::numeric_limits<T>::min())), &e);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, e - std::numeric_limits<T>::digits);
}

class IsaTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > hardware_isa()) GTEST_SKIP() << "CPU lacks " << isa_name(GetParam());
    set_max_isa(GetParam());
  }
  void TearDown() override { set_max_isa(Isa::kAvx512); }
};
INSTANTIATE_TEST_SUITE_P(Tile, IsaTest, ::testing::Values(Isa::kSse2, Isa::kAvx2, Isa::kAvx512),
                         [](auto& i) { return std::string(isa_name(i.param)); });

template <class T>
std::vector<T> numbers(int n, double lo, double hi, uint64_t seed, bool edges = true) {
  std::mt19937_64 g(seed);
  std::uniform_real_distribution<double> u(lo, hi), e(-40, 40);
  std::vector<T> v(n);
  for (int i = 0; i < n; ++i) {
    double x = i % 3 ? u(g) : std::ldexp(u(g) < (lo + hi) / 2 ? -1 : 1, static_cast<int>(e(g)));
    if (std::is_same_v<T, int64_t>) x = std::round(u(g));
    v[i] = static_cast<T>(std::clamp(x, lo, hi));
  }
  if constexpr (std::is_floating_point_v<T>) {
    const double special[] = {0.0, -0.0, kInf, -kInf, kNaN, 1, -1, 0.5, 1.5, 2.5, -0.5, -2.5, 1e-40, -1e-40, 1e-45,
                              std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), 2, 3, -2, 1e10, -1e10};
    for (size_t k = 0; edges && k < std::size(special) && k < v.size(); ++k) v[k * v.size() / std::size(special)] = static_cast<T>(special[k]);
  }
  return v;
}

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
    {Prim::kNeg, [](double x) { return -x; }, 0}, {Prim::kAbs, [](double x) { return std::fabs(x); }, 0},
    {Prim::kSign, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? 0.0 : x; }, 0},
    {Prim::kExp, [](double x) { return std::exp(x); }, 1.2, -110, 95}, {Prim::kExpm1, [](double x) { return std::expm1(x); }, 0.6, -110, 95},
    {Prim::kLog, [](double x) { return std::log(x); }, 1.2, 0, 1e30}, {Prim::kLog1p, [](double x) { return std::log1p(x); }, 0.6, -2, 1e30},
    {Prim::kSqrt, [](double x) { return std::sqrt(x); }, 0.51}, {Prim::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.6, 0, 1e30},
    {Prim::kSin, [](double x) { return std::sin(x); }, 0.6}, {Prim::kCos, [](double x) { return std::cos(x); }, 0.6},
    {Prim::kTan, [](double x) { return std::tan(x); }, 0.6}, {Prim::kAsin, [](double x) { return std::asin(x); }, 0.6, -1.1, 1.1},
    {Prim::kAcos, [](double x) { return std::acos(x); }, 0.6, -1.1, 1.1}, {Prim::kAtan, [](double x) { return std::atan(x); }, 0.6},
    {Prim::kSinh, [](double x) { return std::sinh(x); }, 0.6, -95, 95}, {Prim::kCosh, [](double x) { return std::cosh(x); }, 0.6, -95, 95},
    {Prim::kTanh, [](double x) { return std::tanh(x); }, 1.6, -12, 12}, {Prim::kAsinh, [](double x) { return std::asinh(x); }, 0.6},
    {Prim::kAcosh, [](double x) { return std::acosh(x); }, 0.6, 0.5, 1e6}, {Prim::kAtanh, [](double x) { return std::atanh(x); }, 0.6, -1.1, 1.1},
    {Prim::kErf, [](double x) { return std::erf(x); }, 1.6, -6, 6},
    {Prim::kFloor, [](double x) { return std::floor(x); }, 0}, {Prim::kCeil, [](double x) { return std::ceil(x); }, 0},
    {Prim::kRound, rint_even, 0}, {Prim::kTrunc, [](double x) { return std::trunc(x); }, 0},
    {Prim::kLgamma, [](double x) { return std::lgamma(x); }, 0.6, 0, 1e4},
};

TEST_P(IsaTest, UnaryFloat32) {
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
    if (std::getenv("YULOH_TEST_VERBOSE")) std::printf("%-8s %-8s %.3f ulp\n", isa_name(GetParam()), prim_info(c.prim).name, worst);
  }
}
TEST_P(IsaTest, UnaryFloat64) {
  for (const UnaryCase& c : kUnary) {
    const auto x = numbers<double>(3000, c.lo, c.hi, 8);
    const auto y = run_unary<double>(c.prim, x);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(ulp_error(y[i], c.f(x[i])), 2) << prim_info(c.prim).name << " of " << x[i] << " got " << y[i];
  }
}
TEST_P(IsaTest, EveryTailLength) {
  for (int n = 0; n <= 70; ++n)
    for (const UnaryCase& c : kUnary) {
      const auto x = numbers<float>(n, c.lo, c.hi, n, false);
      const auto y = run_unary<float>(c.prim, x);
      for (int i = 0; i < n; ++i) ASSERT_LE(ulp_error(y[i], c.f(x[i])), c.bound) << prim_info(c.prim).name << " n " << n << " x " << x[i];
    }
}
TEST_P(IsaTest, SpecialFunctions) {
  const auto inv = run_unary<double>(Prim::kErfinv, {0, 0.1, -0.5, 0.9, 0.999999, -0.9999999999, 1, -1, 2, kNaN});
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
Ints outer_of(Form f, int64_t cols) { return f == Form::kVector ? Ints{cols} : f == Form::kRow ? Ints{1} : Ints{0}; }
int64_t inner_of(Form f) { return f == Form::kVector || f == Form::kColumn ? 1 : 0; }
int64_t at(Form f, int64_t r, int64_t c, int64_t cols) {
  return f == Form::kVector ? r * cols + c : f == Form::kRow ? r : f == Form::kColumn ? c : 0;
}

template <class T, class D>
void check_binary(Prim q, const std::function<double(double, double)>& f, double bound, double lo, double hi) {
  for (const auto& [rows, cols] : {std::pair<int, int>{5, 7}, {3, 70}, {1, 3000}, {700, 3}, {2, 5000}, {40, 1}}) {
    const auto a = numbers<T>(rows * cols, lo, hi, 1), b = numbers<T>(rows * cols, lo, hi, 2);
    for (Form fa : {Form::kVector, Form::kRow, Form::kUniform, Form::kColumn})
      for (Form fb : {Form::kVector, Form::kRow, Form::kUniform, Form::kColumn}) {
        std::vector<D> d(rows * cols);
        Prog p({rows}, cols);
        const int ra = p.load(kDType<T>, outer_of(fa, cols), inner_of(fa)), rb = p.load(kDType<T>, outer_of(fb, cols), inner_of(fb));
        const int r = p.prim(q, kCType<T>, ra, rb);
        p.store(kDType<D>, {cols}, 1, r);
        p.run({const_cast<T*>(a.data()), const_cast<T*>(b.data()), d.data()});
        for (int i = 0; i < rows; ++i)
          for (int j = 0; j < cols; ++j) {
            const T x = a[at(fa, i, j, cols)], y = b[at(fb, i, j, cols)];
            const D got = d[i * cols + j];
            const double want = f(x, y);
            if constexpr (std::is_floating_point_v<D>)
              ASSERT_LE(ulp_error(got, want), bound) << prim_info(q).name << " " << x << ", " << y << " got " << got << " forms " << int(fa) << int(fb);
            else
              ASSERT_EQ(got, static_cast<D>(want)) << prim_info(q).name << " " << x << ", " << y << " forms " << int(fa) << int(fb);
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
    {Prim::kAdd, [](double x, double y) { return x + y; }}, {Prim::kSub, [](double x, double y) { return x - y; }},
    {Prim::kMul, [](double x, double y) { return x * y; }}, {Prim::kDiv, [](double x, double y) { return x / y; }},
    {Prim::kMax, np_max}, {Prim::kMin, np_min},
    {Prim::kAtan2, [](double x, double y) { return std::atan2(x, y); }},
    {Prim::kFMod, [](double x, double y) { return std::fmod(x, y); }},
};
const BinaryCase kCompare[] = {
    {Prim::kEq, [](double x, double y) { return double(x == y); }}, {Prim::kNe, [](double x, double y) { return double(x != y); }},
    {Prim::kLt, [](double x, double y) { return double(x < y); }}, {Prim::kLe, [](double x, double y) { return double(x <= y); }},
    {Prim::kGt, [](double x, double y) { return double(x > y); }}, {Prim::kGe, [](double x, double y) { return double(x >= y); }},
};
TEST_P(IsaTest, BinaryFloat) {
  for (const auto& c : kBinary) {
    check_binary<float, float>(c.prim, c.f, c.bound, -100, 100);
    check_binary<double, double>(c.prim, c.f, 1, -100, 100);
  }
  check_binary<float, float>(Prim::kPow, [](double x, double y) { return std::pow(x, y); }, 0.6, -20, 20);
  check_binary<float, float>(Prim::kPow, [](double x, double y) { return std::pow(x, y); }, 0.6, 0.001, 20);
  check_binary<double, double>(Prim::kMod, np_mod, 0.5, -100, 100);
  check_binary<double, double>(Prim::kFloorDiv, np_floor_div, 0.5, -100, 100);
  check_binary<float, float>(Prim::kFloorDiv, [](double x, double y) {  // in float, as NumPy does
    const float a = x, b = y;
    if (b == 0) return static_cast<double>(a / b);
    const float m = std::fmod(a, b);
    float q = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0)) q -= 1;
    return static_cast<double>(q == 0 ? std::copysign(0.0f, a / b) : std::floor(q) + (q - std::floor(q) > 0.5f));
  }, 0.5, -100, 100);
}
TEST_P(IsaTest, Compare) {
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
      ASSERT_EQ(y[i], q == Prim::kIsNan ? std::isnan(x[i]) : q == Prim::kIsInf ? std::isinf(x[i]) : std::isfinite(x[i]));
  }
}
TEST_P(IsaTest, Integers) {
  for (const auto& c : kBinary)
    if (c.prim == Prim::kAdd || c.prim == Prim::kSub || c.prim == Prim::kMul || c.prim == Prim::kMax || c.prim == Prim::kMin)
      check_binary<int64_t, int64_t>(c.prim, c.f, 0, -1000, 1000);
  check_binary<int64_t, int64_t>(Prim::kFloorDiv, [](double x, double y) { return std::floor(x / y); }, 0, 1, 90);
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
TEST_P(IsaTest, ZeroDivisionRaisesAndWritesNothing) {
  for (Prim q : {Prim::kFloorDiv, Prim::kMod, Prim::kFMod, Prim::kDiv}) {
    std::vector<int64_t> a(100000, 7), b(100000, 2), d(100000, 42);
    b[77777] = 0;
    Prog p({}, 100000);
    const int x = p.load(DType::kInt64, {}, 1), y = p.load(DType::kInt64, {}, 1);
    p.store(DType::kInt64, {}, 1, p.prim(q, CType::kI64, x, y));
    try {
      p.run({a.data(), b.data(), d.data()});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kZeroDivision);
    }
    for (int64_t v : d) ASSERT_EQ(v, 42);
    b[77777] = 2;
    p.run({a.data(), b.data(), d.data()});
    EXPECT_EQ(d[5], q == Prim::kFloorDiv || q == Prim::kDiv ? 3 : 1);
  }
}

// ---- select and fma in all forms ----
TEST_P(IsaTest, SelectAndFma) {
  const int rows = 6, cols = 45;
  const auto a = numbers<float>(rows * cols, -3, 3, 1, false), b = numbers<float>(rows * cols, -3, 3, 2, false);
  std::vector<uint8_t> c(rows * cols);
  for (size_t i = 0; i < c.size(); ++i) c[i] = i % 3 == 0;
  const Form forms[] = {Form::kVector, Form::kRow, Form::kUniform, Form::kColumn};
  for (Form fc : forms)
    for (Form fa : forms)
      for (Form fb : forms) {
        std::vector<float> s(rows * cols), m(rows * cols);
        Prog p({rows}, cols);
        const int rc = p.load(DType::kBool, outer_of(fc, cols), inner_of(fc));
        const int ra = p.load(DType::kFloat32, outer_of(fa, cols), inner_of(fa)), rb = p.load(DType::kFloat32, outer_of(fb, cols), inner_of(fb));
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

// ---- storage types ----
TEST_P(IsaTest, StorageTypesRoundTrip) {
  const int n = 1000;
  for (DType t : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kFloat16,
                  DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const CType c = compute_type(t);
    std::vector<double> src(n);
    std::mt19937 g(3);
    for (double& v : src) v = static_cast<int>(g() % 200) - 100;
    std::vector<char> in(n * 8 * 3), out(n * 8 * 3);
    for (int64_t stride : {1, 3}) {
      for (int i = 0; i < n; ++i) store_double(in.data() + i * stride * dtype_size(t), t, t == DType::kBool ? src[i] > 0 : t == DType::kUInt8 ? std::fabs(src[i]) : src[i]);
      Prog p({}, n);
      p.store(t, {}, stride, p.prim(Prim::kAbs, c, p.load(t, {}, stride)));
      p.run({in.data(), out.data()});
      for (int i = 0; i < n; ++i)
        ASSERT_EQ(load_double(out.data() + i * stride * dtype_size(t), t), t == DType::kBool ? src[i] > 0 : std::fabs(src[i])) << t;
    }
  }
}
TEST_P(IsaTest, HalfConversionsMatchTheScalarOnes) {
  std::vector<uint16_t> h(65536), back(65536);
  for (int i = 0; i < 65536; ++i) h[i] = static_cast<uint16_t>(i);
  for (DType t : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<float> f(65536);
    Prog p({}, 65536);
    p.store(DType::kFloat32, {}, 1, p.load(t, {}, 1));
    p.run({h.data(), f.data()});
    for (int i = 0; i < 65536; ++i) {
      const float want = t == DType::kFloat16 ? half_to_float(h[i]) : bf16_to_float(h[i]);
      if (std::isnan(want)) ASSERT_TRUE(std::isnan(f[i]));
      else ASSERT_EQ(f[i], want) << i;
    }
    auto x = numbers<float>(200000, -70000, 70000, 4);
    for (int i = 0; i < 65536; ++i) x.push_back(std::nextafter(f[i], 1e30f)), x.push_back((f[i] + f[(i + 1) & 65535]) / 2);
    std::vector<uint16_t> got(x.size());
    std::vector<float> rounded(x.size());
    Prog q({}, x.size());
    const int r = q.load(DType::kFloat32, {}, 1);
    q.store(t, {}, 1, r);
    q.store(DType::kFloat32, {}, 1, q.round(CType::kF32, t, r));
    q.run({x.data(), got.data(), rounded.data()});
    for (size_t i = 0; i < x.size(); ++i) {
      const uint16_t want = t == DType::kFloat16 ? float_to_half(x[i]) : float_to_bf16(x[i]);
      const float wide = t == DType::kFloat16 ? half_to_float(want) : bf16_to_float(want);
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(rounded[i]));
      } else {
        ASSERT_EQ(got[i], want) << t << " " << x[i];
        ASSERT_EQ(rounded[i], wide);
      }
    }
  }
}
TEST_P(IsaTest, CastsAndIntegerRounding) {
  std::vector<int64_t> x = {0, 1, -1, 127, 128, 255, 256, -129, 65536 + 5, int64_t{1} << 40, -3000000000};
  std::vector<int64_t> y(x.size()), z(x.size());
  std::vector<double> f(x.size());
  std::vector<uint8_t> b(x.size());
  const int n = x.size();
  Prog p({}, n);
  const int r = p.load(DType::kInt64, {}, 1);
  p.store(DType::kInt64, {}, 1, p.round(CType::kI64, DType::kInt8, r));
  p.store(DType::kInt64, {}, 1, p.round(CType::kI64, DType::kInt32, r));
  p.store(DType::kFloat64, {}, 1, p.cast(CType::kI64, CType::kF64, r));
  p.store(DType::kBool, {}, 1, p.cast(CType::kI64, CType::kB8, r));
  p.run({x.data(), y.data(), z.data(), f.data(), b.data()});
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(y[i], static_cast<int8_t>(x[i]));
    EXPECT_EQ(z[i], static_cast<int32_t>(x[i]));
    EXPECT_EQ(f[i], static_cast<double>(x[i]));
    EXPECT_EQ(b[i], x[i] != 0);
  }
}

TEST_P(IsaTest, RealsBecomeNarrowIntegersAsTheHardwareDoes) {
  std::vector<float> x = {3e9f, -3e9f, NAN, INFINITY, 300.7f, -1.5f};
  std::vector<int32_t> y(6);
  std::vector<uint8_t> z(6);
  std::vector<int64_t> w(6);
  Prog p({}, 6);
  const int i = p.cast(CType::kF32, CType::kI64, p.load(DType::kFloat32, {}, 1));
  p.store(DType::kInt32, {}, 1, p.round(CType::kI64, DType::kInt32, i));
  p.store(DType::kUInt8, {}, 1, p.round(CType::kI64, DType::kUInt8, i));
  p.store(DType::kInt64, {}, 1, i);
  p.run({x.data(), y.data(), z.data(), w.data()});
  EXPECT_EQ(y, (std::vector<int32_t>{INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, 300, -1}));
  EXPECT_EQ(z, (std::vector<uint8_t>{0, 0, 0, 0, 44, 255}));
  EXPECT_EQ(w, (std::vector<int64_t>{3000000000, -3000000000, INT64_MIN, INT64_MIN, 300, -1}));
}

// ---- layouts ----
TEST_P(IsaTest, StridedTransposedAndManyAxes) {
  // out[i, j, k, l] = a[i, j, k, l] + b[k, i] (permuted) * c[j, l]; a transposed in memory
  const int I = 3, J = 5, K = 7, L = 11;
  const auto a = numbers<float>(I * J * K * L, -9, 9, 1, false), b = numbers<float>(K * I, -9, 9, 2, false), c = numbers<float>(J * L, -9, 9, 3, false);
  std::vector<float> d(I * J * K * L), e(I * J * K * L);
  Prog p({I, J, K}, L);
  const int ra = p.load(DType::kFloat32, {1, I, I * J}, I * J * K), rb = p.load(DType::kFloat32, {1, 0, I}, 0), rc = p.load(DType::kFloat32, {0, L, 0}, 1);
  const int s = p.prim(Prim::kAdd, CType::kF32, ra, p.prim(Prim::kMul, CType::kF32, rb, rc));
  p.store(DType::kFloat32, {J * K * L, K * L, L}, 1, s);
  p.store(DType::kFloat32, {1, I, I * J}, I * J * K, s);
  p.run({const_cast<float*>(a.data()), const_cast<float*>(b.data()), const_cast<float*>(c.data()), d.data(), e.data()});
  for (int i = 0; i < I; ++i)
    for (int j = 0; j < J; ++j)
      for (int k = 0; k < K; ++k)
        for (int l = 0; l < L; ++l) {
          const float want = a[i + I * (j + J * (k + K * l))] + b[k * I + i] * c[j * L + l];
          ASSERT_EQ(d[((i * J + j) * K + k) * L + l], want);
          ASSERT_EQ(e[i + I * (j + J * (k + K * l))], want);
        }
}
TEST_P(IsaTest, LargeTranspose) {
  const int R = 300, C = 517;
  const auto a = numbers<float>(R * C, -9, 9, 1, false);
  std::vector<float> d(R * C);
  Prog p({R}, C);
  p.store(DType::kFloat32, {C}, 1, p.prim(Prim::kNeg, CType::kF32, p.load(DType::kFloat32, {1}, R)));
  p.run({const_cast<float*>(a.data()), d.data()});
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) ASSERT_EQ(d[r * C + c], -a[c * R + r]);
}
TEST_P(IsaTest, ManyShortRowsWithTwoOuterAxes) {  // blocks that cross axes
  const int I = 200, J = 3, C = 5;
  const auto a = numbers<float>(I * J * C, -9, 9, 1, false), b = numbers<float>(I, -9, 9, 2, false), c = numbers<float>(J, -9, 9, 3, false);
  std::vector<float> d(I * J * C), m(I * J), col(C), all(1);
  Prog p({I, J}, C);
  const int ra = p.load(DType::kFloat32, {J * C, C}, 1), rb = p.load(DType::kFloat32, {1, 0}, 0), rc = p.load(DType::kFloat32, {0, 1}, 0);
  const int s = p.prim(Prim::kAdd, CType::kF32, ra, p.prim(Prim::kMul, CType::kF32, rb, rc));
  p.store(DType::kFloat32, {1, I}, I * J, s);
  p.store(DType::kFloat32, {1, I}, 0, p.row_reduce(ReduceKind::kMax, CType::kF32, s));
  p.accumulate(true, ReduceKind::kMin, DType::kFloat32, s, 1);
  p.accumulate(false, ReduceKind::kMax, DType::kFloat32, s, 0);
  p.run({const_cast<float*>(a.data()), const_cast<float*>(b.data()), const_cast<float*>(c.data()), d.data(), m.data(), col.data(), all.data()});
  float best = -1e30f;
  std::vector<float> low(C, 1e30f);
  for (int i = 0; i < I; ++i)
    for (int j = 0; j < J; ++j) {
      float row = -1e30f;
      for (int k = 0; k < C; ++k) {
        const float want = a[(i * J + j) * C + k] + b[i] * c[j];
        ASSERT_EQ(d[i + I * (j + J * k)], want);
        row = std::max(row, want), best = std::max(best, want), low[k] = std::min(low[k], want);
      }
      ASSERT_EQ(m[i + I * j], row);
    }
  EXPECT_EQ(all[0], best);
  EXPECT_EQ(col, low);
}

// ---- in place ----
TEST_P(IsaTest, OutputsMayTakeOverInputsOfTheSameLayout) {
  const int n = 10000;
  const auto a0 = numbers<float>(n, -9, 9, 1, false), b0 = numbers<float>(n, -9, 9, 2, false);
  // x = a * b, y = a + b, z = a - b with every assignment of the three results to {a, b, fresh}
  for (int px = 0; px < 3; ++px)
    for (int py = 0; py < 3; ++py) {
      if (px == py) continue;
      std::vector<float> buffers[3] = {a0, b0, std::vector<float>(n)}, extra(n);
      const int pz = 3 - px - py;
      Prog p({}, n);
      const int a = p.load(DType::kFloat32, {}, 1), b = p.load(DType::kFloat32, {}, 1);
      p.store(DType::kFloat32, {}, 1, p.prim(Prim::kMul, CType::kF32, a, b));
      p.store(DType::kFloat32, {}, 1, p.prim(Prim::kAdd, CType::kF32, a, b));
      p.store(DType::kFloat32, {}, 1, p.prim(Prim::kSub, CType::kF32, a, b));
      p.run({buffers[0].data(), buffers[1].data(), buffers[px].data(), buffers[py].data(), buffers[pz].data()});
      for (int i = 0; i < n; ++i) {
        ASSERT_EQ(buffers[px][i], a0[i] * b0[i]);
        ASSERT_EQ(buffers[py][i], a0[i] + b0[i]);
        ASSERT_EQ(buffers[pz][i], a0[i] - b0[i]);
      }
    }
  std::vector<float> a = a0, b = b0;  // a swap
  Prog p({}, n);
  const int ra = p.load(DType::kFloat32, {}, 1), rb = p.load(DType::kFloat32, {}, 1);
  p.store(DType::kFloat32, {}, 1, rb);
  p.store(DType::kFloat32, {}, 1, ra);
  p.run({a.data(), b.data(), a.data(), b.data()});
  EXPECT_EQ(a, b0);
  EXPECT_EQ(b, a0);
}

// ---- reductions ----
template <class T>
void check_reductions(int rows, int cols) {
  const auto x = numbers<T>(rows * cols, -2, 2, rows * 1000 + cols, false);
  const DType t = kDType<T>;
  const CType c = kCType<T>;
  for (ReduceKind k : {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kProd}) {
    if ((k == ReduceKind::kMax || k == ReduceKind::kMin) && rows * cols == 0) continue;
    std::vector<T> row(rows, 77), col(cols, 77), all(1, 77), rowx(rows), colx(cols), allx(1);
    for (int variant = 0; variant < 2; ++variant) {  // 0: x itself (may stay in place); 1: a computed value
      const auto arg = [&](Prog& p) {
        const int r = p.load(t, {cols}, 1);
        return variant ? p.prim(Prim::kNeg, c, p.prim(Prim::kNeg, c, r)) : r;
      };
      Prog pr({rows}, cols), pc({rows}, cols), pa({rows}, cols);
      pr.store(t, {1}, 0, pr.row_reduce(k, c, arg(pr)));
      pc.accumulate(true, k, t, arg(pc), 1);
      pa.accumulate(false, k, t, arg(pa), 0);
      void* in = const_cast<T*>(x.data());
      pr.run({in, (variant ? rowx : row).data()});
      pc.run({in, (variant ? colx : col).data()});
      pa.run({in, (variant ? allx : all).data()});
    }
    ASSERT_EQ(row, rowx) << rows << "x" << cols;
    ASSERT_EQ(col, colx) << rows << "x" << cols;
    ASSERT_EQ(all, allx) << rows << "x" << cols;
    const bool sum = k == ReduceKind::kSum, prod = k == ReduceKind::kProd;
    std::vector<double> wr(rows, prod ? 1 : 0), wc(cols, prod ? 1 : 0), mr(rows, 1e-30), mc(cols, 1e-30);
    double wa = prod ? 1 : 0, ma = 1e-30;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        const double v = static_cast<double>(x[i * cols + j]);
        const auto acc = [&](double& w, double& m, bool first) {
          w = sum ? w + v : prod ? w * v : first ? v : k == ReduceKind::kMax ? std::max(w, v) : std::min(w, v);
          m += std::fabs(v);
        };
        acc(wr[i], mr[i], j == 0), acc(wc[j], mc[j], i == 0), acc(wa, ma, i + j == 0);
      }
    const double eps = std::is_same_v<T, float> ? 6e-8 : std::is_same_v<T, double> ? 2e-16 : 0;
    const auto near = [&](double got, double want, double magnitude, int64_t n) {
      if (prod && (std::fabs(want) > 1e30 || std::fabs(want) < 1e-30 || eps == 0)) return true;
      const double depth = 2 + std::min<double>(n, 64) / 2 + std::log2(1.0 + n);
      return std::fabs(got - want) <= (sum ? eps * magnitude * depth : prod ? eps * std::fabs(want) * n * 2 : 0);
    };
    for (int i = 0; i < rows; ++i) ASSERT_TRUE(near(row[i], wr[i], mr[i], cols)) << row[i] << " " << wr[i] << " kind " << int(k);
    for (int j = 0; j < cols; ++j) ASSERT_TRUE(near(col[j], wc[j], mc[j], rows)) << col[j] << " " << wc[j] << " kind " << int(k) << " col " << j << " of " << rows << "x" << cols;
    ASSERT_TRUE(near(all[0], wa, ma, rows * cols)) << all[0] << " " << wa << " kind " << int(k) << rows << "x" << cols;
  }
}
TEST_P(IsaTest, Reductions) {
  for (const auto& [r, c] : {std::pair<int, int>{1, 1}, {1, 5}, {7, 1}, {3, 33}, {64, 10}, {65, 31}, {129, 64}, {500, 3}, {1000, 77},
                             {2, 5000}, {1, 100000}, {5000, 20}, {70, 1500}, {4, 0}, {0, 4}, {3, 2049}}) {
    check_reductions<float>(r, c);
    check_reductions<double>(r, c);
    check_reductions<int64_t>(r, c);
  }
  for (int n = 0; n <= 70; ++n) check_reductions<float>(3, n), check_reductions<float>(n, 3);
}
TEST_P(IsaTest, BooleanAndNanReductions) {
  for (int n : {0, 1, 31, 32, 33, 100, 5000}) {
    std::vector<uint8_t> x(n, 0);
    for (int set : {0, 1, 2}) {
      for (int i = 0; i < n; ++i) x[i] = set == 2 || (set == 1 && i == n / 2);
      uint8_t any = 9, all = 9;
      Prog p({}, n);
      const int r = p.load(DType::kBool, {}, 1);
      p.accumulate(false, ReduceKind::kAny, DType::kBool, r, 0);
      p.accumulate(false, ReduceKind::kAll, DType::kBool, r, 0);
      p.run({x.data(), &any, &all});
      EXPECT_EQ(any, n > 0 && set > 0);
      EXPECT_EQ(all, n == 0 || set == 2 || (set == 1 && n == 1));
    }
  }
  for (int at = 0; at < 200; ++at) {
    std::vector<float> x(200, 1.0f);
    x[at] = NAN;
    float mx = 0, mn = 0;
    Prog p({}, 200);
    const int r = p.load(DType::kFloat32, {}, 1);
    p.accumulate(false, ReduceKind::kMax, DType::kFloat32, r, 0);
    p.accumulate(false, ReduceKind::kMin, DType::kFloat32, r, 0);
    p.run({x.data(), &mx, &mn});
    ASSERT_TRUE(std::isnan(mx) && std::isnan(mn)) << at;
  }
}
TEST_P(IsaTest, Float32SumIsAccurate) {
  const int n = 1 << 22;
  std::vector<float> x(n, 0.1f);
  float s = 0;
  Prog p({}, n);
  p.accumulate(false, ReduceKind::kSum, DType::kFloat32, p.load(DType::kFloat32, {}, 1), 0);
  p.run({x.data(), &s});
  EXPECT_NEAR(s, 0.1f * static_cast<double>(n), 0.1f * n * 1e-6);
  std::vector<float> col(4);
  Prog q({n / 4}, 4);
  q.accumulate(true, ReduceKind::kSum, DType::kFloat32, q.load(DType::kFloat32, {4}, 1), 1);
  q.run({x.data(), col.data()});
  EXPECT_NEAR(col[3], 0.1f * static_cast<double>(n / 4), 0.1f * n / 4 * 2e-6);
}
TEST_P(IsaTest, ColumnSumInBf16RoundsOnce) {
  const int rows = 700, cols = 37;
  std::vector<uint16_t> x(rows * cols), y(cols);
  std::mt19937 g(1);
  for (auto& v : x) v = float_to_bf16(static_cast<float>(g() % 1000) / 500 - 1);
  Prog p({rows}, cols);
  p.accumulate(true, ReduceKind::kSum, DType::kBFloat16, p.load(DType::kBFloat16, {cols}, 1), 1);
  p.run({x.data(), y.data()});
  for (int c = 0; c < cols; ++c) {
    double s = 0;
    for (int r = 0; r < rows; ++r) s += bf16_to_float(x[r * cols + c]);
    EXPECT_NEAR(bf16_to_float(y[c]), s, std::fabs(s) / 256 + 1e-3);
  }
}

void softmax(Prog& p, int cols) {
  const int x = p.load(DType::kFloat32, {cols}, 1);
  const int e = p.prim(Prim::kExp, CType::kF32, p.prim(Prim::kSub, CType::kF32, x, p.row_reduce(ReduceKind::kMax, CType::kF32, x)));
  p.store(DType::kFloat32, {cols}, 1, p.prim(Prim::kDiv, CType::kF32, e, p.row_reduce(ReduceKind::kSum, CType::kF32, e)));
}
TEST_P(IsaTest, SoftmaxRows) {
  for (const auto& [rows, cols] : {std::pair<int, int>{3, 5}, {64, 10}, {100, 1000}, {1, 7}, {2, 40000}, {5, 1}}) {
    auto x = numbers<float>(rows * cols, -20, 20, 9, false);
    std::vector<float> y(x.size());
    Prog p({rows}, cols);
    softmax(p, cols);
    p.run({x.data(), y.data()});
    for (int r = 0; r < rows; ++r) {
      double m = -1e30, s = 0;
      for (int c = 0; c < cols; ++c) m = std::max<double>(m, x[r * cols + c]);
      for (int c = 0; c < cols; ++c) s += std::exp(x[r * cols + c] - m);
      for (int c = 0; c < cols; ++c) {
        const double want = std::exp(x[r * cols + c] - m) / s;
        ASSERT_NEAR(y[r * cols + c], want, want * 3e-6 + 1e-37);
      }
    }
    p.run({x.data(), x.data()});
    ASSERT_EQ(0, std::memcmp(x.data(), y.data(), x.size() * 4)) << "in place";
  }
}

// ---- threads ----
TEST_P(IsaTest, ThreadCountChangesNoBit) {
  for (const auto& [rows, cols] : {std::pair<int, int>{3000, 129}, {70000, 5}, {1, 500001}, {100, 5000}}) {
    const auto x = numbers<float>(rows * cols, -2, 2, 3, false);
    std::vector<float> out[2];
    for (int t = 1; t <= 2; ++t) {
      set_num_threads(t);
      std::vector<float> y(rows * cols), row(rows), col(cols), all(1);
      Prog p({rows}, cols), q({rows}, cols), w({rows}, cols);
      p.accumulate(false, ReduceKind::kSum, DType::kFloat32, p.prim(Prim::kExp, CType::kF32, p.load(DType::kFloat32, {cols}, 1)), 0);
      p.run({const_cast<float*>(x.data()), all.data()});
      q.accumulate(true, ReduceKind::kSum, DType::kFloat32, q.prim(Prim::kExp, CType::kF32, q.load(DType::kFloat32, {cols}, 1)), 1);
      q.run({const_cast<float*>(x.data()), col.data()});
      softmax(w, cols);
      w.run({const_cast<float*>(x.data()), y.data()});
      auto& o = out[t - 1];
      o.insert(o.end(), all.begin(), all.end()), o.insert(o.end(), col.begin(), col.end()), o.insert(o.end(), y.begin(), y.end());
    }
    set_num_threads(0);
    ASSERT_EQ(0, std::memcmp(out[0].data(), out[1].data(), out[0].size() * 4)) << rows << "x" << cols;
  }
}
TEST(Tile, SumsAreTheSameOnEveryInstructionSet) {
  const int rows = 333, cols = 1111;
  const auto x = numbers<float>(rows * cols, -2, 2, 3, false);
  std::vector<float> first;
  for (Isa isa : {Isa::kSse2, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > hardware_isa()) continue;
    set_max_isa(isa);
    std::vector<float> row(rows), col(cols), all(1);
    Prog p({rows}, cols);
    const int r = p.load(DType::kFloat32, {cols}, 1);
    p.store(DType::kFloat32, {1}, 0, p.row_reduce(ReduceKind::kSum, CType::kF32, r));
    p.accumulate(true, ReduceKind::kSum, DType::kFloat32, r, 1);
    p.accumulate(false, ReduceKind::kSum, DType::kFloat32, r, 0);
    p.run({const_cast<float*>(x.data()), row.data(), col.data(), all.data()});
    row.insert(row.end(), col.begin(), col.end()), row.push_back(all[0]);
    if (first.empty()) first = row;
    EXPECT_EQ(first, row) << isa_name(isa);
  }
  set_max_isa(Isa::kAvx512);
}
TEST(Tile, FusedAndUnfusedSumsAgree) {  // the tree depends on the order of elements only, not on how rows merge
  const int rows = 300, cols = 1234;
  auto x = numbers<float>(rows * cols, -2, 2, 3, false);
  std::vector<float> bias(cols, 0.25f), y(rows * cols);
  float fused = 0, plain = 0;
  Prog p({rows}, cols);
  const int rx = p.load(DType::kFloat32, {cols}, 1), rb = p.load(DType::kFloat32, {0}, 1), r = p.prim(Prim::kAdd, CType::kF32, rx, rb);
  p.store(DType::kFloat32, {cols}, 1, r);
  p.accumulate(false, ReduceKind::kSum, DType::kFloat32, r, 0);
  p.run({x.data(), bias.data(), y.data(), &fused});
  Prog q({}, rows * cols);
  q.accumulate(false, ReduceKind::kSum, DType::kFloat32, q.load(DType::kFloat32, {}, 1), 0);
  q.run({y.data(), &plain});
  EXPECT_EQ(fused, plain);
  for(auto v: y) if(!(v==v)){printf("nan in y\n");break;}
 for(auto v: x) if(!(v==v)){printf("nan in x\n");break;}
}
TEST(Tile, ForkedChildComputes) {
  auto x = numbers<float>(1 << 20, -2, 2, 3, false);
  std::vector<float> y(x.size());
  Prog p({}, x.size());
  p.store(DType::kFloat32, {}, 1, p.prim(Prim::kExp, CType::kF32, p.load(DType::kFloat32, {}, 1)));
  set_num_threads(2);
  p.run({x.data(), y.data()});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::vector<float> z(x.size());
    p.run({x.data(), z.data()});
    _exit(num_threads() == 1 && in_forked_child() && z == y ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  set_num_threads(0);
}
TEST(Parallel, CoversEveryChunkOnceAndRethrows) {
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    for (int n : {0, 1, 2, 3, 100}) {
      std::vector<int> seen(n, 0);
      parallel_for(n, [&](int64_t i) {
        ++seen[i];
        parallel_for(3, [&](int64_t) {});
      });
      EXPECT_EQ(seen, std::vector<int>(n, 1));
    }
    EXPECT_THROW(parallel_for(4, [](int64_t i) { if (i == 3) value_error("x"); }), Error);
  }
  set_num_threads(0);
  EXPECT_FALSE(thread_reason().empty());
}
TEST(Tile, VerifierRejectsBadPrograms) {
  Prog p({}, 4);
  p.store(DType::kFloat32, {}, 1, 0);
  p.p.n_regs = 1;
  EXPECT_THROW(verify(p.p), Error);
  Prog q({}, 4);
  const int r = q.load(DType::kInt32, {}, 1);
  q.store(DType::kFloat32, {}, 1, r);
  EXPECT_THROW(verify(q.p), Error);
}

}  // namespace
}  // namespace yuloh
