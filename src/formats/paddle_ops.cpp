// SPDX-License-Identifier: Apache-2.0
// Paddle's operators that are rows of the op table under the same name, and those that make, cut and arrange
// tensors.
#include "formats/paddle_ops.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "formats/paddle.h"

namespace yuloh::formats::paddle {

size_t groups(const Import& i) { return i.node.list_sizes.size(); }
size_t first(const Import& i, size_t g) {
  size_t at = 0;
  for (size_t k = 0; k < g && k < groups(i); ++k) at += i.node.list_sizes[k];
  return at;
}
size_t count(const Import& i, size_t g) { return g < groups(i) ? i.node.list_sizes[g] : 0; }
Value group_in(const Import& i, size_t g) { return count(i, g) ? i.in_or_null(first(i, g)) : Value(); }
Values group_list(const Import& i, size_t g) {
  Values v;
  for (size_t k = 0; k < count(i, g); ++k) v.push_back(i.in(first(i, g) + k));
  return v;
}

Ints sizes(const Import& i, size_t g, const char* attr, size_t list) {
  if (count(i, g) == 1 && i.has(first(i, g))) return i.ints(first(i, g));
  if (count(i, g) > 1) list = g;
  if (list && count(i, list)) {
    Ints v;
    for (size_t k = 0; k < count(i, list); ++k) v.push_back(i.ints(first(i, list) + k)[0]);
    return v;
  }
  if (!i.has_attr(attr)) i.unsupported(cat("`", attr, "` is missing"));
  return i.ints_attr(attr, {});
}

DType dtype_attr(const Import& i, const char* name, DType otherwise) {
  if (!i.has_attr(name)) return otherwise;
  const Attribute& a = i.node.attrs.at(name);
  if (const auto* n = std::get_if<int64_t>(&a)) return *n < 0 ? otherwise : paddle_dtype(*n, i.node.type);
  DType t;
  const std::string s = i.text(name, "");
  return dtype_from_name(s, &t) ? t : otherwise;  // "Undefined(ALL_DTYPE)"
}
bool flag(const Import& i, const char* name, bool otherwise) { return i.integer(name, otherwise) != 0; }

namespace {
Value number_value(double v, DType t) { return constant(v, t); }

// A static argument from an attribute; false: there is none of this name.
bool static_attr(const Import& i, const ArgSpec& a, AttrValue* v) {
  if (!i.has_attr(a.name.c_str())) return false;
  const char* name = a.name.c_str();
  const bool none = std::holds_alternative<std::monostate>(i.node.attrs.at(name));
  switch (a.kind) {
    case ArgKind::kInt: *v = i.integer(name, 0); break;
    case ArgKind::kFloat: *v = i.real(name, 0); break;
    case ArgKind::kBool: *v = i.integer(name, 0) != 0; break;
    case ArgKind::kStr: *v = i.text(name, ""); break;
    case ArgKind::kInts: *v = i.ints_attr(name, {}); break;
    case ArgKind::kFloats: *v = i.reals_attr(name); break;
    case ArgKind::kDType: {
      const DType t = dtype_attr(i, name, DType::kSequence);
      if (t == DType::kSequence) *v = std::monostate{};
      else *v = t;
      break;
    }
    default: return false;
  }
  if (none) *v = std::monostate{};
  return true;
}

// PIR passes it as a tensor of one or several integers or reals.
AttrValue static_input(const Import& i, size_t at, const ArgSpec& a) {
  switch (a.kind) {
    case ArgKind::kInts: return i.ints(at);
    case ArgKind::kInt: return i.ints(at)[0];
    case ArgKind::kFloat: return i.number(at);
    case ArgKind::kBool: return i.number(at) != 0;
    default: i.unsupported(cat("`", a.name, "` is a tensor"));
  }
}
}  // namespace

void by_schema(Import& i, const char* row) {
  const OpDef& op = get_op(row);
  Values in;
  AttrEncoder enc;
  size_t g = 0;
  const DType t = i.n_inputs() && i.has(0) ? i.in(0).dtype() : DType::kFloat32;
  for (const ArgSpec& a : op.args) {
    switch (a.kind) {
      case ArgKind::kTensorList: {
        const Values list = group_list(i, g++);
        enc.add_count(static_cast<int64_t>(list.size()));
        for (const Value& v : list) in.push_back(v);
        continue;
      }
      case ArgKind::kOptTensor: {
        const Value v = group_in(i, g++);
        enc.add_count(v ? 1 : 0);
        if (v) in.push_back(v);
        continue;
      }
      case ArgKind::kTensor: in.push_back(i.in(first(i, g++))); continue;
      case ArgKind::kNumber:
      case ArgKind::kValueFloat:
      case ArgKind::kValueInt: {
        if (Value v = group_in(i, g)) {
          ++g;
          // A number that Python wrote becomes a tensor of one element in the file.
          in.push_back(g > 1 && v.rank() == 1 && v.shape()[0] == 1 ? reshape(v, {}) : v);
        } else if (i.has_attr(a.name.c_str())) {
          in.push_back(number_value(i.real(a.name.c_str(), 0), t));
        } else {
          const AttrValue& d = default_of(a);
          const double* real = std::get_if<double>(&d);
          const int64_t* whole = std::get_if<int64_t>(&d);
          if (!real && !whole) i.unsupported(cat("`", a.name, "` is missing"));
          in.push_back(number_value(real ? *real : static_cast<double>(*whole), t));
        }
        continue;
      }
      default: break;
    }
    AttrValue v;
    if (static_attr(i, a, &v)) {
    } else if (count(i, g) == 1 && i.has(first(i, g))) {
      v = static_input(i, first(i, g++), a);
    } else if (a.has_default) {
      v = default_of(a);
    } else {
      i.unsupported(cat("`", a.name, "` is missing"));
    }
    if (a.kind == ArgKind::kInts && a.optional)  // no axes: all of them
      if (const auto* list = std::get_if<Ints>(&v); list && list->empty()) v = std::monostate{};
    enc.add(a, v);
  }
  const Values out = apply(op, std::move(in), std::move(enc.words));
  for (size_t k = 0; k < out.size() && k < i.node.outputs.size(); ++k) i.out(k, out[k]);
}

namespace {
// ---- making ----
void full_op(Import& i) {
  const DType t = dtype_attr(i, "dtype", DType::kFloat32);
  const Ints s = sizes(i, 0, "shape", 2);
  const Shape shape(s.begin(), s.end());
  const std::string text = i.text("str_value", "");
  std::optional<int64_t> whole;  // doubles hold integers to 2^53 only
  double v = 0;
  if (group_in(i, 1)) {
    v = i.number(first(i, 1));
  } else if (!text.empty()) {
    char *end = nullptr, *end_whole = nullptr;
    v = std::strtod(text.c_str(), &end);
    const int64_t n = std::strtoll(text.c_str(), &end_whole, 10);
    if (*end) i.unsupported(cat("str_value is '", text.substr(0, 40), "'"));
    if (!*end_whole) whole = n;
  } else if (const Attribute* a = i.attribute("value"); a && std::get_if<int64_t>(a)) {
    whole = std::get<int64_t>(*a), v = static_cast<double>(*whole);
  } else {
    v = i.real("value", 0);
  }
  if (whole && is_integer(t) && std::abs(v) >= 0x1p53)
    return i.out(broadcast_to(data_of(std::vector<int64_t>{*whole}, {}, t), shape));
  i.out(full(shape, v, t));
}
void full_int_array(Import& i) {
  const Ints v = i.ints_attr("value", {});
  i.out(data_of(std::vector<int64_t>(v.begin(), v.end()), {static_cast<int64_t>(v.size())},
                dtype_attr(i, "dtype", DType::kInt64)));
}
void full_with_tensor(Import& i) {  // (value, shape)
  const Ints s = sizes(i, 1, "shape");
  i.out(broadcast_to(cast(reshape(i.in(0), {}), dtype_attr(i, "dtype", i.in(0).dtype())),
                     Shape(s.begin(), s.end())));
}
void full_like(Import& i) {
  const double v = group_in(i, 1) ? i.number(1) : i.real("value", 0);
  i.out(full(i.in(0).shape(), v, dtype_attr(i, "dtype", i.in(0).dtype())));
}
void full_batch_size_like(Import& i) {
  Ints s = i.ints_attr("shape", {});
  const auto at = static_cast<size_t>(i.integer("output_dim_idx", 0)),
             from = static_cast<size_t>(i.integer("input_dim_idx", 0));
  if (at >= s.size() || from >= i.in(0).shape().size()) i.unsupported("a dimension index is out of range");
  s[at] = i.in(0).shape()[from];
  i.out(full(Shape(s.begin(), s.end()), i.real("value", 0), dtype_attr(i, "dtype", DType::kFloat32)));
}
void hardtanh(Import& i) {
  i.out(call("hardtanh", {i.in(0)}, {{"min", i.real("t_min", -1)}, {"max", i.real("t_max", 1)}}));
}
void assign_value(Import& i) {
  const Ints s = i.ints_attr("shape", {});
  const DType t = dtype_attr(i, "dtype", DType::kFloat32);
  std::vector<double> v = i.has_attr("values") ? i.reals_attr("values") : std::vector<double>();
  for (const char* name : {"fp32_values", "int32_values", "int64_values", "bool_values"})
    if (v.empty() && i.has_attr(name)) v = i.reals_attr(name);
  const Shape shape(s.begin(), s.end());
  if (static_cast<int64_t>(v.size()) != numel(shape))
    i.unsupported(cat("there are ", v.size(), " values for shape ", shape));
  for (const char* name :
       {"values", "int64_values"})  // as integers where they are: doubles hold those to 2^53 only
    if (const Attribute* a = i.attribute(name); a && is_integral(t))
      if (const auto* whole = std::get_if<std::vector<int64_t>>(a); whole && whole->size() == v.size())
        return i.out(data_of(*whole, shape, t));
  i.out(data_of(v, shape, t));
}
void arange(Import& i) {
  const DType t = dtype_attr(i, "dtype", i.in(0).dtype());
  i.out(call("arange_static", {},
             {{"start", i.number(0)}, {"end", i.number(1)}, {"step", i.number(2)}, {"dtype", t}}));
}
void linspace(Import& i) {
  i.out(call("linspace_static", {},
             {{"start", i.number(0)},
              {"stop", i.number(1)},
              {"num", i.ints(2)[0]},
              {"base", 0.0},
              {"dtype", dtype_attr(i, "dtype", DType::kFloat32)}}));
}
void shape_of(Import& i) {
  const Shape& s = i.in(0).shape();
  i.out(data_of(std::vector<int64_t>(s.begin(), s.end()), {static_cast<int64_t>(s.size())},
                i.node.type == "shape64" ? DType::kInt64 : DType::kInt32));
}
void numel_of(Import& i) { i.out(data_of(std::vector<int64_t>{numel(i.in(0).shape())}, {})); }

// ---- arranging ----
void reshape_op(Import& i) {
  Ints s = sizes(i, 1, "shape", 2);
  const Shape& from = i.in(0).shape();
  for (size_t k = 0; k < s.size(); ++k)  // 0 copies the input's size
    if (s[k] == 0 && k < from.size()) s[k] = from[k];
  i.out(call("reshape", {i.in(0)}, {{"shape", s}}));
}
void flatten2(Import& i) {
  const int64_t axis = i.integer("axis", 1);
  int64_t rows = 1;
  const Shape& s = i.in(0).shape();
  for (int64_t k = 0; k < axis && k < static_cast<int64_t>(s.size()); ++k) rows *= s[static_cast<size_t>(k)];
  i.out(reshape(i.in(0), {rows, rows ? numel(s) / rows : 0}));
}
Ints axes_left(const Import& i, const Ints& axes,
               const Shape& s) {  // squeeze leaves axes alone that are not 1
  Ints left;
  for (int64_t a : axes) {
    const int64_t k = a < 0 ? a + static_cast<int64_t>(s.size()) : a;
    if (k < 0 || k >= static_cast<int64_t>(s.size()))
      i.unsupported(cat("axis ", a, " is out of range for ", s));
    if (s[static_cast<size_t>(k)] == 1) left.push_back(k);
  }
  return left;
}
void squeeze(Import& i) {
  const Ints axes = sizes(i, 1, "axis");
  if (axes.empty()) return i.out(call("squeeze", {i.in(0)}, {{"axis", std::monostate{}}}));
  const Ints left = axes_left(i, axes, i.in(0).shape());
  i.out(left.empty() ? i.in(0) : call("squeeze", {i.in(0)}, {{"axis", left}}));
}
void unsqueeze(Import& i) { i.out(call("unsqueeze", {i.in(0)}, {{"axis", sizes(i, 1, "axis", 2)}})); }
void expand(Import& i) {
  Ints s = sizes(i, 1, "shape", 2);
  const Shape& from = i.in(0).shape();
  const size_t extra = s.size() >= from.size() ? s.size() - from.size() : 0;
  for (size_t k = extra; k < s.size(); ++k)
    if (s[k] == -1) s[k] = from[k - extra];
  i.out(broadcast_to(i.in(0), Shape(s.begin(), s.end())));
}
void expand_as(Import& i) {
  if (group_in(i, 1)) return i.out(broadcast_to(i.in(0), i.in(1).shape()));
  const Ints s = i.ints_attr("target_shape", {});
  i.out(broadcast_to(i.in(0), Shape(s.begin(), s.end())));
}
void tile(Import& i) { i.out(call("tile", {i.in(0)}, {{"repeat_times", sizes(i, 1, "repeat_times", 2)}})); }
void concat_op(Import& i) {
  const int64_t axis = group_in(i, 1) ? i.ints(first(i, 1))[0] : i.integer("axis", 0);
  i.out(call("concat", group_list(i, 0), {{"axis", axis}}));
}
void stack(Import& i) { i.out(call("stack", group_list(i, 0), {{"axis", i.integer("axis", 0)}})); }
void spread(Import& i, const Values& v) {
  for (size_t k = 0; k < v.size() && k < i.node.outputs.size(); ++k) i.out(k, v[k]);
}
int64_t axis_in(const Import& i, int64_t axis, const Shape& s) {
  const int64_t k = axis < 0 ? axis + static_cast<int64_t>(s.size()) : axis;
  if (k < 0 || k >= static_cast<int64_t>(s.size()))
    i.unsupported(cat("axis ", axis, " is out of range for ", s));
  return k;
}
void unstack(Import& i) {
  const Value x = i.in(0);
  const int64_t axis = axis_in(i, i.integer("axis", 0), x.shape());
  Values v;
  for (int64_t k = 0; k < x.shape()[static_cast<size_t>(axis)]; ++k)
    v.push_back(call("squeeze", {narrow(x, axis, k, 1)}, {{"axis", Ints{axis}}}));
  spread(i, v);
}
void split(Import& i) {  // (x, sections, axis); split_with_num: (x, axis) with `num`; ProgramDesc: attributes
  const Value x = i.in(0);
  const bool with_num = i.node.type == "split_with_num";
  const size_t axis_group = with_num ? 1 : 2;
  const int64_t given = group_in(i, axis_group) ? i.ints(first(i, axis_group))[0] : i.integer("axis", 0);
  const int64_t axis = axis_in(i, given, x.shape());
  const int64_t n = x.shape()[static_cast<size_t>(axis)];
  Ints each;
  if (!with_num && (group_in(i, 1) || i.has_attr("sections"))) each = sizes(i, 1, "sections");
  if (each.empty()) {
    const int64_t num = i.integer("num", 0);
    if (num <= 0 || n % num) i.unsupported(cat("an extent of ", n, " is cut into ", num, " parts"));
    each = Ints(static_cast<size_t>(num), n / num);
  }
  int64_t rest = n;
  for (int64_t e : each) rest -= e < 0 ? 0 : e;
  for (int64_t& e : each)
    if (e < 0) e = rest;
  spread(i, call_all("split", {x}, {{"sizes", each}, {"axis", axis}}));
}
Value dropped(const Import& i, const Value& v, const char* attr) {
  const Ints drop = i.ints_attr(attr, {});
  return drop.empty() ? v : call("squeeze", {v}, {{"axis", drop}});
}
void slice(Import& i) {  // groups: input, starts, ends, (ProgramDesc) lists of starts and ends
  const Ints axes = i.ints_attr("axes", {});
  i.out(
      dropped(i,
              call("slice", {i.in(0)},
                   {{"axes", axes}, {"starts", sizes(i, 1, "starts", 3)}, {"ends", sizes(i, 2, "ends", 4)}}),
              "decrease_axis"));
}
void strided_slice(Import& i) {
  i.out(dropped(i,
                call("strided_slice", {i.in(0)},
                     {{"axes", i.ints_attr("axes", {})},
                      {"starts", sizes(i, 1, "starts")},
                      {"ends", sizes(i, 2, "ends")},
                      {"strides", sizes(i, 3, "strides")}}),
                "decrease_axis"));
}
void set_value(Import& i) {  // (x, starts, ends, steps) with `values`; set_value_with_tensor: (x, value,
                             // starts, ends, steps)
  const bool tensor = i.node.type.find("with_tensor") != std::string::npos;
  const size_t at = tensor ? 2 : 1;
  const Value x = i.in(0);
  const Ints axes = i.ints_attr("axes", {}), starts = sizes(i, at, "starts"), ends = sizes(i, at + 1, "ends"),
             steps = sizes(i, at + 2, "steps");
  if (!i.ints_attr("none_axes", {}).empty()) i.unsupported("new axes in an indexed assignment");
  const Value old =
      call("strided_slice", {x}, {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"strides", steps}});
  Value v;
  if (tensor) {
    v = i.in(first(i, 1));
  } else {
    const Ints s = i.ints_attr("shape", {});
    v = data_of(i.reals_attr("values"), Shape(s.begin(), s.end()), x.dtype());
  }
  Ints decreased = i.ints_attr("decrease_axes", {});
  if (!decreased.empty() && v.rank() + static_cast<int64_t>(decreased.size()) == old.rank())
    v = call("unsqueeze", {v}, {{"axis", decreased}});
  v = broadcast_to(cast(v, x.dtype()), old.shape());
  i.out(
      call("slice_write", {x, v}, {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"strides", steps}}));
}
void gather(Import& i) {
  const int64_t axis = group_in(i, 2) ? i.ints(first(i, 2))[0] : i.integer("axis", 0);
  i.out(call("gather", {i.in(0), i.in(1)}, {{"axis", axis}}));
}
void meshgrid(Import& i) {
  const Values v = group_list(i, 0);
  Shape s;
  for (const Value& x : v) s.push_back(numel(x.shape()));
  for (size_t k = 0; k < v.size(); ++k) {
    Shape one(v.size(), 1);
    one[k] = s[k];
    i.out(k, broadcast_to(reshape(v[k], one), s));
  }
}
void add_n(Import& i) {
  const Values v = group_list(i, 0);
  if (v.empty()) i.unsupported("no inputs");
  Value s = v[0];
  for (size_t k = 1; k < v.size(); ++k) s = s + v[k];
  i.out(s);
}
void tril_triu(Import& i) {
  i.out(call(flag(i, "lower", true) ? "tril" : "triu", {i.in(0)}, {{"diagonal", i.integer("diagonal", 0)}}));
}
void nonzero(Import& i) {
  const auto n = static_cast<int64_t>(i.number_of(call("nonzero_count", {i.in(0)})));
  i.out(call("nonzero_fill", {i.in(0)}, {{"n", n}}));
}
void masked_select(Import& i) {
  const Value x = i.in(0), mask = broadcast_to(i.in(1), x.shape());
  const auto n = static_cast<int64_t>(i.number_of(call("nonzero_count", {mask})));
  i.out(call("gather_nd", {x, call("nonzero_fill", {mask}, {{"n", n}})}));
}
void increment(Import& i) { i.out(i.in(0) + i.real("value", i.real("step", 1))); }
void cumsum(Import& i) {
  if (flag(i, "exclusive") || flag(i, "reverse")) i.unsupported("exclusive or reverse sums");
  Value x = i.in(0);
  if (flag(i, "flatten")) x = reshape(x, {numel(x.shape())});
  const int64_t axis = flag(i, "flatten") ? 0 : group_in(i, 1) ? i.ints(1)[0] : i.integer("axis", -1);
  i.out(call("cumsum", {x}, {{"axis", axis}}));
}
void reduce(Import& i) {  // ProgramDesc says `reduce_all`
  if (flag(i, "reduce_all")) {
    const char* op = i.node.type.c_str();
    return i.out(call(op, {i.in(0)}, {{"axis", std::monostate{}}, {"keepdim", flag(i, "keepdim")}}));
  }
  same_row(i);
}

// clang-format off
const ImportTable kRows(Dialect::kPaddle, {
    {"full", full_op}, {"full_", full_op}, {"full_int_array", full_int_array},
    {"full_with_tensor", full_with_tensor}, {"full_like", full_like},
    {"full_batch_size_like", full_batch_size_like}, {"assign_value", assign_value},
    {"assign_value_", assign_value}, {"arange", arange}, {"linspace", linspace}, {"shape", shape_of},
    {"shape64", shape_of}, {"numel", numel_of}, {"reshape", reshape_op}, {"reshape_", reshape_op},
    {"flatten2", flatten2}, {"squeeze", squeeze}, {"unsqueeze", unsqueeze}, {"expand", expand},
    {"expand_as", expand_as}, {"tile", tile}, {"concat", concat_op}, {"stack", stack}, {"unstack", unstack},
    {"unbind", unstack}, {"split", split}, {"split_with_num", split}, {"slice", slice},
    {"strided_slice", strided_slice}, {"set_value", set_value}, {"set_value_", set_value},
    {"set_value_with_tensor", set_value}, {"set_value_with_tensor_", set_value}, {"gather", gather},
    {"meshgrid", meshgrid}, {"add_n", add_n}, {"tril_triu", tril_triu}, {"nonzero", nonzero},
    {"masked_select", masked_select}, {"increment", increment}, {"increment_", increment}, {"cumsum", cumsum},
    {"sum", reduce}, {"mean", reduce}, {"max", reduce}, {"min", reduce}, {"prod", reduce}, {"all", reduce},
    {"any", reduce}});
// clang-format on

// The same name and meaning in both tables.
// clang-format off
const ImportTable kSame(Dialect::kPaddle, {
#define SAME(name) {name, same_row}
    SAME("abs"), SAME("acos"), SAME("acosh"), SAME("amax"), SAME("amin"), SAME("argmax"), SAME("argmin"),
    SAME("asin"), SAME("asinh"), SAME("atan"), SAME("atan2"), SAME("atanh"), SAME("bitwise_and"),
    SAME("bitwise_not"), SAME("bitwise_or"), SAME("bitwise_xor"), SAME("cast"), SAME("ceil"), SAME("celu"),
    SAME("channel_shuffle"), SAME("clip"), SAME("cos"), SAME("cosh"), SAME("cummax"), SAME("cummin"),
    SAME("elu"), SAME("equal"), SAME("erf"), SAME("erfinv"), SAME("exp"), SAME("expm1"), SAME("flatten"),
    SAME("flip"), SAME("floor"), SAME("floor_divide"), SAME("fmax"), SAME("fmin"), SAME("gather_nd"),
    SAME("gelu"), SAME("greater_equal"), SAME("greater_than"), SAME("hardshrink"), SAME("hardsigmoid"),
    SAME("hardswish"), {"hardtanh", hardtanh}, SAME("heaviside"), SAME("index_add"), SAME("index_sample"),
    SAME("index_select"), SAME("isclose"), SAME("isfinite"), SAME("isinf"), SAME("isnan"), SAME("kthvalue"),
    SAME("leaky_relu"), SAME("lerp"), SAME("less_equal"), SAME("less_than"), SAME("lgamma"), SAME("log"),
    SAME("log10"), SAME("log1p"), SAME("log2"), SAME("log_softmax"), SAME("logcumsumexp"),
    SAME("logical_and"), SAME("logical_not"), SAME("logical_or"), SAME("logical_xor"), SAME("logit"),
    SAME("logsumexp"), SAME("matmul"), SAME("maximum"), SAME("minimum"), SAME("mish"), SAME("mode"),
    SAME("nan_to_num"), SAME("not_equal"), SAME("one_hot"), SAME("ones_like"), SAME("pixel_shuffle"),
    SAME("pixel_unshuffle"), SAME("pow"), SAME("reciprocal"), SAME("relu"), SAME("relu6"), SAME("remainder"),
    SAME("roll"), SAME("round"), SAME("rsqrt"), SAME("scale"), SAME("scatter"), SAME("scatter_nd_add"),
    SAME("searchsorted"), SAME("selu"), SAME("sigmoid"), SAME("sign"), SAME("silu"), SAME("sin"),
    SAME("sinh"), SAME("softmax"), SAME("softplus"), SAME("softshrink"), SAME("softsign"), SAME("sqrt"),
    SAME("square"), SAME("stanh"), SAME("swish"), SAME("take_along_axis"), SAME("tan"), SAME("tanh"),
    SAME("tanhshrink"), SAME("thresholded_relu"), SAME("topk"), SAME("transpose"), SAME("tril"), SAME("triu"),
    SAME("trunc"), SAME("where"), SAME("zeros_like"),
#undef SAME
});
// clang-format on
}  // namespace
}  // namespace yuloh::formats::paddle
