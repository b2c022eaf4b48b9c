// SPDX-License-Identifier: Apache-2.0
// Passes: every rewrite rule on its samples (types, values with 0, inf and NaN, cost, fires), expansion, CSE,
// identities, and the time a training-step-sized graph takes.
#include "passes/passes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>

#include "graph_reference.h"
#include "passes/pattern.h"

namespace yuloh::testing {
namespace {

Value in(Shape s, int64_t number, DType t = DType::kFloat32) { return make_input({t, std::move(s)}, number); }

double cost_of(const Graph& g) {  // nodes and elements moved; views move nothing
  double c = 0;
  for (const Node* n : topological(g.outputs)) {
    if (n->kind != Node::Kind::kOp) continue;
    c += 1;
    if (n->op->view) continue;
    for (const Value& v : n->inputs) c += static_cast<double>(numel(v.shape()));
    for (const auto& o : n->outputs) c += static_cast<double>(numel(o.type.shape));
  }
  return c;
}
std::vector<double> tricky_values(const Value& v, bool tame, int64_t below, std::mt19937& rng) {
  static const double special[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 1e-30, -3e38, 0.5};
  std::normal_distribution<double> d(0, 2);
  std::vector<double> r(numel(v.shape()));
  for (double& x : r) {
    x = tame ? std::fabs(d(rng)) + 0.1 : rng() % 3 ? d(rng) : special[rng() % std::size(special)];
    if (!is_integral(v.dtype())) continue;
    x = static_cast<double>(rng() % (below ? below : 100)) - (below ? 0 : 50);
    if (v.dtype() == DType::kBool) x = static_cast<double>(rng() & 1);
  }
  return r;
}
bool agree(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= 2e-6 * std::max(std::fabs(a), std::fabs(b));
}
std::vector<std::vector<double>> value_of(const Graph& g, const std::vector<std::vector<double>>& inputs) {
  PassOptions expand_only;
  expand_only.rules = false;
  return evaluate(run_passes(g, expand_only), inputs);
}

TEST(Rules, EachIsSoundCheaperAndFires) {
  NoGrad guard;
  std::mt19937 rng(11);
  for (const Rule& r : rules()) {
    ASSERT_FALSE(r.samples.empty()) << r.name;
    for (const RuleSample& s : r.samples) {
      Graph g;
      Bindings b;
      for (auto& [name, type] : s.values) {
        if (const auto it =
                std::find_if(s.made.begin(), s.made.end(), [&](auto& m) { return m.first == name; });
            it != s.made.end()) {
          b.values.emplace_back(name, it->second(type, b));
          continue;
        }
        g.inputs.push_back(make_input(type, static_cast<int64_t>(g.inputs.size())));
        b.values.emplace_back(name, g.inputs.back());
      }
      for (auto& [name, value] : s.attrs) b.set(name, value);
      g.outputs = {build(r.from, b, s.values[0].second.dtype)};
      std::vector<std::string> log;
      PassOptions o;
      o.fast_math = r.fast_math;
      o.explain = &log;
      o.keep_named = [&](const Node& n) {
        return r.to->kind == Pattern::Kind::kOp && n.op->name == r.to->name;
      };
      const Graph after = run_passes(g, o);
      bool fired = false;
      for (const std::string& line : log) fired |= line.rfind(std::string(r.name) + ":", 0) == 0;
      EXPECT_TRUE(fired) << r.name << "\n" << to_string(g);
      EXPECT_EQ(after.outputs[0].type(), g.outputs[0].type()) << r.name;
      if (!r.normal_form) { EXPECT_LT(cost_of(after), cost_of(g)) << r.name; }
      for (int trial = 0; trial < 8; ++trial) {
        std::vector<std::vector<double>> inputs;
        for (const Value& v : g.inputs)
          inputs.push_back(tricky_values(v, r.fast_math || r.reorders, s.below, rng));
        const auto want = value_of(g, inputs)[0], have = value_of(after, inputs)[0];
        for (size_t k = 0; k < want.size(); ++k)
          EXPECT_TRUE(agree(want[k], have[k])) << r.name << ": " << want[k] << " became " << have[k];
      }
    }
  }
}

TEST(Rules, NamesAreUnique) {
  std::vector<std::string> names;
  for (const Rule& r : rules()) names.push_back(r.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Rules, SoftmaxOfTwoAxesOrOtherAxisDoesNotMatch) {
  NoGrad guard;
  const Value x = in({3, 3}, 0);
  auto keep = [](const char* name, const Value& v, Ints axes) {
    return call(name, {v}, {{"axis", axes}, {"keepdim", true}});
  };
  const Value e = call("exp", {call("subtract", {x, keep("max", x, {0})})});
  const Graph g{{x}, {call("divide", {e, keep("sum", e, {1})})}};
  PassOptions o;
  o.keep_named = [](const Node&) { return true; };
  const Graph r = run_passes(g, o);
  for (const Node* n : topological(r.outputs)) EXPECT_NE(op_name(*n), "softmax");
}

TEST(Passes, EqualNodesAreOneRandomOnesAreNot) {
  NoGrad guard;
  const Value x = in({4}, 0);
  const Graph g{{x}, {call("add", {call("exp", {x}), call("exp", {x})})}};
  const Graph r = run_passes(g, {});
  EXPECT_EQ(r.outputs[0].node->inputs[0], r.outputs[0].node->inputs[1]);
  const Value u = call("uniform01", {}, {{"shape", Ints{4}}, {"dtype", DType::kFloat32}});
  const Value w(with_inputs(*u.node, u.node->inputs), 0);  // the same seed and offset, recorded twice
  const Graph h = run_passes({{}, {u, w}}, {});
  EXPECT_FALSE(h.outputs[0] == h.outputs[1]);
}

TEST(Passes, CompositesExpandUnlessKept) {
  NoGrad guard;
  const Value x = in({4, 5}, 0);
  const Graph g{{x}, {call("softmax", {x}, {{"axis", -1}})}};
  const Graph r = run_passes(g, {});
  for (const Node* n : topological(r.outputs)) EXPECT_TRUE(n->kind != Node::Kind::kOp || !n->op->expand);
  PassOptions keep;
  keep.keep_named = [](const Node& n) { return n.op->name == "softmax"; };
  const Graph kept = run_passes(g, keep);
  EXPECT_EQ(op_name(*kept.outputs[0].node), "softmax");
}

TEST(Passes, IdentitiesVanish) {
  NoGrad guard;
  const Value x = in({4, 5}, 0), b = in({5}, 1);
  const Value same =
      call("view_as_shape", {call("view_as_shape", {x}, {{"shape", Ints{20}}})}, {{"shape", Ints{4, 5}}});
  const Value cast = call("cast", {same}, {{"dtype", DType::kFloat32}});
  EXPECT_EQ(run_passes({{x}, {cast}}, {}).outputs[0], x);
  const Value wide = call("broadcast_to", {b}, {{"shape", Ints{4, 5}}});
  const Graph r = run_passes({{x, b}, {call("add", {x, wide})}}, {});
  EXPECT_EQ(r.outputs[0].node->inputs[1], b);
  const Value y = in({4, 1}, 0);
  EXPECT_EQ(run_passes({{y}, {call("sum", {y}, {{"axis", Ints{1}}, {"keepdim", true}})}}, {}).outputs[0], y);
}

TEST(Passes, OrderOfRecordingIsKept) {
  NoGrad guard;
  const Value x = in({4}, 0);
  Graph g{{x}, {}};
  const char* names[] = {"exp", "sin", "cos", "tanh"};
  for (const char* n : names) g.outputs.push_back(call(n, {x}));
  size_t k = 0;
  const Graph r = run_passes(g, {});
  for (const Node* n : topological(r.outputs))
    if (n->kind == Node::Kind::kOp) { EXPECT_EQ(op_name(*n), names[k++]); }
}

// About the size and mixture of a ResNet-50 training step.
Graph step_sized_graph() {
  const Value x = in({8, 16, 4, 4}, 0), w = in({1, 16, 1, 1}, 1);
  Graph g{{x, w}, {}};
  Value h = x;
  for (int layer = 0; layer < 250; ++layer) {
    const Value m = call("mean", {h}, {{"axis", Ints{0, 2, 3}}, {"keepdim", true}});
    const Value d = call("subtract", {h, m});
    const Value v = call("mean", {call("square", {d})}, {{"axis", Ints{0, 2, 3}}, {"keepdim", true}});
    const Value y = call("multiply", {call("multiply", {d, call("rsqrt", {v})}), w});
    const Value r = call("relu", {call("add", {y, h})});
    h = call("view_as_shape", {call("view_as_shape", {r}, {{"shape", Ints{8, 256}}})},
             {{"shape", Ints{8, 16, 4, 4}}});
    if (layer % 3 == 0) h = call("softmax", {h}, {{"axis", -1}});
  }
  g.outputs = {h};
  return g;
}

TEST(Passes, StepSizedGraphIsQuick) {
  NoGrad guard;
  const Graph g = step_sized_graph();
  using Clock = std::chrono::steady_clock;
  auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  double best = 1e9, best_fuse = 1e9;
  size_t nodes = 0, groups = 0;
  for (int k = 0; k < 3; ++k) {
    const auto t0 = Clock::now();
    const Graph r = run_passes(g, {});
    const auto t1 = Clock::now();
    const auto order = topological(r.outputs);
    std::map<const Node*, Ints> strides;
    for (const Node* n : order) strides[n] = row_major_strides(n->outputs[0].type.shape);
    FuseContext ctx;
    ctx.strides = [&](const Value& v) -> const Ints& { return strides.at(v.node.get()); };
    ctx.needed_outside = [&](const Value& v) { return v == r.outputs[0]; };
    const auto t2 = Clock::now();
    const auto list = fuse(order, ctx);
    for (const TileGroup& group : list) verify(lower(group, ctx));
    const auto t3 = Clock::now();
    best = std::min(best, ms(t1 - t0)), best_fuse = std::min(best_fuse, ms(t3 - t2));
    nodes = order.size(), groups = list.size();
  }
  std::printf("passes %.1f ms, fuse and lower %.1f ms: %zu nodes, %zu groups\n", best, best_fuse, nodes,
              groups);
  EXPECT_LT(best, 100);  // generous: a debug or sanitizer build on a busy machine
  EXPECT_LT(best_fuse, 200);
}

TEST(Passes, LongChainsDoNotRecurse) {
  NoGrad guard;
  const Value x = in({2}, 0);
  Value h = x;
  for (int k = 0; k < 100000; ++k) h = call("tanh", {h});
  const Graph r = run_passes({{x}, {h}}, {});
  EXPECT_EQ(topological(r.outputs).size(), 100001u);
}

}  // namespace
}  // namespace yuloh::testing
