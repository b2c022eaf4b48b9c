// SPDX-License-Identifier: Apache-2.0
// Our own GEMM on every instruction set: shapes around the micro-tile edges, all layouts, epilogues, thread
// counts.
#include "cpu/gemm.h"

#include "cpu/cpu_features.h"
#include "cpu/parallel.h"
#include "kernel_check.h"

namespace yuloh::test {
namespace {

struct IsaScope {
  explicit IsaScope(Isa isa) { set_max_isa(isa); }
  ~IsaScope() { set_max_isa(Isa::kAvx512); }
};

TEST(Gemm, AgreesWithReferenceOnEveryIsa) {
  const int64_t ms[] = {1, 2, 6, 13, 14, 15, 31, 200}, ns[] = {1, 7, 16, 31, 32, 33, 70, 530},
                ks[] = {1, 5, 64, 300, 700};
  for (const Isa isa : {Isa::kSse2, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > hardware_isa()) continue;
    const IsaScope scope(isa);
    int i = 0;
    for (int64_t m : ms)
      for (int64_t n : ns)
        for (int64_t k : ks) {
          const bool tx = ++i & 1, ty = i & 2;
          if (m * n * k > 700000) continue;
          const Value v = call("matmul",
                               {make_input({DType::kFloat32, tx ? Shape{k, m} : Shape{m, k}}, 0),
                                make_input({DType::kFloat32, ty ? Shape{n, k} : Shape{k, n}}, 1)},
                               {{"transpose_x", tx}, {"transpose_y", ty}});
          Case c(v, {});
          EXPECT_LT(candidate_error("yuloh_gemm_any", c), 3e-6)
              << m << " " << n << " " << k << tx << ty << isa_name(isa);
        }
  }
}

TEST(Gemm, BatchesVectorsAndViews) {
  struct {
    Shape x, y;
    std::vector<Ints> strides;
  } cases[] = {
      {{3, 4, 7}, {7, 5}, {}},
      {{2, 1, 4, 7}, {3, 7, 5}, {}},
      {{2, 3, 40, 64}, {2, 3, 64, 50}, {{64 * 3 * 40, 64, 3 * 64, 1}, {}}},
      {{7}, {7}, {}},
      {{7}, {7, 5}, {}},
      {{40, 70}, {70}, {}},
      {{3, 4, 7}, {7}, {}},
      {{40, 70}, {70}, {{1, 40}, {3}}},
      {{40, 70}, {70, 33}, {{140, 2}, {99, 3}}},
      {{40, 70}, {70, 33}, {{0, 1}, {1, 0}}},
      {{64, 16, 16}, {64, 16, 16}, {}},
  };
  for (const auto& k : cases) {
    const Value v =
        call("matmul", {make_input({DType::kFloat32, k.x}, 0), make_input({DType::kFloat32, k.y}, 1)});
    Case c(v, k.strides);
    EXPECT_LT(candidate_error("yuloh_gemm_any", c), 3e-6) << to_string(k.x) << to_string(k.y);
  }
}

TEST(Gemm, EpilogueAndThreads) {
  const int64_t m = 61, n = 75, k = 600;
  std::vector<float> x(m * k), y(k * n), bias(n), add(m * n), z1(m * n), z2(m * n);
  std::mt19937 rng(3);
  std::uniform_real_distribution<float> d(-1, 1);
  for (auto* v : {&x, &y, &bias, &add})
    for (float& f : *v) f = d(rng);
  y[5] = std::nanf("");  // column 5 of the result: relu keeps NaN
  GemmProblem p{m, n, k, x.data(), y.data(), z1.data(), k, 1, n, 1, n, {bias.data(), add.data(), n, true}};
  for (const Isa isa : {Isa::kSse2, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > hardware_isa()) continue;
    const IsaScope scope(isa);
    set_num_threads(1);
    gemm(p);
    set_num_threads(3);
    p.z = z2.data();
    gemm(p);
    set_num_threads(0);
    p.z = z1.data();
    EXPECT_EQ(std::memcmp(z1.data(), z2.data(), sizeof(float) * m * n), 0);  // thread count changes no bit
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double v = bias[j] + add[i * n + j];
        for (int64_t q = 0; q < k; ++q) v += double(x[i * k + q]) * y[q * n + j];
        if (j == 5) EXPECT_TRUE(std::isnan(z1[i * n + j]));
        else EXPECT_NEAR(z1[i * n + j], std::max(v, 0.0), 1e-4);
      }
  }
}

}  // namespace
}  // namespace yuloh::test
