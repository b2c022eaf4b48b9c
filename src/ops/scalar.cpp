// SPDX-License-Identifier: Apache-2.0
#include "ops/scalar.h"

#include <cmath>

#include "base/error.h"

namespace yuloh {
namespace {
// clang-format off
constexpr PrimInfo kPrims[kNumPrims] = {
    {"arg", 0, false}, {"const", 0, false}, {"add", 2, false}, {"sub", 2, false}, {"mul", 2, false},
    {"div", 2, false}, {"floor_div", 2, false}, {"mod", 2, false}, {"max", 2, false}, {"min", 2, false},
    {"pow", 2, false}, {"atan2", 2, false}, {"fmod", 2, false}, {"neg", 1, false}, {"abs", 1, false},
    {"sign", 1, false}, {"exp", 1, false}, {"expm1", 1, false}, {"log", 1, false}, {"log1p", 1, false},
    {"sqrt", 1, false}, {"rsqrt", 1, false}, {"sin", 1, false}, {"cos", 1, false}, {"tan", 1, false},
    {"asin", 1, false}, {"acos", 1, false}, {"atan", 1, false}, {"sinh", 1, false}, {"cosh", 1, false},
    {"tanh", 1, false}, {"asinh", 1, false}, {"acosh", 1, false}, {"atanh", 1, false}, {"erf", 1, false},
    {"floor", 1, false}, {"ceil", 1, false}, {"round", 1, false}, {"trunc", 1, false}, {"erfinv", 1, false},
    {"lgamma", 1, false}, {"digamma", 1, false}, {"isnan", 1, true}, {"isinf", 1, true},
    {"isfinite", 1, true}, {"eq", 2, true}, {"ne", 2, true}, {"lt", 2, true}, {"le", 2, true},
    {"gt", 2, true}, {"ge", 2, true}, {"and", 2, false}, {"or", 2, false}, {"xor", 2, false},
    {"not", 1, false}, {"shl", 2, false}, {"shr", 2, false}, {"select", 3, false}, {"fma", 3, false},
    {"cast", 1, false},
};
// clang-format on
thread_local Expr* g_expr = nullptr;
}  // namespace

const PrimInfo& prim_info(Prim p) { return kPrims[static_cast<int>(p)]; }

int Expr::add(ExprNode n) {
  auto is_const = [&](int i, double v) {
    return i >= 0 && nodes[i].prim == Prim::kConst && nodes[i].imm == v;
  };
  if (n.prim == Prim::kMul) {  // exact for every operand, NaN and signed zero included
    if (is_const(n.b, 1)) return n.a;
    if (is_const(n.a, 1)) return n.b;
  }
  if (n.prim == Prim::kDiv && is_const(n.b, 1)) return n.a;
  if (n.prim == Prim::kNeg && nodes[n.a].prim == Prim::kConst)
    n = {Prim::kConst, -1, -1, -1, -nodes[n.a].imm};
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] == n) return static_cast<int>(i);
  nodes.push_back(n);
  return static_cast<int>(nodes.size()) - 1;
}

bool Expr::uses_arg(int arg) const {
  if (root < 0) return false;
  std::vector<char> live(nodes.size(), 0);
  live[root] = 1;
  for (int i = root; i >= 0; --i) {
    if (!live[i]) continue;
    const ExprNode& n = nodes[i];
    if (n.prim == Prim::kArg) {
      if (n.a == arg) return true;
      continue;
    }
    for (int k : {n.a, n.b, n.c})
      if (k >= 0) live[k] = 1;
  }
  return false;
}

void Expr::prune() {
  if (root < 0) return;
  std::vector<int> to(nodes.size(), 0);
  to[root] = 1;
  auto is_leaf = [](const ExprNode& n) { return n.prim == Prim::kArg || n.prim == Prim::kConst; };
  for (int i = root; i >= 0; --i)
    if (to[i] && !is_leaf(nodes[i]))
      for (int k : {nodes[i].a, nodes[i].b, nodes[i].c})
        if (k >= 0) to[k] = 1;
  std::vector<ExprNode> kept;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!to[i]) continue;
    ExprNode n = nodes[i];
    if (!is_leaf(n))
      for (int16_t* k : {&n.a, &n.b, &n.c})
        if (*k >= 0) *k = static_cast<int16_t>(to[*k]);
    to[i] = static_cast<int>(kept.size());
    kept.push_back(n);
  }
  root = to[root];
  nodes = std::move(kept);
}

std::string to_string(const Expr& e) {
  std::string s;
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ExprNode& n = e.nodes[i];
    s += cat("%", i, " = ", prim_info(n.prim).name);
    if (n.prim == Prim::kArg) s += cat(" ", n.a);
    else if (n.prim == Prim::kConst) s += cat(" ", n.imm);
    else
      for (int k : {n.a, n.b, n.c})
        if (k >= 0) s += cat(" %", k);
    s += "; ";
  }
  return s + cat("return %", e.root);
}

ExprScope::ExprScope(Expr* e) : saved(g_expr) { g_expr = e; }
ExprScope::~ExprScope() { g_expr = saved; }

Scalar::Scalar(double v) : id(g_expr->add({Prim::kConst, -1, -1, -1, v})) {}
Scalar Scalar::arg(int i) {
  return Scalar(Raw{}, g_expr->add({Prim::kArg, static_cast<int16_t>(i), -1, -1, 0}));
}
Scalar Scalar::make(Prim p, const Scalar* a, const Scalar* b, const Scalar* c, double imm) {
  auto at = [](const Scalar* s) { return static_cast<int16_t>(s ? s->id : -1); };
  return Scalar(Raw{}, g_expr->add({p, at(a), at(b), at(c), imm}));
}

namespace {
// Local derivatives of one primitive: adjoints of its operands given the adjoint g of its result.
// d[k] stays unset (nullptr) where the derivative is identically zero.
struct Adjoint {
  Scalar a, b, c, y, g;  // operands, result, adjoint
};
using Rule = void (*)(const Adjoint& s, const Scalar* (&out)[3], Scalar* tmp);
const double kTwoOverSqrtPi = 1.1283791670955126;

#define RULE1(expr)                                       \
  [](const Adjoint& s, const Scalar*(&o)[3], Scalar* t) { \
    const Scalar &x = s.a, &y = s.y, &g = s.g;            \
    (void)x;                                              \
    (void)y;                                              \
    t[0] = (expr);                                        \
    o[0] = &t[0];                                         \
  }
#define RULE2(ea, eb)                                     \
  [](const Adjoint& s, const Scalar*(&o)[3], Scalar* t) { \
    const Scalar &x = s.a, &y = s.b, &z = s.y, &g = s.g;  \
    (void)x;                                              \
    (void)y;                                              \
    (void)z;                                              \
    t[0] = (ea);                                          \
    t[1] = (eb);                                          \
    o[0] = &t[0];                                         \
    o[1] = &t[1];                                         \
  }

Rule rule_of(Prim p) {
  switch (p) {
    case Prim::kAdd: return RULE2(g, g);
    case Prim::kSub: return RULE2(g, -g);
    case Prim::kMul: return RULE2(g * y, g * x);
    case Prim::kDiv: return RULE2(g / y, -(g * (x / y)) / y);
    case Prim::kMod: return RULE2(g, -(g * floor(x / y)));
    case Prim::kFMod: return RULE2(g, -(g * trunc(x / y)));
    case Prim::kMax: return RULE2(select(x > y, g, Scalar(0.0)), select(x > y, Scalar(0.0), g));
    case Prim::kMin: return RULE2(select(x < y, g, Scalar(0.0)), select(x < y, Scalar(0.0), g));
    case Prim::kPow:
      return RULE2(select(y == Scalar(0.0), Scalar(0.0), g * (y * pow(x, y - Scalar(1.0)))),
                   select(select(x == Scalar(0.0), y >= Scalar(0.0), Scalar(0.0) > Scalar(1.0)), Scalar(0.0),
                          g * (z * log(x))));
    case Prim::kAtan2: return RULE2(g * y / (x * x + y * y), -(g * x) / (x * x + y * y));
    case Prim::kNeg: return RULE1(-g);
    case Prim::kAbs: return RULE1(g * sign(x));
    case Prim::kExp: return RULE1(g * y);
    case Prim::kExpm1: return RULE1(g * (y + Scalar(1.0)));
    case Prim::kLog: return RULE1(g / x);
    case Prim::kLog1p: return RULE1(g / (x + Scalar(1.0)));
    case Prim::kSqrt: return RULE1(g * Scalar(0.5) / y);
    case Prim::kRsqrt: return RULE1(g * Scalar(-0.5) * (y * y * y));
    case Prim::kSin: return RULE1(g * cos(x));
    case Prim::kCos: return RULE1(-(g * sin(x)));
    case Prim::kTan: return RULE1(g * (y * y + Scalar(1.0)));
    case Prim::kAsin: return RULE1(g / sqrt(Scalar(1.0) - x * x));
    case Prim::kAcos: return RULE1(-g / sqrt(Scalar(1.0) - x * x));
    case Prim::kAtan: return RULE1(g / (x * x + Scalar(1.0)));
    case Prim::kSinh: return RULE1(g * cosh(x));
    case Prim::kCosh: return RULE1(g * sinh(x));
    case Prim::kTanh: return RULE1(g * (Scalar(1.0) - y * y));
    case Prim::kAsinh: return RULE1(g / sqrt(x * x + Scalar(1.0)));
    case Prim::kAcosh: return RULE1(g / sqrt(x * x - Scalar(1.0)));
    case Prim::kAtanh: return RULE1(g / (Scalar(1.0) - x * x));
    case Prim::kErf: return RULE1(g * Scalar(kTwoOverSqrtPi) * exp(-(x * x)));
    case Prim::kErfinv: return RULE1(g * Scalar(0.5 * 1.7724538509055159) * exp(y * y));
    case Prim::kLgamma: return RULE1(g * digamma(x));
    case Prim::kFma:
      return [](const Adjoint& s, const Scalar*(&o)[3], Scalar* t) {
        t[0] = s.g * s.b, t[1] = s.g * s.a, t[2] = s.g;
        for (int i = 0; i < 3; ++i) o[i] = &t[i];
      };
    case Prim::kSelect:
      return [](const Adjoint& s, const Scalar*(&o)[3], Scalar* t) {
        t[1] = select(s.a, s.g, Scalar(0.0)), t[2] = select(s.a, Scalar(0.0), s.g);
        o[1] = &t[1], o[2] = &t[2];
      };
    default: return nullptr;  // piecewise constant, boolean, integer
  }
}
#undef RULE1
#undef RULE2
}  // namespace

Expr differentiate(const Expr& e, int arg, int n_args) {
  Expr d = e;
  d.root = -1;
  if (e.root < 0) return d;
  ExprScope scope(&d);
  std::vector<int> adj(e.nodes.size(), -1);  // adjoint expression of each node of e
  // Only nodes on a path from `arg` matter.
  std::vector<char> depends(e.nodes.size(), 0);
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ExprNode& n = e.nodes[i];
    depends[i] = n.prim == Prim::kArg ? n.a == arg : false;
    if (n.prim == Prim::kArg || n.prim == Prim::kConst) continue;
    for (int k : {n.a, n.b, n.c})
      if (k >= 0 && depends[k]) depends[i] = 1;
  }
  if (!depends[e.root]) return d;
  adj[e.root] = Scalar::arg(n_args).id;
  auto handle = [](int id) {
    Scalar s = Scalar::arg(0);
    s.id = id;
    return s;
  };
  int total = -1;
  for (int i = e.root; i >= 0; --i) {
    if (adj[i] < 0 || !depends[i]) continue;
    const ExprNode n = e.nodes[i];
    if (n.prim == Prim::kArg) {
      total = total < 0 ? adj[i] : (handle(total) + handle(adj[i])).id;
      continue;
    }
    const Rule rule = rule_of(n.prim);
    if (!rule) continue;
    auto operand = [&](int k) { return handle(k < 0 ? i : k); };
    const Adjoint s{operand(n.a), operand(n.b), operand(n.c), handle(i), handle(adj[i])};
    const Scalar* out[3] = {nullptr, nullptr, nullptr};
    Scalar tmp[3] = {s.g, s.g, s.g};
    rule(s, out, tmp);
    const int args[3] = {n.a, n.b, n.c};
    for (int k = 0; k < 3; ++k) {
      if (!out[k] || args[k] < 0 || !depends[args[k]]) continue;
      int& slot = adj[args[k]];
      slot = slot < 0 ? out[k]->id : (handle(slot) + *out[k]).id;
    }
  }
  d.root = total;
  d.prune();
  return d;
}

}  // namespace yuloh
