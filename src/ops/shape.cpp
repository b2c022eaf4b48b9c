// SPDX-License-Identifier: Apache-2.0
// Views: ops that only look at their input with another shape, order or extent. A row with a `write` rule
// aliases its input for the user (writing through it changes the base); one without (broadcast_to) reads
// only.
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

// ---- same elements in the same order, another shape ----
// Strides of `out` over memory laid out as (in, strides), or false when some run of axes is not mergeable.
bool restride(const Shape& in, const Ints& strides, const Shape& out, Ints* result) {
  *result = row_major_strides(out);
  if (numel(in) == 0) return true;
  Shape a;
  Ints s;
  for (uint32_t i = 0; i < in.size(); ++i)
    if (in[i] != 1) a.push_back(in[i]), s.push_back(strides[i]);
  int64_t j = static_cast<int64_t>(out.size()) - 1;
  for (int64_t i = static_cast<int64_t>(a.size()) - 1; i >= 0;) {
    const int64_t step = s[i];
    int64_t run = a[i--];
    while (i >= 0 && s[i] == step * run) run *= a[i--];  // merge what is contiguous
    int64_t left = run, st = step;
    while (left > 1) {
      while (j >= 0 && out[j] == 1) --j;
      if (j < 0 || left % out[j] != 0) return false;
      (*result)[j] = st;
      st *= out[j], left /= out[j];
      --j;
    }
  }
  return true;
}
bool view_reshaped(const Call& c, const Ints& strides, Ints* out, int64_t* offset) {
  *offset = 0;
  return restride(c.type(0).shape, strides, c.op.infer(c)[0].shape, out);
}
Values reshape_back(const Call& c, const Values& g) { return {reshape(g[0], c.type(0).shape)}; }
Value reshape_write(const Call&, const Value& base, const Value& v) { return reshape(v, base.shape()); }

Types typed(const Call& c, Shape s) { return {{c.type(0).dtype, std::move(s)}}; }
Types infer_reshape(const Call& c) { return typed(c, resolve_reshape(c, c.type(0).shape, c.ints("shape"))); }
Types infer_literal(const Call& c) {
  Shape s = shape_arg(c);
  if (numel(s) != numel(c.type(0).shape))
    value_error(c.name(), ": element counts differ, got ", c.type(0).shape, " and ", s,
                "; expected the same count.");
  return typed(c, s);
}
Types infer_squeeze(const Call& c) {
  const Shape& x = c.type(0).shape;
  const Ints given = c.ints("axis");
  Shape r;
  std::vector<char> named(x.size(), given.empty());
  for (int64_t a : given)
    if (const int64_t k = normalize_axis(c.name(), a, x.size()); !x.empty()) named[k] = 1;
  for (uint32_t i = 0; i < x.size(); ++i)
    if (!(named[i] && x[i] == 1)) r.push_back(x[i]);
  return typed(c, r);
}
Types infer_unsqueeze(const Call& c) {
  Shape r = c.type(0).shape;
  for (int64_t a : c.ints("axis")) {
    const int64_t k = normalize_axis(c.name(), a, static_cast<int64_t>(r.size()) + 1);
    r.insert(static_cast<uint32_t>(k), 1);
  }
  return typed(c, r);
}
Types infer_flatten(const Call& c) {
  const Shape& x = c.type(0).shape;
  if (x.empty()) return typed(c, {1});
  const int64_t a = normalize_axis(c.name(), c.integer("start_axis"), x.size(), "start_axis");
  const int64_t b = normalize_axis(c.name(), c.integer("stop_axis"), x.size(), "stop_axis");
  if (a > b)
    value_error("flatten: axes are in the wrong order, got start_axis ", a, " and stop_axis ", b,
                "; expected start <= stop.");
  Shape r;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i)
    if (i <= a || i > b) r.push_back(x[i]);
    else r.back() *= x[i];
  return typed(c, r);
}

const Register reshapes{
    {.schema = "reshape(Tensor x, int[] shape) -> Tensor",
     .python = YULOH_BOTH("reshape"),
     .doc = "The same elements in row-major order as `shape`; -1 is filled in, 0 copies the extent of x.",
     .infer = infer_reshape,
     .view = view_reshaped,
     .vjp = reshape_back,
     .write = reshape_write,
     .fills = "reshape"},
    {.schema = "view_as_shape(Tensor x, int[] shape) -> Tensor",
     .doc = "reshape with every extent meant literally.",
     .infer = infer_literal,
     .view = view_reshaped,
     .vjp = reshape_back,
     .write = reshape_write,
     .fills = "reshape"},
    {.schema = "squeeze(Tensor x, int[]? axis=None) -> Tensor",
     .python = YULOH_BOTH("squeeze"),
     .doc = "Drops axes of extent 1: all, or those named.",
     .infer = infer_squeeze,
     .view = view_reshaped,
     .vjp = reshape_back,
     .write = reshape_write},
    {.schema = "unsqueeze(Tensor x, int[] axis) -> Tensor",
     .python = YULOH_BOTH("unsqueeze"),
     .doc = "Inserts axes of extent 1, one after the other.",
     .infer = infer_unsqueeze,
     .view = view_reshaped,
     .vjp = reshape_back,
     .write = reshape_write},
    {.schema = "flatten(Tensor x, int start_axis=0, int stop_axis=-1) -> Tensor",
     .python = YULOH_BOTH("flatten"),
     .doc = "Merges the axes start_axis..stop_axis into one.",
     .infer = infer_flatten,
     .view = view_reshaped,
     .vjp = reshape_back,
     .write = reshape_write},
    {.schema = "leaf(Tensor x) -> Tensor",
     .doc = "x itself: marks where a differentiation starts.",
     .infer = like_first,
     .view = [](const Call&, const Ints& s, Ints* out,
                int64_t* offset) { return *out = s, *offset = 0, true; },
     .write = [](const Call&, const Value&, const Value& v) { return v; }},
    {.schema = "again(Tensor x) -> Tensor",
     .inner = true,
     .doc = "x itself, in a computation that is to be done a second time: what is made of it is not merged "
            "with the first.",
     .infer = like_first,
     .view = [](const Call&, const Ints& s, Ints* out,
                int64_t* offset) { return *out = s, *offset = 0, true; },
     .vjp = [](const Call&, const Values& g) -> Values { return {g[0]}; },
     .write = [](const Call&, const Value&, const Value& v) { return v; },
     .barrier = true},
};

// ---- axes in another order ----
Ints permutation(const Call& c) {
  const int64_t r = c.type(0).shape.size();
  Ints p = c.ints("perm");
  if (static_cast<int64_t>(p.size()) != r)
    value_error(c.name(), ": perm does not fit, got ", to_string(p), " for a tensor of rank ", r,
                "; expected every axis once.");
  std::vector<char> seen(static_cast<size_t>(r), 0);
  for (int64_t& a : p) {
    const int64_t given = a;
    a = normalize_axis(c.name(), a, r, "perm");
    if (r && seen[a]++)
      value_error(c.name(), ": axis ", given, " is given twice in perm ", to_string(c.ints("perm")), ".");
  }
  return p;
}
Ints inverse(const Ints& p) {
  Ints q(p.size(), 0);
  for (uint32_t i = 0; i < p.size(); ++i) q[p[i]] = i;
  return q;
}
Ints swapped(const Call& c) {
  Ints p;
  const int64_t r = c.type(0).shape.size();
  for (int64_t i = 0; i < r; ++i) p.push_back(i);
  if (r)
    std::swap(p[normalize_axis(c.name(), c.integer("axis0"), r, "axis0")],
              p[normalize_axis(c.name(), c.integer("axis1"), r, "axis1")]);
  return p;
}
Ints reversed(const Call& c) {
  Ints p;
  for (int64_t i = c.type(0).shape.size(); i-- > 0;) p.push_back(i);
  return p;
}
Shape permuted(const Shape& s, const Ints& p) {
  Shape r;
  for (int64_t a : p) r.push_back(s[a]);
  return r;
}
template <Ints (*Perm)(const Call&)>
OpDef permuting(const char* schema, const char* python, const char* doc) {
  return {
      .schema = schema,
      .python = python,
      .doc = doc,
      .infer = [](const Call& c) { return typed(c, permuted(c.type(0).shape, Perm(c))); },
      .view =
          [](const Call& c, const Ints& s, Ints* out, int64_t* offset) {
            *out = Ints(), *offset = 0;
            for (int64_t a : Perm(c)) out->push_back(s[a]);
            return true;
          },
      .vjp = [](const Call& c, const Values& g) -> Values { return {transpose(g[0], inverse(Perm(c)))}; },
      .write = [](const Call& c, const Value&, const Value& v) { return transpose(v, inverse(Perm(c))); }};
}
const Register permutations{
    permuting<permutation>("transpose(Tensor x, int[] perm) -> Tensor", YULOH_BOTH("transpose"),
                           "Axes in the order `perm`."),
    permuting<swapped>("swapaxes(Tensor x, int axis0, int axis1) -> Tensor",
                       YULOH_BOTH("swapaxes") " paddle.swapdims paddle.Tensor.swapdims",
                       "Two axes exchanged."),
    permuting<reversed>("t(Tensor input) -> Tensor", YULOH_BOTH("t"),
                        "Axes in reverse order (a matrix transposed)."),
};

// ---- part of each axis ----
struct Range {
  int64_t start, step, count;
};
struct Sliced {
  Ints axes;
  std::vector<Range> ranges;
};
Sliced ranges_of(const Call& c, const Shape& x) {
  Sliced r;
  const Ints axes = c.ints("axes"), starts = c.ints("starts"), ends = c.ints("ends");
  const Ints strides = c.has("strides") ? c.ints("strides") : Ints(axes.size(), 1);
  if (starts.size() != axes.size() || ends.size() != axes.size() || strides.size() != axes.size())
    value_error(c.name(), ": list lengths differ, got ", axes.size(), " axes, ", starts.size(), " starts, ",
                ends.size(), " ends and ", strides.size(), " strides; expected equal lengths.");
  for (uint32_t i = 0; i < axes.size(); ++i) {
    const int64_t a = normalize_axis(c.name(), axes[i], x.size()), n = x.empty() ? 1 : x[a],
                  step = strides[i];
    if (step == 0) value_error(c.name(), ": step is 0 on axis ", a, "; expected a non-zero step.");
    int64_t b = starts[i] < 0 ? starts[i] + n : starts[i], e = ends[i] < 0 ? ends[i] + n : ends[i];
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    b = std::min(std::max(b, low), high), e = std::min(std::max(e, low), high);
    const int64_t span = step > 0 ? e - b : b - e, size = step > 0 ? step : -step;
    r.axes.push_back(a);
    r.ranges.push_back({b, step, span <= 0 ? 0 : (span - 1) / size + 1});
  }
  return r;
}
Shape sliced_shape(const Call& c, Shape s) {
  const Sliced r = ranges_of(c, s);
  for (uint32_t i = 0; i < r.axes.size(); ++i) s[r.axes[i]] = r.ranges[i].count;
  return s;
}
bool view_sliced(const Call& c, const Ints& strides, Ints* out, int64_t* offset) {
  const Sliced r = ranges_of(c, c.type(0).shape);
  *out = strides, *offset = 0;
  for (uint32_t i = 0; i < r.axes.size(); ++i) {
    if (r.ranges[i].count) *offset += r.ranges[i].start * strides[r.axes[i]];
    (*out)[r.axes[i]] = strides[r.axes[i]] * r.ranges[i].step;
  }
  return true;
}
Ints steps(const Call& c) { return c.has("strides") ? c.ints("strides") : Ints(c.ints("axes").size(), 1); }
Values slice_vjp(const Call& c, const Values& g) {
  return {call("slice_grad", {g[0]},
               {{"shape", to_ints(c.type(0).shape)},
                {"axes", c.ints("axes")},
                {"starts", c.ints("starts")},
                {"ends", c.ints("ends")},
                {"strides", steps(c)}})};
}
Value slice_write(const Call& c, const Value& base, const Value& v) {
  return call("slice_write", {base, v},
              {{"axes", c.ints("axes")},
               {"starts", c.ints("starts")},
               {"ends", c.ints("ends")},
               {"strides", steps(c)}});
}
Types infer_slice(const Call& c) { return typed(c, sliced_shape(c, c.type(0).shape)); }

}  // namespace
// Where the slice lies inside `whole` (row-major or strided): used by the two host rows of gather.cpp.
bool slice_strides(const Call& c, const Shape& whole, const Ints& strides, Ints* out, int64_t* offset) {
  const Sliced r = ranges_of(c, whole);
  *out = strides, *offset = 0;
  for (uint32_t i = 0; i < r.axes.size(); ++i) {
    if (r.ranges[i].count) *offset += r.ranges[i].start * strides[r.axes[i]];
    (*out)[r.axes[i]] = strides[r.axes[i]] * r.ranges[i].step;
  }
  return true;
}
namespace {

Types infer_slice_write(const Call& c) {
  const Shape want = sliced_shape(c, c.type(0).shape);
  if (!(c.type(1).shape == want) || c.type(1).dtype != c.type(0).dtype)
    value_error(c.name(), ": the value does not fit, got ", c.type(1), "; expected ",
                TensorType{c.type(0).dtype, want}, ".");
  return {c.type(0)};
}

const Register slices{
    {.schema = "slice(Tensor input, int[] axes, int[] starts, int[] ends, int[]? strides=None) -> Tensor",
     .python = YULOH_BOTH("slice"),
     .doc = "input[starts:ends] on the named axes; ends are clamped, negatives count from the end.",
     .infer = infer_slice,
     .view = view_sliced,
     .vjp = slice_vjp,
     .write = slice_write},
    {.schema = "strided_slice(Tensor x, int[] axes, int[] starts, int[] ends, int[] strides) -> Tensor",
     .python = YULOH_BOTH("strided_slice"),
     .doc = "x[starts:ends:strides] on the named axes; with a negative stride an end below -extent means "
            "before the first.",
     .infer = infer_slice,
     .view = view_sliced,
     .vjp = slice_vjp,
     .write = slice_write},
    {.schema =
         "slice_grad(Tensor g, int[] shape, int[] axes, int[] starts, int[] ends, int[] strides) -> Tensor",
     .inner = true,
     .doc = "Zeros of `shape` with g placed where the slice was taken.",
     .infer = [](const Call& c) { return typed(c, shape_arg(c)); },
     .expand = [](const Call& c) -> Values {
       const Value zero = full(shape_arg(c), 0, c.type(0).dtype);
       return {call("slice_write", {zero, c["g"]},
                    {{"axes", c.ints("axes")},
                     {"starts", c.ints("starts")},
                     {"ends", c.ints("ends")},
                     {"strides", c.ints("strides")}})};
     },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("strided_slice", {g[0]},
                    {{"axes", c.ints("axes")},
                     {"starts", c.ints("starts")},
                     {"ends", c.ints("ends")},
                     {"strides", c.ints("strides")}})};
     }},
};
void host_slice_write(const HostCall& h);
const Register slice_writes{
    {.schema =
         "slice_write(Tensor x, Tensor value, int[] axes, int[] starts, int[] ends, int[] strides) -> Tensor",
     .doc = "x with value in place of the slice.",
     .infer = infer_slice_write,
     .host = host_slice_write,
     .vjp = [](const Call& c, const Values& g) -> Values {
       const Value gv = call("strided_slice", {g[0]},
                             {{"axes", c.ints("axes")},
                              {"starts", c.ints("starts")},
                              {"ends", c.ints("ends")},
                              {"strides", c.ints("strides")}});
       return {call("slice_write", {g[0], zeros_like(gv)},
                    {{"axes", c.ints("axes")},
                     {"starts", c.ints("starts")},
                     {"ends", c.ints("ends")},
                     {"strides", c.ints("strides")}}),
               gv};
     }},
};
void host_slice_write(const HostCall& h) {
  const HostOperand& out = h.out[0];
  copy_in(out, h.in[0]);
  Ints strides;
  int64_t offset;
  slice_strides(h.call, out.shape, out.strides, &strides, &offset);
  const size_t size = dtype_size(out.dtype);
  if (h.in[1].numel())
    copy_strided(h.in[1].shape, out.as<char>() + offset * static_cast<int64_t>(size), strides, h.in[1].data,
                 h.in[1].strides, size);
}

// ---- repeated along axes without memory ----
Types infer_broadcast(const Call& c) {
  const Shape& x = c.type(0).shape;
  Shape s;
  const Ints want = c.ints("shape");
  const int64_t extra = static_cast<int64_t>(want.size()) - static_cast<int64_t>(x.size());
  for (int64_t i = 0; i < static_cast<int64_t>(want.size()); ++i) {
    int64_t d = want[i];
    if (d == -1 && i >= extra) d = x[i - extra];
    if (extra < 0 || d < 0 || (i >= extra && x[i - extra] != d && x[i - extra] != 1))
      value_error(c.name(), ": cannot be expanded, got ", x, " and shape ", Shape(want.begin(), want.end()),
                  "; expected extents equal to those of x where these are not 1 (-1 keeps one), and at least "
                  "as many axes.");
    s.push_back(d);
  }
  if (extra < 0)
    value_error(c.name(), ": cannot be expanded, got ", x, " and shape ", s,
                "; expected at least as many axes.");
  return typed(c, s);
}
bool view_broadcast(const Call& c, const Ints& strides, Ints* out, int64_t* offset) {
  const Shape s = infer_broadcast(c)[0].shape;
  const Shape& x = c.type(0).shape;
  const uint32_t extra = s.size() - x.size();
  *out = Ints(s.size(), 0), *offset = 0;
  for (uint32_t i = 0; i < x.size(); ++i) (*out)[i + extra] = x[i] == 1 && s[i + extra] != 1 ? 0 : strides[i];
  return true;
}
const Register broadcasts{
    {.schema = "broadcast_to(Tensor x, int[] shape) -> Tensor",
     .python = YULOH_BOTH("broadcast_to") " " YULOH_BOTH("expand"),
     .doc = "x repeated to `shape` along new axes and axes of extent 1; -1 keeps an extent.",
     .infer = infer_broadcast,
     .view = view_broadcast,
     .vjp = [](const Call& c, const Values& g) -> Values { return {sum_to(g[0], c.type(0).shape)}; }},
    {.schema = "expand_as(Tensor x, Tensor y) -> Tensor",
     .python = YULOH_BOTH("expand_as"),
     .doc = "x expanded to the shape of y.",
     .infer = [](const Call& c) { return typed(c, c.type(1).shape); },
     .expand = [](const Call& c) -> Values { return {broadcast_to(c["x"], c.type(1).shape)}; }},
};
}  // namespace
}  // namespace yuloh
