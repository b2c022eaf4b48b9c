// SPDX-License-Identifier: Apache-2.0
// Programs, sessions, our own model files and the C ABI.
#include "run/program.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

#include "cpu/cpu.h"
#include "formats/package.h"
#include "ops/fn.h"
#include "run/recording.h"
#include "run/traced.h"
#include "yuloh/yuloh.hpp"

namespace yuloh {
namespace {

Value floats(const Shape& s, float first, float step) {
  const TensorType t{DType::kFloat32, s};
  Ref<Buffer> b = allocate_buffer(t);
  for (int64_t i = 0; i < numel(s); ++i)
    static_cast<float*>(b->data())[i] = first + step * static_cast<float>(i);
  return make_data(t, b);
}
float first_of(const Ref<Buffer>& b) { return *static_cast<const float*>(b->data()); }

// y = x @ w + b with an open number of rows. On ones: 1 + 2 + ... so that the numbers are known.
struct Affine : Program {
  Value w = floats({3, 2}, 1, 1), b = floats({2}, -2, 0);
  mutable std::atomic<int> recorded{0};
  Affine() {
    inputs = {{"x", DType::kFloat32, {-1, 3}, {"n", ""}}};
    outputs = {{"y", DType::kFloat32, {-1, 2}, {}}};
  }
  Values record(const Values& in) const override {
    ++recorded;
    return {matmul(in[0], w) + b};
  }
};
// Reads what it is fed: cannot be recorded on placeholders.
struct Reader : Affine {
  Values record(const Values& in) const override {
    return {first_of(read_value(sum(in[0], {}, false))) > 0 ? in[0] : -in[0]};
  }
};

class Programs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { register_cpu(); }
};

TEST_F(Programs, RunsAndKeepsOnePlanPerShape) {
  auto p = std::make_shared<Affine>();
  Session s(p, {});
  for (int round = 0; round < 3; ++round)
    for (int64_t n : {1, 2, 5}) {
      std::vector<TensorType> out;
      const Value x = floats({n, 3}, 1, 0);
      const auto r = s.run({x.type()}, {x.node->outputs[0].buffer}, &out);
      ASSERT_EQ(out[0].shape, (Shape{n, 2}));
      EXPECT_EQ(first_of(r[0]), 7);  // 1 + 3 + 5 - 2
    }
  EXPECT_EQ(p->recorded, 3);
  EXPECT_EQ(s.clone()
                ->run({{DType::kFloat32, {1, 3}}}, {floats({1, 3}, 1, 0).node->outputs[0].buffer}, nullptr)
                .size(),
            1u);
  EXPECT_EQ(p->recorded, 3);
}

TEST_F(Programs, SaysWhatIsWrongWithInputs) {
  Session s(std::make_shared<Affine>(), {});
  auto message = [&](const TensorType& t) -> std::string {
    try {
      s.run({t}, {allocate_buffer(t)}, nullptr);
    } catch (const Error& e) { return e.message(); }
    return "";
  };
  EXPECT_NE(message({DType::kFloat64, {1, 3}}).find("`x` has the wrong dtype, got float64; expected float32"),
            std::string::npos);
  EXPECT_NE(message({DType::kFloat32, {1, 4}}).find("`x` has the wrong shape, got [1, 4]"),
            std::string::npos);
  EXPECT_NE(message({DType::kFloat32, {3}}).find("`x` has the wrong shape"), std::string::npos);
  EXPECT_EQ(message({DType::kFloat32, {0, 3}}), "");
}

TEST_F(Programs, RunsOnDataWhereTheProgramReadsIt) {
  Session s(std::make_shared<Reader>(), {});
  EXPECT_EQ(s.prepare({{DType::kFloat32, {1, 3}}}), nullptr);
  for (float v : {1.f, -1.f}) {
    const Value x = floats({1, 3}, v, 0);
    EXPECT_EQ(first_of(s.run({x.type()}, {x.node->outputs[0].buffer}, nullptr)[0]), 1);
  }
}

TEST_F(Programs, LimitIsCheckedBeforeAllocation) {
  SessionOptions o;
  o.memory_limit = 64 << 10;
  Session s(std::make_shared<Affine>(), o);
  const Value small = floats({8, 3}, 1, 0), large = floats({200000, 3}, 1, 0);
  EXPECT_EQ(first_of(s.run({small.type()}, {small.node->outputs[0].buffer}, nullptr)[0]), 7);
  const size_t before = memory_stats().max_allocated;
  try {
    s.run({large.type()}, {large.node->outputs[0].buffer}, nullptr);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kMemory);
    EXPECT_NE(e.message().find("memory limit"), std::string::npos);
  }
  EXPECT_LT(memory_stats().max_allocated, before + (1 << 20));
}

TEST_F(Programs, PlansLeaveTheCacheOldestFirst) {
  SessionOptions o;
  o.plan_cache_bytes = 100 << 10;
  auto p = std::make_shared<Affine>();
  Session s(p, o);
  for (int64_t n = 1; n <= 200; ++n) s.prepare({{DType::kFloat32, {n, 3}}});
  size_t plans = 0;
  for (const MemoryItem& i : s.memory_report())
    if (i.what == "plans") plans = i.bytes;
  EXPECT_LE(plans, o.plan_cache_bytes);
  const int now = p->recorded;
  s.prepare({{DType::kFloat32, {200, 3}}});
  EXPECT_EQ(p->recorded, now);
  s.prepare({{DType::kFloat32, {1, 3}}});
  EXPECT_EQ(p->recorded, now + 1);
}

TEST_F(Programs, ThreadsWithDifferentShapesGetTheirOwnAnswers) {
  Session s(std::make_shared<Affine>(), {});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      auto mine = s.clone();
      for (int k = 0; k < 40; ++k) {
        const int64_t n = 1 + (t * 7 + k) % 13;
        const Value x = floats({n, 3}, static_cast<float>(t), 0);
        std::vector<TensorType> out;
        const auto r = mine->run({x.type()}, {x.node->outputs[0].buffer}, &out);
        wrong += !(out[0].shape == Shape{n, 2}) || first_of(r[0]) != static_cast<float>(t) * 9 - 2;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// conv + batch norm as recorded, folded, and in bf16.
struct ConvNorm : Program {
  Value w = floats({4, 3, 3, 3}, -0.5f, 0.01f), mean = floats({4}, 0.1f, 0.1f),
        variance = floats({4}, 0.5f, 0.25f), gamma = floats({4}, 1, 0.5f), beta = floats({4}, -1, 0.5f),
        bias = floats({1, 4, 1, 1}, 0.5f, -0.25f);
  bool twice = false;
  ConvNorm() {
    inputs = {{"x", DType::kFloat32, {-1, 3, -1, -1}, {}}};
    outputs = {{"y", DType::kFloat32, {-1, 4, -1, -1}, {}}};
  }
  Values record(const Values& in) const override {
    const Value c = call("conv", {in[0], w},
                         {{"stride", Ints{1, 1}}, {"padding", Ints{1, 1, 1, 1}}, {"dilation", Ints{1, 1}}});
    const Value y = call("batch_norm_infer", {c + bias, mean, variance, gamma, beta});
    return {twice ? y + c : y};
  }
};
TEST_F(Programs, BatchNormFoldsIntoTheConvolution) {
  for (bool twice : {false, true}) {
    auto p = std::make_shared<ConvNorm>();
    p->twice = twice;
    SessionOptions plain, folded, half;
    plain.fold_weights = false;
    half.precision = DType::kBFloat16;
    const Value x = floats({2, 3, 6, 5}, -1, 0.01f);
    auto run = [&](const SessionOptions& o) {
      return Session(p, o).run({x.type()}, {x.node->outputs[0].buffer}, nullptr)[0];
    };
    const auto a = run(plain), b = run(folded), c = run(half);
    double worst = 0, worst_half = 0, differs = 0;
    for (int i = 0; i < 2 * 4 * 6 * 5; ++i) {
      const double v = static_cast<float*>(a->data())[i];
      worst = std::max(worst, std::abs(v - static_cast<float*>(b->data())[i]));
      worst_half = std::max(worst_half, std::abs(v - static_cast<float*>(c->data())[i]));
      differs += v != static_cast<float*>(c->data())[i];
    }
    EXPECT_LT(worst, 2e-5);
    EXPECT_LT(worst_half, 0.2);
    EXPECT_GT(differs, 0);
    const auto steps = [&](const SessionOptions& o) { return Session(p, o).prepare({x.type()})->dump(); };
    EXPECT_NE(steps(plain).find("norm_affine"), std::string::npos);
    EXPECT_EQ(steps(folded).find("norm_affine") == std::string::npos, !twice);  // read twice: it stays
  }
}

// ---- traces ----
std::shared_ptr<TracedProgram> traced_affine() {
  const Value w = floats({3, 2}, 1, 1), b = floats({2}, -2, 0);
  auto trace = [&](int64_t n) {
    const Recording recording(true);
    const NoGrad guard;
    const Value x = make_input({DType::kFloat32, {n, 3}}, 0);
    const Value y = reshape(matmul(x, w) + b, {1, n * 2});
    Trace t = take_trace(recording, {x}, {reshape(y, {n, 2})}, {{"w", "linear.w_0", true, true, w}});
    t.sizes = {n};
    return t;
  };
  return generalise({trace(3), trace(4)}, {trace(6), trace(7)}, {{"x", DType::kFloat32, {-1, 3}, {"n", ""}}},
                    {"y"}, {"n"});
}
TEST_F(Programs, OpenSizesBecomeExpressions) {
  const auto p = traced_affine();
  EXPECT_EQ(p->outputs[0].dims, (std::vector<int64_t>{-1, 2}));
  int open = 0;
  for (const TracedNode& n : p->nodes)
    for (const auto& [word, e] : n.open)
      EXPECT_TRUE(e.text({"n"}) == "n" || e.text({"n"}) == "2*n") << ++open;
  Session s(p, {});
  for (int64_t n : {1, 2, 10}) {
    const Value x = floats({n, 3}, 1, 0);
    EXPECT_EQ(first_of(s.run({x.type()}, {x.node->outputs[0].buffer}, nullptr)[0]), 7);
  }
}
TEST_F(Programs, ReadingAPlaceholderIsRefusedAndStateComesBack) {
  auto cell = make_ref<Cell>(floats({2}, 3, 0));
  {
    const Recording recording(true);
    const Value x = make_input({DType::kFloat32, {2}}, 0);
    EXPECT_THROW(read_value(x + cell->value()), NeedsData);
    EXPECT_EQ(first_of(read_value(cell->value() + cell->value())), 6);
    cell->set(x + cell->value());
    EXPECT_EQ(recording.written().size(), 1u);
  }
  EXPECT_EQ(first_of(read_value(cell->value())), 3);
}

// ---- files ----
std::string file_bytes(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}
TEST_F(Programs, FilesComeBackAndDamageIsRefused) {
  const std::string path = ::testing::TempDir() + "program_test.yuloh", bad = path + ".bad";
  const auto p = traced_affine();
  p->warm = {{{DType::kFloat32, {1, 3}}}};
  formats::write_package(*p, path);
  const auto q = formats::read_package(path).traced;
  EXPECT_EQ(q->nodes.size(), p->nodes.size());
  EXPECT_EQ(q->warm, p->warm);
  bool named = false;
  for (const TracedWeight& w : q->weights)
    named = named || (w.name == "w" && w.parameter == "linear.w_0" && w.trainable);
  EXPECT_TRUE(named);
  const Value x = floats({2, 3}, 1, 0);
  EXPECT_EQ(first_of(Session(q, {}).run({x.type()}, {x.node->outputs[0].buffer}, nullptr)[0]), 7);
  const std::string whole = file_bytes(path);
  auto refused = [&](const std::string& bytes) {
    std::ofstream(bad, std::ios::binary | std::ios::trunc) << bytes;
    try {
      formats::read_package(bad);
    } catch (const Error&) { return true; }
    return false;
  };
  for (size_t cut : {size_t{0}, size_t{7}, size_t{39}, whole.size() / 2, whole.size() - 1})
    EXPECT_TRUE(refused(whole.substr(0, cut))) << cut;
  EXPECT_TRUE(refused(whole + "x"));
  size_t survived = 0;  // no byte goes unverified
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x41);
    survived += !refused(flipped);
  }
  EXPECT_EQ(survived, 0u);
  std::remove(path.c_str()), std::remove(bad.c_str());
}
}  // namespace
}  // namespace yuloh

// ---- the C ABI ----
namespace {
TEST(Capi, WritesTheModelOfTheExample) {
  yuloh::register_cpu();
  yuloh::formats::write_package(*yuloh::traced_affine(), "capi_example.yuloh");
}
TEST(Capi, RunsAModelAndReportsErrors) {
  yuloh::register_cpu();
  const std::string path = ::testing::TempDir() + "capi_test.yuloh";
  yuloh::formats::write_package(*yuloh::traced_affine(), path);
  yuloh_api::Config config;
  config.set("precision", "float32").set("memory_limit", "100000000");
  EXPECT_THROW(config.set("precision", "int3"), yuloh_api::Error);
  EXPECT_THROW(config.set("no such key", "1"), yuloh_api::Error);
  yuloh_api::Predictor p(path, "", config);
  EXPECT_EQ(p.input_names(), std::vector<std::string>{"x"});
  EXPECT_EQ(p.output_names(), std::vector<std::string>{"y"});
  std::vector<float> x(6, 1.0f);
  const yuloh_api::Outputs out = p.clone().run({yuloh_api::tensor({2, 3}, x.data())});
  EXPECT_EQ(static_cast<const float*>(out[0].data)[0], 7);
  EXPECT_EQ(out[0].dims[0], 2);
  EXPECT_GT(p.memory("weights") + p.memory("mapped"), 0u);
  // Each call looks at the process anew, so that a page may come or go between two of them.
  EXPECT_NEAR(double(p.memory("weights") + p.memory("plans") + p.memory("slack") + p.memory("other")),
              double(p.memory("process")), 1 << 20);
  EXPECT_EQ(p.memory("limit"), 100000000u);
  EXPECT_EQ(p.input_type(0).dims[0], -1);
  std::vector<double> d(6, 1.0);
  try {
    p.run({yuloh_api::tensor(YULOH_FLOAT64, {2, 3}, d.data())});
    FAIL();
  } catch (const yuloh_api::Error& e) {
    EXPECT_EQ(e.status, YULOH_WRONG_TYPE);
    EXPECT_NE(std::string(e.what()).find("wrong dtype"), std::string::npos);
  }
  EXPECT_THROW(p.run({}), yuloh_api::Error);
  EXPECT_THROW(yuloh_api::Predictor("/no/such/file"), yuloh_api::Error);
  EXPECT_EQ(yuloh_predictor_run(nullptr, nullptr, 0, nullptr), YULOH_INVALID);
  std::remove(path.c_str());
}
TEST(Capi, HostileRequestsGetAStatusAndASentence) {
  yuloh::register_cpu();
  const std::string path = ::testing::TempDir() + "capi_hostile.yuloh";
  yuloh::formats::write_package(*yuloh::traced_affine(), path);
  yuloh_api::Predictor made(path);
  yuloh_predictor* p = nullptr;
  ASSERT_EQ(yuloh_predictor_create(path.c_str(), nullptr, nullptr, &p), YULOH_OK);
  std::vector<float> x(6, 1.0f);
  const yuloh_tensor good = yuloh_api::tensor({2, 3}, x.data());
  auto with = [&](auto change) {
    yuloh_tensor t = good;
    change(t);
    yuloh_outputs* o = nullptr;
    const yuloh_status s = yuloh_predictor_run(p, &t, 1, &o);
    if (s == YULOH_OK) yuloh_outputs_destroy(o);
    else EXPECT_GT(std::string(yuloh_error()).size(), 10u);
    return s;
  };
  EXPECT_EQ(with([](yuloh_tensor& t) { t.dtype = YULOH_INT64; }), YULOH_WRONG_TYPE);
  EXPECT_EQ(with([](yuloh_tensor& t) { t.dtype = 99; }), YULOH_WRONG_TYPE);
  EXPECT_EQ(with([](yuloh_tensor& t) { t.rank = 1; }), YULOH_INVALID);
  EXPECT_EQ(with([](yuloh_tensor& t) { t.rank = -1; }), YULOH_INVALID);
  EXPECT_EQ(with([](yuloh_tensor& t) { t.rank = YULOH_MAX_RANK + 1; }), YULOH_INVALID);
  EXPECT_EQ(with([](yuloh_tensor& t) { t.dims[1] = 4; }), YULOH_INVALID);
  EXPECT_EQ(with([](yuloh_tensor& t) { t.dims[0] = -5; }), YULOH_INVALID);
  EXPECT_EQ(with([](yuloh_tensor& t) { t.dims[0] = INT64_MAX / 2; }), YULOH_INVALID);  // overflows
  EXPECT_EQ(with([](yuloh_tensor& t) { t.dims[0] = int64_t{1} << 44; }), YULOH_MEMORY);
  EXPECT_EQ(with([](yuloh_tensor& t) { t.data = nullptr; }), YULOH_INVALID);  // never set
  EXPECT_EQ(with([](yuloh_tensor& t) { t.dims[0] = 0, t.data = nullptr; }), YULOH_OK);
  EXPECT_EQ(with([&](yuloh_tensor&) { x[1] = NAN; }), YULOH_OK);
  yuloh_outputs* o = nullptr;
  EXPECT_EQ(yuloh_predictor_run(p, nullptr, 1, &o), YULOH_INVALID);
  EXPECT_EQ(yuloh_predictor_run(p, &good, -1, &o), YULOH_INVALID);
  EXPECT_EQ(yuloh_predictor_run(p, &good, 1, nullptr), YULOH_INVALID);
  yuloh_tensor t;
  EXPECT_EQ(yuloh_outputs_count(nullptr), 0);  // outputs read before a run
  EXPECT_EQ(yuloh_outputs_get(nullptr, 0, &t), YULOH_INVALID);
  ASSERT_EQ(yuloh_predictor_run(p, &good, 1, &o), YULOH_OK);
  EXPECT_EQ(yuloh_outputs_get(o, 1, &t), YULOH_INVALID);
  EXPECT_EQ(yuloh_outputs_get(o, -1, &t), YULOH_INVALID);
  yuloh_outputs_destroy(o);
  yuloh_outputs_destroy(nullptr), yuloh_predictor_destroy(nullptr), yuloh_config_destroy(nullptr);
  yuloh_predictor_destroy(p);
  yuloh_api::Config config;
  for (auto [key, value] : {std::pair{"keep_precision", "no_such_op"},
                            {"threads", "-1"},
                            {"memory_limit", "many"},
                            {"fusion", "yes"}})
    EXPECT_THROW(config.set(key, value), yuloh_api::Error) << key;
  config.set("memory_limit", "100");
  EXPECT_THROW(yuloh_api::Predictor(path, "", config).run({good}), yuloh_api::Error);
  std::remove(path.c_str());
}
}  // namespace
