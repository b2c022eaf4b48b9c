// SPDX-License-Identifier: Apache-2.0
// The core without Python: recording, gradients, flush, donation, failure, regions, long graphs.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "cpu/cpu.h"
#include "ops/fn.h"
#include "run/tensor.h"

namespace yuloh {
namespace {

class Core : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool once = (register_cpu(), true);
    (void)once;
  }
  static Value data(std::vector<float> v, Shape s = {}) {
    if (s.empty()) s = {static_cast<Dim>(v.size())};
    const TensorType t{DType::kFloat32, s};
    auto b = allocate_buffer(t);
    std::copy(v.begin(), v.end(), static_cast<float*>(b->data()));
    return make_data(t, b);
  }
  static std::vector<float> read(Tensor& t) {
    const Ref<Buffer> b = t.materialise();
    const Shape s = t.type().shape;
    std::vector<float> r;
    Ints at(s.size(), 0);
    for (int64_t k = 0, n = numel(s); k < n; ++k) {
      int64_t o = 0;
      for (uint32_t d = 0; d < at.size(); ++d) o += at[d] * b->strides[d];
      r.push_back(static_cast<float*>(b->data())[o]);
      for (int d = static_cast<int>(at.size()) - 1; d >= 0 && ++at[d] == s[d]; --d) at[d] = 0;
    }
    return r;
  }
  static std::vector<float> read(const Value& v) {
    auto t = make_ref<Tensor>(v);
    return read(*t);
  }
};
using Floats = std::vector<float>;

TEST_F(Core, RecordsThenRunsOnce) {
  const uint64_t before = run_stats().flushes;
  auto x = make_ref<Tensor>(data({1, 2, 3}));
  auto y = make_ref<Tensor>(exp(x->value()) * 2.0);
  EXPECT_EQ(run_stats().flushes, before);
  EXPECT_NEAR(read(*y)[1], 2 * std::exp(2.f), 1e-5);
  read(*y);
  EXPECT_EQ(run_stats().flushes, before + 1);
}

TEST_F(Core, GradientsAreGraphs) {
  auto x = make_ref<Tensor>(data({1, 2, 3}));
  x->set_stop_gradient(false);
  const Value v = x->value();
  make_ref<Tensor>(sum(v * v * v, {}, false))->backward({}, false);
  EXPECT_EQ(read(*x->grad), (Floats{3, 12, 27}));
  // Second order: d/dx of the sum of gradients.
  BackwardRequest r;
  r.outputs = {sum(v * v * v, {}, false)}, r.wanted = {v}, r.create_graph = true, r.leaves = false;
  const Value g = backward(r).wanted[0];
  BackwardRequest r2;
  r2.outputs = {sum(g, {}, false)}, r2.wanted = {v}, r2.leaves = false;
  EXPECT_EQ(read(backward(r2).wanted[0]), (Floats{6, 12, 18}));
}

TEST_F(Core, ViewsReadTheNewestVersionAndWriteThrough) {
  auto base = make_ref<Tensor>(data({0, 1, 2, 3, 4, 5}, {2, 3}));
  const Value v = reshape(base->value(), {3, 2});
  auto view = Tensor::view_of(base, *v.node->op, v.node->attrs, v);
  view->assign(view->value() * 10.0);
  EXPECT_EQ(read(*base), (Floats{0, 10, 20, 30, 40, 50}));
  base->assign(base->value() + 1.0);
  EXPECT_EQ(read(*view), (Floats{1, 11, 21, 31, 41, 51}));
}

TEST_F(Core, UpdatesDonateTheirBuffer) {
  auto p = make_ref<Tensor>(data(Floats(1 << 16, 1.f)));
  p->assign(p->value() * 2.0);
  p->materialise();
  const void* at = p->materialise()->data();
  const size_t before = memory_stats().allocated;
  p->assign(p->value() * 2.0);
  EXPECT_EQ(p->materialise()->data(), at);
  EXPECT_LE(memory_stats().allocated, before);
  auto held = make_ref<Tensor>(*p);  // another holder of the old value: no donation
  const Value old = p->value();
  p->assign(p->value() * 2.0);
  EXPECT_EQ(read(*p)[0], 8);
  EXPECT_EQ(static_cast<float*>(old.node->outputs[old.index].buffer->data())[0], 4);
}

TEST_F(Core, AFailingPlanLeavesEverythingAsItWas) {
  auto w = make_ref<Tensor>(data({1, 2, 3, 4}, {2, 2}));
  auto index = allocate_buffer({DType::kInt64, {1}});
  static_cast<int64_t*>(index->data())[0] = 7;
  const Value i = make_data({DType::kInt64, {1}}, index);
  auto out = make_ref<Tensor>(call("gather", {w->value(), i}));
  w->assign(w->value() + broadcast_to(sum(out->value(), {}, false), {2, 2}));
  EXPECT_THROW(w->materialise(), Error);
  EXPECT_EQ(read(*w), (Floats{1, 2, 3, 4}));
  EXPECT_THROW(out->materialise(), Error);
  w->assign(w->value() * 2.0);
  EXPECT_EQ(read(*w), (Floats{2, 4, 6, 8}));
}

TEST_F(Core, LoopRegionsRunTheirBody) {
  auto body = std::make_shared<Graph>();
  const TensorType t{DType::kFloat32, {2}};
  body->inputs = {make_input(t, 0), make_input(t, 1)};
  {
    NoGrad guard;
    body->outputs = {body->inputs[0] * 2.0 + body->inputs[1]};
  }
  Values out = call_all("loop", {data({1, 1}), data({0, 1})}, {{"n_carried", 1}, {"trips", 3}});
  out[0].node->make_extra().region = body;
  EXPECT_EQ(read(out[0]), (Floats{8, 15}));
}

TEST_F(Core, LoopRegionsAreHashedByStructure) {
  const TensorType t{DType::kFloat32, {2}};
  auto loop = [&](double scale) {
    auto body = std::make_shared<Graph>();
    NoGrad guard;
    body->inputs = {make_input(t, 0)};
    body->outputs = {body->inputs[0] * scale};
    Values out = call_all("loop", {data({1, 1})}, {{"n_carried", 1}, {"trips", 2}});
    out[0].node->make_extra().region = body;
    return read(out[0]);
  };
  EXPECT_EQ(loop(2.0), (Floats{4, 4}));
  const uint64_t plans = run_stats().plans;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(loop(3.0), (Floats{9, 9}));  // a freed body's address may come back
  EXPECT_EQ(run_stats().plans, plans + 1);
}

TEST_F(Core, AMillionOpsRecordRunAndDie) {
  auto t = make_ref<Tensor>(data({0}));
  Value v = t->value();
  for (int i = 0; i < 1000000; ++i) v = apply(get_op("relu"), {v}, {})[0];
  EXPECT_EQ(read(v)[0], 0);
  Value dead = t->value();
  for (int i = 0; i < 1000000; ++i) dead = apply(get_op("relu"), {dead}, {})[0];
}

TEST_F(Core, ThreadsShareTensors) {
  std::atomic<int> right{0};
  constexpr int kRounds = 300, kThreads = 4;
  for (int round = 0; round < kRounds; ++round) {
    auto x = make_ref<Tensor>(data({1, 2, 3, 4}));
    auto pending = make_ref<Tensor>(x->value() * 3.0);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int k = 0; k < kThreads; ++k)
      threads.emplace_back([&, k] {
        for (++ready; ready < kThreads;) continue;  // all at once
        const Value v = Tensor(*pending).value();
        auto y = make_ref<Tensor>(v + static_cast<double>(k));
        right += read(*y) == Floats{3.f + k, 6.f + k, 9.f + k, 12.f + k};
      });
    for (auto& t : threads) t.join();
  }
  EXPECT_EQ(right, kRounds * kThreads);
}

TEST_F(Core, ErrorsNameOpValuesAndExpectation) {
  try {
    call("add", {data({1, 2}), data({1, 2, 3})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("add: shapes do not broadcast, got [2] and [3]; expected"), std::string::npos)
        << e.message();
  }
  EXPECT_THROW(
      make_ref<Tensor>(
          call("full", {},
               {{"shape", Ints{1 << 30, 1 << 30, 1 << 30}}, {"value", 0.0}, {"dtype", DType::kFloat32}}))
          ->materialise(),
      Error);
}

}  // namespace
}  // namespace yuloh
