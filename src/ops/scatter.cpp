// SPDX-License-Identifier: Apache-2.0
// Indexing with integer tensors: reading (index), writing (index_put) and what is made of the two.
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

void require_index(const Call& c, const Value& v) {
  if (!is_integer(v.dtype()))
    type_error(c.name(), ": indices are not integers, got dtype ", v.dtype(), "; expected int32 or int64.");
}

// ---- index tensors over the leading axes ----
Shape index_shape(const Call& c, const Values& index) {
  if (index.empty()) value_error(c.name(), ": no index tensors were given; expected at least one.");
  if (index.size() > c.type(0).shape.size())
    index_error(c.name(), ": too many indices, got ", index.size(), " for a tensor of shape ",
                c.type(0).shape, ".");
  Shape s = index[0].shape();
  for (const Value& v : index) require_index(c, v), s = broadcast_shapes(c.name(), s, v.shape());
  return s;
}
Shape target_shape(const Call& c) {
  const Values index = c.list("indices");
  Shape s = index_shape(c, index);
  for (uint32_t i = index.size(); i < c.type(0).shape.size(); ++i) s.push_back(c.type(0).shape[i]);
  return s;
}

// Element offsets into `x` selected by the index operands, checked and wrapped, in row-major order of their
// broadcast.
std::vector<int64_t> offsets_of(std::string_view op, const HostOperand* index, uint32_t n,
                                const HostOperand& x, const Shape& s) {
  const int64_t count = yuloh::numel(s);
  std::vector<int64_t> r(static_cast<size_t>(count), 0);
  for (uint32_t k = 0; k < n; ++k) {
    const HostOperand& i = index[k];
    Ints strides(s.size(), 0);
    for (uint32_t d = 0; d < i.shape.size(); ++d)
      if (i.shape[d] != 1) strides[d + s.size() - i.shape.size()] = i.strides[d];
    Walk<1> w(s, {strides});
    const int64_t size = static_cast<int64_t>(dtype_size(i.dtype));
    for (int64_t j = 0; j < count; ++j, w.next())
      r[j] += checked_index(op, load_int(i.as<char>() + w.offset[0] * size, i.dtype), x.shape[k], j) *
              x.strides[k];
  }
  return r;
}
struct Tail {  // the axes after the indexed ones
  Shape shape;
  Ints strides;
  Tail(const Shape& s, const Ints& st, uint32_t from) {
    for (uint32_t i = from; i < s.size(); ++i) shape.push_back(s[i]), strides.push_back(st[i]);
  }
};

void host_index(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const uint32_t n = static_cast<uint32_t>(h.in.size()) - 1;
  Shape s;
  for (uint32_t i = 0; i + (x.shape.size() - n) < o.shape.size(); ++i) s.push_back(o.shape[i]);
  const std::vector<int64_t> at = offsets_of("indexing", &h.in[1], n, x, s);
  const Tail t(x.shape, x.strides, n);
  const int64_t size = static_cast<int64_t>(dtype_size(x.dtype)), step = yuloh::numel(t.shape);
  if (step == 0) return;
  const Ints dense = row_major_strides(t.shape);
  for (size_t i = 0; i < at.size(); ++i)
    copy_strided(t.shape, o.as<char>() + static_cast<int64_t>(i) * step * size, dense,
                 x.as<char>() + at[i] * size, t.strides, static_cast<size_t>(size));
}

void host_index_put(const HostCall& h) {
  const HostOperand &o = h.out[0], &v = h.in.back();
  copy_in(o, h.in[0]);
  const uint32_t n = static_cast<uint32_t>(h.in.size()) - 2;
  Shape s = h.in[1].shape;
  for (uint32_t k = 1; k < n; ++k) s = broadcast_shapes("index_put", s, h.in[1 + k].shape);
  const std::vector<int64_t> at = offsets_of("index_put", &h.in[1], n, o, s);
  const Tail t(o.shape, o.strides, n);
  const int64_t step = yuloh::numel(t.shape);
  if (step == 0) return;
  Ints vi, vt;  // strides of the value over (index axes, tail), 0 where it is broadcast
  const int64_t extra =
      static_cast<int64_t>(s.size() + t.shape.size()) - static_cast<int64_t>(v.shape.size());
  for (int64_t d = 0; d < static_cast<int64_t>(s.size() + t.shape.size()); ++d) {
    const int64_t st = d < extra || v.shape[d - extra] == 1 ? 0 : v.strides[d - extra];
    (d < static_cast<int64_t>(s.size()) ? vi : vt).push_back(st);
  }
  const bool add = h.call.flag("accumulate");
  with_any("index_put", o.dtype, [&](auto e) {
    using E = decltype(e);
    Walk<1> wi(s, {vi});
    for (size_t i = 0; i < at.size(); ++i, wi.next()) {
      auto* dst = o.as<typename E::T>() + at[i];
      const auto* src = v.as<typename E::T>() + wi.offset[0];
      Walk<2> w(t.shape, {t.strides, vt});
      for (int64_t j = 0; j < step; ++j, w.next())
        dst[w.offset[0]] =
            add ? E::put(E::get(dst[w.offset[0]]) + E::get(src[w.offset[1]])) : src[w.offset[1]];
    }
  });
}
Values with_indices(const Value& first, const Values& index) {
  Values in{first};
  for (const Value& v : index) in.push_back(v);
  return in;
}
Value index(const Value& x, const Values& i) { return call("index", with_indices(x, i)); }
Value index_put(const Value& x, const Values& i, const Value& v, bool accumulate) {
  Values in = with_indices(x, i);
  in.push_back(v);
  return call("index_put", in, {{"accumulate", accumulate}});
}
Values none_for(Values g, const Values& index) {  // gradients of (x, indices...)
  for (uint32_t i = 0; i < index.size(); ++i) g.push_back(Value());
  return g;
}

Types infer_index_put(const Call& c) {
  const Shape target = target_shape(c);
  const Value v = c["value"];
  if (v.dtype() != c.type(0).dtype)
    type_error(c.name(), ": dtypes differ, got x of dtype ", c.type(0).dtype, " and value of dtype ",
               v.dtype(), ".");
  if (!(broadcast_shapes(c.name(), v.shape(), target) == target))
    value_error(c.name(), ": the value does not fit, got shape ", v.shape(),
                "; expected something that broadcasts to ", target, ".");
  return {c.type(0)};
}

Values last_axis_indices(const Value& index) {  // [..., k] -> k tensors [...]
  const int64_t r = index.rank() - 1;
  Shape s(index.shape().begin(), index.shape().begin() + r);
  Values out;
  for (int64_t k = 0; k < index.shape()[r]; ++k) out.push_back(reshape(narrow(index, r, k, 1), s));
  return out;
}
Types infer_gather_nd(const Call& c) {
  require_index(c, c["index"]);
  require_rank(c, 1, 1);
  const Shape &x = c.type(0).shape, &i = c.type(1).shape;
  const int64_t k = i.back();
  if (k > static_cast<int64_t>(x.size()))
    value_error(c.name(), ": index is too deep, got shape ", i, " for a tensor of shape ", x,
                "; expected the last extent <= ", x.size(), ".");
  Shape s(i.begin(), i.end() - 1);
  for (int64_t d = k; d < static_cast<int64_t>(x.size()); ++d) s.push_back(x[d]);
  return {{c.type(0).dtype, s}};
}
Types infer_scatter_nd_add(const Call& c) {
  const Types want = infer_gather_nd(c);
  if (!(c.type(2).shape == want[0].shape))
    value_error(c.name(), ": updates do not fit, got shape ", c.type(2).shape, "; expected ", want[0].shape,
                ".");
  return {c.type(0)};
}
Types infer_scatter(const Call& c) {
  require_index(c, c["index"]);
  require_rank(c, 0, 1);
  const Shape &x = c.type(0).shape, &i = c.type(1).shape, &u = c.type(2).shape;
  if (i.size() > 2 || (i.size() == 2 && i[1] != 1))
    value_error("scatter: index is not a list, got shape ", i, "; expected [n], [n, 1] or [].");
  Shape want = x;
  if (i.empty()) want.erase(0);
  else want[0] = i[0];
  if (!(u == want)) value_error("scatter: updates do not fit, got shape ", u, "; expected ", want, ".");
  return {c.type(0)};
}

const Register indexing{
    {.schema = "index(Tensor x, Tensor[] indices) -> Tensor",
     .doc = "x[i0, i1, ...] with integer tensors that broadcast together, over the leading axes.",
     .infer = [](const Call& c) -> Types {
       return {{c.type(0).dtype, target_shape(c)}};
     },
     .host = host_index,
     .vjp = [](const Call& c, const Values& g) -> Values {
       const Values i = c.list("indices");
       return none_for({index_put(zeros_like(c["x"]), i, g[0], true)}, i);
     },
     .needs = "indices",
     .checks = true},
    {.schema = "index_put(Tensor x, Tensor[] indices, Tensor value, bool accumulate=False) -> Tensor",
     .python = YULOH_BOTH("index_put"),
     .doc = "x with x[i0, i1, ...] = value (or += with accumulate); of repeated positions the last wins.",
     .infer = infer_index_put,
     .host = host_index_put,
     .vjp = [](const Call& c, const Values& g) -> Values {
       const Values i = c.list("indices");
       const Value v = c["value"];
       Values r =
           none_for({c.flag("accumulate") ? g[0] : index_put(g[0], i, full({}, 0, g[0].dtype()), false)}, i);
       r.push_back(sum_to(index(g[0], i), v.shape()));
       return r;
     },
     .needs = "indices",
     .checks = true,
     .inplace_variant = true},
    {.schema = "gather_nd(Tensor x, Tensor index) -> Tensor",
     .python = YULOH_BOTH("gather_nd"),
     .doc = "x at the positions in the last axis of index.",
     .infer = infer_gather_nd,
     .expand = [](const Call& c) -> Values {
       const Values i = last_axis_indices(c["index"]);
       return {i.empty() ? broadcast_to(c["x"], infer_gather_nd(c)[0].shape) : index(c["x"], i)};
     }},
    {.schema = "scatter_nd_add(Tensor x, Tensor index, Tensor updates) -> Tensor",
     .python = YULOH_BOTH("scatter_nd_add"),
     .doc = "x with updates added at the positions in the last axis of index.",
     .infer = infer_scatter_nd_add,
     .expand = [](const Call& c) -> Values {
       const Values i = last_axis_indices(c["index"]);
       if (!i.empty()) return {index_put(c["x"], i, c["updates"], true)};
       return {c["x"] + sum_to(c["updates"], c.type(0).shape)};
     }},
    {.schema = "scatter_nd(Tensor index, Tensor updates, int[] shape) -> Tensor",
     .python = "paddle.scatter_nd",
     .doc = "Zeros of `shape` with updates added at the positions in the last axis of index.",
     .infer = [](const Call& c) -> Types {
       return {{c.type(1).dtype, shape_arg(c)}};
     },
     .expand = [](const Call& c) -> Values {
       return {call("scatter_nd_add", {full(shape_arg(c), 0, c.type(1).dtype), c["index"], c["updates"]})};
     }},
    {.schema = "scatter(Tensor x, Tensor index, Tensor updates, bool overwrite=True) -> Tensor",
     .python = YULOH_BOTH("scatter"),
     .doc = "x with rows `index` replaced by updates; overwrite=False clears these rows and adds up repeated "
            "ones.",
     .infer = infer_scatter,
     .expand = [](const Call& c) -> Values {
       Value x = c["x"], i = c["index"];
       if (i.rank() == 2) i = reshape(i, {i.shape()[0]});
       if (c.flag("overwrite")) return {index_put(x, {i}, c["updates"], false)};
       x = index_put(x, {i}, full({}, 0, x.dtype()), false);
       return {index_put(x, {i}, c["updates"], true)};
     },
     .inplace_variant = true},
    {.schema = "index_add(Tensor x, Tensor index, int axis, Tensor value, float alpha=1.0) -> Tensor",
     .python = YULOH_BOTH("index_add"),
     .doc = "x with the slices of alpha * value added along axis at the positions index.",
     .infer = [](const Call& c) -> Types {
       require_index(c, c["index"]);
       require_rank(c, 1, 1, 1);
       const int64_t k = normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size());
       Shape want = c.type(0).shape;
       want[k] = c.type(1).shape[0];
       if (!(c["value"].shape() == want))
         value_error(c.name(), ": value does not fit, got shape ", c["value"].shape(), "; expected ", want,
                     ".");
       return {c.type(0)};
     },
     .expand = [](const Call& c) -> Values {
       const int64_t k = normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size());
       Ints p;
       for (int64_t i = 0; i < c["x"].rank(); ++i) p.push_back(i);
       std::swap(p[0], p[k]);
       const Value v = c["value"] * c.real("alpha");
       if (k == 0) return {index_put(c["x"], {c["index"]}, v, true)};
       return {transpose(index_put(transpose(c["x"], p), {c["index"]}, transpose(v, p), true), p)};
     },
     .inplace_variant = true},
};

}  // namespace
}  // namespace yuloh
