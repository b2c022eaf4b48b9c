// SPDX-License-Identifier: Apache-2.0
#include "ops/infer.h"

namespace yuloh {

Shape broadcast_inputs(const Call& c) {
  Shape s = c.n_in ? c.type(0).shape : Shape();
  for (uint32_t i = 1; i < c.n_in; ++i)
    if (!(c.type(i).shape == s)) s = broadcast_shapes(c.name(), s, c.type(i).shape);
  return s;
}

DType promoted(const Call& c) {
  DType t = DType::kBool;
  bool first = true;
  uint32_t i = 0;
  for (const ArgSpec& a : c.op.args) {
    if (!a.is_input()) continue;
    uint32_t n = 1;
    if (a.kind == ArgKind::kOptTensor) n = c.has(a.name);
    if (a.kind == ArgKind::kTensorList) n = c.list(a.name).size();
    const bool counts = a.kind != ArgKind::kValueFloat && a.kind != ArgKind::kValueInt;
    for (uint32_t k = 0; k < n && i < c.n_in; ++k, ++i) {
      if (!counts) continue;
      const DType d = c.type(i).dtype;
      if (!dtype_has_kernels(d))
        type_error(c.name(), ": dtype is not supported, got ", a.name, " of dtype ", d,
                   "; expected a bool, integer or real dtype.");
      t = first ? d : promote(t, d);
      first = false;
    }
  }
  return t;
}

void require_float(const Call& c, uint32_t i) {
  if (!is_float(c.type(i).dtype))
    type_error(c.name(), ": dtype is not supported, got ", c.type(i).dtype, " for input ", i,
               "; expected a floating point dtype. Hint: x.astype('float32').");
}
void require_integral(const Call& c, uint32_t i) {
  if (!is_integral(c.type(i).dtype))
    type_error(c.name(), ": dtype is not supported, got ", c.type(i).dtype, " for input ", i,
               "; expected bool or an integer dtype.");
}
void require_same_shape(const Call& c, uint32_t a, uint32_t b) {
  if (!(c.type(a).shape == c.type(b).shape))
    value_error(c.name(), ": shapes differ, got ", c.type(a).shape, " and ", c.type(b).shape,
                "; expected equal shapes.");
}
void require_same_type(const Call& c, uint32_t a, uint32_t b) {
  if (!(c.type(a) == c.type(b)))
    value_error(c.name(), ": inputs differ, got ", c.type(a), " and ", c.type(b),
                "; expected equal dtypes and shapes.");
}
void require_rank(const Call& c, uint32_t i, int64_t low, int64_t high) {
  const int64_t r = c.type(i).shape.size();
  if (r < low || r > high)
    value_error(c.name(), ": rank is not supported, got shape ", c.type(i).shape, " for input ", i,
                "; expected ",
                high > 1000   ? cat("at least ", low)
                : low == high ? cat(low)
                              : cat(low, " to ", high),
                " dimensions.");
}

Types same(const Call& c) { return {{promoted(c), broadcast_inputs(c)}}; }
Types same_float(const Call& c) { return {{float_of(promoted(c)), broadcast_inputs(c)}}; }
Types like_first(const Call& c) { return {c.type(0)}; }
Types boolean(const Call& c) { return promoted(c), Types{{DType::kBool, broadcast_inputs(c)}}; }
Types integral(const Call& c) {
  const DType t = promoted(c);
  if (!is_integral(t))
    type_error(c.name(), ": dtype is not supported, got ", t, "; expected bool or an integer dtype.");
  return {{t, broadcast_inputs(c)}};
}
Types by_dtype(const Call& c) { return {{c.dtype("dtype"), broadcast_inputs(c)}}; }

Ints reduced_axes_of(const Call& c) {
  return normalize_axes(c.name(), c.ints("axis"), c.type(0).shape.size());
}

Shape reduced_shape(const Call& c, bool keepdim) {
  const Shape& x = c.type(0).shape;
  const Ints axes = reduced_axes_of(c);
  Shape r;
  uint32_t k = 0;
  for (uint32_t i = 0; i < x.size(); ++i) {
    const bool gone = k < axes.size() && axes[k] == i;
    if (gone) ++k;
    if (!gone) r.push_back(x[i]);
    else if (keepdim) r.push_back(1);
  }
  return r;
}
int64_t reduced_count(const Call& c) {
  int64_t n = 1;
  for (int64_t a : reduced_axes_of(c))
    if (c.type(0).shape.size()) n *= c.type(0).shape[a];
  return n;
}

static Types reduce_to(const Call& c, DType t) {
  if (!dtype_has_kernels(c.type(0).dtype))
    type_error(c.name(), ": dtype is not supported, got ", c.type(0).dtype,
               "; expected a bool, integer or real dtype.");
  return {{t, reduced_shape(c, c.flag("keepdim"))}};
}
Types reduce_same(const Call& c) { return reduce_to(c, c.type(0).dtype); }
Types reduce_sum(const Call& c) {
  DType t = c.type(0).dtype;
  if (c.has("dtype")) t = c.dtype("dtype");
  else if (t == DType::kBool || t == DType::kInt32) t = DType::kInt64;
  return reduce_to(c, t);
}
Types reduce_prod(const Call& c) {
  DType t = c.has("dtype") ? c.dtype("dtype") : c.type(0).dtype;
  if (t == DType::kBool) t = DType::kInt64;
  return reduce_to(c, t);
}
Types reduce_bool(const Call& c) { return reduce_to(c, DType::kBool); }
Types reduce_float(const Call& c) { return reduce_to(c, float_of(c.type(0).dtype)); }
Types reduce_extreme(const Call& c) {
  const Shape& x = c.type(0).shape;
  for (int64_t a : reduced_axes_of(c))
    if (x.size() && x[a] == 0)
      value_error(c.name(), ": axis ", a, " is empty and the operation has no identity, got shape ", x,
                  "; expected at least one element along each reduced axis.");
  return reduce_same(c);
}

Shape resolve_reshape(const Call& c, const Shape& x, const Ints& want) {
  Shape r;
  int64_t known = 1, hole = -1, rest = 1;  // rest: extents of x that no 0 copied
  const Shape shown(want.begin(), want.end());
  for (uint32_t i = 0; i < want.size(); ++i) {
    int64_t d = want[i];
    if (d == -1) {
      if (hole >= 0)
        value_error(c.name(), ": two unknown extents, got shape ", shown, "; expected at most one -1.");
      hole = i;
      r.push_back(1);
      continue;
    }
    if (d < 0)
      value_error(c.name(), ": negative extent, got shape ", shown, "; expected extents >= 0 or one -1.");
    if (d == 0 && i < x.size() && c.name() == "reshape") d = x[i];
    if (__builtin_mul_overflow(known, d, &known))
      value_error(c.name(), ": element count overflows int64, got shape ", shown, ".");
    r.push_back(d);
  }
  const int64_t n = numel(x);
  if (hole >= 0 && known == 0) {
    for (uint32_t i = 0; i < x.size(); ++i)
      if (i >= want.size() || want[i] != 0) rest *= x[i];
    r[hole] = rest;
  } else if (hole >= 0) {
    r[hole] = n / known;
  }
  if (n == 0 && numel(r) != 0) {  // an empty tensor: 0 is meant literally
    for (uint32_t i = 0; i < want.size(); ++i) r[i] = want[i] < 0 ? 0 : want[i];
  }
  if (numel(r) != n)
    value_error(c.name(), ": element counts differ, got a tensor of shape ", x, " (", n,
                " elements) and shape ", shown, "; expected a shape of ", n, " elements.");
  return r;
}

Shape shape_arg(const Call& c, const char* name) {
  Shape s;
  for (int64_t d : c.ints(name)) {
    if (d < 0)
      value_error(c.name(), ": negative extent, got ", name, " ", to_string(c.ints(name)),
                  "; expected extents >= 0.");
    s.push_back(d);
  }
  numel(s);
  return s;
}

}  // namespace yuloh
