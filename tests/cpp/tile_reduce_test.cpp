// SPDX-License-Identifier: Apache-2.0
// The tile interpreter: reductions against plain loops, thread counts, instruction sets, fork; the executor
// team.
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/parallel.h"
#include "tile_program_builder.h"

namespace yuloh {
namespace {
class ReduceIsa : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Tile, ReduceIsa, ::testing::Values(Isa::kSse2, Isa::kAvx2, Isa::kAvx512),
                         [](auto& i) { return std::string(isa_name(i.param)); });

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
          w = sum                     ? w + v
              : prod                  ? w * v
              : first                 ? v
              : k == ReduceKind::kMax ? std::max(w, v)
                                      : std::min(w, v);
          m += std::fabs(v);
        };
        acc(wr[i], mr[i], j == 0), acc(wc[j], mc[j], i == 0), acc(wa, ma, i + j == 0);
      }
    const double eps = std::is_same_v<T, float> ? 6e-8 : std::is_same_v<T, double> ? 2e-16 : 0;
    const auto near = [&](double got, double want, double magnitude, int64_t n) {
      if (prod && (std::fabs(want) > 1e30 || std::fabs(want) < 1e-30 || eps == 0)) return true;
      const double depth = 2 + std::min<double>(n, 64) / 2 + std::log2(1.0 + n);
      return std::fabs(got - want) <= (sum    ? eps * magnitude * depth
                                       : prod ? eps * std::fabs(want) * n * 2
                                              : 0);
    };
    for (int i = 0; i < rows; ++i)
      ASSERT_TRUE(near(row[i], wr[i], mr[i], cols)) << row[i] << " " << wr[i] << " kind " << int(k);
    for (int j = 0; j < cols; ++j)
      ASSERT_TRUE(near(col[j], wc[j], mc[j], rows))
          << col[j] << " " << wc[j] << " kind " << int(k) << " col " << j << " of " << rows << "x" << cols;
    ASSERT_TRUE(near(all[0], wa, ma, rows * cols))
        << all[0] << " " << wa << " kind " << int(k) << rows << "x" << cols;
  }
}
TEST_P(ReduceIsa, Reductions) {
  for (const auto& [r, c] : {std::pair<int, int>{1, 1},
                             {1, 5},
                             {7, 1},
                             {3, 33},
                             {64, 10},
                             {65, 31},
                             {129, 64},
                             {500, 3},
                             {1000, 77},
                             {2, 5000},
                             {1, 100000},
                             {5000, 20},
                             {70, 1500},
                             {4, 0},
                             {0, 4},
                             {3, 2049}}) {
    check_reductions<float>(r, c);
    check_reductions<double>(r, c);
    check_reductions<int64_t>(r, c);
  }
  for (int n = 0; n <= 70; ++n) check_reductions<float>(3, n), check_reductions<float>(n, 3);
}
TEST_P(ReduceIsa, BooleanAndNanReductions) {
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
TEST_P(ReduceIsa, Float32SumIsAccurate) {
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
TEST_P(ReduceIsa, ColumnSumInBf16RoundsOnce) {
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
  const int e = p.prim(Prim::kExp, CType::kF32,
                       p.prim(Prim::kSub, CType::kF32, x, p.row_reduce(ReduceKind::kMax, CType::kF32, x)));
  p.store(DType::kFloat32, {cols}, 1,
          p.prim(Prim::kDiv, CType::kF32, e, p.row_reduce(ReduceKind::kSum, CType::kF32, e)));
}
TEST_P(ReduceIsa, SoftmaxRows) {
  for (const auto& [rows, cols] :
       {std::pair<int, int>{3, 5}, {64, 10}, {100, 1000}, {1, 7}, {2, 40000}, {5, 1}}) {
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
TEST_P(ReduceIsa, ThreadCountChangesNoBit) {
  for (const auto& [rows, cols] : {std::pair<int, int>{3000, 129}, {70000, 5}, {1, 500001}, {100, 5000}}) {
    const auto x = numbers<float>(rows * cols, -2, 2, 3, false);
    std::vector<float> out[2];
    for (int t = 1; t <= 2; ++t) {
      set_num_threads(t);
      std::vector<float> y(rows * cols), row(rows), col(cols), all(1);
      Prog p({rows}, cols), q({rows}, cols), w({rows}, cols);
      p.accumulate(false, ReduceKind::kSum, DType::kFloat32,
                   p.prim(Prim::kExp, CType::kF32, p.load(DType::kFloat32, {cols}, 1)), 0);
      p.run({const_cast<float*>(x.data()), all.data()});
      q.accumulate(true, ReduceKind::kSum, DType::kFloat32,
                   q.prim(Prim::kExp, CType::kF32, q.load(DType::kFloat32, {cols}, 1)), 1);
      q.run({const_cast<float*>(x.data()), col.data()});
      softmax(w, cols);
      w.run({const_cast<float*>(x.data()), y.data()});
      auto& o = out[t - 1];
      o.insert(o.end(), all.begin(), all.end()), o.insert(o.end(), col.begin(), col.end()),
          o.insert(o.end(), y.begin(), y.end());
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
TEST(Tile,
     FusedAndUnfusedSumsAgree) {  // the tree depends on the order of elements only, not on how rows merge
  const int rows = 300, cols = 1234;
  auto x = numbers<float>(rows * cols, -2, 2, 3, false);
  std::vector<float> bias(cols, 0.25f), y(rows * cols);
  float fused = 0, plain = 0;
  Prog p({rows}, cols);
  const int rx = p.load(DType::kFloat32, {cols}, 1), rb = p.load(DType::kFloat32, {0}, 1),
            r = p.prim(Prim::kAdd, CType::kF32, rx, rb);
  p.store(DType::kFloat32, {cols}, 1, r);
  p.accumulate(false, ReduceKind::kSum, DType::kFloat32, r, 0);
  p.run({x.data(), bias.data(), y.data(), &fused});
  Prog q({}, rows * cols);
  q.accumulate(false, ReduceKind::kSum, DType::kFloat32, q.load(DType::kFloat32, {}, 1), 0);
  q.run({y.data(), &plain});
  EXPECT_EQ(fused, plain);
  for (auto v : y)
    if (!(v == v)) {
      printf("nan in y\n");
      break;
    }
  for (auto v : x)
    if (!(v == v)) {
      printf("nan in x\n");
      break;
    }
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
    EXPECT_THROW(parallel_for(4,
                              [](int64_t i) {
                                if (i == 3) value_error("x");
                              }),
                 Error);
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
