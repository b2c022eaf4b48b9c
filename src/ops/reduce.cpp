// SPDX-License-Identifier: Apache-2.0
// Reductions over axes, and statistics built from them. Halves accumulate in float32 and integers in int64;
// every result is rounded once. NaN wins in max and min.
#include <cmath>

#include "ops/rows.h"

namespace yuloh {
namespace {

Value spread(const Call& c, const Value& g) { return broadcast_to(keep_axes(g, c), c.type(0).shape); }

Values sum_vjp(const Call& c, const Values& g) { return {cast(spread(c, g[0]), c.type(0).dtype)}; }

// Every element equal to the extreme gets the gradient (max, min); amax and amin share it evenly.
Values extreme_vjp(const Call& c, const Values& g) {
  const Value hit = equal(c["x"], keep_axes(c.out(), c));
  return {where_or(hit, keep_axes(g[0], c), 0)};
}
Values even_vjp(const Call& c, const Values& g) {
  const Value x = c["x"];
  const Value hit = equal(x, keep_axes(c.out(), c));
  const Value n = sum(cast(hit, x.dtype()), reduced_axes_of(c));
  return {where_or(hit, keep_axes(g[0], c) / n, 0)};
}

// d prod / dx_i = product of the others. With zeros out / x fails, so: without a zero out / x, with one zero
// only that element gets the product of the rest, with two or more all are 0.
Values prod_vjp(const Call& c, const Values& g) {
  const Value x = cast(c["x"], c.out().dtype());
  const Ints axes = reduced_axes_of(c);
  const Value zero = equal(x, constant_like(0, x));
  const Value rest = where(zero, constant_like(1, x), x);
  const Value product = call("prod", {rest}, {{"axis", axes}, {"keepdim", true}});
  const Value zeros = sum(cast(zero, x.dtype()), axes);
  const Value none = equal(zeros, constant_like(0, x)), one = equal(zeros, constant_like(1, x));
  const Value others = where(zero, where_or(one, product, 0), where_or(none, product, 0) / rest);
  return {cast(keep_axes(g[0], c) * others, c.type(0).dtype)};
}

const Register reductions{
    {.schema = "sum(Tensor x, int[]? axis=None, dtype? dtype=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("sum"),
     .doc = "Sum over axes (all when None). bool and int32 are summed in int64.",
     .infer = reduce_sum,
     .reduce = ReduceKind::kSum,
     .vjp = sum_vjp},
    {.schema = "prod(Tensor x, int[]? axis=None, bool keepdim=False, dtype? dtype=None) -> Tensor",
     .python = YULOH_BOTH("prod"),
     .doc = "Product over axes (all when None).",
     .infer = reduce_prod,
     .reduce = ReduceKind::kProd,
     .vjp = prod_vjp,
     .needs = "x"},
    {.schema = "max(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("max"),
     .doc = "Largest value over axes; NaN wins. Every tied maximum gets the whole gradient.",
     .infer = reduce_extreme,
     .reduce = ReduceKind::kMax,
     .vjp = extreme_vjp,
     .needs = "x out"},
    {.schema = "min(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("min"),
     .doc = "Smallest value over axes; NaN wins. Every tied minimum gets the whole gradient.",
     .infer = reduce_extreme,
     .reduce = ReduceKind::kMin,
     .vjp = extreme_vjp,
     .needs = "x out"},
    {.schema = "any(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("any"),
     .doc = "True where any element over the axes is non-zero.",
     .infer = reduce_bool,
     .reduce = ReduceKind::kAny,
     .no_grad = true},
    {.schema = "all(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("all"),
     .doc = "True where all elements over the axes are non-zero.",
     .infer = reduce_bool,
     .reduce = ReduceKind::kAll,
     .no_grad = true},
};

Value kept(const Call& c, const Value& v) {
  return c.flag("keepdim") ? v : reshape(v, reduced_shape(c, false));
}

Value mean_in_wide(const Value& x, const Ints& axes, double count) {
  const DType wide = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return affine(sum_in(x, axes, true, wide), 1, 0, count);
}

Values mean_body(const Call& c) {
  const Value m = mean_in_wide(c["x"], reduced_axes_of(c), static_cast<double>(reduced_count(c)));
  return {cast(kept(c, m), float_of(c.type(0).dtype))};
}
Values mean_vjp(const Call& c, const Values& g) {
  const Value gx = affine(keep_axes(g[0], c), 1, 0, static_cast<double>(reduced_count(c)));
  return {cast(broadcast_to(gx, c.type(0).shape), c.type(0).dtype)};
}

// log(sum(exp(x))) around the maximum; an infinite maximum is subtracted as 0 so that -inf stays -inf.
Values logsumexp_body(const Call& c) {
  const Value x = cast(c["x"], float_of(c.type(0).dtype));
  const Ints axes = reduced_axes_of(c);
  if (reduced_count(c) == 0) return {log(kept(c, sum(x, axes)))};
  const Value m = max(x, axes), shift = where_or(un("isfinite", m), m, 0);
  return {kept(c, log(sum(exp(x - shift), axes)) + shift)};
}
Values logsumexp_vjp(const Call& c, const Values& g) {
  const Value x = c["x"];
  const Value y = keep_axes(c.out(), c);
  const Value shift = where_or(un("isfinite", y), y, 0);
  return {exp(x - shift) * keep_axes(g[0], c)};
}

// Mean squared distance from the mean; two passes, because the one-pass formula cancels.
Values variance_body(const Call& c) {
  const Value x = c["x"];
  const DType wide = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Ints axes = reduced_axes_of(c);
  const double n = static_cast<double>(reduced_count(c));
  const Value d = cast(x, wide) - mean_in_wide(x, axes, n);
  const double freedom = c.flag("unbiased") ? std::max(n - 1, 0.0) : n;  // 0 / 0 where nothing is left: NaN
  Value v = affine(sum(square(d), axes), 1, 0, freedom);
  if (c.name() == "std") v = sqrt(v);
  return {cast(kept(c, v), x.dtype())};
}
Types infer_variance(const Call& c) { return require_float(c, 0), reduce_same(c); }

Values norm_body(const Call& c) {
  const Value x = c["x"];
  const Ints axes = reduced_axes_of(c);
  const double p = c.real("p");
  const Value a = abs(x);
  Value r;
  if (p == 0) r = sum(cast(not_equal(x, constant_like(0, x)), x.dtype()), axes);
  else if (p == 1) r = sum(a, axes);
  else if (p == 2) r = call("norm2", {x}, {{"axis", axes}, {"keepdim", true}});
  else if (std::isinf(p)) r = call(p > 0 ? "max" : "min", {a}, {{"axis", axes}, {"keepdim", true}});
  else r = call("pow", {sum(call("pow", {a, constant_like(p, x)}), axes), constant_like(1 / p, x)});
  return {kept(c, r)};
}
Values norm2_body(const Call& c) {
  const Value x = c["x"];
  const DType wide = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return {cast(sqrt(kept(c, sum(square(cast(x, wide)), reduced_axes_of(c)))), x.dtype())};
}
// x / |x|, and 0 where the norm is 0 (the sub-gradient that keeps training finite).
Values norm2_vjp(const Call& c, const Values& g) {
  const Value x = c["x"], y = keep_axes(c.out(), c);
  const Value zero = equal(y, constant_like(0, y));
  return {where(zero, constant_like(0, x), x * (keep_axes(g[0], c) / where(zero, constant_like(1, y), y)))};
}
Types infer_float_reduce(const Call& c) { return require_float(c, 0), reduce_same(c); }

Value finite_part(const Value& x) { return where(un("isnan", x), constant_like(0, x), x); }

const Register statistics{
    {.schema = "mean(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("mean"),
     .doc =
         "Arithmetic mean over axes; halves are summed in float32 and rounded once; over nothing it is NaN.",
     .infer = reduce_float,
     .expand = mean_body,
     .vjp = mean_vjp},
    {.schema = "amax(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("amax"),
     .doc = "Largest value over axes; tied maxima share the gradient evenly.",
     .infer = reduce_extreme,
     .reduce = ReduceKind::kMax,
     .vjp = even_vjp,
     .needs = "x out"},
    {.schema = "amin(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("amin"),
     .doc = "Smallest value over axes; tied minima share the gradient evenly.",
     .infer = reduce_extreme,
     .reduce = ReduceKind::kMin,
     .vjp = even_vjp,
     .needs = "x out"},
    {.schema = "logsumexp(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("logsumexp"),
     .doc = "log(sum(exp(x))) without overflow.",
     .infer = reduce_float,
     .expand = logsumexp_body,
     .vjp = logsumexp_vjp,
     .needs = "x out"},
    {.schema = "var(Tensor x, int[]? axis=None, bool unbiased=True, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("var"),
     .doc = "Variance over axes, divided by n - 1 (unbiased) or n.",
     .infer = infer_variance,
     .expand = variance_body},
    {.schema = "std(Tensor x, int[]? axis=None, bool unbiased=True, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("std"),
     .doc = "Square root of the variance over axes.",
     .infer = infer_variance,
     .expand = variance_body},
    {.schema = "norm2(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .doc = "Euclidean norm over axes; its gradient at 0 is 0.",
     .infer = infer_float_reduce,
     .expand = norm2_body,
     .vjp = norm2_vjp,
     .needs = "x out"},
    {.schema = "p_norm(Tensor x, float p=2.0, int[]? axis=None, bool keepdim=False) -> Tensor",
     .doc = "p-norm over axes, p from 0 to infinity; used by paddle.norm.",
     .infer = infer_float_reduce,
     .expand = norm_body},
    {.schema = "squared_l2_norm(Tensor x) -> Tensor",
     .doc = "Sum of squares as float32 (float64 for float64), shape [].",
     .infer = [](const Call& c) -> Types {
       return {{c.type(0).dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32, {}}};
     },
     .expand = [](const Call& c) -> Values {
       const DType wide = c.type(0).dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
       return {call("sum", {square(cast(c["x"], wide))})};
     }},
    {.schema = "nansum(Tensor x, int[]? axis=None, dtype? dtype=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("nansum"),
     .doc = "Sum over axes with NaN counted as 0.",
     .infer = reduce_sum,
     .expand = [](const Call& c) -> Values {
       return {kept(c, sum_in(finite_part(c["x"]), reduced_axes_of(c), true, reduce_sum(c)[0].dtype))};
     }},
    {.schema = "nanmean(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("nanmean"),
     .doc = "Mean over axes of what is not NaN.",
     .infer = infer_float_reduce,
     .expand = [](const Call& c) -> Values {
       const Value x = c["x"];
       const Value n = sum(cast(un("logical_not", un("isnan", x)), x.dtype()), reduced_axes_of(c));
       return {kept(c, sum(finite_part(x), reduced_axes_of(c)) / n)};
     }},
    {.schema = "count_nonzero(Tensor x, int[]? axis=None, bool keepdim=False) -> Tensor",
     .python = YULOH_BOTH("count_nonzero"),
     .doc = "How many elements over the axes are not 0, as int64.",
     .infer = [](const Call& c) -> Types {
       return {{DType::kInt64, reduced_shape(c, c.flag("keepdim"))}};
     },
     .expand = [](const Call& c) -> Values {
       const Value hit = not_equal(c["x"], constant_like(0, c["x"]));
       return {kept(c, call("sum", {hit},
                            {{"axis", reduced_axes_of(c)}, {"dtype", DType::kInt64}, {"keepdim", true}}))};
     },
     .no_grad = true},
};
}  // namespace
}  // namespace yuloh
