// SPDX-License-Identifier: Apache-2.0
// Order: sort, top-k, k-th value, mode, arg-extremes, search, unique values, histograms. NaN counts as larger than every
// number (NumPy's order); equal values keep their order; argmax and argmin point at the first NaN if there is one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

int64_t axis_of(const Call& c) { return normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size()); }

template <class C>
bool is_nan(C v) {
  return v != v;
}
template <class C>
bool less(C a, C b) {  // NaN last
  return a < b || (is_nan(b) && !is_nan(a));
}

// One lane at a time: f(values, order) leaves the wanted positions first in `order`, ascending or descending.
template <class F>
void ordered_lanes(const HostCall& h, F&& f) {
  const HostOperand &x = h.in[0], &o = h.out[0], &p = h.out[1];
  const int64_t k = axis_of(h.call);
  const Lanes a(x, k), b(o, k);
  with_any(h.call.name(), x.dtype, [&](auto e) {
    using E = decltype(e);
    parallel_ranges(a.count, std::max<int64_t>(1, 4096 / std::max<int64_t>(a.length, 1)), [&](int64_t from, int64_t to) {
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
  if (first < order.size()) std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(first), order.end(), by);
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
  if (k < 0 || k > n) value_error(c.name(), ": k is too large, got ", k, " for axis ", c.integer("axis"), " of extent ", n, "; expected 0 <= k <= ", n, ".");
  Shape s = c.type(0).shape;
  if (!s.empty()) s[axis_of(c)] = k;
  return values_and_indices(c, s);
}
Types infer_one(const Call& c) {  // one element is left along the axis (kept as 1)
  const int64_t n = extent(c);
  if (n == 0) value_error(c.name(), ": axis ", c.integer("axis"), " is empty, got shape ", c.type(0).shape, "; expected at least one element.");
  if (c.integer("k") < 1 || c.integer("k") > n)
    value_error(c.name(), ": k out of range, got ", c.integer("k"), "; expected 1 <= k <= ", n, ".");
  Shape s = c.type(0).shape;
  if (!s.empty()) s[axis_of(c)] = 1;
  return values_and_indices(c, s);
}
Types infer_mode(const Call& c) {
  if (extent(c) == 0) value_error("mode: axis ", c.integer("axis"), " is empty, got shape ", c.type(0).shape, ".");
  Shape s = c.type(0).shape;
  if (!s.empty()) s[axis_of(c)] = 1;
  return values_and_indices(c, s);
}
Types infer_arg(const Call& c) {
  if (extent(c) == 0)
    value_error(c.name(), ": axis ", c.integer("axis"), " is empty and has no extreme, got shape ", c.type(0).shape,
                "; expected at least one element along it.");
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
  if (t != DType::kInt32 && t != DType::kInt64) type_error(c.name(), ": dtype of the result, got ", t, "; expected int32 or int64.");
  Shape s = c.type(0).shape;
  if (numel(s) == 0 && (!c.has("axis") || s.empty() || s[normalize_axis(c.name(), c.integer("axis"), s.size())] == 0))
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
     .doc = "Position of the first largest value along axis, in the flattened tensor when None; the first NaN wins.",
     .infer = infer_public_arg,
     .expand = arg_body<kArgMax>,
     .no_grad = true},
    {.schema = "argmin(Tensor x, int? axis=None, bool keepdim=False, dtype dtype=int64) -> Tensor",
     .python = YULOH_BOTH("argmin"),
     .doc = "Position of the first smallest value along axis, in the flattened tensor when None; the first NaN wins.",
     .infer = infer_public_arg,
     .expand = arg_body<kArgMin>,
     .no_grad = true},
    {.schema = "sort(Tensor x, int axis=-1, bool descending=False, bool stable=False) -> Tensor",
     .python = YULOH_BOTH("sort"),
     .doc = "Sorted along axis, NaN as the largest; always stable.",
     .infer = [](const Call& c) -> Types { return axis_of(c), Types{c.type(0)}; },
     .expand = [](const Call& c) -> Values {
       return {call("sort_core", {c["x"]}, {{"axis", c.integer("axis")}, {"descending", c.flag("descending")}})};
     }},
    {.schema = "argsort(Tensor x, int axis=-1, bool descending=False, bool stable=False) -> Tensor",
     .python = YULOH_BOTH("argsort"),
     .doc = "Positions that sort x along axis; always stable.",
     .infer = [](const Call& c) -> Types { return axis_of(c), Types{{DType::kInt64, c.type(0).shape}}; },
     .expand = [](const Call& c) -> Values {
       return {call_all("sort_core", {c["x"]}, {{"axis", c.integer("axis")}, {"descending", c.flag("descending")}})[1]};
     },
     .no_grad = true},
    {.schema = "topk(Tensor x, int k, int? axis=None, bool largest=True, bool sorted=True) -> Tensor, Tensor",
     .python = YULOH_BOTH("topk"),
     .doc = "The k largest (smallest) values along axis (the last when None), in order, and their positions.",
     .infer =
         [](const Call& c) -> Types {
           const int64_t r = c.type(0).shape.size(), k = c.integer("k");
           const int64_t a = normalize_axis(c.name(), c.has("axis") ? c.integer("axis") : -1, r);
           Shape s = c.type(0).shape;
           const int64_t n = s.empty() ? 1 : s[a];
           if (k < 1 || k > n) value_error("topk: k out of range, got ", k, " for axis ", a, " of extent ", n, "; expected 1 <= k <= ", n, ".");
           if (!s.empty()) s[a] = k;
           return values_and_indices(c, s);
         },
     .expand = [](const Call& c) {
       return call_all("topk_core", {c["x"]}, {{"k", c.integer("k")}, {"axis", c.has("axis") ? c.integer("axis") : -1}, {"largest", c.flag("largest")}});
     }},
    {.schema = "kthvalue(Tensor x, int k, int axis=-1, bool keepdim=False) -> Tensor, Tensor",
     .python = YULOH_BOTH("kthvalue"),
     .doc = "The k-th smallest value along axis (k from 1) and its position.",
     .infer = [](const Call& c) { return squeezed(c, infer_one(c)); },
     .expand = [](const Call& c) {
       return squeeze_all(c, call_all("kthvalue_core", {c["x"]}, {{"k", c.integer("k")}, {"axis", c.integer("axis")}}), "keepdim");
     }},
    {.schema = "mode(Tensor x, int axis=-1, bool keepdim=False) -> Tensor, Tensor",
     .python = YULOH_BOTH("mode"),
     .doc = "The most frequent value along axis (the smallest of several) and its last position.",
     .infer = [](const Call& c) { return squeezed(c, infer_mode(c)); },
     .expand = [](const Call& c) { return squeeze_all(c, call_all("mode_core", {c["x"]}, {{"axis", c.integer("axis")}}), "keepdim"); }},
};

// ---- median and quantile over the last axis ----
// Linear position q (n - 1) in the sorted lane; a NaN makes the lane NaN unless it is ignored.
struct Pick {
  double value;
  int64_t index;  // of the lower neighbour
};
Pick quantile_of(std::vector<std::pair<double, int64_t>>& v, double q, const std::string& how) {
  const double at = q * static_cast<double>(v.size() - 1);
  const size_t lo = static_cast<size_t>(std::floor(at)), hi = static_cast<size_t>(std::ceil(at));
  double t = at - std::floor(at);
  if (how == "lower") t = 0;
  if (how == "higher") t = lo == hi ? 0 : 1;
  if (how == "nearest") t = t == 0.5 ? (lo % 2 ? 1 : 0) : t > 0.5;
  if (how == "midpoint") t = lo == hi ? 0 : 0.5;
  const double a = v[lo].first, b = v[hi].first;
  return {t == 0 ? a : t == 1 ? b : a + (b - a) * t, v[lo].second};
}
template <class F>  // f(lane number, sorted pairs, has NaN)
void sorted_lanes(const HostCall& h, bool skip_nan, F&& f) {
  const HostOperand& x = h.in[0];
  const Lanes a(x, static_cast<int64_t>(x.shape.size()) - 1);
  const int64_t size = static_cast<int64_t>(dtype_size(x.dtype));
  for (int64_t l = 0; l < a.count; ++l) {
    std::vector<std::pair<double, int64_t>> v;
    int64_t nan_at = -1;
    for (int64_t i = 0; i < a.length; ++i) {
      const double d = load_double(x.as<char>() + (a.start(l) + i * a.stride) * size, x.dtype);
      if (d != d) {
        if (nan_at < 0) nan_at = i;
        continue;
      }
      v.push_back({d, i});
    }
    std::sort(v.begin(), v.end());
    f(l, v, skip_nan && !v.empty() ? -1 : nan_at);
  }
}
void host_median(const HostCall& h) {
  const bool low = h.call.flag("lower");
  const HostOperand &o = h.out[0], &p = h.out[1];
  sorted_lanes(h, h.call.flag("ignore_nan"), [&](int64_t l, auto& v, int64_t nan_at) {
    Pick r{NAN, nan_at};
    if (nan_at < 0 && !v.empty()) r = quantile_of(v, 0.5, low ? "lower" : "midpoint");
    store_double(o.as<char>() + l * static_cast<int64_t>(dtype_size(o.dtype)), o.dtype, r.value);
    p.as<int64_t>()[l] = r.index;
  });
}
void host_quantile(const HostCall& h) {
  const HostOperand& o = h.out[0];
  const std::vector<double> q = h.call.reals("q");
  const int64_t n = o.numel() / std::max<int64_t>(1, static_cast<int64_t>(q.size())), size = static_cast<int64_t>(dtype_size(o.dtype));
  sorted_lanes(h, h.call.flag("ignore_nan"), [&](int64_t l, auto& v, int64_t nan_at) {
    for (size_t k = 0; k < q.size(); ++k) {
      const double r = nan_at >= 0 || v.empty() ? NAN : quantile_of(v, q[k], h.call.str("interpolation")).value;
      store_double(o.as<char>() + (static_cast<int64_t>(k) * n + l) * size, o.dtype, r);
    }
  });
}
// Both neighbours of the position share the gradient as they share the value.
void host_quantile_grad(const HostCall& h) {
  const HostOperand &g = h.in[1], &o = h.out[0];
  const std::vector<double> q = h.call.reals("q");
  const std::string& how = h.call.str("interpolation");
  const Lanes a(h.in[0], static_cast<int64_t>(o.shape.size()) - 1);
  const int64_t n = a.count, gs = static_cast<int64_t>(dtype_size(g.dtype));
  std::vector<double> acc(static_cast<size_t>(o.numel()), 0);
  sorted_lanes(h, h.call.flag("ignore_nan"), [&](int64_t l, auto& v, int64_t nan_at) {
    if (nan_at >= 0 || v.empty()) return;
    for (size_t k = 0; k < q.size(); ++k) {
      const double gv = load_double(g.as<char>() + offset_at(g.shape, g.strides, static_cast<int64_t>(k) * n + l) * gs, g.dtype);
      const double at = q[k] * static_cast<double>(v.size() - 1);
      const size_t lo = static_cast<size_t>(std::floor(at)), hi = static_cast<size_t>(std::ceil(at));
      double t = at - std::floor(at);
      if (how == "lower") t = 0;
      if (how == "higher") t = lo == hi ? 0 : 1;
      if (how == "nearest") t = t == 0.5 ? (lo % 2 ? 1 : 0) : t > 0.5;
      if (how == "midpoint") t = lo == hi ? 0 : 0.5;
      acc[static_cast<size_t>(l * a.length + v[lo].second)] += gv * (1 - t);
      acc[static_cast<size_t>(l * a.length + v[hi].second)] += gv * t;
    }
  });
  for (size_t i = 0; i < acc.size(); ++i) store_double(o.as<char>() + static_cast<int64_t>(i * dtype_size(o.dtype)), o.dtype, acc[i]);
}
Shape without_last(const Call& c) {
  const Shape& x = c.type(0).shape;
  if (x.empty() || (x.back() == 0 && c.op.name == "median_core" && c.flag("lower"))) value_error(c.name(), ": the reduced axes are empty, got shape ", x, "; expected at least one element.");
  return Shape(x.begin(), x.end() - 1);
}
Values quantile_grad(const Call& c, const Value& g, const std::vector<double>& q, const char* how) {
  return {call("quantile_grad", {c["x"], g}, {{"q", q}, {"interpolation", how}, {"ignore_nan", c.flag("ignore_nan")}})};
}
const Register quantiles{
    {.schema = "median_core(Tensor x, bool lower, bool ignore_nan) -> Tensor, Tensor",
     .doc = "Middle value of the last axis and the position of the lower middle one.",
     .infer = [](const Call& c) -> Types {
       const Shape s = without_last(c);
       return {{c.flag("lower") ? c.type(0).dtype : float_of(c.type(0).dtype), s}, {DType::kInt64, s}};
     },
     .host = host_median,
     .vjp = [](const Call& c, const Values& g) -> Values {
       if (!g[0]) return {Value()};
       return quantile_grad(c, g[0], {0.5}, c.flag("lower") ? "lower" : "midpoint");
     },
     .needs = "x"},
    {.schema = "quantile_core(Tensor x, float[] q, str interpolation, bool ignore_nan) -> Tensor",
     .doc = "Quantiles of the last axis, one leading axis over q.",
     .infer = [](const Call& c) -> Types {
       const std::string& how = c.str("interpolation");
       if (how != "linear" && how != "lower" && how != "higher" && how != "nearest" && how != "midpoint")
         value_error("quantile: unknown interpolation, got '", how, "'; expected 'linear', 'lower', 'higher', 'nearest' or 'midpoint'.");
       Shape s = without_last(c);
       s.insert(0, static_cast<int64_t>(c.reals("q").size()));
       return {{float_of(c.type(0).dtype), s}};
     },
     .host = host_quantile,
     .vjp = [](const Call& c, const Values& g) -> Values { return quantile_grad(c, g[0], c.reals("q"), c.str("interpolation").c_str()); },
     .needs = "x"},
    {.schema = "quantile_grad(Tensor x, Tensor g, float[] q, str interpolation, bool ignore_nan) -> Tensor",
     .doc = "Gradient of quantiles: shared by the two neighbours.",
     .infer = [](const Call& c) -> Types {
       Shape g = without_last(c);
       g.insert(0, static_cast<int64_t>(c.reals("q").size()));
       if (numel(c.type(1).shape) != numel(g)) value_error("quantile_grad: g does not fit, got shape ", c.type(1).shape, "; expected ", g, ".");
       return like_first(c);
     },
     .host = host_quantile_grad},
};

// ---- search ----
void host_searchsorted(const HostCall& h) {
  const HostOperand &s = h.in[0], &v = h.in[1], &o = h.out[0];
  const bool right = h.call.flag("right");
  const int64_t n = v.numel(), len = s.shape.back(), inner = v.shape.empty() ? 1 : v.shape.back();
  const int64_t ss = static_cast<int64_t>(dtype_size(s.dtype)), vs = static_cast<int64_t>(dtype_size(v.dtype)), os = static_cast<int64_t>(dtype_size(o.dtype));
  Shape rows;
  Ints row_strides;
  for (uint32_t i = 0; i + 1 < s.shape.size(); ++i) rows.push_back(s.shape[i]), row_strides.push_back(s.strides[i]);
  Walk<1> w(v.shape, {v.strides});
  for (int64_t i = 0; i < n; ++i, w.next()) {
    const double x = load_double(v.as<char>() + w.offset[0] * vs, v.dtype);
    const char* row = s.as<char>() + (rows.empty() ? 0 : offset_at(rows, row_strides, i / inner)) * ss;
    int64_t lo = 0, hi = len;
    while (lo < hi) {
      const int64_t mid = (lo + hi) / 2;
      const double y = load_double(row + mid * s.strides.back() * ss, s.dtype);
      const bool before = right ? !less(x, y) : less(y, x);
      if (before) lo = mid + 1;
      else hi = mid;
    }
    store_int(o.as<char>() + i * os, o.dtype, lo);
  }
}
Types infer_search(const Call& c) {
  const Shape &s = c.type(0).shape, &v = c.type(1).shape;
  require_rank(c, 0, 1);
  bool ok = s.size() == 1 || s.size() == v.size();
  for (uint32_t i = 0; ok && s.size() > 1 && i + 1 < s.size(); ++i) ok = s[i] == v[i];
  if (!ok) value_error(c.name(), ": sequences and values do not fit, got shapes ", s, " and ", v, "; expected one sequence, or equal extents but the last.");
  return {{c.flag("out_int32") ? DType::kInt32 : DType::kInt64, v}};
}

// ---- unique ----
struct Unique {
  std::vector<int64_t> first, inverse, counts;  // first position of each distinct element, in order; by element
};
// Elements are rows of `x` along axis 0 when `rows`, else single values.
Unique find_unique(const HostOperand& x, bool sorted) {
  Unique u;
  const int64_t n = x.shape.empty() ? 1 : x.shape[0], size = static_cast<int64_t>(dtype_size(x.dtype));
  Shape tail;
  Ints tail_strides;
  for (uint32_t i = 1; i < x.shape.size(); ++i) tail.push_back(x.shape[i]), tail_strides.push_back(x.strides[i]);
  const int64_t width = yuloh::numel(tail);
  std::vector<double> v(static_cast<size_t>(n * width));
  std::vector<int64_t> raw(v.size());
  const bool integers = is_integral(x.dtype);
  for (int64_t i = 0; i < n; ++i) {
    Walk<1> w(tail, {tail_strides});
    for (int64_t j = 0; j < width; ++j, w.next()) {
      const char* p = x.as<char>() + ((x.shape.empty() ? 0 : i * x.strides[0]) + w.offset[0]) * size;
      v[i * width + j] = load_double(p, x.dtype);
      if (integers) raw[i * width + j] = load_int(p, x.dtype);
    }
  }
  auto compare = [&](int64_t a, int64_t b) {
    for (int64_t j = 0; j < width; ++j) {
      if (integers) {
        if (raw[a * width + j] != raw[b * width + j]) return raw[a * width + j] < raw[b * width + j] ? -1 : 1;
      } else if (less(v[a * width + j], v[b * width + j])) {
        return -1;
      } else if (less(v[b * width + j], v[a * width + j])) {
        return 1;
      }
    }
    return 0;
  };
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (sorted) std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  u.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) u.first.push_back(order[i]), u.counts.push_back(0);
    u.inverse[order[i]] = static_cast<int64_t>(u.first.size()) - 1;
    ++u.counts.back();
  }
  return u;
}
void host_unique_count(const HostCall& h) {
  *h.out[0].as<int64_t>() = static_cast<int64_t>(find_unique(h.in[0], h.call.flag("sorted")).first.size());
}
void host_unique_fill(const HostCall& h) {
  const Unique u = find_unique(h.in[0], h.call.flag("sorted"));
  auto put = [](const HostOperand& o, const std::vector<int64_t>& v) {
    for (size_t i = 0; i < v.size() && static_cast<int64_t>(i) < o.numel(); ++i) o.as<int64_t>()[i] = v[i];
  };
  put(h.out[0], u.first), put(h.out[1], u.inverse), put(h.out[2], u.counts);
}

// ---- counting ----
void host_histogram(const HostCall& h) {
  const HostOperand& x = h.in[0];
  const int64_t n = x.numel(), bins = h.call.integer("bins"), size = static_cast<int64_t>(dtype_size(x.dtype));
  double lo = h.call.real("min"), hi = h.call.real("max");
  if (lo == hi && n) {
    lo = INFINITY, hi = -INFINITY;
    Walk<1> w(x.shape, {x.strides});
    for (int64_t i = 0; i < n; ++i, w.next()) {
      const double v = load_double(x.as<char>() + w.offset[0] * size, x.dtype);
      lo = std::min(lo, v), hi = std::max(hi, v);
    }
    if (!std::isfinite(lo) || !std::isfinite(hi))
      value_error("histogram: the data has no finite range, got ", lo, " to ", hi, "; expected finite values or min < max.");
  }
  if (lo == hi) lo -= 1, hi += 1;
  std::vector<double> count(static_cast<size_t>(bins), 0);
  Walk<1> w(x.shape, {x.strides});
  double total = 0;
  const HostOperand* weight = h.call.has("weight") ? &h.in[1] : nullptr;
  for (int64_t i = 0; i < n; ++i, w.next()) {
    const double v = load_double(x.as<char>() + w.offset[0] * size, x.dtype);
    if (!(v >= lo && v <= hi)) continue;
    const double at = (v / 2 - lo / 2) / (hi / 2 - lo / 2) * static_cast<double>(bins);  // halves: no overflow
    const int64_t b = std::min(static_cast<int64_t>(at), bins - 1);
    double by = 1;
    if (weight)
      by = load_double(weight->as<char>() + offset_at(weight->shape, weight->strides, i) * static_cast<int64_t>(dtype_size(weight->dtype)), weight->dtype);
    count[b] += by, total += by;
  }
  const HostOperand& o = h.out[0];
  for (int64_t i = 0; i < bins; ++i) {
    const double v = h.call.flag("density") && total > 0 ? count[i] / total / ((hi - lo) / static_cast<double>(bins)) : count[i];
    store_double(o.as<char>() + i * static_cast<int64_t>(dtype_size(o.dtype)), o.dtype, v);
  }
}
void host_bincount(const HostCall& h) {
  const HostOperand& o = h.out[0];
  const std::vector<int64_t> v = read_ints(h.in[0]);
  std::vector<double> count(static_cast<size_t>(o.numel()), 0);
  const bool weighted = h.call.has("weights");
  for (size_t i = 0; i < v.size(); ++i) {
    if (v[i] < 0) value_error("bincount: negative value, got ", v[i], " at position ", i, "; expected values >= 0.");
    double by = 1;
    if (weighted) {
      const HostOperand& w = h.in[1];
      by = load_double(w.as<char>() + offset_at(w.shape, w.strides, static_cast<int64_t>(i)) * static_cast<int64_t>(dtype_size(w.dtype)), w.dtype);
    }
    if (v[i] < o.numel()) count[static_cast<size_t>(v[i])] += by;
  }
  for (size_t i = 0; i < count.size(); ++i)
    store_double(o.as<char>() + static_cast<int64_t>(i * dtype_size(o.dtype)), o.dtype, count[i]);
}

const Register search{
    {.schema = "searchsorted(Tensor sorted_sequence, Tensor values, bool out_int32=False, bool right=False) -> Tensor",
     .python = "paddle.searchsorted",
     .doc = "Where values would be inserted to keep the last axis sorted: before equal ones, or after with right.",
     .infer = infer_search,
     .host = host_searchsorted,
     .no_grad = true},
    {.schema = "bucketize_core(Tensor sorted_sequence, Tensor x, bool out_int32=False, bool right=False) -> Tensor",
     .doc = "searchsorted with one sequence.",
     .infer = [](const Call& c) { return require_rank(c, 0, 1, 1), infer_search(c); },
     .host = host_searchsorted,
     .no_grad = true},
    {.schema = "unique_count(Tensor x, bool sorted=True) -> Tensor",
     .doc = "How many distinct elements (along axis 0) x has; without `sorted`, distinct runs.",
     .infer = [](const Call&) -> Types { return {{DType::kInt64, {}}}; },
     .host = host_unique_count,
     .no_grad = true},
    {.schema = "unique_fill(Tensor x, int n, bool sorted=True) -> Tensor, Tensor, Tensor",
     .doc = "First position, inverse and count of the n distinct elements along axis 0.",
     .infer = [](const Call& c) -> Types {
       const int64_t rows = c.type(0).shape.empty() ? 1 : c.type(0).shape[0];
       return {{DType::kInt64, {c.integer("n")}}, {DType::kInt64, {rows}}, {DType::kInt64, {c.integer("n")}}};
     },
     .host = host_unique_fill,
     .no_grad = true},
    {.schema = "histogram(Tensor input, int bins=100, float min=0.0, float max=0.0, Tensor? weight=None, bool density=False) -> Tensor",
     .python = YULOH_BOTH("histogram"),
     .doc = "Counts in equal bins from min to max (of the data when equal); values outside are left out.",
     .infer = [](const Call& c) -> Types {
       if (c.integer("bins") < 1) value_error("histogram: bins is not positive, got ", c.integer("bins"), ".");
       const double lo = c.real("min"), hi = c.real("max");
      if (!(lo <= hi) || !std::isfinite(lo) || !std::isfinite(hi))
        value_error("histogram: the range is not usable, got min ", lo, " and max ", hi, "; expected finite min <= max.");
      if (c.has("weight") && !(c.type(1).shape == c.type(0).shape))
        value_error("histogram: weight does not fit, got shape ", c.type(1).shape, "; expected ", c.type(0).shape, ".");
       return {{c.flag("density") || c.has("weight") ? DType::kFloat32 : DType::kInt64, {c.integer("bins")}}};
     },
     .host = host_histogram,
     .no_grad = true},
    {.schema = "bincount_core(Tensor x, Tensor? weights, int n) -> Tensor",
     .doc = "How often 0..n-1 occur in x, or the sum of their weights.",
     .infer = [](const Call& c) -> Types {
       require_integral(c, 0);
       require_rank(c, 0, 1, 1);
       const Value w = c["weights"];
       if (w && !(w.shape() == c.type(0).shape)) value_error("bincount: weights do not fit, got shape ", w.shape(), "; expected ", c.type(0).shape, ".");
       return {{!w ? DType::kInt64 : w.dtype() == DType::kFloat64 ? DType::kFloat64 : is_integral(w.dtype()) ? DType::kFloat32 : w.dtype(), {c.integer("n")}}};
     },
     .host = host_bincount,
     .no_grad = true,
     .checks = true},
};
}  // namespace
}  // namespace yuloh
