// SPDX-License-Identifier: Apache-2.0
// One index per element along an axis (take, put with reductions), positions of non-zero elements, repeated
// positions.
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

void require_index(const Call& c, const Value& v) {
  if (!is_integer(v.dtype()))
    type_error(c.name(), ": indices are not integers, got dtype ", v.dtype(), "; expected int32 or int64.");
}

// ---- one index per element, along an axis ----
Shape along_shape(const Call& c, const Shape& x, const Shape& index) {  // broadcast on all other axes
  if (x.size() != index.size())
    value_error(c.name(), ": ranks differ, got arr of shape ", x, " and indices of shape ", index,
                "; expected equal ranks.");
  const int64_t k = normalize_axis(c.name(), c.integer("axis"), x.size());
  Shape s = index;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    if (i == k || s[i] == x[i]) continue;
    if (c.flag("broadcast")) {
      if (s[i] != 1 && x[i] != 1)
        value_error(c.name(), ": indices do not broadcast, got arr of shape ", x, " and indices of shape ",
                    index, " with axis ", k, ".");
      s[i] = std::max(s[i], x[i]);
    } else if (s[i] > x[i]) {
      value_error(c.name(), ": indices are larger than arr, got shapes ", index, " and ", x, " with axis ", k,
                  "; expected no larger extent on other axes.");
    }
  }
  return s;
}
Ints spread_strides(const HostOperand& x,
                    const Shape& s) {  // x.strides over s, 0 where x has extent 1 and s has more
  Ints r = x.strides;
  for (uint32_t i = 0; i < s.size(); ++i)
    if (x.shape[i] == 1 && s[i] != 1) r[i] = 0;
  return r;
}
void host_take(const HostCall& h) {
  const HostOperand &x = h.in[0], &i = h.in[1], &o = h.out[0];
  const int64_t k =
      o.shape.empty() ? 0 : normalize_axis("take_along_axis", h.call.integer("axis"), o.shape.size());
  const int64_t n = o.numel(), size = static_cast<int64_t>(dtype_size(x.dtype)),
                isize = static_cast<int64_t>(dtype_size(i.dtype));
  Ints xs = spread_strides(x, o.shape);
  const int64_t step = x.shape.empty() ? 0 : x.strides[k], extent = x.shape.empty() ? 1 : x.shape[k];
  if (!xs.empty()) xs[k] = 0;
  Walk<2> w(o.shape, {xs, spread_strides(i, o.shape)});
  for (int64_t j = 0; j < n; ++j, w.next()) {
    const int64_t at =
        checked_index("take_along_axis", load_int(i.as<char>() + w.offset[1] * isize, i.dtype), extent, j);
    std::memcpy(o.as<char>() + j * size, x.as<char>() + (w.offset[0] + at * step) * size,
                static_cast<size_t>(size));
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
  value_error(c.name(), ": unknown reduce, got '", s,
              "'; expected 'assign', 'add', 'multiply', 'mean', 'amax' or 'amin'.");
}
void host_put(const HostCall& h) {
  const HostOperand &i = h.in[1], &v = h.in[2], &o = h.out[0];
  copy_in(o, h.in[0]);
  const Put mode = put_mode(h.call);
  const bool self = h.call.flag("include_self");
  const int64_t k =
      o.shape.empty() ? 0 : normalize_axis("put_along_axis", h.call.integer("axis"), o.shape.size());
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
      const int64_t at =
          w.offset[0] + step * checked_index("put_along_axis",
                                             load_int(i.as<char>() + w.offset[1] * isize, i.dtype), extent,
                                             j);
      const C b = E::get(v.as<typename E::T>()[w.offset[2]]);
      const bool fresh = !self && hits[static_cast<size_t>(at)] == 0;
      if (!hits.empty()) ++hits[static_cast<size_t>(at)];
      const C a = E::get(out[at]);
      C r = b;
      if (!fresh && mode != Put::kAssign)
        r = mode == Put::kMul   ? a * b
            : mode == Put::kMax ? (b > a || b != b ? b : a)
            : mode == Put::kMin ? (b < a || b != b ? b : a)
                                : a + b;
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
    type_error(c.name(), ": dtypes differ, got arr of dtype ", c.type(0).dtype, " and values of dtype ",
               c.type(2).dtype, ".");
  const int64_t k = normalize_axis(c.name(), c.integer("axis"), s.size());
  bool ok = v.size() == s.size();
  for (uint32_t i = 0; ok && i < s.size(); ++i) {
    ok = v[i] == s[i] || v[i] == 1;
    if (static_cast<int64_t>(i) != k && s[i] > c.type(0).shape[i]) ok = false;
  }
  if (!ok)
    value_error(c.name(), ": values do not fit, got arr ", c.type(0).shape, ", indices ", c.type(1).shape,
                " and values ", v, "; expected values that broadcast to ", s, ".");
  return {c.type(0)};
}
Values put_vjp(const Call& c, const Values& g) {
  const Put mode = put_mode(c);
  if ((mode != Put::kAssign && mode != Put::kAdd) || (mode == Put::kAdd && !c.flag("include_self")))
    fail(ErrorKind::kNotImplemented, "put_along_axis: no gradient for reduce='", c.str("reduce"),
         "'; expected 'assign' or 'add'.");
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
     .infer = [](const Call& c) -> Types {
       require_index(c, c["indices"]);
       return {{c.type(0).dtype, along_shape(c, c.type(0).shape, c.type(1).shape)}};
     },
     .host = host_take,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("take_along_axis_grad", {g[0], c["indices"]},
                    {{"shape", to_ints(c.type(0).shape)},
                     {"axis", c.integer("axis")},
                     {"broadcast", c.flag("broadcast")}}),
               Value()};
     },
     .needs = "indices",
     .checks = true},
    {.schema =
         "take_along_axis_grad(Tensor g, Tensor indices, int[] shape, int axis, bool broadcast) -> Tensor",
     .inner = true,
     .doc = "Zeros of `shape` with g added where take_along_axis read.",
     .infer = [](const Call& c) -> Types {
       return {{c.type(0).dtype, shape_arg(c)}};
     },
     .expand = [](const Call& c) -> Values {
       const Shape s = shape_arg(c);
       Shape wide = s;  // arr itself may have been broadcast over extents of 1
       const int64_t k = s.empty() ? 0 : normalize_axis(c.name(), c.integer("axis"), s.size());
       for (int64_t i = 0; i < static_cast<int64_t>(s.size()); ++i)
         if (i != k && s[i] == 1) wide[i] = c.type(0).shape[i];
       const Value z = full(wide, 0, c.type(0).dtype);
       return {
           sum_to(call("put_along_axis_core", {z, c["indices"], c["g"]},
                       {{"axis", c.integer("axis")}, {"reduce", "add"}, {"broadcast", c.flag("broadcast")}}),
                  s)};
     },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("take_along_axis", {g[0], c["indices"]},
                    {{"axis", c.integer("axis")}, {"broadcast", c.flag("broadcast")}}),
               Value()};
     },
     .needs = "indices"},
    {.schema = "put_along_axis_core(Tensor arr, Tensor indices, Tensor values, int axis, str "
               "reduce='assign', bool include_self=True, "
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
     .infer = [](const Call& c) -> Types {
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
    if (r[i] < 0)
      value_error("repeat_interleave: negative repeat, got ", r[i], " at position ", i,
                  "; expected repeats >= 0.");
    for (int64_t k = 0; k < r[i] && at < total; ++k) out[at++] = static_cast<int64_t>(i);
  }
}
const Register positions{
    {.schema = "nonzero_count(Tensor x) -> Tensor",
     .doc = "How many elements are not 0.",
     .infer = [](const Call&) -> Types {
       return {{DType::kInt64, {}}};
     },
     .host = host_nonzero_count,
     .no_grad = true},
    {.schema = "nonzero_fill(Tensor x, int n) -> Tensor",
     .doc = "Positions of the first n non-zero elements, [n, rank].",
     .infer = [](const Call& c) -> Types {
       return {{DType::kInt64, {c.integer("n"), static_cast<int64_t>(c.type(0).shape.size())}}};
     },
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
