// SPDX-License-Identifier: Apache-2.0
// Ops as functions on graph values, for bodies of composite rows and for gradient rules: one-liners over
// `call`. Constants are static parts of the structure (`affine`), so they cost no plan input and are folded
// into tile programs.
#pragma once
#include "ops/infer.h"

namespace yuloh {

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator-(const Value& a);
Value affine(const Value& x, double scale, double shift = 0,
             double divisor = 1);  // x * scale / divisor + shift
inline Value operator*(const Value& a, double b) { return affine(a, b); }
inline Value operator*(double b, const Value& a) { return affine(a, b); }
inline Value operator+(const Value& a, double b) { return affine(a, 1, b); }
inline Value operator-(const Value& a, double b) { return affine(a, 1, -b); }
inline Value operator-(double b, const Value& a) { return affine(a, -1, b); }
inline Value operator/(const Value& a, double b) { return affine(a, 1, 0, b); }

inline Value un(const char* op, const Value& x) { return call(op, {x}); }
inline Value exp(const Value& x) { return un("exp", x); }
inline Value log(const Value& x) { return un("log", x); }
inline Value sqrt(const Value& x) { return un("sqrt", x); }
inline Value square(const Value& x) { return un("square", x); }
inline Value abs(const Value& x) { return un("abs", x); }
inline Value sign(const Value& x) { return un("sign", x); }
inline Value maximum(const Value& a, const Value& b) { return call("maximum", {a, b}); }
inline Value minimum(const Value& a, const Value& b) { return call("minimum", {a, b}); }
inline Value equal(const Value& a, const Value& b) { return call("equal", {a, b}); }
inline Value not_equal(const Value& a, const Value& b) { return call("not_equal", {a, b}); }
inline Value greater_than(const Value& a, const Value& b) { return call("greater_than", {a, b}); }
inline Value where(const Value& c, const Value& a, const Value& b) { return call("where", {c, a, b}); }

Value constant(double v, DType t);  // shape [], part of the structure: it lives inside tile programs
inline Value constant_like(double v, const Value& x) { return constant(v, x.dtype()); }
Value where_or(const Value& c, const Value& a, double otherwise);
Value cast(const Value& x, DType t);
Value sum(const Value& x, const Ints& axes, bool keepdim = true);
Value sum_in(const Value& x, const Ints& axes, bool keepdim, DType t);  // result dtype t
Value max(const Value& x, const Ints& axes, bool keepdim = true);
Value mean(const Value& x, const Ints& axes, bool keepdim = true);
Value reshape(const Value& x, const Shape& s);
Value transpose(const Value& x, const Ints& perm);
Value swap_last(const Value& x);  // the last two axes
Value broadcast_to(const Value& x, const Shape& s);
Value sum_to(const Value& g, const Shape& s);  // the adjoint of broadcasting
Value full(const Shape& s, double v, DType t);
inline Value zeros_like(const Value& x) { return full(x.shape(), 0, x.dtype()); }
inline Value ones_like(const Value& x) { return full(x.shape(), 1, x.dtype()); }
Value iota(const Shape& s, int64_t axis, DType t);  // 0, 1, 2... along axis; extents of 1 elsewhere
Value narrow(const Value& x, int64_t axis, int64_t start, int64_t length);  // a slice with step 1
Value concat(const Values& xs, int64_t axis);
Value matmul(const Value& a, const Value& b, bool transpose_a = false, bool transpose_b = false);
// g or x of a reduction that dropped `axes`, with these axes back as extents of 1.
Value keep_axes(const Value& v, const Call& c);

}  // namespace yuloh
