// SPDX-License-Identifier: Apache-2.0
// Kernel benchmark: every candidate of matmul and of the convolutions of ResNet-50 and MobileNetV2 (batch 64,
// 32x32) on this machine, next to the measured FMA peak. `yuloh_kernel_bench
// [matmul|conv|depthwise|pointwise] [--bf16] [--threads N]
// [--json]`; best of at least 7 runs each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "base/buffer.h"
#include "cpu/cpu.h"
#include "cpu/cpu_features.h"
#include "cpu/gemm_kernels.h"
#include "cpu/parallel.h"
#include "plan/kernel.h"

using namespace yuloh;  // NOLINT: a program of one file

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
template <class F>
double best_seconds(F&& f) {
  double best = 1e9;
  const double start = now();
  for (int i = 0; i < 7 || now() - start < 0.1; ++i) {
    const double t = now();
    f();
    best = std::min(best, now() - t);
  }
  return best;
}

// Multiply-add rate of all threads on panels that stay in L1: what the arithmetic units give.
double peak_flops() {
  using namespace gemm_detail;
  const Kernels& k = cpu_isa() == Isa::kAvx512 ? kernels_avx512()
                     : cpu_isa() == Isa::kAvx2 ? kernels_avx2()
                                               : kernels_portable();
  constexpr int64_t kDepth = 128, kRounds = 2000;
  const int threads = num_threads();
  const double s = best_seconds([&] {
    parallel_for(threads, [&](int64_t) {
      std::vector<float> a(k.mr * kDepth + 64, 0.5f), b(k.nr * kDepth + 64, 0.25f), c(k.mr * k.nr);
      MicroArgs m{kDepth, a.data(), 1,    k.mr,    b.data(), k.nr, c.data(), k.nr,
                  k.nr,   false,    true, nullptr, nullptr,  0,    false};
      for (int64_t i = 0; i < kRounds; ++i) k.micro[k.mr](m);
    });
  });
  return 2.0 * threads * k.mr * k.nr * kDepth * kRounds / s;
}

struct Measured {
  std::string candidate, kernel;
  double seconds;
};

std::vector<Measured> measure(const Value& result) {
  const Call call(*result.node);
  std::vector<Measured> all;
  std::mt19937 rng(1);
  for (const Candidate& c : candidates_for(call.op.name)) {
    const LayoutWish wish = c.layouts ? c.layouts(call) : LayoutWish{};
    KernelRequest r{call, {}, {}};
    std::vector<Ref<Buffer>> buffers;
    const auto operand = [&](const TensorType& t, const std::vector<Ints>& wishes, uint32_t i) {
      const Ints strides = i < wishes.size() && !wishes[i].empty() ? wishes[i] : row_major_strides(t.shape);
      buffers.push_back(allocate_buffer(t, strides));
      for (int64_t e = 0; e < numel(t.shape); ++e)
        store_double(static_cast<char*>(buffers.back()->data()) + e * dtype_size(t.dtype), t.dtype,
                     static_cast<double>(rng() % 1000) / 1000 - 0.5);
      return Operand{t, strides};
    };
    for (uint32_t i = 0; i < call.n_in; ++i) r.in.push_back(operand(call.in[i].type(), wish.in, i));
    for (uint32_t i = 0; i < result.node->outputs.size(); ++i)
      r.out.push_back(operand(result.node->outputs[i].type, wish.out, i));
    std::string why;
    if (!c.fits(r, &why)) continue;
    const auto kernel = c.make(r);
    if (!kernel) continue;
    const auto work = allocate_storage(std::max<size_t>(kernel->workspace_bytes(), 64));
    std::vector<void*> ptrs;
    for (auto& b : buffers) ptrs.push_back(b->data());
    ptrs.push_back(work->data);
    all.push_back({std::string(c.name), kernel->describe(), best_seconds([&] { kernel->run(ptrs.data()); })});
  }
  return all;
}

struct Printer {
  bool json;
  double peak;
  bool first = true;
  void row(const std::string& name, double flops, const std::vector<Measured>& all) {
    if (!json) std::printf("%-44s", name.c_str());
    for (const Measured& m : all) {
      const double rate = flops / m.seconds;
      if (json)
        std::printf(
            "%s{\"case\": \"%s\", \"candidate\": \"%s\", \"kernel\": \"%s\", \"seconds\": %.3e, \"flops\": "
            "%.3e}",
            first ? "" : ",\n ", name.c_str(), m.candidate.c_str(), m.kernel.c_str(), m.seconds, rate);
      else
        std::printf(" | %-14s %9.1f us %4.0f GF %3.0f%%", m.candidate.c_str(), m.seconds * 1e6, rate * 1e-9,
                    100 * rate / peak);
      first = false;
    }
    if (!json) std::printf("\n");
    std::fflush(stdout);
  }
};

struct MatmulCase {
  const char* what;
  int64_t batch, m, n, k;
  bool tx, ty;
};
constexpr MatmulCase kMatmuls[] = {
    {"LeNet fc1", 1, 64, 120, 400, false, false},
    {"LeNet fc1 dW", 1, 400, 120, 64, true, false},
    {"LeNet fc3", 1, 64, 10, 84, false, false},
    {"ResNet fc", 1, 64, 100, 2048, false, false},
    {"ResNet 1x1 layer 1", 1, 4096, 64, 256, false, true},
    {"ResNet 1x1 layer 3", 1, 256, 1024, 256, false, true},
    {"ResNet 1x1 layer 4", 1, 64, 512, 2048, false, true},
    {"ResNet 1x1 dW", 1, 512, 2048, 64, true, false},
    {"GPT qkv", 1, 384, 768, 768, false, false},
    {"GPT mlp up", 1, 384, 3072, 768, false, false},
    {"GPT mlp down", 1, 384, 768, 3072, false, false},
    {"GPT scores", 12, 384, 384, 64, false, true},
    {"GPT context", 12, 384, 64, 384, false, false},
    {"decode, 1 row", 1, 1, 3072, 768, false, false},
    {"decode, 4 rows", 1, 4, 3072, 768, false, false},
    {"matrix times vector", 1, 1024, 1, 1024, false, false},
    {"64 tiny products", 64, 16, 16, 16, false, false},
    {"square", 1, 1024, 1024, 1024, false, false},
};

void matmuls(Printer& out) {
  for (const MatmulCase& c : kMatmuls) {
    Shape x = c.tx ? Shape{c.k, c.m} : Shape{c.m, c.k}, y = c.ty ? Shape{c.n, c.k} : Shape{c.k, c.n};
    if (c.batch > 1) x.insert(0, c.batch), y.insert(0, c.batch);
    const Value v = call("matmul", {make_input({DType::kFloat32, x}, 0), make_input({DType::kFloat32, y}, 1)},
                         {{"transpose_x", c.tx}, {"transpose_y", c.ty}});
    out.row(cat(c.what, " ", c.batch > 1 ? cat(c.batch, "x") : "", c.m, "x", c.n, "x", c.k,
                c.tx ? " T" : " N", c.ty ? "T" : "N"),
            2.0 * static_cast<double>(c.batch * c.m * c.n * c.k), measure(v));
  }
}

struct ConvCase {
  int64_t in, out, kernel, stride, extent, count, groups = 1;
};
// Depthwise convolutions of MobileNetV2 (what strides make of 32x32).
std::vector<ConvCase> mobilenet_v2() {
  std::vector<ConvCase> r;
  constexpr int64_t kRows[][4] = {{32, 1, 16, 1}, {96, 2, 16, 1}, {144, 1, 8, 1}, {144, 2, 8, 1},
                                  {192, 1, 4, 2}, {192, 2, 4, 1}, {384, 1, 2, 4}, {576, 1, 2, 2},
                                  {576, 2, 2, 1}, {960, 1, 1, 3}};
  for (const auto& k : kRows) r.push_back({k[0], k[0], 3, k[1], k[2], k[3], k[0]});
  return r;
}
std::vector<ConvCase> resnet50() {
  std::vector<ConvCase> r{{3, 64, 7, 2, 32, 1}};
  int64_t in = 64, extent = 8;
  constexpr int64_t kBlocks[] = {3, 4, 6, 3};
  for (int layer = 0; layer < 4; ++layer) {
    const int64_t w = int64_t{64} << layer, stride = layer ? 2 : 1;
    r.push_back({in, w, 1, 1, extent, 1}), r.push_back({w, w, 3, stride, extent, 1});
    r.push_back({in, 4 * w, 1, stride, extent, 1});
    extent /= stride, in = 4 * w;
    r.push_back({w, in, 1, 1, extent, kBlocks[layer]}),
        r.push_back({in, w, 1, 1, extent, kBlocks[layer] - 1});
    r.push_back({w, w, 3, 1, extent, kBlocks[layer] - 1});
  }
  return r;
}

// Its 1x1 convolutions.
std::vector<ConvCase> mobilenet_v2_pointwise() {
  constexpr int64_t kRows[][4] = {{32, 16, 16, 1},  {16, 96, 16, 1},  {96, 24, 8, 1},   {24, 144, 8, 2},
                                  {144, 24, 8, 1},  {144, 32, 4, 1},  {32, 192, 4, 3},  {192, 32, 4, 2},
                                  {192, 64, 2, 1},  {64, 384, 2, 4},  {384, 64, 2, 3},  {384, 96, 2, 1},
                                  {96, 576, 2, 3},  {576, 96, 2, 2},  {576, 160, 1, 1}, {160, 960, 1, 3},
                                  {960, 160, 1, 2}, {960, 320, 1, 1}, {320, 1280, 1, 1}};
  std::vector<ConvCase> r;
  for (const auto& k : kRows) r.push_back({k[0], k[1], 1, 1, k[2], k[3]});
  return r;
}

Value conv_value(const ConvCase& c, int role, DType t) {
  const Ints stride(2, c.stride), padding(4, c.kernel / 2), dilation(2, 1);
  const Value x = make_input({t, {64, c.in, c.extent, c.extent}}, 0);
  const Value w = make_input({t, {c.out, c.in / c.groups, c.kernel, c.kernel}}, 1);
  const Value y =
      call("conv", {x, w},
           {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", c.groups}});
  if (role == 0) return y;
  const Value g = make_input(y.type(), 2);
  if (role == 1)
    return call("conv_grad_input", {g, w},
                {{"input_size", Ints(2, c.extent)},
                 {"stride", stride},
                 {"padding", padding},
                 {"dilation", dilation},
                 {"groups", c.groups}});
  return call("conv_grad_weight", {x, g},
              {{"kernel_size", Ints(2, c.kernel)},
               {"stride", stride},
               {"padding", padding},
               {"dilation", dilation},
               {"groups", c.groups}});
}

void convs(Printer& out, const std::vector<ConvCase>& cases, DType t) {
  double chosen = 0, library = 0;
  for (const ConvCase& c : cases)
    for (int role = 0; role < 3; ++role) {
      if (role == 1 && c.in == 3) continue;
      const int64_t o = (c.extent - 1) / c.stride + 1;
      const double flops =
          2.0 * 64 * static_cast<double>(c.out * c.in / c.groups * c.kernel * c.kernel * o * o);
      const auto all = measure(conv_value(c, role, t));
      constexpr const char* kRoles[] = {"conv", "conv_grad_input", "conv_grad_weight"};
      out.row(cat(kRoles[role], " ", c.in, ">", c.out, " k", c.kernel, " s", c.stride, " ", c.extent, "x",
                  c.extent, " (", c.count, " of them)"),
              flops, all);
      if (all.empty()) continue;
      chosen += all.front().seconds * static_cast<double>(c.count);
      library += all.back().seconds * static_cast<double>(c.count);
    }
  if (!out.json)
    std::printf("all convolutions of a step: %.1f ms as chosen, %.1f ms by the library alone\n", chosen * 1e3,
                library * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = "all";
  bool json = false;
  DType dtype = DType::kFloat32;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--json")) json = true;
    else if (!std::strcmp(argv[i], "--bf16")) dtype = DType::kBFloat16;
    else if (!std::strcmp(argv[i], "--threads") && i + 1 < argc) set_num_threads(std::atoi(argv[++i]));
    else what = argv[i];
  }
  register_cpu();
  const double peak = peak_flops();
  if (json)
    std::printf("{\"cpu\": \"%s\", \"threads\": %d, \"peak_flops\": %.3e, \"rows\": [\n ",
                cpu_summary().c_str(), num_threads(), peak);
  else
    std::printf("%s, %d threads, measured FMA peak %.0f GFLOP/s\n", cpu_summary().c_str(), num_threads(),
                peak * 1e-9);
  Printer out{json, peak};
  if (what == "all" || what == "matmul") matmuls(out);
  if (what == "all" || what == "conv") convs(out, resnet50(), dtype);
  if (what == "all" || what == "depthwise") convs(out, mobilenet_v2(), dtype);
  if (what == "all" || what == "pointwise") convs(out, mobilenet_v2_pointwise(), dtype);
  if (json) std::printf("]}\n");
}
