// SPDX-License-Identifier: Apache-2.0
// Padding in all modes with its adjoint, and the moves between channels and space.
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

Types typed(const Call& c, Shape s) { return {{c.type(0).dtype, std::move(s)}}; }
Types like(const Call& c) { return {c.type(0)}; }

// ---- pad ----
// Where element i of the padded axis comes from, or -1 for the constant.
int64_t source(int64_t i, int64_t before, int64_t n, const std::string& mode) {
  i -= before;
  if (i >= 0 && i < n) return i;
  if (mode == "constant" || n == 0) return -1;
  if (mode == "replicate") return i < 0 ? 0 : n - 1;
  if (mode == "circular") return ((i % n) + n) % n;
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1),
                j = ((i % period) + period) % period;  // reflect: the edge is not repeated
  return j < n ? j : period - j;
}
// pairs: before and after for every axis.
Shape padded(const Call& c, const Shape& x) {
  const Ints p = c.ints("pairs");
  const std::string& mode = c.str("mode");
  if (p.size() != 2 * x.size())
    value_error("pad: pad does not fit, got ", p.size() / 2, " pairs for shape ", x, ".");
  Shape s = x;
  for (uint32_t i = 0; i < x.size(); ++i) {
    const int64_t big = std::max(p[2 * i], p[2 * i + 1]), far = int64_t{1} << 46;
    if (big > far || p[2 * i] < -far || p[2 * i + 1] < -far)
      value_error("pad: the padding is too large, got [", p[2 * i], ", ", p[2 * i + 1], "] for axis ", i,
                  ".");
    if (mode == "reflect" && big >= x[i] && big > 0)
      value_error("pad: reflection is too wide, got padding ", big, " for axis ", i, " of extent ", x[i],
                  "; expected less than the extent.");
    if (mode == "circular" && big > x[i])
      value_error("pad: circular padding is too wide, got ", big, " for axis ", i, " of extent ", x[i], ".");
    if (__builtin_add_overflow(s[i], p[2 * i] + p[2 * i + 1], &s[i]) || s[i] < 0)
      value_error("pad: the result would be negative, got padding [", p[2 * i], ", ", p[2 * i + 1],
                  "] for axis ", i, " of extent ", x[i], ".");
  }
  numel(s);
  return s;
}
std::vector<std::vector<int64_t>> sources(const Call& c, const Shape& x, const Shape& out) {
  const Ints p = c.ints("pairs");
  std::vector<std::vector<int64_t>> r(x.size());
  for (uint32_t d = 0; d < x.size(); ++d)
    for (int64_t i = 0; i < out[d]; ++i) r[d].push_back(source(i, p[2 * d], x[d], c.str("mode")));
  return r;
}
// f(position in out, element offset in x or -1) over the padded tensor.
template <class F>
void each_padded(const Call& c, const Shape& x, const Ints& strides, const Shape& out, F&& f) {
  const auto from = sources(c, x, out);
  const int64_t n = numel(out);
  Ints at(out.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    int64_t off = 0;
    for (uint32_t d = 0; d < at.size() && off >= 0; ++d)
      off = from[d][at[d]] < 0 ? -1 : off + from[d][at[d]] * strides[d];
    f(i, off);
    for (int d = static_cast<int>(at.size()) - 1; d >= 0 && ++at[d] == out[d]; --d) at[d] = 0;
  }
}
void host_pad(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const size_t size = dtype_size(x.dtype);
  char fill[16];
  store_double(fill, x.dtype, h.call.real("value"));
  each_padded(h.call, x.shape, x.strides, o.shape, [&](int64_t i, int64_t off) {
    std::memcpy(o.as<char>() + i * static_cast<int64_t>(size),
                off < 0 ? fill : x.as<char>() + off * static_cast<int64_t>(size), size);
  });
}
void host_pad_grad(const HostCall& h) {
  const HostOperand &g = h.in[0], &o = h.out[0];
  with_float("pad", o.dtype, [&](auto e) {
    using E = decltype(e);
    std::vector<typename E::C> acc(static_cast<size_t>(o.numel()), 0);
    Walk<1> w(g.shape, {g.strides});
    each_padded(h.call, o.shape, row_major_strides(o.shape), g.shape, [&](int64_t, int64_t off) {
      if (off >= 0) acc[static_cast<size_t>(off)] += E::get(g.as<typename E::T>()[w.offset[0]]);
      w.next();
    });
    for (size_t i = 0; i < acc.size(); ++i) o.as<typename E::T>()[i] = E::put(acc[i]);
  });
}
const Register padding{
    {.schema = "pad_core(Tensor x, int[] pairs, str mode='constant', float value=0.0) -> Tensor",
     .doc = "x extended before and after each axis (pairs), by a constant, reflection, the edge value or "
            "wrap-around.",
     .infer = [](const Call& c) -> Types {
       const std::string& m = c.str("mode");
       if (m != "constant" && m != "reflect" && m != "replicate" && m != "circular")
         value_error("pad: unknown mode, got '", m,
                     "'; expected 'constant', 'reflect', 'replicate' or 'circular'.");
       return typed(c, padded(c, c.type(0).shape));
     },
     .host = host_pad,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {
           call("pad_grad", {g[0]},
                {{"shape", to_ints(c.type(0).shape)}, {"pairs", c.ints("pairs")}, {"mode", c.str("mode")}})};
     }},
    {.schema = "pad_grad(Tensor g, int[] shape, int[] pairs, str mode) -> Tensor",
     .inner = true,
     .doc = "Each element of g added where pad took it from.",
     .infer = [](const Call& c) -> Types {
       require_float(c, 0);
       const Shape x = shape_arg(c), g = padded(c, x);
       if (!(g == c.type(0).shape))
         value_error("pad_grad: g does not fit, got shape ", c.type(0).shape, "; expected ", g, ".");
       return typed(c, x);
     },
     .host = host_pad_grad,
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {
           call("pad_core", {g[0]}, {{"pairs", c.ints("pairs")}, {"mode", c.str("mode")}, {"value", 0.0}})};
     }},
};

// ---- channels and space ----
bool channels_last(const Call& c) {
  const std::string& f = c.str("data_format");
  if (f != "NCHW" && f != "NHWC")
    value_error(c.name(), ": unknown data_format, got '", f, "'; expected 'NCHW' or 'NHWC'.");
  return f == "NHWC";
}
Value to_nchw(const Call& c) { return channels_last(c) ? transpose(c["x"], {0, 3, 1, 2}) : c["x"]; }
Value from_nchw(const Call& c, const Value& v) { return channels_last(c) ? transpose(v, {0, 2, 3, 1}) : v; }
Shape nchw(const Call& c) {
  require_rank(c, 0, 4, 4);
  const Shape& s = c.type(0).shape;
  return channels_last(c) ? Shape{s[0], s[3], s[1], s[2]} : s;
}
Types infer_nchw(const Call& c, Shape s) {
  return typed(c, channels_last(c) ? Shape{s[0], s[2], s[3], s[1]} : s);
}
constexpr int64_t kMaxFactor = 1 << 20;  // its square times an extent fits into 64 bits
Shape shuffled(const Call& c) {
  const Shape s = nchw(c);
  const int64_t r = c.integer("upscale_factor");
  if (r < 1 || r > kMaxFactor || s[1] % (r * r))
    value_error("pixel_shuffle: channels do not fit, got shape ", c.type(0).shape, " and upscale_factor ", r,
                "; expected channels divisible by ", r * r, ".");
  return {s[0], s[1] / (r * r), s[2] * r, s[3] * r};
}
Shape unshuffled(const Call& c) {
  const Shape s = nchw(c);
  const int64_t r = c.integer("downscale_factor");
  if (r < 1 || r > kMaxFactor || s[2] % r || s[3] % r)
    value_error("pixel_unshuffle: extents do not fit, got shape ", c.type(0).shape, " and downscale_factor ",
                r, "; expected multiples of it.");
  return {s[0], s[1] * r * r, s[2] / r, s[3] / r};
}
const Register space{
    {.schema = "pixel_shuffle(Tensor x, int upscale_factor, str data_format='NCHW') -> Tensor",
     .python = YULOH_F("pixel_shuffle"),
     .doc = "Groups of r * r channels become r x r blocks of pixels.",
     .infer = [](const Call& c) { return infer_nchw(c, shuffled(c)); },
     .expand = [](const Call& c) -> Values {
       const Shape s = nchw(c), out = shuffled(c);
       const int64_t r = c.integer("upscale_factor");
       const Value v = reshape(to_nchw(c), {s[0], out[1], r, r, s[2], s[3]});
       return {from_nchw(c, reshape(transpose(v, {0, 1, 4, 2, 5, 3}), out))};
     }},
    {.schema = "pixel_unshuffle(Tensor x, int downscale_factor, str data_format='NCHW') -> Tensor",
     .python = YULOH_F("pixel_unshuffle"),
     .doc = "r x r blocks of pixels become groups of r * r channels.",
     .infer = [](const Call& c) { return infer_nchw(c, unshuffled(c)); },
     .expand = [](const Call& c) -> Values {
       const Shape s = nchw(c), out = unshuffled(c);
       const int64_t r = c.integer("downscale_factor");
       const Value v = reshape(to_nchw(c), {s[0], s[1], out[2], r, out[3], r});
       return {from_nchw(c, reshape(transpose(v, {0, 1, 3, 5, 2, 4}), out))};
     }},
    {.schema = "channel_shuffle(Tensor x, int groups, str data_format='NCHW') -> Tensor",
     .python = YULOH_F("channel_shuffle"),
     .doc = "Channels dealt round the groups.",
     .infer =
         [](const Call& c) {
           const Shape s = nchw(c);
           if (c.integer("groups") < 1 || s[1] % c.integer("groups"))
             value_error("channel_shuffle: channels do not fit, got ", s[1], " channels and ",
                         c.integer("groups"), " groups; expected a multiple.");
           return like(c);
         },
     .expand = [](const Call& c) -> Values {
       const Shape s = nchw(c);
       const int64_t g = c.integer("groups");
       const Value v = transpose(reshape(to_nchw(c), {s[0], g, s[1] / g, s[2], s[3]}), {0, 2, 1, 3, 4});
       return {from_nchw(c, reshape(v, s))};
     }},
};
}  // namespace
}  // namespace yuloh
