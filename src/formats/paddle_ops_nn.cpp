// SPDX-License-Identifier: Apache-2.0
// Paddle's layer operators: convolution, pooling, norms, embedding, recurrent layers, resizing, padding,
// attention's parts.
#include <cmath>

#include "formats/paddle_ops.h"

namespace yuloh::formats::paddle {
namespace {

// ---- layouts and windows ----
bool channels_last(const Import& i) {
  const std::string f = i.text("data_format", "NCHW");
  return f == "NHWC" || f == "NLC" || f == "NDHWC";
}
Value to_first(const Value& x) {
  Ints perm{0, x.rank() - 1};
  for (int64_t k = 1; k + 1 < x.rank(); ++k) perm.push_back(k);
  return transpose(x, perm);
}
Value to_last(const Value& x) {
  Ints perm{0};
  for (int64_t k = 2; k < x.rank(); ++k) perm.push_back(k);
  perm.push_back(1);
  return transpose(x, perm);
}
Value image(const Import& i) { return channels_last(i) ? to_first(i.in(0)) : i.in(0); }
Value back(const Import& i, const Value& y) { return channels_last(i) ? to_last(y) : y; }

Ints per_axis(const Import& i, const char* name, size_t n, int64_t otherwise) {
  Ints v = i.ints_attr(name, Ints(n, otherwise));
  if (v.size() == 1) v = Ints(n, v[0]);
  if (v.size() != n) i.unsupported(cat("`", name, "` has ", v.size(), " entries for ", n, " spatial axes"));
  return v;
}
// Begin and end of each spatial axis.
Ints paddings(const Import& i, const Shape& x, const Ints& kernel, const Ints& stride, Ints* dilation) {
  const size_t n = kernel.size();
  const std::string how = i.text("padding_algorithm", "EXPLICIT");
  if (how == "VALID") return Ints(2 * n, 0);
  if (how == "SAME") {
    Ints p;
    if (dilation) *dilation = Ints(n, 1);
    for (size_t k = 0; k < n; ++k) {
      const int64_t size = x[k + 2],
                    total = std::max<int64_t>(
                        ((size + stride[k] - 1) / stride[k] - 1) * stride[k] + kernel[k] - size, 0);
      p.push_back(total / 2), p.push_back(total - total / 2);
    }
    return p;
  }
  const Ints v = i.ints_attr("paddings", Ints(n, 0));
  if (v.size() == 2 * n) return v;
  Ints p;
  for (size_t k = 0; k < n; ++k) {
    const int64_t each = v.size() == 1 ? v[0] : k < v.size() ? v[k] : 0;
    p.push_back(each), p.push_back(each);
  }
  return p;
}
Ints spatial(const Shape& s) { return Ints(s.begin() + 2, s.end()); }
Value with_bias(const Value& y, const Value& bias) {
  if (!bias) return y;
  Shape s(static_cast<size_t>(y.rank() - 1), 1);
  s[0] = numel(bias.shape());
  return y + reshape(bias, s);
}

void conv(Import& i) {
  const Value x = image(i), w = i.in(1);
  const Ints kernel = spatial(w.shape());
  const Ints stride = per_axis(i, "strides", kernel.size(), 1);
  Ints dilation = per_axis(i, "dilations", kernel.size(), 1);
  const Ints pad = paddings(i, x.shape(), kernel, stride, &dilation);
  const Value y = call(
      "conv", {x, w},
      {{"stride", stride}, {"padding", pad}, {"dilation", dilation}, {"groups", i.integer("groups", 1)}});
  i.out(back(i, with_bias(y, group_in(i, 2))));
}
void conv_transpose(Import& i) {  // (x, filter, output_size, bias)
  const Value x = image(i), w = i.in(1);
  const Ints kernel = spatial(w.shape());
  const Ints stride = per_axis(i, "strides", kernel.size(), 1);
  Ints dilation = per_axis(i, "dilations", kernel.size(), 1);
  const Ints pad = paddings(i, x.shape(), kernel, stride, &dilation);
  Ints extra = i.ints_attr("output_padding", {});
  if (extra.empty()) extra = Ints(kernel.size(), 0);
  const Ints size = group_in(i, 2) ? i.ints(first(i, 2)) : i.ints_attr("output_size", {});
  for (size_t k = 0; k < size.size() && k < kernel.size(); ++k)
    extra[k] = size[k] - ((x.shape()[k + 2] - 1) * stride[k] - pad[2 * k] - pad[2 * k + 1] +
                          dilation[k] * (kernel[k] - 1) + 1);
  const Value y = call("conv_transpose", {x, w},
                       {{"stride", stride},
                        {"padding", pad},
                        {"output_padding", extra},
                        {"dilation", dilation},
                        {"groups", i.integer("groups", 1)}});
  i.out(back(i, with_bias(y, group_in(i, 3))));
}

void pool(Import& i) {
  const Value x = image(i);
  Ints kernel = sizes(i, 1, "kernel_size");
  const size_t n = static_cast<size_t>(x.rank() - 2);
  if (kernel.size() == 1) kernel = Ints(n, kernel[0]);
  const bool average = i.text("pooling_type", "max") == "avg";
  if (flag(i, "adaptive") || flag(i, "global_pooling")) {
    if (flag(i, "global_pooling")) kernel = Ints(n, 1);
    return i.out(
        back(i, call(average ? "adaptive_avg_pool" : "adaptive_max_pool", {x}, {{"output_size", kernel}})));
  }
  const Ints stride = per_axis(i, "strides", n, 1);
  const Ints pad = paddings(i, x.shape(), kernel, stride, nullptr);
  const bool ceil = flag(i, "ceil_mode");
  const Value y =
      average ? call("avg_pool", {x},
                     {{"kernel_size", kernel},
                      {"stride", stride},
                      {"padding", pad},
                      {"ceil_mode", ceil},
                      {"exclusive", flag(i, "exclusive", true)}})
              : call("max_pool", {x},
                     {{"kernel_size", kernel}, {"stride", stride}, {"padding", pad}, {"ceil_mode", ceil}});
  i.out(back(i, y));
}
void max_pool_with_index(Import& i) {
  const Value x = i.in(0);
  Ints kernel = sizes(i, 1, "kernel_size");
  const size_t n = static_cast<size_t>(x.rank() - 2);
  Values v;
  if (flag(i, "adaptive")) {
    v = call_all("adaptive_max_pool_with_index", {x}, {{"output_size", kernel}});
  } else {
    if (flag(i, "global_pooling")) kernel = spatial(x.shape());
    const Ints stride = per_axis(i, "strides", n, 1), pad = paddings(i, x.shape(), kernel, stride, nullptr);
    v = call_all(
        "max_pool_with_index", {x},
        {{"kernel_size", kernel}, {"stride", stride}, {"padding", pad}, {"ceil_mode", flag(i, "ceil_mode")}});
  }
  i.out(0, v[0]), i.out(1, v[1]);
}

// ---- norms ----
void batch_norm(Import& i) {  // (x, mean, variance, scale, bias)
  if (!flag(i, "is_test", true) && !flag(i, "use_global_stats"))
    i.unsupported("training statistics in a saved model");
  Values in{image(i), i.in(1), i.in(2), group_in(i, 3), group_in(i, 4)};
  i.out(back(i, call("batch_norm_infer", in, {{"epsilon", i.real("epsilon", 1e-5)}})));
}
Value flat(const Value& v) { return v && v.rank() != 1 ? reshape(v, {numel(v.shape())}) : v; }
void layer_norm(Import& i) {
  const int64_t axis = i.integer("begin_norm_axis", 1);
  const Shape& s = i.in(0).shape();
  Value w = group_in(i, 1), b = group_in(i, 2);
  Shape tail(s.begin() + std::min<int64_t>(axis, static_cast<int64_t>(s.size())), s.end());
  if (w) w = reshape(w, tail);
  if (b) b = reshape(b, tail);
  const Values v =
      call_all("layer_norm", {i.in(0), w, b}, {{"begin_axis", axis}, {"epsilon", i.real("epsilon", 1e-5)}});
  for (size_t k = 0; k < v.size() && k < i.node.outputs.size(); ++k) i.out(k, v[k]);
}
void group_norm(Import& i) {
  const Value y = call_all("group_norm", {image(i), group_in(i, 1), group_in(i, 2)},
                           {{"num_groups", i.integer("groups", 1)}, {"epsilon", i.real("epsilon", 1e-5)}})[0];
  i.out(back(i, y));
}
void instance_norm(Import& i) {
  const Value x = i.in(0);
  i.out(call_all("group_norm", {x, flat(group_in(i, 1)), flat(group_in(i, 2))},
                 {{"num_groups", x.shape()[1]}, {"epsilon", i.real("epsilon", 1e-5)}})[0]);
}
void p_norm(Import& i) {
  const bool all = flag(i, "asvector");
  AttrValue axis = all ? AttrValue(std::monostate{}) : AttrValue(Ints{i.integer("axis", -1)});
  const Value x = i.in(0);
  const Ints axes = all ? Ints() : Ints{i.integer("axis", -1)};
  i.out(all ? call("p_norm", {x},
                   {{"p", i.real("porder", 2)}, {"axis", std::monostate{}}, {"keepdim", flag(i, "keepdim")}})
            : call("p_norm", {x},
                   {{"p", i.real("porder", 2)}, {"axis", axes}, {"keepdim", flag(i, "keepdim")}}));
}

// ---- embedding, dropout, activations ----
void embedding(Import& i) {
  Value ids = i.in(0);
  const Value w = i.in(1);
  if (i.node.type == "embedding" && ids.rank() > 1 && ids.shape().back() == 1 &&
      i.has_attr("remote_prefetch"))
    ids = call("squeeze", {ids}, {{"axis", Ints{-1}}});  // the first form of the operator: ids [..., 1]
  const int64_t padding = i.integer("padding_idx", -1);
  i.out(padding < 0 ? call("embedding", {ids, w}) : call("embedding", {ids, w}, {{"padding_idx", padding}}));
}
void dropout(Import& i) {
  if (!flag(i, "is_test", true)) i.unsupported("dropout in training mode in a saved model");
  const double p = group_in(i, 2) ? i.number(first(i, 2)) : i.real("p", 0.5);
  i.out(i.text("mode", "upscale_in_train") == "upscale_in_train" ? i.in(0) : i.in(0) * (1 - p));
}
void hardswish(Import& i) {
  const double scale = i.real("scale", 6), offset = i.real("offset", 3), top = i.real("threshold", 6);
  if (scale == 6 && offset == 3 && top == 6) return i.out(un("hardswish", i.in(0)));
  const Value x = i.in(0);
  i.out(x * call("clip", {x + offset, constant(0, x.dtype()), constant(top, x.dtype())}) / scale);
}
void hardsigmoid(Import& i) {
  i.out(call("hardsigmoid", {i.in(0)}, {{"slope", i.real("slope", 0.2)}, {"offset", i.real("offset", 0.5)}}));
}
void swish(Import& i) {
  const double beta = i.real("beta", 1);
  i.out(beta == 1 ? un("swish", i.in(0)) : i.in(0) * un("sigmoid", i.in(0) * beta));
}
void prelu(Import& i) {
  const Value x = i.in(0);
  Value w = i.in(1);
  const std::string mode = i.text("mode", "all");
  if (mode == "all") w = reshape(w, {1});
  else if (mode == "channel") {
    Shape s(static_cast<size_t>(x.rank()), 1);
    s[channels_last(i) ? static_cast<size_t>(x.rank() - 1) : 1] = numel(w.shape());
    w = reshape(w, s);
  } else {
    Shape s = x.shape();
    s[0] = 1;
    w = reshape(w, s);
  }
  i.out(where(greater_than(x, constant(0, x.dtype())), x, x * w));
}
void logsigmoid(Import& i) { i.out(un("log_sigmoid", i.in(0))); }
void tanh_shrink(Import& i) { i.out(un("tanhshrink", i.in(0))); }

// ---- products and elementwise with ProgramDesc's `axis` ----
Value aligned(const Import& i, const Value& x, const Value& y) {
  const int64_t axis = i.integer("axis", -1);
  if (axis < 0 || y.rank() == 0 || axis + y.rank() >= x.rank()) return y;
  Shape s(static_cast<size_t>(x.rank() - axis), 1);
  for (int64_t k = 0; k < y.rank(); ++k) s[static_cast<size_t>(k)] = y.shape()[static_cast<size_t>(k)];
  return reshape(y, s);
}
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&s)[N]) { std::copy(s, s + N, text); }
};
template <Name kRow>
void binary(Import& i) {
  i.out(call(kRow.text, {i.in(0), aligned(i, i.in(0), i.in(1))}));
}

void mul(Import& i) {  // both flattened to matrices
  const Value x = i.in(0), y = i.in(1);
  const auto nx = static_cast<size_t>(i.integer("x_num_col_dims", 1)),
             ny = static_cast<size_t>(i.integer("y_num_col_dims", 1));
  const auto matrix = [&](const Value& v, size_t n) {
    int64_t rows = 1;
    for (size_t k = 0; k < n && k < v.shape().size(); ++k) rows *= v.shape()[k];
    return reshape(v, {rows, rows ? numel(v.shape()) / rows : 0});
  };
  Shape s;
  for (size_t k = 0; k < nx && k < x.shape().size(); ++k) s.push_back(x.shape()[k]);
  for (size_t k = ny; k < y.shape().size(); ++k) s.push_back(y.shape()[k]);
  i.out(reshape(matmul(matrix(x, nx), matrix(y, ny)), s));
}
void matmul_op(Import& i) {
  const Value y = matmul(i.in(0), i.in(1), flag(i, "transpose_x"), flag(i, "transpose_y"));
  const double alpha = i.real("alpha", 1);
  i.out(alpha == 1 ? y : y * alpha);
}
void bmm(Import& i) { i.out(matmul(i.in(0), i.in(1))); }
void dot(Import& i) { i.out(sum(i.in(0) * i.in(1), {-1}, false)); }
void einsum_op(Import& i) { i.out(einsum(i.text("equation", ""), group_list(i, 0))); }

// ---- recurrent layers: (x, states, weights, lengths, dropout state); weights: for each layer and direction
// ih, hh; then biases
void rnn(Import& i) {
  const std::string mode = i.text("mode", "LSTM");
  const bool lstm = mode == "LSTM";
  const int64_t layers = i.integer("num_layers", 1), directions = flag(i, "is_bidirec") ? 2 : 1;
  const Values start = group_list(i, 1), w = group_list(i, 2);
  const size_t n = static_cast<size_t>(layers * directions);
  if (w.size() != 4 * n) i.unsupported(cat("there are ", w.size(), " weights; expected ", 4 * n));
  if (start.size() != (lstm ? 2u : 1u)) i.unsupported(cat("there are ", start.size(), " start states"));
  Value x = i.in(0);
  Values hs, cs;
  const auto at = [&](const Value& s, size_t k) {
    return reshape(narrow(s, 0, static_cast<int64_t>(k), 1), {s.shape()[1], s.shape()[2]});
  };
  for (int64_t layer = 0; layer < layers; ++layer) {
    Values ys;
    for (int64_t d = 0; d < directions; ++d) {
      const size_t k = static_cast<size_t>(layer * directions + d);
      Recurrence r;
      r.cell = lstm                 ? Cell::kLstm
               : mode == "GRU"      ? Cell::kGru
               : mode == "RNN_RELU" ? Cell::kRelu
                                    : Cell::kTanh;
      r.ih = w[2 * k], r.hh = w[2 * k + 1], r.bias_ih = w[2 * n + 2 * k], r.bias_hh = w[2 * n + 2 * k + 1];
      r.h = at(start[0], k);
      if (lstm) r.c = at(start[1], k);
      r.lengths = group_in(i, 3), r.reverse = d == 1;
      const RecurrenceOut out = run_recurrence(r, x);
      ys.push_back(out.y), hs.push_back(out.h);
      if (lstm) cs.push_back(out.c);
    }
    x = ys.size() == 1 ? ys[0] : concat(ys, 2);
  }
  i.out(0, x);
  i.out(2, call("stack", hs, {{"axis", 0}}));
  if (lstm) i.out(3, call("stack", cs, {{"axis", 0}}));
}

// ---- resizing and padding ----
void interpolate(Import& i) {  // (x, out size, list of sizes, scale)
  Value x = image(i);
  const size_t n = static_cast<size_t>(x.rank() - 2);
  static constexpr const char* kNames[] = {"out_d", "out_h", "out_w"};
  Ints out(n, -1);
  for (size_t k = 0; k < n; ++k) out[k] = i.integer(n == 1 ? "out_w" : kNames[3 - n + k], -1);
  std::vector<double> scale = i.has_attr("scale") ? i.reals_attr("scale") : std::vector<double>();
  const size_t list = count(i, 2) && group_in(i, 2) ? 2 : count(i, 4) && group_in(i, 4) ? 4 : 0;
  if (group_in(i, 1)) out = i.ints(first(i, 1)), scale.clear();
  else if (list) {
    scale.clear();
    for (size_t k = 0; k < n; ++k) out[k] = i.ints(first(i, list) + k)[0];
  } else if (group_in(i, 3)) {
    const double s = i.number(first(i, 3));
    scale = std::vector<double>(n, s);
  }
  if (scale.size() == 1) scale = std::vector<double>(n, scale[0]);
  const bool aligned = flag(i, "align_corners"), corner = i.integer("align_mode", 1) == 1;
  const bool nearest = i.node.type == "nearest_interp", cubic = i.node.type == "bicubic_interp";
  Ints axes;
  std::vector<double> by;  // 0: from the sizes
  std::vector<double> where;
  for (size_t k = 0; k < n; ++k) {
    const int64_t size = x.shape()[k + 2];
    const bool scaled = scale.size() == n && scale[k] > 0;
    if (scaled) out[k] = static_cast<int64_t>(static_cast<double>(size) * scale[k]);
    if (out[k] < 1 || out[k] > (int64_t{1} << 24)) i.unsupported(cat("an output extent of ", out[k]));
    axes.push_back(static_cast<int64_t>(k) + 2), by.push_back(scaled ? scale[k] : 0.0);
  }
  if (!nearest || !aligned) {
    i.out(back(i, call("interpolate_core", {x},
                       {{"axes", axes},
                        {"size", out},
                        {"scale", by},
                        {"mode", nearest ? "nearest"
                                 : cubic ? "bicubic"
                                         : "bilinear"},
                        {"align_corners", aligned},
                        {"align_mode", corner && !cubic ? 1 : 0}})));
    return;
  }
  for (size_t k = 0; k < n; ++k) {  // the nearest of aligned corners
    const int64_t size = x.shape()[k + 2];
    where.clear();
    for (int64_t p = 0; p < out[k]; ++p) {
      const double at = out[k] > 1 ? static_cast<double>(p) * static_cast<double>(size - 1) /
                                         static_cast<double>(out[k] - 1)
                                   : 0;
      where.push_back(std::min(std::max(std::floor(at + 0.5), 0.0), static_cast<double>(size - 1)));
    }
    x = resize_axis(x, axes[k], Resize::kNearest, where);
  }
  i.out(back(i, x));
}

Value padded(const Value& x, const Ints& pairs, const std::string& mode, double v) {
  return call("pad_core", {x}, {{"pairs", pairs}, {"mode", mode}, {"value", v}});
}
void pad_spatial(Import& i) {  // pad3d: last axis first; pad2d: top, bottom, left, right
  const Value x = image(i);
  const Ints given = sizes(i, 1, "paddings");
  const size_t n = given.size() / 2;
  const bool two = i.node.type == "pad2d";
  Ints pairs(4, 0);
  for (size_t k = 0; k < n; ++k) {
    const size_t from = two ? k : n - 1 - k;
    pairs.push_back(given[2 * from]), pairs.push_back(given[2 * from + 1]);
  }
  if (pairs.size() != 2 * static_cast<size_t>(x.rank()))
    i.unsupported(cat("paddings have ", given.size(), " entries for ", x.shape()));
  std::string mode = i.text("mode", "constant");
  if (mode == "edge") mode = "replicate";
  i.out(back(i, padded(x, pairs, mode, i.real("pad_value", 0))));
}
void pad(Import& i) {  // pairs of all axes
  const double v = group_in(i, 1) ? i.number(first(i, 1)) : i.real("pad_value", 0);
  i.out(padded(i.in(0), i.ints_attr("paddings", {}), "constant", v));
}

// ---- order ----
void argsort(Import& i) {
  const bool down = flag(i, "descending"), stable = flag(i, "stable");
  const int64_t axis = i.integer("axis", -1);
  i.out(0, call("sort", {i.in(0)}, {{"axis", axis}, {"descending", down}, {"stable", stable}}));
  i.out(1, call("argsort", {i.in(0)}, {{"axis", axis}, {"descending", down}, {"stable", stable}}));
}
void arg_extreme(Import& i) {
  const bool flatten = flag(i, "flatten");
  const int64_t axis = group_in(i, 1) ? i.ints(first(i, 1))[0] : i.integer("axis", -1);
  const DType t = dtype_attr(i, "dtype", DType::kInt64);
  const char* row = i.node.type.c_str();
  const bool keep = flag(i, "keepdims", flag(i, "keepdim"));
  i.out(flatten ? call(row, {i.in(0)}, {{"axis", std::monostate{}}, {"keepdim", keep}, {"dtype", t}})
                : call(row, {i.in(0)}, {{"axis", axis}, {"keepdim", keep}, {"dtype", t}}));
}

// ---- detection: on the host, as the number of results depends on the data ----
void nms_op(Import& i) {
  const FileTensor boxes = i.host(0);
  if (boxes.type.shape.size() != 2 || boxes.type.shape[1] != 4)
    i.unsupported(cat("boxes have shape ", boxes.type.shape));
  if (boxes.type.dtype != DType::kFloat32) i.unsupported("boxes are not float32");
  const std::vector<int64_t> keep = nms(static_cast<const float*>(boxes.buffer->data()), nullptr, nullptr,
                                        boxes.type.shape[0], i.real("threshold", 0.3));
  i.out(data_of(keep, {static_cast<int64_t>(keep.size())}));
}

// ---- control flow ----
Values all_inputs(const Import& i, size_t from) {
  Values v;
  for (size_t k = from; k < i.n_inputs(); ++k) v.push_back(i.in(k));
  return v;
}
void if_op(Import& i) {
  const Values v = i.run(i.graph_attr(i.number(0) != 0 ? "region0" : "region1"), {});
  for (size_t k = 0; k < v.size() && k < i.node.outputs.size(); ++k) i.out(k, v[k]);
}
void while_op(Import& i) {  // the body returns the condition first
  bool go = i.number(0) != 0;
  Values state = all_inputs(i, 1);
  for (int64_t trips = 0; go; ++trips) {
    if (trips == 1'000'000) i.unsupported("more than 1,000,000 iterations");
    const Values v = i.run(i.graph_attr("region0"), state);
    if (v.size() != state.size() + 1)
      i.unsupported("the body returns another number of values than it takes");
    go = i.number_of(v[0]) != 0;
    state = Values(v.begin() + 1, v.end());
  }
  for (size_t k = 0; k < state.size() && k < i.node.outputs.size(); ++k) i.out(k, state[k]);
}
void pass(Import& i) { i.out(i.in(0)); }

// clang-format off
const ImportTable kRows(Dialect::kPaddle, {
    {"conv2d", conv}, {"conv3d", conv}, {"depthwise_conv2d", conv}, {"conv2d_transpose", conv_transpose},
    {"conv2d_transpose_bias", conv_transpose}, {"depthwise_conv2d_transpose", conv_transpose},
    {"conv3d_transpose", conv_transpose}, {"pool2d", pool}, {"pool3d", pool},
    {"max_pool2d_with_index", max_pool_with_index}, {"batch_norm", batch_norm}, {"batch_norm_", batch_norm},
    {"layer_norm", layer_norm}, {"group_norm", group_norm}, {"instance_norm", instance_norm},
    {"p_norm", p_norm}, {"embedding", embedding}, {"dropout", dropout}, {"hardswish", hardswish},
    {"hardsigmoid", hardsigmoid}, {"swish", swish}, {"prelu", prelu}, {"logsigmoid", logsigmoid},
    {"tanh_shrink", tanh_shrink}, {"add", binary<"add">}, {"add_", binary<"add">},
    {"subtract", binary<"subtract">}, {"multiply", binary<"multiply">}, {"divide", binary<"divide">},
    {"maximum", binary<"maximum">}, {"minimum", binary<"minimum">}, {"elementwise_pow", binary<"pow">},
    {"remainder", binary<"remainder">}, {"floor_divide", binary<"floor_divide">}, {"mul", mul},
    {"matmul", matmul_op}, {"bmm", bmm}, {"dot", dot}, {"einsum", einsum_op}, {"rnn", rnn},
    {"bilinear_interp", interpolate}, {"nearest_interp", interpolate}, {"bicubic_interp", interpolate},
    {"linear_interp", interpolate}, {"trilinear_interp", interpolate}, {"pad3d", pad_spatial},
    {"pad2d", pad_spatial}, {"pad", pad}, {"argsort", argsort}, {"argmax", arg_extreme},
    {"argmin", arg_extreme}, {"nms", nms_op}, {"if", if_op}, {"while", while_op}, {"assign", pass},
    {"assign_", pass}, {"assign_out_", pass}, {"share_data", pass}, {"share_data_", pass},
    {"memcpy_d2h", pass}, {"memcpy_h2d", pass}, {"print", pass}, {"shadow_output", pass}});
// clang-format on
}  // namespace
}  // namespace yuloh::formats::paddle
