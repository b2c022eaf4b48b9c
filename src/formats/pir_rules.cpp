// SPDX-License-Identifier: Apache-2.0
// What rows of the op table become in a PIR program (layers: pir_rules_nn.cpp; making, arranging, reducing:
// pir_rules_shape.cpp). First a table for operators that correspond one to one, then functions for the
// others, then the arithmetic of elementwise rows that have neither.
#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "formats/pir_write.h"

namespace yuloh::formats {
namespace {
using G = PirGraph;
using Id = PirGraph::Id;

DType promoted(const PirNode& n) {
  DType t = n.g.type(n.in[0]).dtype;
  for (Id id : n.in) t = promote(t, n.g.type(id).dtype);
  return t;
}

// ---- one to one: row, operator, "argument as attribute": [row's name=]name:kind ----
// `@name`: passed as a tensor of int64
struct Plain {
  const char *row, *op, *args;
};
// clang-format off
constexpr Plain kPlain[] = {
    {"abs", "abs", ""}, {"acos", "acos", ""}, {"acosh", "acosh", ""}, {"asin", "asin", ""},
    {"asinh", "asinh", ""}, {"atan", "atan", ""}, {"atanh", "atanh", ""}, {"ceil", "ceil", ""},
    {"cos", "cos", ""}, {"cosh", "cosh", ""}, {"erf", "erf", ""}, {"erfinv", "erfinv", ""},
    {"exp", "exp", ""}, {"expm1", "expm1", ""}, {"floor", "floor", ""}, {"lgamma", "lgamma", ""},
    {"log", "log", ""}, {"log10", "log10", ""}, {"log1p", "log1p", ""}, {"log2", "log2", ""},
    {"reciprocal", "reciprocal", ""}, {"rsqrt", "rsqrt", ""}, {"sign", "sign", ""}, {"sin", "sin", ""},
    {"sinh", "sinh", ""}, {"sqrt", "sqrt", ""}, {"square", "square", ""}, {"tan", "tan", ""},
    {"tanh", "tanh", ""}, {"trunc", "trunc", ""}, {"isnan", "isnan", ""}, {"isinf", "isinf", ""},
    {"isfinite", "isfinite", ""}, {"relu", "relu", ""}, {"relu6", "relu6", ""}, {"sigmoid", "sigmoid", ""},
    {"silu", "silu", ""}, {"softsign", "softsign", ""}, {"tanhshrink", "tanh_shrink", ""},
    {"swish", "swish", ""}, {"hardswish", "hardswish", ""}, {"log_sigmoid", "logsigmoid", ""},
    {"logical_not", "logical_not", ""}, {"bitwise_not", "bitwise_not", ""}, {"assign", "assign", ""},
    {"round", "round", "decimals:i32"}, {"softplus", "softplus", "beta:f64 threshold:f64"},
    {"softshrink", "softshrink", "threshold:f32"}, {"hardshrink", "hardshrink", "threshold:f32"},
    {"elu", "elu", "alpha:f32"}, {"celu", "celu", "alpha:f32"}, {"selu", "selu", "scale:f32 alpha:f32"},
    {"gelu", "gelu", "approximate:bool"}, {"leaky_relu", "leaky_relu", "negative_slope:f64"},
    {"hardsigmoid", "hardsigmoid", "slope:f32 offset:f32"},
    {"hardtanh", "hardtanh", "min=t_min:f32 max=t_max:f32"},
    {"thresholded_relu", "thresholded_relu", "threshold:f32 value:f32"},
    {"stanh", "stanh", "scale_a:f32 scale_b:f32"}, {"flatten", "flatten", "start_axis:i32 stop_axis:i32"},
    {"transpose", "transpose", "perm:i32s"}, {"flip", "flip", "axis:i32s"}, {"tril", "tril", "diagonal:i32"},
    {"triu", "triu", "diagonal:i32"}, {"squeeze", "squeeze", "@axis"}, {"unsqueeze", "unsqueeze", "@axis"},
    {"tile", "tile", "@repeat_times"}, {"reshape", "reshape", "@shape"},
    {"view_as_shape", "reshape", "@shape"}, {"all", "all", "axis:i64s keepdim:bool"},
    {"any", "any", "axis:i64s keepdim:bool"}, {"amax", "amax", "axis:i64s keepdim:bool"},
    {"amin", "amin", "axis:i64s keepdim:bool"}, {"mean", "mean", "@axis keepdim:bool"},
    {"max", "max", "@axis keepdim:bool"}, {"min", "min", "@axis keepdim:bool"},
    {"gather_nd", "gather_nd", ""}, {"index_select", "index_select", "axis:i32"},
    {"scatter_nd_add", "scatter_nd_add", ""}, {"index_sample", "index_sample", ""},
    {"argsort", "argsort", "axis:i32 descending:bool stable:bool"},
    {"pixel_shuffle", "pixel_shuffle", "upscale_factor:i32 data_format:str"},
    {"matmul", "matmul", "transpose_x:bool transpose_y:bool"},
};
// clang-format on

G::Attr attribute(PirNode& n, const std::string& row, const std::string& name, const std::string& kind) {
  const char* to = name.c_str();
  if (n.open(row)) n.cannot(cat("`", row, "` depends on the sizes of the inputs"));
  if (kind == "i32") return G::i32(to, n.integer(row));
  if (kind == "i64") return G::i64(to, n.integer(row));
  if (kind == "f32") return G::f32(to, n.real(row));
  if (kind == "f64") return G::f64(to, n.real(row));
  if (kind == "bool") return G::flag(to, n.flag(row));
  if (kind == "str") return G::text(to, n.text(row));
  const Ints v = n.none(row) ? Ints() : n.ints(row);
  return kind == "i32s" ? G::i32s(to, v) : G::i64s(to, v);
}

void write_plain(PirNode& n, const Plain& p) {
  std::vector<Id> in = n.in;
  std::vector<G::Attr> attrs;
  std::istringstream words(p.args);
  for (std::string w; words >> w;) {
    if (w[0] == '@') {
      in.push_back(n.none(w.substr(1)) ? n.g.ints({}) : n.sizes(w.substr(1)));
    } else {
      const size_t colon = w.find(':'), eq = w.find('=');
      const std::string name = w.substr(eq == w.npos ? 0 : eq + 1, colon - (eq == w.npos ? 0 : eq + 1));
      attrs.push_back(attribute(n, eq == w.npos ? name : w.substr(0, eq), name, w.substr(colon + 1)));
    }
  }
  if (std::string_view(p.op) == "matmul") {
    const DType t = promoted(n);
    for (Id& id : in) id = n.g.cast(id, t);
  }
  if (std::string_view(p.op) == "argsort") {
    n.result = {n.g.ops("argsort", in, attrs, {{n.g.type(in[0]).dtype, n.out[0].dims}, n.out[0]})[1]};
    return;
  }
  n.done(n.g.op(p.op, in, attrs, n.out[0]));
}

// ---- elementwise with two operands: both in the promoted dtype ----
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&s)[N]) { std::copy(s, s + N, text); }
};
template <Name kOp>
void binary(PirNode& n) {
  const DType t = promoted(n);
  n.done(n.g.op(kOp.text, {n.g.cast(n.in[0], t), n.g.cast(n.in[1], t)}, {}, n.out[0]));
}
template <Name kOp>
void in_result_type(PirNode& n) {  // division of integers is in floating point
  const DType t = n.out[0].dtype;
  n.done(n.g.op(kOp.text, {n.g.cast(n.in[0], t), n.g.cast(n.in[1], t)}, {}, n.out[0]));
}
Id zeros_of(G& g, const std::vector<Id>& operands, DType t, const std::vector<int64_t>& dims);
void atan2(PirNode& n) {  // does not broadcast
  const DType t = n.out[0].dtype;
  std::vector<Id> in;
  for (Id id : n.in) {
    id = n.g.cast(id, t);
    in.push_back(n.g.type(id).dims == n.out[0].dims
                     ? id
                     : n.g.op("add", {id, zeros_of(n.g, n.in, t, n.out[0].dims)}, {}, n.out[0]));
  }
  n.done(n.g.op("atan2", in, {}, n.out[0]));
}
// The shape of a number beside a value: [1] where it broadcasts, as oneDNN's operators in Paddle know no
// value without axes.
std::vector<int64_t> beside(const std::vector<int64_t>& dims) {
  return dims.empty() ? dims : std::vector<int64_t>{1};
}
void affine(PirNode& n) {  // x * scale / divisor + shift
  Id x = n.in[0];
  const DType t = n.out[0].dtype;
  const PirType same{t, n.out[0].dims};
  x = n.g.cast(x, t);
  const auto step = [&](const char* op, const char* name, double neutral) {
    if (n.open(name))
      x = n.g.op(op,
                 {x, n.g.cast(n.g.op("reshape", {n.sizes(name), n.g.ints({})}, {}, {DType::kInt64, {}}), t)},
                 {}, same);
    else if (n.real(name) != neutral)
      x = n.g.op(op, {x, n.g.number(n.real(name), t, beside(same.dims))}, {}, same);
  };
  step("multiply", "scale", 1), step("divide", "divisor", 1), step("add", "shift", 0);
  n.done(x);
}
void scale(PirNode& n) {
  const DType t = n.out[0].dtype;
  Id x = n.g.cast(n.in[0], t);
  const Id s = n.g.cast(n.arg("scale"), t), b = n.g.cast(n.arg("bias"), t);
  if (n.flag("bias_after_scale"))
    x = n.g.op("add", {n.g.op("multiply", {x, s}, {}, n.out[0]), b}, {}, n.out[0]);
  else x = n.g.op("multiply", {n.g.op("add", {x, b}, {}, n.out[0]), s}, {}, n.out[0]);
  n.done(x);
}
void clip(PirNode& n) {
  const DType t = n.out[0].dtype;
  const Id low = n.g.cast(n.arg("min"), t), high = n.g.cast(n.arg("max"), t);
  n.done(
      n.g.op("minimum", {n.g.op("maximum", {n.g.cast(n.in[0], t), low}, {}, n.out[0]), high}, {}, n.out[0]));
}
// Paddle's `where` does not broadcast: operands are brought to the shape of the result by adding zeros of
// that shape.
Id zeros_of(G& g, const std::vector<Id>& operands, DType t, const std::vector<int64_t>& dims) {
  Id z = 0;
  for (Id id : operands) {
    const Id one = g.op("full_like", {id, g.number(0, t, {1})}, {G::dtype("dtype", t), G::place()},
                        {t, g.type(id).dims});
    z = z ? g.op("add", {z, one}, {}, {t, dims}) : one;
  }
  return z;
}
Id select(G& g, Id condition, Id x, Id y, const PirType& out) {
  const std::vector<Id> operands{condition, x, y};
  bool alike = true;
  for (Id id : operands) alike = alike && g.type(id).dims == out.dims;
  if (!alike) {
    if (g.type(condition).dims != out.dims)
      condition = g.op("logical_or",
                       {condition, g.cast(zeros_of(g, operands, DType::kInt32, out.dims), DType::kBool)}, {},
                       {DType::kBool, out.dims});
    for (Id* id : {&x, &y})
      if (g.type(*id).dims != out.dims)
        *id = g.op("add", {*id, zeros_of(g, operands, out.dtype, out.dims)}, {}, out);
  }
  return g.op("where", {condition, x, y}, {}, out);
}
void where(PirNode& n) {
  const DType t = n.out[0].dtype;
  n.done(select(n.g, n.in[0], n.g.cast(n.in[1], t), n.g.cast(n.in[2], t), n.out[0]));
}
void embedding(PirNode& n) {
  n.done(n.g.op("embedding", {n.in[0], n.in[1]},
                {G::i64("padding_idx", n.none("padding_idx") ? -1 : n.integer("padding_idx")),
                 G::flag("sparse", false)},
                n.out[0]));
}
void cast(PirNode& n) { n.done(n.g.op("cast", {n.in[0]}, {G::dtype("dtype", n.out[0].dtype)}, n.out[0])); }
void pass(PirNode& n) { n.done(n.in[0]); }
void softmax(PirNode& n) {
  n.done(n.g.op(n.node.op->name.c_str(), {n.g.cast(n.in[0], n.out[0].dtype)},
                {G::i32("axis", n.integer("axis"))}, n.out[0]));
}
void neg(PirNode& n) {
  n.done(n.g.op("multiply", {n.in[0], n.g.number(-1, n.out[0].dtype, beside(n.out[0].dims))}, {}, n.out[0]));
}

std::unordered_map<std::string_view, PirRule>& rules() {
  static auto* all = new std::unordered_map<std::string_view, PirRule>;
  return *all;
}
// clang-format off
const PirRules table{
    {"add", binary<"add">}, {"subtract", binary<"subtract">}, {"multiply", binary<"multiply">},
    {"divide", in_result_type<"divide">}, {"maximum", binary<"maximum">}, {"minimum", binary<"minimum">},
    {"pow", binary<"elementwise_pow">}, {"remainder", binary<"remainder">},
    {"floor_divide", binary<"floor_divide">}, {"fmax", binary<"fmax">}, {"fmin", binary<"fmin">},
    {"atan2", atan2}, {"equal", binary<"equal">}, {"not_equal", binary<"not_equal">},
    {"less_than", binary<"less_than">}, {"less_equal", binary<"less_equal">},
    {"greater_than", binary<"greater_than">}, {"greater_equal", binary<"greater_equal">},
    {"logical_and", binary<"logical_and">}, {"logical_or", binary<"logical_or">},
    {"logical_xor", binary<"logical_xor">}, {"bitwise_and", binary<"bitwise_and">},
    {"bitwise_or", binary<"bitwise_or">}, {"bitwise_xor", binary<"bitwise_xor">}, {"affine", affine},
    {"scale", scale}, {"clip", clip}, {"where", where}, {"embedding", embedding}, {"cast", cast},
    {"leaf", pass}, {"again", pass}, {"softmax", softmax}, {"log_softmax", softmax}, {"neg", neg}};
// clang-format on
const Plain* plain(std::string_view row) {
  static const auto* all = [] {
    auto* m = new std::unordered_map<std::string_view, const Plain*>;
    for (const Plain& p : kPlain) m->emplace(p.row, &p);
    return m;
  }();
  const auto it = all->find(row);
  return it == all->end() ? nullptr : it->second;
}

// ---- elementwise rows without a counterpart: their arithmetic, one operator per primitive ----
const char* operator_of(Prim p) {
  switch (p) {
    // clang-format off
    case Prim::kAdd: return "add"; case Prim::kSub: return "subtract"; case Prim::kMul: return "multiply";
    case Prim::kDiv: return "divide"; case Prim::kFloorDiv: return "floor_divide";
    case Prim::kMod: return "remainder"; case Prim::kMax: return "maximum"; case Prim::kMin: return "minimum";
    case Prim::kPow: return "elementwise_pow"; case Prim::kAtan2: return "atan2";
    case Prim::kAbs: return "abs"; case Prim::kSign: return "sign"; case Prim::kExp: return "exp";
    case Prim::kExpm1: return "expm1"; case Prim::kLog: return "log"; case Prim::kLog1p: return "log1p";
    case Prim::kSqrt: return "sqrt"; case Prim::kRsqrt: return "rsqrt"; case Prim::kSin: return "sin";
    case Prim::kCos: return "cos"; case Prim::kTan: return "tan"; case Prim::kAsin: return "asin";
    case Prim::kAcos: return "acos"; case Prim::kAtan: return "atan"; case Prim::kSinh: return "sinh";
    case Prim::kCosh: return "cosh"; case Prim::kTanh: return "tanh"; case Prim::kAsinh: return "asinh";
    case Prim::kAcosh: return "acosh"; case Prim::kAtanh: return "atanh"; case Prim::kErf: return "erf";
    case Prim::kFloor: return "floor"; case Prim::kCeil: return "ceil"; case Prim::kRound: return "round";
    case Prim::kTrunc: return "trunc"; case Prim::kErfinv: return "erfinv";
    case Prim::kLgamma: return "lgamma"; case Prim::kDigamma: return "digamma";
    case Prim::kIsNan: return "isnan"; case Prim::kIsInf: return "isinf";
    case Prim::kIsFinite: return "isfinite"; case Prim::kEq: return "equal";
    case Prim::kNe: return "not_equal"; case Prim::kLt: return "less_than";
    case Prim::kLe: return "less_equal"; case Prim::kGt: return "greater_than";
    case Prim::kGe: return "greater_equal"; case Prim::kAnd: return "logical_and";
    case Prim::kOr: return "logical_or"; case Prim::kXor: return "logical_xor";
    case Prim::kNot: return "logical_not"; case Prim::kSelect: return "where";
    // clang-format on
    default: return nullptr;
  }
}

void write_expression(PirNode& n) {
  if (n.out.size() != 1 || n.node.open.size()) n.cannot("there is no counterpart");
  Values dummies;  // types are enough for an expression
  for (Id id : n.in)
    dummies.push_back(make_input({n.g.type(id).dtype, Shape(n.g.type(id).dims.size(), 1)}, 0));
  const Call c(*n.node.op, dummies.data(), static_cast<uint32_t>(dummies.size()), n.node.attrs);
  const auto e = scalar_expr(c);
  const DType work = is_half(n.out[0].dtype)          ? DType::kFloat32
                     : n.out[0].dtype == DType::kBool ? promoted(n)
                                                      : n.out[0].dtype;
  std::vector<Id> made(e->nodes.size());
  const auto shape_of = [&](std::initializer_list<Id> ids) {
    std::vector<int64_t> s;
    for (Id id : ids) {
      const auto& d = n.g.type(id).dims;
      if (d.size() > s.size()) s.insert(s.begin(), d.size() - s.size(), 1);
      for (size_t k = 0; k < d.size(); ++k) {
        int64_t& to = s[s.size() - d.size() + k];
        if (to == 1) to = d[k];
      }
    }
    return s;
  };
  for (size_t k = 0; k < e->nodes.size(); ++k) {
    const ExprNode& x = e->nodes[k];
    switch (x.prim) {
      case Prim::kArg:
        made[k] =
            n.g.cast(n.in[static_cast<size_t>(x.a)],
                     n.g.type(n.in[static_cast<size_t>(x.a)]).dtype == DType::kBool ? DType::kBool : work);
        continue;
      case Prim::kConst: made[k] = n.g.number(x.imm, work, beside(n.out[0].dims)); continue;
      case Prim::kNeg:
        made[k] = n.g.op("multiply", {made[x.a], n.g.number(-1, work, beside(n.g.type(made[x.a]).dims))}, {},
                         n.g.type(made[x.a]));
        continue;
      case Prim::kFma: {
        const PirType t{work, shape_of({made[x.a], made[x.b], made[x.c]})};
        made[k] = n.g.op("add", {n.g.op("multiply", {made[x.a], made[x.b]}, {}, t), made[x.c]}, {}, t);
        continue;
      }
      case Prim::kCast: made[k] = n.g.cast(made[x.a], static_cast<DType>(static_cast<int>(x.imm))); continue;
      default: break;
    }
    const char* op = operator_of(x.prim);
    if (!op) n.cannot(cat("there is no operator for ", prim_info(x.prim).name));
    const bool to_bool =
        prim_info(x.prim).to_bool ||
        ((x.prim == Prim::kAnd || x.prim == Prim::kOr || x.prim == Prim::kXor || x.prim == Prim::kNot));
    std::vector<Id> in{made[x.a]};
    if (x.b >= 0) in.push_back(made[x.b]);
    if (x.c >= 0) in.push_back(made[x.c]);
    std::vector<int64_t> s = shape_of({in[0], in.size() > 1 ? in[1] : in[0], in.size() > 2 ? in[2] : in[0]});
    std::vector<G::Attr> attrs;
    if (x.prim == Prim::kRound) attrs.push_back(G::i32("decimals", 0));
    if (x.prim == Prim::kSelect) {
      made[k] = select(n.g, in[0], n.g.cast(in[1], work), n.g.cast(in[2], work), {work, s});
      continue;
    }
    made[k] = n.g.op(op, in, attrs, {to_bool ? DType::kBool : work, s});
  }
  n.done(n.g.cast(made[static_cast<size_t>(e->root)], n.out[0].dtype));
}
}  // namespace

PirRules::PirRules(std::initializer_list<std::pair<const char*, PirRule>> rows) {
  for (const auto& [name, rule] : rows) rules().emplace(name, rule);
}
std::string pir_support(const OpDef& op) {
  if (has_pir_rule(op)) return "operators";
  if (op.expand) return "body";
  if (!op.scalar && !op.expr) return "none";
  for (const ArgSpec& a : op.args)
    if (a.kind == ArgKind::kTensorList) return "none";
  const auto missing = [](Prim p) {
    return p != Prim::kArg && p != Prim::kConst && p != Prim::kNeg && p != Prim::kFma && p != Prim::kCast &&
           !operator_of(p);
  };
  return row_uses(op, missing) ? "none" : "arithmetic";
}
bool has_pir_rule(const OpDef& op) { return rules().count(op.name) || plain(op.name); }

void write_pir_node(PirNode& n) {
  const OpDef& op = *n.node.op;
  if ((op.scalar || op.expr) && n.out.size() == 1)
    for (Id& id : n.in)  // see `beside`
      if (n.g.type(id).dims.empty() && !n.out[0].dims.empty()) id = n.g.as_one_element(id);
  if (const auto it = rules().find(op.name); it != rules().end()) it->second(n);
  else if (const Plain* p = plain(op.name)) write_plain(n, *p);
  else if (op.scalar || op.expr) write_expression(n);
  else n.cannot("there is no counterpart");
  for (size_t k = 0; k < n.out.size(); ++k) {  // an output that nobody reads needs none
    if (k < n.result.size() && n.result[k]) continue;
    if (n.is_read(static_cast<uint32_t>(k))) n.cannot(cat("its output ", k, " has no counterpart"));
    n.result.resize(std::max(n.result.size(), k + 1));
    n.result[k] = n.g.unknown(n.out[k]);
  }
}

}  // namespace yuloh::formats
