// SPDX-License-Identifier: Apache-2.0
// Body of the GEMM micro-kernels. The including file defines, in an anonymous namespace, struct V: register
// type R of V::n floats with zero, load, set1, fma, add, max, store, load_part / store_part (first `count`
// floats, others zero), sum, and transpose(src, row_stride, dst, dst_stride): V::n x V::n floats; and kRows,
// the rows that fit the registers.

template <int MR, int NV>
void micro(const MicroArgs& p) {
  V::R acc[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int h = 0; h < NV; ++h) acc[i][h] = V::zero();
  // Three rows share a base pointer: [base], [base + row], [base + 2 row] are addressing modes.
  constexpr int kBases = (MR + 2) / 3;
  const float* base[kBases];
#pragma GCC unroll 16
  for (int g = 0; g < kBases; ++g) base[g] = p.a + 3 * g * p.a_row;
  const float* b = p.b;
  const int64_t row = p.a_row;
  for (int64_t k = 0; k < p.k; ++k) {
    V::R bv[NV];
#pragma GCC unroll 8
    for (int h = 0; h < NV; ++h) bv[h] = V::load(b + h * V::n);
    b += p.b_row;
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const V::R a = V::set1(base[i / 3][(i % 3) * row]);
#pragma GCC unroll 8
      for (int h = 0; h < NV; ++h) acc[i][h] = V::fma(a, bv[h], acc[i][h]);
    }
#pragma GCC unroll 16
    for (int g = 0; g < kBases; ++g) base[g] += p.a_col;
  }
  const bool full = p.columns == NV * V::n;
  const auto count = [&](int h) { return std::clamp(p.columns - h * V::n, 0, V::n); };
  const auto load = [&](const float* s, int h) { return full ? V::load(s) : V::load_part(s, count(h)); };
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    float* c = p.c + i * p.c_row;
#pragma GCC unroll 8
    for (int h = 0; h < NV; ++h) {
      V::R v = acc[i][h];
      const int at = h * V::n;
      if (!full && count(h) == 0) continue;
      if (p.accumulate) v = V::add(v, load(c + at, h));
      if (p.last) {
        if (p.bias) v = V::add(v, load(p.bias + at, h));
        if (p.add) v = V::add(v, load(p.add + i * p.add_row + at, h));
        if (p.relu) v = V::max(V::zero(), v);
      }
      if (full) V::store(c + at, v);
      else V::store_part(c + at, v, count(h));
    }
  }
}

void pack_transposed(const float* src, int64_t row_stride, int rows, int64_t k, float* out, int64_t stride,
                     int width) {
  for (int r0 = 0; r0 < width; r0 += V::n) {
    const int here = rows - r0 < V::n ? (rows - r0 < 0 ? 0 : rows - r0) : V::n;
    int64_t p = 0;
    if (here == V::n)
      for (; p + V::n <= k; p += V::n)
        V::transpose(src + r0 * row_stride + p, row_stride, out + p * stride + r0, stride);
    else if (here > 0) {  // rows that do not exist are read from zeros
      alignas(64) float tile[V::n * V::n] = {};
      for (; p + V::n <= k; p += V::n) {
        for (int r = 0; r < here; ++r) V::store(tile + r * V::n, V::load(src + (r0 + r) * row_stride + p));
        V::transpose(tile, V::n, out + p * stride + r0, stride);
      }
    }
    for (; p < k; ++p)
      for (int r = 0; r < V::n; ++r)
        out[p * stride + r0 + r] = r < here ? src[(r0 + r) * row_stride + p] : 0.0f;
  }
}

void pack_rows(const float* src, int64_t k_stride, int rows, int64_t k, float* out, int64_t stride,
               int width) {
  for (int64_t p = 0; p < k; ++p)
    for (int r0 = 0; r0 < width; r0 += V::n) {
      const float* s = src + p * k_stride + r0;
      float* d = out + p * stride + r0;
      const int here = rows - r0;
      if (here >= V::n) V::store(d, V::load(s));
      else V::store(d, here > 0 ? V::load_part(s, here) : V::zero());
    }
}

// Four partial sums of V::n lanes, combined in a fixed order.
float dot(const float* a, const float* b, int64_t n) {
  V::R s[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  int64_t i = 0;
  for (; i + 4 * V::n <= n; i += 4 * V::n)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) s[j] = V::fma(V::load(a + i + j * V::n), V::load(b + i + j * V::n), s[j]);
  for (; i < n; i += V::n) {
    const int here = n - i < V::n ? static_cast<int>(n - i) : V::n;
    s[0] = V::fma(V::load_part(a + i, here), V::load_part(b + i, here), s[0]);
  }
  return V::sum(V::add(V::add(s[0], s[1]), V::add(s[2], s[3])));
}

template <int... I>
Kernels make_table(std::integer_sequence<int, I...>) {
  Kernels t{kRows, 2 * V::n, {}, {}, micro<1, 8>, pack_transposed, pack_rows, dot};
  ((t.micro[I + 1] = micro<I + 1, 2>, t.half[I + 1] = micro<I + 1, 1>), ...);
  return t;
}
