// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: normalisation.
#include <cmath>

#include "formats/onnx_ops.h"

namespace yuloh::formats {
namespace {
Value per_channel(const Value& v, int64_t rank) {
  Shape s(static_cast<uint32_t>(rank), 1);
  s[1] = v.shape()[0];
  return reshape(v, s);
}
Ints axes_but_channel(int64_t rank) {
  Ints a;
  for (int64_t d = 0; d < rank; ++d)
    if (d != 1) a.push_back(d);
  return a;
}
void batch_norm(Import& i) {
  need(i, {2, 1, 1, 1, 1});
  const Value x = i.in(0), scale = i.in(1), bias = i.in(2);
  const double eps = i.real("epsilon", 1e-5), momentum = i.real("momentum", .9);
  if (!i.integer("training_mode", 0)) {
    if (x.dtype() == scale.dtype() && x.dtype() == i.in(3).dtype())
      return i.out(call("batch_norm_infer", {x, i.in(3), i.in(4), scale, bias}, {{"epsilon", eps}}));
    const DType t = i.in(3).dtype();
    const Value factor = to(scale, t) / sqrt(i.in(4) + eps);
    return i.out(to((to(x, t) - per_channel(i.in(3), x.rank())) * per_channel(factor, x.rank()) +
                        per_channel(to(bias, t), x.rank()),
                    x.dtype()));
  }
  const Ints axes = axes_but_channel(x.rank());
  const Value m = mean(x, axes, false), centred = x - per_channel(m, x.rank()),
              variance = mean(square(centred), axes, false);
  i.out(centred * per_channel(scale / sqrt(variance + eps), x.rank()) + per_channel(bias, x.rank()));
  i.out(1, i.in(3) * momentum + m * (1 - momentum));
  i.out(2, i.in(4) * momentum + variance * (1 - momentum));
}
// Over the axes from `axis` on, in float32 at least.
struct Normalised {
  Value y, mean, rstd;
};
Normalised normalise(const Value& x, int64_t axis, double eps, bool centre) {
  const Value f = is_half(x.dtype()) ? cast(x, DType::kFloat32) : x;
  Ints axes;
  for (int64_t d = axis; d < x.rank(); ++d) axes.push_back(d);
  Normalised r;
  if (centre) r.mean = yuloh::mean(f, axes);
  const Value c = centre ? f - r.mean : f;
  r.rstd = call("rsqrt", {yuloh::mean(square(c), axes) + eps});
  r.y = c * r.rstd;
  return r;
}
bool covers(const Value& v, const Value& x, int64_t axis) {
  return !v || (v.dtype() == x.dtype() && v.shape() == Shape(x.shape().begin() + axis, x.shape().end()));
}
void layer_norm(Import& i) {
  const Value x = i.in(0), scale = i.in_or_null(1), bias = i.in_or_null(2);
  const int64_t axis = axis_of(i, i.integer("axis", -1), x.rank());
  const double eps = i.real("epsilon", 1e-5);
  if (covers(scale, x, axis) && covers(bias, x, axis) && i.node.outputs.size() == 1)
    return i.out(call_all("layer_norm", {x, scale, bias}, {{"begin_axis", axis}, {"epsilon", eps}})[0]);
  const Normalised n = normalise(x, axis, eps, true);
  Value y = scale ? n.y * to(scale, n.y.dtype()) : n.y;
  if (bias) y = y + to(bias, y.dtype());
  i.out(to(y, x.dtype()));
  i.out(1, n.mean), i.out(2, n.rstd);
}
void rms_norm(Import& i) {
  const Value x = i.in(0), scale = i.in_or_null(1);
  const Normalised n =
      normalise(x, axis_of(i, i.integer("axis", -1), x.rank()), i.real("epsilon", 1e-5), false);
  i.out(scale ? to(n.y, x.dtype()) * to(scale, x.dtype()) : to(n.y, x.dtype()));
  i.out(1, n.rstd);
}
// com.microsoft: the sum of two inputs (and a bias) normalised; the sum is the fourth output.
void skip_norm(Import& i, bool centre) {
  need(i, {1, 1});
  Value x = i.in(0) + i.in(1);
  const size_t at = centre ? 4 : 3;
  if (i.has(at)) x = x + i.in(at);
  const Normalised n = normalise(x, x.rank() - 1, i.real("epsilon", 1e-12), centre);
  Value y = to(n.y, x.dtype()) * i.in(2);
  if (centre && i.has(3)) y = y + i.in(3);
  i.out(y);
  i.out(3, x);
}
void instance_norm(Import& i) {
  need(i, {3, 1, 1});
  const Value x = i.in(0);
  i.out(call_all("group_norm", {x, i.in(1), i.in(2)},
                 {{"num_groups", x.shape()[1]}, {"epsilon", i.real("epsilon", 1e-5)}})[0]);
}
void group_norm(Import& i) {
  need(i, {2, 1, 1});
  const Value x = i.in(0);
  Value scale = i.in(1), bias = i.in(2);
  const int64_t groups = bounded(i, "num_groups", 1, 1, 1 << 20), c = x.shape()[1];
  if (scale.shape()[0] == groups && groups != c) {
    auto spread = [&](const Value& v) {
      return reshape(broadcast_to(reshape(v, {groups, 1}), {groups, c / groups}), {c});
    };
    scale = spread(scale), bias = spread(bias);
  }
  i.out(call_all("group_norm", {x, scale, bias},
                 {{"num_groups", groups}, {"epsilon", i.real("epsilon", 1e-5)}})[0]);
}
void response_norm(Import& i) {
  need(i, {2});
  const Value x = i.in(0);
  const int64_t size = bounded(i, "size", 1, 1, 4096), c = x.shape()[1];
  const double alpha = i.real("alpha", 1e-4), beta = i.real("beta", .75), bias = i.real("bias", 1);
  Ints pairs(static_cast<uint32_t>(2 * x.rank()), 0);
  pairs[2] = (size - 1) / 2, pairs[3] = size - 1 - pairs[2];
  const Value p = call("pad_core", {square(x)}, {{"pairs", pairs}});
  Value total;
  for (int64_t k = 0; k < size; ++k) total = total ? total + narrow(p, 1, k, c) : narrow(p, 1, k, c);
  i.out(x / call("pow", {affine(total, alpha / static_cast<double>(size), bias), constant(beta, x.dtype())}));
}
void lp_norm(Import& i) {
  const Value x = i.in(0);
  const Ints axis{axis_of(i, i.integer("axis", -1), x.rank())};
  const Value n = i.integer("p", 2) == 1 ? sum(abs(x), axis) : sqrt(sum(square(x), axis));
  const Value zero = equal(n, constant_like(0, n));
  i.out(where(zero, constant_like(0, x), x / where(zero, constant_like(1, n), n)));
}
void mean_variance(Import& i) {
  const Value x = i.in(0);
  Ints axes = i.ints_attr("axes", {0, 2, 3});
  for (int64_t& a : axes) a = axis_of(i, a, x.rank());
  const Value c = x - mean(x, axes);
  i.out(c / (sqrt(mean(square(c), axes)) + 1e-9));
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"BatchNormalization", batch_norm},
                            {"LayerNormalization", layer_norm},
                            {"RMSNormalization", rms_norm},
                            {"com.microsoft.LayerNormalization", layer_norm},
                            {"SimplifiedLayerNormalization", rms_norm},
                            {"com.microsoft.SimplifiedLayerNormalization", rms_norm},
                            {"com.microsoft.SkipLayerNormalization", [](Import& i) { skip_norm(i, true); }},
                            {"com.microsoft.SkipSimplifiedLayerNormalization",
                             [](Import& i) { skip_norm(i, false); }},
                            {"InstanceNormalization", instance_norm},
                            {"GroupNormalization", group_norm},
                            {"LRN", response_norm},
                            {"LpNormalization", lp_norm},
                            {"MeanVarianceNormalization", mean_variance},
                        });
}  // namespace
}  // namespace yuloh::formats
