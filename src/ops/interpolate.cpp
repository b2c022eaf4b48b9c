// SPDX-License-Identifier: Apache-2.0
// Resampling along one axis: every output element is a weighted sum of a few input elements ("taps").
// Resizing in any mode is this op once per spatial axis; positions and weights follow from the sizes and are
// part of the structure.
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

const Register resampling{
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
     .doc = "The adjoint of resample: g spread over the taps.",
     .infer = [](const Call& c) -> Types {
       const Shape s = shape_arg(c), &g = c.type(0).shape;
       const int64_t k = c.integer("axis"), taps = c.integer("taps"), n = c.ints("index").size();
       bool fits = s.size() == g.size() && k >= 0 && k < static_cast<int64_t>(s.size()) && taps > 0 && n % taps == 0 &&
                   static_cast<int64_t>(c.reals("weight").size()) == n;
       for (uint32_t d = 0; fits && d < s.size(); ++d) fits = g[d] == (d == static_cast<uint32_t>(k) ? n / taps : s[d]);
       for (int64_t i : c.ints("index")) fits = fits && i >= 0 && i < s[static_cast<uint32_t>(k)];
       if (!fits) value_error("resample_grad: g does not fit, got shape ", g, " for shape ", s, ", axis ", k, " and ", taps, " taps.");
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
