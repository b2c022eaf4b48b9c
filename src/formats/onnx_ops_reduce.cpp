// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: reductions, running sums, softmax.
#include <algorithm>
#include <limits>

#include "formats/onnx_ops.h"

namespace yuloh::formats {

// Before opset 13 the axes from `axis` on were taken together.
Value softmax_from(const Value& x, int64_t axis, const char* op) {
  int64_t left = 1, right = 1;
  for (int64_t d = 0; d < x.rank(); ++d) (d < axis ? left : right) *= x.shape()[d];
  return reshape(call(op, {reshape(x, {left, right})}, {{"axis", 1}}), x.shape());
}

namespace {
struct Axes {
  Ints axes;
  bool keep, nothing;  // nothing: "no axes" means none rather than all
};
Axes axes_of(const Import& i, int since_input) {
  Axes a;
  Ints given = i.opset() >= since_input ? (i.has(1) ? i.ints(1) : Ints()) : i.ints_attr("axes", {});
  const int64_t rank = i.in(0).rank();
  a.keep = i.integer("keepdims", 1);
  a.nothing = given.empty() && i.integer("noop_with_empty_axes", 0);
  if (given.empty() && !a.nothing)
    for (int64_t d = 0; d < rank; ++d) given.push_back(d);
  for (int64_t g : given) a.axes.push_back(axis_of(i, g, rank));
  return a;
}
Value sum_over(const Value& x, const Axes& a) {
  return a.axes.empty() ? x : sum_in(x, a.axes, a.keep, x.dtype());
}

double lowest(DType t) {
  switch (t) {
    case DType::kInt8: return -128;
    case DType::kInt16: return -32768;
    case DType::kInt32: return std::numeric_limits<int32_t>::min();
    case DType::kInt64: return static_cast<double>(std::numeric_limits<int64_t>::min());
    case DType::kUInt8: return 0;
    default: return -std::numeric_limits<double>::infinity();
  }
}
double highest(DType t) {
  switch (t) {
    case DType::kInt8: return 127;
    case DType::kInt16: return 32767;
    case DType::kInt32: return std::numeric_limits<int32_t>::max();
    case DType::kInt64: return static_cast<double>(std::numeric_limits<int64_t>::max());
    case DType::kUInt8: return 255;
    default: return std::numeric_limits<double>::infinity();
  }
}
void extreme(Import& i, const char* op, const char* op_bool, double (*nothing)(DType)) {
  const Axes a = axes_of(i, 18);
  const Value x = i.in(0);
  if (a.axes.empty()) return i.out(x);
  if (x.dtype() == DType::kBool) return i.out(call(op_bool, {x}, {{"axis", a.axes}, {"keepdim", a.keep}}));
  if (numel(x.shape()) == 0) {
    Shape s;
    for (int64_t d = 0; d < x.rank(); ++d) {
      const bool gone = std::count(a.axes.begin(), a.axes.end(), d) != 0;
      if (!gone || a.keep) s.push_back(gone ? 1 : x.shape()[d]);
    }
    return i.out(full(s, nothing(x.dtype()), x.dtype()));
  }
  i.out(call(op, {x}, {{"axis", a.axes}, {"keepdim", a.keep}}));
}
void reduce_mean(Import& i) {
  const Axes a = axes_of(i, 18);
  const Value x = i.in(0);
  if (a.axes.empty()) return i.out(x);
  if (is_integral(x.dtype())) {
    int64_t n = 1;
    for (int64_t d : a.axes) n *= x.shape()[d];
    return i.out(to(sum_in(to(x, DType::kFloat64), a.axes, a.keep, DType::kFloat64) / static_cast<double>(n),
                    x.dtype()));
  }
  i.out(mean(x, a.axes, a.keep));
}
void reduce_prod(Import& i) {
  const Axes a = axes_of(i, 18);
  const Value x = i.in(0);
  i.out(a.axes.empty() ? x : to(call("prod", {x}, {{"axis", a.axes}, {"keepdim", a.keep}}), x.dtype()));
}
void reduce_norm(Import& i, bool squares, bool root) {
  const Axes a = axes_of(i, 18);
  const Value x = i.in(0);
  const Value s = sum_over(squares ? square(x) : abs(x), a);
  i.out(!root ? s : is_integral(s.dtype()) ? to(sqrt(to(s, DType::kFloat64)), s.dtype()) : sqrt(s));
}
void reduce_log(Import& i, bool exponent) {
  const Axes a = axes_of(i, 18);
  const Value x = i.in(0);
  if (exponent && !a.axes.empty() && numel(x.shape()))
    return i.out(call("logsumexp", {x}, {{"axis", a.axes}, {"keepdim", a.keep}}));
  i.out(exponent && a.axes.empty() ? x : log(sum_over(exponent ? exp(x) : x, a)));
}

void running(Import& i, const char* op) {
  const int64_t given = first(i, 1);
  Value x = i.in(0);
  const int64_t axis = axis_of(i, given, x.rank()), n = x.shape()[axis];
  const bool reverse = i.integer("reverse", 0), product = std::string(op) == "cumprod_axis";
  const DType t = x.dtype();
  if (reverse) x = flip(x, axis);
  if (i.integer("exclusive", 0)) {
    Shape s = x.shape();
    s[axis] = std::min<int64_t>(1, n);
    x = n ? concat({full(s, product ? 1 : 0, t), narrow(x, axis, 0, n - 1)}, axis) : x;
  }
  Value r = to(call(op, {x}, {{"axis", axis}}), t);
  i.out(reverse ? flip(r, axis) : r);
}
void soft(Import& i, const char* op) {
  const Value x = i.in(0);
  const bool old = i.opset() < 13;
  const int64_t axis = axis_of(i, i.integer("axis", old ? 1 : -1), x.rank());
  i.out(old ? softmax_from(x, axis, op) : call(op, {x}, {{"axis", axis}}));
}
void hardmax(Import& i) {
  Value x = i.in(0);
  const bool old = i.opset() < 13;
  int64_t axis = axis_of(i, i.integer("axis", old ? 1 : -1), x.rank());
  const Shape shape = x.shape();
  if (old) {
    int64_t left = 1, right = 1;
    for (int64_t d = 0; d < x.rank(); ++d) (d < axis ? left : right) *= shape[d];
    x = reshape(x, {left, right}), axis = 1;
  }
  Shape s(static_cast<uint32_t>(x.rank()), 1);
  s[axis] = x.shape()[axis];
  i.out(reshape(
      to(equal(iota(s, axis, DType::kInt64), call("argmax", {x}, {{"axis", axis}, {"keepdim", true}})),
         x.dtype()),
      shape));
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"ReduceSum", [](Import& i) { i.out(sum_over(i.in(0), axes_of(i, 13))); }},
                            {"ReduceMean", reduce_mean},
                            {"ReduceProd", reduce_prod},
                            {"ReduceMax", [](Import& i) { extreme(i, "max", "any", lowest); }},
                            {"ReduceMin", [](Import& i) { extreme(i, "min", "all", highest); }},
                            {"ReduceL1", [](Import& i) { reduce_norm(i, false, false); }},
                            {"ReduceL2", [](Import& i) { reduce_norm(i, true, true); }},
                            {"ReduceSumSquare", [](Import& i) { reduce_norm(i, true, false); }},
                            {"ReduceLogSum", [](Import& i) { reduce_log(i, false); }},
                            {"ReduceLogSumExp", [](Import& i) { reduce_log(i, true); }},
                            {"CumSum", [](Import& i) { running(i, "cumsum_axis"); }},
                            {"CumProd", [](Import& i) { running(i, "cumprod_axis"); }},
                            {"Softmax", [](Import& i) { soft(i, "softmax"); }},
                            {"LogSoftmax", [](Import& i) { soft(i, "log_softmax"); }},
                            {"Hardmax", hardmax},
                        });
}  // namespace
}  // namespace yuloh::formats
