// SPDX-License-Identifier: Apache-2.0
// Conversions between storage and compute types, casts and rounding; included by tile_kernels.inl in every
// target's namespace.

struct ToBool {
  template <class T>
  TILE_INLINE b8 f(T x) {
    return x != 0;
  }
};
template <class D>
struct To {
  template <class T>
  TILE_INLINE D f(T x) {
    return static_cast<D>(x);
  }
};

TILE_INLINE uint16_t bf16_of(float x) {
  const uint32_t u = static_cast<uint32_t>(bits(x));
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16, quiet = (u >> 16) | 0x40;
  return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
TILE_INLINE float of_bf16(uint16_t h) {
  return from_bits(static_cast<int32_t>(static_cast<uint32_t>(h) << 16));
}
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
  const float v =
      from_bits(static_cast<int32_t>(a)) * 5.192296858534828e+33f;  // 2^112: denormals become normal
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
struct Through {
  template <class T>
  TILE_INLINE T f(T x) {
    return static_cast<T>(Format::in(Format::out(static_cast<typename Format::T>(x))));
  }
};
// The hardware converts reals to int32 for every narrow integer; what does not fit becomes INT32_MIN.
template <class S>
struct Narrow {
  TILE_INLINE int64_t f(int64_t x) {
    return static_cast<S>(((x < INT32_MIN) | (x > INT32_MAX)) ? INT32_MIN : static_cast<int32_t>(x));
  }
};
template <class T>
void expand(void* dv, const void* av, const void*, const void*, int64_t rows, int64_t cols) {
  T* d = static_cast<T*>(dv);
  const T* a = static_cast<const T*>(av);
  for (int64_t r = 0; r < rows; ++r, d += cols) {
    const T s = a[r];
    for (int64_t c = 0; c < cols; ++c) d[c] = s;
  }
}
