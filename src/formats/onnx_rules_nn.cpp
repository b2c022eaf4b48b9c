// SPDX-License-Identifier: Apache-2.0
// ONNX rules: products, reductions, layers.
#include <algorithm>
#include <cmath>

#include "formats/onnx_write.h"

namespace yuloh::formats {
namespace {
using G = OnnxGraph;
using Id = OnnxGraph::Id;

std::vector<int64_t> list_of(const Ints& v) { return {v.begin(), v.end()}; }

// ---- products ----
Id last_two_swapped(G& g, Id x) {
  Ints perm;
  const auto rank = static_cast<int64_t>(g.rank(x));
  for (int64_t k = 0; k < rank; ++k) perm.push_back(k);
  std::swap(perm[static_cast<uint32_t>(rank - 1)], perm[static_cast<uint32_t>(rank - 2)]);
  return g.transpose(x, perm);
}
void matmul(OnnxNode& n) {
  const DType t = n.out[0].dtype;
  const DType w = is_integral(t) && dtype_size(t) < 4 ? DType::kInt32 : t;
  Id x = n.in[0], y = n.in[1];
  if (n.flag("transpose_x") && n.g.rank(x) > 1) x = last_two_swapped(n.g, x);
  if (n.flag("transpose_y") && n.g.rank(y) > 1) y = last_two_swapped(n.g, y);
  n.done(n.g.cast(n.g.op("MatMul", {n.g.cast(x, w), n.g.cast(y, w)}, w), t));
}
void attention(OnnxNode& n) {  // [batch, length, heads, width]
  const DType t = n.out[0].dtype, w = is_half(t) ? DType::kFloat32 : t;
  const Id q = n.g.binary("Mul", n.g.transpose(n.in[0], {0, 2, 1, 3}), n.real_id("scale", t));
  Id s = n.g.cast(n.g.binary("MatMul", q, n.g.transpose(n.in[1], {0, 2, 3, 1})), w);
  if (n.flag("causal")) {
    const auto steps = [&](Id x, int64_t along) {
      return n.g.unsqueeze(n.g.range(n.g.dim_of(x, 1)), {along});
    };
    const Id seen = n.g.op("LessOrEqual", {steps(n.in[1], 0), steps(n.in[0], 1)}, DType::kBool);
    s = n.g.full_where(seen, s, n.g.number(-3.0e38, w));
  }
  const Id p = n.g.cast(n.g.op("Softmax", {s}, w, {{"axis", int64_t{-1}}}), t);
  n.result = {n.g.transpose(n.g.binary("MatMul", p, n.g.transpose(n.in[2], {0, 2, 1, 3})), {0, 2, 1, 3})};
  if (n.used[1]) n.result.push_back(n.g.reduce("ReduceLogSumExp", s, {-1}, false));
}

// ONNX's LSTM starts from its input: what the input's share of the gates was made of where it is known, else
// the gates themselves with a weight of ones on the diagonal. Its gates are i o f c, ours i f c o. Operands
// of an ONNX recurrent layer: input, weights, biases (gates in ONNX's order), no lengths, h.
std::vector<Id> recurrent_operands(OnnxNode& n, const std::vector<int64_t>& order) {
  G& g = n.g;
  const DType t = n.out[0].dtype;
  const int64_t hidden = n.out[0].dims[2], rows = static_cast<int64_t>(order.size()) * hidden;
  const auto reordered = [&](Id x) {
    std::vector<Id> parts;
    for (int64_t k : order) parts.push_back(g.slice(x, 0, k * hidden, (k + 1) * hidden));
    return g.op("Concat", parts, t, {{"axis", int64_t{0}}});
  };
  Id x = n.in[0], w, b;
  if (const auto p = n.product_of_input(0);
      p && g.rank(n.value(p->x)) == 3 && g.dtype(n.value(p->x)) == t && g.dtype(n.value(p->w)) == t) {
    x = n.value(p->x), w = n.value(p->w), b = g.cast(n.value(p->b), t);
  } else {
    std::vector<double> one(static_cast<size_t>(rows * rows), 0.0);
    for (int64_t i = 0; i < rows; ++i) one[static_cast<size_t>(i * rows + i)] = 1;
    w = g.tensor(one, t, {rows, rows}),
    b = g.tensor(std::vector<double>(static_cast<size_t>(rows), 0.0), t, {rows});
  }
  const Id biases =
      g.op("Concat", {reordered(b), reordered(g.cast(n.arg("bias"), t))}, t, {{"axis", int64_t{0}}});
  return {x,
          g.unsqueeze(reordered(w), {0}),
          g.unsqueeze(reordered(g.cast(n.arg("weight"), t)), {0}),
          g.unsqueeze(biases, {0}),
          0,
          g.unsqueeze(n.arg("h"), {0})};
}
std::string direction(OnnxNode& n) { return n.flag("reverse") ? "reverse" : "forward"; }
void gru(OnnxNode& n) {
  const DType t = n.out[0].dtype;
  const auto r = n.g.ops(
      "GRU", recurrent_operands(n, {1, 0, 2}), {t, t},
      {{"hidden_size", n.out[0].dims[2]}, {"direction", direction(n)}, {"linear_before_reset", int64_t{1}}});
  n.result = {n.g.squeeze(r[0], {1}), 0};
}
void lstm(OnnxNode& n) {
  G& g = n.g;
  const DType t = n.out[0].dtype;
  std::vector<Id> operands = recurrent_operands(n, {0, 3, 1, 2});
  operands.push_back(g.unsqueeze(n.arg("c"), {0}));
  const auto r =
      g.ops("LSTM", operands, {t, t, t}, {{"hidden_size", n.out[0].dims[2]}, {"direction", direction(n)}});
  n.result = {g.squeeze(r[0], {1}), 0};
  // The operator gives the last cell only; where nobody reads another it will do for all.
  if (n.read_only_at(1, !n.flag("reverse"))) n.result[1] = g.expand(r[2], g.shape_of(n.result[0]));
}

// ---- reductions ----
bool keeps_all(OnnxNode& n) {  // an empty list of axes
  return !n.none("axis") && n.ints("axis").empty() && n.out[0].rank() == n.g.rank(n.in[0]) &&
         n.g.type(n.in[0]).dims == n.out[0].dims;
}
Id reduced(OnnxNode& n, const char* type, Id x) {
  if (keeps_all(n)) return x;
  if (n.g.rank(n.in[0]) == 0) return x;
  return n.g.reduce(type, x, n.axes("axis"), n.flag("keepdim"));
}
void sum(OnnxNode& n) { n.done(reduced(n, "ReduceSum", n.g.cast(n.in[0], n.out[0].dtype))); }
void prod(OnnxNode& n) { n.done(reduced(n, "ReduceProd", n.g.cast(n.in[0], n.out[0].dtype))); }
void mean(OnnxNode& n) { n.done(reduced(n, "ReduceMean", n.g.cast(n.in[0], n.out[0].dtype))); }
template <bool kMax>
void extreme(OnnxNode& n) {
  const DType t = n.out[0].dtype, w = t == DType::kBool || t == DType::kInt16 ? DType::kInt32 : t;
  n.done(n.g.cast(reduced(n, kMax ? "ReduceMax" : "ReduceMin", n.g.cast(n.in[0], w)), t));
}
template <bool kAll>
void truth(OnnxNode& n) {
  const Id x = n.g.cast(n.g.cast(n.in[0], DType::kBool), DType::kInt32);
  n.done(n.g.cast(reduced(n, kAll ? "ReduceMin" : "ReduceMax", x), DType::kBool));
}
void softmax(OnnxNode& n) {
  const char* type = n.node.op->name == "softmax" ? "Softmax" : "LogSoftmax";
  const Id x = n.g.cast(n.in[0], n.out[0].dtype);
  if (n.g.rank(x) == 0) return n.done(n.g.reshape(n.op(type, {n.g.flat(x)}, {{"axis", int64_t{0}}}), {}));
  n.done(n.op(type, {x}, {{"axis", n.integer("axis")}}));
}

// ---- windows: begin and end by axis -> all begins, all ends ----
std::vector<int64_t> pads(OnnxNode& n) {
  const Ints p = n.ints("padding");
  std::vector<int64_t> r;
  for (uint32_t end : {0u, 1u})
    for (uint32_t k = end; k < p.size(); k += 2) r.push_back(p[k]);
  return r;
}
std::vector<G::Attr> window(OnnxNode& n, const std::vector<int64_t>& kernel) {
  return {{"kernel_shape", kernel}, {"strides", list_of(n.ints("stride"))}, {"pads", pads(n)}};
}
std::vector<int64_t> kernel_of(OnnxNode& n) {
  const auto& w = n.g.type(n.in[1]).dims;
  return {w.begin() + 2, w.end()};
}
void conv(OnnxNode& n) {
  auto a = window(n, kernel_of(n));
  a.push_back({"dilations", list_of(n.ints("dilation"))}), a.push_back({"group", n.integer("groups")});
  n.done(n.op("Conv", {n.in[0], n.in[1]}, std::move(a)));
}
void conv_transpose(OnnxNode& n) {
  auto a = window(n, kernel_of(n));
  a.push_back({"dilations", list_of(n.ints("dilation"))}), a.push_back({"group", n.integer("groups")});
  a.push_back({"output_padding", list_of(n.ints("output_padding"))});
  n.done(n.op("ConvTranspose", {n.in[0], n.in[1]}, std::move(a)));
}
// A transposed convolution whose output size is given; what the stride leaves over is output padding.
void conv_grad_input(OnnxNode& n) {
  auto a = window(n, kernel_of(n));
  const Ints input = n.ints("input_size"), stride = n.ints("stride"), dilation = n.ints("dilation"),
             pad = n.ints("padding");
  const auto &grad = n.g.type(n.in[0]).dims, &w = n.g.type(n.in[1]).dims;
  std::vector<int64_t> more;
  for (uint32_t k = 0; k < input.size(); ++k) {
    if (grad[2 + k] < 0) n.cannot("its output size depends on open sizes");
    more.push_back(input[k] - ((grad[2 + k] - 1) * stride[k] + dilation[k] * (w[2 + k] - 1) + 1 - pad[2 * k] -
                               pad[2 * k + 1]));
  }
  a.push_back({"dilations", list_of(dilation)}), a.push_back({"group", n.integer("groups")}),
      a.push_back({"output_padding", more});
  n.done(n.op("ConvTranspose", {n.in[0], n.in[1]}, std::move(a)));
}
void channel_bias(OnnxNode& n) {
  ModelNode* made = n.g.producer(n.in[0]);
  const bool fits = made && (made->type == "Conv" || made->type == "ConvTranspose") &&
                    made->inputs.size() == 2 && n.readers[0] == 1;
  if (fits && !n.g.producer(n.in[1]) && n.g.dtype(n.in[1]) == n.out[0].dtype) {
    n.g.add_input(made, n.in[1]);
    return n.done(n.in[0]);
  }
  Ints shape(static_cast<uint32_t>(n.g.rank(n.in[0])), 1);
  shape[1] = -1;
  n.done(n.g.binary("Add", n.in[0], n.g.reshape(n.g.cast(n.in[1], n.out[0].dtype), shape)));
}
void max_pool(OnnxNode& n) {
  auto a = window(n, list_of(n.ints("kernel_size")));
  a.push_back({"ceil_mode", n.integer("ceil_mode")});
  n.done(n.op("MaxPool", {n.in[0]}, std::move(a)));
}
// ONNX counts positions through the whole tensor, the row through each plane.
void max_pool_with_index(OnnxNode& n) {
  auto a = window(n, list_of(n.ints("kernel_size")));
  a.push_back({"ceil_mode", n.integer("ceil_mode")});
  const auto r = n.g.ops("MaxPool", {n.in[0]}, {n.out[0].dtype, DType::kInt64}, std::move(a));
  const auto rank = static_cast<int64_t>(n.g.rank(n.in[0]));
  const Id plane = n.g.op("ReduceProd", {n.g.slice(n.g.shape_of(n.in[0]), 0, 2, rank)}, DType::kInt64,
                          {{"keepdims", int64_t{1}}});
  n.result = {r[0], n.g.cast(n.g.binary("Mod", r[1], plane), n.out[1].dtype)};
}
void avg_pool(OnnxNode& n) {
  const Ints kernel = n.ints("kernel_size");
  auto a = window(n, list_of(kernel));
  const bool divided = !n.none("divisor");
  if (divided && n.flag("ceil_mode")) n.cannot("a divisor of its own with ceil_mode");
  a.push_back({"ceil_mode", n.integer("ceil_mode")});
  a.push_back({"count_include_pad", int64_t{divided || !n.flag("exclusive")}});
  Id y = n.op("AveragePool", {n.in[0]}, std::move(a));
  if (divided) {
    double area = 1;
    for (int64_t k : kernel) area *= static_cast<double>(k);
    y = n.g.binary("Mul", y, n.g.number(area / static_cast<double>(n.integer("divisor")), n.out[0].dtype));
  }
  n.done(y);
}
// Window i of an adaptive pool covers [floor(i n / k), ceil((i + 1) n / k)).
int64_t window_begin(int64_t i, int64_t size, int64_t count) { return i * size / count; }
int64_t window_end(int64_t i, int64_t size, int64_t count) { return ((i + 1) * size + count - 1) / count; }
// The same windows over an axis of open size, as a [count, size] mask: a product with their shares, or a
// masked maximum.
Id open_windows(OnnxNode& n, Id x, int64_t axis, int64_t count, bool max) {
  G& g = n.g;
  const DType t = n.out[0].dtype;
  const Id size = g.dim_of(x, axis), k = g.ints({count}), i = g.range(k);
  const Id from = g.binary("Div", g.binary("Mul", i, size), k);
  const Id to = g.binary(
      "Div", g.binary("Add", g.binary("Mul", g.binary("Add", i, g.ints({1})), size), g.ints({count - 1})), k);
  const Id at = g.unsqueeze(g.range(size), {0});
  const Id inside = g.op("And",
                         {g.op("GreaterOrEqual", {at, g.unsqueeze(from, {1})}, DType::kBool),
                          g.op("Less", {at, g.unsqueeze(to, {1})}, DType::kBool)},
                         DType::kBool);
  Ints to_last;
  const auto rank = static_cast<int64_t>(g.rank(n.in[0]));
  for (int64_t d = 0; d < rank; ++d) to_last.push_back(d);
  std::swap(to_last[static_cast<uint32_t>(axis)], to_last[static_cast<uint32_t>(rank - 1)]);
  x = g.transpose(x, to_last);
  if (max) {
    x = g.reduce("ReduceMax", g.full_where(inside, g.unsqueeze(x, {-2}), g.number(-INFINITY, t)), {-1},
                 false);
  } else {
    const Id share = g.op("Reciprocal", {g.cast(g.binary("Sub", to, from), t)}, t);
    const Id weights = g.binary("Mul", g.cast(inside, t), g.unsqueeze(share, {1}));
    x = g.binary("MatMul", x, g.transpose(weights, {1, 0}));
  }
  return g.transpose(x, to_last);
}
template <bool kMax>
void adaptive_pool(OnnxNode& n) {
  Id x = n.in[0];
  const Ints count = n.ints("output_size");
  const auto& dims = n.g.type(x).dims;
  bool one = true, divides = true;
  std::vector<int64_t> kernel;
  for (uint32_t k = 0; k < count.size(); ++k) {
    const int64_t size = dims[2 + k];
    one = one && count[k] == 1, divides = divides && size > 0 && size % count[k] == 0;
    kernel.push_back(divides ? size / count[k] : 0);
  }
  if (one) return n.done(n.op(kMax ? "GlobalMaxPool" : "GlobalAveragePool", {x}));
  if (divides)
    return n.done(
        n.op(kMax ? "MaxPool" : "AveragePool", {x}, {{"kernel_shape", kernel}, {"strides", kernel}}));
  for (uint32_t k = 0; k < count.size();
       ++k) {  // axis by axis: a product with the windows' weights, or their extremes
    const int64_t size = dims[2 + k], axis = 2 + k;
    if (size < 0) {
      x = open_windows(n, x, axis, count[k], kMax);
      continue;
    }
    std::vector<Id> parts;
    for (int64_t i = 0; i < count[k]; ++i)
      parts.push_back(n.g.reduce(
          kMax ? "ReduceMax" : "ReduceMean",
          n.g.slice(x, axis, window_begin(i, size, count[k]), window_end(i, size, count[k])), {axis}, true));
    x = parts.size() == 1 ? parts[0] : n.op("Concat", parts, {{"axis", axis}});
  }
  n.done(x);
}
// Positions in each flattened plane.
Id plane_flat(OnnxNode& n, Id x) {
  return n.g.op("Reshape", {x, n.g.join({n.g.slice(n.g.shape_of(x), 0, 0, 2), n.g.ints({-1})})},
                n.g.dtype(x));
}
void pool_gather(OnnxNode& n) {
  const Id r =
      n.op("GatherElements", {plane_flat(n, n.in[0]), plane_flat(n, n.g.cast(n.in[1], DType::kInt64))},
           {{"axis", int64_t{2}}});
  n.done(n.g.op("Reshape", {r, n.g.shape_of(n.in[1])}, n.out[0].dtype));
}
template <bool kAdd>
void pool_scatter(OnnxNode& n) {
  if (kAdd && n.g.opset < 16) n.cannot("adding at positions needs opset 16");
  const DType t = n.out[0].dtype;
  const Id lead = n.g.slice(n.g.shape_of(n.in[0]), 0, 0, 2), shape = n.g.join({lead, n.sizes("output_size")});
  const Id zeros = n.g.filled(0, t, shape);
  std::vector<G::Attr> a{{"axis", int64_t{2}}};
  if (kAdd) a.push_back({"reduction", std::string("add")});
  const Id r =
      n.op("ScatterElements",
           {plane_flat(n, zeros), plane_flat(n, n.g.cast(n.in[1], DType::kInt64)), plane_flat(n, n.in[0])},
           std::move(a));
  n.done(n.g.op("Reshape", {r, shape}, t));
}
void resample(OnnxNode& n) {  // a sum over taps of gathered slices times their weights
  const int64_t axis = n.axis("axis", n.g.rank(n.in[0])), taps = n.integer("taps");
  const Ints index = n.ints("index");
  const std::vector<double> weight = n.reals("weight");
  const DType t = n.out[0].dtype;
  const auto size = static_cast<int64_t>(index.size()) / taps;
  std::vector<int64_t> shape(n.g.rank(n.in[0]), 1);
  shape[static_cast<size_t>(axis)] = size;
  Id total = 0;
  for (int64_t k = 0; k < taps; ++k) {
    Ints at;
    std::vector<double> w;
    for (int64_t i = 0; i < size; ++i)
      at.push_back(index[static_cast<uint32_t>(i * taps + k)]),
          w.push_back(weight[static_cast<size_t>(i * taps + k)]);
    const Id term = n.g.binary("Mul", n.g.op("Gather", {n.in[0], n.g.ints(at)}, t, {{"axis", axis}}),
                               n.g.tensor(w, t, shape));
    total = total ? n.g.binary("Add", total, term) : term;
  }
  n.done(total);
}

// Nearest takes element floor(i * step): in whole numbers where the scale is one, else by positions computed
// in double, for a runtime's single precision may fall below an integer.
Id nearest_axis(OnnxNode& n, Id x, int64_t axis, const WriteNode::Size& size, double scale) {
  const Id out = n.size(size), in = n.g.dim_of(x, axis);
  const DType d = DType::kFloat64;
  const Id step =
      scale > 0 ? n.g.number(1.0 / scale, d) : n.g.binary("Div", n.g.cast(in, d), n.g.cast(out, d));
  const Id at = n.g.op("Floor", {n.g.binary("Mul", n.g.cast(n.g.range(out), d), step)}, d);
  const Id last = n.g.binary("Sub", in, n.g.ints({1}));
  return n.g.op("Gather", {x, n.g.binary("Min", n.g.cast(at, DType::kInt64), last)}, n.out[0].dtype,
                {{"axis", axis}});
}
void interpolate(OnnxNode& n) {
  const Ints axes = n.ints("axes");
  const std::vector<double> scale = n.reals("scale");
  const std::vector<WriteNode::Size> sizes = n.size_list("size");
  const std::string mode = n.text("mode");
  const auto rank = static_cast<int64_t>(n.g.rank(n.in[0]));
  const DType t = n.out[0].dtype;
  bool whole = mode == "nearest", scaled = true;
  for (double s : scale) whole = whole && s >= 1 && s == std::floor(s), scaled = scaled && s > 0;
  Id x = n.in[0];
  if (mode == "nearest" && !whole) {
    for (uint32_t k = 0; k < axes.size(); ++k) x = nearest_axis(n, x, axes[k], sizes[k], scale[k]);
    return n.done(x);
  }
  // Runtimes expect the resized axes last.
  Ints to_last, back(static_cast<uint32_t>(rank), 0);
  for (int64_t k = 0; k < rank; ++k)
    if (std::find(axes.begin(), axes.end(), k) == axes.end()) to_last.push_back(k);
  const auto lead = static_cast<int64_t>(to_last.size());
  for (int64_t a : axes) to_last.push_back(a);
  for (uint32_t k = 0; k < to_last.size(); ++k) back[static_cast<uint32_t>(to_last[k])] = k;
  x = n.g.transpose(x, to_last);
  std::vector<Id> in{x, 0};
  if (scaled) {
    std::vector<double> all(static_cast<size_t>(lead), 1.0);
    for (uint32_t k = 0; k < axes.size(); ++k) {
      const float s = static_cast<float>(scale[k]);
      const int64_t from = n.g.type(n.in[0]).dims[static_cast<size_t>(axes[k])],
                    to = n.out[0].dims[static_cast<size_t>(axes[k])];
      if (from >= 0 && to >= 0 ? static_cast<int64_t>(std::floor(static_cast<float>(from) * s)) != to
                               : static_cast<double>(s) != scale[k])
        n.cannot("its scale factor makes another size in single precision; give size instead");
      all.push_back(scale[k]);
    }
    in.push_back(n.g.tensor(all, DType::kFloat32, {rank}));
  } else {
    std::vector<Id> parts{n.g.slice(n.g.shape_of(x), 0, 0, lead)};
    for (const WriteNode::Size& s : sizes) parts.push_back(n.size(s));
    in.push_back(0), in.push_back(n.g.join(parts));
  }
  const char* coordinates = mode == "nearest"                                   ? "asymmetric"
                            : n.flag("align_corners")                           ? "align_corners"
                            : mode == "bicubic" || n.integer("align_mode") == 0 ? "half_pixel"
                                                                                : "asymmetric";
  std::vector<G::Attr> a{{"mode", std::string(mode == "nearest"   ? "nearest"
                                              : mode == "bicubic" ? "cubic"
                                                                  : "linear")},
                         {"coordinate_transformation_mode", std::string(coordinates)}};
  if (mode == "nearest") a.push_back({"nearest_mode", std::string("floor")});
  n.done(n.g.transpose(n.g.op("Resize", in, t, std::move(a)), back));
}

// ---- normalisation ----
Id ones_or(OnnxNode& n, Id id, double v, int64_t size, DType t) {
  return id ? id : n.g.tensor(std::vector<double>(static_cast<size_t>(size), v), t, {size});
}
void batch_norm(OnnxNode& n) {
  const Id mean = n.arg("mean");
  const int64_t c = n.g.type(mean).dims[0];
  const DType s = n.g.opset >= 15 ? n.g.dtype(mean) : n.out[0].dtype,
              w = n.g.opset >= 15 && n.arg("weight") ? n.g.dtype(n.arg("weight")) : s;
  n.done(n.op(
      "BatchNormalization",
      {n.in[0], n.g.cast(ones_or(n, n.arg("weight"), 1, c, w), w),
       n.g.cast(ones_or(n, n.arg("bias"), 0, c, w), w), n.g.cast(mean, s), n.g.cast(n.arg("variance"), s)},
      {{"epsilon", n.real("epsilon")}}));
}
// (x - mean) / sqrt(variance + epsilon) over axes that stay as 1, in floats of 32 bits or more
Id normalised(OnnxNode& n, Id x, const Ints& axes, Id* mean, Id* rstd) {
  const Id m = n.g.reduce("ReduceMean", x, axes, true), d = n.g.binary("Sub", x, m);
  const Id v = n.g.reduce("ReduceMean", n.g.binary("Mul", d, d), axes, true);
  const Id s =
      n.g.op("Sqrt", {n.g.binary("Add", v, n.g.number(n.real("epsilon"), n.g.dtype(x)))}, n.g.dtype(x));
  *mean = m, *rstd = s;
  return n.g.binary("Div", d, s);
}
void layer_norm(OnnxNode& n) {
  const auto& dims = n.g.type(n.in[0]).dims;
  const int64_t axis = n.axis("begin_axis", dims.size());
  const DType t = n.out[0].dtype, w = is_half(t) ? DType::kFloat32 : t;
  const auto shaped = [&](Id id) -> Id {
    if (!id || n.g.rank(id) == dims.size() - static_cast<size_t>(axis)) return id;
    Ints shape;
    for (size_t k = static_cast<size_t>(axis); k < dims.size(); ++k) shape.push_back(dims[k]);
    return n.g.reshape(id, shape);
  };
  const Id weight = shaped(n.arg("weight")), bias = shaped(n.arg("bias"));
  const bool statistics = n.used[1] || n.used[2];
  if (n.g.opset >= 17 && weight && !statistics && n.g.dtype(weight) == t)
    return n.done(n.op("LayerNormalization", {n.in[0], weight, bias ? n.g.cast(bias, t) : 0},
                       {{"axis", axis}, {"epsilon", n.real("epsilon")}}));
  Ints axes;
  for (size_t k = static_cast<size_t>(axis); k < dims.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  Id m, s;
  Id y = normalised(n, n.g.cast(n.in[0], w), axes, &m, &s);
  if (weight) y = n.g.binary("Mul", y, n.g.cast(weight, w));
  if (bias) y = n.g.binary("Add", y, n.g.cast(bias, w));
  n.result = {n.g.cast(y, t)};
  if (statistics)
    n.result.push_back(n.g.squeeze(m, axes)),
        n.result.push_back(n.g.op("Reciprocal", {n.g.squeeze(s, axes)}, w));
}
void group_norm(OnnxNode& n) {
  if (n.used[1] || n.used[2]) n.cannot("its statistics");
  const DType t = n.out[0].dtype;
  const auto& dims = n.g.type(n.in[0]).dims;
  const int64_t groups = n.integer("num_groups");
  const Id rows = n.g.reshape(n.in[0], {0, groups, -1});
  Id y = n.op("InstanceNormalization", {rows, ones_or(n, 0, 1, groups, t), ones_or(n, 0, 0, groups, t)},
              {{"epsilon", n.real("epsilon")}});
  y = n.g.op("Reshape", {y, n.g.shape_of(n.in[0])}, t);
  Ints shape(static_cast<uint32_t>(dims.size()), 1);
  shape[1] = -1;
  if (const Id w = n.arg("weight")) y = n.g.binary("Mul", y, n.g.reshape(n.g.cast(w, t), shape));
  if (const Id b = n.arg("bias")) y = n.g.binary("Add", y, n.g.reshape(n.g.cast(b, t), shape));
  n.done(y);
}
void channel_moments(OnnxNode& n) {
  Ints axes;
  for (size_t k = 0; k < n.g.rank(n.in[0]); ++k)
    if (k != 1) axes.push_back(static_cast<int64_t>(k));
  const DType t = n.out[0].dtype;
  const Id x = n.g.cast(n.in[0], t), m = n.g.reduce("ReduceMean", x, axes, true), d = n.g.binary("Sub", x, m);
  n.result = {n.g.squeeze(m, axes), n.g.reduce("ReduceMean", n.g.binary("Mul", d, d), axes, false)};
}

// ---- checks of data: ONNX has none, what they let through is unchanged ----
void pass(OnnxNode& n) { n.done(n.in[0]); }
void check_labels(OnnxNode& n) {
  const Id label = n.g.cast(n.in[0], DType::kInt64);
  const Id ignored =
      n.g.op("Equal", {label, n.g.whole(n.integer("ignore_index"), DType::kInt64)}, DType::kBool);
  n.done(n.g.full_where(ignored, n.g.number(-1, DType::kInt64), label));
}
void slogdet(OnnxNode& n) {
  const Id det = n.op("Det", {n.in[0]});
  n.result = {n.op("Sign", {det}), n.op("Log", {n.op("Abs", {det})})};
}

// clang-format off
const OnnxRules table{
    {"matmul", {matmul}}, {"scaled_dot_product_attention", {attention}}, {"lstm_walk", {lstm}},
    {"gru_walk", {gru}}, {"sum", {sum}}, {"prod", {prod}}, {"mean", {mean}}, {"max", {extreme<true>}},
    {"amax", {extreme<true>}}, {"min", {extreme<false>}}, {"amin", {extreme<false>}}, {"all", {truth<true>}},
    {"any", {truth<false>}}, {"softmax", {softmax}}, {"log_softmax", {softmax}}, {"conv", {conv}},
    {"conv_transpose", {conv_transpose}}, {"conv_grad_input", {conv_grad_input}},
    {"channel_bias", {channel_bias}}, {"max_pool", {max_pool}},
    {"max_pool_with_index", {max_pool_with_index}}, {"avg_pool", {avg_pool}},
    {"adaptive_avg_pool", {adaptive_pool<false>}}, {"adaptive_avg_pool_any", {adaptive_pool<false>}},
    {"adaptive_max_pool", {adaptive_pool<true>}}, {"pool_gather", {pool_gather}},
    {"pool_scatter", {pool_scatter<true>}}, {"max_unpool", {pool_scatter<false>}}, {"resample", {resample}},
    {"interpolate_core", {interpolate}}, {"batch_norm_infer", {batch_norm}}, {"layer_norm", {layer_norm}},
    {"group_norm", {group_norm}}, {"channel_moments", {channel_moments}}, {"check_divisor", {pass}},
    {"check_labels", {check_labels}}, {"slogdet_core", {slogdet}}};
// clang-format on
}  // namespace
}  // namespace yuloh::formats
