// SPDX-License-Identifier: Apache-2.0
// The table of ONNX rules, operators that correspond one to one, and elementwise rows as their arithmetic.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "formats/onnx_write.h"
#include "ops/op.h"

namespace yuloh::formats {
namespace {
using G = OnnxGraph;
using Id = OnnxGraph::Id;

std::unordered_map<std::string_view, OnnxRule>& rules() {
  static auto* all = new std::unordered_map<std::string_view, OnnxRule>;
  return *all;
}

// ---- one to one, floating point: row, operator, "[row's name=]attribute" of type float, least opset ----
struct Plain {
  const char *row, *op, *attrs;
  int opset = 0;
};
// clang-format off
constexpr Plain kPlain[] = {
    {"abs", "Abs", ""}, {"acos", "Acos", ""}, {"acosh", "Acosh", ""}, {"asin", "Asin", ""},
    {"asinh", "Asinh", ""}, {"atan", "Atan", ""}, {"atanh", "Atanh", ""}, {"ceil", "Ceil", ""},
    {"cos", "Cos", ""}, {"cosh", "Cosh", ""}, {"erf", "Erf", ""}, {"exp", "Exp", ""}, {"floor", "Floor", ""},
    {"log", "Log", ""}, {"neg", "Neg", ""}, {"reciprocal", "Reciprocal", ""}, {"relu", "Relu", ""},
    {"sigmoid", "Sigmoid", ""}, {"sign", "Sign", ""}, {"sin", "Sin", ""}, {"sinh", "Sinh", ""},
    {"softsign", "Softsign", ""}, {"sqrt", "Sqrt", ""}, {"tan", "Tan", ""}, {"tanh", "Tanh", ""},
    {"assign", "Identity", ""}, {"leaky_relu", "LeakyRelu", "negative_slope=alpha"}, {"elu", "Elu", "alpha"},
    {"celu", "Celu", "alpha"}, {"selu", "Selu", "alpha scale=gamma"},
    {"hardsigmoid", "HardSigmoid", "slope=alpha offset=beta"}, {"hardshrink", "Shrink", "threshold=lambd"},
    {"softshrink", "Shrink", "threshold=lambd threshold=bias"}, {"mish", "Mish", "", 18},
    {"hardswish", "HardSwish", "", 14},
};
// clang-format on
const Plain* plain(std::string_view row, int opset) {
  for (const Plain& p : kPlain)
    if (row == p.row && opset >= p.opset) return &p;
  return nullptr;
}
// Runtimes compute in 32 bits and more; results of narrow integers wrap when cast back.
DType work_type(DType t) {
  return t == DType::kBool || (is_integral(t) && dtype_size(t) < 4) ? DType::kInt32 : t;
}

void write_plain(OnnxNode& n, const Plain& p) {
  const DType t = n.out[0].dtype, w = std::string_view(p.op) == "Identity" ? t : work_type(t);
  std::vector<G::Attr> attrs;
  std::istringstream words(p.attrs);
  for (std::string s; words >> s;) {
    const size_t eq = s.find('=');
    attrs.push_back({s.substr(eq == s.npos ? 0 : eq + 1), n.real(s.substr(0, eq))});
  }
  if (is_integral(w) && std::string_view("Ceil Floor").find(p.op) != std::string_view::npos)
    return n.done(n.g.cast(n.in[0], t));
  n.done(n.g.cast(n.g.op(p.op, {n.g.cast(n.in[0], w)}, w, std::move(attrs)), t));
}

// ---- primitives of elementwise expressions ----
class Arithmetic {
 public:
  explicit Arithmetic(OnnxNode& n) : n_(n), g(n.g) {}

  Id prim(Prim p, const std::vector<Id>& a) {
    const DType t = g.dtype(a[0]);
    switch (p) {
      case Prim::kAdd: return g.binary("Add", a[0], a[1]);
      case Prim::kSub: return g.binary("Sub", a[0], a[1]);
      case Prim::kMul: return g.binary("Mul", a[0], a[1]);
      case Prim::kDiv: return g.binary("Div", a[0], a[1]);
      case Prim::kMax: return g.binary("Max", a[0], a[1]);
      case Prim::kMin: return g.binary("Min", a[0], a[1]);
      case Prim::kPow: return g.binary("Pow", a[0], a[1]);
      case Prim::kFloorDiv:
        if (is_integral(t)) return g.binary("Div", g.binary("Sub", a[0], g.binary("Mod", a[0], a[1])), a[1]);
        return one("Floor", g.binary("Div", a[0], a[1]));
      case Prim::kFMod: return g.op("Mod", {a[0], a[1]}, t, {{"fmod", int64_t{1}}});
      case Prim::kMod: return mod(a[0], a[1]);
      case Prim::kAtan2: return atan2(a[0], a[1]);
      case Prim::kNeg: return one("Neg", a[0]);
      case Prim::kAbs: return one("Abs", a[0]);
      case Prim::kSign: return one("Sign", a[0]);
      case Prim::kExp: return one("Exp", a[0]);
      case Prim::kLog: return one("Log", a[0]);
      case Prim::kSqrt: return one("Sqrt", a[0]);
      case Prim::kRsqrt: return one("Reciprocal", one("Sqrt", a[0]));
      case Prim::kSin: return one("Sin", a[0]);
      case Prim::kCos: return one("Cos", a[0]);
      case Prim::kTan: return one("Tan", a[0]);
      case Prim::kAsin: return one("Asin", a[0]);
      case Prim::kAcos: return one("Acos", a[0]);
      case Prim::kAtan: return one("Atan", a[0]);
      case Prim::kSinh: return one("Sinh", a[0]);
      case Prim::kCosh: return one("Cosh", a[0]);
      case Prim::kTanh: return one("Tanh", a[0]);
      case Prim::kAsinh: return one("Asinh", a[0]);
      case Prim::kAcosh: return one("Acosh", a[0]);
      case Prim::kAtanh: return one("Atanh", a[0]);
      case Prim::kErf: return one("Erf", a[0]);
      case Prim::kErfinv: return erfinv(a[0]);
      case Prim::kFloor: return is_integral(t) ? a[0] : one("Floor", a[0]);
      case Prim::kCeil: return is_integral(t) ? a[0] : one("Ceil", a[0]);
      case Prim::kRound: return is_integral(t) ? a[0] : one("Round", a[0]);
      case Prim::kTrunc:
        if (is_integral(t)) return a[0];
        return g.full_where(test("Less", a[0], zero(t)), one("Ceil", a[0]), one("Floor", a[0]));
      case Prim::kExpm1: return expm1(a[0]);
      case Prim::kLog1p: return log1p(a[0]);
      case Prim::kIsNan: return is_integral(t) ? never(a[0]) : test("IsNaN", wide(a[0]));
      case Prim::kIsInf: return is_integral(t) ? never(a[0]) : test("IsInf", wide(a[0]));
      case Prim::kIsFinite:
        if (is_integral(t)) return test("Not", never(a[0]));
        return test("Not", test("Or", test("IsNaN", wide(a[0])), test("IsInf", wide(a[0]))));
      case Prim::kEq: return test("Equal", a[0], a[1]);
      case Prim::kNe: return test("Not", test("Equal", a[0], a[1]));
      case Prim::kLt: return compare("Less", a);
      case Prim::kLe: return compare("LessOrEqual", a);
      case Prim::kGt: return compare("Greater", a);
      case Prim::kGe: return compare("GreaterOrEqual", a);
      case Prim::kAnd: return t == DType::kBool ? g.binary("And", a[0], a[1]) : bits("BitwiseAnd", a);
      case Prim::kOr: return t == DType::kBool ? g.binary("Or", a[0], a[1]) : bits("BitwiseOr", a);
      case Prim::kXor: return t == DType::kBool ? g.binary("Xor", a[0], a[1]) : bits("BitwiseXor", a);
      case Prim::kNot: return t == DType::kBool ? one("Not", a[0]) : bits("BitwiseNot", a);
      case Prim::kShl: return g.binary("Mul", a[0], power_of_two(a[1], t));
      case Prim::kShr: return prim(Prim::kFloorDiv, {a[0], power_of_two(a[1], t)});
      case Prim::kSelect: return g.full_where(g.cast(a[0], DType::kBool), a[1], a[2]);
      case Prim::kFma: return g.binary("Add", g.binary("Mul", a[0], a[1]), a[2]);
      default: n_.cannot(cat("there is no operator for ", prim_info(p).name));
    }
  }

 private:
  Id one(const char* type, Id x) { return g.op(type, {x}, g.dtype(x)); }
  Id zero(DType t) { return g.number(0, t); }
  Id test(const char* type, Id a) { return g.op(type, {a}, DType::kBool); }
  Id test(const char* type, Id a, Id b) { return g.op(type, {a, b}, DType::kBool); }
  Id compare(const char* type, const std::vector<Id>& a) {
    const DType t = g.dtype(a[0]) == DType::kBool ? DType::kInt32 : g.dtype(a[0]);
    return test(type, g.cast(a[0], t), g.cast(a[1], t));
  }
  Id never(Id x) { return test("Not", test("Equal", x, x)); }
  Id wide(Id x) { return is_half(g.dtype(x)) ? g.cast(x, DType::kFloat32) : x; }
  Id bits(const char* type, const std::vector<Id>& a) {
    if (g.opset < 18) n_.cannot("bitwise operators need opset 18");
    return g.op(type, a, g.dtype(a[0]));
  }
  Id power_of_two(Id x, DType t) { return g.cast(g.op("Pow", {g.number(2, t), g.cast(x, t)}, t), t); }
  Id mod(Id a, Id b) {  // with the divisor's sign
    const DType t = g.dtype(a);
    if (is_integral(t)) return g.binary("Mod", a, b);
    const Id r = g.op("Mod", {a, b}, t, {{"fmod", int64_t{1}}});
    const Id other_sign = test("Xor", test("Less", r, zero(t)), test("Less", b, zero(t)));
    return g.full_where(test("And", test("Not", test("Equal", r, zero(t))), other_sign),
                        g.binary("Add", r, b), r);
  }
  Id atan2(Id y, Id x) {
    const DType t = g.dtype(y);
    const Id pi = g.number(M_PI, t), half = g.number(M_PI / 2, t), nothing = zero(t);
    const Id x_is_0 = test("Equal", x, nothing), down = test("Less", y, nothing),
             left = test("Less", x, nothing);
    const Id base = one("Atan", g.binary("Div", y, g.full_where(x_is_0, g.number(1, t), x)));
    const Id turned =
        g.binary("Add", base, g.full_where(left, g.full_where(down, one("Neg", pi), pi), nothing));
    const Id on_axis = g.binary("Mul", one("Sign", y), half);
    return g.full_where(x_is_0, on_axis, turned);
  }
  // exp(x) - 1 and log(1 + x) without cancellation: what rounding did to u is undone by the quotient (Kahan).
  Id expm1(Id x) {
    const DType t = g.dtype(x);
    const Id u = one("Exp", x), less = g.binary("Sub", u, g.number(1, t));
    const Id same = test("Equal", u, g.number(1, t)), low = test("Equal", less, g.number(-1, t));
    const Id plain = test("Or", low, test("Greater", one("Abs", x), g.number(0.5, t)));
    const Id logarithm = one("Log", g.full_where(test("Or", same, plain), g.number(2, t), u));
    return g.full_where(same, x,
                        g.full_where(plain, less, g.binary("Mul", less, g.binary("Div", x, logarithm))));
  }
  Id log1p(Id x) {
    const DType t = g.dtype(x);
    const Id u = g.binary("Add", x, g.number(1, t)), less = g.binary("Sub", u, g.number(1, t));
    const Id same = test("Equal", u, g.number(1, t)), large = test("Greater", x, g.number(1, t));
    const Id safe = g.full_where(test("Or", same, large), g.number(1, t), less);
    const Id fixed = g.binary("Mul", one("Log", u), g.binary("Div", x, safe));
    return g.full_where(same, x, g.full_where(large, one("Log", u), fixed));
  }
  // Two polynomials in -log(1 - x^2) (M. Giles, "Approximating the erfinv function", 2010): single precision.
  Id erfinv(Id x) {
    const DType t = g.dtype(x);
    if (t == DType::kFloat64) n_.cannot("the inverse error function in float64");
    const auto polynomial = [&](const std::vector<double>& c, Id w) {
      Id p = g.number(c[0], t);
      for (size_t k = 1; k < c.size(); ++k) p = g.binary("Add", g.number(c[k], t), g.binary("Mul", p, w));
      return p;
    };
    const Id minus = g.binary("Sub", g.number(1, t), x), plus = g.binary("Add", g.number(1, t), x);
    const Id w = one("Neg", g.binary("Add", one("Log", minus), one("Log", plus)));
    const Id small = polynomial({2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                                 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941},
                                g.binary("Sub", w, g.number(2.5, t)));
    const Id large = polynomial({-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                                 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682},
                                g.binary("Sub", one("Sqrt", g.binary("Max", w, zero(t))), g.number(3, t)));
    const Id inside = g.binary("Mul", g.full_where(test("Less", w, g.number(5, t)), small, large), x);
    const Id edge = test("Equal", one("Abs", x), g.number(1, t));
    return g.full_where(edge, g.binary("Mul", x, g.number(INFINITY, t)), inside);
  }
  OnnxNode& n_;
  G& g;
};

// ---- elementwise rows that are better named than written out ----
void cast(OnnxNode& n) { n.done(n.g.cast(n.in[0], n.out[0].dtype)); }
void pass(OnnxNode& n) { n.done(n.in[0]); }
template <Prim kPrim>
void binary(OnnxNode& n) {
  const DType t = n.promoted(), w = work_type(t);
  n.done(n.g.cast(Arithmetic(n).prim(kPrim, {n.g.cast(n.in[0], w), n.g.cast(n.in[1], w)}), n.out[0].dtype));
}
template <Prim kPrim>
void logical(OnnxNode& n) {
  std::vector<Id> in;
  for (Id id : n.in) in.push_back(n.g.cast(id, DType::kBool));
  n.done(Arithmetic(n).prim(kPrim, in));
}
template <Prim kPrim>
void bitwise(OnnxNode& n) {
  const DType t = n.promoted();
  std::vector<Id> in;
  for (Id id : n.in) in.push_back(n.g.cast(id, t));
  n.done(Arithmetic(n).prim(kPrim, in));
}
void divide(OnnxNode& n) {
  const DType t = n.out[0].dtype;
  n.done(n.g.binary("Div", n.g.cast(n.in[0], t), n.g.cast(n.in[1], t)));
}
void where(OnnxNode& n) {
  const DType t = n.out[0].dtype;
  n.done(n.g.full_where(n.g.cast(n.in[0], DType::kBool), n.g.cast(n.in[1], t), n.g.cast(n.in[2], t)));
}
void affine(OnnxNode& n) {  // x * scale / divisor + shift
  const DType t = n.out[0].dtype;
  Id x = n.g.cast(n.in[0], t);
  const auto step = [&](const char* op, const char* name, double neutral) {
    if (n.open(name) || n.real(name) != neutral) x = n.g.binary(op, x, n.real_id(name, t));
  };
  step("Mul", "scale", 1), step("Div", "divisor", 1), step("Add", "shift", 0);
  n.done(x);
}
void times_sigmoid(OnnxNode& n) {
  n.done(n.g.binary("Mul", n.in[0], n.g.op("Sigmoid", {n.in[0]}, n.out[0].dtype)));
}
void square(OnnxNode& n) {
  const Id x = n.g.cast(n.in[0], work_type(n.out[0].dtype));
  n.done(n.g.cast(n.g.binary("Mul", x, x), n.out[0].dtype));
}
void gelu(OnnxNode& n) {
  n.done(n.op("Gelu", {n.in[0]}, {{"approximate", std::string(n.flag("approximate") ? "tanh" : "none")}}));
}
void clip(OnnxNode& n) {
  const DType t = n.out[0].dtype, w = work_type(t);
  Id x = n.g.cast(n.in[0], w);
  const std::string& row = n.node.op->name;
  const Id low = row == "clip_high" ? 0 : n.g.cast(n.arg("min"), w),
           high = row == "clip_low" ? 0 : n.g.cast(n.arg("max"), w);
  if ((!low || n.g.rank(low) == 0) && (!high || n.g.rank(high) == 0))
    return n.done(n.g.cast(n.g.op("Clip", {x, low, high}, w), t));
  if (low) x = n.g.binary("Max", x, low);
  if (high) x = n.g.binary("Min", x, high);
  n.done(n.g.cast(x, t));
}

// clang-format off
const OnnxRules table{
    {"cast", {cast}}, {"leaf", {pass}}, {"add", {binary<Prim::kAdd>}}, {"subtract", {binary<Prim::kSub>}},
    {"multiply", {binary<Prim::kMul>}}, {"divide", {divide}}, {"maximum", {binary<Prim::kMax>}},
    {"minimum", {binary<Prim::kMin>}}, {"pow", {binary<Prim::kPow>}},
    {"floor_divide", {binary<Prim::kFloorDiv>}}, {"remainder", {binary<Prim::kMod>}},
    {"atan2", {binary<Prim::kAtan2>}}, {"equal", {binary<Prim::kEq>}}, {"not_equal", {binary<Prim::kNe>}},
    {"less_than", {binary<Prim::kLt>}}, {"less_equal", {binary<Prim::kLe>}},
    {"greater_than", {binary<Prim::kGt>}}, {"greater_equal", {binary<Prim::kGe>}},
    {"logical_and", {logical<Prim::kAnd>}}, {"logical_or", {logical<Prim::kOr>}},
    {"logical_xor", {logical<Prim::kXor>}}, {"logical_not", {logical<Prim::kNot>}},
    {"bitwise_and", {bitwise<Prim::kAnd>}}, {"bitwise_or", {bitwise<Prim::kOr>}},
    {"bitwise_xor", {bitwise<Prim::kXor>}}, {"bitwise_not", {bitwise<Prim::kNot>}}, {"where", {where}},
    {"affine", {affine}}, {"silu", {times_sigmoid}}, {"swish", {times_sigmoid}}, {"square", {square}},
    {"gelu", {gelu, 20}}, {"clip", {clip}}, {"clip_low", {clip}}, {"clip_high", {clip}}};
// clang-format on
}  // namespace

OnnxRules::OnnxRules(std::initializer_list<std::pair<const char*, OnnxRule>> rows) {
  for (const auto& [name, rule] : rows) rules().emplace(name, rule);
}
const OnnxRule* find_onnx_rule(const OpDef& op, int opset) {
  const auto it = rules().find(op.name);
  return it == rules().end() || opset < it->second.least_opset ? nullptr : &it->second;
}
std::string onnx_support(const OpDef& op, int opset) {
  if (find_onnx_rule(op, opset) || plain(op.name, opset)) return "operators";
  if (op.expand) return "body";
  if (!op.scalar && !op.expr) return "none";
  for (const ArgSpec& a : op.args)
    if (a.kind == ArgKind::kTensorList) return "none";
  return row_uses(op, [](Prim p) { return p == Prim::kLgamma || p == Prim::kDigamma; }) ? "none"
                                                                                        : "arithmetic";
}

void write_onnx_expression(OnnxNode& n) {
  if (n.out.size() != 1) n.cannot("ONNX has no such operator");
  if (!n.node.open.empty()) n.cannot("one of its numbers depends on the sizes of the inputs");
  Values dummies;  // types are enough for an expression
  for (Id id : n.in)
    dummies.push_back(make_input({n.g.dtype(id), Shape(static_cast<uint32_t>(n.g.rank(id)), 1)}, 0));
  const Call c(*n.node.op, dummies.data(), static_cast<uint32_t>(dummies.size()), n.node.attrs);
  const auto e = scalar_expr(c);
  const DType result = n.out[0].dtype;
  const DType work =
      is_half(result) ? DType::kFloat32 : work_type(result == DType::kBool ? n.promoted() : result);
  Arithmetic arithmetic(n);
  std::vector<Id> made(e->nodes.size());
  const auto number = [&](int at) {
    return n.g.cast(made[static_cast<size_t>(at)], n.g.dtype(made[static_cast<size_t>(at)]) == DType::kBool
                                                       ? work
                                                       : n.g.dtype(made[static_cast<size_t>(at)]));
  };
  for (size_t k = 0; k < e->nodes.size(); ++k) {
    const ExprNode& x = e->nodes[k];
    if (x.prim == Prim::kArg) {
      const Id id = n.in[static_cast<size_t>(x.a)];
      made[k] = n.g.dtype(id) == DType::kBool ? id : n.g.cast(id, work);
      continue;
    }
    if (x.prim == Prim::kConst) {
      made[k] = n.g.number(x.imm, work);
      continue;
    }
    if (x.prim == Prim::kCast) {
      made[k] = n.g.cast(made[static_cast<size_t>(x.a)], static_cast<DType>(static_cast<int>(x.imm)));
      continue;
    }
    const bool truth =
        x.prim == Prim::kAnd || x.prim == Prim::kOr || x.prim == Prim::kXor || x.prim == Prim::kNot;
    std::vector<Id> in;
    for (const int at : {x.a, x.b, x.c})
      if (at >= 0)
        in.push_back(truth || (x.prim == Prim::kSelect && in.empty()) ? made[static_cast<size_t>(at)]
                                                                      : number(at));
    if (truth)
      for (Id& id : in)
        if (std::any_of(in.begin(), in.end(), [&](Id o) { return n.g.dtype(o) == DType::kBool; }))
          id = n.g.cast(id, DType::kBool);
    made[k] = arithmetic.prim(x.prim, in);
  }
  n.done(n.g.cast(made[static_cast<size_t>(e->root)], result));
}

void write_onnx_node(OnnxNode& n) {
  const OpDef& op = *n.node.op;
  if (const OnnxRule* r = find_onnx_rule(op, n.g.opset)) r->write(n);
  else if (const Plain* p = plain(op.name, n.g.opset)) write_plain(n, *p);
  else if (op.scalar || op.expr) write_onnx_expression(n);
  else n.cannot("ONNX has no such operator");
}

}  // namespace yuloh::formats
