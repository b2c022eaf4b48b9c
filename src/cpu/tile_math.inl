// SPDX-License-Identifier: Apache-2.0
// Branch-free float32 functions that the compiler vectorises; included by tile_kernels.inl in every target's
// namespace. Errors are about 1 ulp (measured in tests/cpp/tile_test.cpp). Polynomials are our own minimax
// fits. Functions that are not hot (pow, expm1, log1p, sin, cos, tan) compute in double: half the speed, half
// an ulp.

#define TILE_INLINE static inline __attribute__((always_inline))
#ifdef __FMA__
TILE_INLINE float mad(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TILE_INLINE double mad(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
TILE_INLINE float mad(float a, float b, float c) { return a * b + c; }
TILE_INLINE double mad(double a, double b, double c) { return a * b + c; }
#endif
TILE_INLINE int32_t bits(float f) { return __builtin_bit_cast(int32_t, f); }
TILE_INLINE int64_t bits(double f) { return __builtin_bit_cast(int64_t, f); }
TILE_INLINE float from_bits(int32_t i) { return __builtin_bit_cast(float, i); }
TILE_INLINE double from_bits(int64_t i) { return __builtin_bit_cast(double, i); }
TILE_INLINE float sign_of(float magnitude, float sign) {  // magnitude >= 0
  return from_bits(bits(magnitude) | (bits(sign) & INT32_MIN));
}
constexpr float kInf = __builtin_inff(), kNaN = __builtin_nanf("");

// e^x for x already in [-104, 89] (or NaN). n = round(x / ln 2); 2^n in two factors, so that both ends round
// once.
struct ExpParts {
  float e;
  int32_t n;
};
TILE_INLINE ExpParts exp_parts(float x) {
  const float magic =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer and leaves it in the low bits
  const float t = mad(x, 1.44269504f, magic);
  const float n = t - magic;
  const int32_t i = bits(t) - bits(magic);
  float r = mad(n, -0.693359375f, x);
  r = mad(n, 2.12194440e-4f, r);
  float p = 1.9917972552e-4f;
  p = mad(p, r, 1.3946189718e-3f);
  p = mad(p, r, 8.3332651639e-3f);
  p = mad(p, r, 4.1666268263e-2f);
  p = mad(p, r, 1.6666666856e-1f);
  p = mad(p, r, 0.5f);
  return {1.0f + mad(p * r, r, r), i};
}
TILE_INLINE float exp_core(float x) {
  const ExpParts v = exp_parts(x);
  const int32_t half = v.n >> 1;
  return v.e * from_bits((half + 127) << 23) * from_bits((v.n - half + 127) << 23);
}
TILE_INLINE float exp_near(float x) {  // the same for |x| < 87: one factor holds 2^n
  const ExpParts v = exp_parts(x);
  return v.e * from_bits((v.n + 127) << 23);
}
TILE_INLINE float exp32(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  return exp_core(x);
}
TILE_INLINE float log32(float x) {
  const float tiny = 1.17549435e-38f;
  const float scaled = x < tiny ? x * 8388608.0f : x;
  const int32_t i = bits(scaled) - 0x3f3504f3;  // below sqrt(1/2): the mantissa lands in [sqrt(1/2), sqrt(2))
  const float e = static_cast<float>((i >> 23) - (x < tiny ? 23 : 0));
  const float f = from_bits((i & 0x7fffff) + 0x3f3504f3) - 1.0f;
  const float z = f * f;
  float p = 6.9153680694e-2f;
  p = mad(p, f, -1.1789807694e-1f);
  p = mad(p, f, 1.1872976293e-1f);
  p = mad(p, f, -1.2384348470e-1f);
  p = mad(p, f, 1.4218658090e-1f);
  p = mad(p, f, -1.6669250816e-1f);
  p = mad(p, f, 2.0002226614e-1f);
  p = mad(p, f, -2.4999986599e-1f);
  p = mad(p, f, 3.3333310440e-1f);
  float y = p * f * z;
  y = mad(e, -2.12194440e-4f, y);
  y = mad(z, -0.5f, y);
  float r = f + y;
  r = mad(e, 0.693359375f, r);
  r = x < kInf ? r : x;  // inf, NaN
  r = x == 0.0f ? -kInf : r;
  return x < 0.0f ? kNaN : r;
}
TILE_INLINE float tanh32(float x) {
  const float a = __builtin_fabsf(x), z = a * a;
  float p = 2.1475368592e-3f;
  p = mad(p, z, -8.1826738561e-3f);
  p = mad(p, z, 2.1702967105e-2f);
  p = mad(p, z, -5.3947204269e-2f);
  p = mad(p, z, 1.3333209764e-1f);
  p = mad(p, z, -3.3333330907e-1f);
  const float small = mad(p * z, a, a);
  const float large = 1.0f - 2.0f / (exp_near(a > 10.0f ? 20.0f : a + a) + 1.0f);
  return sign_of(a < 0.625f ? small : large, x);
}
// |x| < 1: x * poly(x^2); above: 1 - exp(poly(|x|)), a fit of log(erfc).
TILE_INLINE float erf32(float x) {
  const float a = __builtin_fabsf(x), z = a * a;
  float p = 7.8891195362e-5f;
  p = mad(p, z, -8.0208412814e-4f);
  p = mad(p, z, 5.1895353396e-3f);
  p = mad(p, z, -2.6854444592e-2f);
  p = mad(p, z, 1.1283600176e-1f);
  p = mad(p, z, -3.7612627136e-1f);
  p = mad(p, z, 1.2837916659e-1f);
  const float small = mad(p, a, a);
  const float c = a > 4.0f ? 4.0f : a;
  float q = -2.1686812943e-5f;
  q = mad(q, c, 4.4133588998e-4f);
  q = mad(q, c, -4.2045591797e-3f);
  q = mad(q, c, 2.5208248617e-2f);
  q = mad(q, c, -1.0841856292e-1f);
  q = mad(q, c, -6.3321990815e-1f);
  q = mad(q, c, -1.1295784157f);
  q = mad(q, c, 1.8803816825e-4f);
  const float large = 1.0f - exp_near(q);
  return sign_of(a < 1.0f ? small : large, x);
}

// ---- float64 cores, about 1e-13 relative: enough to round float32 results correctly almost always ----
constexpr double kMagic64 = 6755399441055744.0;  // 1.5 * 2^52
TILE_INLINE double expm1_poly(double r) {        // |r| <= ln 2 / 2
  double p = 2.76433591797614e-06;
  p = mad(p, r, 2.488243905373977e-05);
  p = mad(p, r, 0.00019841164189127484);
  p = mad(p, r, 0.0013888807247713522);
  p = mad(p, r, 0.008333333387506912);
  p = mad(p, r, 0.041666666991089084);
  p = mad(p, r, 0.16666666666571173);
  p = mad(p, r, 0.4999999999960053);
  return mad(p * r, r, r);
}
// x in [-700, 700] or NaN; *scale = 2^n and the result is e^(x - n ln 2) - 1.
TILE_INLINE double expm1_reduced(double x, double* scale) {
  const double t = mad(x, 1.4426950408889634, kMagic64), n = t - kMagic64;
  double r = mad(n, -0.6931471803691238, x);
  r = mad(n, -1.9082149292705877e-10, r);
  *scale = from_bits((bits(t) << 52) + int64_t{0x3ff0000000000000});
  return expm1_poly(r);
}
TILE_INLINE double exp64(double x) {
  double s;
  const double p = expm1_reduced(x, &s);
  return mad(s, p, s);
}
TILE_INLINE float expm1_32(float x) {
  const float c = x > 89.0f ? 89.0f : x < -50.0f ? -50.0f : x;
  double s;
  const double p = expm1_reduced(c, &s);
  const float r = static_cast<float>(mad(s, p, s - 1.0));
  return x == 0.0f ? x : r;
}
TILE_INLINE double log64_near_one(double f) {  // log(1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]
  const double s = f / (2.0 + f), z = s * s;
  double p = 0.08410239311890695;
  p = mad(p, z, 0.09061793764773061);
  p = mad(p, z, 0.11111686683643895);
  p = mad(p, z, 0.14285708553602822);
  p = mad(p, z, 0.2000000002620057);
  p = mad(p, z, 0.33333333333293474);
  return 2.0 * mad(p * z, s, s);
}
TILE_INLINE double log64_split(double x, double* e) {  // x positive and normal: mantissa - 1 and exponent
  const int64_t i = bits(x) - int64_t{0x3fe6a09e667f3bcd};
  const uint64_t biased =
      (static_cast<uint64_t>(i) + (2048ull << 52)) >> 52;  // logical shift: AVX2 has no other
  *e = from_bits(static_cast<int64_t>(biased | 0x4330000000000000ull)) - (4503599627370496.0 + 2048.0);
  return from_bits((i & int64_t{0xfffffffffffff}) + int64_t{0x3fe6a09e667f3bcd}) - 1.0;
}
TILE_INLINE double log64(double x) {
  double e;
  const double f = log64_split(x, &e);
  return mad(e, 0.6931471805599453, log64_near_one(f));
}
TILE_INLINE float log1p_32(float x) {
  double e;
  const double f = log64_split(1.0 + static_cast<double>(x), &e);
  const bool near_one = x > -0.29f && x < 0.41f;
  float r = static_cast<float>(
      mad(near_one ? 0.0 : e, 0.6931471805599453, log64_near_one(near_one ? static_cast<double>(x) : f)));
  r = x < kInf ? r : x;
  r = x == 0.0f ? x : r;
  r = x == -1.0f ? -kInf : r;
  return x < -1.0f ? kNaN : r;
}
TILE_INLINE double log1p_positive(double x) {  // x >= 0 and finite
  double e;
  const double f = log64_split(1.0 + x, &e);
  const bool near_one = x < 0.41;
  return mad(near_one ? 0.0 : e, 0.6931471805599453, log64_near_one(near_one ? x : f));
}
TILE_INLINE float sinh32(float x) {
  const float a = __builtin_fabsf(x);
  double s;
  const double p = expm1_reduced(a > 90.0f ? 90.0f : a, &s), m = mad(s, p, s - 1.0);
  return sign_of(static_cast<float>(0.5 * (m + m / (m + 1.0))), x);
}
TILE_INLINE float cosh32(float x) {
  const float a = __builtin_fabsf(x);
  const double e = exp64(a > 90.0f ? 90.0f : a);
  return static_cast<float>(0.5 * (e + 1.0 / e));
}
TILE_INLINE float asinh32(float x) {
  const float a = __builtin_fabsf(x);
  const double d = a, z = d * d;
  const float r = static_cast<float>(log1p_positive(d + z / (1.0 + __builtin_sqrt(1.0 + z))));
  return sign_of(a < kInf ? r : a, x);
}
TILE_INLINE float acosh32(float x) {
  const double t = static_cast<double>(x) - 1.0;
  const float r = static_cast<float>(log1p_positive(t + __builtin_sqrt(t * (t + 2.0))));
  return x < 1.0f ? kNaN : x < kInf ? r : x;
}
TILE_INLINE float atanh32(float x) {
  const float a = __builtin_fabsf(x);
  const double d = a;
  float r = static_cast<float>(0.5 * log1p_positive(2.0 * d / (1.0 - d)));
  r = a == 1.0f ? kInf : a < 1.0f ? r : kNaN;
  return sign_of(r, x);
}
TILE_INLINE double atan_positive(double d) {  // |t| <= tan(pi / 8) after the reduction
  const bool large = d > 2.414213562373095, middle = d > 0.41421356237309503;
  const double num = large ? -1.0 : middle ? d - 1.0 : d, den = large ? d : middle ? d + 1.0 : 1.0;
  const double base = large ? 1.5707963267948966 : middle ? 0.7853981633974483 : 0.0;
  const double t = num / den, z = t * t;
  double p = 0.03088728067128003;
  p = mad(p, z, -0.058905838960895164);
  p = mad(p, z, 0.0756841763873106);
  p = mad(p, z, -0.09079121324677494);
  p = mad(p, z, 0.11110448799461692);
  p = mad(p, z, -0.1428569355033807);
  p = mad(p, z, 0.19999999684793965);
  p = mad(p, z, -0.3333333333169216);
  return base + mad(p * z, t, t);
}
TILE_INLINE float atan32(float x) {
  return sign_of(static_cast<float>(atan_positive(__builtin_fabsf(x))), x);
}
TILE_INLINE float asin32(float x) {
  const double a = __builtin_fabsf(x);
  return sign_of(static_cast<float>(atan_positive(a / __builtin_sqrt((1.0 - a) * (1.0 + a)))), x);
}
TILE_INLINE float acos32(float x) {
  const double a = __builtin_fabsf(x), s = atan_positive(a / __builtin_sqrt((1.0 - a) * (1.0 + a)));
  return static_cast<float>(1.5707963267948966 - (x < 0.0f ? -s : s));
}
TILE_INLINE float pow32(float x, float y) {  // x positive and finite, y finite
  double t = static_cast<double>(y) * log64(static_cast<double>(x));
  t = t > 100.0 ? 100.0 : t < -110.0 ? -110.0 : t;
  return static_cast<float>(exp64(t));
}

// Quadrant reduction; good for |x| <= kTrigMax, larger blocks take libm.
constexpr float kTrigMax = 200000.0f;
TILE_INLINE int64_t trig_reduce(float x, double* sin, double* cos) {
  const double d = static_cast<double>(x);
  const double t = mad(d, 0.6366197723675814, kMagic64), n = t - kMagic64;
  double r = mad(n, -1.5707963267341256, d);  // 33 bits of pi/2: n * it is exact
  r = mad(n, -6.077100506506192e-11, r);
  const double z = r * r;
  double s = 2.7182372201181124e-06;
  s = mad(s, z, -0.00019839327128534062);
  s = mad(s, z, 0.008333329362245226);
  s = mad(s, z, -0.16666666641426067);
  double c = -2.7209546632206625e-07;
  c = mad(c, z, 2.4799511747665542e-05);
  c = mad(c, z, -0.0013888883722547422);
  c = mad(c, z, 0.04166666662247593);
  *sin = mad(s * z, r, r);
  *cos = mad(c * z, z, mad(z, -0.5, 1.0));
  return bits(t);
}
TILE_INLINE float sin32(float x) {
  double s, c;
  const int64_t q = trig_reduce(x, &s, &c);
  const double v = q & 1 ? c : s;
  const float r = static_cast<float>(q & 2 ? -v : v);
  return x == 0.0f ? x : r;
}
TILE_INLINE float cos32(float x) {
  double s, c;
  const int64_t q = trig_reduce(x, &s, &c) + 1;
  const double v = q & 1 ? c : s;
  return static_cast<float>(q & 2 ? -v : v);
}
TILE_INLINE float tan32(float x) {
  double s, c;
  const int64_t q = trig_reduce(x, &s, &c);
  const float r = static_cast<float>(q & 1 ? -c / s : s / c);
  return x == 0.0f ? x : r;
}

// ---- rounding to integers; half to even ----
#ifdef __SSE4_1__
TILE_INLINE float round_even(float x) { return __builtin_rintf(x); }
TILE_INLINE double round_even(double x) { return __builtin_rint(x); }
TILE_INLINE float round_down(float x) { return __builtin_floorf(x); }
TILE_INLINE double round_down(double x) { return __builtin_floor(x); }
TILE_INLINE float round_up(float x) { return __builtin_ceilf(x); }
TILE_INLINE double round_up(double x) { return __builtin_ceil(x); }
TILE_INLINE float round_zero(float x) { return __builtin_truncf(x); }
TILE_INLINE double round_zero(double x) { return __builtin_trunc(x); }
#else
TILE_INLINE float copy_sign(float m, float s) { return __builtin_copysignf(m, s); }
TILE_INLINE double copy_sign(double m, double s) { return __builtin_copysign(m, s); }
TILE_INLINE float absolute(float x) { return __builtin_fabsf(x); }
TILE_INLINE double absolute(double x) { return __builtin_fabs(x); }
template <class T>
TILE_INLINE T round_even(T x) {
  const T big = sizeof(T) == 4 ? T(8388608.0) : T(4503599627370496.0);
  const T a = absolute(x), r = (a + big) - big;
  return a < big ? copy_sign(r, x) : x;
}
template <class T>
TILE_INLINE T round_down(T x) {
  const T r = round_even(x);
  return copy_sign(r > x ? r - T(1) : r, x);
}
template <class T>
TILE_INLINE T round_up(T x) {
  const T r = round_even(x);
  return copy_sign(r < x ? r + T(1) : r, x);
}
template <class T>
TILE_INLINE T round_zero(T x) {
  const T a = absolute(x), r = round_even(a);
  return copy_sign(r > a ? r - T(1) : r, x);
}
#endif
