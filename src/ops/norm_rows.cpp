// SPDX-License-Identifier: Apache-2.0
// The elementwise rows that normalisation (norm.cpp) is made of. One row each, so that a normalisation is one
// node in a tile program and rounds once; their gradients are derived.
#include "ops/infer.h"
#include "ops/norm.h"

namespace yuloh {

DType stat_dtype(DType t) { return t == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

namespace {

// ---- elementwise rows. x, g in the tensor's dtype; mean, rstd, s1, s2 broadcast statistics ----
Shape broadcast_all(const Call& c) {
  Shape s = c.type(0).shape;
  for (uint32_t i = 1; i < c.n_in; ++i) s = broadcast_shapes(c.name(), s, c.type(i).shape);
  return s;
}
Types like_first(const Call& c) { return {{c.type(0).dtype, broadcast_all(c)}}; }
Types as_stat(const Call& c) { return {{stat_dtype(c.type(0).dtype), broadcast_all(c)}}; }

const Register scalars{
    {.schema = "norm_rstd(Tensor variance, float epsilon) -> Tensor",
     .inner = true,
     .doc = "1 / sqrt(variance + epsilon).",
     .infer = like_first,
     .scalar = [](const Call& c, Scalar v) { return Scalar(1.0f) / sqrt(v + Scalar(c.real("epsilon"))); }},
    {.schema = "norm_plain(Tensor x, Tensor mean, Tensor rstd) -> Tensor",
     .inner = true,
     .doc = "(x - mean) * rstd in the dtype of x.",
     .infer = like_first,
     .scalar = [](Scalar x, Scalar m, Scalar r) { return (x - m) * r; }},
    {.schema = "norm_scaled(Tensor x, Tensor mean, Tensor rstd, Tensor weight) -> Tensor",
     .inner = true,
     .doc = "(x - mean) * rstd * weight in the dtype of x.",
     .infer = like_first,
     .scalar = [](Scalar x, Scalar m, Scalar r, Scalar w) { return (x - m) * r * w; }},
    {.schema = "norm_affine(Tensor x, Tensor mean, Tensor rstd, Tensor weight, Tensor bias) -> Tensor",
     .inner = true,
     .doc = "(x - mean) * rstd * weight + bias in the dtype of x.",
     .infer = like_first,
     .scalar = [](Scalar x, Scalar m, Scalar r, Scalar w, Scalar b) { return (x - m) * r * w + b; }},
    {.schema = "norm_dot(Tensor g, Tensor x, Tensor mean, Tensor rstd) -> Tensor",
     .inner = true,
     .doc = "g * (x - mean) * rstd in the dtype of the statistics.",
     .infer = as_stat,
     .scalar = [](Scalar g, Scalar x, Scalar m, Scalar r) { return g * ((x - m) * r); }},
    {.schema = "norm_relu_grad(Tensor x, Tensor mean, Tensor rstd, Tensor weight, Tensor bias, Tensor g, "
               "bool six=False) -> "
               "Tensor",
     .inner = true,
     .doc =
         "g where norm_affine(x, ...) is above 0 (and below 6), else 0: relu's gradient without its result "
         "(passes/rules.cpp).",
     .infer = like_first,
     .scalar =
         [](const Call& c, Scalar x, Scalar m, Scalar r, Scalar w, Scalar b, Scalar g) {
           const Scalar y = (x - m) * r * w + b;
           const Scalar below = c.flag("six") ? select(y < Scalar(6), g, Scalar(0)) : g;
           return select(y > Scalar(0), below, Scalar(0));
         },
     .no_grad = true},
    {.schema = "norm_weighted(Tensor g, Tensor weight) -> Tensor",
     .inner = true,
     .doc = "g * weight in the dtype of the statistics.",
     .infer = as_stat,
     .scalar = [](Scalar g, Scalar w) { return g * w; }},
    {.schema = "norm_dx(Tensor x, Tensor g, Tensor mean, Tensor rstd, Tensor s1, Tensor s2) -> Tensor",
     .inner = true,
     .doc = "rstd * (g - s1 - (x - mean) * rstd * s2) in the dtype of x.",
     .infer = like_first,
     .scalar = [](Scalar x, Scalar g, Scalar m, Scalar r, Scalar s1,
                  Scalar s2) { return r * (g - s1 - (x - m) * r * s2); }},
    {.schema = "batch_norm_dx(Tensor x, Tensor g, Tensor mean, Tensor rstd, Tensor weight, Tensor sum_g, "
               "Tensor sum_gx, "
               "float inverse_count) -> Tensor",
     .inner = true,
     .doc = "Input gradient of batch_norm from its two channel sums.",
     .infer = like_first,
     .scalar =
         [](const Call& c, Scalar x, Scalar g, Scalar m, Scalar r, Scalar w, Scalar sg, Scalar sgx) {
           const Scalar n(c.real("inverse_count"));
           return w * r * (g - sg * n - (x - m) * r * (sgx * n));
         }},
    {.schema = "rms_scaled(Tensor x, Tensor rstd, Tensor weight) -> Tensor",
     .inner = true,
     .doc = "x * rstd * weight in the dtype of x.",
     .infer = like_first,
     .scalar = [](Scalar x, Scalar r, Scalar w) { return x * r * w; }},
    {.schema = "rms_plain(Tensor x, Tensor rstd) -> Tensor",
     .inner = true,
     .doc = "x * rstd in the dtype of x.",
     .infer = like_first,
     .scalar = [](Scalar x, Scalar r) { return x * r; }},
    {.schema = "rms_dot(Tensor g, Tensor x, Tensor rstd) -> Tensor",
     .inner = true,
     .doc = "g * x * rstd in the dtype of the statistics.",
     .infer = as_stat,
     .scalar = [](Scalar g, Scalar x, Scalar r) { return g * (x * r); }},
    {.schema = "rms_dx(Tensor x, Tensor g, Tensor rstd, Tensor s2) -> Tensor",
     .inner = true,
     .doc = "rstd * (g - x * rstd * s2) in the dtype of x.",
     .infer = like_first,
     .scalar = [](Scalar x, Scalar g, Scalar r, Scalar s2) { return r * (g - x * r * s2); }},
    {.schema =
         "moments_dx(Tensor x, Tensor mean, Tensor g_mean, Tensor g_variance, float inverse_count) -> Tensor",
     .inner = true,
     .doc = "Input gradient of channel_moments.",
     .infer = like_first,
     .scalar =
         [](const Call& c, Scalar x, Scalar m, Scalar gm, Scalar gv) {
           const Scalar n(c.real("inverse_count"));
           return gm * n + (x - m) * gv * (n + n);
         }},
};

}  // namespace
}  // namespace yuloh
