// SPDX-License-Identifier: Apache-2.0
// The rewrite rules. Order matters only among rules with the same root op: the first that fits is taken.
#include <algorithm>
#include <unordered_map>

#include "passes/passes.h"
#include "passes/pattern.h"

namespace yuloh {
namespace {

Pat operator+(const Pat& a, const Pat& b) { return op("add", {a, b}); }
Pat operator-(const Pat& a, const Pat& b) { return op("subtract", {a, b}); }
Pat operator*(const Pat& a, const Pat& b) { return op("multiply", {a, b}); }
Pat operator/(const Pat& a, const Pat& b) { return op("divide", {a, b}); }
Pat operator-(const Pat& a) { return op("neg", {a}); }
Pat un(const char* name, const Pat& a) { return op(name, {a}); }
Pat cast(const Pat& x, const char* to) { return op("cast", {x}, {{"dtype", to}}); }
Pat transpose(const Pat& x, const char* perm) { return op("transpose", {x}, {{"perm", perm}}); }
Pat matmul(const Pat& a, const Pat& b, const char* ta, const char* tb) {
  return op("matmul", {a, b}, {{"transpose_x", ta}, {"transpose_y", tb}});
}
Pat reduce(const char* name, const Pat& x, const char* axis) {
  return op(name, {x}, {{"axis", axis}, {"keepdim", nullptr, true}});
}
Pat write(const Pat& x, const Pat& v) {
  return op("slice_write", {x, v}, {{"axes", "a"}, {"starts", "s"}, {"ends", "e"}, {"strides", "d"}});
}
Pat write_at(const Pat& x, const Pat& v, const char* s, const char* e) {
  return op("slice_write", {x, v}, {{"axes", "a"}, {"starts", s}, {"ends", e}, {"strides", "d"}});
}
Pat strided(const Pat& x) {
  return op("strided_slice", {x}, {{"axes", "a"}, {"starts", "s"}, {"ends", "e"}, {"strides", "d"}});
}

Pat pool(const char* name, std::vector<Pat> in) {
  return op(name, std::move(in),
            {{"kernel_size", "k"}, {"stride", "s"}, {"padding", "p"}, {"ceil_mode", "m"}});
}

TensorType f32(Shape s) { return {DType::kFloat32, std::move(s)}; }
const std::vector<RuleSample> kOne = {{{{"x", f32({2, 3})}}, {}}, {{{"x", {DType::kBFloat16, {5}}}}, {}}};
const std::vector<RuleSample> kTwo = {{{{"x", f32({2, 3})}, {"y", f32({2, 3})}}, {}},
                                      {{{"x", f32({2, 3})}, {"y", f32({3})}}, {}}};

// ---- conditions ----
bool holds_all(DType wide, DType narrow) {  // every value of `narrow` is a value of `wide`
  if (wide == narrow) return true;
  if (is_float(wide) && is_float(narrow)) return dtype_bits(wide) > dtype_bits(narrow);
  if (is_float(wide))
    return is_integral(narrow) && dtype_bits(narrow) <= (wide == DType::kFloat64 ? 32 : 16) && !is_half(wide);
  if (!is_integer(wide) || !is_integral(narrow)) return false;
  if (narrow == DType::kBool) return true;
  if (narrow == DType::kUInt8) return dtype_bits(wide) > 8;
  return wide != DType::kUInt8 && dtype_bits(wide) > dtype_bits(narrow);
}
bool middle_is_wide(Bindings* b) { return holds_all(b->get<DType>("a"), b->value("x")->dtype()); }
bool compose_perms(Bindings* b) {
  const Ints p = b->get<Ints>("p"), q = b->get<Ints>("q");
  Ints r;
  const int64_t n = p.size();
  auto at = [&](const Ints& l, int64_t i) { return l[i] < 0 ? l[i] + n : l[i]; };
  for (int64_t i = 0; i < n; ++i) r.push_back(at(p, at(q, i)));
  b->set("r", r);
  return true;
}
bool swaps_last_two(const Ints& p) {
  const int64_t n = p.size();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t want = i == n - 1 ? n - 2 : i == n - 2 ? n - 1 : i, have = p[i] < 0 ? p[i] + n : p[i];
    if (have != want) return false;
  }
  return n >= 2;
}
bool flip_x(Bindings* b) {
  return b->value("x")->rank() >= 2 && swaps_last_two(b->get<Ints>("p")) &&
         (b->set("u", !b->get<bool>("t")), true);
}
bool flip_y(Bindings* b) {
  return b->value("y")->rank() >= 2 && swaps_last_two(b->get<Ints>("p")) &&
         (b->set("u", !b->get<bool>("s")), true);
}
bool join_axes(Bindings* b) {
  Ints all = b->get<Ints>("j");
  for (int64_t a : b->get<Ints>("k"))
    if (std::find(all.begin(), all.end(), a) == all.end()) all.push_back(a);
  b->set("m", all);
  return true;
}
bool is_zero(const Value& v) {
  static const OpDef* full = find_op("full");
  return v.node->op && v.node->op == full && Call(*v.node).real("value") == 0;
}
Value zeros(const TensorType& t, const Bindings&) {
  return call("full", {},
              {{"shape", Ints(t.shape.begin(), t.shape.end())}, {"value", 0.0}, {"dtype", t.dtype}});
}
struct Span {
  int64_t axis, from, to;
};
// One contiguous piece of one axis of `z`.
bool span_of(const Bindings& b, const char* s, const char* e, Span* r) {
  const Shape& z = b.value("z")->shape();
  const Ints a = b.get<Ints>("a"), d = b.get<Ints>("d"), from = b.get<Ints>(s), to = b.get<Ints>(e);
  if (a.size() != 1 || d[0] != 1) return false;
  r->axis = a[0] < 0 ? a[0] + static_cast<int64_t>(z.size()) : a[0];
  const int64_t n = z[r->axis];
  auto place = [&](int64_t i) { return std::min(std::max<int64_t>(i < 0 ? i + n : i, 0), n); };
  r->from = place(from[0]), r->to = place(to[0]);
  return r->from < r->to;
}
// Pieces [s, e) and [t, f) of a zero tensor that touch, in this order: together they are the piece [s, f).
bool pieces_touch(Bindings* b) {
  Span u, v;
  if (!is_zero(*b->value("z")) || !is_zero(*b->value("y")) || !span_of(*b, "s", "e", &u) ||
      !span_of(*b, "t", "f", &v) || u.to != v.from)
    return false;
  b->set("axis", u.axis);
  b->set("from", Ints{u.from});
  b->set("to", Ints{v.to});
  return true;
}
bool same_piece(Bindings* b) {
  Span u, v;
  return span_of(*b, "s", "e", &u) && span_of(*b, "t", "f", &v) && u.from == v.from && u.to == v.to;
}
bool other_piece(Bindings* b) {
  Span u, v;
  return span_of(*b, "s", "e", &u) && span_of(*b, "t", "f", &v) && (u.to <= v.from || v.to <= u.from);
}
bool covers_all(Bindings* b) {
  const Shape& z = b->value("z")->shape();
  Span u;
  return span_of(*b, "s", "e", &u) && u.from == 0 && u.to == z[u.axis];
}
// Sums over every spatial axis meet each window's gradient once, wherever it went.
bool sums_whole_windows(Bindings* b) {
  const int64_t rank = b->value("y")->rank();
  const auto* axes = std::get_if<Ints>(b->attr("a"));
  if (!axes || axes->size() == 0) return true;  // all
  for (int64_t i = 2; i < rank; ++i)
    if (std::none_of(axes->begin(), axes->end(), [&](int64_t a) { return (a < 0 ? a + rank : a) == i; }))
      return false;
  return true;
}
bool single_axis(Bindings* b) {
  const Ints k = b->get<Ints>("k");
  if (k.size() == 1) b->set("axis", k[0]);
  return k.size() == 1;
}
bool wants_half(Bindings* b) { return is_half(b->get<DType>("b")); }
bool is_truth(Bindings* b) { return b->value("x")->dtype() == DType::kBool; }
bool is_wide_float(Bindings* b) {
  return !is_half(b->value("x")->dtype()) && is_float(b->value("x")->dtype());
}
bool is_real_float(Bindings* b) { return is_float(b->value("x")->dtype()); }
// In half precision the sum would be rounded once instead of twice, unless somebody reads the product.
bool is_bias_of_rows(Bindings* b) {
  const Value x = *b->value("x"), y = *b->value("y"), bias = *b->value("b");
  const int64_t columns = y.rank() == 2 ? y.shape()[!b->get<bool>("s")] : -1;
  return x.rank() >= 2 && bias.shape() == Shape{columns} && bias.dtype() == DType::kFloat32 &&
         x.dtype() == bias.dtype();
}
// With the batch's own statistics x is kept for the norm's gradient; with others it might be kept for the
// mask alone.
bool mean_of_batch(Bindings* b) {
  static const OpDef* moments = find_op("channel_moments");
  const Node* mean = b->value("m")->node.get();
  while (mean->kind == Node::Kind::kOp && mean->op->view) mean = mean->inputs[0].node.get();
  return mean->op == moments && b->value("x")->dtype() == DType::kFloat32;
}

std::vector<Rule> make_rules() {
  const Pat x = any("x"), y = any("y"), c = any("c");
  const RuleSample perm{{{"x", f32({2, 3, 4})}}, {{"p", Ints{2, 0, 1}}, {"q", Ints{1, 0, 2}}}};
  const RuleSample slice{{{"x", f32({4, 5})}, {"v", f32({2, 5})}},
                         {{"a", Ints{0}}, {"s", Ints{1}}, {"e", Ints{4}}, {"d", Ints{2}}}};
  const RuleSample row{{{"x", f32({3, 7})}}, {{"k", Ints{1}}}};
  const Pat e = un("exp", x - reduce("max", x, "k"));
  std::vector<Rule> r;
  // Numbers (the few values that recording specialises).
  r.push_back({"times_one", x * number(1), x, kOne});
  r.push_back({"over_one", x / number(1), x, kOne, is_real_float});
  r.push_back({"minus_zero", x - number(0), x, kOne});
  r.push_back({"times_minus_one", x * number(-1), -x, kOne});
  r.push_back({"power_one", op("pow", {x, number(1)}), x, kOne});
  r.push_back({"power_two", op("pow", {x, number(2)}), un("square", x), kOne});
  r.push_back({"power_half", op("pow", {x, number(0.5)}), un("sqrt", x), kOne, is_real_float, true});
  r.push_back({"plus_zero", x + number(0), x, kOne, nullptr, true});
  r.push_back({"one_over", number(1) / x, un("reciprocal", x), kOne, is_real_float});
  r.push_back({"one_over_root", un("reciprocal", un("sqrt", x)), un("rsqrt", x), {kOne[0]}, is_wide_float});
  // Signs and idempotence.
  r.push_back({"negate_twice", -(-x), x, kOne});
  r.push_back({"minus_negative", x - (-y), x + y, kTwo});
  r.push_back({"plus_negative", x + (-y), x - y, kTwo});
  r.push_back({"abs_of_negative", un("abs", -x), un("abs", x), kOne});
  r.push_back({"abs_twice", un("abs", un("abs", x)), un("abs", x), kOne});
  r.push_back({"square_of_negative", un("square", -x), un("square", x), kOne});
  r.push_back({"square_of_abs", un("square", un("abs", x)), un("square", x), kOne});
  r.push_back({"times_itself", x * x, un("square", x), kOne});
  r.push_back({"maximum_of_one", op("maximum", {x, x}), x, kOne});
  r.push_back({"minimum_of_one", op("minimum", {x, x}), x, kOne});
  r.push_back({"relu_twice", un("relu", un("relu", x)), un("relu", x), kOne});
  r.push_back({"select_same",
               op("where", {c, x, x}),
               x,
               {{{{"c", {DType::kBool, {2, 3}}}, {"x", f32({2, 3})}}, {}}}});
  r.push_back({"not_twice",
               un("logical_not", un("logical_not", x)),
               x,
               {{{{"x", {DType::kBool, {4}}}}, {}}},
               is_truth});
  // Types.
  r.push_back({"cast_through_wider",
               cast(cast(x, "a"), "b"),
               cast(x, "b"),
               {{{{"x", {DType::kBFloat16, {7}}}}, {{"a", DType::kFloat32}, {"b", DType::kFloat64}}},
                {{{"x", {DType::kInt8, {7}}}}, {{"a", DType::kFloat32}, {"b", DType::kInt32}}}},
               middle_is_wide});
  // Shapes.
  r.push_back(
      {"transpose_twice", transpose(transpose(x, "p"), "q"), transpose(x, "r"), {perm}, compose_perms});
  r.push_back({"matmul_of_transposed_x",
               matmul(transpose(x, "p"), y, "t", "s"),
               matmul(x, y, "u", "s"),
               {{{{"x", f32({3, 2})}, {"y", f32({3, 4})}}, {{"p", Ints{1, 0}}, {"t", false}, {"s", false}}}},
               flip_x});
  r.push_back({"matmul_of_transposed_y",
               matmul(x, transpose(y, "p"), "t", "s"),
               matmul(x, y, "t", "u"),
               {{{{"x", f32({2, 3})}, {"y", f32({4, 3})}}, {{"p", Ints{1, 0}}, {"t", false}, {"s", false}}}},
               flip_y});
  r.push_back({"read_what_was_written", strided(write(x, any("v"))), any("v"), {slice}});
  r.push_back({"write_twice",
               write(write(x, any("u")), any("v")),
               write(x, any("v")),
               {{{{"x", f32({4, 5})}, {"u", f32({2, 5})}, {"v", f32({2, 5})}}, slice.attrs}}});
  // Gradients of pieces of one tensor arrive as a sum of zero tensors with one piece each: one concatenation
  // instead. (A -0 in a piece stays -0; the sum would have made it 0.)
  const Pat z = any("z"), u = any("u"), v = any("v");
  const RuleSample pieces{
      {{"z", f32({5, 3})}, {"y", f32({5, 3})}, {"u", f32({2, 3})}, {"v", f32({1, 3})}},
      {{"a", Ints{0}}, {"s", Ints{1}}, {"e", Ints{3}}, {"t", Ints{3}}, {"f", Ints{4}}, {"d", Ints{1}}},
      {{"z", zeros}, {"y", zeros}}};
  auto joined = [&](const Pat& whole) {
    return write_at(whole, op("concat_same", {u, v}, {{"axis", "axis"}}), "from", "to");
  };
  r.push_back({"join_pieces",
               write_at(z, u, "s", "e") + write_at(y, v, "t", "f"),
               joined(z),
               {pieces},
               pieces_touch});
  r.push_back({"join_pieces_backwards",
               write_at(y, v, "t", "f") + write_at(z, u, "s", "e"),
               joined(z),
               {pieces},
               pieces_touch});
  r.push_back({"write_everything",
               write_at(z, v, "s", "e"),
               v,
               {{{{"z", f32({2, 3})}, {"v", f32({2, 3})}},
                 {{"a", Ints{0}}, {"s", Ints{0}}, {"e", Ints{2}}, {"d", Ints{1}}}}},
               covers_all});
  auto piece = [](const Pat& p) { return op("slice", {p}, {{"axes", "a"}, {"starts", "t"}, {"ends", "f"}}); };
  const RuleSample beside{
      {{"z", f32({5, 3})}, {"u", f32({2, 3})}},
      {{"a", Ints{0}}, {"s", Ints{1}}, {"e", Ints{3}}, {"t", Ints{3}}, {"f", Ints{5}}, {"d", Ints{1}}}};
  const RuleSample same{
      beside.values,
      {{"a", Ints{0}}, {"s", Ints{1}}, {"e", Ints{3}}, {"t", Ints{1}}, {"f", Ints{-2}}, {"d", Ints{1}}}};
  r.push_back({"slice_of_piece", piece(write_at(z, u, "s", "e")), u, {same}, same_piece});
  r.push_back({"slice_beside_piece", piece(write_at(z, u, "s", "e")), piece(z), {beside}, other_piece});
  // Reductions.
  for (const char* kind : {"max", "min"})
    r.push_back({kind == std::string("max") ? "max_of_max" : "min_of_min",
                 reduce(kind, reduce(kind, x, "k"), "j"),
                 reduce(kind, x, "m"),
                 {{{{"x", f32({3, 4, 5})}}, {{"k", Ints{2}}, {"j", Ints{0}}}}},
                 join_axes});
  r.push_back({"softmax",
               e / op("sum", {e}, {{"axis", "k"}, {"dtype", "t"}, {"keepdim", nullptr, true}}),
               op("softmax", {x}, {{"axis", "axis"}}),
               {{row.values, {{"k", Ints{1}}, {"t", std::monostate{}}}}},
               single_axis});
  // The bias is added while the product is in registers, which saves a trip of the result through memory.
  const Pat b = any("b");
  r.push_back({"join_bias",
               matmul(x, y, "t", "s") + b,
               op("matmul_bias", {x, y, b}, {{"transpose_x", "t"}, {"transpose_y", "s"}}),
               {{{{"x", f32({2, 3})}, {"y", f32({4, 3})}, {"b", f32({4})}}, {{"t", false}, {"s", true}}}},
               is_bias_of_rows});
  r.back().joins = true;
  // Where relu behind a batch norm was positive: the norm's own gradient reads the norm's input in the same
  // loop, so that asking there costs four operations and relu's result is not read at all.
  const Pat g = any("g"), m = any("m"), rstd = any("r"), w = any("w"),
            affine = op("norm_affine", {x, m, rstd, w, b});
  RuleSample norm{{{"x", f32({2, 3, 4})},
                   {"r", f32({3, 1})},
                   {"w", f32({3, 1})},
                   {"b", f32({3, 1})},
                   {"g", f32({2, 3, 4})},
                   {"m", f32({3, 1})}},
                  {}};
  norm.made = {{"m", [](const TensorType& t, const Bindings& have) {
                  const Value mean = call_all("channel_moments", {*have.value("x")})[0];
                  return call("view_as_shape", {mean}, {{"shape", Ints(t.shape.begin(), t.shape.end())}});
                }}};
  for (const bool six : {false, true})
    r.push_back({six ? "relu6_mask_from_norm" : "relu_mask_from_norm",
                 op(six ? "relu6_grad" : "relu_grad", {un(six ? "relu6" : "relu", affine), g}),
                 op("norm_relu_grad", {x, m, rstd, w, b, g}, {{"six", nullptr, six}}),
                 {norm},
                 mean_of_batch});
  // Gradients of max_pool after relu: the mask and the sum of a bias gradient move to the pooled side, which
  // is smaller.
  const Pat passed = pool("max_pool_grad", {y, g});
  const RuleSample windows{{{"y", f32({2, 3, 5, 4})}, {"g", f32({2, 3, 2, 2})}},
                           {{"k", Ints{2, 3}}, {"s", Ints{2, 2}}, {"p", Ints{0, 0, 1, 0}}, {"m", false}}};
  r.push_back({"relu_grad_of_pooled",
               op("relu_grad", {y, passed}),
               pool("max_pool_grad", {y, op("relu_grad", {pool("max_pool", {y}), g})}),
               {windows},
               nullptr,
               false,
               "the pooled value is there already"});
  RuleSample summed = windows;
  summed.attrs.insert(summed.attrs.end(), {{"a", Ints{0, 2, 3}}, {"t", std::monostate{}}, {"d", false}});
  r.push_back({"sum_of_pool_gradient",
               op("sum", {passed}, {{"axis", "a"}, {"dtype", "t"}, {"keepdim", "d"}}),
               op("sum", {g}, {{"axis", "a"}, {"dtype", "t"}, {"keepdim", "d"}}),
               {summed},
               sums_whole_windows,
               false,
               nullptr,
               true});
  // A gradient that is wanted in half precision is rounded where it is made.
  auto nll_dx = [&](const char* out) {
    std::vector<PatAttr> attrs{{"ignore_index", "i"}, {"axis", "k"}, {"dtype", "t"}};
    if (out) attrs.push_back({"out", out});
    return op("softmax_nll_dx", {x, any("l"), y, any("g")}, attrs);
  };
  r.push_back({"rounded_where_made",
               cast(nll_dx(nullptr), "b"),
               nll_dx("b"),
               {{{{"x", f32({2, 3})}, {"l", {DType::kInt64, {2, 1}}}, {"y", f32({2, 1})}, {"g", f32({2, 1})}},
                 {{"i", int64_t{-1}}, {"k", int64_t{1}}, {"t", DType::kFloat32}, {"b", DType::kBFloat16}},
                 {},
                 3}},
               wants_half});
  add_gather_rules(&r);
  return r;
}

struct Index {  // rules by root op
  std::unordered_map<const OpDef*, std::vector<const Rule*>> by_root;
  Index() {
    for (const Rule& r : rules())
      if (const OpDef* op = find_op(r.from->name)) by_root[op].push_back(&r);
  }
};

// A rule whose right side names a composite that would be expanded again must not fire.
bool lands_on_kept(const Rule& r, const Value& v, const PassOptions& o) {
  if (!r.joins && (r.to->kind != Pattern::Kind::kOp || !v.node->op || !v.node->op->expand)) return true;
  return o.keep_named && o.keep_named(*v.node);
}
}  // namespace

const std::vector<Rule>& rules() {
  static const std::vector<Rule> list = make_rules();
  return list;
}

bool apply_rules(const Ref<Node>& n, PassContext* c, Values* replacement) {
  static const Index index;
  const auto it = index.by_root.find(n->op);
  if (it == index.by_root.end()) return false;
  for (const Rule* r : it->second) {
    if (r->fast_math && !c->options.fast_math) continue;
    Bindings b;
    if (!match(r->from, Value(n, 0), &b) || (r->when && !r->when(&b))) continue;
    if (r->joins &&
        std::any_of(b.nodes.begin(), b.nodes.end() - 1, [&](const Node* m) { return c->shared.count(m); }))
      continue;
    const Value v = build(r->to, b, n->outputs[0].type.dtype);
    if (!(v.type() == n->outputs[0].type) || !lands_on_kept(*r, v, c->options))
      continue;  // e.g. the number broadcast x
    c->fired = r->name;
    *replacement = {v};
    return true;
  }
  return false;
}

}  // namespace yuloh
