// SPDX-License-Identifier: Apache-2.0
// Order: sort, top-k, k-th value, mode, arg-extremes. NaN counts as larger than every number (NumPy's order);
// equal values keep their order; argmax and argmin point at the first NaN if there is one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

int64_t axis_of(const Call& c) { return normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size()); }

// One lane at a time: f(values, order) leaves the wanted positions first in `order`, ascending or descending.
template <class F>
void ordered_lanes(const HostCall& h, F&& f) {
  const HostOperand &x = h.in[0], &o = h.out[0], &p = h.out[1];
  const int64_t k = axis_of(h.call);
  const Lanes a(x, k), b(o, k);
  with_any(h.call.name(), x.dtype, [&](auto e) {
    using E = decltype(e);
    parallel_ranges(a.count, std::max<int64_t>(1, 4096 / std::max<int64_t>(a.length, 1)),
                    [&](int64_t from, int64_t to) {
                      std::vector<typename E::C> v(static_cast<size_t>(a.length));
                      std::vector<int64_t> order(v.size());
                      for (int64_t l = from; l < to; ++l) {
                        const auto* src = x.as<typename E::T>() + a.start(l);
                        for (int64_t i = 0; i < a.length; ++i) v[i] = E::get(src[i * a.stride]);
                        std::iota(order.begin(), order.end(), 0);
                        f(v, order);
                        const int64_t start = b.start(l);
                        for (int64_t i = 0; i < b.length; ++i) {
                          o.as<typename E::T>()[start + i * b.stride] = src[order[i] * a.stride];
                          p.as<int64_t>()[start + i * b.stride] = order[i];
                        }
                      }
                    });
  });
}
template <class C>
void sort_positions(const std::vector<C>& v, std::vector<int64_t>& order, bool descending, size_t first) {
  auto by = [&](int64_t i, int64_t j) {
    if (descending ? less(v[j], v[i]) : less(v[i], v[j])) return true;
    return !(descending ? less(v[i], v[j]) : less(v[j], v[i])) && i < j;
  };
  if (first < order.size())
    std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(first), order.end(), by);
  else std::sort(order.begin(), order.end(), by);
}
void host_sort(const HostCall& h) {
  const bool down = h.call.flag("descending");
  ordered_lanes(h, [&](const auto& v, auto& order) { sort_positions(v, order, down, order.size()); });
}
void host_topk(const HostCall& h) {
  const bool largest = h.call.flag("largest");
  const size_t k = static_cast<size_t>(h.call.integer("k"));
  ordered_lanes(h, [&](const auto& v, auto& order) { sort_positions(v, order, largest, k); });
}
void host_kthvalue(const HostCall& h) {
  const int64_t k = h.call.integer("k");
  ordered_lanes(h, [&](const auto& v, auto& order) {
    sort_positions(v, order, false, static_cast<size_t>(k));
    order[0] = order[static_cast<size_t>(k - 1)];
  });
}
// The most frequent value (the smallest of several), at its last position.
void host_mode(const HostCall& h) {
  ordered_lanes(h, [&](const auto& v, auto& order) {
    sort_positions(v, order, false, order.size());
    size_t best = 0, best_count = 0;
    for (size_t i = 0; i < order.size();) {
      size_t j = i + 1;
      while (j < order.size() && !less(v[order[i]], v[order[j]])) ++j;
      if (j - i > best_count) best = j - 1, best_count = j - i;
      i = j;
    }
    if (!order.empty()) order[0] = order[best];
  });
}

template <bool Max>
void host_arg(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const int64_t k = axis_of(h.call), osize = static_cast<int64_t>(dtype_size(o.dtype));
  const Lanes a(x, k);
  with_any(h.call.name(), x.dtype, [&](auto e) {
    using E = decltype(e);
    for (int64_t l = 0; l < a.count; ++l) {
      const auto* src = x.as<typename E::T>() + a.start(l);
      auto best = E::get(src[0]);
      int64_t where = 0;
      for (int64_t i = 1; i < a.length && !is_nan(best); ++i) {
        const auto v = E::get(src[i * a.stride]);
        if (is_nan(v) || (Max ? v > best : v < best)) best = v, where = i;
      }
      store_int(o.as<char>() + l * osize, o.dtype, where);
    }
  });
}

Types values_and_indices(const Call& c, Shape s) { return {{c.type(0).dtype, s}, {DType::kInt64, s}}; }
Types infer_sort(const Call& c) { return axis_of(c), values_and_indices(c, c.type(0).shape); }
int64_t extent(const Call& c) { return c.type(0).shape.empty() ? 1 : c.type(0).shape[axis_of(c)]; }
Types infer_topk(const Call& c) {
  const int64_t k = c.integer("k"), n = extent(c);
  if (k < 0 || k > n)
    value_error(c.name(), ": k is too large, got ", k, " for axis ", c.integer("axis"), " of extent ", n,
                "; expected 0 <= k <= ", n, ".");
  Shape s = c.type(0).shape;
  if (!s.empty()) s[axis_of(c)] = k;
  return values_and_indices(c, s);
}
Types infer_one(const Call& c) {  // one element is left along the axis (kept as 1)
  const int64_t n = extent(c);
  if (n == 0)
    value_error(c.name(), ": axis ", c.integer("axis"), " is empty, got shape ", c.type(0).shape,
                "; expected at least one element.");
  if (c.integer("k") < 1 || c.integer("k") > n)
    value_error(c.name(), ": k out of range, got ", c.integer("k"), "; expected 1 <= k <= ", n, ".");
  Shape s = c.type(0).shape;
  if (!s.empty()) s[axis_of(c)] = 1;
  return values_and_indices(c, s);
}
Types infer_mode(const Call& c) {
  if (extent(c) == 0)
    value_error("mode: axis ", c.integer("axis"), " is empty, got shape ", c.type(0).shape, ".");
  Shape s = c.type(0).shape;
  if (!s.empty()) s[axis_of(c)] = 1;
  return values_and_indices(c, s);
}
Types infer_arg(const Call& c) {
  if (extent(c) == 0)
    value_error(c.name(), ": axis ", c.integer("axis"), " is empty and has no extreme, got shape ",
                c.type(0).shape, "; expected at least one element along it.");
  Shape s = c.type(0).shape;
  if (!s.empty()) s[axis_of(c)] = 1;
  return {{c.dtype("dtype"), s}};
}
Values picked_vjp(const Call& c, const Values& g) {
  if (!g[0]) return {Value()};
  return {call("take_along_axis_grad", {g[0], c.out(1)},
               {{"shape", to_ints(c.type(0).shape)}, {"axis", axis_of(c)}, {"broadcast", false}})};
}

const Register cores{
    {.schema = "sort_core(Tensor x, int axis=-1, bool descending=False) -> Tensor, Tensor",
     .doc = "Sorted values and their positions; stable.",
     .infer = infer_sort,
     .host = host_sort,
     .vjp = picked_vjp,
     .needs = "out1"},
    {.schema = "topk_core(Tensor x, int k, int axis=-1, bool largest=True) -> Tensor, Tensor",
     .doc = "The k largest (smallest) values in order and their positions.",
     .infer = infer_topk,
     .host = host_topk,
     .vjp = picked_vjp,
     .needs = "out1"},
    {.schema = "kthvalue_core(Tensor x, int k, int axis=-1) -> Tensor, Tensor",
     .doc = "The k-th smallest value (k from 1) and its position; the axis is kept as 1.",
     .infer = infer_one,
     .host = host_kthvalue,
     .vjp = picked_vjp,
     .needs = "out1"},
    {.schema = "mode_core(Tensor x, int axis=-1) -> Tensor, Tensor",
     .doc = "The most frequent value and its last position; the axis is kept as 1.",
     .infer = infer_mode,
     .host = host_mode,
     .vjp = picked_vjp,
     .needs = "out1"},
    {.schema = "argmax_core(Tensor x, int axis, dtype dtype) -> Tensor",
     .doc = "Position of the first largest value; the axis is kept as 1.",
     .infer = infer_arg,
     .host = host_arg<true>,
     .no_grad = true},
    {.schema = "argmin_core(Tensor x, int axis, dtype dtype) -> Tensor",
     .doc = "Position of the first smallest value; the axis is kept as 1.",
     .infer = infer_arg,
     .host = host_arg<false>,
     .no_grad = true},
};

// ---- public forms ----
Values squeeze_all(const Call& c, Values v, const char* keep) {
  if (!c.flag(keep))
    for (Value& x : v) {
      Shape s = x.shape();
      if (!s.empty()) s.erase(static_cast<uint32_t>(axis_of(c)));
      x = reshape(x, s);
    }
  return v;
}
Types squeezed(const Call& c, Types t) {
  if (!c.flag("keepdim"))
    for (TensorType& x : t)
      if (!x.shape.empty()) x.shape.erase(static_cast<uint32_t>(axis_of(c)));
  return t;
}
template <const char* const& Op>
Values arg_body(const Call& c) {
  const bool flat = !c.has("axis");
  const Value x = flat ? reshape(c["x"], {numel(c.type(0).shape)}) : c["x"];
  const Value y = call(Op, {x}, {{"axis", flat ? 0 : c.integer("axis")}, {"dtype", c.dtype("dtype")}});
  return {reshape(y, c.op.infer(c)[0].shape)};
}
Types infer_public_arg(const Call& c) {
  const DType t = c.dtype("dtype");
  if (t != DType::kInt32 && t != DType::kInt64)
    type_error(c.name(), ": dtype of the result, got ", t, "; expected int32 or int64.");
  Shape s = c.type(0).shape;
  if (numel(s) == 0 &&
      (!c.has("axis") || s.empty() || s[normalize_axis(c.name(), c.integer("axis"), s.size())] == 0))
    value_error(c.name(), ": ", c.has("axis") ? cat("axis ", c.integer("axis")) : std::string("the tensor"),
                " is empty and has no extreme, got shape ", s, "; expected at least one element.");
  if (!c.has("axis")) return {{t, c.flag("keepdim") ? Shape(s.size(), 1) : Shape()}};
  const int64_t k = normalize_axis(c.name(), c.integer("axis"), s.size());
  if (s.empty()) return {{t, s}};
  if (c.flag("keepdim")) s[k] = 1;
  else s.erase(static_cast<uint32_t>(k));
  return {{t, s}};
}
const char* const kArgMax = "argmax_core";
const char* const kArgMin = "argmin_core";

const Register forms{
    {.schema = "argmax(Tensor x, int? axis=None, bool keepdim=False, dtype dtype=int64) -> Tensor",
     .python = YULOH_BOTH("argmax"),
     .doc = "Position of the first largest value along axis, in the flattened tensor when None; the first "
            "NaN wins.",
     .infer = infer_public_arg,
     .expand = arg_body<kArgMax>,
     .no_grad = true},
    {.schema = "argmin(Tensor x, int? axis=None, bool keepdim=False, dtype dtype=int64) -> Tensor",
     .python = YULOH_BOTH("argmin"),
     .doc = "Position of the first smallest value along axis, in the flattened tensor when None; the first "
            "NaN wins.",
     .infer = infer_public_arg,
     .expand = arg_body<kArgMin>,
     .no_grad = true},
    {.schema = "sort(Tensor x, int axis=-1, bool descending=False, bool stable=False) -> Tensor",
     .python = YULOH_BOTH("sort"),
     .doc = "Sorted along axis, NaN as the largest; always stable.",
     .infer = [](const Call& c) -> Types { return axis_of(c), Types{c.type(0)}; },
     .expand = [](const Call& c) -> Values {
       return {
           call("sort_core", {c["x"]}, {{"axis", c.integer("axis")}, {"descending", c.flag("descending")}})};
     }},
    {.schema = "argsort(Tensor x, int axis=-1, bool descending=False, bool stable=False) -> Tensor",
     .python = YULOH_BOTH("argsort"),
     .doc = "Positions that sort x along axis; always stable.",
     .infer = [](const Call& c) -> Types {
       return axis_of(c), Types{{DType::kInt64, c.type(0).shape}};
     },
     .expand = [](const Call& c) -> Values {
       return {call_all("sort_core", {c["x"]},
                        {{"axis", c.integer("axis")}, {"descending", c.flag("descending")}})[1]};
     },
     .no_grad = true},
    {.schema = "topk(Tensor x, int k, int? axis=None, bool largest=True, bool sorted=True) -> Tensor, Tensor",
     .python = YULOH_BOTH("topk"),
     .doc = "The k largest (smallest) values along axis (the last when None), in order, and their positions.",
     .infer = [](const Call& c) -> Types {
       const int64_t r = c.type(0).shape.size(), k = c.integer("k");
       const int64_t a = normalize_axis(c.name(), c.has("axis") ? c.integer("axis") : -1, r);
       Shape s = c.type(0).shape;
       const int64_t n = s.empty() ? 1 : s[a];
       if (k < 1 || k > n)
         value_error("topk: k out of range, got ", k, " for axis ", a, " of extent ", n,
                     "; expected 1 <= k <= ", n, ".");
       if (!s.empty()) s[a] = k;
       return values_and_indices(c, s);
     },
     .expand =
         [](const Call& c) {
           return call_all("topk_core", {c["x"]},
                           {{"k", c.integer("k")},
                            {"axis", c.has("axis") ? c.integer("axis") : -1},
                            {"largest", c.flag("largest")}});
         }},
    {.schema = "kthvalue(Tensor x, int k, int axis=-1, bool keepdim=False) -> Tensor, Tensor",
     .python = YULOH_BOTH("kthvalue"),
     .doc = "The k-th smallest value along axis (k from 1) and its position.",
     .infer = [](const Call& c) { return squeezed(c, infer_one(c)); },
     .expand =
         [](const Call& c) {
           return squeeze_all(
               c, call_all("kthvalue_core", {c["x"]}, {{"k", c.integer("k")}, {"axis", c.integer("axis")}}),
               "keepdim");
         }},
    {.schema = "mode(Tensor x, int axis=-1, bool keepdim=False) -> Tensor, Tensor",
     .python = YULOH_BOTH("mode"),
     .doc = "The most frequent value along axis (the smallest of several) and its last position.",
     .infer = [](const Call& c) { return squeezed(c, infer_mode(c)); },
     .expand =
         [](const Call& c) {
           return squeeze_all(c, call_all("mode_core", {c["x"]}, {{"axis", c.integer("axis")}}), "keepdim");
         }},
};

}  // namespace
}  // namespace yuloh
