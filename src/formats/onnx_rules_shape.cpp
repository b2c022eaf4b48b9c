// SPDX-License-Identifier: Apache-2.0
// ONNX rules: making, arranging, indexing, ordering, random numbers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/onnx_write.h"

namespace yuloh::formats {
namespace {
using G = OnnxGraph;
using Id = OnnxGraph::Id;

Ints iota_to(size_t n) {
  Ints v(static_cast<uint32_t>(n), 0);
  std::iota(v.begin(), v.end(), int64_t{0});
  return v;
}
// The sizes of a value as int64 [rank]: a constant where nothing is open.
Id dims_of(OnnxNode& n, Id x) {
  const OpenType& t = n.g.type(x);
  return t.numel() >= 0 ? n.g.ints(Ints(t.dims.begin(), t.dims.end())) : n.g.shape_of(x);
}
// Open dims of a result that equal those of x at the given axes, in order.
std::vector<Id> open_dims(OnnxNode& n, Id x, const std::vector<size_t>& axes) {
  std::vector<Id> r;
  for (size_t a : axes)
    if (n.g.type(x).dims[a] < 0) r.push_back(n.g.dim_of(x, static_cast<int64_t>(a)));
  return r;
}

// ---- making ----
void full(OnnxNode& n) { n.done(n.g.filled(n.real("value"), n.out[0].dtype, n.sizes("shape"))); }
void fill(OnnxNode& n) { n.done(n.g.expand(n.g.cast(n.in[0], n.out[0].dtype), n.sizes("shape"))); }
void full_like(OnnxNode& n) { n.done(n.g.expand(n.g.cast(n.in[1], n.out[0].dtype), dims_of(n, n.in[0]))); }
template <int kValue>
void constant_like(OnnxNode& n) {
  n.done(n.g.filled(kValue, n.out[0].dtype, dims_of(n, n.in[0])));
}
void iota(OnnxNode& n) {  // 0, 1, ... along an axis; all other extents are 1
  const int64_t axis = n.axis("axis", n.out[0].rank());
  Ints others;
  for (int64_t k = 0; k < static_cast<int64_t>(n.out[0].rank()); ++k)
    if (k != axis) others.push_back(k);
  const Id row = n.g.range(n.size(n.size_list("shape")[static_cast<size_t>(axis)]), n.out[0].dtype);
  n.done(others.empty() ? row : n.g.unsqueeze(row, others));
}
void arange(OnnxNode& n) {
  const DType t = n.out[0].dtype, w = is_integral(t) ? DType::kInt64 : t;
  n.done(n.g.cast(n.g.op("Range", {n.real_id("start", w), n.real_id("end", w), n.real_id("step", w)}, w), t));
}

void eye(OnnxNode& n) {
  n.done(n.op("EyeLike",
              {n.g.filled(0, n.out[0].dtype, n.g.join({n.sizes("num_rows"), n.sizes("num_columns")}))}));
}
void linspace(OnnxNode& n) {  // from both ends, so that the last value is exact
  const DType t = n.out[0].dtype, d = DType::kFloat64;
  const Id a = n.real_id("start", d), b = n.real_id("stop", d), one = n.g.number(1, d);
  const Id last = n.g.binary("Sub", n.real_id("num", d), one), i = n.g.range(n.sizes("num"), d);
  const Id step = n.g.binary("Div", n.g.binary("Sub", b, a), n.g.binary("Max", last, one));
  const Id up = n.g.binary("Add", a, n.g.binary("Mul", step, i)),
           down = n.g.binary("Sub", b, n.g.binary("Mul", step, n.g.binary("Sub", last, i)));
  Id x = n.g.full_where(n.g.op("Less", {n.g.binary("Add", i, i), last}, DType::kBool), up, down);
  if (n.real("base") > 0) x = n.g.binary("Pow", n.real_id("base", d), x);
  n.done(n.g.cast(x, t));
}

// ---- arranging ----
void pass(OnnxNode& n) { n.done(n.in[0]); }
void reshape(OnnxNode& n) {
  std::vector<Id> open;
  const std::vector<WriteNode::Size> sizes = n.size_list("shape");
  const auto& given = n.g.type(n.in[0]).dims;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (k >= n.out[0].dims.size() || n.out[0].dims[k] >= 0) continue;
    if (sizes[k].expr || sizes[k].value > 0) open.push_back(n.size(sizes[k]));
    else if (sizes[k].value == 0 && k < given.size())
      open.push_back(n.g.dim_of(n.in[0], static_cast<int64_t>(k)));
    else open.push_back(n.g.ints({-1}));
  }
  n.done(n.reshaped(n.in[0], n.out[0], open));
}
void flatten(OnnxNode& n) {
  const auto rank = static_cast<int64_t>(n.g.rank(n.in[0]));
  if (rank == 0) return n.done(n.g.reshape(n.in[0], {1}));
  const int64_t from = n.axis("start_axis", n.g.rank(n.in[0])), to = n.axis("stop_axis", n.g.rank(n.in[0]));
  std::vector<Id> open;
  for (int64_t k = 0; k < rank - (to - from); ++k) {
    if (n.out[0].dims[static_cast<size_t>(k)] >= 0) continue;
    open.push_back(k == from ? n.g.ints({-1}) : n.g.dim_of(n.in[0], k < from ? k : k + to - from));
  }
  n.done(n.reshaped(n.in[0], n.out[0], open));
}
void squeeze(OnnxNode& n) {
  const auto& dims = n.g.type(n.in[0]).dims;
  Ints axes;
  const auto add = [&](int64_t a) {
    if (a < 0) a += static_cast<int64_t>(dims.size());
    if (dims[static_cast<size_t>(a)] == 1 && std::find(axes.begin(), axes.end(), a) == axes.end())
      axes.push_back(a);
  };
  if (n.none("axis") || n.ints("axis").empty())
    for (size_t k = 0; k < dims.size(); ++k) add(static_cast<int64_t>(k));
  else
    for (int64_t a : n.ints("axis")) add(a);
  n.done(axes.empty() ? n.in[0] : n.g.squeeze(n.in[0], axes));
}
void unsqueeze(OnnxNode& n) {  // one after the other
  Id x = n.in[0];
  auto rank = static_cast<int64_t>(n.g.rank(x));
  for (int64_t a : n.ints("axis")) x = n.g.unsqueeze(x, {a < 0 ? a + rank + 1 : a}), ++rank;
  n.done(x);
}
void transpose(OnnxNode& n) {
  Ints perm = n.ints("perm");
  for (int64_t& a : perm) a = a < 0 ? a + static_cast<int64_t>(perm.size()) : a;
  n.done(n.g.transpose(n.in[0], perm));
}
void swapaxes(OnnxNode& n) {
  const size_t rank = n.g.rank(n.in[0]);
  if (rank == 0) return n.done(n.in[0]);
  Ints perm = iota_to(rank);
  std::swap(perm[static_cast<uint32_t>(n.axis("axis0", rank))],
            perm[static_cast<uint32_t>(n.axis("axis1", rank))]);
  n.done(n.g.transpose(n.in[0], perm));
}
void transposed(OnnxNode& n) { n.done(n.g.rank(n.in[0]) < 2 ? n.in[0] : n.g.transpose(n.in[0], {1, 0})); }
void broadcast(OnnxNode& n) {
  std::vector<Id> parts;
  Ints fixed;
  for (const WriteNode::Size& s : n.size_list("shape")) {
    const int64_t v = s.value < 0 && !s.expr ? 1 : s.value;  // -1 keeps the extent, as 1 does in Expand
    fixed.push_back(v), parts.push_back(s.expr ? n.size(s) : 0);
  }
  bool open = false;
  for (Id id : parts) open = open || id;
  for (uint32_t k = 0; open && k < fixed.size(); ++k)
    if (!parts[k]) parts[k] = n.g.ints({fixed[k]});
  n.done(n.g.expand(n.in[0], open ? n.g.join(parts) : n.g.ints(fixed)));
}
void concat(OnnxNode& n) {
  std::vector<Id> in;
  for (Id id : n.in) in.push_back(n.g.cast(id, n.out[0].dtype));
  n.done(in.size() == 1 ? in[0] : n.op("Concat", in, {{"axis", n.integer("axis")}}));
}
void stack(OnnxNode& n) {
  std::vector<Id> in;
  const int64_t axis = n.axis("axis", n.out[0].rank());
  for (Id id : n.in) in.push_back(n.g.unsqueeze(n.g.cast(id, n.out[0].dtype), {axis}));
  n.done(in.size() == 1 ? in[0] : n.op("Concat", in, {{"axis", axis}}));
}
void split(OnnxNode& n) {
  std::vector<DType> types(n.out.size(), n.out[0].dtype);
  if (types.size() == 1) return n.done(n.in[0]);
  n.result = n.g.ops("Split", {n.in[0], n.sizes("sizes")}, types, {{"axis", n.integer("axis")}});
}
Id slice_of(OnnxNode& n, Id x) {
  const bool strided = !n.none("strides");
  return n.g.op(
      "Slice",
      {x, n.sizes("starts"), n.sizes("ends"), n.g.ints(n.ints("axes")), strided ? n.sizes("strides") : 0},
      n.g.dtype(x));
}
void slice(OnnxNode& n) { n.done(n.ints("axes").empty() ? n.in[0] : slice_of(n, n.in[0])); }
// Positions of a tensor's elements in row-major order, in its shape.
Id positions(OnnxNode& n, Id x) {
  const Id shape = dims_of(n, x);
  return n.g.op("Reshape",
                {n.g.range(n.g.op("ReduceProd", {shape}, DType::kInt64, {{"keepdims", int64_t{1}}})), shape},
                DType::kInt64);
}
Id write_flat(OnnxNode& n, Id x, Id at, Id value) {  // `at`: positions, `value`: as many numbers
  const Id flat = n.g.op("ScatterElements", {n.g.flat(x), n.g.flat(at), n.g.flat(value)}, n.g.dtype(x),
                         {{"axis", int64_t{0}}});
  return n.g.op("Reshape", {flat, dims_of(n, x)}, n.g.dtype(x));
}
void slice_write(OnnxNode& n) { n.done(write_flat(n, n.in[0], slice_of(n, positions(n, n.in[0])), n.in[1])); }
void tile(OnnxNode& n) {
  std::vector<WriteNode::Size> times = n.size_list("repeat_times");
  Id x = n.in[0];
  const size_t rank = n.g.rank(x);
  std::vector<Id> parts(times.size() < rank ? rank - times.size() : 0, n.g.ints({1}));
  for (const auto& s : times) parts.push_back(n.size(s));
  if (times.size() > rank) x = n.g.unsqueeze(x, iota_to(times.size() - rank));
  if (parts.empty()) return n.done(x);
  n.done(n.op("Tile", {x, n.g.join(parts)}));
}
void flip(OnnxNode& n) {
  const Ints axes = n.ints("axis");
  const auto count = axes.size();
  n.done(axes.empty() ? n.in[0]
                      : n.op("Slice", {n.in[0], n.g.ints(Ints(count, -1)), n.g.ints(Ints(count, INT64_MIN)),
                                       n.g.ints(axes), n.g.ints(Ints(count, -1))}));
}
void pad(OnnxNode& n) {  // begin and end by axis -> all begins, all ends
  const std::string mode = n.text("mode");
  const char* as = mode == "constant"    ? "constant"
                   : mode == "reflect"   ? "reflect"
                   : mode == "replicate" ? "edge"
                                         : "wrap";
  if (as == std::string_view("wrap") && n.g.opset < 19) n.cannot("circular padding needs opset 19");
  const std::vector<WriteNode::Size> pairs = n.size_list("pairs");
  std::vector<Id> parts;
  Ints fixed;
  for (size_t end : {0, 1})
    for (size_t k = end; k < pairs.size(); k += 2)
      fixed.push_back(pairs[k].value), parts.push_back(n.open("pairs") ? n.size(pairs[k]) : 0);
  std::vector<Id> in{n.in[0], n.open("pairs") ? n.g.join(parts) : n.g.ints(fixed)};
  if (mode == "constant") in.push_back(n.g.number(n.real("value"), n.out[0].dtype));
  n.done(n.op("Pad", in, {{"mode", std::string(as)}}));
}
void diagonal(OnnxNode& n) {
  const auto& dims = n.g.type(n.in[0]).dims;
  const size_t rank = dims.size();
  const auto a = static_cast<uint32_t>(n.axis("axis1", rank)),
             b = static_cast<uint32_t>(n.axis("axis2", rank));
  if (dims[a] < 0 || dims[b] < 0) n.cannot("a diagonal of open sizes");
  const int64_t offset = n.integer("offset");
  Ints perm, at;
  for (uint32_t k = 0; k < rank; ++k)
    if (k != a && k != b) perm.push_back(k);
  perm.push_back(a), perm.push_back(b);
  for (int64_t i = std::max<int64_t>(0, -offset), j = std::max<int64_t>(0, offset);
       i < dims[a] && j < dims[b]; ++i, ++j)
    at.push_back(i * dims[b] + j);
  OpenType merged{n.out[0].dtype, {}};
  std::vector<size_t> lead;
  for (uint32_t k = 0; k + 2 < rank; ++k)
    merged.dims.push_back(dims[static_cast<size_t>(perm[k])]), lead.push_back(static_cast<size_t>(perm[k]));
  merged.dims.push_back(dims[a] * dims[b]);
  const Id x = n.reshaped(n.g.transpose(n.in[0], perm), merged, open_dims(n, n.in[0], lead));
  n.done(n.op("Gather", {x, n.g.ints(at)}, {{"axis", int64_t{-1}}}));
}

// ---- indexing ----
void index_axis(OnnxNode& n) { n.done(n.op("Gather", {n.in[0], n.in[1]}, {{"axis", n.integer("axis")}})); }
// Integer tensors that broadcast together as one tensor of positions, [..., count].
Id index_tuple(OnnxNode& n, const std::vector<Id>& indices) {
  bool alike = true;
  for (Id id : indices)
    alike = alike && n.g.type(id).numel() >= 0 && n.g.type(id).dims == n.g.type(indices[0]).dims;
  std::vector<Id> in;
  Id shape = 0;
  if (!alike) {
    Id sum = 0;
    for (Id id : indices) {
      const Id wide = n.g.cast(id, DType::kInt64);
      sum = sum ? n.g.binary("Add", sum, wide) : wide;
    }
    shape = n.g.shape_of(sum);
  }
  for (Id id : indices) {
    Id x = n.g.cast(id, DType::kInt64);
    if (!alike) x = n.g.expand(x, shape);
    in.push_back(n.g.unsqueeze(x, {-1}));
  }
  return in.size() == 1 ? in[0] : n.g.op("Concat", in, DType::kInt64, {{"axis", int64_t{-1}}});
}
void index(OnnxNode& n) { n.done(n.op("GatherND", {n.in[0], index_tuple(n, n.list("indices"))})); }
void gather_nd(OnnxNode& n) { n.done(n.op("GatherND", {n.in[0], n.g.cast(n.in[1], DType::kInt64)})); }
Id scatter_nd(OnnxNode& n, Id x, Id at, Id updates, bool add) {
  if (add && n.g.opset < 16) n.cannot("adding at positions needs opset 16");
  std::vector<G::Attr> attrs;
  if (add) attrs.push_back({"reduction", std::string("add")});
  return n.op("ScatterND", {x, at, n.g.cast(updates, n.out[0].dtype)}, std::move(attrs));
}
void scatter_nd_add(OnnxNode& n) {
  n.done(scatter_nd(n, n.in[0], n.g.cast(n.in[1], DType::kInt64), n.in[2], true));
}
void index_put(OnnxNode& n) {
  const std::vector<Id> indices = n.list("indices");
  const Id at = index_tuple(n, indices), value = n.arg("value");
  std::vector<Id> parts{n.g.slice(n.g.shape_of(at), 0, 0, -1)};
  const auto rank = static_cast<int64_t>(n.g.rank(n.in[0])), count = static_cast<int64_t>(indices.size());
  if (rank > count) parts.push_back(n.g.slice(dims_of(n, n.in[0]), 0, count, rank));
  n.done(scatter_nd(n, n.in[0], at, n.g.expand(n.g.cast(value, n.out[0].dtype), n.g.join(parts)),
                    n.flag("accumulate")));
}
// Index and array agree on all axes but `axis`.
std::pair<Id, Id> along(OnnxNode& n, Id x, Id index, bool broadcast) {
  index = n.g.cast(index, DType::kInt64);
  const auto &a = n.g.type(x).dims, &b = n.g.type(index).dims;
  const auto axis = static_cast<size_t>(n.axis("axis", a.size()));
  bool alike = true;
  for (size_t k = 0; k < a.size(); ++k) alike = alike && (k == axis || (a[k] == b[k] && a[k] >= 0));
  if (alike || !broadcast) return {x, index};
  std::vector<Id> for_x, for_index;
  for (size_t k = 0; k < a.size(); ++k) {
    const auto at = static_cast<int64_t>(k);
    const Id mine = a[k] >= 0 ? n.g.ints({a[k]}) : n.g.dim_of(x, at),
             its = b[k] >= 0 ? n.g.ints({b[k]}) : n.g.dim_of(index, at);
    for_x.push_back(k == axis ? n.g.ints({1}) : its);  // Expand broadcasts both ways
    for_index.push_back(k == axis ? n.g.ints({1}) : mine);
  }
  return {n.g.expand(x, n.g.join(for_x)), n.g.expand(index, n.g.join(for_index))};
}
void take_along_axis(OnnxNode& n) {
  const auto [x, at] = along(n, n.in[0], n.in[1], n.flag("broadcast"));
  n.done(n.op("GatherElements", {x, at}, {{"axis", n.integer("axis")}}));
}
void put_along_axis(OnnxNode& n) {
  const std::string how = n.text("reduce");
  const char* as = how == "assign"                     ? "none"
                   : how == "add"                      ? "add"
                   : how == "mul" || how == "multiply" ? "mul"
                   : how == "amax"                     ? "max"
                   : how == "amin"                     ? "min"
                                                       : nullptr;
  if (!as) n.cannot(cat("ONNX scatters with no reduction '", how, "'"));
  if (as != std::string_view("none") && n.g.opset < (how[0] == 'a' && how[1] == 'm' ? 18 : 16))
    n.cannot("this reduction needs opset 18");
  if (!n.flag("include_self") && how != "assign") n.cannot("a reduction without the old value");
  const auto [x, at] = along(n, n.in[0], n.in[1], n.flag("broadcast"));
  const Id values = n.g.expand(n.g.cast(n.in[2], n.out[0].dtype), n.g.shape_of(at));
  n.done(n.op("ScatterElements", {n.in[0], at, values},
              {{"axis", n.integer("axis")}, {"reduction", std::string(as)}}));
}

// ---- ordering ----
std::vector<Id> top(OnnxNode& n, Id x, Id k, int64_t axis, bool largest) {
  const DType t = n.g.dtype(x),
              w = t == DType::kBool || (is_integral(t) && dtype_size(t) < 4) ? DType::kInt32 : t;
  auto r = n.g.ops("TopK", {n.g.cast(x, w), k}, {w, DType::kInt64},
                   {{"axis", axis}, {"largest", int64_t{largest}}, {"sorted", int64_t{1}}});
  return {n.g.cast(r[0], t), r[1]};
}
Id extent(OnnxNode& n, Id x, int64_t axis) {
  const int64_t d = n.g.type(x).dims[static_cast<size_t>(axis)];
  return d < 0 ? n.g.dim_of(x, axis) : n.g.ints({d});
}
void sort(OnnxNode& n) {
  const int64_t axis = n.axis("axis", n.g.rank(n.in[0]));
  n.result = top(n, n.in[0], extent(n, n.in[0], axis), axis, n.flag("descending"));
}
void topk(OnnxNode& n) { n.result = top(n, n.in[0], n.sizes("k"), n.integer("axis"), n.flag("largest")); }
void kthvalue(OnnxNode& n) {
  const int64_t k = n.integer("k"), axis = n.axis("axis", n.g.rank(n.in[0]));
  for (Id id : top(n, n.in[0], n.g.ints({k}), axis, false)) n.result.push_back(n.g.slice(id, axis, k - 1, k));
}
template <bool kMax>
void arg_extreme(OnnxNode& n) {
  Id x = n.in[0];
  const DType t = n.g.dtype(x);
  if (t == DType::kBool || (is_integral(t) && dtype_size(t) < 4)) x = n.g.cast(x, DType::kInt32);
  n.done(n.g.cast(n.g.op(kMax ? "ArgMax" : "ArgMin", {x}, DType::kInt64,
                         {{"axis", n.integer("axis")}, {"keepdims", int64_t{1}}}),
                  n.out[0].dtype));
}
Id count_true(OnnxNode& n, Id condition, int64_t axis) {
  return n.g.reduce("ReduceSum", n.g.cast(condition, DType::kInt64), {axis}, false);
}
void bucketize(OnnxNode& n) {  // how many bounds lie below
  const DType t = promote(n.g.dtype(n.in[0]), n.g.dtype(n.in[1]));
  const Id x = n.g.unsqueeze(n.g.cast(n.in[1], t), {-1});
  n.done(n.g.cast(
      count_true(n, n.g.op(n.flag("right") ? "LessOrEqual" : "Less", {n.g.cast(n.in[0], t), x}, DType::kBool),
                 -1),
      n.out[0].dtype));
}
void searchsorted(OnnxNode& n) {
  const DType t = promote(n.g.dtype(n.in[0]), n.g.dtype(n.in[1]));
  Id bounds = n.g.cast(n.in[0], t);
  if (n.g.rank(n.in[0]) > 1) bounds = n.g.unsqueeze(bounds, {-2});
  const Id x = n.g.unsqueeze(n.g.cast(n.in[1], t), {-1});
  n.done(
      n.g.cast(count_true(n, n.g.op(n.flag("right") ? "LessOrEqual" : "Less", {bounds, x}, DType::kBool), -1),
               n.out[0].dtype));
}
void bincount(OnnxNode& n) {
  if (n.g.opset < 16) n.cannot("adding at positions needs opset 16");
  const DType t = n.out[0].dtype;
  const Id x = n.g.cast(n.in[0], DType::kInt64), w = n.arg("weights");
  const Id ones = w ? n.g.cast(w, t) : n.g.expand(n.g.number(1, t), dims_of(n, n.in[0]));
  n.done(n.op("ScatterElements", {n.g.filled(0, t, n.sizes("n")), x, ones},
              {{"axis", int64_t{0}}, {"reduction", std::string("add")}}));
}
void repeat_index(OnnxNode& n) {  // position i stands where the running total passes
  const Id ends =
      n.g.op("CumSum", {n.g.cast(n.in[0], DType::kInt64), n.g.number(0, DType::kInt64)}, DType::kInt64);
  const Id at = n.g.unsqueeze(n.g.range(n.sizes("total")), {-1});
  n.done(n.g.cast(count_true(n, n.g.op("LessOrEqual", {ends, at}, DType::kBool), -1), n.out[0].dtype));
}

// ---- running along an axis ----
void cumsum(OnnxNode& n) {
  const DType t = n.out[0].dtype;
  n.done(n.g.op("CumSum",
                {n.g.cast(n.in[0], t), n.g.number(static_cast<double>(n.integer("axis")), DType::kInt64)}, t,
                {{"reverse", n.integer("reverse")}}));
}
// Every prefix of the axis beside the others, [..., n, n]: elements behind it are `neutral`. The work grows
// with the square.
Id prefixes(OnnxNode& n, Id x, int64_t axis, double neutral) {
  const Id size = extent(n, x, axis), row = n.g.range(size);
  const Id mask = n.g.op("LessOrEqual", {n.g.unsqueeze(row, {0}), n.g.unsqueeze(row, {1})}, DType::kBool);
  Ints perm;
  for (int64_t k = 0; k < static_cast<int64_t>(n.g.rank(x)); ++k)
    if (k != axis) perm.push_back(k);
  perm.push_back(axis);
  return n.g.full_where(mask, n.g.unsqueeze(n.g.transpose(x, perm), {-2}), n.g.number(neutral, n.g.dtype(x)));
}
Id axis_back(OnnxNode& n, Id x, int64_t axis, size_t rank) {
  Ints perm;
  for (int64_t k = 0; k < static_cast<int64_t>(rank) - 1; ++k) perm.push_back(k);
  perm.insert(static_cast<uint32_t>(axis), static_cast<int64_t>(rank) - 1);
  return n.g.transpose(x, perm);
}
void cumprod(OnnxNode& n) {
  const int64_t axis = n.axis("axis", n.g.rank(n.in[0]));
  n.done(axis_back(n, n.g.reduce("ReduceProd", prefixes(n, n.in[0], axis, 1), {-1}, false), axis,
                   n.g.rank(n.in[0])));
}
void logcumsumexp(OnnxNode& n) {
  const int64_t axis = n.axis("axis", n.g.rank(n.in[0]));
  n.done(axis_back(n, n.g.reduce("ReduceLogSumExp", prefixes(n, n.in[0], axis, -1e38), {-1}, false), axis,
                   n.g.rank(n.in[0])));
}
template <bool kMax>
void cum_extreme(OnnxNode& n) {
  const size_t rank = n.g.rank(n.in[0]);
  const int64_t axis = n.axis("axis", rank);
  const DType t = n.g.dtype(n.in[0]);
  if (is_integral(t)) n.cannot("a running extreme of integers");
  const Id x = prefixes(n, n.in[0], axis, kMax ? -INFINITY : INFINITY);
  const Id at = n.g.op(kMax ? "ArgMax" : "ArgMin", {x}, DType::kInt64,
                       {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}, {"select_last_index", int64_t{1}}});
  n.result = {axis_back(n, n.g.reduce(kMax ? "ReduceMax" : "ReduceMin", x, {-1}, false), axis, rank),
              n.g.cast(axis_back(n, at, axis, rank), n.out[1].dtype)};
}

// ---- random numbers: drawn by the runtime ----
Id uniform(OnnxNode& n, Id shape, DType t) {
  return n.g.op("RandomUniformLike", {n.g.filled(0, t, shape)}, t, {{"low", 0.0}, {"high", 1.0}});
}
void uniform01(OnnxNode& n) { n.done(uniform(n, n.sizes("shape"), n.out[0].dtype)); }
void normal01(OnnxNode& n) {
  n.done(n.op("RandomNormalLike", {n.g.filled(0, n.out[0].dtype, n.sizes("shape"))}));
}
void keep_mask(OnnxNode& n) {
  n.done(n.g.op("GreaterOrEqual",
                {uniform(n, n.sizes("shape"), DType::kFloat32), n.real_id("p", DType::kFloat32)},
                DType::kBool));
}
void randint(OnnxNode& n) {
  const Id low = n.real_id("low", DType::kFloat64), high = n.real_id("high", DType::kFloat64);
  const Id u = n.g.cast(uniform(n, n.sizes("shape"), DType::kFloat32), DType::kFloat64);
  const Id x = n.g.op("Floor", {n.g.binary("Mul", u, n.g.binary("Sub", high, low))}, DType::kFloat64);
  n.done(n.g.cast(n.g.binary("Add", x, low), n.out[0].dtype));
}
void randperm(OnnxNode& n) {
  const Id size = n.sizes("n");
  n.done(n.g.cast(top(n, uniform(n, size, DType::kFloat32), size, 0, true)[1], n.out[0].dtype));
}

// clang-format off
const OnnxRules table{
    {"full", {full}}, {"fill", {fill}}, {"full_like", {full_like}}, {"zeros_like", {constant_like<0>}},
    {"ones_like", {constant_like<1>}}, {"iota", {iota}}, {"eye_static", {eye}},
    {"linspace_static", {linspace}}, {"again", {pass}}, {"arange_static", {arange}}, {"reshape", {reshape}},
    {"view_as_shape", {reshape}}, {"flatten", {flatten}}, {"squeeze", {squeeze}}, {"unsqueeze", {unsqueeze}},
    {"transpose", {transpose}}, {"swapaxes", {swapaxes}}, {"t", {transposed}}, {"broadcast_to", {broadcast}},
    {"concat", {concat}}, {"concat_same", {concat}}, {"stack", {stack}}, {"split", {split}},
    {"slice", {slice}}, {"strided_slice", {slice}}, {"slice_write", {slice_write}}, {"tile", {tile}},
    {"flip", {flip}}, {"pad_core", {pad}}, {"diagonal", {diagonal}}, {"index_axis", {index_axis}},
    {"index", {index}}, {"gather_nd", {gather_nd}}, {"scatter_nd_add", {scatter_nd_add}},
    {"index_put", {index_put}}, {"take_along_axis", {take_along_axis}},
    {"put_along_axis_core", {put_along_axis}}, {"sort_core", {sort}}, {"topk_core", {topk}},
    {"kthvalue_core", {kthvalue}}, {"argmax_core", {arg_extreme<true>}},
    {"argmin_core", {arg_extreme<false>}}, {"bucketize_core", {bucketize}}, {"searchsorted", {searchsorted}},
    {"bincount_core", {bincount}}, {"repeat_index", {repeat_index}}, {"cumsum_axis", {cumsum}},
    {"cumprod_axis", {cumprod}}, {"logcumsumexp_axis", {logcumsumexp}}, {"cummax_axis", {cum_extreme<true>}},
    {"cummin_axis", {cum_extreme<false>}}, {"uniform01", {uniform01}}, {"normal01", {normal01}},
    {"keep_mask", {keep_mask}}, {"randint_static", {randint}}, {"randperm_static", {randperm}}};
// clang-format on
}  // namespace
}  // namespace yuloh::formats
