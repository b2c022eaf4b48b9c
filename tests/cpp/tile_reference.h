// SPDX-License-Identifier: Apache-2.0
// A tile program run one element at a time: slow, obvious, independent of src/cpu/. Tests of fusion, lowering
// and passes compare through it. Sums run in row order, so equal nests give equal bits.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"
#include "tile/program.h"

namespace yuloh::testing {

struct Cell {  // one number in its compute type
  double f = 0;
  int64_t i = 0;
};

class TileReference {
 public:
  TileReference(const TileProgram& p, void* const* ptrs) : p_(p), ptrs_(ptrs) {}
  void run() {
    int64_t rows = 1;
    for (int64_t d : p_.outer) rows *= d;
    int64_t kept = 1;
    for (int d = 0; d < p_.keep; ++d) kept *= p_.outer[d];
    if (kept == 0 || p_.inner == 0) rows = 0;
    const int64_t per = kept ? rows / kept : 0;
    for (int64_t k = 0; k < kept; ++k) {
      acc_.clear();
      for (int64_t r = 0; r < per; ++r) row(k * per + r);
      finish(k * per);
    }
  }

 private:
  using K = TileInstr::Kind;
  static double f_of(const Cell& c, CType t) {
    return t == CType::kI64 || t == CType::kB8 ? static_cast<double>(c.i) : c.f;
  }
  static Cell make(CType t, double v) {
    if (t == CType::kF32) return {static_cast<double>(static_cast<float>(v)), 0};
    if (t == CType::kF64) return {v, 0};
    if (t == CType::kB8) return {0, v != 0};
    unsigned char b[8];
    store_double(b, DType::kInt64, v);
    return {0, load_int(b, DType::kInt64)};
  }
  static Cell make_int(CType t, int64_t v) { return t == CType::kB8 ? Cell{0, v != 0} : Cell{0, v}; }

  char* address(int operand, int64_t row_index, int64_t col) const {
    const TileOperand& o = p_.operands[operand];
    int64_t at = col * o.inner_stride;
    for (int d = static_cast<int>(p_.outer.size()) - 1; d >= 0; --d) {
      at += row_index % p_.outer[d] * o.outer_strides[d];
      row_index /= p_.outer[d];
    }
    return static_cast<char*>(ptrs_[o.buffer]) + at * static_cast<int64_t>(dtype_size(o.dtype));
  }
  static Cell read(const char* at, DType d) {
    if (is_integral(d)) return {0, load_int(at, d)};
    return {load_double(at, d), 0};
  }
  static void write(char* at, DType d, const Cell& c, CType t) {
    if (t == CType::kI64 || t == CType::kB8) store_int(at, d, c.i);
    else store_double(at, d, c.f);
  }

  void row(int64_t r) {
    std::vector<std::vector<Cell>> regs(p_.n_regs, std::vector<Cell>(p_.inner));
    for (const TileInstr& x : p_.instrs) {
      const int64_t cols = x.row ? 1 : p_.inner;
      if (x.kind == K::kRowReduce) {
        Cell acc = identity(x.reduce, x.from);
        for (int64_t c = 0; c < p_.inner; ++c) acc = combine(x.reduce, x.from, acc, regs[x.a][c]);
        std::fill(regs[x.dst].begin(), regs[x.dst].end(), acc);
        continue;
      }
      for (int64_t c = 0; c < cols; ++c) step(x, r, c, regs);
      if (x.row && x.kind != K::kStore)
        std::fill(regs[x.dst].begin() + 1, regs[x.dst].end(), Cell(regs[x.dst][0]));
    }
  }
  void step(const TileInstr& x, int64_t r, int64_t c, std::vector<std::vector<Cell>>& regs) {
    switch (x.kind) {
      case K::kLoad: regs[x.dst][c] = read(address(x.a, r, c), x.dtype); break;
      case K::kStore: write(address(x.b, r, c), x.dtype, regs[x.a][c], x.from); break;
      case K::kRound: {
        unsigned char b[8];
        write(reinterpret_cast<char*>(b), x.dtype, regs[x.a][c], x.type);
        regs[x.dst][c] = read(reinterpret_cast<char*>(b), x.dtype);
        break;
      }
      case K::kColReduce:
      case K::kAllReduce: {
        std::vector<Cell>& list = acc_[&x];
        if (list.empty()) list.assign(p_.inner, identity(x.reduce, x.from));
        Cell& a = list[x.kind == K::kColReduce ? c : 0];
        a = combine(x.reduce, x.from, a, regs[x.a][c]);
        break;
      }
      default: {
        const Cell none;
        auto at = [&](int k) { return k < 0 ? none : regs[k][c]; };
        regs[x.dst][c] = prim(x, at(x.a), at(x.b), at(x.c));
      }
    }
  }
  void finish(int64_t first_row) {
    for (const TileInstr& x : p_.instrs) {
      if (x.kind != K::kColReduce && x.kind != K::kAllReduce) continue;
      const int64_t cols = x.kind == K::kColReduce ? p_.inner : 1;
      for (int64_t c = 0; c < cols; ++c) {
        const auto it = acc_.find(&x);
        write(address(x.b, first_row, c), x.dtype,
              it == acc_.end() ? identity(x.reduce, x.from) : it->second[c], x.from);
      }
    }
  }

 public:
  static Cell identity(ReduceKind k, CType t) {
    const bool real = t == CType::kF32 || t == CType::kF64;
    switch (k) {
      case ReduceKind::kProd:
      case ReduceKind::kAll: return real ? make(t, 1) : make_int(t, 1);
      case ReduceKind::kMax: return real ? make(t, -HUGE_VAL) : make_int(t, INT64_MIN);
      case ReduceKind::kMin: return real ? make(t, HUGE_VAL) : make_int(t, INT64_MAX);
      default: return {};
    }
  }
  static Cell combine(ReduceKind k, CType t, const Cell& a, const Cell& b) {
    TileInstr x{.kind = K::kPrim, .type = t, .from = t};
    switch (k) {
      case ReduceKind::kSum: x.prim = Prim::kAdd; break;
      case ReduceKind::kProd: x.prim = Prim::kMul; break;
      case ReduceKind::kMax: x.prim = Prim::kMax; break;
      case ReduceKind::kMin: x.prim = Prim::kMin; break;
      case ReduceKind::kAny: x.prim = Prim::kOr; break;
      default: x.prim = Prim::kAnd; break;
    }
    return prim(x, a, b, {});
  }
  static Cell prim(const TileInstr& x, const Cell& a, const Cell& b, const Cell& c) {
    const bool ints = x.from == CType::kI64 || x.from == CType::kB8;
    if (x.prim == Prim::kSelect) return a.i ? b : c;
    if (x.prim == Prim::kConst)
      return x.type == CType::kI64 || x.type == CType::kB8 ? make_int(x.type, static_cast<int64_t>(x.imm))
                                                           : make(x.type, x.imm);
    if (x.prim == Prim::kCast) {
      if (!ints) return x.type == CType::kB8 ? Cell{0, a.f != 0} : make(x.type, a.f);
      return x.type == CType::kI64 || x.type == CType::kB8 ? make_int(x.type, a.i)
                                                           : make(x.type, static_cast<double>(a.i));
    }
    if (prim_info(x.prim).to_bool) return {0, compare(x.prim, a, b, ints)};
    return ints ? make_int(x.type, int_prim(x.prim, a.i, b.i, x.from))
                : make(x.type, real_prim(x.prim, a.f, b.f, c.f, x.type));
  }

 private:
  static bool compare(Prim p, const Cell& a, const Cell& b, bool ints) {
    switch (p) {
      case Prim::kIsNan: return std::isnan(a.f);
      case Prim::kIsInf: return std::isinf(a.f);
      case Prim::kIsFinite: return std::isfinite(a.f);
      case Prim::kEq: return ints ? a.i == b.i : a.f == b.f;
      case Prim::kNe: return ints ? a.i != b.i : a.f != b.f;
      case Prim::kLt: return ints ? a.i < b.i : a.f < b.f;
      case Prim::kLe: return ints ? a.i <= b.i : a.f <= b.f;
      case Prim::kGt: return ints ? a.i > b.i : a.f > b.f;
      default: return ints ? a.i >= b.i : a.f >= b.f;
    }
  }
  static int64_t wrap(uint64_t v) { return static_cast<int64_t>(v); }
  static int64_t int_prim(Prim p, int64_t a, int64_t b, CType t) {
    const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    switch (p) {
      case Prim::kAdd: return wrap(x + y);
      case Prim::kSub: return wrap(x - y);
      case Prim::kMul: return wrap(x * y);
      case Prim::kMax: return std::max(a, b);
      case Prim::kMin: return std::min(a, b);
      case Prim::kNeg: return wrap(-x);
      case Prim::kAbs: return a < 0 ? wrap(-x) : a;
      case Prim::kSign: return (a > 0) - (a < 0);
      case Prim::kAnd: return a & b;
      case Prim::kOr: return a | b;
      case Prim::kXor: return a ^ b;
      case Prim::kNot: return t == CType::kB8 ? !a : ~a;
      case Prim::kShl: return wrap(x << (b & 63));
      case Prim::kShr: return a >> (b & 63);
      case Prim::kFloorDiv:
      case Prim::kMod: {
        if (b == 0) return 0;
        if (b == -1) return p == Prim::kMod ? 0 : wrap(-x);
        const int64_t q = a / b - (a % b != 0 && (a < 0) != (b < 0));
        return p == Prim::kMod ? a - q * b : q;
      }
      default: fail(ErrorKind::kNotImplemented, "tile reference: ", prim_info(p).name, " on integers");
    }
  }
  static double real_prim(Prim p, double a, double b, double c, CType t) {
    const bool single = t == CType::kF32;
    auto one = [&](auto f32, auto f64) {
      return single ? static_cast<double>(f32(static_cast<float>(a))) : f64(a);
    };
#define ONE(fn) return one([](float v) { return std::fn(v); }, [](double v) { return std::fn(v); })
    switch (p) {
      case Prim::kAdd: return a + b;
      case Prim::kSub: return a - b;
      case Prim::kMul: return a * b;
      case Prim::kDiv: return a / b;
      case Prim::kMax: return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
      case Prim::kMin: return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
      case Prim::kPow:
        return single ? std::pow(static_cast<float>(a), static_cast<float>(b)) : std::pow(a, b);
      case Prim::kFloorDiv: return std::floor(a / b);
      case Prim::kMod: return a - b * std::floor(a / b);
      case Prim::kFMod: return std::fmod(a, b);
      case Prim::kAtan2: return std::atan2(a, b);
      case Prim::kNeg: return -a;
      case Prim::kAbs: return std::fabs(a);
      case Prim::kSign: return std::isnan(a) ? a : (a > 0) - (a < 0);
      case Prim::kRsqrt: return single ? 1.0f / std::sqrt(static_cast<float>(a)) : 1.0 / std::sqrt(a);
      case Prim::kFloor: return std::floor(a);
      case Prim::kCeil: return std::ceil(a);
      case Prim::kRound: return std::nearbyint(a);
      case Prim::kTrunc: return std::trunc(a);
      case Prim::kFma:
        return single ? std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))
                      : std::fma(a, b, c);
      case Prim::kExp: ONE(exp);
      case Prim::kExpm1: ONE(expm1);
      case Prim::kLog: ONE(log);
      case Prim::kLog1p: ONE(log1p);
      case Prim::kSqrt: ONE(sqrt);
      case Prim::kSin: ONE(sin);
      case Prim::kCos: ONE(cos);
      case Prim::kTan: ONE(tan);
      case Prim::kTanh: ONE(tanh);
      case Prim::kSinh: ONE(sinh);
      case Prim::kCosh: ONE(cosh);
      case Prim::kAtan: ONE(atan);
      case Prim::kErf: ONE(erf);
      default: fail(ErrorKind::kNotImplemented, "tile reference: ", prim_info(p).name);
    }
#undef ONE
  }

  const TileProgram& p_;
  void* const* ptrs_;
  std::map<const TileInstr*, std::vector<Cell>> acc_;  // accumulators of the current instance
};

inline void run_reference(const TileProgram& p, void* const* ptrs) { TileReference(p, ptrs).run(); }

}  // namespace yuloh::testing
