// SPDX-License-Identifier: Apache-2.0
// Rearranging: repeats, flips, rolls, diagonals, triangles, one-hot. Composites of views, concat and
// selection.
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

Types typed(const Call& c, Shape s) { return {{c.type(0).dtype, std::move(s)}}; }
Types like(const Call& c) { return {c.type(0)}; }

// [a, b] repeated by [r, s]: seen as [1, a, 1, b], broadcast to [r, a, s, b], then merged.
Shape tiled(const Call& c, Shape* left, Shape* mid) {
  Shape x = c.type(0).shape;
  Ints r = c.ints("repeat_times");
  while (r.size() < x.size()) r.insert(0, 1);
  while (x.size() < r.size()) x.insert(0, 1);
  Shape out;
  for (uint32_t i = 0; i < x.size(); ++i) {
    if (r[i] < 0)
      value_error("tile: negative repeat, got ", to_string(c.ints("repeat_times")),
                  "; expected repeats >= 0.");
    left->push_back(1), left->push_back(x[i]);
    mid->push_back(r[i]), mid->push_back(x[i]);
    Dim d;
    if (__builtin_mul_overflow(r[i], x[i], &d))
      value_error("tile: extent overflows int64, got repeat ", r[i], " of extent ", x[i], ".");
    out.push_back(d);
  }
  numel(out);
  return out;
}
Values tile(const Call& c) {
  Shape left, mid;
  const Shape out = tiled(c, &left, &mid);
  return {reshape(un("assign", broadcast_to(reshape(c["x"], left), mid)), out)};
}

Value flipped(const Value& x, const Ints& axes) {
  Ints starts, ends, steps;
  for (int64_t a : axes) starts.push_back(-1), ends.push_back(-x.shape()[a] - 1), steps.push_back(-1);
  return axes.empty() ? x
                      : call("strided_slice", {x},
                             {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"strides", steps}});
}
Ints distinct_axes(const Call& c) {
  const Ints a = c.ints("axis");
  return a.empty() ? Ints() : normalize_axes(c.name(), a, c.type(0).shape.size());
}
Value rolled(const Value& x, int64_t shift, int64_t axis) {
  const int64_t n = x.shape()[axis];
  if (n == 0) return x;
  shift = ((shift % n) + n) % n;
  if (shift == 0) return x;
  return concat({narrow(x, axis, n - shift, shift), narrow(x, axis, 0, n - shift)}, axis);
}
Values roll(const Call& c) {
  const Ints shifts = c.ints("shifts"), axes = c.ints("axis");
  Value x = c["x"];
  if (!c.has("axis")) return {reshape(rolled(reshape(x, {numel(x.shape())}), shifts[0], 0), x.shape())};
  for (uint32_t i = 0; i < axes.size(); ++i)
    x = rolled(x, shifts[i], normalize_axis(c.name(), axes[i], x.rank()));
  return {x};
}
Types infer_roll(const Call& c) {
  const Ints shifts = c.ints("shifts"), axes = c.ints("axis");
  if (shifts.empty() || (c.has("axis") && shifts.size() != axes.size()))
    value_error("roll: shifts and axes do not match, got ", to_string(shifts), " and ", to_string(axes),
                "; expected one shift for each axis.");
  for (int64_t a : axes) normalize_axis(c.name(), a, c.type(0).shape.size());
  return like(c);
}

Value swap_axes(const Value& x, int64_t a, int64_t b) {
  Ints p;
  for (int64_t i = 0; i < x.rank(); ++i) p.push_back(i);
  std::swap(p[a], p[b]);
  return transpose(x, p);
}
Types infer_rot90(const Call& c) {
  const Ints a = c.ints("axes");
  const int64_t r = c.type(0).shape.size();
  if (a.size() != 2 || r < 2 ||
      normalize_axis(c.name(), a[0], r, "axes") == normalize_axis(c.name(), a[1], r, "axes"))
    value_error("rot90: axes do not span a plane, got ", to_string(a), " for shape ", c.type(0).shape,
                "; expected two distinct axes.");
  Shape s = c.type(0).shape;
  if (c.integer("k") % 2)
    std::swap(s[normalize_axis(c.name(), a[0], r)], s[normalize_axis(c.name(), a[1], r)]);
  return typed(c, s);
}
Values rot90(const Call& c) {
  const int64_t r = c.type(0).shape.size(), k = ((c.integer("k") % 4) + 4) % 4;
  const int64_t a = normalize_axis(c.name(), c.ints("axes")[0], r),
                b = normalize_axis(c.name(), c.ints("axes")[1], r);
  const Value x = c["x"];
  if (k == 0) return {x};
  if (k == 2) return {flipped(flipped(x, {a}), {b})};
  return {k == 1 ? swap_axes(flipped(x, {b}), a, b) : flipped(swap_axes(x, a, b), {b})};
}

// Row number minus column number compared with the diagonal.
Value below(const Value& x, int64_t diagonal, bool upper) {
  const int64_t r = x.rank();
  const Value i = iota(x.shape(), r - 2, DType::kInt64), j = iota(x.shape(), r - 1, DType::kInt64);
  const Value d = j - i;
  const Value k = constant(static_cast<double>(diagonal), DType::kInt64);
  return call(upper ? "greater_equal" : "less_equal", {d, k});
}
template <bool Upper>
Values triangle(const Call& c) {
  return {where_or(below(c["x"], c.integer("diagonal"), Upper), c["x"], 0)};
}
Types infer_triangle(const Call& c) { return require_rank(c, 0, 2), like(c); }

// ---- diagonals ----
struct Diagonal {
  int64_t a, b, rows, cols, offset, length;
};
Diagonal diagonal_of(const Call& c) {
  const Shape& x = c.type(0).shape;
  require_rank(c, 0, 2);
  Diagonal d{normalize_axis(c.name(), c.integer("axis1"), x.size(), "axis1"),
             normalize_axis(c.name(), c.integer("axis2"), x.size(), "axis2"),
             0,
             0,
             c.integer("offset"),
             0};
  if (d.a == d.b)
    value_error(c.name(), ": axes are equal, got axis1 ", c.integer("axis1"), " and axis2 ",
                c.integer("axis2"), "; expected two axes.");
  d.rows = x[d.a], d.cols = x[d.b];
  d.length = std::max<int64_t>(
      0, d.offset >= 0 ? std::min(d.rows, d.cols - d.offset) : std::min(d.rows + d.offset, d.cols));
  return d;
}
Types infer_diagonal(const Call& c) {
  const Diagonal d = diagonal_of(c);
  Shape s;
  for (int64_t i = 0; i < static_cast<int64_t>(c.type(0).shape.size()); ++i)
    if (i != d.a && i != d.b) s.push_back(c.type(0).shape[i]);
  s.push_back(d.length);
  return typed(c, s);
}
bool view_diagonal(const Call& c, const Ints& strides, Ints* out, int64_t* offset) {
  const Diagonal d = diagonal_of(c);
  *out = Ints();
  for (int64_t i = 0; i < static_cast<int64_t>(strides.size()); ++i)
    if (i != d.a && i != d.b) out->push_back(strides[i]);
  out->push_back(strides[d.a] + strides[d.b]);
  *offset = d.length == 0 ? 0 : d.offset >= 0 ? d.offset * strides[d.b] : -d.offset * strides[d.a];
  return true;
}
// x with its diagonal replaced: the diagonal is spread over the plane and selected where row and column meet.
Value put_diagonal(const Call& c, const Value& x, const Value& v) {
  const Diagonal d = diagonal_of(c);
  return call("diagonal_write", {x, v}, {{"offset", d.offset}, {"axis1", d.a}, {"axis2", d.b}});
}
void host_diagonal_write(const HostCall& h) {
  const HostOperand& o = h.out[0];
  copy_in(o, h.in[0]);
  Ints strides;
  int64_t offset;
  view_diagonal(h.call, o.strides, &strides, &offset);
  const size_t size = dtype_size(o.dtype);
  if (h.in[1].numel())
    copy_strided(h.in[1].shape, o.as<char>() + offset * static_cast<int64_t>(size), strides, h.in[1].data,
                 h.in[1].strides, size);
}
Value diagonal(const Value& x, int64_t offset, int64_t a, int64_t b) {
  return call("diagonal", {x}, {{"offset", offset}, {"axis1", a}, {"axis2", b}});
}
Shape embedded(const Call& c, int64_t* a, int64_t* b) {
  const Shape& x = c.type(0).shape;
  require_rank(c, 0, 1);
  const int64_t r = static_cast<int64_t>(x.size()) + 1, off = c.integer("offset"),
                n = x.back() + (off < 0 ? -off : off);
  *a = normalize_axis(c.name(), c.integer("dim1"), r, "dim1"),
  *b = normalize_axis(c.name(), c.integer("dim2"), r, "dim2");
  if (*a == *b) value_error(c.name(), ": dims are equal, got ", *a, "; expected two dims.");
  Shape s;
  for (int64_t i = 0, k = 0; i < r; ++i) s.push_back(i == *a || i == *b ? n : x[static_cast<uint32_t>(k++)]);
  return s;
}
Values diag_embed(const Call& c) {
  int64_t a, b;
  const Shape s = embedded(c, &a, &b);
  return {call("diagonal_write", {full(s, 0, c.type(0).dtype), c.in[0]},
               {{"offset", c.integer("offset")}, {"axis1", a}, {"axis2", b}})};
}
Values diag(const Call& c) {
  const Value x = c["x"];
  const int64_t off = c.integer("offset"), n = off < 0 ? -off : off;
  if (x.rank() == 2) return {un("assign", diagonal(x, off, 0, 1))};
  const int64_t size = x.shape()[0] + n;
  return {call("diagonal_write", {full({size, size}, c.real("padding_value"), x.dtype()), x},
               {{"offset", off}, {"axis1", 0}, {"axis2", 1}})};
}
Types infer_diag(const Call& c) {
  require_rank(c, 0, 1, 2);
  const Shape& x = c.type(0).shape;
  const int64_t off = c.integer("offset"), n = off < 0 ? -off : off;
  if (x.size() == 1) return typed(c, {x[0] + n, x[0] + n});
  return typed(c, {std::max<int64_t>(0, off >= 0 ? std::min(x[0], x[1] - off) : std::min(x[0] + off, x[1]))});
}

const Register arranging{
    {.schema = "tile(Tensor x, int[] repeat_times) -> Tensor",
     .python = YULOH_BOTH("tile"),
     .doc = "x repeated along each axis.",
     .infer =
         [](const Call& c) {
           Shape a, b;
           return typed(c, tiled(c, &a, &b));
         },
     .expand = tile},
    {.schema = "flip(Tensor x, int[] axis) -> Tensor",
     .python = YULOH_BOTH("flip"),
     .doc = "x reversed along the axes.",
     .infer = [](const Call& c) { return distinct_axes(c), like(c); },
     .expand = [](const Call& c) -> Values { return {flipped(c["x"], distinct_axes(c))}; }},
    {.schema = "roll(Tensor x, int[] shifts, int[]? axis=None) -> Tensor",
     .python = YULOH_BOTH("roll"),
     .doc = "Elements moved by shifts along axes, what leaves comes back at the other end; flattened when "
            "axis is None.",
     .infer = infer_roll,
     .expand = roll},
    {.schema = "rot90(Tensor x, int k=1, int[] axes=[0, 1]) -> Tensor",
     .python = YULOH_BOTH("rot90"),
     .doc = "x turned k times by 90 degrees from the first axis towards the second.",
     .infer = infer_rot90,
     .expand = rot90},
    {.schema = "tril(Tensor x, int diagonal=0) -> Tensor",
     .python = YULOH_BOTH("tril"),
     .doc = "The part of each matrix on and below the diagonal, 0 elsewhere.",
     .infer = infer_triangle,
     .expand = triangle<false>,
     .inplace_variant = true},
    {.schema = "triu(Tensor x, int diagonal=0) -> Tensor",
     .python = YULOH_BOTH("triu"),
     .doc = "The part of each matrix on and above the diagonal, 0 elsewhere.",
     .infer = infer_triangle,
     .expand = triangle<true>,
     .inplace_variant = true},
    {.schema = "diagonal(Tensor x, int offset=0, int axis1=0, int axis2=1) -> Tensor",
     .python = YULOH_BOTH("diagonal"),
     .doc = "The diagonal of the plane of two axes, as the last axis.",
     .infer = infer_diagonal,
     .view = view_diagonal,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {put_diagonal(c, full(c.type(0).shape, 0, g[0].dtype()), g[0])};
     },
     .write = [](const Call& c, const Value& base, const Value& v) { return put_diagonal(c, base, v); }},
    {.schema = "diagonal_write(Tensor x, Tensor value, int offset, int axis1, int axis2) -> Tensor",
     .doc = "x with its diagonal replaced by value.",
     .infer =
         [](const Call& c) {
           if (!(infer_diagonal(c)[0].shape == c.type(1).shape))
             value_error("diagonal_write: value does not fit, got shape ", c.type(1).shape, "; expected ",
                         infer_diagonal(c)[0].shape, ".");
           return like(c);
         },
     .host = host_diagonal_write,
     .vjp = [](const Call& c, const Values& g) -> Values {
       const Value gv = diagonal(g[0], c.integer("offset"), c.integer("axis1"), c.integer("axis2"));
       return {put_diagonal(c, g[0], zeros_like(gv)), un("assign", gv)};
     }},
    {.schema = "diag(Tensor x, int offset=0, float padding_value=0.0) -> Tensor",
     .python = "paddle.diag paddle.Tensor.diag",
     .doc = "A matrix with x on its diagonal, or the diagonal of a matrix.",
     .infer = infer_diag,
     .expand = diag},
    {.schema = "diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
     .python = YULOH_BOTH("diag_embed"),
     .doc = "Matrices with the last axis on their diagonals.",
     .infer =
         [](const Call& c) {
           int64_t a, b;
           return typed(c, embedded(c, &a, &b));
         },
     .expand = diag_embed},
    {.schema = "one_hot(Tensor x, int num_classes) -> Tensor",
     .python = YULOH_F("one_hot"),
     .doc = "1 at the class number, 0 elsewhere, along a new last axis, as float32.",
     .infer = [](const Call& c) -> Types {
       if (!is_integer(c.type(0).dtype))
         type_error("one_hot: classes are not integers, got dtype ", c.type(0).dtype,
                    "; expected int32 or int64.");
       if (c.integer("num_classes") < 1)
         value_error("one_hot: num_classes is not positive, got ", c.integer("num_classes"), ".");
       Shape s = c.type(0).shape;
       s.push_back(c.integer("num_classes"));
       return {{DType::kFloat32, s}};
     },
     .expand = [](const Call& c) -> Values {
       const int64_t n = c.integer("num_classes");
       Shape s = c.type(0).shape;
       s.push_back(1);
       const Value x =
           call("check_labels", {c["x"]}, {{"classes", n}, {"ignore_index", INT64_MIN}, {"who", "one_hot"}});
       Shape k(s.size(), 1);
       k[k.size() - 1] = n;
       return {cast(equal(reshape(x, s), iota(k, static_cast<int64_t>(k.size()) - 1, DType::kInt64)),
                    DType::kFloat32)};
     },
     .no_grad = true},
    {.schema = "split(Tensor x, int[] sizes, int axis=0) -> Tensor[]",
     .doc = "Consecutive parts of x along axis, of the given extents.",
     .infer =
         [](const Call& c) {
           const int64_t k = normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size());
           Types t;
           int64_t total = 0;
           for (int64_t n : c.ints("sizes")) {
             Shape s = c.type(0).shape;
             total += n, s[k] = n;
             t.push_back({c.type(0).dtype, s});
           }
           if (total != c.type(0).shape[k])
             value_error("split: sizes do not add up, got ", to_string(c.ints("sizes")),
                         "; expected a total of ", c.type(0).shape[k], ".");
           return t;
         },
     .expand =
         [](const Call& c) {
           Values r;
           int64_t at = 0;
           const int64_t k = normalize_axis(c.name(), c.integer("axis"), c.type(0).shape.size());
           for (int64_t n : c.ints("sizes")) r.push_back(narrow(c["x"], k, at, n)), at += n;
           return r;
         }},
};

}  // namespace
}  // namespace yuloh
