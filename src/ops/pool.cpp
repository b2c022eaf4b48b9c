// SPDX-License-Identifier: Apache-2.0
// Pooling over 1 to 3 spatial dims. Maximum: NaN wins, an all -inf window keeps a valid position (trap B14);
// its gradient goes to the first maximum. Average: linear, so it and its gradient are each other's gradient.
// Adaptive pooling becomes ordinary pooling where the extents divide. The loops here are the reference;
// faster candidates are in cpu/pool.cpp.
#include "ops/pool.h"

#include <algorithm>
#include <cmath>

#include "ops/infer.h"

namespace yuloh {

PoolGeometry pool_geometry(const Call& c, const Shape& x) {
  const Ints kernel = c.ints("kernel_size");
  if (x.size() < 3 || x.size() > 5 || kernel.size() != x.size() - 2)
    value_error(c.name(), ": kernel_size does not match the input, got x ", x, " and kernel_size ",
                to_string(kernel), "; expected one entry for each axis after the first two.");
  const Window w = window_of(c, kernel);
  PoolGeometry g;
  for (int i = 0; i < w.n; ++i) {
    // A window must meet the input: padding of a whole kernel or more would make windows without any element.
    if (std::max(w.pad_begin[i], w.pad_end[i]) >= w.kernel[i] && x[2 + i] > 0)
      value_error(c.name(), ": padding is too large along spatial axis ", i, ", got padding ", w.pad_begin[i],
                  ", ", w.pad_end[i], " and kernel ", w.kernel[i], "; expected padding < kernel.");
    g.out.push_back(window_output(c, w, i, x[2 + i], c.flag("ceil_mode")));
  }
  const Ints in = spatial_of(x);
  g.w = window3(w, in, g.out);
  for (int i = 0; i < 3; ++i) g.end[i] = g.w.in[i];
  for (int i = 0; i < w.n; ++i) g.end[3 - w.n + i] += w.pad_end[i];
  return g;
}

Taps pool_taps(const Window3& w, int axis, int64_t o) {
  const int64_t start = o * w.s[axis] - w.p[axis];
  return {std::max<int64_t>(start, 0), std::min(start + w.k[axis], w.in[axis])};
}

double pool_divisor(const PoolGeometry& g, bool exclusive, int64_t divisor, const int64_t o[3]) {
  if (divisor != 0) return static_cast<double>(divisor);
  double n = 1;
  for (int i = 0; i < 3; ++i) {
    const int64_t start = o[i] * g.w.s[i] - g.w.p[i];
    const Taps t = pool_taps(g.w, i, o[i]);
    // Padding counts when not exclusive, but what ceil_mode adds beyond the trailing padding never does.
    n *= static_cast<double>(exclusive ? t.end - t.begin : std::min(start + g.w.k[i], g.end[i]) - start);
  }
  return n;
}

namespace {

template <class F>
void outputs(const Window3& w, F&& f) {
  int64_t o[3];
  for (o[0] = 0; o[0] < w.out[0]; ++o[0])
    for (o[1] = 0; o[1] < w.out[1]; ++o[1])
      for (o[2] = 0; o[2] < w.out[2]; ++o[2]) f(o);
}
template <class F>
void elements(const Window3& w, const int64_t o[3], F&& f) {
  const Taps a = pool_taps(w, 0, o[0]), b = pool_taps(w, 1, o[1]), e = pool_taps(w, 2, o[2]);
  int64_t p[3];
  for (p[0] = a.begin; p[0] < a.end; ++p[0])
    for (p[1] = b.begin; p[1] < b.end; ++p[1])
      for (p[2] = e.begin; p[2] < e.end; ++p[2]) f(p);
}
template <class F>
void planes(const Shape& x, F&& f) {
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t c = 0; c < x[1]; ++c) f(n, c);
}
int64_t at(const Strides5& s, int64_t n, int64_t c, const int64_t p[3]) {
  return n * s.n + c * s.c + p[0] * s.d[0] + p[1] * s.d[1] + p[2] * s.d[2];
}
int64_t flat(const Window3& w, const int64_t p[3]) { return (p[0] * w.in[1] + p[1]) * w.in[2] + p[2]; }

// First maximum of a window; the first NaN ends the search.
template <class E>
int64_t argmax(const Window3& w, const Strides5& s, const typename E::T* x, int64_t n, int64_t c,
               const int64_t o[3], int64_t pos[3]) {
  int64_t best = -1;
  double value = 0;
  elements(w, o, [&](const int64_t* p) {
    const double v = E::get(x[at(s, n, c, p)]);
    if (best < 0 || (!std::isnan(value) && (std::isnan(v) || v > value))) {
      best = flat(w, p), value = v;
      std::copy(p, p + 3, pos);
    }
  });
  return best;
}

TensorType pooled(const TensorType& x, const Ints& out) {
  TensorType r{x.dtype, {x.shape[0], x.shape[1]}};
  for (int64_t d : out) r.shape.push_back(d);
  numel(r.shape);
  return r;
}
Types infer_pool(const Call& c) {
  expect_float(c, 0);
  return {pooled(c.type(0), pool_geometry(c, c.type(0).shape).out)};
}
Types infer_max_index(const Call& c) {
  Types r = infer_pool(c);
  const Ints in = spatial_of(c.type(0).shape);
  if (numel(Shape(in.begin(), in.end())) > INT32_MAX)
    value_error(c.name(), ": the input plane is too large for int32 positions, got ", c.type(0).shape, ".");
  r.push_back({DType::kInt32, r[0].shape});
  return r;
}
// (x, grad) -> like x
Types infer_max_grad(const Call& c) {
  const Types out = infer_pool(c);
  if (!(out[0].shape == c.type(1).shape))
    value_error(c.name(), ": grad has shape ", c.type(1).shape, "; expected ", out[0].shape, ".");
  return {c.type(0)};
}
// (x, v) both like x -> pooled
Types infer_max_take(const Call& c) {
  require_same_type(c, 0, 1);
  return infer_pool(c);
}
Shape avg_grad_shape(const Call& c) {
  const Shape& g = c.type(0).shape;
  Shape x{g[0], g[1]};
  for (int64_t d : c.ints("input_size")) x.push_back(d);
  return x;
}
Types infer_avg_grad(const Call& c) {
  expect_float(c, 0);
  require_rank(c, 0, 3, 5);
  const Shape x = avg_grad_shape(c);
  if (x.size() != c.type(0).shape.size())
    value_error(c.name(), ": input_size does not fit, got ", to_string(c.ints("input_size")), " for grad ",
                c.type(0).shape, ".");
  const Shape& g = c.type(0).shape;
  if (!(pool_geometry(c, x).out == spatial_of(g)))
    value_error(c.name(), ": grad ", g, " does not match an input of shape ", x, ".");
  return {{c.type(0).dtype, x}};
}

template <class E>
void max_loop(const HostCall& h) {
  using T = typename E::T;
  const PoolGeometry g = pool_geometry(h.call, h.in[0].shape);
  const Strides5 sx = strides5(h.in[0].strides), sy = strides5(h.out[0].strides);
  int32_t* index = h.out.size() > 1 ? h.out[1].as<int32_t>() : nullptr;
  const Strides5 si = index ? strides5(h.out[1].strides) : sy;
  planes(h.in[0].shape, [&](int64_t n, int64_t c) {
    outputs(g.w, [&](const int64_t* o) {
      int64_t p[3] = {0, 0, 0};
      const int64_t best = argmax<E>(g.w, sx, h.in[0].as<T>(), n, c, o, p);
      h.out[0].as<T>()[at(sy, n, c, o)] = h.in[0].as<T>()[at(sx, n, c, p)];
      if (index) index[at(si, n, c, o)] = static_cast<int32_t>(best);
    });
  });
}
template <class E>
void max_grad_loop(const HostCall& h) {
  using T = typename E::T;
  const PoolGeometry g = pool_geometry(h.call, h.in[0].shape);
  const Strides5 sx = strides5(h.in[0].strides), sg = strides5(h.in[1].strides),
                 so = strides5(h.out[0].strides);
  std::vector<double> plane(g.w.in[0] * g.w.in[1] * g.w.in[2]);
  planes(h.in[0].shape, [&](int64_t n, int64_t c) {
    std::fill(plane.begin(), plane.end(), 0.0);
    outputs(g.w, [&](const int64_t* o) {
      int64_t p[3];
      plane[argmax<E>(g.w, sx, h.in[0].as<T>(), n, c, o, p)] += E::get(h.in[1].as<T>()[at(sg, n, c, o)]);
    });
    int64_t p[3];
    for (p[0] = 0; p[0] < g.w.in[0]; ++p[0])
      for (p[1] = 0; p[1] < g.w.in[1]; ++p[1])
        for (p[2] = 0; p[2] < g.w.in[2]; ++p[2])
          h.out[0].as<T>()[at(so, n, c, p)] = E::put(plane[flat(g.w, p)]);
  });
}
template <class E>
void max_take_loop(const HostCall& h) {
  using T = typename E::T;
  const PoolGeometry g = pool_geometry(h.call, h.in[0].shape);
  const Strides5 sx = strides5(h.in[0].strides), sv = strides5(h.in[1].strides),
                 so = strides5(h.out[0].strides);
  planes(h.in[0].shape, [&](int64_t n, int64_t c) {
    outputs(g.w, [&](const int64_t* o) {
      int64_t p[3] = {0, 0, 0};
      argmax<E>(g.w, sx, h.in[0].as<T>(), n, c, o, p);
      h.out[0].as<T>()[at(so, n, c, o)] = h.in[1].as<T>()[at(sv, n, c, p)];
    });
  });
}
template <class E>
void avg_loop(const HostCall& h) {
  using T = typename E::T;
  const PoolGeometry g = pool_geometry(h.call, h.in[0].shape);
  const bool exclusive = h.call.flag("exclusive");
  const int64_t divisor = h.call.has("divisor") ? h.call.integer("divisor") : 0;
  const Strides5 sx = strides5(h.in[0].strides), so = strides5(h.out[0].strides);
  planes(h.in[0].shape, [&](int64_t n, int64_t c) {
    outputs(g.w, [&](const int64_t* o) {
      double acc = 0;
      elements(g.w, o, [&](const int64_t* p) { acc += E::get(h.in[0].as<T>()[at(sx, n, c, p)]); });
      h.out[0].as<T>()[at(so, n, c, o)] = E::put(acc / pool_divisor(g, exclusive, divisor, o));
    });
  });
}
template <class E>
void avg_grad_loop(const HostCall& h) {
  using T = typename E::T;
  const Shape& x = h.out[0].shape;
  const PoolGeometry g = pool_geometry(h.call, x);
  const bool exclusive = h.call.flag("exclusive");
  const int64_t divisor = h.call.has("divisor") ? h.call.integer("divisor") : 0;
  const Strides5 sg = strides5(h.in[0].strides), so = strides5(h.out[0].strides);
  std::vector<double> plane(g.w.in[0] * g.w.in[1] * g.w.in[2]);
  planes(x, [&](int64_t n, int64_t c) {
    std::fill(plane.begin(), plane.end(), 0.0);
    outputs(g.w, [&](const int64_t* o) {
      const double v = E::get(h.in[0].as<T>()[at(sg, n, c, o)]) / pool_divisor(g, exclusive, divisor, o);
      elements(g.w, o, [&](const int64_t* p) { plane[flat(g.w, p)] += v; });
    });
    int64_t p[3];
    for (p[0] = 0; p[0] < g.w.in[0]; ++p[0])
      for (p[1] = 0; p[1] < g.w.in[1]; ++p[1])
        for (p[2] = 0; p[2] < g.w.in[2]; ++p[2])
          h.out[0].as<T>()[at(so, n, c, p)] = E::put(plane[flat(g.w, p)]);
  });
}
#define YULOH_HOST(name, loop)                                                \
  void name(const HostCall& h) {                                              \
    with_float(h.call, h.in[0].dtype, [&](auto e) { loop<decltype(e)>(h); }); \
  }
YULOH_HOST(host_max, max_loop)
YULOH_HOST(host_max_grad, max_grad_loop)
YULOH_HOST(host_max_take, max_take_loop)
YULOH_HOST(host_avg, avg_loop)
YULOH_HOST(host_avg_grad, avg_grad_loop)
#undef YULOH_HOST

// ---- gradients ----
Value max_call(const Call& c, const char* op, Values in) {
  return call(op, std::move(in),
              {{"kernel_size", c.ints("kernel_size")},
               {"stride", c.ints("stride")},
               {"padding", c.ints("padding")},
               {"ceil_mode", c.flag("ceil_mode")}});
}
NamedAttr divisor_attr(const Call& c) {
  if (c.has("divisor")) return {"divisor", c.integer("divisor")};
  return {"divisor", std::monostate{}};
}
Values max_vjp(const Call& c, const Values& g) {
  return {g[0] ? max_call(c, "max_pool_grad", {c.in[0], g[0]}) : Value()};
}

const Register rows{
    {.schema =
         "max_pool(Tensor x, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode=False) -> Tensor",
     .doc = "Maximum over windows. x [N, C, spatial...]; padding = begin and end per spatial dim; NaN wins.",
     .infer = infer_pool,
     .host = host_max,
     .vjp = max_vjp,
     .needs = "x",
     .channels_last = true,
     .kind = "pool"},
    {.schema = "max_pool_with_index(Tensor x, int[] kernel_size, int[] stride, int[] padding, bool "
               "ceil_mode=False) -> "
               "Tensor, Tensor",
     .doc = "Maximum over windows and its int32 position in the flattened spatial plane of x.",
     .infer = infer_max_index,
     .host = host_max,
     .vjp = max_vjp,
     .needs = "x",
     .channels_last = true,
     .kind = "pool"},
    {.schema = "max_pool_grad(Tensor x, Tensor grad, int[] kernel_size, int[] stride, int[] padding, bool "
               "ceil_mode=False) "
               "-> Tensor",
     .inner = true,
     .doc = "Gradient of max_pool: each window's gradient goes to its first maximum.",
     .infer = infer_max_grad,
     .host = host_max_grad,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {Value(), max_call(c, "max_pool_take", {c.in[0], g[0]})};
     },
     .needs = "x",
     .channels_last = true,
     .kind = "pool"},
    {.schema = "max_pool_take(Tensor x, Tensor v, int[] kernel_size, int[] stride, int[] padding, bool "
               "ceil_mode=False) -> "
               "Tensor",
     .inner = true,
     .doc = "v at the position of each window's first maximum of x.",
     .infer = infer_max_take,
     .host = host_max_take,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {Value(), max_call(c, "max_pool_grad", {c.in[0], g[0]})};
     },
     .needs = "x",
     .channels_last = true,
     .kind = "pool"},
    {.schema = "avg_pool(Tensor x, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode=False, "
               "bool exclusive=True, "
               "int? divisor=None) -> Tensor",
     .doc = "Mean over windows; exclusive: padding does not count; divisor replaces the count.",
     .infer = infer_pool,
     .host = host_avg,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("avg_pool_grad", {g[0]},
                    {{"input_size", spatial_of(c.type(0).shape)},
                     {"kernel_size", c.ints("kernel_size")},
                     {"stride", c.ints("stride")},
                     {"padding", c.ints("padding")},
                     {"ceil_mode", c.flag("ceil_mode")},
                     {"exclusive", c.flag("exclusive")},
                     divisor_attr(c)})};
     },
     .channels_last = true,
     .kind = "pool"},
    {.schema =
         "avg_pool_grad(Tensor grad, int[] input_size, int[] kernel_size, int[] stride, int[] padding, bool "
         "ceil_mode=False, bool exclusive=True, int? divisor=None) -> Tensor",
     .inner = true,
     .doc = "Gradient of avg_pool for an input whose spatial extents are input_size.",
     .infer = infer_avg_grad,
     .host = host_avg_grad,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("avg_pool", {g[0]},
                    {{"kernel_size", c.ints("kernel_size")},
                     {"stride", c.ints("stride")},
                     {"padding", c.ints("padding")},
                     {"ceil_mode", c.flag("ceil_mode")},
                     {"exclusive", c.flag("exclusive")},
                     divisor_attr(c)})};
     },
     .channels_last = true,
     .kind = "pool"},
};

}  // namespace
}  // namespace yuloh
