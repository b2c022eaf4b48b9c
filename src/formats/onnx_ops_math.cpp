// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: elementwise operators.
#include <cmath>
#include <cstring>

#include "formats/onnx_ops.h"

namespace yuloh::formats {

void need(const Import& i, std::initializer_list<int64_t> ranks) {
  size_t k = 0;
  for (int64_t r : ranks) {
    const int64_t got = i.in(k).rank();
    if (got < r)
      value_error("import: ", describe_node(i.node), ": input ", k, " has shape ", i.in(k).shape(),
                  "; expected at least ", r, " dims.");
    ++k;
  }
}
void expect(const Import& i, bool condition, const char* what) {
  if (!condition) value_error("import: ", describe_node(i.node), ": expected ", what, ".");
}
int64_t bounded(const Import& i, const char* name, int64_t otherwise, int64_t low, int64_t high) {
  const int64_t v = i.integer(name, otherwise);
  if (v < low || v > high)
    value_error("import: ", describe_node(i.node), ": ", name, " is ", v, "; expected ", low, " to ", high,
                ".");
  return v;
}
int64_t first(const Import& i, size_t k) {
  const Ints v = i.ints(k);
  if (v.empty()) value_error("import: ", describe_node(i.node), ": input ", k, " is empty.");
  return v[0];
}
DType dtype_attr(const Import& i, const char* name, int otherwise) {
  const OnnxTypeInfo* info = onnx_type_info(i.integer(name, otherwise));
  if (!info || info->dtype == DType::kString || is_complex(info->dtype))
    i.unsupported(std::string(name) + " is no element type that can be computed");
  return info->dtype;
}
Value non_negative(const Value& index, int64_t extent) {
  const Value i = to(index, DType::kInt64);
  return where(call("less_than", {i, constant(0, DType::kInt64)}), i + static_cast<double>(extent), i);
}
Ints spatial_ones(size_t n) { return Ints(static_cast<uint32_t>(n), 1); }

Value wrapped(const Value& v, int stored_as) {
  auto masked = [&](double bits) { return call("bitwise_and", {v, constant(bits, v.dtype())}); };
  auto centred = [&](double half) {
    return affine(call("bitwise_and", {affine(v, 1, half), constant(2 * half - 1, v.dtype())}), 1, -half);
  };
  switch (stored_as) {
    case kOnnxUInt16: return masked(65535);
    case kOnnxUInt32: return masked(4294967295.0);
    case kOnnxUInt4: return masked(15);
    case kOnnxUInt2: return masked(3);
    case kOnnxInt4: return centred(8);
    case kOnnxInt2: return centred(2);
    default: return minifloat_format(stored_as) ? to_minifloat(v, stored_as, true) : v;
  }
}

namespace {

#define UNARY(onnx, op)                                 \
  {                                                     \
    onnx, [](Import& i) { i.out(call(op, {i.in(0)})); } \
  }
#define COMPARE(onnx, op)                        \
  {                                              \
    onnx, [](Import& i) {                        \
      i.out(call(op, {i.in(0), aligned(i, 1)})); \
      i.out_stored_as(0, 0);                     \
    }                                            \
  }
#define VARIADIC(onnx, op)                      \
  {                                             \
    onnx, [](Import& i) { i.out(fold(i, op)); } \
  }

// Before opset 7 the second operand's axes could be lined up with an axis of the first.
Value aligned(const Import& i, size_t k) {
  Value b = i.in(k);
  if (i.opset() >= 7 || !i.has_attr("axis") || !i.integer("broadcast", 0)) return b;
  const int64_t axis = axis_of(i, i.integer("axis", 0), i.in(0).rank());
  Shape s = b.shape();
  while (static_cast<int64_t>(s.size()) + axis < i.in(0).rank()) s.push_back(1);
  return reshape(b, s);
}
Value fold(const Import& i, const char* op) {
  Value r = i.in(0);
  for (size_t k = 1; k < i.n_inputs(); ++k) r = call(op, {r, i.in(k)});
  return r;
}
void arithmetic(Import& i, const char* op) {
  i.out(wrapped(call(op, {i.in(0), aligned(i, 1)}), i.stored_as(0)));
}
// Integers are divided towards zero.
Value divided(const Value& a, const Value& b) {
  if (!is_integral(a.dtype())) return call("divide", {a, b});
  if (unsigned_type(a.dtype())) return call("floor_div_unchecked", {a, b});
  return call("floor_div_unchecked", {a - call("fmod_unchecked", {a, b}), b});
}
void power(Import& i) {
  Value x = i.in(0), y = aligned(i, 1);
  const DType t = x.dtype();
  if (y.dtype() != t) {
    const DType work = is_integral(t) || y.dtype() == DType::kFloat64
                           ? DType::kFloat64
                           : promote(t, is_integral(y.dtype()) ? t : y.dtype());
    return i.out(to(call("pow", {to(x, work), to(y, work)}), t));
  }
  i.out(call("pow", {x, y}));
}
void clip(Import& i) {
  Value x = i.in(0);
  if (i.opset() < 11) {
    if (i.has_attr("min")) x = call("clip_low", {x, constant(i.real("min", 0), x.dtype())});
    if (i.has_attr("max")) x = call("clip_high", {x, constant(i.real("max", 0), x.dtype())});
    return i.out(x);
  }
  if (i.has(1)) x = maximum(x, reshape(i.in(1), {}));
  if (i.has(2)) x = minimum(x, reshape(i.in(2), {}));
  i.out(x);
}
void shift(Import& i) {
  const bool left = i.text("direction", "") == "LEFT",
             is_signed = !unsigned_type(i.in(0).dtype()) && !i.stored_as(0);
  const Value v = call(left ? "bitwise_left_shift" : "bitwise_right_shift", {i.in(0), i.in(1)},
                       {{"is_arithmetic", is_signed}});
  i.out(wrapped(v, i.stored_as(0)));
}
void is_inf(Import& i) {
  const bool low = i.integer("detect_negative", 1), high = i.integer("detect_positive", 1);
  const Value x = i.in(0);
  i.out(low && high ? call("isinf", {x})
        : low       ? call("isneginf", {x})
        : high      ? call("isposinf", {x})
                    : full(x.shape(), 0, DType::kBool));
}
void prelu(Import& i) {
  Value x = i.in(0), slope = i.in(1);
  if (i.opset() < 7 && slope.rank() == 1 && x.rank() > 1 && slope.shape()[0] == x.shape()[1]) {
    Shape s{slope.shape()[0]};
    while (static_cast<int64_t>(s.size()) + 1 < x.rank()) s.push_back(1);
    slope = reshape(slope, s);
  }
  i.out(where(call("less_than", {x, constant_like(0, x)}), x * slope, x));
}
void shrink(Import& i) {
  const double lambd = i.real("lambd", .5), bias = i.real("bias", 0);
  const Value x = i.in(0), zero = zeros_like(x);
  const DType t = x.dtype();
  const Value f = is_integral(t) ? to(x, DType::kFloat32) : x;
  const Value high = where(greater_than(f, constant_like(lambd, f)), to(f - bias, t), zero);
  i.out(where(call("less_than", {f, constant_like(-lambd, f)}), to(f + bias, t), high));
}
void mean_of(Import& i) { i.out(affine(fold(i, "add"), 1, 0, static_cast<double>(i.n_inputs()))); }
void swish(Import& i) {
  const double alpha = i.real("alpha", 1);
  const Value x = i.in(0);
  i.out(alpha == 1 ? call("silu", {x}) : x * call("sigmoid", {x * alpha}));
}

const ImportTable table(
    Dialect::kOnnx,
    {
        UNARY("Abs", "abs"),
        UNARY("Ceil", "ceil"),
        UNARY("Floor", "floor"),
        UNARY("Round", "round"),
        UNARY("Sqrt", "sqrt"),
        UNARY("Exp", "exp"),
        UNARY("Log", "log"),
        UNARY("Sin", "sin"),
        UNARY("Cos", "cos"),
        UNARY("Tan", "tan"),
        UNARY("Asin", "asin"),
        UNARY("Acos", "acos"),
        UNARY("Atan", "atan"),
        UNARY("Sinh", "sinh"),
        UNARY("Cosh", "cosh"),
        UNARY("Asinh", "asinh"),
        UNARY("Acosh", "acosh"),
        UNARY("Atanh", "atanh"),
        UNARY("Erf", "erf"),
        UNARY("Sign", "sign"),
        UNARY("Reciprocal", "reciprocal"),
        UNARY("Relu", "relu"),
        UNARY("Sigmoid", "sigmoid"),
        UNARY("Tanh", "tanh"),
        UNARY("Softsign", "softsign"),
        UNARY("Mish", "mish"),
        UNARY("IsNaN", "isnan"),
        UNARY("Not", "logical_not"),
        {"HardSwish",
         [](Import& i) {
           i.out(i.in(0) * call("hardsigmoid", {i.in(0)}, {{"slope", 1.0 / 6}, {"offset", .5}}));
         }},
        {"Neg", [](Import& i) { i.out(wrapped(-i.in(0), i.stored_as(0))); }},
        {"BitwiseNot", [](Import& i) { i.out(wrapped(call("bitwise_not", {i.in(0)}), i.stored_as(0))); }},
        {"Identity", [](Import& i) { i.set_item(0, i.item(0)); }},
        {"Add", [](Import& i) { arithmetic(i, "add"); }},
        {"Sub", [](Import& i) { arithmetic(i, "subtract"); }},
        {"Mul", [](Import& i) { arithmetic(i, "multiply"); }},
        {"Div", [](Import& i) { i.out(divided(i.in(0), aligned(i, 1))); }},
        {"Pow", power},
        {"Mod",
         [](Import& i) {
           i.out(call(i.integer("fmod", 0) ? "fmod_unchecked" : "mod_unchecked", {i.in(0), i.in(1)}));
         }},
        {"BitShift", shift},
        {"BitwiseAnd",
         [](Import& i) {
           i.out(call("bitwise_and", {i.in(0), i.in(1)}));
         }},
        {"BitwiseOr",
         [](Import& i) {
           i.out(call("bitwise_or", {i.in(0), i.in(1)}));
         }},
        {"BitwiseXor",
         [](Import& i) {
           i.out(call("bitwise_xor", {i.in(0), i.in(1)}));
         }},
        COMPARE("And", "logical_and"),
        COMPARE("Or", "logical_or"),
        COMPARE("Xor", "logical_xor"),
        COMPARE("Equal", "equal"),
        COMPARE("Greater", "greater_than"),
        COMPARE("Less", "less_than"),
        COMPARE("GreaterOrEqual", "greater_equal"),
        COMPARE("LessOrEqual", "less_equal"),
        VARIADIC("Max", "maximum"),
        VARIADIC("Min", "minimum"),
        VARIADIC("Sum", "add"),
        {"Mean", mean_of},
        {"Where",
         [](Import& i) {
           i.out(where(i.in(0), i.in(1), i.in(2)));
           i.out_stored_as(0, i.stored_as(1));
         }},
        {"Clip", clip},
        {"IsInf", is_inf},
        {"PRelu", prelu},
        {"Shrink", shrink},
        {"Swish", swish},
        {"Softplus",
         [](Import& i) {
           i.out(call("softplus", {i.in(0)}, {{"threshold", 1e30}}));
         }},
        {"LeakyRelu",
         [](Import& i) {
           i.out(call("leaky_relu", {i.in(0)}, {{"negative_slope", i.real("alpha", .01)}}));
         }},
        {"Elu",
         [](Import& i) {
           i.out(call("elu", {i.in(0)}, {{"alpha", i.real("alpha", 1)}}));
         }},
        {"Celu",
         [](Import& i) {
           i.out(call("celu", {i.in(0)}, {{"alpha", i.real("alpha", 1)}}));
         }},
        {"Selu",
         [](Import& i) {
           i.out(call("selu", {i.in(0)},
                      {{"scale", i.real("gamma", 1.0507009873554805)},
                       {"alpha", i.real("alpha", 1.6732632423543772)}}));
         }},
        {"ThresholdedRelu",
         [](Import& i) {
           i.out(call("thresholded_relu", {i.in(0)}, {{"threshold", i.real("alpha", 1)}}));
         }},
        {"HardSigmoid",
         [](Import& i) {
           i.out(call("hardsigmoid", {i.in(0)},
                      {{"slope", i.real("alpha", .2)}, {"offset", i.real("beta", .5)}}));
         }},
        {"Gelu",
         [](Import& i) {
           i.out(call("gelu", {i.in(0)}, {{"approximate", i.text("approximate", "none") == "tanh"}}));
         }},
        {"com.microsoft.Gelu", [](Import& i) { i.out(call("gelu", {i.in(0)})); }},
        {"com.microsoft.FastGelu",
         [](Import& i) {
           i.out(call("gelu", {i.has(1) ? i.in(0) + i.in(1) : i.in(0)}, {{"approximate", true}}));
         }},
        {"com.microsoft.BiasGelu", [](Import& i) { i.out(call("gelu", {i.in(0) + i.in(1)})); }},
        {"com.microsoft.QuickGelu",
         [](Import& i) { i.out(i.in(0) * call("sigmoid", {i.in(0) * i.real("alpha", 1.702)})); }},
    });
}  // namespace
}  // namespace yuloh::formats
