// SPDX-License-Identifier: Apache-2.0
// Library convolution, matmul and our pooling and moments kernels against the reference loops.
#include "kernel_check.h"

namespace yuloh::test {
namespace {

struct ConvCase {
  Shape x, weight;
  Ints stride, padding, dilation;
  int64_t groups;
};
const ConvCase kConvs[] = {
    {{2, 3, 9, 8}, {8, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {{2, 1, 12, 12}, {6, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {{2, 16, 7, 7}, {32, 16, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
    {{1, 3, 20, 21}, {16, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}, 1},
    {{2, 16, 8, 8}, {16, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 16},
    {{2, 8, 8, 8}, {12, 4, 3, 3}, {1, 2}, {2, 1, 0, 1}, {2, 1}, 2},
    {{3, 4, 15}, {5, 4, 3}, {2}, {1, 0}, {1}, 1},
    {{1, 2, 5, 6, 7}, {4, 2, 2, 3, 2}, {1, 2, 1}, {0, 1, 1, 1, 0, 0}, {1, 1, 2}, 1},
    {{4, 32, 1, 1}, {16, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {{4, 16, 2, 2}, {16, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {{4, 16, 2, 2}, {16, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
};

Value conv_of(const ConvCase& c, DType t, int role) {
  const Value x = make_input({t, c.x}, 0), w = make_input({t, c.weight}, 1);
  const Value y =
      call("conv", {x, w},
           {{"stride", c.stride}, {"padding", c.padding}, {"dilation", c.dilation}, {"groups", c.groups}});
  if (role == 0) return y;
  const Value g = make_input(y.type(), 2);
  if (role == 1)
    return call("conv_grad_input", {g, w},
                {{"input_size", Ints(c.x.begin() + 2, c.x.end())},
                 {"stride", c.stride},
                 {"padding", c.padding},
                 {"dilation", c.dilation},
                 {"groups", c.groups}});
  return call("conv_grad_weight", {x, g},
              {{"kernel_size", Ints(c.weight.begin() + 2, c.weight.end())},
               {"stride", c.stride},
               {"padding", c.padding},
               {"dilation", c.dilation},
               {"groups", c.groups}});
}

double best_error(const Value& v, const std::vector<Ints>& strides, std::string_view name) {
  Case c(v, strides);
  std::string why;
  const double e = candidate_error(name, c, &why);
  EXPECT_GE(e, 0) << v.node->op->name << " refused: " << why;
  return e;
}

TEST(OneDnn, ConvAgreesWithReference) {
  for (const ConvCase& c : kConvs)
    for (const DType t : {DType::kFloat32, DType::kBFloat16})
      for (int role = 0; role < 3; ++role) {
        const Value v = conv_of(c, t, role);
        std::vector<Ints> strides;
        for (const Value& in : v.node->inputs) strides.push_back(channels_last_strides(in.shape()));
        if (role < 2) strides[1] = {};  // weights row-major
        EXPECT_LT(best_error(v, strides, "onednn"), t == DType::kFloat32 ? 2e-6 : 8e-3)
            << to_string(c.x) << to_string(c.weight) << " role " << role << " " << dtype_name(t);
      }
}

// A kernel's error on every case that it takes, for all three roles; returns how many ran.
int check_conv_candidate(std::string_view name, std::initializer_list<ConvCase> cases) {
  int ran = 0;
  for (const ConvCase& c : cases)
    for (const DType t : {DType::kFloat32, DType::kBFloat16})
      for (int role = 0; role < 3; ++role) {
        const Value v = conv_of(c, t, role);
        std::vector<Ints> strides;
        for (const Value& in : v.node->inputs) strides.push_back(channels_last_strides(in.shape()));
        if (role < 2) strides[1] = {};
        Case k(v, strides);
        const double e = candidate_error(name, k);
        EXPECT_LT(e, t == DType::kFloat32 ? 2e-6 : 1.6e-2)
            << to_string(c.x) << to_string(c.weight) << " role " << role;
        ran += e >= 0;
      }
  return ran;
}

TEST(ConvProduct, AgreesWithReference) {
  EXPECT_EQ(check_conv_candidate("conv1x1", {{{2, 16, 7, 7}, {32, 16, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
                                             {{2, 16, 7, 6}, {32, 16, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
                                             {{3, 4, 9}, {5, 4, 1}, {3}, {0, 0}, {1}, 1},
                                             {{3, 4, 3}, {5, 4, 1}, {1}, {1, 0}, {1}, 1}}),
            18);  // the last one has padding
  EXPECT_EQ(
      check_conv_candidate("conv_dense", {{{4, 32, 1, 1}, {16, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
                                          {{4, 8, 2, 2}, {16, 8, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
                                          {{4, 8, 2, 2}, {20, 8, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
                                          {{4, 8, 2, 3}, {16, 8, 3, 3}, {2, 2}, {2, 0, 0, 3}, {1, 2}, 1},
                                          {{4, 8, 9, 9}, {16, 8, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1}}),
      24);  // the last one is large
  EXPECT_EQ(
      check_conv_candidate("conv_rows",
                           {{{4, 32, 4, 4}, {24, 32, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
                            {{3, 17, 5, 6}, {20, 17, 3, 2}, {4, 3}, {2, 0, 0, 1}, {1, 2}, 1},
                            {{2, 16, 5}, {8, 16, 2}, {2}, {0, 0}, {1}, 1},
                            {{2, 16, 2, 3, 3}, {8, 16, 2, 2, 2}, {1, 1, 2}, {0, 0, 0, 0, 1, 0}, {1, 1, 1}, 1},
                            {{5, 16, 4, 4}, {16, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1}}),
      25);  // the last one: only the weight gradient in bf16
}

TEST(ConvNarrow, InputGradientAgreesWithReference) {
  int ran = 0;  // how many it takes depends on the width of the registers
  for (const ConvCase& c : {ConvCase{{3, 6, 14, 14}, {16, 6, 5, 5}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
                            ConvCase{{2, 2, 9, 7}, {8, 2, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
                            ConvCase{{2, 1, 6, 40}, {5, 1, 4, 5}, {1, 1}, {2, 0, 1, 3}, {1, 1}, 1},
                            ConvCase{{2, 5, 30}, {7, 5, 3}, {1}, {0, 1}, {1}, 1},
                            ConvCase{{1, 1, 2, 3}, {4, 1, 2, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
                            ConvCase{{2, 3, 9, 7}, {8, 3, 3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}, 1}}) {
    const Value v = conv_of(c, DType::kFloat32, 1);
    Case k(v, {channels_last_strides(v.node->inputs[0].shape()), {}});
    const double e = candidate_error("conv_narrow", k);
    EXPECT_LT(e, 2e-6) << to_string(c.x) << to_string(c.weight);
    ran += e >= 0;
  }
  EXPECT_GE(ran, 2);
}

TEST(Depthwise, WeightGradientAgreesWithReference) {
  for (const ConvCase& c :
       {ConvCase{{3, 70, 9, 8}, {70, 1, 5, 5}, {2, 1}, {2, 2, 1, 2}, {1, 2}, 70},
        ConvCase{{4, 16, 1, 1}, {16, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 16},
        ConvCase{{40, 96, 2, 2}, {96, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 96},
        ConvCase{{17, 144, 2, 2}, {144, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 144},
        ConvCase{{1, 20, 3, 17}, {20, 1, 1, 4}, {1, 3}, {0, 0, 6, 2}, {1, 2}, 20},
        ConvCase{{2, 9, 11}, {9, 1, 3}, {1}, {0, 1}, {1}, 9},
        ConvCase{{2, 33, 3, 4, 5}, {33, 1, 2, 3, 2}, {1, 2, 1}, {0, 1, 1, 1, 1, 0}, {1, 1, 2}, 33}})
    for (const DType t : {DType::kFloat32, DType::kBFloat16}) {
      const Value v = conv_of(c, t, 2);
      const std::vector<Ints> strides{channels_last_strides(v.node->inputs[0].shape()),
                                      channels_last_strides(v.node->inputs[1].shape())};
      EXPECT_LT(best_error(v, strides, "depthwise"), t == DType::kFloat32 ? 2e-6 : 8e-3) << to_string(c.x);
    }
}

TEST(OneDnn, ConvRefusesWithReason) {
  const Value v = conv_of(kConvs[0], DType::kFloat64, 0);
  Case c(v, {channels_last_strides(kConvs[0].x)});
  std::string why;
  EXPECT_LT(candidate_error("onednn", c, &why), 0);
  EXPECT_EQ(why, "dtype float64");
}

struct MatmulCase {
  Shape x, y;
  bool tx, ty;
  std::vector<Ints> strides;
};
const MatmulCase kMatmuls[] = {
    {{4, 7}, {7, 5}, false, false, {}},
    {{7, 4}, {7, 5}, true, false, {}},
    {{4, 7}, {5, 7}, false, true, {}},
    {{7, 4}, {5, 7}, true, true, {}},
    {{3, 4, 7}, {7, 5}, false, false, {}},
    {{2, 3, 4, 7}, {3, 7, 5}, false, false, {}},
    {{2, 1, 4, 7}, {3, 7, 5}, false, false, {}},
    {{2, 3, 4, 6},
     {2, 3, 6, 5},
     false,
     false,
     {{6 * 3 * 4, 6, 3 * 6, 1}, {}}},  // heads inside: [B, T, H, D] seen as [B, H, T, D]
    {{7}, {7, 5}, false, false, {}},
    {{1, 7}, {7, 5}, false, false, {}},
    {{4, 1}, {1, 5}, false, false, {}},
    {{64, 33}, {33, 70}, false, false, {}},
    {{100, 64}, {100, 33}, true, false, {}},
};

TEST(OneDnn, MatmulAgreesWithReference) {
  for (const MatmulCase& c : kMatmuls)
    for (const DType t : {DType::kFloat32, DType::kBFloat16}) {
      const Value v = call("matmul", {make_input({t, c.x}, 0), make_input({t, c.y}, 1)},
                           {{"transpose_x", c.tx}, {"transpose_y", c.ty}});
      EXPECT_LT(best_error(v, c.strides, "onednn"), t == DType::kFloat32 ? 2e-6 : 8e-3)
          << to_string(c.x) << to_string(c.y) << c.tx << c.ty << " " << dtype_name(t);
    }
}

struct PoolCase {
  Shape x;
  Ints kernel, stride, padding;
  bool ceil_mode;
};
const PoolCase kPools[] = {
    {{2, 3, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, false},
    {{2, 70, 9, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, false},
    {{1, 64, 6, 6}, {3, 2}, {2, 3}, {1, 0, 0, 1}, true},
    {{2, 5, 11}, {3}, {2}, {1, 1}, true},
    {{3, 6, 9, 7}, {2, 2}, {2, 2}, {0, 0, 0, 0}, false},  // the last row and column in no window
    {{2, 16, 5, 5}, {2, 2}, {2, 2}, {0, 0, 0, 0}, true},
    {{2, 20, 8, 9}, {2, 2}, {3, 4}, {1, 0, 1, 1}, false},  // gaps between the windows
    {{2, 6, 5, 5}, {5, 5}, {1, 1}, {0, 0, 0, 0}, false},
    {{1, 4, 5, 6, 7}, {2, 3, 2}, {1, 2, 2}, {0, 0, 1, 1, 0, 1}, false},
};

TEST(Pool, KernelsAgreeWithReference) {
  for (const PoolCase& c : kPools)
    for (const DType t : {DType::kFloat32, DType::kBFloat16}) {
      const double tol = t == DType::kFloat32 ? 1e-6 : 8e-3;
      const Ints cl = channels_last_strides(c.x);
      const Value x = make_input({t, c.x}, 0), v = make_input({t, c.x}, 1);
      const Ints in(c.x.begin() + 2, c.x.end());
      const auto max = [&](const char* op, Values inputs) {
        return call(op, inputs,
                    {{"kernel_size", c.kernel},
                     {"stride", c.stride},
                     {"padding", c.padding},
                     {"ceil_mode", c.ceil_mode}});
      };
      const Value y = max("max_pool", {x});
      const Value g = make_input(y.type(), 1);
      const Ints gl = channels_last_strides(g.shape());
      EXPECT_LT(best_error(y, {cl}, "yuloh_pool"), tol);
      EXPECT_LT(best_error(max("max_pool_with_index", {x}), {cl}, "yuloh_pool"), tol);
      EXPECT_LT(best_error(max("max_pool_grad", {x, g}), {cl, gl}, "yuloh_pool"), tol);
      EXPECT_LT(best_error(max("max_pool_take", {x, v}), {cl, cl}, "yuloh_pool"), tol);
      for (const bool exclusive : {true, false}) {
        EXPECT_LT(best_error(call("avg_pool", {x},
                                  {{"kernel_size", c.kernel},
                                   {"stride", c.stride},
                                   {"padding", c.padding},
                                   {"ceil_mode", c.ceil_mode},
                                   {"exclusive", exclusive}}),
                             {cl}, "yuloh_pool"),
                  tol);
        EXPECT_LT(best_error(call("avg_pool_grad", {g},
                                  {{"input_size", in},
                                   {"kernel_size", c.kernel},
                                   {"stride", c.stride},
                                   {"padding", c.padding},
                                   {"ceil_mode", c.ceil_mode},
                                   {"exclusive", exclusive}}),
                             {gl}, "yuloh_pool"),
                  tol);
      }
    }
}

TEST(Pool, NanAndMinusInfinity) {
  register_cpu();
  const Value x = make_input({DType::kFloat32, {1, 1, 2, 4}}, 0);
  const Value y = call("max_pool_with_index", {x},
                       {{"kernel_size", Ints{2, 2}}, {"stride", Ints{2, 2}}, {"padding", Ints(4, 0)}});
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float values[8] = {1, nan, -inf, -inf, 2, 3, -inf, -inf};
  for (const std::string_view name : {"yuloh_pool", "reference"}) {
    Case c(y, {});
    std::memcpy(c.in[0].data(), values, sizeof values);
    KernelRequest r{c.call, {c.in[0].operand}, {}};
    for (auto& o : y.node->outputs) r.out.push_back({o.type, row_major_strides(o.type.shape)});
    auto k = name == "reference" ? make_reference(r) : make_candidate(r, nullptr, nullptr);
    const auto got = run_kernel(*k, c, r.out);
    EXPECT_TRUE(std::isnan(got[0][0])) << name;
    EXPECT_EQ(got[0][1], -inf) << name;
    EXPECT_EQ(got[1][0], 1) << name;
    EXPECT_EQ(got[1][1], 2) << name;
  }
}

TEST(Moments, AgreeWithReference) {
  for (const Shape& s :
       {Shape{64, 10}, Shape{3, 5, 7}, Shape{4, 33, 9, 8}, Shape{8, 64, 16, 16}, Shape{1, 3, 1, 1}})
    for (const DType t : {DType::kFloat32, DType::kBFloat16}) {
      const Value v = call("channel_moments", {make_input({t, s}, 0)});
      EXPECT_LT(
          best_error(v, {s.size() > 2 ? channels_last_strides(s) : row_major_strides(s)}, "yuloh_moments"),
          1e-6)
          << to_string(s);
    }
}

TEST(Window, ErrorsNameAxisAndExtents) {
  const auto conv = [](Shape x, Shape w, Ints padding, Ints dilation) {
    call("conv", {make_input({DType::kFloat32, x}, 0), make_input({DType::kFloat32, w}, 1)},
         {{"stride", Ints(x.size() - 2, 1)},
          {"padding", padding},
          {"dilation", dilation},
          {"groups", x[1] / w[1]}});
  };
  EXPECT_THROW(conv({1, 1, 4, 4}, {1, 1, 7, 7}, Ints(4, 0), {1, 1}), Error);
  EXPECT_THROW(conv({1, 8, 14, 14}, {8, 1, 3, 3}, Ints(4, 1), {7, 8}), Error);
  EXPECT_THROW(conv({1, 1, 4, 4}, {1, 1, 3, 3}, Ints(4, 1), {INT64_MAX, 1}), Error);
  EXPECT_THROW(
      call("max_pool", {make_input({DType::kFloat32, {2, 3, 1}}, 0)},
           {{"kernel_size", Ints{4}}, {"stride", Ints{1}}, {"padding", Ints{0, 0}}, {"ceil_mode", true}}),
      Error);
  EXPECT_THROW(call("adaptive_max_pool", {make_input({DType::kFloat32, {2, 2, 2}}, 0)},
                    {{"output_size", Ints{9132760301568586890}}}),
               Error);
  EXPECT_EQ(call("adaptive_avg_pool", {make_input({DType::kFloat32, {1, 1, 4, 4}}, 0)},
                 {{"output_size", Ints{0, 0}}})
                .shape(),
            (Shape{1, 1, 0, 0}));
}

}  // namespace
}  // namespace yuloh::test
