// SPDX-License-Identifier: Apache-2.0
#include "ops/fn.h"

namespace yuloh {

Value operator+(const Value& a, const Value& b) { return call("add", {a, b}); }
Value operator-(const Value& a, const Value& b) { return call("subtract", {a, b}); }
Value operator*(const Value& a, const Value& b) { return call("multiply", {a, b}); }
Value operator/(const Value& a, const Value& b) { return call("divide", {a, b}); }
Value operator-(const Value& a) { return call("neg", {a}); }
Value affine(const Value& x, double scale, double shift, double divisor) {
  if (scale == 1 && shift == 0 && divisor == 1) return x;
  return call("affine", {x}, {{"scale", scale}, {"shift", shift}, {"divisor", divisor}});
}
Value constant(double v, DType t) { return full({}, v, t); }
Value where_or(const Value& c, const Value& a, double otherwise) {
  return call("select_or", {c, a}, {{"otherwise", otherwise}});
}
Value cast(const Value& x, DType t) { return x.dtype() == t ? x : call("cast", {x}, {{"dtype", t}}); }
Value sum(const Value& x, const Ints& axes, bool keepdim) { return sum_in(x, axes, keepdim, x.dtype()); }
Value sum_in(const Value& x, const Ints& axes, bool keepdim, DType t) {
  if (axes.empty()) return cast(x, t);
  return call("sum", {x}, {{"axis", axes}, {"dtype", t}, {"keepdim", keepdim}});
}
Value max(const Value& x, const Ints& axes, bool keepdim) {
  return axes.empty() ? x : call("max", {x}, {{"axis", axes}, {"keepdim", keepdim}});
}
Value mean(const Value& x, const Ints& axes, bool keepdim) {
  return axes.empty() ? x : call("mean", {x}, {{"axis", axes}, {"keepdim", keepdim}});
}
Value reshape(const Value& x, const Shape& s) {
  if (x.shape() == s) return x;
  return call("view_as_shape", {x}, {{"shape", to_ints(s)}});
}
Value transpose(const Value& x, const Ints& perm) { return call("transpose", {x}, {{"perm", perm}}); }
Value swap_last(const Value& x) {
  Ints p;
  for (int64_t i = 0; i < x.rank(); ++i) p.push_back(i);
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  return transpose(x, p);
}
Value broadcast_to(const Value& x, const Shape& s) {
  return x.shape() == s ? x : call("broadcast_to", {x}, {{"shape", to_ints(s)}});
}
Value sum_to(const Value& g, const Shape& s) {
  if (g.shape() == s) return g;
  const int64_t extra = g.rank() - static_cast<int64_t>(s.size());
  Ints axes;
  for (int64_t i = 0; i < g.rank(); ++i)
    if (i < extra || (s[i - extra] == 1 && g.shape()[i] != 1)) axes.push_back(i);
  return reshape(sum(g, axes, true), s);
}
Value full(const Shape& s, double v, DType t) {
  return call("full", {}, {{"shape", to_ints(s)}, {"value", v}, {"dtype", t}});
}
Value iota(const Shape& s, int64_t axis, DType t) {
  Shape r(s.size(), 1);
  r[axis] = s[axis];
  return call("iota", {}, {{"shape", to_ints(r)}, {"axis", axis}, {"dtype", t}});
}
Value narrow(const Value& x, int64_t axis, int64_t start, int64_t length) {
  if (start == 0 && length == x.shape()[axis]) return x;
  return call("slice", {x}, {{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{start + length}}});
}
Value concat(const Values& xs, int64_t axis) {
  if (xs.size() == 1) return xs[0];
  return call("concat", xs, {{"axis", axis}});
}
Value matmul(const Value& a, const Value& b, bool ta, bool tb) {
  return call("matmul", {a, b}, {{"transpose_x", ta}, {"transpose_y", tb}});
}
Value keep_axes(const Value& v, const Call& c) { return v ? reshape(v, reduced_shape(c, true)) : v; }

}  // namespace yuloh
