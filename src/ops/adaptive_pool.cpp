// SPDX-License-Identifier: Apache-2.0
// Adaptive pooling (output_size windows whose borders are rounded outwards) and unpooling. Where the extents
// divide, adaptive pooling is ordinary pooling; the general case has reference loops of its own. Positions of
// maxima scatter and gather (`pool_scatter`, `pool_gather`), which are each other's gradient.
#include <algorithm>
#include <cmath>

#include "ops/pool.h"

namespace yuloh {
namespace {

TensorType with_spatial(const TensorType& x, const Ints& spatial) {
  TensorType r{x.dtype, {x.shape[0], x.shape[1]}};
  for (int64_t d : spatial) r.shape.push_back(d);
  numel(r.shape);
  return r;
}

Ints checked_size(const Call& c, const char* name, const Shape& x) {
  const Ints size = c.ints(name);
  if (x.size() < 3 || x.size() > 5 || size.size() != x.size() - 2)
    value_error(c.name(), ": ", name, " does not match the input, got x ", x, " and ", name, " ",
                to_string(size), "; expected one entry for each axis after the first two.");
  for (int64_t d : size)
    if (d < 0)
      value_error(c.name(), ": ", name, " is negative, got ", to_string(size),
                  "; expected every entry >= 0.");
  return size;
}
Types infer_adaptive(const Call& c) {
  expect_float(c, 0);
  const Shape& x = c.type(0).shape;
  const Types r{with_spatial(c.type(0), checked_size(c, "output_size", x))};
  for (uint32_t i = 2; i < x.size(); ++i)
    if (x[i] == 0 && r[0].shape[i] != 0)
      value_error(c.name(), ": spatial axis ", i - 2, " of x is empty, got ", x, "; expected extent >= 1.");
  return r;
}
Types infer_adaptive_index(const Call& c) {
  Types r = infer_adaptive(c);
  const Ints in = spatial_of(c.type(0).shape);
  if (numel(Shape(in.begin(), in.end())) > INT32_MAX)
    value_error(c.name(), ": the input plane is too large for int32 positions, got ", c.type(0).shape, ".");
  r.push_back({DType::kInt32, r[0].shape});
  return r;
}
Types infer_avg_grad(const Call& c) {
  expect_float(c, 0);
  return {with_spatial(c.type(0), checked_size(c, "input_size", c.type(0).shape))};
}

enum class Case { kGlobal, kEven, kAny };
Case case_of(const Call& c, Ints* kernel) {
  const Ints in = spatial_of(c.type(0).shape), out = c.ints("output_size");
  bool global = true;
  for (uint32_t i = 0; i < in.size(); ++i) {
    if (out[i] == 0 || in[i] % out[i] != 0) return Case::kAny;
    global &= out[i] == 1;
    kernel->push_back(in[i] / out[i]);
  }
  return global ? Case::kGlobal : Case::kEven;
}
Values plain_pool(const char* op, const Call& c, const Ints& kernel) {
  return call_all(op, {c.in[0]},
                  {{"kernel_size", kernel}, {"stride", kernel}, {"padding", Ints(2 * kernel.size(), 0)}});
}

Values expand_avg(const Call& c) {
  Ints kernel;
  switch (case_of(c, &kernel)) {
    case Case::kGlobal: {
      Ints axes;
      for (int64_t i = 2; i < c.in[0].rank(); ++i) axes.push_back(i);
      return {call("mean", {c.in[0]}, {{"axis", axes}, {"keepdim", true}})};
    }
    case Case::kEven: return plain_pool("avg_pool", c, kernel);
    default: return {call("adaptive_avg_pool_any", {c.in[0]}, {{"output_size", c.ints("output_size")}})};
  }
}
Values expand_max_index(const Call& c) {
  Ints kernel;
  if (case_of(c, &kernel) != Case::kAny) return plain_pool("max_pool_with_index", c, kernel);
  return call_all("adaptive_max_pool_any", {c.in[0]}, {{"output_size", c.ints("output_size")}});
}
Values expand_max(const Call& c) {
  Ints kernel;
  if (case_of(c, &kernel) != Case::kAny) return plain_pool("max_pool", c, kernel);
  return {call_all("adaptive_max_pool_any", {c.in[0]}, {{"output_size", c.ints("output_size")}})[0]};
}

// ---- reference loops; every spatial rank as three dims ----
struct Plane {
  int64_t n[3] = {1, 1, 1};
  explicit Plane(const Ints& s) {
    for (uint32_t i = 0; i < s.size(); ++i) n[3 - s.size() + i] = s[i];
  }
  int64_t size() const { return n[0] * n[1] * n[2]; }
  int64_t offset(const Strides5& s, int64_t flat) const {
    return flat / (n[1] * n[2]) * s.d[0] + flat / n[2] % n[1] * s.d[1] + flat % n[2] * s.d[2];
  }
};
// Positions of adaptive window o, which covers [floor(o*in/out), ceil((o+1)*in/out)) along each axis.
template <class F>
void adaptive_window(const Plane& in, const Plane& out, int64_t o, F&& f) {
  const int64_t q[3] = {o / (out.n[1] * out.n[2]), o / out.n[2] % out.n[1], o % out.n[2]};
  int64_t lo[3], hi[3];
  for (int i = 0; i < 3; ++i) {
    lo[i] = static_cast<int64_t>(static_cast<__int128>(q[i]) * in.n[i] / out.n[i]);
    hi[i] = static_cast<int64_t>((static_cast<__int128>(q[i] + 1) * in.n[i] + out.n[i] - 1) / out.n[i]);
  }
  for (int64_t a = lo[0]; a < hi[0]; ++a)
    for (int64_t b = lo[1]; b < hi[1]; ++b)
      for (int64_t e = lo[2]; e < hi[2]; ++e) f((a * in.n[1] + b) * in.n[2] + e);
}
template <class F>
void each_plane(const Shape& s, F&& f) {
  for (int64_t n = 0; n < s[0]; ++n)
    for (int64_t c = 0; c < s[1]; ++c) f(n, c);
}

template <class E>
void avg_loop(const HostCall& h) {
  using T = typename E::T;
  const Plane in(spatial_of(h.in[0].shape)), out(spatial_of(h.out[0].shape));
  const Strides5 sx = strides5(h.in[0].strides), so = strides5(h.out[0].strides);
  each_plane(h.in[0].shape, [&](int64_t n, int64_t c) {
    for (int64_t o = 0; o < out.size(); ++o) {
      double acc = 0;
      int64_t count = 0;
      adaptive_window(in, out, o, [&](int64_t p) {
        acc += E::get(h.in[0].as<T>()[n * sx.n + c * sx.c + in.offset(sx, p)]), ++count;
      });
      h.out[0].as<T>()[n * so.n + c * so.c + out.offset(so, o)] = E::put(acc / static_cast<double>(count));
    }
  });
}
template <class E>
void avg_grad_loop(const HostCall& h) {
  using T = typename E::T;
  const Plane in(spatial_of(h.out[0].shape)), out(spatial_of(h.in[0].shape));
  const Strides5 sg = strides5(h.in[0].strides), so = strides5(h.out[0].strides);
  std::vector<double> plane(in.size());
  each_plane(h.out[0].shape, [&](int64_t n, int64_t c) {
    std::fill(plane.begin(), plane.end(), 0.0);
    for (int64_t o = 0; o < out.size(); ++o) {
      int64_t count = 0;
      adaptive_window(in, out, o, [&](int64_t) { ++count; });
      const double v =
          E::get(h.in[0].as<T>()[n * sg.n + c * sg.c + out.offset(sg, o)]) / static_cast<double>(count);
      adaptive_window(in, out, o, [&](int64_t p) { plane[p] += v; });
    }
    for (int64_t p = 0; p < in.size(); ++p)
      h.out[0].as<T>()[n * so.n + c * so.c + in.offset(so, p)] = E::put(plane[p]);
  });
}
template <class E>
void max_loop(const HostCall& h) {
  using T = typename E::T;
  const Plane in(spatial_of(h.in[0].shape)), out(spatial_of(h.out[0].shape));
  const Strides5 sx = strides5(h.in[0].strides), so = strides5(h.out[0].strides),
                 si = strides5(h.out[1].strides);
  each_plane(h.in[0].shape, [&](int64_t n, int64_t c) {
    for (int64_t o = 0; o < out.size(); ++o) {
      int64_t best = -1;
      double value = 0;
      adaptive_window(in, out, o, [&](int64_t p) {
        const double v = E::get(h.in[0].as<T>()[n * sx.n + c * sx.c + in.offset(sx, p)]);
        if (best < 0 || (!std::isnan(value) && (std::isnan(v) || v > value))) best = p, value = v;
      });
      h.out[0].as<T>()[n * so.n + c * so.c + out.offset(so, o)] = E::put(value);
      h.out[1].as<int32_t>()[n * si.n + c * si.c + out.offset(si, o)] = static_cast<int32_t>(best);
    }
  });
}

int64_t load_index(const HostCall& h, const HostOperand& idx, int64_t at, int64_t limit) {
  const int64_t p =
      load_int(static_cast<char*>(idx.data) + at * static_cast<int64_t>(dtype_size(idx.dtype)), idx.dtype);
  if (p < 0 || p >= limit)
    index_error(h.call.name(), ": index out of range, got ", p, "; expected 0 <= index < ", limit, ".");
  return p;
}
template <class E, bool add>
void scatter_loop(const HostCall& h) {
  using T = typename E::T;
  const Plane small(spatial_of(h.in[0].shape)), large(spatial_of(h.out[0].shape));
  const Strides5 sx = strides5(h.in[0].strides), si = strides5(h.in[1].strides),
                 so = strides5(h.out[0].strides);
  std::vector<double> plane(large.size());
  each_plane(h.in[0].shape, [&](int64_t n, int64_t c) {
    std::fill(plane.begin(), plane.end(), 0.0);
    for (int64_t o = 0; o < small.size(); ++o) {
      double& p = plane[load_index(h, h.in[1], n * si.n + c * si.c + small.offset(si, o), large.size())];
      const double v = E::get(h.in[0].as<T>()[n * sx.n + c * sx.c + small.offset(sx, o)]);
      p = add ? p + v : v;
    }
    for (int64_t p = 0; p < large.size(); ++p)
      h.out[0].as<T>()[n * so.n + c * so.c + large.offset(so, p)] = E::put(plane[p]);
  });
}
template <class E>
void gather_loop(const HostCall& h) {
  using T = typename E::T;
  const Plane large(spatial_of(h.in[0].shape)), small(spatial_of(h.in[1].shape));
  const Strides5 sx = strides5(h.in[0].strides), si = strides5(h.in[1].strides),
                 so = strides5(h.out[0].strides);
  each_plane(h.in[0].shape, [&](int64_t n, int64_t c) {
    for (int64_t o = 0; o < small.size(); ++o) {
      const int64_t p = load_index(h, h.in[1], n * si.n + c * si.c + small.offset(si, o), large.size());
      h.out[0].as<T>()[n * so.n + c * so.c + small.offset(so, o)] =
          h.in[0].as<T>()[n * sx.n + c * sx.c + large.offset(sx, p)];
    }
  });
}
void host_avg(const HostCall& h) {
  with_float(h.call, h.in[0].dtype, [&](auto e) { avg_loop<decltype(e)>(h); });
}
void host_avg_grad(const HostCall& h) {
  with_float(h.call, h.in[0].dtype, [&](auto e) { avg_grad_loop<decltype(e)>(h); });
}
void host_max(const HostCall& h) {
  with_float(h.call, h.in[0].dtype, [&](auto e) { max_loop<decltype(e)>(h); });
}
void host_unpool(const HostCall& h) {
  with_float(h.call, h.in[0].dtype, [&](auto e) { scatter_loop<decltype(e), false>(h); });
}
void host_scatter(const HostCall& h) {
  with_float(h.call, h.in[0].dtype, [&](auto e) { scatter_loop<decltype(e), true>(h); });
}
void host_gather(const HostCall& h) {
  with_float(h.call, h.in[0].dtype, [&](auto e) { gather_loop<decltype(e)>(h); });
}

void check_index(const Call& c, const TensorType& index) {
  if (!is_integer(index.dtype))
    type_error(c.name(), ": index has dtype ", index.dtype, "; expected an integer dtype.");
}
Types infer_scatter(const Call& c) {
  expect_float(c, 0);
  check_index(c, c.type(1));
  if (!(c.type(0).shape == c.type(1).shape))
    value_error(c.name(), ": shapes differ, got x ", c.type(0).shape, " and index ", c.type(1).shape,
                "; expected equal.");
  return {with_spatial(c.type(0), checked_size(c, "output_size", c.type(0).shape))};
}
Types infer_gather(const Call& c) {
  expect_float(c, 0);
  check_index(c, c.type(1));
  const Shape &x = c.type(0).shape, &i = c.type(1).shape;
  if (x.size() != i.size() || x.size() < 3 || x.size() > 5 || x[0] != i[0] || x[1] != i[1])
    value_error(c.name(), ": index does not match x, got ", i, " and ", x,
                "; expected equal rank, batch and channels.");
  return {{c.type(0).dtype, i}};
}
Value gathered(const Value& g, const Value& index) { return call("pool_gather", {g, index}); }
Value scattered(const Value& g, const Value& index, const Shape& x) {
  return call("pool_scatter", {g, index}, {{"output_size", spatial_of(x)}});
}

const Register rows{
    {.schema = "adaptive_avg_pool(Tensor x, int[] output_size) -> Tensor",
     .doc = "Mean over output_size windows per spatial dim, whose borders are rounded outwards.",
     .infer = infer_adaptive,
     .expand = expand_avg},
    {.schema = "adaptive_max_pool(Tensor x, int[] output_size) -> Tensor",
     .doc = "Maximum over output_size windows per spatial dim, whose borders are rounded outwards.",
     .infer = infer_adaptive,
     .expand = expand_max},
    {.schema = "adaptive_max_pool_with_index(Tensor x, int[] output_size) -> Tensor, Tensor",
     .doc = "adaptive_max_pool and the int32 position of each maximum in the flattened spatial plane of x.",
     .infer = infer_adaptive_index,
     .expand = expand_max_index},
    {.schema = "adaptive_avg_pool_any(Tensor x, int[] output_size) -> Tensor",
     .doc = "adaptive_avg_pool where the extents do not divide.",
     .infer = infer_adaptive,
     .host = host_avg,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("adaptive_avg_pool_grad", {g[0]}, {{"input_size", spatial_of(c.type(0).shape)}})};
     }},
    {.schema = "adaptive_avg_pool_grad(Tensor grad, int[] input_size) -> Tensor",
     .inner = true,
     .doc = "Gradient of adaptive_avg_pool_any.",
     .infer = infer_avg_grad,
     .host = host_avg_grad,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("adaptive_avg_pool_any", {g[0]}, {{"output_size", spatial_of(c.type(0).shape)}})};
     }},
    {.schema = "adaptive_max_pool_any(Tensor x, int[] output_size) -> Tensor, Tensor",
     .doc = "adaptive_max_pool_with_index where the extents do not divide.",
     .infer = infer_adaptive_index,
     .host = host_max,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {g[0] ? scattered(g[0], c.out(1), c.type(0).shape) : Value()};
     },
     .needs = "out1"},
    {.schema = "max_unpool(Tensor x, Tensor index, int[] output_size) -> Tensor",
     .doc = "Zeros with x written at the positions index of each flattened output plane.",
     .infer = infer_scatter,
     .host = host_unpool,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {gathered(g[0], c.in[1]), Value()};
     },
     .needs = "index",
     .checks = true},
    {.schema = "pool_scatter(Tensor x, Tensor index, int[] output_size) -> Tensor",
     .doc = "Zeros with x added at the positions index of each flattened output plane.",
     .infer = infer_scatter,
     .host = host_scatter,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {gathered(g[0], c.in[1]), Value()};
     },
     .needs = "index"},
    {.schema = "pool_gather(Tensor x, Tensor index) -> Tensor",
     .doc = "x at the positions index of each flattened plane.",
     .infer = infer_gather,
     .host = host_gather,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {scattered(g[0], c.in[1], c.type(0).shape), Value()};
     },
     .needs = "index"},
};

}  // namespace
}  // namespace yuloh
