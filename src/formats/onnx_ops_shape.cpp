// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: shapes, constants, slices, joins.
#include <algorithm>
#include <cmath>

#include "formats/onnx_ops.h"

namespace yuloh::formats {
namespace {
// Axes from input `k` (new opsets) or the attribute; empty when neither is there.
Ints axes_from(const Import& i, size_t k, const char* name = "axes") {
  return i.has(k) ? i.ints(k) : i.ints_attr(name, {});
}
Shape shape_of(const Ints& v) { return Shape(v.begin(), v.end()); }

void do_reshape(Import& i) {
  const Ints want = i.opset() < 5 && !i.has(1) ? i.ints_attr("shape", {}) : i.ints(1);
  const Value x = i.in(0);
  Shape s;
  int64_t known = 1, open = -1;
  for (size_t k = 0; k < want.size(); ++k) {
    int64_t d = want[k];
    if (d == 0 && !i.integer("allowzero", 0)) {
      if (k >= x.shape().size())
        value_error("Reshape: 0 at position ", k, " has no dim to copy in ", x.shape(), ".");
      d = x.shape()[k];
    }
    if (d == -1) open = static_cast<int64_t>(k), d = 1;
    s.push_back(d);
    expect(i, !__builtin_mul_overflow(known, d, &known), "a shape whose product fits into 64 bits");
  }
  if (open >= 0) s[open] = known ? numel(x.shape()) / known : 0;
  i.out(call("view_as_shape", {x}, {{"shape", to_ints(s)}}));
}
void flatten(Import& i) {
  const Value x = i.in(0);
  int64_t axis = i.integer("axis", 1), left = 1, right = 1;
  if (axis < 0) axis += x.rank();
  for (int64_t d = 0; d < x.rank(); ++d) (d < axis ? left : right) *= x.shape()[d];
  i.out(reshape(x, {left, right}));
}
void do_squeeze(Import& i) {
  const Ints axes = axes_from(i, 1);
  const Value x = i.in(0);
  Shape s;
  std::vector<bool> drop(x.rank(), false);
  for (int64_t a : axes) {
    const int64_t k = axis_of(i, a, x.rank());
    if (x.shape()[k] != 1) value_error("Squeeze: axis ", a, " of ", x.shape(), " is not 1.");
    drop[k] = true;
  }
  for (int64_t d = 0; d < x.rank(); ++d)
    if (axes.empty() ? x.shape()[d] != 1 : !drop[d]) s.push_back(x.shape()[d]);
  i.out(reshape(x, s));
}
void do_unsqueeze(Import& i) {
  const Ints axes = axes_from(i, 1);
  const Value x = i.in(0);
  const int64_t rank = x.rank() + axes.size();
  std::vector<bool> fresh(rank, false);
  for (int64_t a : axes) fresh[axis_of(i, a, rank)] = true;
  Shape s;
  for (int64_t d = 0, k = 0; d < rank; ++d) {
    if (!fresh[d] && k >= x.rank())
      value_error("Unsqueeze: axes repeat, got ", to_string(shape_of(axes)), ".");
    s.push_back(fresh[d] ? 1 : x.shape()[k++]);
  }
  i.out(reshape(x, s));
}
void do_transpose(Import& i) {
  const Value x = i.in(0);
  Ints perm = i.ints_attr("perm", {});
  if (!i.has_attr("perm"))
    for (int64_t d = x.rank(); d-- > 0;) perm.push_back(d);
  i.out(transpose(x, perm));
}
void do_concat(Import& i) {
  Values xs;
  for (size_t k = 0; k < i.n_inputs(); ++k) xs.push_back(i.in(k));
  i.out(concat(xs, axis_of(i, i.integer("axis", i.opset() < 4 ? 1 : 0), xs[0].rank())));
}
void do_split(Import& i) {
  Ints sizes = axes_from(i, 1, "split");
  const Value x = i.in(0);
  const int64_t axis = axis_of(i, i.integer("axis", 0), x.rank()), n = x.shape()[axis];
  if (sizes.empty()) {
    const int64_t count = bounded(i, "num_outputs", static_cast<int64_t>(i.node.outputs.size()), 1, 1 << 20),
                  each = (n + count - 1) / count;
    for (int64_t k = 0; k < count; ++k) sizes.push_back(std::clamp<int64_t>(n - k * each, 0, each));
  }
  const Values r = split(x, sizes, axis);
  for (size_t k = 0; k < r.size(); ++k) i.out(k, r[k]);
}
void do_slice(Import& i) {
  const bool old = i.opset() < 10;
  const Ints starts = old ? i.ints_attr("starts", {}) : i.ints(1),
             ends = old ? i.ints_attr("ends", {}) : i.ints(2);
  Ints axes = old        ? i.ints_attr("axes", {})
              : i.has(3) ? i.ints(3)
                         : Ints(),
       steps = !old && i.has(4) ? i.ints(4) : Ints();
  Value x = i.in(0);
  if (axes.empty())
    for (size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  if (steps.empty()) steps.resize(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    value_error("Slice: starts, ends, axes and steps differ in length.");
  Ints at, from, to, by;
  for (size_t k = 0; k < starts.size(); ++k) {
    const int64_t axis = axis_of(i, axes[k], x.rank()), n = x.shape()[axis], step = steps[k];
    if (step == 0) value_error("Slice: a step is 0.");
    auto place = [&](int64_t v, int64_t low, int64_t high) {
      return std::clamp(v < 0 ? v + n : v, low, high);
    };
    int64_t start = place(starts[k], 0, n), end = place(ends[k], 0, n), stride = step;
    if (step < 0) {
      x = flip(x, axis);
      start = n - 1 - place(starts[k], -1, n - 1), end = n - 1 - place(ends[k], -1, n - 1);
      stride = step == INT64_MIN ? INT64_MAX : -step;
    }
    at.push_back(axis), from.push_back(start), to.push_back(std::max(start, end)),
        by.push_back(std::min(stride, std::max<int64_t>(n, 1)));
  }
  i.out(call("slice", {x}, {{"axes", at}, {"starts", from}, {"ends", to}, {"strides", by}}));
}
void expand(Import& i) {
  const Ints want = i.ints(1);
  const Value x = i.in(0);
  i.out(broadcast_to(x, broadcast_shapes("Expand", x.shape(), shape_of(want))));
}
void tile(Import& i) {
  const Ints repeats = i.ints(1);
  Value x = i.in(0);
  if (static_cast<int64_t>(repeats.size()) != x.rank())
    value_error("Tile: got ", repeats.size(), " repeats for x of shape ", x.shape(), ".");
  for (size_t d = 0; d < repeats.size(); ++d) {  // one axis at a time: few loops each
    Ints one(static_cast<uint32_t>(repeats.size()), 1);
    one[d] = repeats[d];
    if (repeats[d] != 1) x = call("tile", {x}, {{"repeat_times", one}});
  }
  i.out(x);
}
Value padded(const Value& x, const Ints& pairs, const std::string& mode, double value) {
  Ints grow = pairs, axes, starts, ends;
  for (size_t k = 0; k < pairs.size() / 2; ++k) {
    const int64_t n = x.shape()[k];
    if (pairs[2 * k] >= 0 && pairs[2 * k + 1] >= 0) continue;
    const int64_t low = std::max<int64_t>(0, -pairs[2 * k]),
                  high = n - std::max<int64_t>(0, -pairs[2 * k + 1]);
    axes.push_back(static_cast<int64_t>(k)), starts.push_back(low), ends.push_back(std::max(low, high));
    grow[2 * k] = std::max<int64_t>(0, pairs[2 * k]),
             grow[2 * k + 1] = std::max<int64_t>(0, pairs[2 * k + 1]);
  }
  const Value cut =
      axes.empty() ? x : call("slice", {x}, {{"axes", axes}, {"starts", starts}, {"ends", ends}});
  const bool none = std::all_of(grow.begin(), grow.end(), [](int64_t p) { return p == 0; });
  return none ? cut : call("pad_core", {cut}, {{"pairs", grow}, {"mode", mode}, {"value", value}});
}
void pad(Import& i) {
  const bool old = i.opset() < 11;
  const Ints pads = old ? i.ints_attr(i.opset() < 2 ? "paddings" : "pads", {}) : i.ints(1);
  const double value = old ? i.real("value", 0) : i.has(2) && numel(i.in(2).shape()) ? i.number(2) : 0;
  Ints axes = !old && i.has(3) ? i.ints(3) : Ints();
  const Value x = i.in(0);
  if (axes.empty())
    for (int64_t d = 0; d < x.rank(); ++d) axes.push_back(d);
  if (pads.size() != 2 * axes.size())
    value_error("Pad: got ", pads.size(), " pads; expected two for each of ", axes.size(), " axes.");
  Ints pairs(static_cast<uint32_t>(2 * x.rank()), 0);
  for (int64_t p : pads) expect(i, std::abs(p >> 1) < int64_t{1} << 40, "pads that memory can hold");
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t a = axis_of(i, axes[k], x.rank());
    pairs[2 * a] = pads[k], pairs[2 * a + 1] = pads[k + axes.size()];
  }
  const std::string mode = i.text("mode", "constant");
  i.out(padded(x, pairs, mode == "edge" ? "replicate" : mode == "wrap" ? "circular" : mode, value));
}
void do_shape(Import& i) {
  const Value x = i.in(0);
  const int64_t n = x.rank();
  auto place = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
  Ints r;
  for (int64_t d = place(i.integer("start", 0)); d < place(i.integer("end", n)); ++d)
    r.push_back(x.shape()[d]);
  i.out(list_of(r));
  i.out_stored_as(0, 0);
}
void constant_of_shape(Import& i) {
  const Ints dims = i.ints(0);
  double value = 0;
  DType t = DType::kFloat32;
  int stored = 0;
  if (i.has_attr("value")) {
    const FileTensor& v = i.tensor_attr("value");
    if (!v.buffer || numel(v.type.shape) != 1) i.unsupported("value has more than one element");
    value = load_double(v.buffer->data(), v.type.dtype), t = v.type.dtype, stored = v.stored_as;
  }
  i.out(full(shape_of(dims), value, t));
  i.out_stored_as(0, stored);
}
void constant_node(Import& i) {
  for (const char* name : {"value", "sparse_value"})
    if (i.has_attr(name)) {
      i.out(i.attr_value(name));
      return i.out_stored_as(0, i.tensor_attr(name).stored_as);
    }
  if (i.has_attr("value_float")) return i.out(data_of(std::vector<double>{i.real("value_float", 0)}, {}));
  if (i.has_attr("value_int")) return i.out(data_of(std::vector<int64_t>{i.integer("value_int", 0)}, {}));
  if (i.has_attr("value_ints")) return i.out(list_of(i.ints_attr("value_ints", {})));
  if (i.has_attr("value_floats")) {
    const std::vector<double> v = i.reals_attr("value_floats");
    return i.out(data_of(v, {static_cast<Dim>(v.size())}));
  }
  i.unsupported("strings");
}
void range(Import& i) {
  const double start = i.number(0), limit = i.number(1), delta = i.number(2);
  const DType t = i.in(0).dtype();
  if (delta == 0) value_error("Range: delta is 0.");
  const double count = std::ceil((limit - start) / delta);
  if (!(count < 1e9))
    value_error("Range: from ", start, " to ", limit, " by ", delta, " has too many elements.");
  const int64_t n = std::max<int64_t>(0, static_cast<int64_t>(count));
  // As an op, so that its end may stay open when the model is written.
  if (n > 0 && (t == DType::kInt64 || t == DType::kInt32))
    return i.out(
        call("arange_static", {}, {{"start", start}, {"end", limit}, {"step", delta}, {"dtype", t}}));
  const TensorType type{t, {n}};
  Ref<Buffer> b = allocate_buffer(type);
  for (int64_t k = 0; k < n; ++k)
    store_double(static_cast<char*>(b->data()) + k * dtype_size(t), t,
                 start + static_cast<double>(k) * delta);
  i.out(make_data(type, b));
}
void eye_like(Import& i) {
  const Value x = i.in(0);
  const DType t = i.has_attr("dtype") ? dtype_attr(i, "dtype") : x.dtype();
  if (x.rank() != 2) value_error("EyeLike: expected a matrix, got ", x.shape(), ".");
  const Value row = iota({x.shape()[0], 1}, 0, DType::kInt64) + static_cast<double>(i.integer("k", 0));
  i.out(to(equal(row, iota({1, x.shape()[1]}, 1, DType::kInt64)), t));
}
void trilu(Import& i) {
  const int64_t k = i.has(1) ? first(i, 1) : 0;
  need(i, {2});
  const Value x = i.in(0);
  const int64_t h = x.shape()[x.rank() - 2], w = x.shape()[x.rank() - 1];
  const Value row =
                  iota({h, 1}, 0, DType::kInt64) + static_cast<double>(std::clamp<int64_t>(k, -h - 1, w + 1)),
              col = iota({1, w}, 1, DType::kInt64);
  i.out(where(call(i.integer("upper", 1) ? "less_equal" : "greater_equal", {row, col}), x,
              constant_like(0, x)));
}
void depth_to_space(Import& i) {
  need(i, {4});
  const Value x = i.in(0);
  const int64_t b = bounded(i, "blocksize", 1, 1, 1 << 16), n = x.shape()[0], c = x.shape()[1],
                h = x.shape()[2], w = x.shape()[3], d = c / (b * b);
  const bool crd = i.text("mode", "DCR") == "CRD";
  const Value v = transpose(reshape(x, crd ? Shape{n, d, b, b, h, w} : Shape{n, b, b, d, h, w}),
                            crd ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 3, 4, 1, 5, 2});
  i.out(reshape(v, {n, d, h * b, w * b}));
}
void space_to_depth(Import& i) {
  need(i, {4});
  const Value x = i.in(0);
  const int64_t b = bounded(i, "blocksize", 1, 1, 1 << 16), n = x.shape()[0], c = x.shape()[1],
                h = x.shape()[2], w = x.shape()[3];
  if (h % b || w % b) value_error("SpaceToDepth: ", x.shape(), " does not divide into blocks of ", b, ".");
  i.out(reshape(transpose(reshape(x, {n, c, h / b, b, w / b, b}),
                          i.text("mode", "DCR") == "CRD" ? Ints{0, 1, 3, 5, 2, 4} : Ints{0, 3, 5, 1, 2, 4}),
                {n, c * b * b, h / b, w / b}));
}
void center_crop_pad(Import& i) {
  const Ints want = i.ints(1);
  const Value x = i.in(0);
  Ints axes = i.ints_attr("axes", {}), pairs(static_cast<uint32_t>(2 * x.rank()), 0);
  if (!i.has_attr("axes"))
    for (int64_t d = 0; d < x.rank(); ++d) axes.push_back(d);
  expect(i, axes.size() == want.size(), "one extent for each axis");
  for (size_t k = 0; k < axes.size(); ++k) {
    expect(i, want[k] >= 0 && want[k] < int64_t{1} << 40, "extents that memory can hold");
    const int64_t a = axis_of(i, axes[k], x.rank()), more = want[k] - x.shape()[a];
    // Cropping starts at floor(surplus / 2), padding puts floor(missing / 2) in front.
    const int64_t before = more >= 0 ? more / 2 : -((-more) / 2);
    pairs[2 * a] = before, pairs[2 * a + 1] = more - before;
  }
  i.out(padded(x, pairs, "constant", 0));
}
void reverse_sequence(Import& i) {
  const Value x = i.in(0);
  need(i, {2, 1});
  const int64_t time = axis_of(i, i.integer("time_axis", 0), x.rank()),
                batch = axis_of(i, i.integer("batch_axis", 1), x.rank());
  expect(i, time != batch, "two different axes");
  Shape st(x.rank(), 1), sb(x.rank(), 1);
  st[time] = x.shape()[time], sb[batch] = x.shape()[batch];
  const Value t = iota(st, time, DType::kInt64), n = reshape(to(i.in(1), DType::kInt64), sb);
  const Value index = where(call("less_than", {t, n}), n - t - 1.0, t);
  i.out(call("take_along_axis", {x, broadcast_to(index, x.shape())}, {{"axis", time}, {"broadcast", false}}));
}
void dropout(Import& i) {
  const bool training = i.opset() >= 12 && i.has(2) && first(i, 2);
  const double ratio = i.opset() >= 12 ? (i.has(1) ? i.number(1) : .5) : i.real("ratio", .5);
  const Value x = i.in(0);
  if (!training || ratio == 0) {
    i.out(x);
    return i.out(1, full(x.shape(), 1, DType::kBool));
  }
  const Value mask = call("keep_mask", {}, {{"shape", to_ints(x.shape())}, {"p", ratio}});
  i.out(call("dropout_apply", {x, mask}, {{"divisor", 1 - ratio}}));
  i.out(1, mask);
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"Reshape", do_reshape},
                            {"Flatten", flatten},
                            {"Squeeze", do_squeeze},
                            {"Unsqueeze", do_unsqueeze},
                            {"Transpose", do_transpose},
                            {"Concat", do_concat},
                            {"Split", do_split},
                            {"Slice", do_slice},
                            {"Expand", expand},
                            {"Tile", tile},
                            {"Pad", pad},
                            {"Shape", do_shape},
                            {"Size",
                             [](Import& i) {
                               i.out(data_of(std::vector<int64_t>{numel(i.in(0).shape())}, {}));
                               i.out_stored_as(0, 0);
                             }},
                            {"ConstantOfShape", constant_of_shape},
                            {"Constant", constant_node},
                            {"Range", range},
                            {"EyeLike", eye_like},
                            {"Trilu", trilu},
                            {"DepthToSpace", depth_to_space},
                            {"SpaceToDepth", space_to_depth},
                            {"CenterCropPad", center_crop_pad},
                            {"ReverseSequence", reverse_sequence},
                            {"Dropout", dropout},
                        });
}  // namespace
}  // namespace yuloh::formats
