// SPDX-License-Identifier: Apache-2.0
// Running sums, products and extremes along an axis. Halves accumulate in float32, integers in int64.
#include <cmath>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

int64_t axis_of(const Call& c) { return normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size()); }

// Each lane forwards or backwards through `step(accumulator, value)`; the first value starts the accumulator.
template <class F>
void scan(const HostCall& h, bool reverse, F&& step) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const int64_t k = axis_of(h.call);
  const Lanes a(x, k), b(o, k);
  with_any(h.call.name(), o.dtype, [&](auto e) {
    using E = decltype(e);
    for (int64_t l = 0; l < a.count; ++l) {
      const auto* p = x.as<typename E::T>() + a.start(l);
      auto* q = o.as<typename E::T>() + b.start(l);
      typename E::C acc{};
      for (int64_t i = 0; i < a.length; ++i) {
        const int64_t at = reverse ? a.length - 1 - i : i;
        const auto v = E::get(p[at * a.stride]);
        acc = i == 0 ? v : step(acc, v);
        q[at * b.stride] = E::put(acc);
      }
    }
  });
}
template <class C>
C log_add(C a, C b) {
  const C m = a > b ? a : b;
  if (std::isinf(m) && m < 0) return m;
  if (std::isinf(m) || a != a || b != b) return a + b;
  return m + std::log1p(std::exp(-std::abs(a - b)));
}
void host_cumsum(const HostCall& h) {
  scan(h, h.call.flag("reverse"), [](auto a, auto v) { return a + v; });
}
void host_cumprod(const HostCall& h) {
  scan(h, false, [](auto a, auto v) { return a * v; });
}
void host_logcumsumexp(const HostCall& h) {
  scan(h, false, [](auto a, auto v) {
    if constexpr (std::is_floating_point_v<decltype(v)>) return log_add(a, v);
    else return a;
  });
}
// Running extreme with its position; of equal values the later one; NaN stays once met.
template <bool Max>
void host_extreme(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0], &p = h.out[1];
  const int64_t k = axis_of(h.call), isize = static_cast<int64_t>(dtype_size(p.dtype));
  const Lanes a(x, k), b(o, k);
  with_any(h.call.name(), x.dtype, [&](auto e) {
    using E = decltype(e);
    for (int64_t l = 0; l < a.count; ++l) {
      const auto* src = x.as<typename E::T>() + a.start(l);
      const int64_t start = b.start(l);
      typename E::C best{};
      int64_t where = 0;
      for (int64_t i = 0; i < a.length; ++i) {
        const auto v = E::get(src[i * a.stride]);
        if (i == 0 || (best == best && (v != v || (Max ? v >= best : v <= best)))) best = v, where = i;
        const int64_t at = start + i * b.stride;
        o.as<typename E::T>()[at] = E::put(best);
        store_int(p.as<char>() + at * isize, p.dtype, where);
      }
    }
  });
}
// d cumprod: dx_i = sum over j >= i of g_j * product over l <= j, l != i of x_l; prefix products times a
// suffix recurrence, so zeros need no special case.
void host_cumprod_grad(const HostCall& h) {
  const HostOperand &x = h.in[0], &g = h.in[1], &o = h.out[0];
  const int64_t k = axis_of(h.call);
  const Lanes a(x, k), b(g, k), d(o, k);
  with_float("cumprod", o.dtype, [&](auto e) {
    using E = decltype(e);
    using C = typename E::C;
    std::vector<C> v(static_cast<size_t>(a.length)), suffix(v.size() + 1);
    for (int64_t l = 0; l < a.count; ++l) {
      const auto* p = x.as<typename E::T>() + a.start(l);
      const auto* q = g.as<typename E::T>() + b.start(l);
      suffix[v.size()] = 0;  // suffix[i] = g_i + x_{i+1} g_{i+1} + x_{i+1} x_{i+2} g_{i+2} + ...
      for (int64_t i = a.length; i-- > 0;) {
        v[i] = E::get(p[i * a.stride]);
        suffix[i] = E::get(q[i * b.stride]) + (i + 1 < a.length ? v[i + 1] * suffix[i + 1] : C(0));
      }
      C prefix = 1;
      for (int64_t i = 0; i < a.length; ++i) {
        o.as<typename E::T>()[d.start(l) + i * d.stride] = E::put(prefix * suffix[i]);
        prefix *= v[i];
      }
    }
  });
}

Types infer_scan(const Call& c) { return axis_of(c), Types{c.type(0)}; }
Types infer_extreme(const Call& c) {
  axis_of(c);
  const DType t = c.dtype("dtype");
  if (t != DType::kInt32 && t != DType::kInt64)
    type_error(c.name(), ": dtype of the indices, got ", t, "; expected int32 or int64.");
  return {c.type(0), {t, c.type(0).shape}};
}
Values extreme_vjp(const Call& c, const Values& g) {
  if (!g[0]) return {Value()};
  return {call("take_along_axis_grad", {g[0], c.out(1)},
               {{"shape", to_ints(c.type(0).shape)}, {"axis", c.integer("axis")}, {"broadcast", false}})};
}
// Public forms: axis None flattens; dtype converts first; bool and int32 are summed in int64.
Types infer_public(const Call& c) {
  DType t = c.has("dtype") ? c.dtype("dtype") : c.type(0).dtype;
  if (!c.has("dtype") && c.name() == "cumsum" && (t == DType::kBool || t == DType::kInt32)) t = DType::kInt64;
  if (!c.has("dtype") && c.name() == "logcumsumexp") t = float_of(t);
  if (!c.has("axis")) return {{t, {numel(c.type(0).shape)}}};
  normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size());
  return {{t, c.type(0).shape}};
}
template <const char* const& Op>
Values public_body(const Call& c) {
  const TensorType t = infer_public(c)[0];
  const Value x = reshape(cast(c["x"], t.dtype), t.shape);
  return {call(Op, {x}, {{"axis", c.has("axis") ? c.integer("axis") : 0}})};
}
const char* const kSum = "cumsum_axis";
const char* const kProd = "cumprod_axis";
const char* const kLog = "logcumsumexp_axis";

const Register scans{
    {.schema = "cumsum_axis(Tensor x, int axis, bool reverse=False) -> Tensor",
     .doc = "Running sum along axis, from the end if reverse.",
     .infer = infer_scan,
     .host = host_cumsum,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("cumsum_axis", {g[0]}, {{"axis", c.integer("axis")}, {"reverse", !c.flag("reverse")}})};
     }},
    {.schema = "cumprod_axis(Tensor x, int axis) -> Tensor",
     .doc = "Running product along axis.",
     .infer = infer_scan,
     .host = host_cumprod,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("cumprod_grad", {c["x"], g[0]}, {{"axis", c.integer("axis")}})};
     },
     .needs = "x"},
    {.schema = "cumprod_grad(Tensor x, Tensor g, int axis) -> Tensor",
     .inner = true,
     .doc = "Gradient of cumprod; zeros in x need no care.",
     .infer = [](const Call& c) { return require_same_type(c, 0, 1), infer_scan(c); },
     .host = host_cumprod_grad},
    {.schema = "logcumsumexp_axis(Tensor x, int axis) -> Tensor",
     .doc = "log of the running sum of exp(x).",
     .infer = [](const Call& c) { return require_float(c, 0), infer_scan(c); },
     .host = host_logcumsumexp,
     .vjp = [](const Call& c, const Values& g) -> Values {  // dx_i = sum over j >= i of g_j exp(x_i - y_j)
       return {exp(c["x"]) *
               call("cumsum_axis", {g[0] * exp(-c.out())}, {{"axis", c.integer("axis")}, {"reverse", true}})};
     },
     .needs = "x out"},
    {.schema = "cummax_axis(Tensor x, int axis, dtype dtype) -> Tensor, Tensor",
     .doc = "Running maximum along axis and its position.",
     .infer = infer_extreme,
     .host = host_extreme<true>,
     .vjp = extreme_vjp,
     .needs = "out1"},
    {.schema = "cummin_axis(Tensor x, int axis, dtype dtype) -> Tensor, Tensor",
     .doc = "Running minimum along axis and its position.",
     .infer = infer_extreme,
     .host = host_extreme<false>,
     .vjp = extreme_vjp,
     .needs = "out1"},
    {.schema = "cumsum(Tensor x, int? axis=None, dtype? dtype=None) -> Tensor",
     .python = YULOH_BOTH("cumsum"),
     .doc = "Running sum along axis, over the flattened tensor when None.",
     .infer = infer_public,
     .expand = public_body<kSum>,
     .inplace_variant = true},
    {.schema = "cumprod(Tensor x, int? axis=None, dtype? dtype=None) -> Tensor",
     .python = YULOH_BOTH("cumprod"),
     .doc = "Running product along axis, over the flattened tensor when None.",
     .infer = infer_public,
     .expand = public_body<kProd>,
     .inplace_variant = true},
    {.schema = "logcumsumexp(Tensor x, int? axis=None, dtype? dtype=None) -> Tensor",
     .python = YULOH_BOTH("logcumsumexp"),
     .doc = "log of the running sum of exp(x) along axis, over the flattened tensor when None.",
     .infer = infer_public,
     .expand = public_body<kLog>},
};

template <int K>
Types infer_flat_extreme(const Call& c) {
  const Shape s = c.has("axis") ? c.type(0).shape : Shape{numel(c.type(0).shape)};
  return {{c.type(0).dtype, s}, {c.dtype("dtype"), s}};
}
Values flat_extreme(const Call& c, const char* op) {
  const Value x = c.has("axis") ? c["x"] : reshape(c["x"], {numel(c.type(0).shape)});
  return call_all(op, {x}, {{"axis", c.has("axis") ? c.integer("axis") : 0}, {"dtype", c.dtype("dtype")}});
}
const Register extremes{
    {.schema = "cummax(Tensor x, int? axis=None, dtype dtype=int64) -> Tensor, Tensor",
     .python = YULOH_BOTH("cummax"),
     .doc = "Running maximum and its position.",
     .infer = infer_flat_extreme<0>,
     .expand = [](const Call& c) { return flat_extreme(c, "cummax_axis"); }},
    {.schema = "cummin(Tensor x, int? axis=None, dtype dtype=int64) -> Tensor, Tensor",
     .python = YULOH_BOTH("cummin"),
     .doc = "Running minimum and its position.",
     .infer = infer_flat_extreme<1>,
     .expand = [](const Call& c) { return flat_extreme(c, "cummin_axis"); }},
};
}  // namespace
}  // namespace yuloh
