// SPDX-License-Identifier: Apache-2.0
// Median and quantiles over the last axis, and their gradient.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

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
  const int64_t n = o.numel() / std::max<int64_t>(1, static_cast<int64_t>(q.size())),
                size = static_cast<int64_t>(dtype_size(o.dtype));
  sorted_lanes(h, h.call.flag("ignore_nan"), [&](int64_t l, auto& v, int64_t nan_at) {
    for (size_t k = 0; k < q.size(); ++k) {
      const double r =
          nan_at >= 0 || v.empty() ? NAN : quantile_of(v, q[k], h.call.str("interpolation")).value;
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
      const double gv = load_double(
          g.as<char>() + offset_at(g.shape, g.strides, static_cast<int64_t>(k) * n + l) * gs, g.dtype);
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
  for (size_t i = 0; i < acc.size(); ++i)
    store_double(o.as<char>() + static_cast<int64_t>(i * dtype_size(o.dtype)), o.dtype, acc[i]);
}
void check_positions(const Call& c) {
  for (double q : c.reals("q"))
    if (!(q >= 0 && q <= 1)) value_error("quantile: q is out of range, got ", q, "; expected 0 <= q <= 1.");
}
Shape without_last(const Call& c) {
  const Shape& x = c.type(0).shape;
  if (x.empty() || (x.back() == 0 && c.op.name == "median_core" && c.flag("lower")))
    value_error(c.name(), ": the reduced axes are empty, got shape ", x, "; expected at least one element.");
  return Shape(x.begin(), x.end() - 1);
}
Values quantile_grad(const Call& c, const Value& g, const std::vector<double>& q, const char* how) {
  return {call("quantile_grad", {c["x"], g},
               {{"q", q}, {"interpolation", how}, {"ignore_nan", c.flag("ignore_nan")}})};
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
         value_error("quantile: unknown interpolation, got '", how,
                     "'; expected 'linear', 'lower', 'higher', 'nearest' or 'midpoint'.");
       check_positions(c);
       Shape s = without_last(c);
       s.insert(0, static_cast<int64_t>(c.reals("q").size()));
       return {{float_of(c.type(0).dtype), s}};
     },
     .host = host_quantile,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return quantile_grad(c, g[0], c.reals("q"), c.str("interpolation").c_str());
     },
     .needs = "x"},
    {.schema = "quantile_grad(Tensor x, Tensor g, float[] q, str interpolation, bool ignore_nan) -> Tensor",
     .inner = true,
     .doc = "Gradient of quantiles: shared by the two neighbours.",
     .infer = [](const Call& c) -> Types {
       check_positions(c);
       Shape g = without_last(c);
       g.insert(0, static_cast<int64_t>(c.reals("q").size()));
       if (numel(c.type(1).shape) != numel(g))
         value_error("quantile_grad: g does not fit, got shape ", c.type(1).shape, "; expected ", g, ".");
       return like_first(c);
     },
     .host = host_quantile_grad},
};

}  // namespace
}  // namespace yuloh
