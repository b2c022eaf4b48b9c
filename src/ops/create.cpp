// SPDX-License-Identifier: Apache-2.0
// Tensors from nothing or from the shape of another, copies and assignment, and the loop region.
#include <cmath>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {
using S = Scalar;

Types infer_full(const Call& c) {
  const DType t = c.dtype("dtype");
  if (!dtype_has_kernels(t)) type_error(c.name(), ": dtype is not supported, got ", t, ".");
  return {{t, shape_arg(c)}};
}
Types infer_fill(const Call& c) {
  DType t = c.has("dtype") ? c.dtype("dtype") : c.type(0).dtype;
  if (!c.has("dtype") && is_integer(t)) t = DType::kFloat32;
  return {{t, shape_arg(c)}};
}
Types infer_like(const Call& c) {
  return {{c.has("dtype") ? c.dtype("dtype") : c.type(0).dtype, c.type(0).shape}};
}

void host_iota(const HostCall& h) {
  const HostOperand& o = h.out[0];
  const int64_t n = o.numel(), size = static_cast<int64_t>(dtype_size(o.dtype));
  for (int64_t i = 0; i < n; ++i) store_int(o.as<char>() + i * size, o.dtype, i);
}

// start + i * step computed in double (int64 for integers), rounded once: no error accumulates.
void host_arange(const HostCall& h) {
  const HostOperand& o = h.out[0];
  const int64_t n = o.numel(), size = static_cast<int64_t>(dtype_size(o.dtype));
  const double a = h.call.real("start"), s = h.call.real("step");
  for (int64_t i = 0; i < n; ++i) {
    if (is_integral(o.dtype))
      store_int(o.as<char>() + i * size, o.dtype, static_cast<int64_t>(a) + i * static_cast<int64_t>(s));
    else store_double(o.as<char>() + i * size, o.dtype, a + static_cast<double>(i) * s);
  }
}
Types infer_arange(const Call& c) {
  const double a = c.real("start"), b = c.real("end"), s = c.real("step");
  if (s == 0 || !std::isfinite(s) || !std::isfinite(a) || !std::isfinite(b))
    value_error("arange: the range is not finite, got start ", a, ", end ", b, ", step ", s,
                "; expected finite values and a non-zero step.");
  const double n = std::ceil((b - a) / s);
  if (n > 9e15) value_error("arange: too many elements, got start ", a, ", end ", b, ", step ", s, ".");
  return {{c.dtype("dtype"), {n > 0 ? static_cast<int64_t>(n) : 0}}};
}
// From both ends towards the middle, so that the last value is exactly `stop`.
void host_linspace(const HostCall& h) {
  const HostOperand& o = h.out[0];
  const int64_t n = o.numel(), size = static_cast<int64_t>(dtype_size(o.dtype));
  const double a = h.call.real("start"), b = h.call.real("stop"),
               step = n > 1 ? (b - a) / static_cast<double>(n - 1) : 0;
  const double base = h.call.real("base");
  for (int64_t i = 0; i < n; ++i) {
    double v =
        i < n / 2 || n == 1 ? a + step * static_cast<double>(i) : b - step * static_cast<double>(n - 1 - i);
    if (base > 0) v = std::pow(base, v);
    if (is_integral(o.dtype)) store_int(o.as<char>() + i * size, o.dtype, static_cast<int64_t>(v));
    else store_double(o.as<char>() + i * size, o.dtype, v);
  }
}
Types infer_linspace(const Call& c) {
  if (c.integer("num") < 1)
    value_error(c.name(), ": num is not positive, got ", c.integer("num"), "; expected at least 1.");
  return {{c.dtype("dtype"), {c.integer("num")}}};
}
void host_eye(const HostCall& h) {
  const HostOperand& o = h.out[0];
  const int64_t r = o.shape[0], k = o.shape[1], size = static_cast<int64_t>(dtype_size(o.dtype));
  std::memset(o.data, 0, static_cast<size_t>(r * k * size));
  for (int64_t i = 0; i < std::min(r, k); ++i) store_int(o.as<char>() + (i * k + i) * size, o.dtype, 1);
}

const Register creation{
    {.schema = "full(int[] shape, float value, dtype dtype) -> Tensor",
     .doc = "A constant that is part of the structure; paddle.full is `fill`.",
     .infer = infer_full,
     .scalar = nullary([](const Call& c, const Scalar*) { return S(c.real("value")); }),
     .no_grad = true},
    {.schema = "fill(number value, int[] shape, dtype? dtype=None) -> Tensor",
     .doc = "A tensor of `shape` holding a run-time value.",
     .infer = infer_fill,
     .scalar = [](S v) { return v; },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {cast(sum_to(g[0], c.type(0).shape), c.type(0).dtype)};
     }},
    {.schema = "full_like(Tensor x, number fill_value, dtype? dtype=None) -> Tensor",
     .python = "paddle.full_like",
     .doc = "A tensor of the shape (and dtype, if None) of x filled with a value.",
     .infer = infer_like,
     .expand = [](const Call& c) -> Values {
       return {call("fill", {c["fill_value"]},
                    {{"shape", to_ints(c.type(0).shape)}, {"dtype", infer_like(c)[0].dtype}})};
     },
     .no_grad = true},
    {.schema = "zeros_like(Tensor x, dtype? dtype=None) -> Tensor",
     .python = "paddle.zeros_like",
     .doc = "Zeros of the shape (and dtype, if None) of x.",
     .infer = infer_like,
     .expand = [](const Call& c) -> Values { return {full(c.type(0).shape, 0, infer_like(c)[0].dtype)}; },
     .no_grad = true},
    {.schema = "ones_like(Tensor x, dtype? dtype=None) -> Tensor",
     .python = "paddle.ones_like",
     .doc = "Ones of the shape (and dtype, if None) of x.",
     .infer = infer_like,
     .expand = [](const Call& c) -> Values { return {full(c.type(0).shape, 1, infer_like(c)[0].dtype)}; },
     .no_grad = true},
    {.schema = "iota(int[] shape, int axis, dtype dtype) -> Tensor",
     .doc = "0, 1, 2... along `axis`; all other extents are 1.",
     .infer = infer_full,
     .host = host_iota,
     .no_grad = true},
    {.schema = "arange_static(float start, float end, float step, dtype dtype) -> Tensor",
     .doc = "start, start + step, ... below end; paddle.arange is made of it.",
     .infer = infer_arange,
     .host = host_arange,
     .no_grad = true},
    {.schema = "linspace_static(float start, float stop, int num, float base, dtype dtype) -> Tensor",
     .doc = "num evenly spaced values from start to stop, as powers of base when base > 0.",
     .infer = infer_linspace,
     .host = host_linspace,
     .no_grad = true},
    {.schema = "eye_static(int num_rows, int num_columns, dtype dtype) -> Tensor",
     .doc = "Ones on the diagonal.",
     .infer = [](const Call& c) -> Types {
       if (c.integer("num_rows") < 0 || c.integer("num_columns") < 0)
         value_error("eye: negative extent, got ", c.integer("num_rows"), " rows and ",
                     c.integer("num_columns"), " columns.");
       return {{c.dtype("dtype"), {c.integer("num_rows"), c.integer("num_columns")}}};
     },
     .host = host_eye,
     .no_grad = true},
};

Types infer_assign_to(const Call& c) {
  if (!(broadcast_shapes("assign_", c.type(0).shape, c.type(1).shape) == c.type(0).shape))
    value_error("assign_: the value does not fit, got shape ", c.type(1).shape,
                "; expected something that broadcasts to ", c.type(0).shape, ".");
  return {c.type(0)};
}
Types infer_loop(const Call& c) {
  Types t;
  const int64_t n = c.integer("n_carried");
  if (n < 0 || n > c.n_in) fail(ErrorKind::kRuntime, "loop: ", n, " carried values of ", c.n_in, " inputs.");
  for (int64_t i = 0; i < n; ++i) t.push_back(c.type(static_cast<uint32_t>(i)));
  return t;
}

const Register copies{
    {.schema = "assign(Tensor x) -> Tensor",
     .python = "paddle.clone paddle.Tensor.clone",
     .doc = "A copy of x; gradients pass through.",
     .infer = like_first,
     .scalar = [](S x) { return x; }},
    {.schema = "assign_(Tensor! x, Tensor value) -> Tensor",
     .doc = "x becomes value, broadcast to the shape and converted to the dtype of x.",
     .infer = infer_assign_to,
     .expand = [](const Call& c) -> Values {
       const Value v = cast(c["value"], c.type(0).dtype);
       return {v.shape() == c.type(0).shape ? un("assign", v)
                                            : un("assign", broadcast_to(v, c.type(0).shape))};
     }},
    {.schema = "loop(Tensor[] xs, int n_carried, int trips) -> Tensor[]",
     .inner = true,
     .doc = "Runs the body graph `trips` times; the first n_carried inputs go round, the others stay.",
     .infer = infer_loop},
};
}  // namespace
}  // namespace yuloh
