// SPDX-License-Identifier: Apache-2.0
// The body of one target's kernel table (see tile_table.h); compiled by tile_sse2.cpp, tile_avx2.cpp, tile_avx512.cpp.
// Everything is static or in the unnamed namespace and calls no inline function of a library: a shared copy compiled for
// AVX-512 must never be what another file links to. Plain loops; the compiler vectorises them (-O3).
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "cpu/tile_table.h"

namespace yuloh::tile {
namespace {
// Iterations are independent: operands are apart or the very same block.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // loops over libm stay scalar
#define TILE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TILE_IVDEP _Pragma("GCC ivdep")
#endif
#include "cpu/tile_math.inl"

using b8 = uint8_t;
template <class T>
constexpr bool kIsFloat = false;
template <>
constexpr bool kIsFloat<float> = true;
template <>
constexpr bool kIsFloat<double> = true;

// ---- loops ----
template <class Op, class T, class D>
void unary(void* dv, const void* av, const void*, const void*, int64_t rows, int64_t cols) {
  D* d = static_cast<D*>(dv);
  const T* a = static_cast<const T*>(av);
  const int64_t n = rows * cols;
TILE_IVDEP
  for (int64_t i = 0; i < n; ++i) d[i] = Op::f(a[i]);
}
template <class Op, class T, class D, int Form>
void binary(void* dv, const void* av, const void* bv, const void*, int64_t rows, int64_t cols) {
  D* d = static_cast<D*>(dv);
  const T* a = static_cast<const T*>(av);
  const T* b = static_cast<const T*>(bv);
  if constexpr (Form == 0) cols *= rows, rows = 1;
  for (int64_t r = 0; r < rows; ++r, d += cols) {
    if constexpr (Form == 0) {
TILE_IVDEP
      for (int64_t i = 0; i < cols; ++i) d[i] = Op::f(a[i], b[i]);
    } else if constexpr (Form == 1) {
      const T s = a[r];
TILE_IVDEP
      for (int64_t i = 0; i < cols; ++i) d[i] = Op::f(s, b[i]);
      b += cols;
    } else {
      const T s = b[r];
TILE_IVDEP
      for (int64_t i = 0; i < cols; ++i) d[i] = Op::f(a[i], s);
      a += cols;
    }
  }
}
template <class Op, class A, class T, int Form>
void ternary(void* dv, const void* av, const void* bv, const void* cv, int64_t rows, int64_t cols) {
  T* d = static_cast<T*>(dv);
  const A* a = static_cast<const A*>(av);
  const T* b = static_cast<const T*>(bv);
  const T* c = static_cast<const T*>(cv);
  if constexpr (Form == 0) cols *= rows, rows = 1;
  for (int64_t r = 0; r < rows; ++r, d += cols) {
    const A sa = a[Form & 1 ? r : 0];
    const T sb = b[Form & 2 ? r : 0], sc = c[Form & 4 ? r : 0];
TILE_IVDEP
    for (int64_t i = 0; i < cols; ++i) d[i] = Op::f(Form & 1 ? sa : a[i], Form & 2 ? sb : b[i], Form & 4 ? sc : c[i]);
    if constexpr (!(Form & 1)) a += cols;
    if constexpr (!(Form & 2)) b += cols;
    if constexpr (!(Form & 4)) c += cols;
  }
}
// Integer division and its relatives: a zero divisor sets the flag (passed as c) and yields 0.
template <class Op, int Form>
void checked(void* dv, const void* av, const void* bv, const void* flag, int64_t rows, int64_t cols) {
  int64_t* d = static_cast<int64_t*>(dv);
  const int64_t* a = static_cast<const int64_t*>(av);
  const int64_t* b = static_cast<const int64_t*>(bv);
  int32_t bad = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) {
      const int64_t k = r * cols + i, x = a[Form == 1 ? r : k], y = b[Form == 2 ? r : k];
      bad |= y == 0;
      d[k] = y == 0 ? 0 : y == -1 ? Op::minus_one(x) : Op::f(x, y);  // INT64_MIN / -1 traps in hardware: wraps here
    }
  if (bad) *static_cast<int32_t*>(const_cast<void*>(flag)) = 1;
}

// ---- operations ----
#define TILE_UNARY(name, expr) \
  struct name { template <class T> TILE_INLINE auto f(T x) { return expr; } };
#define TILE_BINARY(name, expr) \
  struct name { template <class T> TILE_INLINE auto f(T x, T y) { return expr; } };
TILE_BINARY(Add, T(x + y)) TILE_BINARY(Sub, T(x - y)) TILE_BINARY(Mul, T(x * y)) TILE_BINARY(Div, T(x / y))
TILE_BINARY(Max, T(((x > y) | (x != x)) ? x : y)) TILE_BINARY(Min, T(((x < y) | (x != x)) ? x : y))
TILE_BINARY(Eq, b8(x == y)) TILE_BINARY(Ne, b8(x != y)) TILE_BINARY(Lt, b8(x < y)) TILE_BINARY(Le, b8(x <= y))
TILE_BINARY(Gt, b8(x > y)) TILE_BINARY(Ge, b8(x >= y))
TILE_BINARY(And, T(x & y)) TILE_BINARY(Or, T(x | y)) TILE_BINARY(Xor, T(x ^ y))
TILE_UNARY(Neg, T(-x)) TILE_UNARY(Copy, x) TILE_UNARY(IsNan, b8(x != x)) TILE_UNARY(Never, b8(x != x)) TILE_UNARY(Always, b8(x == x))
TILE_UNARY(NotInt, T(~x)) TILE_UNARY(NotBool, b8(x == 0)) TILE_UNARY(SignInt, T((x > 0) - (x < 0)))
TILE_UNARY(AbsInt, T(x < 0 ? -x : x)) TILE_UNARY(Sign, T(x != x ? x : T(x > T(0)) - T(x < T(0))))
TILE_UNARY(Rint, round_even(x)) TILE_UNARY(Floor, round_down(x)) TILE_UNARY(Ceil, round_up(x)) TILE_UNARY(Trunc, round_zero(x))
TILE_UNARY(Exp32, exp32(x)) TILE_UNARY(Log32, log32(x)) TILE_UNARY(Tanh32, tanh32(x)) TILE_UNARY(Erf32, erf32(x))
TILE_UNARY(Expm1_32, expm1_32(x)) TILE_UNARY(Log1p_32, log1p_32(x))
TILE_UNARY(Sinh32, sinh32(x)) TILE_UNARY(Cosh32, cosh32(x)) TILE_UNARY(Asinh32, asinh32(x)) TILE_UNARY(Acosh32, acosh32(x))
TILE_UNARY(Atanh32, atanh32(x)) TILE_UNARY(Atan32, atan32(x)) TILE_UNARY(Asin32, asin32(x)) TILE_UNARY(Acos32, acos32(x))
TILE_UNARY(Sin32, sin32(x)) TILE_UNARY(Cos32, cos32(x)) TILE_UNARY(Tan32, tan32(x))
struct Abs {
  TILE_INLINE float f(float x) { return __builtin_fabsf(x); }
  TILE_INLINE double f(double x) { return __builtin_fabs(x); }
};
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
struct Shl { TILE_INLINE int64_t f(int64_t x, int64_t s) { return s < 0 || s > 63 ? 0 : x << s; } };
struct Shr { TILE_INLINE int64_t f(int64_t x, int64_t s) { return x >> (s < 0 || s > 63 ? 63 : s); } };
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
struct Select { template <class T> TILE_INLINE T f(b8 c, T x, T y) { return c ? x : y; } };
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
  struct name { template <class T> TILE_INLINE T f(T v) { const double x = v; return T(call); } };
#define TILE_LIBM2(name, call) \
  struct name { template <class T> TILE_INLINE T f(T u, T v) { const double x = u, y = v; return T(call); } };
TILE_LIBM(Exp64, ::exp(x)) TILE_LIBM(Expm1_64, ::expm1(x)) TILE_LIBM(Log64, ::log(x)) TILE_LIBM(Log1p_64, ::log1p(x))
TILE_LIBM(Sin64, ::sin(x)) TILE_LIBM(Cos64, ::cos(x)) TILE_LIBM(Tan64, ::tan(x)) TILE_LIBM(Asin, ::asin(x)) TILE_LIBM(Acos, ::acos(x))
TILE_LIBM(Atan, ::atan(x)) TILE_LIBM(Sinh, ::sinh(x)) TILE_LIBM(Cosh, ::cosh(x)) TILE_LIBM(Tanh64, ::tanh(x))
TILE_LIBM(Asinh, ::asinh(x)) TILE_LIBM(Acosh, ::acosh(x)) TILE_LIBM(Atanh, ::atanh(x)) TILE_LIBM(Erf64, ::erf(x))
TILE_LIBM(Erfinv, erfinv(x)) TILE_LIBM(Lgamma, log_gamma(x)) TILE_LIBM(Digamma, digamma(x))
TILE_LIBM2(Pow64, ::pow(x, y)) TILE_LIBM2(Atan2, ::atan2(x, y))
struct Fmod {
  static float f(float x, float y) { return ::fmodf(x, y); }
  static double f(double x, double y) { return ::fmod(x, y); }
};
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
// x ** y: 64 elements at a time by the vector form; the ones that it does not cover (x <= 0, inf, NaN) by libm.
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
      for (int64_t i = 0; i < n; ++i) x[i] = Form == 1 ? a[r] : a[at + i], y[i] = Form == 2 ? b[r] : b[at + i];
      for (int64_t i = 0; i < n; ++i) outside |= !((x[i] > 0.0f) & (x[i] < kInf) & (__builtin_fabsf(y[i]) < kInf));
      for (int64_t i = 0; i < n; ++i) v[i] = pow32(x[i], y[i]);
      for (int64_t i = 0; outside && i < n; ++i)
        if (!((x[i] > 0.0f) & (x[i] < kInf) & (__builtin_fabsf(y[i]) < kInf))) v[i] = Pow64::f(x[i], y[i]);
      memcpy(d + at, v, static_cast<size_t>(n) * sizeof(float));
    }
}

// ---- casts, rounding, storage ----
struct ToBool { template <class T> TILE_INLINE b8 f(T x) { return x != 0; } };
template <class D>
struct To { template <class T> TILE_INLINE D f(T x) { return static_cast<D>(x); } };

TILE_INLINE uint16_t bf16_of(float x) {
  const uint32_t u = static_cast<uint32_t>(bits(x));
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16, quiet = (u >> 16) | 0x40;
  return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
TILE_INLINE float of_bf16(uint16_t h) { return from_bits(static_cast<int32_t>(static_cast<uint32_t>(h) << 16)); }
TILE_INLINE uint16_t f16_of(float x) {
  const uint32_t u = static_cast<uint32_t>(bits(x)), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  const float scaled = from_bits(static_cast<int32_t>(a));
  // below 2^-14: adding 1/2 lines the result's last bit up with the float's, which rounds it
  const uint32_t tiny = static_cast<uint32_t>(bits(scaled + 0.5f)) - 0x3f000000u;
  const uint32_t normal = (a + 0xc8000fffu + ((a >> 13) & 1)) >> 13;
  const uint32_t special = a > 0x7f800000u ? 0x7e00u | ((a >> 13) & 0x3ffu) : 0x7c00u;
  return static_cast<uint16_t>(sign | (a >= 0x47800000u ? special : a < 0x38800000u ? tiny : normal));
}
TILE_INLINE float of_f16(uint16_t h) {
  const uint32_t a = static_cast<uint32_t>(h & 0x7fff) << 13;
  const float v = from_bits(static_cast<int32_t>(a)) * 5.192296858534828e+33f;  // 2^112: denormals become normal
  const uint32_t u = a >= 0x0f800000u ? a | 0x7f800000u : static_cast<uint32_t>(bits(v));
  return from_bits(static_cast<int32_t>(u | static_cast<uint32_t>(h & 0x8000) << 16));
}
struct Bf16 {
  using S = uint16_t;
  using T = float;
  TILE_INLINE float in(S h) { return of_bf16(h); }
  TILE_INLINE S out(float x) { return bf16_of(x); }
};
struct F16 {
  using S = uint16_t;
  using T = float;
  TILE_INLINE float in(S h) { return of_f16(h); }
  TILE_INLINE S out(float x) { return f16_of(x); }
};
template <class Storage, class Compute>
struct Plain {
  using S = Storage;
  using T = Compute;
  TILE_INLINE T in(S s) { return static_cast<T>(s); }
  TILE_INLINE S out(T x) { return static_cast<S>(x); }
};
template <class Format>
TILE_INLINE void load_line(typename Format::T* d, const typename Format::S* s, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  if constexpr (__is_same(Format, F16))
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i))));
#endif
TILE_IVDEP
  for (; i < n; ++i) d[i] = Format::in(s[i]);
}
template <class Format>
TILE_INLINE void store_line(typename Format::S* d, const typename Format::T* s, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  if constexpr (__is_same(Format, F16))
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), 0));
#endif
TILE_IVDEP
  for (; i < n; ++i) d[i] = Format::out(s[i]);
}
template <class Format>
void load(void* dv, const void* sv, int64_t rows, int64_t cols, int64_t rs, int64_t cs) {
  typename Format::T* d = static_cast<typename Format::T*>(dv);
  const typename Format::S* s = static_cast<const typename Format::S*>(sv);
  if (cs == 1) {
    if (rs == cols) cols *= rows, rows = 1;
    for (int64_t r = 0; r < rows; ++r) load_line<Format>(d + r * cols, s + r * rs, cols);
  } else if (rows >= 8 && (rs == 1 || rs == -1)) {  // a transposed operand: walk along its memory
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t r = 0; r < rows; ++r) d[r * cols + c] = Format::in(s[r * rs + c * cs]);
  } else {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) d[r * cols + c] = Format::in(s[r * rs + c * cs]);
  }
}
template <class Format>
void store(void* dv, const void* sv, int64_t rows, int64_t cols, int64_t rs, int64_t cs) {
  typename Format::S* d = static_cast<typename Format::S*>(dv);
  const typename Format::T* s = static_cast<const typename Format::T*>(sv);
  if (cs == 1) {
    if (rs == cols) cols *= rows, rows = 1;
    for (int64_t r = 0; r < rows; ++r) store_line<Format>(d + r * rs, s + r * cols, cols);
  } else if (rows >= 8 && rs == 1) {
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t r = 0; r < rows; ++r) d[r + c * cs] = Format::out(s[r * cols + c]);
  } else {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) d[r * rs + c * cs] = Format::out(s[r * cols + c]);
  }
}
template <class Format>
struct Through { template <class T> TILE_INLINE T f(T x) { return static_cast<T>(Format::in(Format::out(static_cast<typename Format::T>(x)))); } };
// The hardware converts reals to int32 for every narrow integer; what does not fit becomes INT32_MIN.
template <class S>
struct Narrow { TILE_INLINE int64_t f(int64_t x) { return static_cast<S>(((x < INT32_MIN) | (x > INT32_MAX)) ? INT32_MIN : static_cast<int32_t>(x)); } };
template <class T>
void expand(void* dv, const void* av, const void*, const void*, int64_t rows, int64_t cols) {
  T* d = static_cast<T*>(dv);
  const T* a = static_cast<const T*>(av);
  for (int64_t r = 0; r < rows; ++r, d += cols) {
    const T s = a[r];
    for (int64_t c = 0; c < cols; ++c) d[c] = s;
  }
}

// ---- reductions ----
#if defined(__AVX512F__)
constexpr int kVector = 64;
#elif defined(__AVX__)
constexpr int kVector = 32;
#else
constexpr int kVector = 16;
#endif
template <class T>
struct Vec {
  static constexpr int bytes = kLanes * int(sizeof(T)) < kVector ? kLanes * int(sizeof(T)) : kVector;
  static constexpr int width = bytes / int(sizeof(T)), count = kLanes / width;
  typedef T V __attribute__((vector_size(bytes), aligned(alignof(T)), may_alias));  // any address
};
struct RSum {
  template <class T> TILE_INLINE T id() { return T(0); }
  template <class V> TILE_INLINE V f(V x, V y) { return x + y; }
};
struct RProd {
  template <class T> TILE_INLINE T id() { return T(1); }
  template <class V> TILE_INLINE V f(V x, V y) { return x * y; }
};
template <class T>
TILE_INLINE T lowest() {
  if constexpr (__is_same(T, float)) return -kInf;
  else if constexpr (__is_same(T, double)) return -__builtin_inf();
  else if constexpr (__is_same(T, int64_t)) return INT64_MIN;
  else return T(0);
}
template <class T>
TILE_INLINE T highest() {
  if constexpr (__is_same(T, int64_t)) return INT64_MAX;
  else if constexpr (__is_same(T, b8)) return T(1);
  else return -lowest<T>();
}
struct RMax {  // NaN on either side wins
  template <class T> TILE_INLINE T id() { return lowest<T>(); }
  template <class V> TILE_INLINE V f(V x, V y) { return ((x > y) | (x != x)) ? x : y; }
};
struct RMin {
  template <class T> TILE_INLINE T id() { return highest<T>(); }
  template <class V> TILE_INLINE V f(V x, V y) { return ((x < y) | (x != x)) ? x : y; }
};
struct RAny {
  template <class T> TILE_INLINE T id() { return T(0); }
  template <class V> TILE_INLINE V f(V x, V y) { return x | y; }
};
struct RAll {
  template <class T> TILE_INLINE T id() { return T(1); }
  template <class V> TILE_INLINE V f(V x, V y) { return x & y; }
};

// lanes[(first + i) % kLanes] = op(lanes[...], a[i])
template <class R, class T>
void lanes(void* lv, const void* av, int64_t n, int64_t first) {
  using V = typename Vec<T>::V;
  constexpr int W = Vec<T>::width, C = Vec<T>::count;
  T* l = static_cast<T*>(lv);
  const T* a = static_cast<const T*>(av);
  int64_t i = 0;
  for (; i < n && (first + i) % kLanes; ++i) l[(first + i) % kLanes] = R::f(l[(first + i) % kLanes], a[i]);
  if (n - i >= kLanes) {
    V acc[C];
    for (int k = 0; k < C; ++k) acc[k] = *reinterpret_cast<const V*>(l + k * W);
    for (; i + kLanes <= n; i += kLanes)
      for (int k = 0; k < C; ++k) acc[k] = R::f(acc[k], *reinterpret_cast<const V*>(a + i + k * W));
    for (int k = 0; k < C; ++k) *reinterpret_cast<V*>(l + k * W) = acc[k];
  }
  for (int64_t j = 0; i < n; ++i, ++j) l[j] = R::f(l[j], a[i]);
}
template <class R, class T>
void fold(void* vv, int64_t n) {
  T* v = static_cast<T*>(vv);
  while (n > 1) {
    const int64_t half = (n + 1) / 2;
    for (int64_t i = 0; i < n - half; ++i) v[i] = R::f(v[i], v[half + i]);
    n = half;
  }
}
template <class R, class T>
TILE_INLINE T reduce_short(T* l, const T* a, int64_t n) {  // the same tree without the lanes that nothing goes to
  if (n == 0) return R::template id<T>();
  int64_t half = kLanes / 2;
  while (half >= n) half /= 2;
  if (!half) return a[0];
  for (int64_t k = 0; k < half; ++k) l[k] = k + half < n ? R::f(a[k], a[k + half]) : a[k];
  for (half /= 2; half; half /= 2)
    for (int64_t k = 0; k < half; ++k) l[k] = R::f(l[k], l[half + k]);
  return l[0];
}
template <class R, class T>
TILE_INLINE T reduce_leaf(const T* a, int64_t n) {
  T l[kLanes];
  if (n <= kLanes) return reduce_short<R, T>(l, a, n);
  for (int k = 0; k < kLanes; ++k) l[k] = R::template id<T>();
  lanes<R, T>(l, a, n, 0);
  for (int half = kLanes / 2; half; half /= 2)
    for (int k = 0; k < half; ++k) l[k] = R::f(l[k], l[half + k]);
  return l[0];
}
template <class R, class T>
void row_reduce(void* dv, const void* av, int64_t rows, int64_t cols, int64_t rs, void* scratch) {
  T* d = static_cast<T*>(dv);
  const T* a = static_cast<const T*>(av);
  T* leaves = static_cast<T*>(scratch);
  for (int64_t r = 0; r < rows; ++r, a += rs) {
    if (cols <= kLeaf) {
      d[r] = reduce_leaf<R, T>(a, cols);
      continue;
    }
    int64_t n = 0;
    for (int64_t c = 0; c < cols; c += kLeaf) leaves[n++] = reduce_leaf<R, T>(a + c, cols - c < kLeaf ? cols - c : kLeaf);
    fold<R, T>(leaves, n);
    d[r] = leaves[0];
  }
}
template <class R, class T, int N>
TILE_INLINE void col_strip(T* acc, const T* a, int64_t rows, int64_t rs) {
  using V = typename Vec<T>::V;
  constexpr int W = Vec<T>::width;
  V v[N];
  for (int k = 0; k < N; ++k) v[k] = *reinterpret_cast<const V*>(acc + k * W);
  for (int64_t r = 0; r < rows; ++r, a += rs)
    for (int k = 0; k < N; ++k) v[k] = R::f(v[k], *reinterpret_cast<const V*>(a + k * W));
  for (int k = 0; k < N; ++k) *reinterpret_cast<V*>(acc + k * W) = v[k];
}
template <class R, class T>
void col_reduce(void* accv, const void* av, int64_t rows, int64_t cols, int64_t rs) {
  constexpr int W = Vec<T>::width;
  T* acc = static_cast<T*>(accv);
  const T* a = static_cast<const T*>(av);
  int64_t c = 0;
  for (; c + 4 * W <= cols; c += 4 * W) col_strip<R, T, 4>(acc + c, a + c, rows, rs);
  for (; c + W <= cols; c += W) col_strip<R, T, 1>(acc + c, a + c, rows, rs);
  if (c == cols) return;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = c; k < cols; ++k) acc[k] = R::f(acc[k], a[r * rs + k]);
}
template <class R, class T>
void identity(void* dv, const void*, const void*, const void*, int64_t rows, int64_t cols) {
  T* d = static_cast<T*>(dv);
  for (int64_t i = 0; i < rows * cols; ++i) d[i] = R::template id<T>();
}

// ---- the table ----
enum { F32, F64, I64, B8 };
struct Builder {
  Table t;
  PrimFn* at(Prim p, int type) { return t.prim[static_cast<int>(p)][type]; }
  template <class Op, class T, class D = T>
  void un(Prim p, int type) { at(p, type)[0] = unary<Op, T, D>; }
  template <class Op, class T, class D = T>
  void bin(Prim p, int type) {
    PrimFn* f = at(p, type);
    f[0] = binary<Op, T, D, 0>, f[1] = binary<Op, T, D, 1>, f[2] = binary<Op, T, D, 2>;
  }
  template <class Op>
  void chk(Prim p) {
    PrimFn* f = at(p, I64);
    f[0] = checked<Op, 0>, f[1] = checked<Op, 1>, f[2] = checked<Op, 2>;
  }
  template <class Op, class A, class T>
  void tern(Prim p, int type) {
    PrimFn* f = at(p, type);
    f[0] = ternary<Op, A, T, 0>, f[1] = ternary<Op, A, T, 1>, f[2] = ternary<Op, A, T, 2>, f[3] = ternary<Op, A, T, 3>;
    f[4] = ternary<Op, A, T, 4>, f[5] = ternary<Op, A, T, 5>, f[6] = ternary<Op, A, T, 6>;
  }
  template <class Op>
  void un_float(Prim p) { un<Op, float>(p, F32), un<Op, double>(p, F64); }
  template <class Op32, class Op64>
  void un_float2(Prim p) { un<Op32, float>(p, F32), un<Op64, double>(p, F64); }
  template <class Op>
  void bin_float(Prim p) { bin<Op, float>(p, F32), bin<Op, double>(p, F64); }
  template <class Op>
  void bin_number(Prim p) { bin_float<Op>(p), bin<Op, int64_t>(p, I64); }
  template <class Op>
  void compare(Prim p) {
    bin<Op, float, b8>(p, F32), bin<Op, double, b8>(p, F64), bin<Op, int64_t, b8>(p, I64), bin<Op, b8, b8>(p, B8);
  }
  template <class R, class T, class Op>
  void red(int kind, int type) {
    t.reduce[kind][type] = {row_reduce<R, T>, col_reduce<R, T>, lanes<R, T>, fold<R, T>, binary<Op, T, T, 0>, identity<R, T>};
  }
  template <class R, class Op>
  void red_number(int kind) { red<R, float, Op>(kind, F32), red<R, double, Op>(kind, F64), red<R, int64_t, Op>(kind, I64); }
  template <class Format>
  void format(DType s) { t.load[static_cast<int>(s)] = load<Format>, t.store[static_cast<int>(s)] = store<Format>; }

  void arithmetic() {
    bin_number<Add>(Prim::kAdd), bin_number<Sub>(Prim::kSub), bin_number<Mul>(Prim::kMul);
    bin_number<Max>(Prim::kMax), bin_number<Min>(Prim::kMin);
    bin<Or, b8>(Prim::kAdd, B8), bin<And, b8>(Prim::kMul, B8), bin<Or, b8>(Prim::kMax, B8), bin<And, b8>(Prim::kMin, B8);
    bin_float<Div>(Prim::kDiv), bin_float<FloorDivFloat>(Prim::kFloorDiv), bin_float<ModFloat>(Prim::kMod);
    bin_float<Fmod>(Prim::kFMod), bin_float<Atan2>(Prim::kAtan2), bin<Pow64, double>(Prim::kPow, F64);
    PrimFn* p = at(Prim::kPow, F32);
    p[0] = power<0>, p[1] = power<1>, p[2] = power<2>;
    chk<DivInt>(Prim::kDiv), chk<FloorDivInt>(Prim::kFloorDiv), chk<ModInt>(Prim::kMod), chk<FmodInt>(Prim::kFMod);
    bin<PowInt, int64_t>(Prim::kPow, I64), bin<Shl, int64_t>(Prim::kShl, I64), bin<Shr, int64_t>(Prim::kShr, I64);
    bin<And, int64_t>(Prim::kAnd, I64), bin<Or, int64_t>(Prim::kOr, I64), bin<Xor, int64_t>(Prim::kXor, I64);
    bin<And, b8>(Prim::kAnd, B8), bin<Or, b8>(Prim::kOr, B8), bin<Xor, b8>(Prim::kXor, B8);
    un<NotInt, int64_t>(Prim::kNot, I64), un<NotBool, b8>(Prim::kNot, B8);
    compare<Eq>(Prim::kEq), compare<Ne>(Prim::kNe), compare<Lt>(Prim::kLt), compare<Le>(Prim::kLe);
    compare<Gt>(Prim::kGt), compare<Ge>(Prim::kGe);
    tern<Select, b8, float>(Prim::kSelect, F32), tern<Select, b8, double>(Prim::kSelect, F64);
    tern<Select, b8, int64_t>(Prim::kSelect, I64), tern<Select, b8, b8>(Prim::kSelect, B8);
    tern<Fma, float, float>(Prim::kFma, F32), tern<Fma, double, double>(Prim::kFma, F64);
    tern<Fma, int64_t, int64_t>(Prim::kFma, I64);
  }
  void functions() {
    un_float<Neg>(Prim::kNeg), un<Neg, int64_t>(Prim::kNeg, I64);
    un_float<Abs>(Prim::kAbs), un<AbsInt, int64_t>(Prim::kAbs, I64), un<Copy, b8>(Prim::kAbs, B8);
    un_float<Sign>(Prim::kSign), un<SignInt, int64_t>(Prim::kSign, I64), un<Copy, b8>(Prim::kSign, B8);
    un_float2<Exp32, Exp64>(Prim::kExp), un_float2<Expm1_32, Expm1_64>(Prim::kExpm1);
    un_float2<Log32, Log64>(Prim::kLog), un_float2<Log1p_32, Log1p_64>(Prim::kLog1p);
    un_float<Sqrt>(Prim::kSqrt), un_float<Rsqrt>(Prim::kRsqrt);
    at(Prim::kSin, F32)[0] = trig<Sin32, Sin64>, at(Prim::kCos, F32)[0] = trig<Cos32, Cos64>;
    at(Prim::kTan, F32)[0] = trig<Tan32, Tan64>;
    un<Sin64, double>(Prim::kSin, F64), un<Cos64, double>(Prim::kCos, F64), un<Tan64, double>(Prim::kTan, F64);
    un_float2<Asin32, Asin>(Prim::kAsin), un_float2<Acos32, Acos>(Prim::kAcos), un_float2<Atan32, Atan>(Prim::kAtan);
    un_float2<Sinh32, Sinh>(Prim::kSinh), un_float2<Cosh32, Cosh>(Prim::kCosh), un_float2<Tanh32, Tanh64>(Prim::kTanh);
    un_float2<Asinh32, Asinh>(Prim::kAsinh), un_float2<Acosh32, Acosh>(Prim::kAcosh), un_float2<Atanh32, Atanh>(Prim::kAtanh);
    un_float2<Erf32, Erf64>(Prim::kErf), un_float<Erfinv>(Prim::kErfinv);
    un_float<Lgamma>(Prim::kLgamma), un_float<Digamma>(Prim::kDigamma);
    un_float<Floor>(Prim::kFloor), un_float<Ceil>(Prim::kCeil), un_float<Rint>(Prim::kRound), un_float<Trunc>(Prim::kTrunc);
    for (Prim p : {Prim::kFloor, Prim::kCeil, Prim::kRound, Prim::kTrunc}) un<Copy, int64_t>(p, I64), un<Copy, b8>(p, B8);
    un<IsNan, float, b8>(Prim::kIsNan, F32), un<IsNan, double, b8>(Prim::kIsNan, F64);
    un<IsInf, float, b8>(Prim::kIsInf, F32), un<IsInf, double, b8>(Prim::kIsInf, F64);
    un<IsFinite, float, b8>(Prim::kIsFinite, F32), un<IsFinite, double, b8>(Prim::kIsFinite, F64);
    un<Never, int64_t, b8>(Prim::kIsNan, I64), un<Never, b8, b8>(Prim::kIsNan, B8);
    un<Never, int64_t, b8>(Prim::kIsInf, I64), un<Never, b8, b8>(Prim::kIsInf, B8);
    un<Always, int64_t, b8>(Prim::kIsFinite, I64), un<Always, b8, b8>(Prim::kIsFinite, B8);
  }
  template <class T, int From>
  void casts() {
    t.cast[From][F32] = unary<To<float>, T, float>, t.cast[From][F64] = unary<To<double>, T, double>;
    t.cast[From][I64] = unary<To<int64_t>, T, int64_t>, t.cast[From][B8] = unary<ToBool, T, b8>;
    t.expand[From] = expand<T>;
  }
  template <class Format>
  void rounding(DType to, bool integer) {
    PrimFn* f = t.round[static_cast<int>(to)];
    if (integer) {
      f[I64] = unary<Through<Format>, int64_t, int64_t>;
    } else {
      f[F32] = unary<Through<Format>, float, float>, f[F64] = unary<Through<Format>, double, double>;
    }
  }
  void types() {
    casts<float, F32>(), casts<double, F64>(), casts<int64_t, I64>(), casts<b8, B8>();
    rounding<Bf16>(DType::kBFloat16, false), rounding<F16>(DType::kFloat16, false);
    t.round[static_cast<int>(DType::kFloat32)][F64] = unary<Through<Plain<float, double>>, double, double>;
    rounding<Plain<uint8_t, int64_t>>(DType::kUInt8, true), rounding<Plain<int8_t, int64_t>>(DType::kInt8, true);
    rounding<Plain<int16_t, int64_t>>(DType::kInt16, true), rounding<Plain<int32_t, int64_t>>(DType::kInt32, true);
    t.narrow[static_cast<int>(DType::kUInt8)] = unary<Narrow<uint8_t>, int64_t, int64_t>;
    t.narrow[static_cast<int>(DType::kInt8)] = unary<Narrow<int8_t>, int64_t, int64_t>;
    t.narrow[static_cast<int>(DType::kInt16)] = unary<Narrow<int16_t>, int64_t, int64_t>;
    t.narrow[static_cast<int>(DType::kInt32)] = unary<Narrow<int32_t>, int64_t, int64_t>;
    format<Plain<b8, b8>>(DType::kBool), format<Plain<uint8_t, int64_t>>(DType::kUInt8);
    format<Plain<int8_t, int64_t>>(DType::kInt8), format<Plain<int16_t, int64_t>>(DType::kInt16);
    format<Plain<int32_t, int64_t>>(DType::kInt32), format<Plain<int64_t, int64_t>>(DType::kInt64);
    format<F16>(DType::kFloat16), format<Bf16>(DType::kBFloat16);
    format<Plain<float, float>>(DType::kFloat32), format<Plain<double, double>>(DType::kFloat64);
  }
  void reductions() {  // ReduceKind order
    red_number<RSum, Add>(1), red_number<RProd, Mul>(2), red_number<RMax, Max>(3), red_number<RMin, Min>(4);
    red<RAny, b8, Or>(3, B8), red<RAll, b8, And>(4, B8);  // max and min of booleans
    red<RAny, b8, Or>(5, B8), red<RAll, b8, And>(6, B8);
  }
};
Builder make_table() {
  Builder b;
  memset(&b, 0, sizeof b);
  b.arithmetic(), b.functions(), b.types(), b.reductions();
  return b;
}
}  // namespace

const Table& TILE_TABLE() {
  static const Builder b = make_table();
  return b.t;
}

}  // namespace yuloh::tile
