// SPDX-License-Identifier: Apache-2.0
// Reads the rows: parses schemas once at start, indexes them by name, derives gradient rows of scalar ops on
// demand.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "ops/op.h"

namespace yuloh {
namespace {

struct Table {
  std::map<std::string, OpDef*, std::less<>> by_name;  // rows live for the whole process
  std::vector<const OpDef*> sorted;
  std::mutex mu;                                       // guards derived rows and interned strings only
  std::unordered_map<uint64_t, const OpDef*> derived;  // by op and input
  std::unordered_set<std::string> strings;
};
Table& table() {
  static Table* t = new Table;
  return *t;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

uint64_t fnv(std::string_view s) {
  uint64_t h = 1469598103934665603ull;
  for (char c : s) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

[[noreturn]] void bad_schema(const char* schema, std::string_view why) {
  fail(ErrorKind::kRuntime, "op table: bad schema `", schema, "`: ", why, ".");
}

bool consume(std::string_view* s, std::string_view prefix) {
  if (s->substr(0, prefix.size()) != prefix) return false;
  s->remove_prefix(prefix.size());
  *s = trim(*s);
  return true;
}

ArgSpec parse_arg(const char* schema, std::string_view text) {
  ArgSpec a;
  text = trim(text);
  if (const auto eq = text.find('='); eq != text.npos) {
    a.has_default = true;
    a.default_text = std::string(trim(text.substr(eq + 1)));
    text = trim(text.substr(0, eq));
  }
  const auto space = text.rfind(' ');
  if (space == text.npos) bad_schema(schema, "an argument needs a type and a name");
  a.name = std::string(trim(text.substr(space + 1)));
  std::string_view type = trim(text.substr(0, space));
  consume(&type, "static ");
  if (!type.empty() && type.back() == '!') a.inplace = true, type.remove_suffix(1);
  if (!type.empty() && type.back() == '?') a.optional = true, type.remove_suffix(1);
  static const std::map<std::string_view, ArgKind> kinds = {{"Tensor", ArgKind::kTensor},
                                                            {"Tensor[]", ArgKind::kTensorList},
                                                            {"number", ArgKind::kNumber},
                                                            {"value float", ArgKind::kValueFloat},
                                                            {"value int", ArgKind::kValueInt},
                                                            {"int", ArgKind::kInt},
                                                            {"float", ArgKind::kFloat},
                                                            {"bool", ArgKind::kBool},
                                                            {"str", ArgKind::kStr},
                                                            {"dtype", ArgKind::kDType},
                                                            {"int[]", ArgKind::kInts},
                                                            {"float[]", ArgKind::kFloats}};
  const auto it = kinds.find(type);
  if (it == kinds.end()) bad_schema(schema, cat("unknown type `", type, "`"));
  a.kind = it->second;
  if (a.kind == ArgKind::kTensor && a.optional) a.kind = ArgKind::kOptTensor;
  return a;
}

void parse_schema(OpDef* op) {
  const std::string_view s = op->schema;
  const auto open = s.find('('), close = s.rfind(')');
  if (open == s.npos || close == s.npos) bad_schema(op->schema, "no argument list");
  op->name = std::string(trim(s.substr(0, open)));
  std::string_view args = s.substr(open + 1, close - open - 1);
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i <= args.size(); ++i) {
    if (i < args.size() && (args[i] == '[' || args[i] == '(')) ++depth;
    if (i < args.size() && (args[i] == ']' || args[i] == ')')) --depth;
    if (i == args.size() || (args[i] == ',' && depth == 0)) {
      if (const auto t = trim(args.substr(from, i - from)); !t.empty())
        op->args.push_back(parse_arg(op->schema, t));
      from = i + 1;
    }
  }
  std::string_view result = trim(s.substr(close + 1));
  if (!consume(&result, "->")) bad_schema(op->schema, "no `->`");
  op->n_outputs =
      result == "Tensor[]" ? -1 : static_cast<int>(std::count(result.begin(), result.end(), ',')) + 1;
  bool fixed = true;
  int n = 0;
  for (size_t i = 0; i < op->args.size(); ++i) {
    const ArgSpec& a = op->args[i];
    if (a.kind == ArgKind::kTensorList || a.kind == ArgKind::kOptTensor) fixed = false;
    if (a.is_input()) ++n;
    if (a.inplace) op->inplace_args.push_back(static_cast<int>(i));
  }
  op->n_inputs_fixed = fixed ? n : -1;
  op->uid = fnv(op->name);
}

void check_row(const OpDef& op) {
  const int lowerings = (op.scalar ? 1 : 0) + (op.reduce != ReduceKind::kNone) + (op.expand != nullptr) +
                        (op.view != nullptr) + (op.host != nullptr);
  if (lowerings > 1) bad_schema(op.schema, "more than one lowering");
  if (!op.infer) bad_schema(op.schema, "no type inference");
  if (op.scalar && op.n_inputs_fixed != op.scalar.arity)
    bad_schema(op.schema, cat("scalar body takes ", op.scalar.arity, " arguments, the schema has ",
                              op.n_inputs_fixed, " inputs"));
}

Expr record_expr(const Call& c, const ScalarFn& f) {
  Expr e;
  ExprScope scope(&e);
  std::vector<Scalar> args;
  for (int i = 0; i < f.arity; ++i) args.push_back(Scalar::arg(i));
  e.root = f.fn(c, args.data()).id;
  return e;
}

bool has_static(const OpDef& op) {
  return std::any_of(op.args.begin(), op.args.end(), [](const ArgSpec& a) { return !a.is_input(); });
}

Types infer_derived(const Call& c) {
  Shape s = c.in[0].shape();
  for (uint32_t i = 1; i < c.n_in; ++i) s = broadcast_shapes(c.op.name, s, c.in[i].shape());
  return {{c.in[c.n_in - 1].dtype(), s}};  // g comes last
}
}  // namespace

Register::Register(std::initializer_list<OpDef> rows) {
  Table& t = table();
  for (const OpDef& r : rows) {
    OpDef* op = new OpDef(r);
    parse_schema(op);
    check_row(*op);
    if (!t.by_name.emplace(op->name, op).second) bad_schema(op->schema, "the op is defined twice");
  }
}

const OpDef* find_op(std::string_view name) {
  Table& t = table();
  const auto it = t.by_name.find(name);
  return it == t.by_name.end() ? nullptr : it->second;
}
const OpDef& get_op(std::string_view name) {
  if (const OpDef* op = find_op(name)) return *op;
  fail(ErrorKind::kNotImplemented, "op table: no op named `", name, "`.");
}
const std::vector<const OpDef*>& all_ops() {
  Table& t = table();
  std::lock_guard lock(t.mu);
  if (t.sorted.size() != t.by_name.size()) {
    t.sorted.clear();
    for (const auto& [name, op] : t.by_name) t.sorted.push_back(op);
  }
  return t.sorted;
}

const std::string* intern(std::string_view s) {
  Table& t = table();
  std::lock_guard lock(t.mu);
  return &*t.strings.emplace(s).first;
}

std::shared_ptr<const Expr> scalar_expr(const Call& c) {
  const OpDef& op = c.op;
  if (op.expr && !op.scalar) return op.expr;  // a derived row: set before it was published
  // A derived row of an op with static attributes is differentiated per call; everything else is recorded
  // once.
  const OpDef& base = op.base ? *op.base : op;
  if (op.base) {
    const Expr e = *scalar_expr(Call(base, c.in, c.n_in, c.attrs));
    const int wrt = std::atoi(op.name.c_str() + op.name.rfind(".d") + 2);
    Expr d = differentiate(e, wrt, base.n_inputs_fixed);
    for (ExprNode& n : d.nodes)  // arguments are numbered by the derived row's own inputs
      if (n.prim == Prim::kArg)
        n.a = static_cast<int16_t>(std::find(op.inplace_args.begin(), op.inplace_args.end(), n.a) -
                                   op.inplace_args.begin());
    return std::make_shared<const Expr>(std::move(d));
  }
  if (has_static(op)) return std::make_shared<const Expr>(record_expr(c, op.scalar));
  static std::mutex mu;
  std::lock_guard lock(mu);
  OpDef& row = const_cast<OpDef&>(op);
  if (!row.expr) row.expr = std::make_shared<const Expr>(record_expr(c, op.scalar));
  return row.expr;
}

// Derived rows are named "op.dI"; `inplace_args` of a derived row lists which base inputs it takes (g is
// number arity).
const OpDef* scalar_gradient(const OpDef& op, int input) {
  Table& t = table();
  const uint64_t key = op.uid ^ (static_cast<uint64_t>(input + 1) * 0x9e3779b97f4a7c15ull);
  {
    std::lock_guard lock(t.mu);
    if (const auto it = t.derived.find(key); it != t.derived.end()) return it->second;
  }
  const std::string name = cat(op.name, ".d", input);
  const bool per_call = has_static(op);
  const int arity = op.n_inputs_fixed;
  std::shared_ptr<const Expr> e;
  Attrs none;
  if (!per_call) e = scalar_expr(Call(op, nullptr, 0, none));
  OpDef* d = new OpDef{.schema = "", .infer = infer_derived};
  d->name = *intern(name);
  d->doc = "Derived gradient of an elementwise op.";
  d->uid = fnv(d->name);
  std::vector<int> used;
  bool zero = false;
  Expr diff;
  if (!per_call) {
    diff = differentiate(*e, input, arity);
    zero = diff.root < 0;
    for (int i = 0; i < arity; ++i)
      if (diff.uses_arg(i)) used.push_back(i);
  } else {
    for (int i = 0; i < arity; ++i) used.push_back(i);
  }
  used.push_back(arity);
  int k = 0;
  for (const ArgSpec& a : op.args)
    if (a.is_input()) {
      if (std::find(used.begin(), used.end(), k) != used.end())
        d->args.push_back(a), d->args.back().kind = ArgKind::kTensor;
      ++k;
    }
  d->args.push_back({.name = "g", .kind = ArgKind::kTensor});
  for (const ArgSpec& a : op.args)
    if (!a.is_input()) d->args.push_back(a);
  for (ArgSpec& a : d->args) a.inplace = false;
  d->n_inputs_fixed = static_cast<int>(used.size());
  d->inplace_args = used;
  if (per_call) {
    d->base = &op;
    d->scalar = op.scalar;
    d->scalar.arity = d->n_inputs_fixed;
  } else if (!zero) {
    for (ExprNode& n : diff.nodes)
      if (n.prim == Prim::kArg)
        n.a = static_cast<int16_t>(std::find(used.begin(), used.end(), n.a) - used.begin());
    d->expr = std::make_shared<const Expr>(std::move(diff));
    d->scalar.arity = d->n_inputs_fixed;
  }
  std::lock_guard lock(t.mu);
  return t.derived.emplace(key, zero ? nullptr : d).first->second;
}

}  // namespace yuloh
