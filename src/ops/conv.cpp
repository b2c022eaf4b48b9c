// SPDX-License-Identifier: Apache-2.0
// Convolution over 1 to 3 spatial dims: `conv` and its two gradients. The three rows are closed under
// differentiation (each gradient is made of the other two), so double backward needs nothing more. A
// transposed convolution is the input gradient of a convolution. Library kernels: cpu/onednn_conv.cpp; the
// loops here are the reference. x is N, C, spatial...; weight is O, C / groups, kernel...
#include "ops/fn.h"
#include "ops/infer.h"
#include "ops/window.h"

namespace yuloh {
namespace {

int64_t groups_of(const Call& c, int64_t channels, int64_t outputs) {
  const int64_t g = c.integer("groups");
  if (g < 1 || channels % g != 0 || outputs % g != 0)
    value_error(c.name(), ": groups does not divide the channels, got groups ", g, ", ", channels,
                " input channels and ", outputs, " output channels; expected a positive common divisor.");
  return g;
}

void check_weight(const Call& c, int64_t channels, const Shape& weight, int64_t groups) {
  if (weight[1] * groups != channels)
    value_error(c.name(), ": weight does not match the input channels, got input channels ", channels,
                ", weight ", weight, " and groups ", groups,
                "; expected weight.shape[1] * groups == input channels.");
}

Ints out_spatial(const Call& c, const Window& w, const Ints& in) {
  Ints out;
  for (int i = 0; i < w.n; ++i) out.push_back(window_output(c, w, i, in[i]));
  return out;
}

TensorType type_of(DType t, int64_t a, int64_t b, const Ints& spatial) {
  TensorType r{t, {a, b}};
  for (int64_t d : spatial) r.shape.push_back(d);
  numel(r.shape);  // overflow check
  return r;
}

void check_pair(const Call& c) {
  expect_float(c, 0);
  expect_same_dtype(c, 0, 1);
  expect_rank(c, 0, 3, 5);
  expect_same_rank(c, 0, 1);
}

Types infer_conv(const Call& c) {
  check_pair(c);
  const Shape &x = c.type(0).shape, &weight = c.type(1).shape;
  const Window w = window_of(c, spatial_of(weight));
  check_weight(c, x[1], weight, groups_of(c, x[1], weight[0]));
  return {type_of(c.type(0).dtype, x[0], weight[0], out_spatial(c, w, spatial_of(x)))};
}

void check_grad(const Call& c, const Window& w, const Ints& input, const Shape& grad) {
  const Ints out = out_spatial(c, w, input);
  if (!(out == spatial_of(grad)))
    value_error(c.name(), ": grad does not match the window, got grad ", grad, " and an input of ",
                to_string(input), "; expected spatial extents ", to_string(out), ".");
}

Types infer_grad_input(const Call& c) {
  check_pair(c);
  const Shape &grad = c.type(0).shape, &weight = c.type(1).shape;
  const Ints input = c.ints("input_size");
  const int64_t channels = weight[1] * c.integer("groups");
  const Window w = window_of(c, spatial_of(weight));
  if (static_cast<int>(input.size()) != w.n)
    value_error(c.name(), ": input_size has ", input.size(), " entries; expected ", w.n, ".");
  groups_of(c, channels, weight[0]);
  if (grad[1] != weight[0])
    value_error(c.name(), ": channels differ, got grad ", grad, " and weight ", weight,
                "; expected grad.shape[1] == weight.shape[0].");
  check_grad(c, w, input, grad);
  return {type_of(c.type(0).dtype, grad[0], channels, input)};
}

Types infer_grad_weight(const Call& c) {
  check_pair(c);
  const Shape &x = c.type(0).shape, &grad = c.type(1).shape;
  const Ints kernel = c.ints("kernel_size");
  const Window w = window_of(c, kernel);
  const int64_t g = groups_of(c, x[1], grad[1]);
  if (x[0] != grad[0])
    value_error(c.name(), ": batch sizes differ, got x ", x, " and grad ", grad,
                "; expected equal shape[0].");
  check_grad(c, w, spatial_of(x), grad);
  return {type_of(c.type(0).dtype, grad[1], x[1] / g, kernel)};
}

bool wanted(const Call& c, int i) { return c.in[i].requires_grad(); }

// ---- gradients: the window attributes travel along unchanged ----
Value grad_input(const Call& c, const Value& g, const Value& weight, const Ints& input) {
  return call("conv_grad_input", {g, weight},
              {{"input_size", input},
               {"stride", c.ints("stride")},
               {"padding", c.ints("padding")},
               {"dilation", c.ints("dilation")},
               {"groups", c.integer("groups")}});
}
Value grad_weight(const Call& c, const Value& x, const Value& g, const Ints& kernel) {
  return call("conv_grad_weight", {x, g},
              {{"kernel_size", kernel},
               {"stride", c.ints("stride")},
               {"padding", c.ints("padding")},
               {"dilation", c.ints("dilation")},
               {"groups", c.integer("groups")}});
}
Value forward(const Call& c, const Value& x, const Value& weight) {
  return call("conv", {x, weight},
              {{"stride", c.ints("stride")},
               {"padding", c.ints("padding")},
               {"dilation", c.ints("dilation")},
               {"groups", c.integer("groups")}});
}

// ---- reference loops ----
struct Geometry {
  Window3 w;
  int64_t batch, groups, ic, oc;  // ic, oc: per group
  Strides5 x, wt, y;              // wt.n = stride over O, wt.c = stride over I / groups
};

template <class F>
void taps(const Window3& w, F&& f) {
  for (int64_t a = 0; a < w.k[0]; ++a)
    for (int64_t b = 0; b < w.k[1]; ++b)
      for (int64_t e = 0; e < w.k[2]; ++e) f(a, b, e);
}
template <class F>
void positions(const int64_t n[3], F&& f) {
  for (int64_t a = 0; a < n[0]; ++a)
    for (int64_t b = 0; b < n[1]; ++b)
      for (int64_t e = 0; e < n[2]; ++e) f(a, b, e);
}
int64_t at(const Strides5& s, int64_t n, int64_t c, int64_t a, int64_t b, int64_t e) {
  return n * s.n + c * s.c + a * s.d[0] + b * s.d[1] + e * s.d[2];
}
bool inside(const int64_t p[3], const int64_t n[3]) {
  return p[0] >= 0 && p[0] < n[0] && p[1] >= 0 && p[1] < n[1] && p[2] >= 0 && p[2] < n[2];
}

template <class E>
void loop_forward(const Geometry& g, const typename E::T* x, const typename E::T* wt, typename E::T* y) {
  const Window3& w = g.w;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t o = 0; o < g.groups * g.oc; ++o)
      positions(w.out, [&](int64_t a, int64_t b, int64_t e) {
        double acc = 0;
        taps(w, [&](int64_t i, int64_t j, int64_t k) {
          const int64_t p[3] = {a * w.s[0] - w.p[0] + i * w.d[0], b * w.s[1] - w.p[1] + j * w.d[1],
                                e * w.s[2] - w.p[2] + k * w.d[2]};
          if (!inside(p, w.in)) return;
          for (int64_t c = 0; c < g.ic; ++c)
            acc += E::get(x[at(g.x, n, o / g.oc * g.ic + c, p[0], p[1], p[2])]) *
                   E::get(wt[at(g.wt, o, c, i, j, k)]);
        });
        y[at(g.y, n, o, a, b, e)] = E::put(acc);
      });
}

template <class E>
void loop_grad_input(const Geometry& g, typename E::T* x, const typename E::T* wt, const typename E::T* y) {
  const Window3& w = g.w;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t c = 0; c < g.groups * g.ic; ++c)
      positions(w.in, [&](int64_t a, int64_t b, int64_t e) {
        double acc = 0;
        taps(w, [&](int64_t i, int64_t j, int64_t k) {
          int64_t q[3] = {a + w.p[0] - i * w.d[0], b + w.p[1] - j * w.d[1], e + w.p[2] - k * w.d[2]};
          for (int t = 0; t < 3; ++t) {
            if (q[t] < 0 || q[t] % w.s[t] != 0) return;
            q[t] /= w.s[t];
          }
          if (!inside(q, w.out)) return;
          const int64_t o0 = c / g.ic * g.oc;
          for (int64_t o = o0; o < o0 + g.oc; ++o)
            acc += E::get(y[at(g.y, n, o, q[0], q[1], q[2])]) * E::get(wt[at(g.wt, o, c % g.ic, i, j, k)]);
        });
        x[at(g.x, n, c, a, b, e)] = E::put(acc);
      });
}

template <class E>
void loop_grad_weight(const Geometry& g, const typename E::T* x, typename E::T* wt, const typename E::T* y) {
  const Window3& w = g.w;
  for (int64_t o = 0; o < g.groups * g.oc; ++o)
    for (int64_t c = 0; c < g.ic; ++c)
      taps(w, [&](int64_t i, int64_t j, int64_t k) {
        double acc = 0;
        for (int64_t n = 0; n < g.batch; ++n)
          positions(w.out, [&](int64_t a, int64_t b, int64_t e) {
            const int64_t p[3] = {a * w.s[0] - w.p[0] + i * w.d[0], b * w.s[1] - w.p[1] + j * w.d[1],
                                  e * w.s[2] - w.p[2] + k * w.d[2]};
            if (!inside(p, w.in)) return;
            acc += E::get(x[at(g.x, n, o / g.oc * g.ic + c, p[0], p[1], p[2])]) *
                   E::get(y[at(g.y, n, o, a, b, e)]);
          });
        wt[at(g.wt, o, c, i, j, k)] = E::put(acc);
      });
}

Geometry geometry(const HostCall& h, const HostOperand& x, const HostOperand& wt, const HostOperand& y) {
  const Window w = window_of(h.call, spatial_of(wt.shape));
  Geometry g;
  g.w = window3(w, spatial_of(x.shape), spatial_of(y.shape));
  g.groups = h.call.integer("groups");
  g.batch = x.shape[0];
  g.ic = x.shape[1] / g.groups;
  g.oc = y.shape[1] / g.groups;
  g.x = strides5(x.strides), g.wt = strides5(wt.strides), g.y = strides5(y.strides);
  return g;
}

void host_conv(const HostCall& h) {
  const Geometry g = geometry(h, h.in[0], h.in[1], h.out[0]);
  with_float(h.call, h.in[0].dtype, [&](auto e) {
    using E = decltype(e);
    using T = typename E::T;
    loop_forward<E>(g, h.in[0].as<T>(), h.in[1].as<T>(), h.out[0].as<T>());
  });
}
void host_grad_input(const HostCall& h) {
  const Geometry g = geometry(h, h.out[0], h.in[1], h.in[0]);
  with_float(h.call, h.in[0].dtype, [&](auto e) {
    using E = decltype(e);
    using T = typename E::T;
    loop_grad_input<E>(g, h.out[0].as<T>(), h.in[1].as<T>(), h.in[0].as<T>());
  });
}
void host_grad_weight(const HostCall& h) {
  const Geometry g = geometry(h, h.in[0], h.out[0], h.in[1]);
  with_float(h.call, h.in[0].dtype, [&](auto e) {
    using E = decltype(e);
    using T = typename E::T;
    loop_grad_weight<E>(g, h.in[0].as<T>(), h.out[0].as<T>(), h.in[1].as<T>());
  });
}

// ---- transposed convolution ----
int64_t transposed_extent(const Call& c, const Window& w, int i, int64_t x, int64_t extra) {
  // More than the stride would be output that no window of the forward convolution reaches.
  if (extra < 0 || extra >= w.stride[i])
    value_error(c.name(), ": output_padding is out of range along spatial axis ", i, ", got ", extra,
                "; expected 0 <= output_padding < stride = ", w.stride[i], ".");
  int64_t a, b, r;
  if (__builtin_mul_overflow(x - 1, w.stride[i], &a) ||
      __builtin_mul_overflow(w.kernel[i] - 1, w.dilation[i], &b) || __builtin_add_overflow(a, b, &r) ||
      __builtin_add_overflow(r, 1 + extra, &r))
    value_error(c.name(), ": output extent overflows along spatial axis ", i, ".");
  r -= w.pad_begin[i] + w.pad_end[i];
  if (r < 0 || x < 1)
    value_error(c.name(), ": output extent is negative along spatial axis ", i, ", got ", r, " from input ",
                x, "; expected less padding.");
  return r;
}

Ints transposed_spatial(const Call& c) {
  const Shape &x = c.type(0).shape, &weight = c.type(1).shape;
  const Window w = window_of(c, spatial_of(weight));
  const Ints extra = c.ints("output_padding");
  if (static_cast<int>(extra.size()) != w.n)
    value_error(c.name(), ": output_padding has ", extra.size(), " entries; expected ", w.n, ".");
  Ints out;
  for (int i = 0; i < w.n; ++i) out.push_back(transposed_extent(c, w, i, x[2 + i], extra[i]));
  return out;
}

Types infer_transpose(const Call& c) {
  check_pair(c);
  const Shape &x = c.type(0).shape, &weight = c.type(1).shape;
  const int64_t g = c.integer("groups");
  if (g < 1 || x[1] != weight[0] || x[1] % g != 0)
    value_error(c.name(), ": weight does not match the input channels, got x ", x, ", weight ", weight,
                " and groups ", g, "; expected weight.shape[0] == x.shape[1], a multiple of groups.");
  return {type_of(c.type(0).dtype, x[0], weight[1] * g, transposed_spatial(c))};
}

Values expand_transpose(const Call& c) { return {grad_input(c, c.in[0], c.in[1], transposed_spatial(c))}; }

Types infer_bias(const Call& c) {
  const Shape &x = c.type(0).shape, &b = c.type(1).shape;
  if (x.size() < 2 || b.size() != 1 || b[0] != x[1])
    value_error(c.name(), ": bias does not fit, got x ", x, " and bias ", b,
                "; expected one value per channel.");
  return like_first(c);
}

const Register rows{
    {.schema =
         "conv(Tensor x, Tensor weight, int[] stride, int[] padding, int[] dilation, int groups=1) -> Tensor",
     .doc = "Convolution over 1 to 3 spatial dims. x [N, C, spatial...], weight [O, C / groups, kernel...], "
            "padding = "
            "begin and end per spatial dim. Result [N, O, spatial...].",
     .infer = infer_conv,
     .host = host_conv,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {wanted(c, 0) ? grad_input(c, g[0], c.in[1], spatial_of(c.type(0).shape)) : Value(),
               wanted(c, 1) ? grad_weight(c, c.in[0], g[0], spatial_of(c.type(1).shape)) : Value()};
     },
     .needs = "x weight",
     .channels_last = true,
     .kind = "conv",
     .contraction = true,
     .channel_axis = [](const Call&) -> int64_t { return 0; },
     .eager = {.copies = 1}},  // reordered ones of channels-first tensors
    {.schema = "channel_bias(Tensor x, Tensor bias) -> Tensor",
     .doc = "x [N, C, spatial...] + bias [C] in the dtype of x.",
     .infer = infer_bias,
     .expand = [](const Call& c) -> Values {
       Shape s(c.type(0).shape.size() - 1, 1);
       s[0] = c.type(1).shape[0];
       return {c.in[0] + reshape(cast(c.in[1], c.in[0].dtype()), s)};
     }},
    {.schema = "conv_grad_input(Tensor grad, Tensor weight, int[] input_size, int[] stride, int[] padding, "
               "int[] dilation, "
               "int groups=1) -> Tensor",
     .inner = true,
     .doc = "Gradient of conv with respect to x, whose spatial extents are input_size.",
     .infer = infer_grad_input,
     .host = host_grad_input,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {forward(c, g[0], c.in[1]), grad_weight(c, g[0], c.in[0], spatial_of(c.type(1).shape))};
     },
     .needs = "grad weight",
     .channels_last = true,
     .kind = "conv",
     .eager = {.copies = 1}},
    {.schema = "conv_grad_weight(Tensor x, Tensor grad, int[] kernel_size, int[] stride, int[] padding, "
               "int[] dilation, "
               "int groups=1) -> Tensor",
     .inner = true,
     .doc = "Gradient of conv with respect to weight, whose spatial extents are kernel_size.",
     .infer = infer_grad_weight,
     .host = host_grad_weight,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {grad_input(c, c.in[1], g[0], spatial_of(c.type(0).shape)), forward(c, c.in[0], g[0])};
     },
     .needs = "x grad",
     .channels_last = true,
     .kind = "conv",
     .eager = {.copies = 1}},
    {.schema = "conv_transpose(Tensor x, Tensor weight, int[] stride, int[] padding, int[] output_padding, "
               "int[] dilation, "
               "int groups=1) -> Tensor",
     .doc = "Transposed convolution: the input gradient of conv. weight [C, O / groups, kernel...].",
     .infer = infer_transpose,
     .expand = expand_transpose,
     .contraction = true,
     .channel_axis = [](const Call& c) -> int64_t { return c.integer("groups") == 1 ? 1 : -1; }},
};

}  // namespace
}  // namespace yuloh
