// SPDX-License-Identifier: Apache-2.0
// Indexing with integer tensors: reading (index), writing (index_put) and what is made of the two; element-wise picking
// along an axis; positions of non-zero elements.
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
    index_error(c.name(), ": too many indices, got ", index.size(), " for a tensor of shape ", c.type(0).shape, ".");
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

// Element offsets into `x` selected by the index operands, checked and wrapped, in row-major order of their broadcast.
std::vector<int64_t> offsets_of(std::string_view op, const HostOperand* index, uint32_t n, const HostOperand& x, const Shape& s) {
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
      r[j] += checked_index(op, load_int(i.as<char>() + w.offset[0] * size, i.dtype), x.shape[k], j) * x.strides[k];
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
    copy_strided(t.shape, o.as<char>() + static_cast<int64_t>(i) * step * size, dense, x.as<char>() + at[i] * size, t.strides,
                 static_cast<size_t>(size));
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
  const int64_t extra = static_cast<int64_t>(s.size() + t.shape.size()) - static_cast<int64_t>(v.shape.size());
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
        dst[w.offset[0]] = add ? E::put(E::get(dst[w.offset[0]]) + E::get(src[w.offset[1]])) : src[w.offset[1]];
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
    type_error(c.name(), ": dtypes differ, got x of dtype ", c.type(0).dtype, " and value of dtype ", v.dtype(), ".");
  if (!(broadcast_shapes(c.name(), v.shape(), target) == target))
    value_error(c.name(), ": the value does not fit, got shape ", v.shape(), "; expected something that broadcasts to ", target, ".");
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
    value_error(c.name(), ": index is too deep, got shape ", i, " for a tensor of shape ", x, "; expected the last extent <= ", x.size(), ".");
  Shape s(i.begin(), i.end() - 1);
  for (int64_t d = k; d < static_cast<int64_t>(x.size()); ++d) s.push_back(x[d]);
  return {{c.type(0).dtype, s}};
}
Types infer_scatter_nd_add(const Call& c) {
  const Types want = infer_gather_nd(c);
  if (!(c.type(2).shape == want[0].shape))
    value_error(c.name(), ": updates do not fit, got shape ", c.type(2).shape, "; expected ", want[0].shape, ".");
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
     .infer = [](const Call& c) -> Types { return {{c.type(0).dtype, target_shape(c)}}; },
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
       Values r = none_for({c.flag("accumulate") ? g[0] : index_put(g[0], i, full({}, 0, g[0].dtype()), false)}, i);
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
     .infer = [](const Call& c) -> Types { return {{c.type(1).dtype, shape_arg(c)}}; },
     .expand = [](const Call& c) -> Values {
       return {call("scatter_nd_add", {full(shape_arg(c), 0, c.type(1).dtype), c["index"], c["updates"]})};
     }},
    {.schema = "scatter(Tensor x, Tensor index, Tensor updates, bool overwrite=True) -> Tensor",
     .python = YULOH_BOTH("scatter"),
     .doc = "x with rows `index` replaced by updates; overwrite=False clears these rows and adds up repeated ones.",
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
     .infer =
         [](const Call& c) -> Types {
           require_index(c, c["index"]);
           require_rank(c, 1, 1, 1);
           const int64_t k = normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size());
           Shape want = c.type(0).shape;
           want[k] = c.type(1).shape[0];
           if (!(c["value"].shape() == want))
             value_error(c.name(), ": value does not fit, got shape ", c["value"].shape(), "; expected ", want, ".");
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

// ---- one index per element, along an axis ----
Shape along_shape(const Call& c, const Shape& x, const Shape& index) {  // broadcast on all other axes
  if (x.size() != index.size())
    value_error(c.name(), ": ranks differ, got arr of shape ", x, " and indices of shape ", index, "; expected equal ranks.");
  const int64_t k = normalize_axis(c.name(), c.integer("axis"), x.size());
  Shape s = index;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    if (i == k || s[i] == x[i]) continue;
    if (c.flag("broadcast")) {
      if (s[i] != 1 && x[i] != 1)
        value_error(c.name(), ": indices do not broadcast, got arr of shape ", x, " and indices of shape ", index, " with axis ", k, ".");
      s[i] = std::max(s[i], x[i]);
    } else if (s[i] > x[i]) {
      value_error(c.name(), ": indices are larger than arr, got shapes ", index, " and ", x, " with axis ", k,
                  "; expected no larger extent on other axes.");
    }
  }
  return s;
}
Ints spread_strides(const HostOperand& x, const Shape& s) {  // x.strides over s, 0 where x has extent 1 and s has more
  Ints r = x.strides;
  for (uint32_t i = 0; i < s.size(); ++i)
    if (x.shape[i] == 1 && s[i] != 1) r[i] = 0;
  return r;
}
void host_take(const HostCall& h) {
  const HostOperand &x = h.in[0], &i = h.in[1], &o = h.out[0];
  const int64_t k = o.shape.empty() ? 0 : normalize_axis("take_along_axis", h.call.integer("axis"), o.shape.size());
  const int64_t n = o.numel(), size = static_cast<int64_t>(dtype_size(x.dtype)), isize = static_cast<int64_t>(dtype_size(i.dtype));
  Ints xs = spread_strides(x, o.shape);
  const int64_t step = x.shape.empty() ? 0 : x.strides[k], extent = x.shape.empty() ? 1 : x.shape[k];
  if (!xs.empty()) xs[k] = 0;
  Walk<2> w(o.shape, {xs, spread_strides(i, o.shape)});
  for (int64_t j = 0; j < n; ++j, w.next()) {
    const int64_t at = checked_index("take_along_axis", load_int(i.as<char>() + w.offset[1] * isize, i.dtype), extent, j);
    std::memcpy(o.as<char>() + j * size, x.as<char>() + (w.offset[0] + at * step) * size, static_cast<size_t>(size));
  }
}

enum class Put { kAssign, kAdd, kMul, kMean, kMax, kMin };
Put put_mode(const Call& c) {
  const std::string& s = c.str("reduce");
  if (s == "assign") return Put::kAssign;
  if (s == "add") return Put::kAdd;
  if (s == "mul" || s == "multiply") return Put::kMul;
  if (s == "mean") return Put::kMean;
  if (s == "amax") return Put::kMax;
  if (s == "amin") return Put::kMin;
  value_error(c.name(), ": unknown reduce, got '", s, "'; expected 'assign', 'add', 'multiply', 'mean', 'amax' or 'amin'.");
}
void host_put(const HostCall& h) {
  const HostOperand &i = h.in[1], &v = h.in[2], &o = h.out[0];
  copy_in(o, h.in[0]);
  const Put mode = put_mode(h.call);
  const bool self = h.call.flag("include_self");
  const int64_t k = o.shape.empty() ? 0 : normalize_axis("put_along_axis", h.call.integer("axis"), o.shape.size());
  Shape s = i.shape;
  if (h.call.flag("broadcast"))
    for (int64_t d = 0; d < static_cast<int64_t>(s.size()); ++d)
      if (d != k) s[d] = std::max(s[d], o.shape[d]);
  const int64_t n = yuloh::numel(s), isize = static_cast<int64_t>(dtype_size(i.dtype));
  const int64_t step = o.shape.empty() ? 0 : o.strides[k], extent = o.shape.empty() ? 1 : o.shape[k];
  Ints os = o.strides;
  if (!os.empty()) os[k] = 0;
  std::vector<int32_t> hits;
  if (mode == Put::kMean || !self) hits.assign(static_cast<size_t>(o.numel()), 0);
  with_any("put_along_axis", o.dtype, [&](auto e) {
    using E = decltype(e);
    using C = typename E::C;
    auto* out = o.as<typename E::T>();
    Walk<3> w(s, {os, spread_strides(i, s), spread_strides(v, s)});
    for (int64_t j = 0; j < n; ++j, w.next()) {
      const int64_t at = w.offset[0] + step * checked_index("put_along_axis", load_int(i.as<char>() + w.offset[1] * isize, i.dtype), extent, j);
      const C b = E::get(v.as<typename E::T>()[w.offset[2]]);
      const bool fresh = !self && hits[static_cast<size_t>(at)] == 0;
      if (!hits.empty()) ++hits[static_cast<size_t>(at)];
      const C a = E::get(out[at]);
      C r = b;
      if (!fresh && mode != Put::kAssign)
        r = mode == Put::kMul ? a * b : mode == Put::kMax ? (b > a || b != b ? b : a) : mode == Put::kMin ? (b < a || b != b ? b : a) : a + b;
      out[at] = E::put(r);
    }
    if (mode == Put::kMean)
      for (size_t j = 0; j < hits.size(); ++j)
        if (hits[j]) out[j] = E::put(E::get(out[j]) / static_cast<C>(hits[j] + (self ? 1 : 0)));
  });
}
Types infer_put(const Call& c) {
  put_mode(c);
  require_index(c, c["indices"]);
  const Shape s = along_shape(c, c.type(0).shape, c.type(1).shape);
  const Shape& v = c.type(2).shape;
  if (c.type(2).dtype != c.type(0).dtype)
    type_error(c.name(), ": dtypes differ, got arr of dtype ", c.type(0).dtype, " and values of dtype ", c.type(2).dtype, ".");
  const int64_t k = normalize_axis(c.name(), c.integer("axis"), s.size());
  bool ok = v.size() == s.size();
  for (uint32_t i = 0; ok && i < s.size(); ++i) {
    ok = v[i] == s[i] || v[i] == 1;
    if (static_cast<int64_t>(i) != k && s[i] > c.type(0).shape[i]) ok = false;
  }
  if (!ok)
    value_error(c.name(), ": values do not fit, got arr ", c.type(0).shape, ", indices ", c.type(1).shape, " and values ", v,
                "; expected values that broadcast to ", s, ".");
  return {c.type(0)};
}
Values put_vjp(const Call& c, const Values& g) {
  const Put mode = put_mode(c);
  if ((mode != Put::kAssign && mode != Put::kAdd) || (mode == Put::kAdd && !c.flag("include_self")))
    fail(ErrorKind::kNotImplemented, "put_along_axis: no gradient for reduce='", c.str("reduce"), "'; expected 'assign' or 'add'.");
  const Value i = c["indices"];
  const bool b = c.flag("broadcast");
  Value gx = g[0];
  if (mode == Put::kAssign)
    gx = call("put_along_axis_core", {gx, i, full(Shape(static_cast<uint32_t>(gx.rank()), 1), 0, gx.dtype())},
              {{"axis", c.integer("axis")}, {"broadcast", b}});
  const Value gv = call("take_along_axis", {g[0], i}, {{"axis", c.integer("axis")}, {"broadcast", b}});
  return {gx, Value(), sum_to(gv, c.type(2).shape)};
}

const Register along{
    {.schema = "take_along_axis(Tensor arr, Tensor indices, int axis, bool broadcast=True) -> Tensor",
     .python = YULOH_BOTH("take_along_axis"),
     .doc = "out[i, j, ..] = arr[i, indices[i, j, ..], ..] with the index on `axis`.",
     .infer =
         [](const Call& c) -> Types {
           require_index(c, c["indices"]);
           return {{c.type(0).dtype, along_shape(c, c.type(0).shape, c.type(1).shape)}};
         },
     .host = host_take,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("take_along_axis_grad", {g[0], c["indices"]},
                    {{"shape", to_ints(c.type(0).shape)}, {"axis", c.integer("axis")}, {"broadcast", c.flag("broadcast")}}),
               Value()};
     },
     .needs = "indices",
     .checks = true},
    {.schema = "take_along_axis_grad(Tensor g, Tensor indices, int[] shape, int axis, bool broadcast) -> Tensor",
     .doc = "Zeros of `shape` with g added where take_along_axis read.",
     .infer = [](const Call& c) -> Types { return {{c.type(0).dtype, shape_arg(c)}}; },
     .expand = [](const Call& c) -> Values {
       const Shape s = shape_arg(c);
       Shape wide = s;  // arr itself may have been broadcast over extents of 1
       const int64_t k = s.empty() ? 0 : normalize_axis(c.name(), c.integer("axis"), s.size());
       for (int64_t i = 0; i < static_cast<int64_t>(s.size()); ++i)
         if (i != k && s[i] == 1) wide[i] = c.type(0).shape[i];
       const Value z = full(wide, 0, c.type(0).dtype);
       return {sum_to(call("put_along_axis_core", {z, c["indices"], c["g"]},
                           {{"axis", c.integer("axis")}, {"reduce", "add"}, {"broadcast", c.flag("broadcast")}}), s)};
     },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("take_along_axis", {g[0], c["indices"]}, {{"axis", c.integer("axis")}, {"broadcast", c.flag("broadcast")}}), Value()};
     },
     .needs = "indices"},
    {.schema = "put_along_axis_core(Tensor arr, Tensor indices, Tensor values, int axis, str reduce='assign', bool include_self=True, "
               "bool broadcast=True) -> Tensor",
     .doc = "arr with values put where take_along_axis would read; repeated positions are reduced in order.",
     .infer = infer_put,
     .host = host_put,
     .vjp = put_vjp,
     .needs = "indices",
     .checks = true},
    {.schema = "index_sample(Tensor x, Tensor index) -> Tensor",
     .python = YULOH_BOTH("index_sample"),
     .doc = "out[i, j] = x[i, index[i, j]].",
     .infer =
         [](const Call& c) -> Types {
           require_index(c, c["index"]);
           require_rank(c, 0, 2, 2), require_rank(c, 1, 2, 2);
           if (c.type(0).shape[0] != c.type(1).shape[0])
             value_error("index_sample: row counts differ, got ", c.type(0).shape, " and ", c.type(1).shape, ".");
           return {{c.type(0).dtype, c.type(1).shape}};
         },
     .expand = [](const Call& c) -> Values {
       return {call("take_along_axis", {c["x"], c["index"]}, {{"axis", 1}, {"broadcast", false}})};
     }},
};

// ---- data-dependent extents: a count first (Python reads it), then a fill of that size ----
void host_nonzero_count(const HostCall& h) {
  const HostOperand& x = h.in[0];
  const int64_t n = x.numel();
  int64_t count = 0;
  with_any("nonzero", x.dtype, [&](auto e) {
    using E = decltype(e);
    const auto* p = x.as<typename E::T>();
    if (is_row_major(x.shape, x.strides)) {
      for (int64_t i = 0; i < n; ++i) count += E::get(p[i]) != 0;
      return;
    }
    Walk<1> w(x.shape, {x.strides});
    for (int64_t i = 0; i < n; ++i, w.next()) count += E::get(p[w.offset[0]]) != 0;
  });
  *h.out[0].as<int64_t>() = count;
}
void host_nonzero_fill(const HostCall& h) {
  const HostOperand& x = h.in[0];
  const int64_t n = x.numel(), limit = h.call.integer("n");
  int64_t* out = h.out[0].as<int64_t>();
  int64_t row = 0;
  with_any("nonzero", x.dtype, [&](auto e) {
    using E = decltype(e);
    const auto* p = x.as<typename E::T>();
    Walk<1> w(x.shape, {x.strides});
    for (int64_t i = 0; i < n && row < limit; ++i, w.next())
      if (E::get(p[w.offset[0]]) != 0) {
        for (int64_t a : w.at()) *out++ = a;
        ++row;
      }
  });
}
// repeats [3, 0, 2] -> 0 0 0 2 2
void host_repeat_index(const HostCall& h) {
  int64_t* out = h.out[0].as<int64_t>();
  const int64_t total = h.call.integer("total");
  int64_t at = 0;
  const std::vector<int64_t> r = read_ints(h.in[0]);
  for (size_t i = 0; i < r.size(); ++i) {
    if (r[i] < 0) value_error("repeat_interleave: negative repeat, got ", r[i], " at position ", i, "; expected repeats >= 0.");
    for (int64_t k = 0; k < r[i] && at < total; ++k) out[at++] = static_cast<int64_t>(i);
  }
}
const Register positions{
    {.schema = "nonzero_count(Tensor x) -> Tensor",
     .doc = "How many elements are not 0.",
     .infer = [](const Call&) -> Types { return {{DType::kInt64, {}}}; },
     .host = host_nonzero_count,
     .no_grad = true},
    {.schema = "nonzero_fill(Tensor x, int n) -> Tensor",
     .doc = "Positions of the first n non-zero elements, [n, rank].",
     .infer = [](const Call& c) -> Types { return {{DType::kInt64, {c.integer("n"), static_cast<int64_t>(c.type(0).shape.size())}}}; },
     .host = host_nonzero_fill,
     .no_grad = true},
    {.schema = "repeat_index(Tensor repeats, int total) -> Tensor",
     .doc = "Position i repeated repeats[i] times, [total].",
     .infer = [](const Call& c) -> Types {
       require_integral(c, 0);
       return {{DType::kInt64, {c.integer("total")}}};
     },
     .host = host_repeat_index,
     .no_grad = true,
     .checks = true},
};
}  // namespace
}  // namespace yuloh
