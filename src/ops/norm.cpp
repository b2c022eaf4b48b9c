// SPDX-License-Identifier: Apache-2.0
// Normalisation: batch, layer, group and root-mean-square norm as composites. Statistics are kept in f32 for
// half inputs (f64 for f64) and are outputs, so that gradient rules read them instead of computing them
// again. Everything but the statistics is elementwise or a reduction, so neighbours (relu, residual add) fuse
// with it in tile programs.
#include "ops/norm.h"

#include "ops/fn.h"
#include "ops/window.h"

namespace yuloh {
namespace {

// ---- small graph helpers ----
Value rstd_of(const Value& variance, double eps) { return call("norm_rstd", {variance}, {{"epsilon", eps}}); }
Value normalised(const Value& x, const Value& m, const Value& r, const Value& w, const Value& b) {
  if (w && b) return call("norm_affine", {x, m, r, w, b});
  if (w) return call("norm_scaled", {x, m, r, w});
  const Value y = call("norm_plain", {x, m, r});
  return b ? y + cast(b, y.dtype()) : y;
}
Ints axes_from(int64_t begin, int64_t end) {
  Ints r;
  for (int64_t i = begin; i < end; ++i) r.push_back(i);
  return r;
}
Ints all_but_channel(int64_t rank) {
  Ints r;
  for (int64_t i = 0; i < rank; ++i)
    if (i != 1) r.push_back(i);
  return r;
}
Shape channel_shape(const Shape& x) {
  Shape s(x.size(), 1);
  s[1] = x[1];
  return s;
}
void expect_shape(const Call& c, const char* arg, const Shape& want) {
  if (const Value v = c[arg]; v && !(v.shape() == want))
    value_error(c.name(), ": ", arg, " has shape ", v.shape(), "; expected ", want, " for x ",
                c.type(0).shape, ".");
}

// ---- channel moments: mean and biased variance over all axes but 1 ----
Types infer_moments(const Call& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 2, 5);
  const TensorType t{stat_dtype(c.type(0).dtype), {c.type(0).shape[1]}};
  return {t, t};
}
template <class E>
void moments_loop(const HostCall& h) {
  const HostOperand& x = h.in[0];
  const auto* p = x.as<typename E::T>();
  const int64_t count = x.shape[1] ? x.numel() / x.shape[1] : 0;
  // Every element of channel c, by walking all axes but 1 as digits of one number.
  const auto each = [&](int64_t c, auto&& f) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, at = c * x.strides[1];
      for (int64_t a = static_cast<int64_t>(x.shape.size()) - 1; a >= 0; --a)
        if (a != 1) at += rest % x.shape[a] * x.strides[a], rest /= x.shape[a];
      f(E::get(p[at]));
    }
  };
  for (int64_t c = 0; c < x.shape[1]; ++c) {
    double m = 0, v = 0;
    each(c, [&](double e) { m += e; });
    m /= static_cast<double>(count);
    each(c, [&](double e) { v += (e - m) * (e - m); });
    const auto put = [&](const HostOperand& o, double d) {
      store_double(static_cast<char*>(o.data) + c * static_cast<int64_t>(dtype_size(o.dtype)), o.dtype, d);
    };
    put(h.out[0], m), put(h.out[1], v / static_cast<double>(count));
  }
}
void host_moments(const HostCall& h) {
  with_float(h.call, h.in[0].dtype, [&](auto e) { moments_loop<decltype(e)>(h); });
}
double inverse_channel_count(const Shape& x) {
  return x[1] == 0 ? 0.0 : 1.0 / static_cast<double>(numel(x) / x[1]);
}
Value moments_dx(const Value& x, const Value& m, const Value& gm, const Value& gv) {
  const Shape s = channel_shape(x.shape());
  const Value mc = reshape(m, s);
  const Value zero = gm && gv ? Value() : zeros_like(mc);
  return call("moments_dx", {x, mc, gm ? reshape(gm, s) : zero, gv ? reshape(gv, s) : zero},
              {{"inverse_count", inverse_channel_count(x.shape())}});
}

// ---- batch norm ----
Types infer_batch(const Call& c) {
  Types r = infer_moments(c);
  expect_shape(c, "weight", {c.type(0).shape[1]});
  expect_shape(c, "bias", {c.type(0).shape[1]});
  return {c.type(0), r[0], r[1]};
}
Value per_channel(const Call& c, const char* arg) {
  const Value v = c[arg];
  return v ? reshape(v, channel_shape(c.type(0).shape)) : v;
}
Values expand_batch(const Call& c) {
  const Shape s = channel_shape(c.type(0).shape);
  const Values mv = call_all("channel_moments", {c.in[0]});
  const Value rstd = rstd_of(reshape(mv[1], s), c.real("epsilon"));
  return {normalised(c.in[0], reshape(mv[0], s), rstd, per_channel(c, "weight"), per_channel(c, "bias")),
          mv[0], mv[1]};
}
Values vjp_batch(const Call& c, const Values& g) {
  const Value &x = c.in[0], w = c["weight"], b = c["bias"], mean1 = c.out(1);
  const Shape s = channel_shape(x.shape());
  const Value m = reshape(mean1, s), r = rstd_of(reshape(c.out(2), s), c.real("epsilon"));
  Value gx, gw, gb;
  if (g[0]) {
    const Ints axes = all_but_channel(x.rank());
    const Value sum_g = sum(cast(g[0], m.dtype()), axes);
    const Value sum_gx = sum(call("norm_dot", {g[0], x, m, r}), axes);
    const Value weight = w ? reshape(w, s) : full(s, 1.0, m.dtype());
    gx = call("batch_norm_dx", {x, g[0], m, r, weight, sum_g, sum_gx},
              {{"inverse_count", inverse_channel_count(x.shape())}});
    if (w) gw = cast(reshape(sum_gx, w.shape()), w.dtype());
    if (b) gb = cast(reshape(sum_g, b.shape()), b.dtype());
  }
  if (g[1] || g[2]) {
    const Value extra = moments_dx(x, mean1, g[1], g[2]);
    gx = gx ? gx + extra : extra;
  }
  Values out{gx};
  if (w) out.push_back(gw);
  if (b) out.push_back(gb);
  return out;
}
Types infer_batch_infer(const Call& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 2, 5);
  for (const char* arg : {"mean", "variance", "weight", "bias"}) expect_shape(c, arg, {c.type(0).shape[1]});
  return {c.type(0)};
}
Values expand_batch_infer(const Call& c) {
  const DType t = stat_dtype(c.type(0).dtype);
  const Value r = rstd_of(cast(per_channel(c, "variance"), t), c.real("epsilon"));
  return {normalised(c.in[0], cast(per_channel(c, "mean"), t), r, per_channel(c, "weight"),
                     per_channel(c, "bias"))};
}

// ---- layer, group and rms norm: statistics over trailing axes of a (possibly reshaped) x ----
struct Stats {
  Value mean, rstd;  // keepdim
};
Stats stats_of(const Value& x, const Ints& axes, double eps) {
  const Value xs = cast(x, stat_dtype(x.dtype()));
  const Value m = mean(xs, axes);
  const Value d = xs - m;
  return {m, rstd_of(mean(d * d, axes), eps)};
}
// Input gradient from g (of the result) with the affine weight broadcastable to x.
Value dx(const Value& x, const Value& g, const Stats& s, const Value& w, const Ints& axes) {
  const Value gh = w ? call("norm_weighted", {g, w}) : cast(g, s.rstd.dtype());
  const Value s1 = mean(gh, axes), s2 = mean(call("norm_dot", {gh, x, s.mean, s.rstd}), axes);
  return call("norm_dx", {x, gh, s.mean, s.rstd, s1, s2});
}
double inverse_count(const Shape& x, const Ints& axes) {
  int64_t n = 1;
  for (int64_t a : axes) n *= x[a];
  return n == 0 ? 0.0 : 1.0 / static_cast<double>(n);
}
// What gradients of the statistics outputs add (double backward reaches them): rstd = (var + eps)^(-1/2), so
// d rstd / dx = -rstd^3 (x - mean) / n. Null gradients and a null mean (rms norm) are left out.
Value add_statistics(Value gx, const Value& x, const Stats& s, const Value& g_mean, const Value& g_rstd,
                     const Ints& axes) {
  const auto add = [&](const Value& v) { gx = gx ? gx + cast(v, x.dtype()) : cast(v, x.dtype()); };
  const double n = inverse_count(x.shape(), axes);
  if (g_mean) add(broadcast_to(reshape(g_mean, s.rstd.shape()) * n, x.shape()));
  if (g_rstd) {
    const Value xs = cast(x, s.rstd.dtype());
    add((s.mean ? xs - s.mean : xs) * (reshape(g_rstd, s.rstd.shape()) * (s.rstd * s.rstd * s.rstd) * -n));
  }
  return gx;
}
Value parameter_grad(const Value& per_element, const Ints& axes, const Value& p) {
  return cast(reshape(sum(per_element, axes), p.shape()), p.dtype());
}

int64_t begin_axis(const Call& c) {
  const int64_t rank = c.type(0).shape.size();
  return normalize_axis(c.name(), c.integer("begin_axis"), rank, "begin_axis");
}
Shape leading(const Call& c) {
  const Shape& x = c.type(0).shape;
  return Shape(x.begin(), x.begin() + begin_axis(c));
}
Shape trailing(const Call& c) {
  const Shape& x = c.type(0).shape;
  return Shape(x.begin() + begin_axis(c), x.end());
}
Shape keepdim(const Call& c) {
  Shape s = leading(c);
  s.resize(c.type(0).shape.size(), 1);
  return s;
}
Types infer_layer(const Call& c) {
  expect_float(c, 0);
  expect_shape(c, "weight", trailing(c));
  expect_shape(c, "bias", trailing(c));
  const TensorType stat{stat_dtype(c.type(0).dtype), leading(c)};
  return {c.type(0), stat, stat};
}
Values expand_layer(const Call& c) {
  const Stats s = stats_of(c.in[0], axes_from(begin_axis(c), c.in[0].rank()), c.real("epsilon"));
  const Shape lead = leading(c);
  return {normalised(c.in[0], s.mean, s.rstd, c["weight"], c["bias"]), reshape(s.mean, lead),
          reshape(s.rstd, lead)};
}
Values vjp_layer(const Call& c, const Values& g) {
  const Value &x = c.in[0], w = c["weight"], b = c["bias"];
  const Stats s{reshape(c.out(1), keepdim(c)), reshape(c.out(2), keepdim(c))};
  const int64_t begin = begin_axis(c);
  const Ints rows = axes_from(0, begin), axes = axes_from(begin, x.rank());
  Values out{add_statistics(g[0] ? dx(x, g[0], s, w, axes) : Value(), x, s, g[1], g[2], axes)};
  if (!g[0]) return out;
  if (w) out.push_back(parameter_grad(call("norm_dot", {g[0], x, s.mean, s.rstd}), rows, w));
  if (b) out.push_back(parameter_grad(cast(g[0], s.rstd.dtype()), rows, b));
  return out;
}

Types infer_group(const Call& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 2, 5);
  const Shape& x = c.type(0).shape;
  const int64_t g = c.integer("num_groups");
  if (g < 1 || x[1] % g != 0)
    value_error(c.name(), ": num_groups does not divide the channels, got ", g, " and x ", x,
                "; expected a divisor of ", x[1], ".");
  expect_shape(c, "weight", {x[1]});
  expect_shape(c, "bias", {x[1]});
  const TensorType stat{stat_dtype(c.type(0).dtype), {x[0], g}};
  return {c.type(0), stat, stat};
}
// x as [N, G, C / G, spatial...]: a view in either layout.
Shape grouped(const Call& c) {
  const Shape& x = c.type(0).shape;
  const int64_t g = c.integer("num_groups");
  Shape s{x[0], g, x[1] / g};
  for (uint32_t i = 2; i < x.size(); ++i) s.push_back(x[i]);
  return s;
}
Shape grouped_stat(const Call& c) {
  Shape s(c.type(0).shape.size() + 1, 1);
  s[0] = c.type(0).shape[0], s[1] = c.integer("num_groups");
  return s;
}
Value grouped_parameter(const Call& c, const char* arg) {
  const Value v = c[arg];
  if (!v) return v;
  Shape s(c.type(0).shape.size() + 1, 1);
  s[1] = c.integer("num_groups"), s[2] = c.type(0).shape[1] / s[1];
  return reshape(v, s);
}
Values expand_group(const Call& c) {
  const Value x = reshape(c.in[0], grouped(c));
  const Stats s = stats_of(x, axes_from(2, x.rank()), c.real("epsilon"));
  const Value y = normalised(x, s.mean, s.rstd, grouped_parameter(c, "weight"), grouped_parameter(c, "bias"));
  const Shape stat{c.type(0).shape[0], c.integer("num_groups")};
  return {reshape(y, c.type(0).shape), reshape(s.mean, stat), reshape(s.rstd, stat)};
}
Values vjp_group(const Call& c, const Values& g) {
  const Value w = c["weight"], b = c["bias"], x = reshape(c.in[0], grouped(c));
  const Stats s{reshape(c.out(1), grouped_stat(c)), reshape(c.out(2), grouped_stat(c))};
  const Ints within = axes_from(2, x.rank());
  const Value gy = g[0] ? reshape(g[0], grouped(c)) : Value();
  const Value gx = gy ? dx(x, gy, s, grouped_parameter(c, "weight"), within) : Value();
  Values out{reshape(add_statistics(gx, x, s, g[1], g[2], within), c.type(0).shape)};
  if (!gy) return out;
  Ints axes = axes_from(3, x.rank());
  axes.insert(0, 0);
  if (w) out.push_back(parameter_grad(call("norm_dot", {gy, x, s.mean, s.rstd}), axes, w));
  if (b) out.push_back(parameter_grad(cast(gy, s.rstd.dtype()), axes, b));
  return out;
}

Types infer_rms(const Call& c) {
  expect_float(c, 0);
  expect_shape(c, "weight", trailing(c));
  return {c.type(0), {stat_dtype(c.type(0).dtype), leading(c)}};
}
Values expand_rms(const Call& c) {
  const Value &x = c.in[0], w = c["weight"], xs = cast(x, stat_dtype(x.dtype()));
  const Value r = rstd_of(mean(xs * xs, axes_from(begin_axis(c), x.rank())), c.real("epsilon"));
  return {w ? call("rms_scaled", {x, r, w}) : call("rms_plain", {x, r}), reshape(r, leading(c))};
}
Values vjp_rms(const Call& c, const Values& g) {
  const Value &x = c.in[0], w = c["weight"], r = reshape(c.out(1), keepdim(c));
  const int64_t begin = begin_axis(c);
  const Ints axes = axes_from(begin, x.rank());
  Value gx;
  if (g[0]) {
    const Value gh = w ? call("norm_weighted", {g[0], w}) : cast(g[0], r.dtype());
    gx = call("rms_dx", {x, gh, r, mean(call("rms_dot", {gh, x, r}), axes)});
  }
  Values out{add_statistics(gx, x, {Value(), r}, Value(), g[1], axes)};
  if (g[0] && w) out.push_back(parameter_grad(call("rms_dot", {g[0], x, r}), axes_from(0, begin), w));
  return out;
}

const Register rows{
    {.schema = "channel_moments(Tensor x) -> Tensor, Tensor",
     .doc = "Mean and biased variance of every channel (axis 1), over all other axes.",
     .infer = infer_moments,
     .host = host_moments,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {moments_dx(c.in[0], c.out(0), g[0], g[1])};
     },
     .needs = "x out",
     .channels_last = true},
    {.schema = "batch_norm(Tensor x, Tensor? weight=None, Tensor? bias=None, float epsilon=1e-5) -> Tensor, "
               "Tensor, Tensor",
     .doc = "Training batch norm over axis 1: (y, batch mean, biased batch variance).",
     .infer = infer_batch,
     .expand = expand_batch,
     .vjp = vjp_batch,
     .needs = "x weight out1 out2"},
    {.schema = "batch_norm_infer(Tensor x, Tensor mean, Tensor variance, Tensor? weight=None, Tensor? "
               "bias=None, float "
               "epsilon=1e-5) -> Tensor",
     .doc = "Batch norm with given statistics.",
     .infer = infer_batch_infer,
     .expand = expand_batch_infer,
     .statistics = "mean variance"},
    {.schema = "running_stats_(Tensor! mean, Tensor! variance, Tensor batch_mean, Tensor batch_variance, "
               "value float momentum) -> "
               "Tensor, Tensor",
     .doc = "Moves batch norm's running statistics: momentum * running + (1 - momentum) * batch.",
     .infer = [](const Call& c) -> Types {
       for (uint32_t i = 0; i < 2; ++i)
         if (!(c.type(i).shape == c.type(i + 2).shape))
           value_error(c.name(), ": the batch statistics do not fit, got shape ", c.type(i + 2).shape,
                       "; expected ", c.type(i).shape, ".");
       return {c.type(0), c.type(1)};
     },
     .expand = [](const Call& c) -> Values {
       const auto moved = [&c](const Value& now, const Value& batch) {
         return call("moment_step", {now, cast(batch, now.dtype()), c["momentum"]});
       };
       return {moved(c["mean"], c["batch_mean"]), moved(c["variance"], c["batch_variance"])};
     },
     .no_grad = true},
    {.schema = "layer_norm(Tensor x, Tensor? weight=None, Tensor? bias=None, int begin_axis=-1, float "
               "epsilon=1e-5) -> "
               "Tensor, Tensor, Tensor",
     .doc = "Normalises over the axes from begin_axis on: (y, mean, 1 / standard deviation).",
     .infer = infer_layer,
     .expand = expand_layer,
     .vjp = vjp_layer,
     .needs = "x weight out1 out2"},
    {.schema = "group_norm(Tensor x, Tensor? weight=None, Tensor? bias=None, int num_groups=1, float "
               "epsilon=1e-5) -> "
               "Tensor, Tensor, Tensor",
     .doc = "Normalises each of num_groups channel groups of every sample: (y, mean [N, G], 1 / standard "
            "deviation [N, G]).",
     .infer = infer_group,
     .expand = expand_group,
     .vjp = vjp_group,
     .needs = "x weight out1 out2"},
    {.schema =
         "rms_norm(Tensor x, Tensor? weight=None, int begin_axis=-1, float epsilon=1e-5) -> Tensor, Tensor",
     .doc = "x / root mean square over the axes from begin_axis on: (y, 1 / root mean square).",
     .infer = infer_rms,
     .expand = expand_rms,
     .vjp = vjp_rms,
     .needs = "x weight out1"},
};

}  // namespace
}  // namespace yuloh
