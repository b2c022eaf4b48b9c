// SPDX-License-Identifier: Apache-2.0
// One struct per primitive: its scalar body; included by tile_kernels.inl in every target's namespace.

#define TILE_UNARY(name, expr) \
  struct name {                \
    template <class T>         \
    TILE_INLINE auto f(T x) {  \
      return expr;             \
    }                          \
  };
#define TILE_BINARY(name, expr)    \
  struct name {                    \
    template <class T>             \
    TILE_INLINE auto f(T x, T y) { \
      return expr;                 \
    }                              \
  };
// clang-format off
TILE_BINARY(Add, T(x + y)) TILE_BINARY(Sub, T(x - y)) TILE_BINARY(Mul, T(x * y)) TILE_BINARY(Div, T(x / y))
TILE_BINARY(Max, T(((x > y) | (x != x)) ? x : y)) TILE_BINARY(Min, T(((x < y) | (x != x)) ? x : y))
TILE_BINARY(Eq, b8(x == y)) TILE_BINARY(Ne, b8(x != y)) TILE_BINARY(Lt, b8(x < y)) TILE_BINARY(Le, b8(x <= y))
TILE_BINARY(Gt, b8(x > y)) TILE_BINARY(Ge, b8(x >= y)) TILE_BINARY(And, T(x & y)) TILE_BINARY(Or, T(x | y))
TILE_BINARY(Xor, T(x ^ y)) TILE_UNARY(Neg, T(-x)) TILE_UNARY(Copy, x) TILE_UNARY(IsNan, b8(x != x))
TILE_UNARY(Never, b8(x != x)) TILE_UNARY(Always, b8(x == x)) TILE_UNARY(NotInt, T(~x))
TILE_UNARY(NotBool, b8(x == 0)) TILE_UNARY(SignInt, T((x > 0) - (x < 0)))
TILE_UNARY(AbsInt, T(x < 0 ? -x : x)) TILE_UNARY(Sign, T(x != x ? x : T(x > T(0)) - T(x < T(0))))
TILE_UNARY(Rint, round_even(x)) TILE_UNARY(Floor, round_down(x)) TILE_UNARY(Ceil, round_up(x))
TILE_UNARY(Trunc, round_zero(x)) TILE_UNARY(Exp32, exp32(x)) TILE_UNARY(Log32, log32(x))
TILE_UNARY(Tanh32, tanh32(x)) TILE_UNARY(Erf32, erf32(x)) TILE_UNARY(Expm1_32, expm1_32(x))
TILE_UNARY(Log1p_32, log1p_32(x)) TILE_UNARY(Sinh32, sinh32(x)) TILE_UNARY(Cosh32, cosh32(x))
TILE_UNARY(Asinh32, asinh32(x)) TILE_UNARY(Acosh32, acosh32(x)) TILE_UNARY(Atanh32, atanh32(x))
TILE_UNARY(Atan32, atan32(x)) TILE_UNARY(Asin32, asin32(x)) TILE_UNARY(Acos32, acos32(x))
TILE_UNARY(Sin32, sin32(x)) TILE_UNARY(Cos32, cos32(x)) TILE_UNARY(Tan32, tan32(x))
#undef TILE_UNARY
#undef TILE_BINARY
struct Abs {
  TILE_INLINE float f(float x) { return __builtin_fabsf(x); }
  TILE_INLINE double f(double x) { return __builtin_fabs(x); }
};
// clang-format on
struct Sqrt {
  TILE_INLINE float f(float x) { return __builtin_sqrtf(x); }
  TILE_INLINE double f(double x) { return __builtin_sqrt(x); }
};
struct Rsqrt {
  TILE_INLINE float f(float x) { return 1.0f / __builtin_sqrtf(x); }
  TILE_INLINE double f(double x) { return 1.0 / __builtin_sqrt(x); }
};
struct IsInf {
  TILE_INLINE b8 f(float x) { return __builtin_fabsf(x) == kInf; }
  TILE_INLINE b8 f(double x) { return __builtin_fabs(x) == __builtin_inf(); }
};
struct IsFinite {
  TILE_INLINE b8 f(float x) { return __builtin_fabsf(x) < kInf; }
  TILE_INLINE b8 f(double x) { return __builtin_fabs(x) < __builtin_inf(); }
};
struct Shl {
  TILE_INLINE int64_t f(int64_t x, int64_t s) { return s < 0 || s > 63 ? 0 : x << s; }
};
struct Shr {
  TILE_INLINE int64_t f(int64_t x, int64_t s) { return x >> (s < 0 || s > 63 ? 63 : s); }
};
struct PowInt {  // wraps; a negative exponent gives the truncated fraction
  static int64_t f(int64_t x, int64_t n) {
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
    int64_t r = 1;
    for (; n; n >>= 1, x *= x)
      if (n & 1) r *= x;
    return r;
  }
};
struct DivInt {
  TILE_INLINE int64_t minus_one(int64_t x) { return -x; }
  TILE_INLINE int64_t f(int64_t x, int64_t y) { return x / y; }
};
struct FloorDivInt {
  TILE_INLINE int64_t minus_one(int64_t x) { return -x; }
  TILE_INLINE int64_t f(int64_t x, int64_t y) {
    const int64_t q = x / y;
    return q - (q * y != x && (x < 0) != (y < 0));
  }
};
struct ModInt {
  TILE_INLINE int64_t minus_one(int64_t) { return 0; }
  TILE_INLINE int64_t f(int64_t x, int64_t y) {
    const int64_t m = x % y;
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
  }
};
struct FmodInt {
  TILE_INLINE int64_t minus_one(int64_t) { return 0; }
  TILE_INLINE int64_t f(int64_t x, int64_t y) { return x % y; }
};
struct Select {
  template <class T>
  TILE_INLINE T f(b8 c, T x, T y) {
    return c ? x : y;
  }
};
struct Fma {
#ifdef __FMA__
  TILE_INLINE float f(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
  TILE_INLINE double f(double x, double y, double z) { return __builtin_fma(x, y, z); }
#else
  // float: the product is exact in double; the sum rounds twice, which only differs in rare half-way cases
  static float f(float x, float y, float z) { return ::fmaf(x, y, z); }
  static double f(double x, double y, double z) { return ::fma(x, y, z); }
#endif
  TILE_INLINE int64_t f(int64_t x, int64_t y, int64_t z) { return x * y + z; }
};

// libm, float computed in double and rounded once; not hot
#define TILE_LIBM(name, call) \
  struct name {               \
    template <class T>        \
    TILE_INLINE T f(T v) {    \
      const double x = v;     \
      return T(call);         \
    }                         \
  };
#define TILE_LIBM2(name, call)   \
  struct name {                  \
    template <class T>           \
    TILE_INLINE T f(T u, T v) {  \
      const double x = u, y = v; \
      return T(call);            \
    }                            \
  };
// clang-format off
TILE_LIBM(Exp64, ::exp(x)) TILE_LIBM(Expm1_64, ::expm1(x)) TILE_LIBM(Log64, ::log(x))
TILE_LIBM(Log1p_64, ::log1p(x)) TILE_LIBM(Sin64, ::sin(x)) TILE_LIBM(Cos64, ::cos(x))
TILE_LIBM(Tan64, ::tan(x)) TILE_LIBM(Asin, ::asin(x)) TILE_LIBM(Acos, ::acos(x)) TILE_LIBM(Atan, ::atan(x))
TILE_LIBM(Sinh, ::sinh(x)) TILE_LIBM(Cosh, ::cosh(x)) TILE_LIBM(Tanh64, ::tanh(x))
TILE_LIBM(Asinh, ::asinh(x)) TILE_LIBM(Acosh, ::acosh(x)) TILE_LIBM(Atanh, ::atanh(x))
TILE_LIBM(Erf64, ::erf(x)) TILE_LIBM(Erfinv, erfinv(x)) TILE_LIBM(Lgamma, log_gamma(x))
TILE_LIBM(Digamma, digamma(x)) TILE_LIBM2(Pow64, ::pow(x, y)) TILE_LIBM2(Atan2, ::atan2(x, y))
#undef TILE_LIBM
#undef TILE_LIBM2
struct Fmod {
  static float f(float x, float y) { return ::fmodf(x, y); }
  static double f(double x, double y) { return ::fmod(x, y); }
};
// clang-format on
struct ModFloat {  // the remainder has the divisor's sign
  template <class T>
  static T f(T x, T y) {
    const T m = Fmod::f(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
  }
};
struct FloorDivFloat {  // consistent with ModFloat: x == q * y + mod
  template <class T>
  static T f(T x, T y) {
    if (y == 0) return x / y;
    const T m = Fmod::f(x, y);
    T q = (x - m) / y;
    if (m != 0 && (m < 0) != (y < 0)) q -= T(1);
    if (q == 0) return x / y < 0 ? -T(0) : T(0);
    const T down = T(::floor(double(q)));
    return q - down > T(0.5) ? down + T(1) : down;
  }
};

// Blocks that leave the range of the vector form take libm, element by element.
template <class Fast, class Slow>
void trig(void* d, const void* a, const void* b, const void* c, int64_t rows, int64_t cols) {
  const float* x = static_cast<const float*>(a);
  int outside = 0;
  for (int64_t i = 0; i < rows * cols; ++i) outside |= !(__builtin_fabsf(x[i]) <= kTrigMax);
  (outside ? unary<Slow, float, float> : unary<Fast, float, float>)(d, a, b, c, rows, cols);
}
// x ** y: 64 elements at a time by the vector form; the ones that it does not cover (x <= 0, inf, NaN) by
// libm.
template <int Form>
void power(void* dv, const void* av, const void* bv, const void* cv, int64_t rows, int64_t cols) {
  constexpr int64_t kPiece = 64;
  const float* a = static_cast<const float*>(av);
  const float* b = static_cast<const float*>(bv);
  float* d = static_cast<float*>(dv);
  if (Form == 2 && rows == 1 && *b == 2.0f) return binary<Mul, float, float, 0>(d, a, a, cv, rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += kPiece) {
      const int64_t n = cols - c < kPiece ? cols - c : kPiece, at = r * cols + c;
      float x[kPiece], y[kPiece], v[kPiece];
      int outside = 0;
      for (int64_t i = 0; i < n; ++i)
        x[i] = Form == 1 ? a[r] : a[at + i], y[i] = Form == 2 ? b[r] : b[at + i];
      for (int64_t i = 0; i < n; ++i)
        outside |= !((x[i] > 0.0f) & (x[i] < kInf) & (__builtin_fabsf(y[i]) < kInf));
      for (int64_t i = 0; i < n; ++i) v[i] = pow32(x[i], y[i]);
      for (int64_t i = 0; outside && i < n; ++i)
        if (!((x[i] > 0.0f) & (x[i] < kInf) & (__builtin_fabsf(y[i]) < kInf))) v[i] = Pow64::f(x[i], y[i]);
      memcpy(d + at, v, static_cast<size_t>(n) * sizeof(float));
    }
}
