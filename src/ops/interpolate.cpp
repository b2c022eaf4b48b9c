// SPDX-License-Identifier: Apache-2.0
// Resampling along one axis: every output element is a weighted sum of a few input elements ("taps").
// Resizing in any mode is this op once per spatial axis; positions and weights follow from the sizes and are
// part of the structure.
#include <algorithm>
#include <cmath>

#include "ops/fn.h"
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

struct Taps {
  Ints index;                  // out x taps, input positions
  std::vector<double> weight;  // the same order
  int64_t per_output, outputs;
};
Taps taps_of(const Call& c) {
  Taps t{c.ints("index"), c.reals("weight"), c.integer("taps"), 0};
  t.outputs = t.per_output > 0 ? static_cast<int64_t>(t.index.size()) / t.per_output : 0;
  return t;
}
int64_t axis_of(const Call& c, int64_t rank) { return normalize_axis(c.name(), c.integer("axis"), rank); }
Types infer_resample(const Call& c) {
  require_float(c, 0);
  require_rank(c, 0, 1);
  const Taps t = taps_of(c);
  const int64_t k = axis_of(c, c.type(0).shape.size());
  if (t.per_output < 1 || t.index.size() != t.weight.size() || t.index.size() % t.per_output)
    value_error(c.name(), ": taps do not fit, got ", t.index.size(), " indices, ", t.weight.size(),
                " weights and ", t.per_output, " taps.");
  for (int64_t i : t.index)
    if (i < 0 || i >= c.type(0).shape[k])
      index_error(c.name(), ": tap out of range, got ", i, "; expected 0 <= index < ", c.type(0).shape[k],
                  ".");
  Shape s = c.type(0).shape;
  s[k] = t.outputs;
  return {{c.type(0).dtype, s}};
}

struct Planes {  // x as [outer, n, inner], row-major
  int64_t outer = 1, n, inner = 1;
  Planes(const Shape& s, int64_t k) : n(s[k]) {
    for (int64_t i = 0; i < static_cast<int64_t>(s.size()); ++i)
      if (i != k) (i < k ? outer : inner) *= s[i];
  }
};
// Calls f(E{}, rows of x made row-major) by dtype; strided inputs are copied first.
template <class F>
void with_rows(const HostOperand& x, F&& f) {
  with_float("resample", x.dtype, [&](auto e) {
    using T = typename decltype(e)::T;
    if (is_row_major(x.shape, x.strides)) return f(e, x.as<const T>());
    std::vector<T> copy(static_cast<size_t>(x.numel()));
    copy_strided(x.shape, copy.data(), row_major_strides(x.shape), x.data, x.strides, sizeof(T));
    f(e, static_cast<const T*>(copy.data()));
  });
}
void host_resample(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const int64_t k = axis_of(h.call, x.shape.size());
  const Taps t = taps_of(h.call);
  const Planes p(x.shape, k);
  with_rows(x, [&](auto e, const auto* src) {
    using E = decltype(e);
    using C = typename E::C;
    auto* dst = o.as<typename E::T>();
    parallel_ranges(p.outer, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, t.outputs * p.inner)),
                    [&](int64_t from, int64_t to) {
                      for (int64_t a = from; a < to; ++a)
                        for (int64_t i = 0; i < t.outputs; ++i) {
                          auto* out = dst + (a * t.outputs + i) * p.inner;
                          const int64_t* index = t.index.data() + i * t.per_output;
                          const double* weight = t.weight.data() + i * t.per_output;
                          const auto* base = src + a * p.n * p.inner;
                          for (int64_t j = 0; j < p.inner; ++j) {
                            C sum = 0;
                            for (int64_t q = 0; q < t.per_output; ++q)
                              sum += E::get(base[index[q] * p.inner + j]) * static_cast<C>(weight[q]);
                            out[j] = E::put(sum);
                          }
                        }
                    });
  });
}
void host_resample_grad(const HostCall& h) {
  const HostOperand &g = h.in[0], &o = h.out[0];
  const int64_t k = axis_of(h.call, o.shape.size());
  const Taps t = taps_of(h.call);
  const Planes p(o.shape, k);
  with_rows(g, [&](auto e, const auto* src) {
    using E = decltype(e);
    using C = typename E::C;
    auto* dst = o.as<typename E::T>();
    parallel_ranges(p.outer, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, t.outputs * p.inner)),
                    [&](int64_t from, int64_t to) {
                      std::vector<C> acc(static_cast<size_t>(p.n * p.inner));
                      for (int64_t a = from; a < to; ++a) {
                        std::fill(acc.begin(), acc.end(), C(0));
                        for (int64_t i = 0; i < t.outputs; ++i)
                          for (int64_t q = 0; q < t.per_output; ++q) {
                            const C w = static_cast<C>(t.weight[static_cast<size_t>(i * t.per_output + q)]);
                            C* to_row = acc.data() + t.index[i * t.per_output + q] * p.inner;
                            const auto* row = src + (a * t.outputs + i) * p.inner;
                            for (int64_t j = 0; j < p.inner; ++j) to_row[j] += E::get(row[j]) * w;
                          }
                        for (size_t j = 0; j < acc.size(); ++j)
                          dst[a * p.n * p.inner + static_cast<int64_t>(j)] = E::put(acc[j]);
                      }
                    });
  });
}

// ---- resizing several axes: positions and weights follow from the sizes ----
constexpr double kCubic = -0.75;
struct Resizing {
  int64_t axis, out;
  double scale;  // 0: from the sizes
  bool corners;
  int64_t align_mode;
  double position(int64_t i, int64_t size) const {  // source coordinate of output i
    if (corners)
      return out > 1 ? static_cast<double>(size - 1) / static_cast<double>(out - 1) * static_cast<double>(i)
                     : 0.0;
    const double s = step(size), at = static_cast<double>(i);
    return align_mode == 0 ? (at + 0.5) * s - 0.5 : at * s;
  }
  double step(int64_t size) const {
    return scale > 0 ? 1.0 / scale : static_cast<double>(size) / static_cast<double>(out);
  }
};
Value nearest(const Value& x, const Resizing& r) {
  const int64_t size = x.shape()[static_cast<uint32_t>(r.axis)];
  if (size == r.out && r.step(size) == 1) return x;
  Value at = iota({r.out}, 0, DType::kFloat64);
  at = call("minimum", {call("floor", {affine(at, r.step(size))}),
                        full({}, static_cast<double>(size - 1), DType::kFloat64)});
  return call("index_axis", {x, cast(at, DType::kInt64)}, {{"axis", r.axis}, {"who", "interpolate"}});
}
Value weighted(const Value& x, const Resizing& r, bool cubic) {
  const int64_t size = x.shape()[static_cast<uint32_t>(r.axis)];
  Ints index;
  std::vector<double> weight;
  bool same = size == r.out;
  for (int64_t i = 0; i < r.out; ++i) {
    double p = r.position(i, size);
    if (!cubic) p = std::max(p, 0.0);
    same = same && p == static_cast<double>(i);
    if (cubic) {
      const double base = std::floor(p), t = p - base;
      const auto near = [](double v) { return ((kCubic + 2) * v - (kCubic + 3)) * v * v + 1; };
      const auto far = [](double v) { return ((kCubic * v - 5 * kCubic) * v + 8 * kCubic) * v - 4 * kCubic; };
      for (const double w : {far(t + 1), near(t), near(1 - t), far(2 - t)}) weight.push_back(w);
      for (int64_t k = -1; k <= 2; ++k)
        index.push_back(std::clamp<int64_t>(static_cast<int64_t>(base) + k, 0, size - 1));
    } else {
      const int64_t low = std::min(static_cast<int64_t>(p), size - 1);
      const double share = low < size - 1 ? p - static_cast<double>(low) : 0.0;
      index.push_back(low), index.push_back(std::min(low + 1, size - 1));
      weight.push_back(1.0 - share), weight.push_back(share);
    }
  }
  if (same) return x;
  return call("resample", {x},
              {{"axis", r.axis}, {"taps", cubic ? 4 : 2}, {"index", index}, {"weight", weight}});
}
Types infer_interpolate(const Call& c) {
  Shape s = c.type(0).shape;
  const Ints axes = c.ints("axes"), size = c.ints("size");
  const std::string& mode = c.str("mode");
  if (mode != "nearest") require_float(c, 0);
  if (axes.size() != size.size() || c.reals("scale").size() != axes.size())
    value_error(c.name(), ": got ", axes.size(), " axes, ", size.size(), " sizes and ",
                c.reals("scale").size(), " scales; expected as many of each.");
  for (uint32_t k = 0; k < axes.size(); ++k) {
    const auto at = static_cast<uint32_t>(normalize_axis(c.name(), axes[k], s.size()));
    if (size[k] < 1 || size[k] > 1 << 24 || s[at] < 1)
      value_error("interpolate: axis ", at, " cannot be resized, got ", s[at], " to ", size[k],
                  "; expected 1 to 2**24.");
    s[at] = size[k];
  }
  return {{c.type(0).dtype, s}};
}
Values interpolate(const Call& c) {
  const Ints axes = c.ints("axes"), size = c.ints("size");
  const std::vector<double> scale = c.reals("scale");
  const std::string& mode = c.str("mode");
  const bool cubic = mode == "bicubic";
  Value x = c.in[0];
  for (uint32_t k = 0; k < axes.size(); ++k) {
    const Resizing r{normalize_axis(c.name(), axes[k], x.rank()), size[k], scale[k], c.flag("align_corners"),
                     cubic ? 0 : c.integer("align_mode")};
    x = mode == "nearest" ? nearest(x, r) : weighted(x, r, cubic);
  }
  return {x};
}

const Register resampling{
    {.schema = "interpolate_core(Tensor x, int[] axes, int[] size, float[] scale, str mode, bool "
               "align_corners=False, "
               "int align_mode=0) -> Tensor",
     .doc = "Axes resized to `size`; a scale of 0 follows from the sizes. paddle.nn.functional.interpolate "
            "is made of it.",
     .infer = infer_interpolate,
     .expand = interpolate},
    {.schema = "resample(Tensor x, int axis, int taps, int[] index, float[] weight) -> Tensor",
     .doc = "Along axis, output i is the sum of x[index[i, q]] * weight[i, q] over the taps q; rounded once.",
     .infer = infer_resample,
     .host = host_resample,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("resample_grad", {g[0]},
                    {{"shape", to_ints(c.type(0).shape)},
                     {"axis", c.integer("axis")},
                     {"taps", c.integer("taps")},
                     {"index", c.ints("index")},
                     {"weight", c.reals("weight")}})};
     }},
    {.schema =
         "resample_grad(Tensor g, int[] shape, int axis, int taps, int[] index, float[] weight) -> Tensor",
     .inner = true,
     .doc = "The adjoint of resample: g spread over the taps.",
     .infer = [](const Call& c) -> Types {
       const Shape s = shape_arg(c), &g = c.type(0).shape;
       const int64_t k = c.integer("axis"), taps = c.integer("taps"), n = c.ints("index").size();
       bool fits = s.size() == g.size() && k >= 0 && k < static_cast<int64_t>(s.size()) && taps > 0 &&
                   n % taps == 0 && static_cast<int64_t>(c.reals("weight").size()) == n;
       for (uint32_t d = 0; fits && d < s.size(); ++d)
         fits = g[d] == (d == static_cast<uint32_t>(k) ? n / taps : s[d]);
       for (int64_t i : c.ints("index")) fits = fits && i >= 0 && i < s[static_cast<uint32_t>(k)];
       if (!fits)
         value_error("resample_grad: g does not fit, got shape ", g, " for shape ", s, ", axis ", k, " and ",
                     taps, " taps.");
       return {{c.type(0).dtype, s}};
     },
     .host = host_resample_grad,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("resample", {g[0]},
                    {{"axis", c.integer("axis")},
                     {"taps", c.integer("taps")},
                     {"index", c.ints("index")},
                     {"weight", c.reals("weight")}})};
     }},
};
}  // namespace
}  // namespace yuloh
