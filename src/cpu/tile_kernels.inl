// SPDX-License-Identifier: Apache-2.0
// The body of one target's kernel table (see tile_table.h); compiled by tile_sse2.cpp, tile_avx2.cpp,
// tile_avx512.cpp. Everything is static or in the unnamed namespace and calls no inline function of a
// library: a shared copy compiled for AVX-512 must never be what another file links to. Plain loops; the
// compiler vectorises them (-O3).
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "cpu/tile_table.h"

namespace yuloh::tile {
namespace {
// Iterations are independent: operands are apart or the very same block.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // loops over libm stay scalar
#define TILE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TILE_IVDEP _Pragma("GCC ivdep")
#endif
#include "cpu/tile_math.inl"

using b8 = uint8_t;
template <class T>
constexpr bool kIsFloat = false;
template <>
constexpr bool kIsFloat<float> = true;
template <>
constexpr bool kIsFloat<double> = true;

// ---- loops ----
template <class Op, class T, class D>
void unary(void* dv, const void* av, const void*, const void*, int64_t rows, int64_t cols) {
  D* d = static_cast<D*>(dv);
  const T* a = static_cast<const T*>(av);
  const int64_t n = rows * cols;
  TILE_IVDEP
  for (int64_t i = 0; i < n; ++i) d[i] = Op::f(a[i]);
}
template <class Op, class T, class D, int Form>
void binary(void* dv, const void* av, const void* bv, const void*, int64_t rows, int64_t cols) {
  D* d = static_cast<D*>(dv);
  const T* a = static_cast<const T*>(av);
  const T* b = static_cast<const T*>(bv);
  if constexpr (Form == 0) cols *= rows, rows = 1;
  for (int64_t r = 0; r < rows; ++r, d += cols) {
    if constexpr (Form == 0) {
      TILE_IVDEP
      for (int64_t i = 0; i < cols; ++i) d[i] = Op::f(a[i], b[i]);
    } else if constexpr (Form == 1) {
      const T s = a[r];
      TILE_IVDEP
      for (int64_t i = 0; i < cols; ++i) d[i] = Op::f(s, b[i]);
      b += cols;
    } else {
      const T s = b[r];
      TILE_IVDEP
      for (int64_t i = 0; i < cols; ++i) d[i] = Op::f(a[i], s);
      a += cols;
    }
  }
}
template <class Op, class A, class T, int Form>
void ternary(void* dv, const void* av, const void* bv, const void* cv, int64_t rows, int64_t cols) {
  T* d = static_cast<T*>(dv);
  const A* a = static_cast<const A*>(av);
  const T* b = static_cast<const T*>(bv);
  const T* c = static_cast<const T*>(cv);
  if constexpr (Form == 0) cols *= rows, rows = 1;
  for (int64_t r = 0; r < rows; ++r, d += cols) {
    const A sa = a[Form & 1 ? r : 0];
    const T sb = b[Form & 2 ? r : 0], sc = c[Form & 4 ? r : 0];
    TILE_IVDEP
    for (int64_t i = 0; i < cols; ++i)
      d[i] = Op::f(Form & 1 ? sa : a[i], Form & 2 ? sb : b[i], Form & 4 ? sc : c[i]);
    if constexpr (!(Form & 1)) a += cols;
    if constexpr (!(Form & 2)) b += cols;
    if constexpr (!(Form & 4)) c += cols;
  }
}
// Two primitives in one pass (First, Second of tile_table.h), each rounding as it would alone.
template <class First, class Second, int Form>
void chain(void* dv, const void* av, const void* bv, const void* cv, int64_t rows, int64_t cols) {
  float* d = static_cast<float*>(dv);
  const float* a = static_cast<const float*>(av);
  const float* b = static_cast<const float*>(bv);
  const float* c = static_cast<const float*>(cv);
  if constexpr (Form == 0) cols *= rows, rows = 1;
  for (int64_t r = 0; r < rows; ++r, d += cols) {
    const float sa = a[Form & 1 ? r : 0], sb = b[Form & 2 ? r : 0], sc = c[Form & 4 ? r : 0];
    TILE_IVDEP
    for (int64_t i = 0; i < cols; ++i)
      d[i] = Second::f(First::f(Form & 1 ? sa : a[i], Form & 2 ? sb : b[i]), Form & 4 ? sc : c[i]);
    if constexpr (!(Form & 1)) a += cols;
    if constexpr (!(Form & 2)) b += cols;
    if constexpr (!(Form & 4)) c += cols;
  }
}
struct From {
  TILE_INLINE float f(float x, float y) { return y - x; }
};
struct OrZero {
  TILE_INLINE float f(bool x, float y) { return x ? y : 0.0f; }
};
// Integer division and its relatives: a zero divisor sets the flag (passed as c) and yields 0.
template <class Op, int Form>
void checked(void* dv, const void* av, const void* bv, const void* flag, int64_t rows, int64_t cols) {
  int64_t* d = static_cast<int64_t*>(dv);
  const int64_t* a = static_cast<const int64_t*>(av);
  const int64_t* b = static_cast<const int64_t*>(bv);
  int32_t bad = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) {
      const int64_t k = r * cols + i, x = a[Form == 1 ? r : k], y = b[Form == 2 ? r : k];
      bad |= y == 0;
      d[k] = y == 0    ? 0
             : y == -1 ? Op::minus_one(x)
                       : Op::f(x, y);  // INT64_MIN / -1 traps in hardware: wraps here
    }
  if (bad) *static_cast<int32_t*>(const_cast<void*>(flag)) = 1;
}

#include "cpu/tile_ops.inl"
#include "cpu/tile_reduce.inl"
#include "cpu/tile_storage.inl"

// written with the ones above
#include "cpu/attention_rows.inl"
#include "cpu/lstm_gates.inl"
#include "cpu/softmax_nll.inl"

// ---- the table ----
enum { F32, F64, I64, B8 };
struct Builder {
  Table t;
  PrimFn* at(Prim p, int type) { return t.prim[static_cast<int>(p)][type]; }
  template <class Op, class T, class D = T>
  void un(Prim p, int type) {
    at(p, type)[0] = unary<Op, T, D>;
  }
  template <class Op, class T, class D = T>
  void bin(Prim p, int type) {
    PrimFn* f = at(p, type);
    f[0] = binary<Op, T, D, 0>, f[1] = binary<Op, T, D, 1>, f[2] = binary<Op, T, D, 2>;
  }
  template <class Op>
  void chk(Prim p) {
    PrimFn* f = at(p, I64);
    f[0] = checked<Op, 0>, f[1] = checked<Op, 1>, f[2] = checked<Op, 2>;
  }
  template <class Op, class A, class T>
  void tern(Prim p, int type) {
    PrimFn* f = at(p, type);
    f[0] = ternary<Op, A, T, 0>, f[1] = ternary<Op, A, T, 1>, f[2] = ternary<Op, A, T, 2>,
    f[3] = ternary<Op, A, T, 3>;
    f[4] = ternary<Op, A, T, 4>, f[5] = ternary<Op, A, T, 5>, f[6] = ternary<Op, A, T, 6>;
  }
  template <class Op>
  void un_float(Prim p) {
    un<Op, float>(p, F32), un<Op, double>(p, F64);
  }
  template <class Op32, class Op64>
  void un_float2(Prim p) {
    un<Op32, float>(p, F32), un<Op64, double>(p, F64);
  }
  template <class Op>
  void bin_float(Prim p) {
    bin<Op, float>(p, F32), bin<Op, double>(p, F64);
  }
  template <class Op>
  void bin_number(Prim p) {
    bin_float<Op>(p), bin<Op, int64_t>(p, I64);
  }
  template <class Op>
  void compare(Prim p) {
    bin<Op, float, b8>(p, F32), bin<Op, double, b8>(p, F64), bin<Op, int64_t, b8>(p, I64),
        bin<Op, b8, b8>(p, B8);
  }
  template <class F, class S>
  void pair(First first, Second second) {
    PrimFn* f = t.chain[static_cast<int>(first)][static_cast<int>(second)];
    f[0] = chain<F, S, 0>, f[1] = chain<F, S, 1>, f[2] = chain<F, S, 2>;
    f[4] = chain<F, S, 4>, f[5] = chain<F, S, 5>, f[6] = chain<F, S, 6>;
  }
  template <class F>
  void pairs(First first) {
    pair<F, Add>(first, Second::kAdd), pair<F, Sub>(first, Second::kSub), pair<F, From>(first, Second::kFrom);
    pair<F, Mul>(first, Second::kMul);
  }
  void chains() {
    pairs<Add>(First::kAdd), pairs<Sub>(First::kSub), pairs<Mul>(First::kMul);
    pair<Lt, OrZero>(First::kLt, Second::kOrZero), pair<Gt, OrZero>(First::kGt, Second::kOrZero);
  }
  template <class R, class T, class Op>
  void red(int kind, int type) {
    t.reduce[kind][type] = {row_reduce<R, T>, col_reduce<R, T>,    lanes<R, T>,
                            fold<R, T>,       binary<Op, T, T, 0>, identity<R, T>};
  }
  template <class R, class Op>
  void red_number(int kind) {
    red<R, float, Op>(kind, F32), red<R, double, Op>(kind, F64), red<R, int64_t, Op>(kind, I64);
  }
  template <class Format>
  void format(DType s) {
    t.load[static_cast<int>(s)] = load<Format>, t.store[static_cast<int>(s)] = store<Format>;
  }

  void arithmetic() {
    bin_number<Add>(Prim::kAdd), bin_number<Sub>(Prim::kSub), bin_number<Mul>(Prim::kMul);
    bin_number<Max>(Prim::kMax), bin_number<Min>(Prim::kMin);
    bin<Or, b8>(Prim::kAdd, B8), bin<And, b8>(Prim::kMul, B8), bin<Or, b8>(Prim::kMax, B8),
        bin<And, b8>(Prim::kMin, B8);
    bin_float<Div>(Prim::kDiv), bin_float<FloorDivFloat>(Prim::kFloorDiv), bin_float<ModFloat>(Prim::kMod);
    bin_float<Fmod>(Prim::kFMod), bin_float<Atan2>(Prim::kAtan2), bin<Pow64, double>(Prim::kPow, F64);
    PrimFn* p = at(Prim::kPow, F32);
    p[0] = power<0>, p[1] = power<1>, p[2] = power<2>;
    chk<DivInt>(Prim::kDiv), chk<FloorDivInt>(Prim::kFloorDiv), chk<ModInt>(Prim::kMod),
        chk<FmodInt>(Prim::kFMod);
    bin<PowInt, int64_t>(Prim::kPow, I64), bin<Shl, int64_t>(Prim::kShl, I64),
        bin<Shr, int64_t>(Prim::kShr, I64);
    bin<And, int64_t>(Prim::kAnd, I64), bin<Or, int64_t>(Prim::kOr, I64), bin<Xor, int64_t>(Prim::kXor, I64);
    bin<And, b8>(Prim::kAnd, B8), bin<Or, b8>(Prim::kOr, B8), bin<Xor, b8>(Prim::kXor, B8);
    un<NotInt, int64_t>(Prim::kNot, I64), un<NotBool, b8>(Prim::kNot, B8);
    compare<Eq>(Prim::kEq), compare<Ne>(Prim::kNe), compare<Lt>(Prim::kLt), compare<Le>(Prim::kLe);
    compare<Gt>(Prim::kGt), compare<Ge>(Prim::kGe);
    tern<Select, b8, float>(Prim::kSelect, F32), tern<Select, b8, double>(Prim::kSelect, F64);
    tern<Select, b8, int64_t>(Prim::kSelect, I64), tern<Select, b8, b8>(Prim::kSelect, B8);
    tern<Fma, float, float>(Prim::kFma, F32), tern<Fma, double, double>(Prim::kFma, F64);
    tern<Fma, int64_t, int64_t>(Prim::kFma, I64);
  }
  void functions() {
    un_float<Neg>(Prim::kNeg), un<Neg, int64_t>(Prim::kNeg, I64);
    un_float<Abs>(Prim::kAbs), un<AbsInt, int64_t>(Prim::kAbs, I64), un<Copy, b8>(Prim::kAbs, B8);
    un_float<Sign>(Prim::kSign), un<SignInt, int64_t>(Prim::kSign, I64), un<Copy, b8>(Prim::kSign, B8);
    un_float2<Exp32, Exp64>(Prim::kExp), un_float2<Expm1_32, Expm1_64>(Prim::kExpm1);
    un_float2<Log32, Log64>(Prim::kLog), un_float2<Log1p_32, Log1p_64>(Prim::kLog1p);
    un_float<Sqrt>(Prim::kSqrt), un_float<Rsqrt>(Prim::kRsqrt);
    at(Prim::kSin, F32)[0] = trig<Sin32, Sin64>, at(Prim::kCos, F32)[0] = trig<Cos32, Cos64>;
    at(Prim::kTan, F32)[0] = trig<Tan32, Tan64>;
    un<Sin64, double>(Prim::kSin, F64), un<Cos64, double>(Prim::kCos, F64),
        un<Tan64, double>(Prim::kTan, F64);
    un_float2<Asin32, Asin>(Prim::kAsin), un_float2<Acos32, Acos>(Prim::kAcos),
        un_float2<Atan32, Atan>(Prim::kAtan);
    un_float2<Sinh32, Sinh>(Prim::kSinh), un_float2<Cosh32, Cosh>(Prim::kCosh),
        un_float2<Tanh32, Tanh64>(Prim::kTanh);
    un_float2<Asinh32, Asinh>(Prim::kAsinh), un_float2<Acosh32, Acosh>(Prim::kAcosh),
        un_float2<Atanh32, Atanh>(Prim::kAtanh);
    un_float2<Erf32, Erf64>(Prim::kErf), un_float<Erfinv>(Prim::kErfinv);
    un_float<Lgamma>(Prim::kLgamma), un_float<Digamma>(Prim::kDigamma);
    un_float<Floor>(Prim::kFloor), un_float<Ceil>(Prim::kCeil), un_float<Rint>(Prim::kRound),
        un_float<Trunc>(Prim::kTrunc);
    for (Prim p : {Prim::kFloor, Prim::kCeil, Prim::kRound, Prim::kTrunc})
      un<Copy, int64_t>(p, I64), un<Copy, b8>(p, B8);
    un<IsNan, float, b8>(Prim::kIsNan, F32), un<IsNan, double, b8>(Prim::kIsNan, F64);
    un<IsInf, float, b8>(Prim::kIsInf, F32), un<IsInf, double, b8>(Prim::kIsInf, F64);
    un<IsFinite, float, b8>(Prim::kIsFinite, F32), un<IsFinite, double, b8>(Prim::kIsFinite, F64);
    un<Never, int64_t, b8>(Prim::kIsNan, I64), un<Never, b8, b8>(Prim::kIsNan, B8);
    un<Never, int64_t, b8>(Prim::kIsInf, I64), un<Never, b8, b8>(Prim::kIsInf, B8);
    un<Always, int64_t, b8>(Prim::kIsFinite, I64), un<Always, b8, b8>(Prim::kIsFinite, B8);
  }
  template <class T, int From>
  void casts() {
    t.cast[From][F32] = unary<To<float>, T, float>, t.cast[From][F64] = unary<To<double>, T, double>;
    t.cast[From][I64] = unary<To<int64_t>, T, int64_t>, t.cast[From][B8] = unary<ToBool, T, b8>;
    t.expand[From] = expand<T>;
  }
  template <class Format>
  void rounding(DType to, bool integer) {
    PrimFn* f = t.round[static_cast<int>(to)];
    if (integer) {
      f[I64] = unary<Through<Format>, int64_t, int64_t>;
    } else {
      f[F32] = unary<Through<Format>, float, float>, f[F64] = unary<Through<Format>, double, double>;
    }
  }
  void types() {
    casts<float, F32>(), casts<double, F64>(), casts<int64_t, I64>(), casts<b8, B8>();
    rounding<Bf16>(DType::kBFloat16, false), rounding<F16>(DType::kFloat16, false);
    t.round[static_cast<int>(DType::kFloat32)][F64] = unary<Through<Plain<float, double>>, double, double>;
    rounding<Plain<uint8_t, int64_t>>(DType::kUInt8, true),
        rounding<Plain<int8_t, int64_t>>(DType::kInt8, true);
    rounding<Plain<int16_t, int64_t>>(DType::kInt16, true),
        rounding<Plain<int32_t, int64_t>>(DType::kInt32, true);
    t.narrow[static_cast<int>(DType::kUInt8)] = unary<Narrow<uint8_t>, int64_t, int64_t>;
    t.narrow[static_cast<int>(DType::kInt8)] = unary<Narrow<int8_t>, int64_t, int64_t>;
    t.narrow[static_cast<int>(DType::kInt16)] = unary<Narrow<int16_t>, int64_t, int64_t>;
    t.narrow[static_cast<int>(DType::kInt32)] = unary<Narrow<int32_t>, int64_t, int64_t>;
    format<Plain<b8, b8>>(DType::kBool), format<Plain<uint8_t, int64_t>>(DType::kUInt8);
    format<Plain<int8_t, int64_t>>(DType::kInt8), format<Plain<int16_t, int64_t>>(DType::kInt16);
    format<Plain<int32_t, int64_t>>(DType::kInt32), format<Plain<int64_t, int64_t>>(DType::kInt64);
    format<F16>(DType::kFloat16), format<Bf16>(DType::kBFloat16);
    format<Plain<float, float>>(DType::kFloat32), format<Plain<double, double>>(DType::kFloat64);
  }
  void reductions() {  // ReduceKind order
    red_number<RSum, Add>(1), red_number<RProd, Mul>(2), red_number<RMax, Max>(3), red_number<RMin, Min>(4);
    red<RAny, b8, Or>(3, B8), red<RAll, b8, And>(4, B8);  // max and min of booleans
    red<RAny, b8, Or>(5, B8), red<RAll, b8, And>(6, B8);
  }
};
Builder make_table() {
  Builder b;
  memset(&b, 0, sizeof b);
  b.arithmetic(), b.functions(), b.types(), b.reductions(), b.chains();
  b.t.attention_softmax = attention_softmax, b.t.attention_softmax_back = attention_softmax_back;
  b.t.row_dots = row_dots;
  using F32s = Plain<float, float>;
  b.t.nll_lse[0] = nll_lse<F32s>, b.t.nll_lse[1] = nll_lse<Bf16>;
  b.t.nll_dx[0][0] = nll_dx<F32s, F32s>, b.t.nll_dx[0][1] = nll_dx<F32s, Bf16>;
  b.t.nll_dx[1][0] = nll_dx<Bf16, F32s>, b.t.nll_dx[1][1] = nll_dx<Bf16, Bf16>;
  b.t.lstm_gates = lstm_gates, b.t.lstm_gates_back = lstm_gates_back;
  b.t.gru_gates = gru_gates, b.t.gru_gates_back = gru_gates_back;
  return b;
}
}  // namespace

const Table& TILE_TABLE() {
  static const Builder b = make_table();
  return b.t;
}

}  // namespace yuloh::tile
