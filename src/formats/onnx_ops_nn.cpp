// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: convolution, pooling.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/onnx_ops.h"
#include "formats/onnx_window.h"

namespace yuloh::formats {

int64_t OnnxWindow::extent(size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }

OnnxWindow window_of(const Import& i, const Shape& x, Ints kernel) {
  OnnxWindow w;
  const size_t n = kernel.size();
  if (n == 0 || x.size() != n + 2)
    value_error(i.node.type, ": ", n, " kernel dims do not fit x of shape ", x, ".");
  constexpr int64_t kMost = 1 << 30;
  w.kernel = kernel;
  w.stride = i.ints_attr("strides", spatial_ones(n)), w.dilation = i.ints_attr("dilations", spatial_ones(n));
  const Ints pads = i.ints_attr("pads", Ints(static_cast<uint32_t>(2 * n), 0));
  if (w.stride.size() != n || w.dilation.size() != n || pads.size() != 2 * n)
    value_error(i.node.type, ": strides, dilations or pads do not fit ", n, " kernel dims.");
  const std::string how = i.text("auto_pad", "NOTSET");
  const bool ceil = i.integer("ceil_mode", 0);
  for (size_t d = 0; d < n; ++d) {
    if (w.stride[d] < 1 || w.dilation[d] < 1 || kernel[d] < 1 || w.stride[d] > kMost ||
        w.dilation[d] > kMost || kernel[d] > kMost || std::abs(pads[d] >> 1) > kMost ||
        std::abs(pads[d + n] >> 1) > kMost)
      value_error(i.node.type, ": strides, dilations and kernels must be from 1 to 2^30, pads below that.");
    const int64_t in = x[d + 2], k = w.extent(d), s = w.stride[d];
    int64_t begin = pads[d], end = pads[d + n], out;
    if (how == "VALID") begin = end = 0;
    if (how == "SAME_UPPER" || how == "SAME_LOWER") {
      out = (in + s - 1) / s;
      const int64_t total = std::max<int64_t>(0, (out - 1) * s + k - in);
      begin = how == "SAME_UPPER" ? total / 2 : total - total / 2, end = total - begin;
    } else {
      const int64_t room = in + begin + end - k;
      out = room < 0 ? 0 : room / s + 1;
      // Rounded up, but a window that begins in the padding behind the input is left out.
      if (ceil && room >= 0 && room % s != 0 && out * s < in + begin) ++out;
    }
    w.pads.push_back(begin), w.pads.push_back(end), w.out.push_back(out);
    w.reach.push_back(begin), w.reach.push_back(std::max<int64_t>(0, (out - 1) * s + k - in - begin));
  }
  return w;
}

namespace {
Value with_bias(const Value& y, const Value& b) {
  if (!b) return y;
  if (b.rank() != 1) value_error("import: a bias has shape ", b.shape(), "; expected one dim.");
  Shape s(static_cast<uint32_t>(y.rank()), 1);
  s[1] = b.shape()[0];
  return y + reshape(b, s);
}
}  // namespace

Value conv_with(const Import& i, const Value& x, const Value& weight) {
  expect(i, weight.rank() >= 3, "a weight [out, in / group, kernel...]");
  const Ints kernel(weight.shape().begin() + 2, weight.shape().end());
  const OnnxWindow w = window_of(i, x.shape(), kernel);
  return call("conv", {x, weight},
              {{"stride", w.stride},
               {"padding", w.pads},
               {"dilation", w.dilation},
               {"groups", i.integer("group", 1)}});
}

namespace {
void conv(Import& i) { i.out(with_bias(conv_with(i, i.in(0), i.in(1)), i.in_or_null(2))); }

void conv_transpose(Import& i) {
  need(i, {3, 3});
  const Value x = i.in(0), weight = i.in(1);
  expect(i, x.rank() == weight.rank(), "x and weight of one rank");
  const size_t n = static_cast<size_t>(x.rank() - 2);
  const Ints stride = i.ints_attr("strides", spatial_ones(n)),
             dilation = i.ints_attr("dilations", spatial_ones(n));
  Ints extra = i.ints_attr("output_padding", Ints(static_cast<uint32_t>(n), 0));
  const Ints pads = i.ints_attr("pads", Ints(static_cast<uint32_t>(2 * n), 0)),
             shape = i.ints_attr("output_shape", {});
  const std::string how = i.text("auto_pad", "NOTSET");
  expect(i,
         stride.size() == n && dilation.size() == n && extra.size() == n && pads.size() == 2 * n &&
             (shape.empty() || shape.size() >= n),
         "strides, dilations, pads, output_padding and output_shape for every spatial dim");
  for (const Ints* v : std::initializer_list<const Ints*>{&stride, &dilation, &extra, &pads, &shape})
    for (int64_t k : *v)
      expect(i, k > -(1 << 30) && k < 1 << 30 && (k > 0 || (v != &stride && v != &dilation)),
             "sizes from 1 to 2^30");
  Ints pairs, cut, more;
  bool cuts = false;
  for (size_t d = 0; d < n; ++d) {
    const int64_t k = (weight.shape()[d + 2] - 1) * dilation[d] + 1, in = x.shape()[d + 2];
    int64_t begin = pads[d], end = pads[d + n];
    const bool same = how == "SAME_UPPER" || how == "SAME_LOWER";
    if (!shape.empty() || same) {
      const int64_t want = shape.empty() ? in * stride[d] : shape[shape.size() - n + d];
      const int64_t total = stride[d] * (in - 1) + extra[d] + k - want;
      begin = how == "SAME_UPPER" ? total / 2 : total - total / 2, end = total - begin;
      if (total < 0) begin = 0, end = total;
    }
    // What the op's own padding cannot say (less than none, output_padding beyond the stride) is done on the
    // result.
    pairs.push_back(0), pairs.push_back(0);
    cut.push_back(-begin), cut.push_back(extra[d] - end);
    if (begin >= 0 && end >= 0 && extra[d] < stride[d] && begin < k && end < k)
      pairs[2 * d] = begin, pairs[2 * d + 1] = end, cut[2 * d] = cut[2 * d + 1] = 0, more.push_back(extra[d]);
    else more.push_back(0), cuts = true;
  }
  Value y = call("conv_transpose", {x, weight},
                 {{"stride", stride},
                  {"padding", pairs},
                  {"output_padding", more},
                  {"dilation", dilation},
                  {"groups", i.integer("group", 1)}});
  if (cuts)
    for (size_t d = 0; d < n; ++d) {
      const int64_t axis = static_cast<int64_t>(d) + 2;
      Ints grow(static_cast<uint32_t>(2 * y.rank()), 0);
      const int64_t low = std::max<int64_t>(0, -cut[2 * d]), high = std::max<int64_t>(0, -cut[2 * d + 1]);
      if (low || high) y = narrow(y, axis, low, y.shape()[axis] - low - high);
      grow[2 * axis] = std::max<int64_t>(0, cut[2 * d]),
               grow[2 * axis + 1] = std::max<int64_t>(0, cut[2 * d + 1]);
      if (grow[2 * axis] || grow[2 * axis + 1]) y = call("pad_core", {y}, {{"pairs", grow}});
    }
  i.out(with_bias(y, i.in_or_null(2)));
}

Value pad_spatial(const Value& x, const Ints& pairs, double value) {
  Ints all{0, 0, 0, 0};
  bool any = false;
  for (int64_t p : pairs) all.push_back(p), any = any || p;
  return any ? call("pad_core", {x}, {{"pairs", all}, {"value", value}}) : x;
}
// For every position in the kernel the elements that stand there, [N, C, out...]: pooling with dilations and
// of element types that the pooling ops do not take. Calls f(slice, position in the kernel by axis).
template <class F>
void each_tap(const OnnxWindow& w, const Value& padded, F f) {
  Ints at(static_cast<uint32_t>(w.kernel.size()), 0);
  int64_t taps = 1;
  for (int64_t k : w.kernel)
    if (__builtin_mul_overflow(taps, k, &taps) || taps > 1 << 14)
      value_error(
          "import: a window of more than 16384 elements with dilations or of integers is not supported.");
  for (int64_t n : w.out)
    if (n < 1) value_error("import: the window is larger than the input.");
  while (true) {
    Ints axes, starts, ends, strides;
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t from = at[d] * w.dilation[d];
      axes.push_back(static_cast<int64_t>(d) + 2), starts.push_back(from), strides.push_back(w.stride[d]);
      ends.push_back(from + (w.out[d] - 1) * w.stride[d] + 1);
    }
    f(call("slice", {padded}, {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"strides", strides}}),
      at);
    size_t d = at.size();
    while (d-- > 0 && ++at[d] == w.kernel[d]) at[d] = 0;
    if (d == static_cast<size_t>(-1)) return;
  }
}
bool plain(const OnnxWindow& w) {
  for (size_t d = 0; d < w.kernel.size(); ++d)
    if (w.dilation[d] != 1 || w.reach[2 * d] >= w.kernel[d] || w.reach[2 * d + 1] >= w.kernel[d] ||
        w.out[d] < 1)
      return false;
  return true;
}
// The ops take padding at the end from the input only as far as windows reach; what is padded beyond is not
// read.
void max_pool(Import& i) {
  const Value x = i.in(0);
  const OnnxWindow w = window_of(i, x.shape(), i.ints_attr("kernel_shape", {}));
  const bool wants_index = i.node.outputs.size() > 1 && !i.node.outputs[1].empty();
  const Shape& s = x.shape();
  Value y, index;  // index: within the plane
  if (plain(w) && is_float(x.dtype())) {
    const Values r = call_all(wants_index ? "max_pool_with_index" : "max_pool", {x},
                              {{"kernel_size", w.kernel}, {"stride", w.stride}, {"padding", w.reach}});
    y = r[0], index = wants_index ? to(r[1], DType::kInt64) : Value();
  } else {
    const double low = is_float(x.dtype())         ? -std::numeric_limits<double>::infinity()
                       : x.dtype() == DType::kInt8 ? -128
                                                   : 0;
    const Value p = pad_spatial(x, w.reach, low);
    Value where_at;
    if (wants_index) {
      Shape plane{1, 1};
      int64_t n = 1;
      for (size_t d = 2; d < s.size(); ++d) plane.push_back(s[d]), n *= s[d];
      where_at = pad_spatial(reshape(iota({n}, 0, DType::kInt64), plane), w.reach, 0);
    }
    std::vector<Value> values, places;
    each_tap(w, p, [&](const Value& v, const Ints&) { values.push_back(v); });
    if (wants_index) each_tap(w, where_at, [&](const Value& v, const Ints&) { places.push_back(v); });
    y = values[0], index = wants_index ? broadcast_to(places[0], y.shape()) : Value();
    for (size_t k = 1; k < values.size(); ++k) {
      if (wants_index) index = where(greater_than(values[k], y), places[k], index);
      y = maximum(y, values[k]);
    }
  }
  i.out(y);
  if (!wants_index) return;
  int64_t plane = 1;
  for (size_t d = 2; d < s.size(); ++d) plane *= s[d];
  if (i.integer("storage_order", 0) && s.size() == 4) {  // column by column
    const Value w_extent = constant(static_cast<double>(s[3]), DType::kInt64);
    index = call("mod_unchecked", {index, w_extent}) * static_cast<double>(s[2]) +
            call("floor_div_unchecked", {index, w_extent});
  }
  Shape planes{s[0], s[1]};
  while (planes.size() < s.size()) planes.push_back(1);
  i.out(1, index + reshape(iota({s[0] * s[1]}, 0, DType::kInt64), planes) * static_cast<double>(plane));
}
Value sum_pool(const OnnxWindow& w, const Value& x) {
  const Value p = pad_spatial(x, w.reach, 0);
  Value total;
  each_tap(w, p, [&](const Value& v, const Ints&) { total = total ? total + v : v; });
  return total;
}
void average_pool(Import& i) {
  const Value x = i.in(0);
  const OnnxWindow w = window_of(i, x.shape(), i.ints_attr("kernel_shape", {}));
  const bool include = i.integer("count_include_pad", 0);
  bool within = true;  // no window reaches beyond the declared padding
  for (size_t k = 0; k < w.pads.size(); ++k) within = within && w.reach[k] <= w.pads[k];
  if (plain(w) && (!include || within))
    return i.out(call(
        "avg_pool", {x},
        {{"kernel_size", w.kernel}, {"stride", w.stride}, {"padding", w.reach}, {"exclusive", !include}}));
  // The number of elements under each window: the same sum over ones.
  Shape ones(x.shape());
  ones[0] = ones[1] = 1;
  Value counted = full(ones, 1, x.dtype());
  OnnxWindow count = w;
  if (include) {
    Ints inside;
    for (size_t d = 0; d < w.kernel.size(); ++d)
      for (size_t side : {2 * d, 2 * d + 1}) {
        const int64_t p = std::min(w.pads[side], w.reach[side]);
        inside.push_back(p), count.reach[side] = w.reach[side] - p;
      }
    counted = pad_spatial(counted, inside, 1);
  }
  i.out(sum_pool(w, x) / sum_pool(count, counted));
}
void lp_pool(Import& i) {
  const double p = static_cast<double>(i.integer("p", 2));
  const Value x = i.in(0);
  const OnnxWindow w = window_of(i, x.shape(), i.ints_attr("kernel_shape", {}));
  const Value powers = p == 2 ? square(x) : call("pow", {abs(x), constant(p, x.dtype())});
  const Value s = sum_pool(w, powers);
  i.out(p == 2 ? sqrt(s) : call("pow", {s, constant(1 / p, x.dtype())}));
}
Ints spatial_axes(const Value& x) {
  Ints a;
  for (int64_t d = 2; d < x.rank(); ++d) a.push_back(d);
  return a;
}
void global_lp_pool(Import& i) {
  need(i, {3});
  const double p = static_cast<double>(i.integer("p", 2));
  const Value x = i.in(0);
  i.out(call("pow", {sum(call("pow", {abs(x), constant(p, x.dtype())}), spatial_axes(x)),
                     constant(1 / p, x.dtype())}));
}
void max_unpool(Import& i) {
  Ints shape = i.has(2) ? i.ints(2) : Ints();
  const Value x = i.in(0);
  const Ints kernel = i.ints_attr("kernel_shape", {}),
             stride = i.ints_attr("strides", spatial_ones(kernel.size()));
  const Ints pads = i.ints_attr("pads", Ints(static_cast<uint32_t>(2 * kernel.size()), 0));
  need(i, {3});
  expect(i,
         static_cast<int64_t>(kernel.size()) == x.rank() - 2 && stride.size() == kernel.size() &&
             pads.size() == 2 * kernel.size() &&
             (shape.empty() || static_cast<int64_t>(shape.size()) == x.rank()),
         "kernel, strides, pads and output shape for every spatial dim");
  Shape s{x.shape()[0], x.shape()[1]}, given(shape.begin(), shape.end());
  for (size_t d = 0; d < kernel.size(); ++d)
    s.push_back((x.shape()[d + 2] - 1) * stride[d] + kernel[d] - pads[d] - pads[d + kernel.size()]);
  // The positions are those of a tensor of the inferred shape; a larger output shape makes room behind it.
  const int64_t n = numel(s);
  const Value flat =
      call("put_along_axis_core",
           {full({n}, 0, x.dtype()), reshape(i.in(1), {numel(x.shape())}), reshape(x, {numel(x.shape())})},
           {{"axis", 0}, {"reduce", "assign"}, {"broadcast", false}});
  Value y = reshape(flat, s);
  if (!shape.empty()) {
    Ints pairs;
    for (size_t d = 0; d < s.size(); ++d)
      pairs.push_back(0), pairs.push_back(std::max<int64_t>(0, given[d] - s[d]));
    y = call("pad_core", {y}, {{"pairs", pairs}});
  }
  i.out(y);
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"Conv", conv},
                            {"ConvTranspose", conv_transpose},
                            {"MaxPool", max_pool},
                            {"AveragePool", average_pool},
                            {"LpPool", lp_pool},
                            {"GlobalAveragePool",
                             [](Import& i) { i.out(mean(i.in(0), spatial_axes(i.in(0)))); }},
                            {"GlobalMaxPool", [](Import& i) { i.out(max(i.in(0), spatial_axes(i.in(0)))); }},
                            {"GlobalLpPool", global_lp_pool},
                            {"MaxUnpool", max_unpool},
                        });
}  // namespace
}  // namespace yuloh::formats
