// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: gathering, scattering, sorting, searching. Where the result's shape depends on data
// (NonZero, Unique, Compress) the data are read.
#include <algorithm>
#include <numeric>

#include "formats/onnx_ops.h"

namespace yuloh::formats {
namespace {
void do_gather(Import& i) {
  const Value x = i.in(0);
  const int64_t axis = axis_of(i, i.integer("axis", 0), x.rank());
  const Value index = non_negative(i.in(1), x.shape()[axis]);
  const Value flat = gather(x, reshape(index, {numel(index.shape())}), axis);
  Shape s(x.shape().begin(), x.shape().begin() + axis);
  for (Dim d : index.shape()) s.push_back(d);
  for (int64_t d = axis + 1; d < x.rank(); ++d) s.push_back(x.shape()[d]);
  i.out(reshape(flat, s));
}
void gather_elements(Import& i) {
  const Value x = i.in(0);
  const int64_t axis = axis_of(i, i.integer("axis", 0), x.rank());
  i.out(call("take_along_axis", {x, non_negative(i.in(1), x.shape()[axis])},
             {{"axis", axis}, {"broadcast", false}}));
}
// Positions [.., k] into the first k axes of `dims` as row-major numbers [..].
Value flat_positions(const Value& index, const Shape& dims, int64_t first) {
  const int64_t k = index.shape().back();
  Ints extent(dims.begin() + first, dims.begin() + first + k), stride(static_cast<uint32_t>(k), 1);
  for (int64_t d = k - 1; d-- > 0;) stride[d] = stride[d + 1] * extent[d + 1];
  Value v = to(index, DType::kInt64);
  if (k == 0) return sum_in(v, {index.rank() - 1}, false, DType::kInt64);
  // Coordinate by coordinate, with plain numbers: an open size stays one where a program with open sizes is
  // made of this.
  Value at;
  for (int64_t d = 0; d < k; ++d) {
    Value c = squeeze(narrow(v, index.rank() - 1, d, 1), index.rank() - 1);
    c = where(call("less_than", {c, constant(0, DType::kInt64)}), c + static_cast<double>(extent[d]), c) *
        static_cast<double>(stride[d]);
    at = at ? at + c : c;
  }
  return at;
}
int64_t product(const Shape& s, int64_t from, int64_t to) {
  return std::accumulate(s.begin() + from, s.begin() + to, int64_t{1}, std::multiplies<int64_t>());
}
void gather_nd(Import& i) {
  need(i, {1, 1});
  const Value x = i.in(0), index = i.in(1);
  const int64_t batch = bounded(i, "batch_dims", 0, 0, std::min(x.rank(), index.rank()) - 1),
                k = index.shape().back();
  if (k < 0 || batch + k > x.rank()) value_error("GatherND: ", k, " coordinates do not fit ", x.shape(), ".");
  const int64_t nb = product(x.shape(), 0, batch), inner = product(x.shape(), batch, batch + k),
                rest = product(x.shape(), batch + k, x.rank());
  Value at = flat_positions(index, x.shape(), batch);
  at = reshape(at, {nb, numel(at.shape()) / std::max<int64_t>(nb, 1)});
  at = at + iota({nb, 1}, 0, DType::kInt64) * static_cast<double>(inner);
  Shape s(index.shape().begin(), index.shape().end() - 1);
  for (int64_t d = batch + k; d < x.rank(); ++d) s.push_back(x.shape()[d]);
  i.out(reshape(gather(reshape(x, {nb * inner, rest}), reshape(at, {numel(at.shape())}), 0), s));
}
const char* reduction_of(const Import& i) {
  const std::string r = i.text("reduction", "none");
  return r == "none" ? "assign" : r == "add" ? "add" : r == "mul" ? "mul" : r == "max" ? "amax" : "amin";
}
Value put(const Value& x, const Value& index, const Value& updates, int64_t axis, const char* reduce) {
  return call("put_along_axis_core", {x, index, updates},
              {{"axis", axis}, {"reduce", reduce}, {"include_self", true}, {"broadcast", false}});
}
void scatter_elements(Import& i) {
  const Value x = i.in(0);
  const int64_t axis = axis_of(i, i.integer("axis", 0), x.rank());
  i.out(put(x, non_negative(i.in(1), x.shape()[axis]), i.in(2), axis, reduction_of(i)));
}
void scatter_nd(Import& i) {
  need(i, {1, 1});
  const Value x = i.in(0), index = i.in(1);
  expect(i, index.shape().back() <= x.rank(), "no more coordinates than x has dims");
  const int64_t k = index.shape().back(), outer = product(x.shape(), 0, k),
                rest = product(x.shape(), k, x.rank());
  const int64_t n = numel(index.shape()) / std::max<int64_t>(k, 1);
  const Value at = broadcast_to(reshape(flat_positions(index, x.shape(), 0), {n, 1}), {n, rest});
  i.out(reshape(put(reshape(x, {outer, rest}), at, reshape(i.in(2), {n, rest}), 0, reduction_of(i)),
                x.shape()));
}
// Writes `update` into a cache at positions along the sequence axis, one start per batch entry.
void tensor_scatter(Import& i) {
  need(i, {1, 1});
  expect(i, i.in(0).rank() == i.in(1).rank(), "past and update of one rank");
  const Value past = i.in(0), update = i.in(1);
  const int64_t axis = axis_of(i, i.integer("axis", -2), past.rank()), n = past.shape()[axis],
                m = update.shape()[axis];
  Value start = i.has(2) ? to(i.in(2), DType::kInt64) : full({past.shape()[0]}, 0, DType::kInt64);
  Shape s(past.rank(), 1), along(past.rank(), 1);
  s[0] = past.shape()[0], along[axis] = m;
  Value at = reshape(start, s) + iota(along, axis, DType::kInt64);
  if (i.text("mode", "linear") == "circular")
    at = call("mod_unchecked", {at, constant(static_cast<double>(n), DType::kInt64)});
  i.out(put(past, broadcast_to(at, update.shape()), update, axis, "assign"));
}
void one_hot(Import& i) {
  const double given = i.number(1);
  expect(i, given >= 0 && given <= 1 << 30, "a depth from 0 to 2^30");
  const int64_t depth = static_cast<int64_t>(given);
  const Value index = to(i.in(0), DType::kInt64), values = i.in(2);
  expect(i, values.rank() == 1 && values.shape()[0] == 2, "two values, for off and on");
  const int64_t axis = axis_of(i, i.integer("axis", -1), index.rank() + 1);
  Shape s(static_cast<uint32_t>(index.rank() + 1), 1);
  s[axis] = depth;
  const Value hit = equal(unsqueeze(non_negative(index, depth), axis), iota(s, axis, DType::kInt64));
  i.out(where(hit, reshape(narrow(values, 0, 1, 1), {}), reshape(narrow(values, 0, 0, 1), {})));
}
void top_k(Import& i) {
  const int64_t k = i.opset() < 10 ? i.integer("k", 1) : first(i, 1);
  const Value x = i.in(0);
  const Values r = call_all("topk", {x},
                            {{"k", k},
                             {"axis", axis_of(i, i.integer("axis", -1), x.rank())},
                             {"largest", i.integer("largest", 1) != 0}});
  i.out(0, r[0]), i.out(1, r[1]);
  if (i.node.outputs.size() > 1) i.out_stored_as(1, 0);
}
void arg_extreme(Import& i, const char* op) {
  Value x = i.in(0);
  const int64_t axis = axis_of(i, i.integer("axis", 0), x.rank());
  const bool keep = i.integer("keepdims", 1), last = i.integer("select_last_index", 0);
  if (last) x = flip(x, axis);
  Value r = call(op, {x}, {{"axis", axis}, {"keepdim", keep}});
  i.out(last ? static_cast<double>(x.shape()[axis] - 1) - r : r);
  i.out_stored_as(0, 0);
}
void non_zero(Import& i) {
  const FileTensor t = i.host(0);
  const Shape& s = t.type.shape;
  const Ints strides = row_major_strides(s);
  const int64_t total = numel(s), rank = std::max<int64_t>(1, s.size());
  std::vector<int64_t> hits;
  for (int64_t k = 0; k < total; ++k)
    if (load_double(static_cast<const char*>(t.buffer->data()) + k * dtype_size(t.type.dtype),
                    t.type.dtype) != 0)
      hits.push_back(k);
  std::vector<int64_t> r;
  for (int64_t d = 0; d < rank; ++d)
    for (int64_t k : hits) r.push_back(s.empty() ? 0 : k / strides[d] % s[d]);
  i.out(data_of(r, {s.empty() ? 0 : rank, static_cast<Dim>(hits.size())}));
  i.out_stored_as(0, 0);
}
void compress(Import& i) {
  const Ints condition = i.ints(1);
  Value x = i.in(0);
  int64_t axis = 0;
  if (i.has_attr("axis")) axis = axis_of(i, i.integer("axis", 0), x.rank());
  else x = reshape(x, {numel(x.shape())});
  std::vector<int64_t> keep;
  for (size_t k = 0; k < condition.size(); ++k)
    if (condition[k]) keep.push_back(static_cast<int64_t>(k));
  i.out(gather(x, data_of(keep, {static_cast<Dim>(keep.size())}), axis));
}
void unique(Import& i) {
  const FileTensor t = i.host(0);
  Value x = i.in(0);
  const bool along = i.has_attr("axis");
  const int64_t axis = along ? axis_of(i, i.integer("axis", 0), x.rank()) : 0;
  if (!along) x = reshape(x, {numel(x.shape())});
  const int64_t n = x.shape()[axis], outer = product(x.shape(), 0, axis),
                inner = product(x.shape(), axis + 1, x.rank());
  const char* p = static_cast<const char*>(t.buffer->data());
  const size_t size = dtype_size(t.type.dtype);
  const bool integral = is_integral(t.type.dtype);
  auto less = [&](int64_t a, int64_t b) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < inner; ++k) {
        const char *pa = p + ((o * n + a) * inner + k) * size, *pb = p + ((o * n + b) * inner + k) * size;
        if (integral) {
          const int64_t va = load_int(pa, t.type.dtype), vb = load_int(pb, t.type.dtype);
          if (va != vb) return va < vb;
        } else {
          const double va = load_double(pa, t.type.dtype), vb = load_double(pb, t.type.dtype);
          if (va < vb || vb < va) return va < vb;
        }
      }
    return false;
  };
  std::vector<int64_t> order(n), first, inverse(n), count;
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), less);
  for (int64_t k = 0; k < n; ++k) {
    if (k == 0 || less(order[k - 1], order[k])) first.push_back(order[k]), count.push_back(0);
    ++count.back(), inverse[order[k]] = static_cast<int64_t>(first.size()) - 1;
  }
  if (!i.integer("sorted", 1)) {  // in order of first appearance
    std::vector<int64_t> by(first.size()), place(first.size()), f, c;
    std::iota(by.begin(), by.end(), int64_t{0});
    std::sort(by.begin(), by.end(), [&](int64_t a, int64_t b) { return first[a] < first[b]; });
    for (size_t k = 0; k < by.size(); ++k)
      place[by[k]] = static_cast<int64_t>(k), f.push_back(first[by[k]]), c.push_back(count[by[k]]);
    for (int64_t& v : inverse) v = place[v];
    first = f, count = c;
  }
  const Shape m{static_cast<Dim>(first.size())};
  i.out(gather(x, data_of(first, m), axis));
  i.out(1, data_of(first, m)), i.out(2, data_of(inverse, {n})), i.out(3, data_of(count, m));
}
void suppress(Import& i) {
  const int64_t most = i.has(2) ? first(i, 2) : 0;
  const double overlap = i.has(3) ? i.number(3) : 0;
  const bool has_limit = i.has(4);
  const double limit = has_limit ? i.number(4) : 0;
  const FileTensor boxes = i.host(0), scores = i.host(1);
  const Shape &bs = boxes.type.shape, &ss = scores.type.shape;
  expect(i, bs.size() == 3 && ss.size() == 3 && bs[2] == 4 && bs[0] == ss[0] && bs[1] == ss[2],
         "boxes [batch, n, 4] and scores [batch, classes, n]");
  if (boxes.type.dtype != DType::kFloat32 || scores.type.dtype != DType::kFloat32)
    i.unsupported("boxes that are not float32");
  const int64_t batches = scores.type.shape[0], classes = scores.type.shape[1], n = scores.type.shape[2];
  const bool centre = i.integer("center_point_box", 0);
  std::vector<int64_t> r;
  for (int64_t b = 0; b < batches; ++b) {
    const float* box = static_cast<const float*>(boxes.buffer->data()) + b * n * 4;
    for (int64_t c = 0; c < classes; ++c) {
      const float* score = static_cast<const float*>(scores.buffer->data()) + (b * classes + c) * n;
      std::vector<float> corners, chosen;
      std::vector<int64_t> from;
      for (int64_t k = 0; k < n; ++k) {
        if (has_limit && !(score[k] > limit)) continue;
        const float* q = box + 4 * k;
        if (centre)
          corners.insert(corners.end(), {q[0] - q[2] / 2, q[1] - q[3] / 2, q[0] + q[2] / 2, q[1] + q[3] / 2});
        else
          corners.insert(corners.end(), {std::min(q[1], q[3]), std::min(q[0], q[2]), std::max(q[1], q[3]),
                                         std::max(q[0], q[2])});
        chosen.push_back(score[k]), from.push_back(k);
      }
      const std::vector<int64_t> kept =
          nms(corners.data(), chosen.data(), nullptr, static_cast<int64_t>(from.size()), overlap);
      for (size_t k = 0; k < kept.size() && static_cast<int64_t>(k) < most; ++k)
        r.insert(r.end(), {b, c, from[kept[k]]});
    }
  }
  i.out(data_of(r, {static_cast<Dim>(r.size() / 3), 3}));
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"Gather", do_gather},
                            {"GatherElements", gather_elements},
                            {"GatherND", gather_nd},
                            {"ScatterElements", scatter_elements},
                            {"Scatter", scatter_elements},
                            {"ScatterND", scatter_nd},
                            {"TensorScatter", tensor_scatter},
                            {"OneHot", one_hot},
                            {"TopK", top_k},
                            {"ArgMax", [](Import& i) { arg_extreme(i, "argmax"); }},
                            {"ArgMin", [](Import& i) { arg_extreme(i, "argmin"); }},
                            {"NonZero", non_zero},
                            {"Compress", compress},
                            {"Unique", unique},
                            {"NonMaxSuppression", suppress},
                            {"ai.onnx.ml.ArrayFeatureExtractor",
                             [](Import& i) {
                               const Value x = i.in(0), index = i.in(1);
                               i.out(gather(x.rank() > 1 ? x : reshape(x, {1, x.shape()[0]}),
                                            reshape(index, {numel(index.shape())}),
                                            std::max<int64_t>(x.rank() - 1, 1)));
                             }},
                            {"ai.onnx.ml.Binarizer",
                             [](Import& i) {
                               i.out(to(greater_than(i.in(0), constant_like(i.real("threshold", 0), i.in(0))),
                                        i.in(0).dtype()));
                             }},
                        });
}  // namespace
}  // namespace yuloh::formats
