// SPDX-License-Identifier: Apache-2.0
// Scalar expressions: the one description of an elementwise op. `Scalar` overloads the usual operators and
// functions and records an `Expr`; gradients (symbolic), tile code for every device, folding and the
// reference all derive from it. An expression computes in one compute type (f32 for half types, f64, i64,
// bool) and its result is rounded once to the op's dtype.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace yuloh {

// Primitive operations of tile programs. Table of names/arity/gradient in scalar.cpp; kernels in
// cpu/tile_kernels.
// clang-format off
enum class Prim : uint8_t {
  kArg, kConst,  // leaves: input number `a`, immediate `imm`
  kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kMax, kMin, kPow, kAtan2, kFMod,
  kNeg, kAbs, kSign, kExp, kExpm1, kLog, kLog1p, kSqrt, kRsqrt, kSin, kCos, kTan,
  kAsin, kAcos, kAtan, kSinh, kCosh, kTanh,
  kAsinh, kAcosh, kAtanh, kErf, kFloor, kCeil, kRound, kTrunc, kErfinv, kLgamma, kDigamma,
  kIsNan, kIsInf, kIsFinite,                      // -> bool
  kEq, kNe, kLt, kLe, kGt, kGe,                   // -> bool
  kAnd, kOr, kXor, kNot, kShl, kShr,              // bool: logical; ints: bitwise
  kSelect,                                        // a ? b : c
  kFma,                                           // a * b + c with one rounding where the scalar body says so
  kCast,                                          // to dtype `imm`
};
// clang-format on
inline constexpr int kNumPrims = static_cast<int>(Prim::kCast) + 1;
struct PrimInfo {
  const char* name;
  int arity;
  bool to_bool;
};
const PrimInfo& prim_info(Prim p);

struct ExprNode {
  Prim prim;
  int16_t a = -1, b = -1, c = -1;
  double imm = 0;
  bool operator==(const ExprNode& o) const {
    return prim == o.prim && a == o.a && b == o.b && c == o.c && __builtin_memcmp(&imm, &o.imm, 8) == 0;
  }
};
// A small hash-consed DAG; nodes only refer to earlier nodes.
struct Expr {
  std::vector<ExprNode> nodes;
  int root = -1;
  int add(ExprNode n);  // folds constants and x+0, x*1, x*0 is NOT folded (NaN)
  bool uses_arg(int i) const;
  void prune();  // drops nodes the root does not reach
};
std::string to_string(const Expr& e);
// d(root)/d(arg) * g where g is argument number `n_args` of the result; root = -1 means "always zero".
Expr differentiate(const Expr& e, int arg, int n_args);

class Scalar {
 public:
  Scalar(float v) : Scalar(static_cast<double>(v)) {}
  Scalar(int v) : Scalar(static_cast<double>(v)) {}
  Scalar(double v);
  static Scalar arg(int i);
  static Scalar make(Prim p, const Scalar* a, const Scalar* b = nullptr, const Scalar* c = nullptr,
                     double imm = 0);
  int id;

 private:
  struct Raw {};
  Scalar(Raw, int i) : id(i) {}
};
struct ExprScope {  // the Expr that Scalars record into (per thread, nested)
  explicit ExprScope(Expr* e);
  ~ExprScope();
  Expr* saved;
};

#define YULOH_SCALAR1(fn, P) \
  inline Scalar fn(const Scalar& x) { return Scalar::make(Prim::P, &x); }
#define YULOH_SCALAR2(fn, P) \
  inline Scalar fn(const Scalar& x, const Scalar& y) { return Scalar::make(Prim::P, &x, &y); }
// clang-format off
YULOH_SCALAR2(operator+, kAdd) YULOH_SCALAR2(operator-, kSub) YULOH_SCALAR2(operator*, kMul)
YULOH_SCALAR2(operator/, kDiv) YULOH_SCALAR2(floor_div, kFloorDiv) YULOH_SCALAR2(mod, kMod)
YULOH_SCALAR2(max, kMax) YULOH_SCALAR2(min, kMin) YULOH_SCALAR2(pow, kPow) YULOH_SCALAR2(atan2, kAtan2)
YULOH_SCALAR2(fmod, kFMod) YULOH_SCALAR1(operator-, kNeg) YULOH_SCALAR1(abs, kAbs) YULOH_SCALAR1(sign, kSign)
YULOH_SCALAR1(exp, kExp) YULOH_SCALAR1(expm1, kExpm1) YULOH_SCALAR1(log, kLog) YULOH_SCALAR1(log1p, kLog1p)
YULOH_SCALAR1(sqrt, kSqrt) YULOH_SCALAR1(rsqrt, kRsqrt) YULOH_SCALAR1(sin, kSin) YULOH_SCALAR1(cos, kCos)
YULOH_SCALAR1(tan, kTan) YULOH_SCALAR1(asin, kAsin) YULOH_SCALAR1(acos, kAcos) YULOH_SCALAR1(atan, kAtan)
YULOH_SCALAR1(sinh, kSinh) YULOH_SCALAR1(cosh, kCosh) YULOH_SCALAR1(tanh, kTanh) YULOH_SCALAR1(asinh, kAsinh)
YULOH_SCALAR1(acosh, kAcosh) YULOH_SCALAR1(atanh, kAtanh) YULOH_SCALAR1(erf, kErf)
YULOH_SCALAR1(floor, kFloor) YULOH_SCALAR1(ceil, kCeil) YULOH_SCALAR1(round, kRound)
YULOH_SCALAR1(trunc, kTrunc) YULOH_SCALAR1(erfinv, kErfinv) YULOH_SCALAR1(lgamma, kLgamma)
YULOH_SCALAR1(digamma, kDigamma) YULOH_SCALAR1(isnan, kIsNan) YULOH_SCALAR1(isinf, kIsInf)
YULOH_SCALAR1(isfinite, kIsFinite) YULOH_SCALAR2(operator==, kEq) YULOH_SCALAR2(operator!=, kNe)
YULOH_SCALAR2(operator<, kLt) YULOH_SCALAR2(operator<=, kLe) YULOH_SCALAR2(operator>, kGt)
YULOH_SCALAR2(operator>=, kGe) YULOH_SCALAR2(operator&, kAnd) YULOH_SCALAR2(operator|, kOr)
YULOH_SCALAR2(operator^, kXor) YULOH_SCALAR1(operator!, kNot) YULOH_SCALAR2(operator<<, kShl)
YULOH_SCALAR2(operator>>, kShr)
// clang-format on
#undef YULOH_SCALAR1
#undef YULOH_SCALAR2
                                                                                inline Scalar
    select(const Scalar& c, const Scalar& a, const Scalar& b) {
  return Scalar::make(Prim::kSelect, &c, &a, &b);
}
inline Scalar fma(const Scalar& a, const Scalar& b, const Scalar& c) {
  return Scalar::make(Prim::kFma, &a, &b, &c);
}

}  // namespace yuloh
