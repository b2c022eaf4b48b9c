// SPDX-License-Identifier: Apache-2.0
// The tile interpreter: storage types, strided and permuted operands, in-place outputs.
#include "tile_program_builder.h"

namespace yuloh {
namespace {
class LayoutIsa : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Tile, LayoutIsa, ::testing::Values(Isa::kSse2, Isa::kAvx2, Isa::kAvx512),
                         [](auto& i) { return std::string(isa_name(i.param)); });

// ---- storage types ----
TEST_P(LayoutIsa, StorageTypesRoundTrip) {
  const int n = 1000;
  for (DType t : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                  DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const CType c = compute_type(t);
    std::vector<double> src(n);
    std::mt19937 g(3);
    for (double& v : src) v = static_cast<int>(g() % 200) - 100;
    std::vector<char> in(n * 8 * 3), out(n * 8 * 3);
    for (int64_t stride : {1, 3}) {
      for (int i = 0; i < n; ++i)
        store_double(in.data() + i * stride * dtype_size(t), t,
                     t == DType::kBool    ? src[i] > 0
                     : t == DType::kUInt8 ? std::fabs(src[i])
                                          : src[i]);
      Prog p({}, n);
      p.store(t, {}, stride, p.prim(Prim::kAbs, c, p.load(t, {}, stride)));
      p.run({in.data(), out.data()});
      for (int i = 0; i < n; ++i)
        ASSERT_EQ(load_double(out.data() + i * stride * dtype_size(t), t),
                  t == DType::kBool ? src[i] > 0 : std::fabs(src[i]))
            << t;
    }
  }
}
TEST_P(LayoutIsa, HalfConversionsMatchTheScalarOnes) {
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
    for (int i = 0; i < 65536; ++i)
      x.push_back(std::nextafter(f[i], 1e30f)), x.push_back((f[i] + f[(i + 1) & 65535]) / 2);
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
TEST_P(LayoutIsa, HalfChainsRoundAtEveryStep) {
  const int n = 777;
  std::vector<uint16_t> a(n), b(n), product(n), sum(n);
  std::mt19937 g(5);
  for (int i = 0; i < n; ++i) {
    a[i] = float_to_bf16(static_cast<float>(g() % 2000) / 300 - 3),
    b[i] = float_to_bf16(static_cast<float>(g() % 999) / 77);
  }
  Prog p({}, n);
  const int x = p.load(DType::kBFloat16, {}, 1), y = p.load(DType::kBFloat16, {}, 1);
  const int m = p.round(CType::kF32, DType::kBFloat16, p.prim(Prim::kMul, CType::kF32, x, y));
  const int s = p.round(CType::kF32, DType::kBFloat16, p.prim(Prim::kAdd, CType::kF32, m, y));
  p.store(DType::kBFloat16, {}, 1, m);
  p.store(DType::kBFloat16, {}, 1, s);
  p.run({a.data(), b.data(), product.data(), sum.data()});
  for (int i = 0; i < n; ++i) {
    const uint16_t want = float_to_bf16(bf16_to_float(a[i]) * bf16_to_float(b[i]));
    ASSERT_EQ(product[i], want);
    ASSERT_EQ(sum[i], float_to_bf16(bf16_to_float(want) + bf16_to_float(b[i])));
  }
}
TEST_P(LayoutIsa, CastsAndIntegerRounding) {
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

TEST_P(LayoutIsa, RealsBecomeNarrowIntegersAsTheHardwareDoes) {
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
TEST_P(LayoutIsa, StridedTransposedAndManyAxes) {
  // out[i, j, k, l] = a[i, j, k, l] + b[k, i] (permuted) * c[j, l]; a transposed in memory
  const int I = 3, J = 5, K = 7, L = 11;
  const auto a = numbers<float>(I * J * K * L, -9, 9, 1, false), b = numbers<float>(K * I, -9, 9, 2, false),
             c = numbers<float>(J * L, -9, 9, 3, false);
  std::vector<float> d(I * J * K * L), e(I * J * K * L);
  Prog p({I, J, K}, L);
  const int ra = p.load(DType::kFloat32, {1, I, I * J}, I * J * K),
            rb = p.load(DType::kFloat32, {1, 0, I}, 0), rc = p.load(DType::kFloat32, {0, L, 0}, 1);
  const int s = p.prim(Prim::kAdd, CType::kF32, ra, p.prim(Prim::kMul, CType::kF32, rb, rc));
  p.store(DType::kFloat32, {J * K * L, K * L, L}, 1, s);
  p.store(DType::kFloat32, {1, I, I * J}, I * J * K, s);
  p.run({const_cast<float*>(a.data()), const_cast<float*>(b.data()), const_cast<float*>(c.data()), d.data(),
         e.data()});
  for (int i = 0; i < I; ++i)
    for (int j = 0; j < J; ++j)
      for (int k = 0; k < K; ++k)
        for (int l = 0; l < L; ++l) {
          const float want = a[i + I * (j + J * (k + K * l))] + b[k * I + i] * c[j * L + l];
          ASSERT_EQ(d[((i * J + j) * K + k) * L + l], want);
          ASSERT_EQ(e[i + I * (j + J * (k + K * l))], want);
        }
}
TEST_P(LayoutIsa, LargeTranspose) {
  const int R = 300, C = 517;
  const auto a = numbers<float>(R * C, -9, 9, 1, false);
  std::vector<float> d(R * C);
  Prog p({R}, C);
  p.store(DType::kFloat32, {C}, 1, p.prim(Prim::kNeg, CType::kF32, p.load(DType::kFloat32, {1}, R)));
  p.run({const_cast<float*>(a.data()), d.data()});
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) ASSERT_EQ(d[r * C + c], -a[c * R + r]);
}
TEST_P(LayoutIsa, ManyShortRowsWithTwoOuterAxes) {  // blocks that cross axes
  const int I = 200, J = 3, C = 5;
  const auto a = numbers<float>(I * J * C, -9, 9, 1, false), b = numbers<float>(I, -9, 9, 2, false),
             c = numbers<float>(J, -9, 9, 3, false);
  std::vector<float> d(I * J * C), m(I * J), col(C), all(1);
  Prog p({I, J}, C);
  const int ra = p.load(DType::kFloat32, {J * C, C}, 1), rb = p.load(DType::kFloat32, {1, 0}, 0),
            rc = p.load(DType::kFloat32, {0, 1}, 0);
  const int s = p.prim(Prim::kAdd, CType::kF32, ra, p.prim(Prim::kMul, CType::kF32, rb, rc));
  p.store(DType::kFloat32, {1, I}, I * J, s);
  p.store(DType::kFloat32, {1, I}, 0, p.row_reduce(ReduceKind::kMax, CType::kF32, s));
  p.accumulate(true, ReduceKind::kMin, DType::kFloat32, s, 1);
  p.accumulate(false, ReduceKind::kMax, DType::kFloat32, s, 0);
  p.run({const_cast<float*>(a.data()), const_cast<float*>(b.data()), const_cast<float*>(c.data()), d.data(),
         m.data(), col.data(), all.data()});
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
TEST_P(LayoutIsa, OutputsMayTakeOverInputsOfTheSameLayout) {
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
      p.run(
          {buffers[0].data(), buffers[1].data(), buffers[px].data(), buffers[py].data(), buffers[pz].data()});
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

}  // namespace
}  // namespace yuloh
