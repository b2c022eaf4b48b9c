// SPDX-License-Identifier: Apache-2.0
// Fusion and lowering: groups are convex, one nest serves a group, and the bits are those of the unfused run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "graph_reference.h"

namespace yuloh::testing {
namespace {

Value in(Shape s, int64_t number, DType t = DType::kFloat32) { return make_input({t, std::move(s)}, number); }
Value add(const Value& a, const Value& b) { return call("add", {a, b}); }
Value sub(const Value& a, const Value& b) { return call("subtract", {a, b}); }
Value mul(const Value& a, const Value& b) { return call("multiply", {a, b}); }
Value div(const Value& a, const Value& b) { return call("divide", {a, b}); }
Value exp(const Value& a) { return call("exp", {a}); }
Value sum(const Value& a, Ints axes, bool keep = true) {
  return call("sum", {a}, {{"axis", axes}, {"keepdim", keep}});
}
Value max(const Value& a, Ints axes, bool keep = true) {
  return call("max", {a}, {{"axis", axes}, {"keepdim", keep}});
}

std::vector<double> random_values(const Value& v, std::mt19937& rng) {
  std::normal_distribution<double> d(0, 1);
  std::vector<double> r(numel(v.shape()));
  for (double& x : r) x = is_integral(v.dtype()) ? std::round(d(rng) * 3) : d(rng);
  return r;
}
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}
bool close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::isnan(a[i]) && std::isnan(b[i])) && !(a[i] == b[i]) &&
        !(std::fabs(a[i] - b[i]) <= tolerance * std::max({1.0, std::fabs(a[i]), std::fabs(b[i])})))
      return false;
  return a.size() == b.size();
}
// Fused against unfused in both layouts, on the reference and on the CPU interpreter: equal bits. Reference
// against interpreter: equal within `tolerance` (their sums and transcendental functions differ).
void check_bits(const Graph& g, unsigned seed = 1, double tolerance = 1e-4) {
  std::mt19937 rng(seed);
  std::vector<std::vector<double>> inputs, results[2][2];
  for (const Value& v : g.inputs) inputs.push_back(random_values(v, rng));
  for (bool device : {false, true})
    for (bool cl : {false, true}) {
      const auto fused = evaluate(g, inputs, {true, cl, device}),
                 plain = evaluate(g, inputs, {false, cl, device});
      for (size_t i = 0; i < fused.size(); ++i)
        EXPECT_TRUE(same_bits(fused[i], plain[i]))
            << "output " << i << (cl ? " channels-last " : " ") << (device ? "interpreter\n" : "reference\n")
            << to_string(g);
      results[device][cl] = fused;
    }
  for (bool cl : {false, true})
    for (size_t i = 0; i < results[0][cl].size(); ++i)
      EXPECT_TRUE(close(results[0][cl][i], results[1][cl][i], tolerance))
          << "output " << i << " " << cl << "\n"
          << to_string(g);
}
size_t groups_of(const Graph& g, bool channels_last = false) {
  return GraphRun(g, {true, channels_last}).groups.size();
}

TEST(Fuse, ChainOfMapsIsOneGroup) {
  NoGrad guard;
  const Value x = in({4, 6}, 0), y = in({6}, 1);
  const Value a = exp(x), b = mul(a, y), c = add(b, x);
  const Graph g{{x, y}, {c, a}};
  GraphRun run(g, {});
  ASSERT_EQ(run.groups.size(), 1u);
  EXPECT_EQ(run.groups[0].outputs.size(), 2u);  // a is alive outside: an extra output, no barrier
  check_bits(g);
}

TEST(Fuse, SoftmaxIsOneRowGroup) {
  NoGrad guard;
  const Value x = in({3, 5, 7}, 0);
  const Value e = exp(sub(x, max(x, {-1}))), y = div(e, sum(e, {-1}));
  const Graph g{{x}, {y}};
  EXPECT_EQ(groups_of(g), 1u);
  std::mt19937 rng(3);
  const auto v = random_values(x, rng);
  const auto r = evaluate(g, {v})[0];
  for (int row = 0; row < 15; ++row) {
    double s = 0;
    for (int c = 0; c < 7; ++c) s += r[row * 7 + c];
    EXPECT_NEAR(s, 1, 1e-6);
  }
  check_bits(g);
}

TEST(Fuse, DroppedRowValuesStayInTheGroup) {
  NoGrad guard;
  const Value x = in({6, 8}, 0);
  const Value s = sum(x, {1}, false), t = sum(mul(x, x), {1}, false);
  const Graph g{{x}, {sub(t, mul(s, s))}};
  EXPECT_EQ(groups_of(g), 1u);
  check_bits(g);
}

TEST(Fuse, ColumnSumsOfOneInputShareALoop) {
  NoGrad guard;
  const Value x = in({4, 3, 5, 5}, 0), y = in({4, 3, 5, 5}, 1);
  const Graph g{{x, y}, {sum(x, {0, 2, 3}), sum(mul(x, y), {0, 2, 3})}};
  EXPECT_EQ(groups_of(g, true), 1u);
  EXPECT_EQ(groups_of(g, false), 1u);
  check_bits(g);
}

TEST(Fuse, RowsColumnsAndTotalsShareALoop) {
  NoGrad guard;
  const Value x = in({300, 40}, 0), g = in({300, 40}, 1);  // what a layer norm's gradient does
  const Value dx = sub(g, mul(x, sum(mul(g, x), {1})));
  const Graph all{{x, g}, {dx, sum(mul(g, x), {0}, false), sum(g, {0}, false), sum(mul(dx, dx), {0, 1})}};
  EXPECT_EQ(groups_of(all), 1u);
  check_bits(all);
}

TEST(Fuse, ChannelsLastColumnsAreTheInnerLoop) {
  NoGrad guard;
  const Value x = in({4, 3, 5, 5}, 0), w = in({1, 3, 1, 1}, 1);
  const Graph map{{x, w}, {mul(x, w)}};
  const TileProgram p = GraphRun(map, {true, true}).program(0);
  EXPECT_EQ(p.inner, 3);
  EXPECT_EQ(p.outer, Shape({100}));
  const TileProgram q = GraphRun(map, {true, false}).program(0);
  EXPECT_EQ(q.inner, 25);
  const Graph red{{x}, {sum(x, {0, 2, 3})}};
  const TileProgram r = GraphRun(red, {true, true}).program(0);
  EXPECT_EQ(r.inner, 3);
  EXPECT_EQ(r.instrs.back().kind, TileInstr::Kind::kColReduce);
  const TileProgram s = GraphRun(red, {true, false}).program(0);
  EXPECT_EQ(s.keep, 1);
  EXPECT_EQ(s.inner, 25);
  EXPECT_EQ(s.instrs.back().kind, TileInstr::Kind::kAllReduce);
}

TEST(Fuse, EveryAxisSubsetReducesRight) {
  NoGrad guard;
  const Shape shape{2, 3, 4, 5};
  std::mt19937 rng(5);
  for (int mask = 1; mask < 16; ++mask)
    for (bool keep : {true, false}) {
      Ints axes;
      for (int a = 0; a < 4; ++a)
        if (mask >> a & 1) axes.push_back(a);
      const Value x = in(shape, 0);
      const Graph g{{x}, {sum(x, axes, keep)}};
      std::vector<double> v(numel(shape)), want;
      for (double& e : v) e = static_cast<double>(rng() % 64);  // exact in any order
      std::map<int64_t, double> sums;
      for (int64_t k = 0; k < 120; ++k) {
        const int64_t idx[4] = {k / 60, k / 20 % 3, k / 5 % 4, k % 5};
        int64_t key = 0;
        for (int a = 0; a < 4; ++a)
          if (!(mask >> a & 1)) key = key * shape[a] + idx[a];
        sums[key] += v[k];
      }
      for (auto& [k, s] : sums) want.push_back(s);
      EXPECT_EQ(evaluate(g, {v}, {true, false})[0], want) << mask;
      EXPECT_EQ(evaluate(g, {v}, {true, true})[0], want) << mask << " channels last";
    }
}

TEST(Fuse, LongRowsAccumulatePieceByPiece) {
  NoGrad guard;
  const Value x = in({2, 10000}, 0);
  const Graph g{{x}, {sum(x, {1})}};
  const TileProgram p = GraphRun(g, {}).program(0);
  EXPECT_FALSE(p.needs_whole_rows);
  EXPECT_EQ(p.keep, 1);
  EXPECT_EQ(p.inner, 10000);
}

TEST(Fuse, EmptyReductionsAreIdentities) {
  NoGrad guard;
  const Value x = in({3, 0, 2}, 0);
  EXPECT_EQ(evaluate({{x}, {sum(x, {1})}}, {{}})[0], std::vector<double>(6, 0.0));
  EXPECT_EQ(evaluate({{x}, {add(sum(x, {0}), sum(x, {0}))}}, {{}})[0], std::vector<double>());
  EXPECT_EQ(evaluate({{x}, {call("prod", {x})}}, {{}})[0], std::vector<double>(1, 1.0));
}

TEST(Fuse, PathThroughALibraryOpKeepsGroupsApart) {
  NoGrad guard;
  const Value x = in({4, 4}, 0);
  const Value a = exp(x), m = call("matmul", {a, a}),
              b = add(a, m);  // a -> m -> b: a and b may not share a group
  const Graph g{{x}, {b}};
  GraphRun run(g, {});
  EXPECT_EQ(run.groups.size(), 2u);
  check_bits(g);
}

TEST(Fuse, TwoBranchesMeetAfterALateLibraryOp) {
  NoGrad guard;
  const Value x = in({4, 4}, 0), w = in({4, 4}, 1);
  const Value main = exp(mul(x, w));  // may run late: its only reader is the sum
  const Value side = call("matmul", {x, w});
  const Graph g{{x, w}, {add(main, exp(side))}};
  EXPECT_EQ(groups_of(g), 1u);
  check_bits(g);
}

TEST(Fuse, HalfPrecisionRoundsAfterEveryOp) {
  NoGrad guard;
  const Value x = in({33}, 0, DType::kBFloat16), y = in({33}, 1, DType::kBFloat16);
  const Graph g{{x, y}, {mul(add(x, y), sub(x, y)), sum(mul(x, y), {0})}};
  check_bits(g, 1, 0.02);
}

TEST(Fuse, CastsAndComparesInOneGroup) {
  NoGrad guard;
  const Value x = in({5, 6}, 0), i = in({5, 6}, 1, DType::kInt32);
  const Value c = call("greater_than", {x, call("cast", {i}, {{"dtype", DType::kFloat32}})});
  const Value r = call("where", {c, x, call("cast", {i}, {{"dtype", DType::kFloat32}})});
  const Graph g{{x, i}, {r, c}};
  EXPECT_EQ(groups_of(g), 1u);
  std::mt19937 rng(9);
  const auto a = random_values(x, rng), b = random_values(i, rng);
  const auto out = evaluate(g, {a, b})[0];
  for (size_t k = 0; k < out.size(); ++k)
    EXPECT_EQ(out[k], static_cast<float>(a[k]) > b[k] ? static_cast<float>(a[k]) : b[k]);
  check_bits(g);
}

TEST(Fuse, OptimizerScalarsShareOneGroup) {
  NoGrad guard;
  std::vector<Value> ins, outs;
  for (int p = 0; p < 4; ++p) {
    ins.push_back(in({1}, p));
    outs.push_back(mul(ins.back(), ins.back()));
  }
  EXPECT_EQ(groups_of({ins, outs}), 1u);
}

// Random graphs: any shape of DAG must give the bits of the unfused run, in both layouts.
TEST(Fuse, RandomGraphs) {
  NoGrad guard;
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 rng(seed);
    auto pick = [&](size_t n) { return static_cast<size_t>(rng() % n); };
    const bool large = seed % 75 == 74;  // several chunks of the interpreter
    const Dim a0 = large ? 30 : 3, a1 = large ? 20 : 4, a2 = large ? 65 : 5;
    const std::vector<Shape> shapes = {{a0, a1, a2}, {a0, a1, a2}, {1, a1, 1}, {a2}, {}, {a0, 1, a2}};
    Graph g;
    std::vector<Value> pool;
    for (size_t i = 0; i < shapes.size(); ++i)
      g.inputs.push_back(in(shapes[i], static_cast<int64_t>(i))), pool.push_back(g.inputs.back());
    for (int k = 0; k < 30; ++k) {
      const Value a = pool[pick(pool.size())], b = pool[pick(pool.size())];
      Value r;
      switch (pick(8)) {
        case 0: r = call("tanh", {a}); break;
        case 1:
        case 2:
        case 3: {
          try {
            r = pick(2) ? add(a, b) : mul(a, b);
          } catch (const Error&) {
            continue;  // shapes do not broadcast
          }
          break;
        }
        case 4:
        case 5: {
          if (a.rank() == 0) continue;
          Ints axes;
          for (int64_t d = 0; d < a.rank(); ++d)
            if (pick(2)) axes.push_back(d);
          if (axes.empty()) axes.push_back(a.rank() - 1);
          r = pick(2) ? sum(a, axes, pick(2)) : max(a, axes, pick(2));
          break;
        }
        case 6: {
          if (a.rank() != 2) continue;
          r = call("transpose", {a}, {{"perm", Ints{1, 0}}});
          break;
        }
        default: r = call("where", {call("greater_than", {a, a}), a, a});
      }
      pool.push_back(r);
    }
    for (int k = 0; k < 4; ++k) g.outputs.push_back(pool[pool.size() - 1 - pick(pool.size() / 2)]);
    check_bits(g, seed, 1e-3);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace yuloh::testing
