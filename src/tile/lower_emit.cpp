// SPDX-License-Identifier: Apache-2.0
#include "tile/lower_emit.h"

#include <array>
#include <bit>
#include <cmath>

namespace yuloh {
namespace {
using Kind = TileInstr::Kind;

int rank(CType t) {
  switch (t) {
    case CType::kB8: return 0;
    case CType::kI64: return 1;
    case CType::kF32: return 2;
    default: return 3;
  }
}
CType wider(CType a, CType b) { return rank(a) >= rank(b) ? a : b; }
bool is_real(CType t) { return t == CType::kF32 || t == CType::kF64; }

// Primitives that only exist over the reals: integer operands convert first.
bool needs_real(Prim p) {
  return p == Prim::kDiv || p == Prim::kAtan2 || (p >= Prim::kExp && p <= Prim::kErf) || p == Prim::kErfinv ||
         p == Prim::kLgamma || p == Prim::kDigamma;
}
bool rounds_to_int(Prim p) {
  return p == Prim::kFloor || p == Prim::kCeil || p == Prim::kRound || p == Prim::kTrunc;
}
bool is_compare(Prim p) { return p >= Prim::kEq && p <= Prim::kGe; }
bool is_class_test(Prim p) { return p >= Prim::kIsNan && p <= Prim::kIsFinite; }
bool is_bitwise(Prim p) { return p >= Prim::kAnd && p <= Prim::kNot; }

bool narrow(DType t) {  // storage narrower than the type it computes in
  return is_half(t) || (is_integral(t) && t != DType::kInt64 && t != DType::kBool);
}
bool representable(double v, DType t) {
  if (!narrow(t)) return true;
  unsigned char bits[8];
  store_double(bits, t, v);
  return load_double(bits, t) == v;
}
// Primitives whose result is one of, or as short as, their already rounded operands.
bool keeps_precision(Prim p, DType t) {
  if (p == Prim::kMax || p == Prim::kMin || p == Prim::kSelect) return true;
  return is_half(t) && (p == Prim::kNeg || p == Prim::kAbs || p == Prim::kSign || rounds_to_int(p));
}

uint64_t key_of(const TileInstr& i) {
  uint64_t h = std::bit_cast<uint64_t>(i.imm) * 0x9E3779B97F4A7C15ull;
  for (int w : {static_cast<int>(i.kind), static_cast<int>(i.prim), static_cast<int>(i.reduce),
                static_cast<int>(i.type), static_cast<int>(i.from), static_cast<int>(i.dtype), i.a, i.b, i.c,
                static_cast<int>(i.row)})
    h = (h ^ static_cast<uint32_t>(w)) * 0x100000001B3ull, h ^= h >> 29;
  return h;
}
bool same(const TileInstr& x, const TileInstr& y) {
  return x.kind == y.kind && x.prim == y.prim && x.reduce == y.reduce && x.type == y.type &&
         x.from == y.from && x.dtype == y.dtype && x.a == y.a && x.b == y.b && x.c == y.c && x.row == y.row &&
         std::bit_cast<uint64_t>(x.imm) == std::bit_cast<uint64_t>(y.imm);
}
bool reads_register(const TileInstr& i) {
  return i.kind != Kind::kLoad && !(i.kind == Kind::kPrim && i.prim == Prim::kConst);
}
}  // namespace

int Emitter::add(TileInstr i) {
  const uint64_t key = key_of(i);
  for (auto [it, end] = seen_.equal_range(key); it != end; ++it)
    if (same(instrs_[regs_[it->second].definition], i)) return it->second;
  i.dst = static_cast<int>(regs_.size());
  regs_.push_back({static_cast<int>(instrs_.size()), i.type, i.row});
  seen_.emplace(key, i.dst);
  instrs_.push_back(i);
  return i.dst;
}
int Emitter::load(int operand, DType dtype, bool row_operand) {
  const CType t = compute_type(dtype);
  return add({.kind = Kind::kLoad, .type = t, .from = t, .dtype = dtype, .a = operand, .row = row_operand});
}
void Emitter::store(int reg, int operand, DType dtype, bool row_operand) {
  reg = cast(reg, compute_type(dtype));
  if (!row_operand) reg = full(reg);
  instrs_.push_back({.kind = Kind::kStore,
                     .type = type(reg),
                     .from = type(reg),
                     .dtype = dtype,
                     .a = reg,
                     .b = operand,
                     .row = row_operand});
}
int Emitter::prim(Prim p, CType t, CType from, int a, int b, int c) {
  bool is_row = true;
  for (int k : {a, b, c}) is_row &= k < 0 || row(k);
  return add(
      {.kind = Kind::kPrim, .prim = p, .type = t, .from = from, .a = a, .b = b, .c = c, .row = is_row});
}
int Emitter::constant(double v, CType t) {
  if (t == CType::kF32) v = static_cast<double>(static_cast<float>(v));
  return add({.kind = Kind::kPrim, .prim = Prim::kConst, .type = t, .from = t, .imm = v, .row = true});
}
int Emitter::cast(int reg, CType to) { return type(reg) == to ? reg : prim(Prim::kCast, to, type(reg), reg); }
int Emitter::full(int reg) {
  if (!row(reg)) return reg;
  return add({.kind = Kind::kPrim, .prim = Prim::kCast, .type = type(reg), .from = type(reg), .a = reg});
}
int Emitter::round(int reg, DType dtype) {
  if (!narrow(dtype)) return reg;
  if (const double* v = number(reg)) {
    unsigned char bits[8];
    store_double(bits, dtype, *v);
    return constant(load_double(bits, dtype), type(reg));
  }
  return add({.kind = Kind::kRound,
              .type = type(reg),
              .from = type(reg),
              .dtype = dtype,
              .a = reg,
              .row = row(reg)});
}
int Emitter::row_reduce(int reg, ReduceKind kind) {
  reg = full(reg);
  return add({.kind = Kind::kRowReduce,
              .reduce = kind,
              .type = type(reg),
              .from = type(reg),
              .a = reg,
              .row = true});
}
void Emitter::accumulate(int reg, ReduceKind kind, bool columns, int operand, DType dtype) {
  reg = full(reg);
  instrs_.push_back({.kind = columns ? Kind::kColReduce : Kind::kAllReduce,
                     .reduce = kind,
                     .type = type(reg),
                     .from = type(reg),
                     .dtype = dtype,
                     .dst = n_accumulators_++,
                     .a = reg,
                     .b = operand});
}

// ---- expressions ----
int Emitter::as(const Val& v, CType t) { return v.is_const() ? constant(v.imm, t) : cast(v.reg, t); }

CType Emitter::common(const Val& a, const Val& b, CType fallback) const {
  if (a.is_const() && b.is_const()) return fallback;
  if (!a.is_const() && !b.is_const()) return wider(type(a.reg), type(b.reg));
  const CType t = type(a.is_const() ? b.reg : a.reg);
  const double imm = a.is_const() ? a.imm : b.imm;
  return !is_real(t) && (!std::isfinite(imm) || imm != std::floor(imm)) ? CType::kF32
                                                                        : t;  // 0.5 is no integer
}

const double* Emitter::number(int reg) const {
  const TileInstr& i = instrs_[regs_[reg].definition];
  return i.kind == Kind::kPrim && i.prim == Prim::kConst ? &i.imm : nullptr;
}

// Arithmetic on numbers, and identities that are exact for every operand, NaN and signed zero included (x + 0
// is not: -0). A gradient such as pow(x, y - 1) with a constant y shrinks to a product this way. -1: nothing
// to fold.
int Emitter::fold(Prim p, CType t, int a, int b) {
  const double *x = number(a), *y = b >= 0 ? number(b) : nullptr;
  auto is = [](const double* v, double want) { return v && *v == want; };
  if ((p == Prim::kMul || p == Prim::kDiv) && is(y, 1)) return a;
  if (p == Prim::kMul && is(x, 1)) return b;
  if (p == Prim::kSub && is(y, 0) && !std::signbit(*y)) return a;
  if (p == Prim::kPow && is(y, 1)) return a;
  if (p == Prim::kPow && is(y, 2) && is_real(t)) return prim(Prim::kMul, t, t, a, a);
  if (!x || !y || !is_real(t)) return -1;
  double r;
  switch (
      p) {  // one rounding to the compute type, as the kernels do (double holds f32 results closely enough)
    case Prim::kAdd: r = *x + *y; break;
    case Prim::kSub: r = *x - *y; break;
    case Prim::kMul: r = *x * *y; break;
    default: return -1;
  }
  return constant(t == CType::kF32 ? static_cast<double>(static_cast<float>(r)) : r, t);
}

Emitter::Val Emitter::apply_arithmetic(Prim p, const Val& a, const Val& b, const Val& c, CType op_type,
                                       DType out) {
  const int arity = prim_info(p).arity;
  CType t = arity == 1 ? (a.is_const() ? op_type : type(a.reg)) : common(a, b, op_type);
  if (arity == 3 && !c.is_const()) t = wider(t, type(c.reg));
  if (needs_real(p) && !is_real(t)) t = out == DType::kFloat64 ? CType::kF64 : CType::kF32;
  if (t == CType::kB8) t = CType::kI64;  // numbers made of booleans count
  if (rounds_to_int(p) && t == CType::kI64) return {as(a, t)};
  const int ra = as(a, t), rb = arity > 1 ? as(b, t) : -1;
  if (const int folded = fold(p, t, ra, rb); folded >= 0) return {folded};
  return {prim(p, t, t, ra, rb, arity > 2 ? as(c, t) : -1)};
}

Emitter::Val Emitter::apply(const ExprNode& n, const Val& a, const Val& b, const Val& c, CType op_type,
                            DType out) {
  const Prim p = n.prim;
  if (p == Prim::kSelect) {
    const CType t = common(b, c, op_type);
    const int condition = as(a, CType::kB8);
    if (const double* known = number(condition)) return {as(*known != 0 ? b : c, t)};
    return {prim(p, t, t, condition, as(b, t), as(c, t))};
  }
  if (p == Prim::kCast) {
    const DType to = static_cast<DType>(static_cast<int>(n.imm));
    return {round(as(a, compute_type(to)), to)};
  }
  if (is_compare(p)) {
    CType t = common(a, b, op_type);
    if (t == CType::kB8) t = CType::kI64;
    const int ra = as(a, t), rb = as(b, t);
    if (p == Prim::kEq && number(ra) && number(rb)) return {constant(*number(ra) == *number(rb), CType::kB8)};
    return {prim(p, CType::kB8, t, ra, rb)};
  }
  if (is_class_test(p)) {
    const CType t = a.is_const() ? CType::kF64 : type(a.reg);
    if (!is_real(t)) return {constant(p == Prim::kIsFinite, CType::kB8)};
    return {prim(p, CType::kB8, t, as(a, t))};
  }
  if (is_bitwise(p)) {
    const bool unary = p == Prim::kNot;
    CType t = unary ? (a.is_const() ? op_type : type(a.reg)) : common(a, b, op_type);
    if (is_real(t)) t = CType::kB8;  // logic on reals asks whether they are non-zero
    return {prim(p, t, t, as(a, t), unary ? -1 : as(b, t))};
  }
  if (p == Prim::kShl || p == Prim::kShr)
    return {prim(p, CType::kI64, CType::kI64, as(a, CType::kI64), as(b, CType::kI64))};
  return apply_arithmetic(p, a, b, c, op_type, out);
}

int Emitter::expression(const Expr& e, const std::vector<int>& args, const std::vector<DType>& arg_dtypes,
                        DType out, bool* exact) {
  *exact = true;
  if (e.root < 0) return constant(0, compute_type(out));
  CType op_type = CType::kB8;  // what constants become where no operand says it
  bool any = false;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i] >= 0) op_type = wider(op_type, compute_type(arg_dtypes[i])), any = true;
  if (!any) op_type = compute_type(out);
  std::vector<Val> vals(e.nodes.size());
  std::vector<char> live(e.nodes.size(), 0), short_enough(e.nodes.size(), 0);
  live[e.root] = 1;
  for (int i = e.root; i >= 0; --i)
    if (live[i] && e.nodes[i].prim != Prim::kArg)
      for (int k : {e.nodes[i].a, e.nodes[i].b, e.nodes[i].c})
        if (k >= 0) live[k] = 1;
  for (int i = 0; i <= e.root; ++i) {
    if (!live[i]) continue;
    const ExprNode& n = e.nodes[i];
    if (n.prim == Prim::kArg) {
      vals[i] = {args[n.a]};
      short_enough[i] = arg_dtypes[n.a] == out || !narrow(out);
    } else if (n.prim == Prim::kConst) {
      vals[i] = {-1, n.imm};
      short_enough[i] = representable(n.imm, out);
    } else {
      auto at = [&](int k) { return k < 0 ? Val{} : vals[k]; };
      vals[i] = apply(n, at(n.a), at(n.b), at(n.c), op_type, out);
      short_enough[i] = keeps_precision(n.prim, out) ||
                        (n.prim == Prim::kCast && static_cast<int>(n.imm) == static_cast<int>(out));
      if (n.prim != Prim::kCast)
        for (int k : {n.a, n.b, n.c})
          if (k >= 0 && !(n.prim == Prim::kSelect && k == n.a)) short_enough[i] &= short_enough[k];
    }
  }
  *exact = short_enough[e.root];
  return as(vals[e.root], compute_type(out));
}

// ---- the final list ----
// Results nobody uses are dropped and registers renumbered. The list stays in single-assignment form: the
// device decides which registers share memory.
void Emitter::finish(TileProgram* p) {
  auto is_sink = [](const TileInstr& x) {
    return x.kind == Kind::kStore || x.kind == Kind::kColReduce || x.kind == Kind::kAllReduce;
  };
  auto operands = [&](TileInstr& x) {  // `b` of a sink and `a` of a load are memory operands, not registers
    return std::array<int*, 3>{reads_register(x) ? &x.a : nullptr,
                               reads_register(x) && !is_sink(x) ? &x.b : nullptr, &x.c};
  };
  std::vector<char> used(regs_.size(), 0), live(instrs_.size(), 0);
  for (size_t i = instrs_.size(); i-- > 0;) {
    if (!is_sink(instrs_[i]) && !used[instrs_[i].dst]) continue;
    live[i] = 1;
    for (int* r : operands(instrs_[i]))
      if (r && *r >= 0) used[*r] = 1;
  }
  std::vector<int> number(regs_.size(), -1);
  for (size_t i = 0; i < instrs_.size(); ++i) {
    if (!live[i]) continue;
    TileInstr x = instrs_[i];
    for (int* r : operands(x))
      if (r && *r >= 0) *r = number[*r];
    if (!is_sink(x)) x.dst = number[x.dst] = p->n_regs++;
    p->instrs.push_back(x);
  }
}

}  // namespace yuloh
