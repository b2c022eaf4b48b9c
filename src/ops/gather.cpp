// SPDX-License-Identifier: Apache-2.0
// Gathering by index and its adjoints (scatter-add), embedding, concatenation. Indices are checked before
// anything is written: negative ones count from the end, others outside raise IndexError with value, position
// and range.
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

int64_t axis_of(const Call& c, uint32_t input = 0) {
  return normalize_axis(c.name(), c.integer("axis"), c.type(input).shape.size());
}
void require_index(const Call& c, uint32_t i) {
  if (!is_integer(c.type(i).dtype))
    type_error(c.name(), ": indices are not integers, got dtype ", c.type(i).dtype,
               "; expected int32 or int64.");
}

// ---- concat ----
Types infer_concat(const Call& c) {
  const Values xs = c.list("x");
  if (xs.empty()) value_error("concat: no tensors were given; expected at least one.");
  const int64_t k = normalize_axis(c.name(), c.integer("axis"), xs[0].rank());
  Shape s = xs[0].shape();
  DType t = xs[0].dtype();
  for (uint32_t i = 1; i < xs.size(); ++i) {
    const Shape& o = xs[i].shape();
    bool ok = o.size() == s.size();
    for (uint32_t d = 0; ok && d < s.size(); ++d) ok = static_cast<int64_t>(d) == k || o[d] == s[d];
    if (!ok || s.empty())
      value_error("concat: shapes do not fit along axis ", k, ", got ", xs[0].shape(), " and ", o,
                  " (tensor ", i, "); expected equal extents on all other axes.");
    s[k] += o[k];
    t = promote(t, xs[i].dtype());
  }
  if (s.empty()) value_error("concat: a tensor of rank 0 has no axis to join along.");
  return {{t, s}};
}
void host_concat(const HostCall& h) {
  const HostOperand& o = h.out[0];
  const int64_t k = normalize_axis("concat", h.call.integer("axis"), o.shape.size());
  const size_t size = dtype_size(o.dtype);
  int64_t at = 0;
  for (const HostOperand& x : h.in) {
    char* dst = o.as<char>() + at * o.strides[k] * static_cast<int64_t>(size);
    if (x.numel()) copy_strided(x.shape, dst, o.strides, x.data, x.strides, size);
    at += x.shape[k];
  }
}
Values concat_vjp(const Call& c, const Values& g) {
  const int64_t k = normalize_axis(c.name(), c.integer("axis"), g[0].rank());
  Values r;
  int64_t at = 0;
  for (uint32_t i = 0; i < c.n_in; ++i) {
    const int64_t n = c.type(i).shape[k];
    r.push_back(cast(narrow(g[0], k, at, n), c.type(i).dtype));
    at += n;
  }
  return r;
}
// Mixed dtypes are converted first, so the loop copies bytes.
Values concat_body(const Call& c) {
  const DType t = infer_concat(c)[0].dtype;
  Values xs;
  for (const Value& v : c.list("x")) xs.push_back(cast(v, t));
  return {call("concat_same", xs, {{"axis", c.integer("axis")}})};
}
Types infer_stack(const Call& c) {
  const Values xs = c.list("x");
  if (xs.empty()) value_error("stack: no tensors were given; expected at least one.");
  Shape s = xs[0].shape();
  DType t = xs[0].dtype();
  for (const Value& v : xs) {
    t = promote(t, v.dtype());
    if (!(v.shape() == s))
      value_error("stack: shapes differ, got ", s, " and ", v.shape(), "; expected equal shapes.");
  }
  s.insert(
      static_cast<uint32_t>(normalize_axis(c.name(), c.integer("axis"), static_cast<int64_t>(s.size()) + 1)),
      xs.size());
  return {{t, s}};
}
Values stack_body(const Call& c) {
  const Shape out = infer_stack(c)[0].shape;
  const int64_t k = normalize_axis(c.name(), c.integer("axis"), out.size());
  Shape one = out;
  one[k] = 1;
  Values xs;
  for (const Value& v : c.list("x")) xs.push_back(reshape(v, one));
  return {call("concat", xs, {{"axis", k}})};
}

const Register joins{
    {.schema = "concat(Tensor[] x, int axis=0) -> Tensor",
     .python = "paddle.concat",
     .doc = "Tensors joined along an existing axis.",
     .infer = infer_concat,
     .expand = concat_body},
    {.schema = "concat_same(Tensor[] x, int axis=0) -> Tensor",
     .doc = "concat of tensors of one dtype.",
     .infer = infer_concat,
     .host = host_concat,
     .vjp = concat_vjp},
    {.schema = "stack(Tensor[] x, int axis=0) -> Tensor",
     .python = "paddle.stack",
     .doc = "Tensors joined along a new axis.",
     .infer = infer_stack,
     .expand = stack_body},
};

// ---- gather along an axis: out = x with axis replaced by the shape of index ----
Types infer_index_axis(const Call& c) {
  require_index(c, 1);
  require_rank(c, 0, 1);
  const int64_t k = axis_of(c);
  Shape s;
  for (int64_t i = 0; i < static_cast<int64_t>(c.type(0).shape.size()); ++i) {
    if (i != k) s.push_back(c.type(0).shape[i]);
    else
      for (Dim d : c.type(1).shape) s.push_back(d);
  }
  return {{c.type(0).dtype, s}};
}
// x as [outer, n, inner] around an axis; inner may be strided, so slices are copied through copy_strided.
struct Split {
  Shape slice;  // the slice shape without the axis
  Ints strides;
  Split(const Shape& s, const Ints& st, int64_t from, int64_t n) {
    for (int64_t i = 0; i < static_cast<int64_t>(s.size()); ++i)
      if (i < from || i >= from + n) slice.push_back(s[i]), strides.push_back(st[i]);
  }
};
// Row-major on both sides: out[o, i, :] = x[o, index[i], :] is one copy of `inner` elements for each (o, i).
template <class T>
void copy_rows(const T* x, T* out, const std::vector<int64_t>& index, int64_t outer, int64_t n,
               int64_t inner) {
  const int64_t count = static_cast<int64_t>(index.size());
  parallel_ranges(outer * count, std::max<int64_t>(1, 32768 / std::max<int64_t>(inner, 1)),
                  [&](int64_t from, int64_t to) {
                    for (int64_t r = from; r < to; ++r) {
                      const T* src = x + ((r / count) * n + index[static_cast<size_t>(r % count)]) * inner;
                      if (inner == 1) out[r] = *src;
                      else std::memcpy(out + r * inner, src, sizeof(T) * static_cast<size_t>(inner));
                    }
                  });
}
void host_index_axis(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const int64_t k = normalize_axis("gather", h.call.integer("axis"), x.shape.size());
  const std::vector<int64_t> index = read_indices(h.call.str("who"), h.in[1], x.shape[k]);
  const int64_t rank = h.in[1].shape.size(), size = static_cast<int64_t>(dtype_size(o.dtype));
  const Split a(x.shape, x.strides, k, 1), b(o.shape, o.strides, k, rank);
  if (yuloh::numel(a.slice) == 0 || index.empty()) return;
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(x.shape.size()); ++i)
    (i < k ? outer : inner) *= i == k ? 1 : x.shape[i];
  if (is_row_major(x.shape, x.strides) && size <= 8) {
    switch (size) {
      case 1: return copy_rows(x.as<uint8_t>(), o.as<uint8_t>(), index, outer, x.shape[k], inner);
      case 2: return copy_rows(x.as<uint16_t>(), o.as<uint16_t>(), index, outer, x.shape[k], inner);
      case 4: return copy_rows(x.as<uint32_t>(), o.as<uint32_t>(), index, outer, x.shape[k], inner);
      default: return copy_rows(x.as<uint64_t>(), o.as<uint64_t>(), index, outer, x.shape[k], inner);
    }
  }
  for (size_t i = 0; i < index.size();
       ++i)  // index axes of out are contiguous with each other: one step per index
    copy_strided(a.slice, o.as<char>() + static_cast<int64_t>(i) * inner * size, b.strides,
                 x.as<char>() + index[i] * x.strides[k] * size, a.strides, static_cast<size_t>(size));
}
// Row-major f32 / f64: every slice of the result belongs to one thread, which adds up what falls there in
// index order whatever the count, and is written once.
template <class T>
void add_rows(const T* g, T* out, const std::vector<int64_t>& index, int64_t outer, int64_t n, int64_t inner,
              int64_t skip) {
  const int64_t count = static_cast<int64_t>(index.size());
  std::vector<int64_t> first(static_cast<size_t>(n) + 1, 0),
      from(index.size());  // sources of slice i: from[first[i]] ...
  for (int64_t i : index) ++first[static_cast<size_t>(i) + 1];
  for (int64_t i = 0; i < n; ++i) first[static_cast<size_t>(i) + 1] += first[static_cast<size_t>(i)];
  std::vector<int64_t> at(first.begin(), first.end() - 1);
  for (int64_t r = 0; r < count; ++r)
    from[static_cast<size_t>(at[static_cast<size_t>(index[static_cast<size_t>(r)])]++)] = r;
  parallel_ranges(
      outer * n, std::max<int64_t>(1, 16384 / std::max<int64_t>(inner, 1)), [&](int64_t a, int64_t b) {
        for (int64_t d = a; d < b; ++d) {
          const int64_t o = d / n, i = d % n;
          T* dst = out + d * inner;
          std::memset(dst, 0, sizeof(T) * static_cast<size_t>(inner));
          if (i == skip) continue;
          for (int64_t k = first[static_cast<size_t>(i)]; k < first[static_cast<size_t>(i) + 1]; ++k) {
            const T* src = g + (o * count + from[static_cast<size_t>(k)]) * inner;
            for (int64_t j = 0; j < inner; ++j) dst[j] += src[j];
          }
        }
      });
}
template <class E>
void add_slices(const HostCall& h, const std::vector<int64_t>& index, int64_t k, int64_t rank) {
  using T = typename E::T;
  using C = typename E::C;
  const HostOperand &g = h.in[0], &o = h.out[0];
  const Split a(o.shape, o.strides, k, 1), b(g.shape, g.strides, k, rank);
  const int64_t n = yuloh::numel(a.slice), total = o.numel();
  std::vector<C> acc(static_cast<size_t>(total), C(0));
  Shape ishape;
  Ints istrides;
  for (int64_t i = k; i < k + rank; ++i) ishape.push_back(g.shape[i]), istrides.push_back(g.strides[i]);
  const int64_t skip = h.call.integer("skip");
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] == skip) continue;
    Walk<2> w(a.slice, {a.strides, b.strides});
    const T* src = g.as<T>() + offset_at(ishape, istrides, static_cast<int64_t>(i));
    C* dst = acc.data() + index[i] * o.strides[k];
    for (int64_t j = 0; j < n; ++j, w.next()) dst[w.offset[0]] += E::get(src[w.offset[1]]);
  }
  T* out = o.as<T>();
  for (int64_t i = 0; i < total; ++i) out[i] = E::put(acc[i]);
}
void host_index_axis_grad(const HostCall& h) {
  const int64_t k = h.call.integer("axis");
  const std::vector<int64_t> index = read_indices("gather", h.in[1], h.out[0].shape[k]);
  const HostOperand &g = h.in[0], &o = h.out[0];
  if (is_row_major(g.shape, g.strides) && !index.empty() && o.numel() &&
      (o.dtype == DType::kFloat32 || o.dtype == DType::kFloat64)) {
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < static_cast<int64_t>(o.shape.size()); ++i)
      (i < k ? outer : inner) *= i == k ? 1 : o.shape[i];
    const int64_t skip = h.call.integer("skip");
    if (o.dtype == DType::kFloat32)
      return add_rows(g.as<float>(), o.as<float>(), index, outer, o.shape[k], inner, skip);
    return add_rows(g.as<double>(), o.as<double>(), index, outer, o.shape[k], inner, skip);
  }
  with_any("gather", h.out[0].dtype,
           [&](auto e) { add_slices<decltype(e)>(h, index, k, h.in[1].shape.size()); });
}
Values index_axis_vjp(const Call& c, const Values& g) {
  return {call("index_axis_grad", {g[0], c["index"]},
               {{"shape", to_ints(c.type(0).shape)}, {"axis", axis_of(c)}}),
          Value()};
}

// Rows whose p-norm exceeds max_norm, scaled down to it; the scale is a constant for gradients. The weight
// itself stays.
Value renormed(const Value& y, double max_norm, double p) {
  Value scale;
  {
    NoGrad guard;
    const Value total = sum(call("pow", {abs(y), constant_like(p, y)}), {-1});
    scale = minimum(constant_like(max_norm, y) / (call("pow", {total, constant_like(1 / p, y)}) + 1e-7),
                    constant_like(1, y));
  }
  return y * scale;
}

const Register gathers{
    {.schema = "index_axis(Tensor x, Tensor index, int axis, str who) -> Tensor",
     .doc = "x with `axis` replaced by the axes of index: out[.., i.., ..] = x[.., index[i..], ..].",
     .infer = infer_index_axis,
     .host = host_index_axis,
     .vjp = index_axis_vjp,
     .needs = "index",
     .checks = true},
    {.schema = "index_axis_grad(Tensor g, Tensor index, int[] shape, int axis, int skip=-1) -> Tensor",
     .inner = true,
     .doc = "Zeros of `shape` with the slices of g added where index says; index `skip` is left out.",
     .infer = [](const Call& c) -> Types {
       const Shape s = shape_arg(c), &i = c.type(1).shape;
       const int64_t k = c.integer("axis");
       require_index(c, 1);
       if (k < 0 || k >= static_cast<int64_t>(s.size()))
         index_error(c.name(), ": axis out of range, got ", k, " for shape ", s, ".");
       Shape g(s.begin(), s.begin() + k);
       for (Dim d : i) g.push_back(d);
       for (uint32_t d = static_cast<uint32_t>(k) + 1; d < s.size(); ++d) g.push_back(s[d]);
       if (!(g == c.type(0).shape))
         value_error(c.name(), ": g does not fit, got shape ", c.type(0).shape, "; expected ", g, ".");
       return {{c.type(0).dtype, s}};
     },
     .host = host_index_axis_grad,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("index_axis", {g[0], c["index"]}, {{"axis", c.integer("axis")}, {"who", "gather"}}),
               Value()};
     },
     .needs = "index"},
    {.schema = "gather(Tensor x, Tensor index, int axis=0) -> Tensor",
     .python = YULOH_BOTH("gather"),
     .doc = "Slices of x along axis, in the order of a 0-D, 1-D or [n, 1] index.",
     .infer = [](const Call& c) -> Types {
       const Shape& i = c.type(1).shape;
       if (i.size() > 2 || (i.size() == 2 && i[1] != 1))
         value_error("gather: index is not a list, got shape ", i, "; expected [n], [n, 1] or [].");
       Types t = infer_index_axis(c);
       if (i.size() == 2) t[0].shape.erase(static_cast<uint32_t>(axis_of(c)) + 1);
       return t;
     },
     .expand = [](const Call& c) -> Values {
       Value i = c["index"];
       if (i.rank() == 2) i = reshape(i, {i.shape()[0]});
       return {call("index_axis", {c["x"], i}, {{"axis", axis_of(c)}, {"who", "gather"}})};
     }},
    {.schema = "index_select(Tensor x, Tensor index, int axis=0) -> Tensor",
     .python = YULOH_BOTH("index_select"),
     .doc = "Slices of x along axis, in the order of a 1-D index.",
     .infer = [](const Call& c) -> Types { return require_rank(c, 1, 1, 1), infer_index_axis(c); },
     .expand = [](const Call& c) -> Values {
       return {call("index_axis", {c["x"], c["index"]}, {{"axis", axis_of(c)}, {"who", "index_select"}})};
     }},
    {.schema = "embedding(Tensor x, Tensor weight, int? padding_idx=None, float? max_norm=None, float "
               "norm_type=2.0, "
               "bool sparse=False, bool scale_grad_by_freq=False) -> Tensor",
     .python = YULOH_F("embedding"),
     .doc = "Rows of weight by index x; the row padding_idx reads as zeros and gets no gradient.",
     .infer = [](const Call& c) -> Types {
       require_index(c, 0);
       if (c.flag("scale_grad_by_freq"))
         fail(ErrorKind::kNotImplemented,
              "embedding: scale_grad_by_freq=True has no kernel; expected False.");
       if (c.type(1).shape.size() != 2)
         value_error("embedding: weight is not a matrix, got shape ", c.type(1).shape,
                     "; expected [rows, width].");
       const int64_t rows = c.type(1).shape[0];
       if (c.has("padding_idx") && (c.integer("padding_idx") >= rows || c.integer("padding_idx") < -rows))
         value_error("embedding: padding_idx out of range, got ", c.integer("padding_idx"), "; expected ",
                     -rows, " <= padding_idx < ", rows, ".");
       Shape s = c.type(0).shape;
       s.push_back(c.type(1).shape[1]);
       return {{c.type(1).dtype, s}};
     },
     .expand = [](const Call& c) -> Values {
       const Value i = c["x"];
       Value y = call("index_axis", {c["weight"], i}, {{"axis", 0}, {"who", "embedding"}});
       if (c.has("max_norm")) y = renormed(y, c.real("max_norm"), c.real("norm_type"));
       if (!c.has("padding_idx")) return {y};
       const int64_t rows = c.type(1).shape[0], p = c.integer("padding_idx");
       Shape s = i.shape();
       s.push_back(1);
       const Value keep = not_equal(i, constant_like(static_cast<double>(p < 0 ? p + rows : p), i));
       return {where_or(reshape(keep, s), y, 0)};
     }},
};
}  // namespace
}  // namespace yuloh
