// SPDX-License-Identifier: Apache-2.0
// What the tile interpreter's tests share: a small program builder, input numbers with edge values, errors in
// ulps, and the fixture that runs a test on every instruction set.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "cpu/cpu_features.h"
#include "cpu/tile_kernel.h"
#include "cpu/tile_table.h"

namespace yuloh {
namespace {
using Kind = TileInstr::Kind;
constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- a small program builder ----
struct Prog {
  TileProgram p;
  explicit Prog(Shape outer, int64_t inner) { p.outer = outer, p.inner = inner; }
  int operand(DType t, Ints outer, int64_t inner) {
    p.operands.push_back({t, outer, inner, p.n_buffers++});
    return static_cast<int>(p.operands.size()) - 1;
  }
  int add(TileInstr i) {
    i.dst = p.n_regs++;
    p.instrs.push_back(i);
    return i.dst;
  }
  int load(int op) {
    const CType t = compute_type(p.operands[op].dtype);
    return add({.kind = Kind::kLoad, .type = t, .from = t, .dtype = p.operands[op].dtype, .a = op});
  }
  int load(DType t, Ints outer, int64_t inner) { return load(operand(t, outer, inner)); }
  int prim(Prim q, CType from, int a, int b = -1, int c = -1) {
    return add({.kind = Kind::kPrim,
                .prim = q,
                .type = prim_info(q).to_bool ? CType::kB8 : from,
                .from = from,
                .a = a,
                .b = b,
                .c = c});
  }
  int cast(CType from, CType to, int a) {
    return add({.kind = Kind::kPrim, .prim = Prim::kCast, .type = to, .from = from, .a = a});
  }
  int constant(CType t, double v) {
    return add({.kind = Kind::kPrim, .prim = Prim::kConst, .type = t, .from = t, .imm = v, .row = true});
  }
  int round(CType t, DType to, int a) {
    return add({.kind = Kind::kRound, .type = t, .from = t, .dtype = to, .a = a});
  }
  int row_reduce(ReduceKind k, CType t, int a) {
    p.needs_whole_rows = true;
    return add({.kind = Kind::kRowReduce, .reduce = k, .type = t, .from = t, .a = a, .row = true});
  }
  void store(int op, int a) {
    p.instrs.push_back({.kind = Kind::kStore, .dtype = p.operands[op].dtype, .a = a, .b = op});
  }
  void store(DType t, Ints outer, int64_t inner, int a) { store(operand(t, outer, inner), a); }
  void accumulate(bool columns, ReduceKind k, DType t, int a, int64_t inner) {
    const int op = operand(t, Ints(p.outer.size(), 0), inner);
    const CType c = compute_type(t);
    p.instrs.push_back({.kind = columns ? Kind::kColReduce : Kind::kAllReduce,
                        .reduce = k,
                        .type = c,
                        .from = c,
                        .dtype = t,
                        .dst = 0,
                        .a = a,
                        .b = op});
  }
  void run(std::vector<void*> ptrs) {
    verify(p);
    auto k = make_cpu_tile_kernel(p);
    std::vector<double> workspace(k->workspace_bytes() / 8 + 8);
    ptrs.push_back(workspace.data());
    k->run(ptrs.data());
  }
};

template <class T>
constexpr DType kDType = std::is_same_v<T, float>     ? DType::kFloat32
                         : std::is_same_v<T, double>  ? DType::kFloat64
                         : std::is_same_v<T, int64_t> ? DType::kInt64
                                                      : DType::kBool;
template <class T>
constexpr CType kCType = std::is_same_v<T, float>     ? CType::kF32
                         : std::is_same_v<T, double>  ? CType::kF64
                         : std::is_same_v<T, int64_t> ? CType::kI64
                                                      : CType::kB8;

template <class T>
double ulp_error(T got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInf;
  const T w = static_cast<T>(want);
  if (std::isinf(w))
    return got == w || std::abs(static_cast<double>(got)) >= std::numeric_limits<T>::max() ? 0 : kInf;
  if (!std::isfinite(got)) return kInf;
  int e;
  std::frexp(std::max(std::abs(want), static_cast<double>(std::numeric_limits<T>::min())), &e);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, e - std::numeric_limits<T>::digits);
}

template <class T>
std::vector<T> numbers(int n, double lo, double hi, uint64_t seed, bool edges = true) {
  std::mt19937_64 g(seed);
  std::uniform_real_distribution<double> u(lo, hi), e(-40, 40);
  std::vector<T> v(n);
  for (int i = 0; i < n; ++i) {
    double x = i % 3 ? u(g) : std::ldexp(u(g) < (lo + hi) / 2 ? -1 : 1, static_cast<int>(e(g)));
    if (std::is_same_v<T, int64_t>) x = std::round(u(g));
    v[i] = static_cast<T>(std::clamp(x, lo, hi));
  }
  if constexpr (std::is_floating_point_v<T>) {
    const double special[] = {0.0,
                              -0.0,
                              kInf,
                              -kInf,
                              kNaN,
                              1,
                              -1,
                              0.5,
                              1.5,
                              2.5,
                              -0.5,
                              -2.5,
                              1e-40,
                              -1e-40,
                              1e-45,
                              std::numeric_limits<T>::max(),
                              std::numeric_limits<T>::min(),
                              2,
                              3,
                              -2,
                              1e10,
                              -1e10};
    for (size_t k = 0; edges && k < std::size(special) && k < v.size(); ++k)
      v[k * v.size() / std::size(special)] = static_cast<T>(special[k]);
  }
  return v;
}

class IsaTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > hardware_isa()) GTEST_SKIP() << "CPU lacks " << isa_name(GetParam());
    set_max_isa(GetParam());
  }
  void TearDown() override { set_max_isa(Isa::kAvx512); }
};

}  // namespace
}  // namespace yuloh
