// SPDX-License-Identifier: Apache-2.0
#include "ops/window.h"

namespace yuloh {
namespace {

const char* arg_name(const Call& c, uint32_t i) {
  return i < c.op.args.size() ? c.op.args[i].name.c_str() : "input";
}

bool has_arg(const Call& c, std::string_view name) {
  for (const ArgSpec& a : c.op.args)
    if (a.name == name) return true;
  return false;
}

void expect_each(const Call& c, const char* name, const Ints& v, uint32_t n, int64_t least) {
  if (v.size() != n)
    value_error(c.name(), ": ", name, " has ", v.size(), " entries, got ", to_string(v), "; expected ", n,
                ".");
  for (int64_t x : v)
    if (x < least)
      value_error(c.name(), ": ", name, " is too small, got ", to_string(v),
                  "; expected every entry >= ", least, ".");
}

// Saturates: such extents cannot fit any input and are reported by the caller.
int64_t effective_kernel(int64_t k, int64_t dilation) {
  int64_t e;
  if (__builtin_mul_overflow(k - 1, dilation, &e) || __builtin_add_overflow(e, 1, &e)) return INT64_MAX;
  return e;
}

}  // namespace

Ints spatial_of(const Shape& s) { return Ints(s.begin() + 2, s.end()); }

Window window_of(const Call& c, const Ints& kernel) {
  Window w;
  w.n = static_cast<int>(kernel.size());
  w.kernel = kernel;
  w.stride = c.ints("stride");
  const Ints padding = c.ints("padding");
  w.dilation = has_arg(c, "dilation") ? c.ints("dilation") : Ints(w.n, 1);
  expect_each(c, "kernel_size", w.kernel, w.n, 1);
  expect_each(c, "stride", w.stride, w.n, 1);
  expect_each(c, "dilation", w.dilation, w.n, 1);
  expect_each(c, "padding", padding, 2 * w.n, 0);
  for (int i = 0; i < w.n; ++i)
    w.pad_begin.push_back(padding[2 * i]), w.pad_end.push_back(padding[2 * i + 1]);
  return w;
}

int64_t window_output(const Call& c, const Window& w, int i, int64_t input, bool ceil_mode) {
  const int64_t kernel = effective_kernel(w.kernel[i], w.dilation[i]);
  int64_t padded;
  if (__builtin_add_overflow(w.pad_begin[i], w.pad_end[i], &padded) ||
      __builtin_add_overflow(padded, input, &padded))
    value_error(c.name(), ": padded extent overflows along spatial axis ", i, ", got input ", input,
                " and padding ", w.pad_begin[i], ", ", w.pad_end[i], ".");
  if (kernel > padded)
    value_error(c.name(), ": the window is larger than the padded input along spatial axis ", i,
                ", got padded input ", padded, " (", input, " + ", w.pad_begin[i], " + ", w.pad_end[i],
                ") and effective kernel ", kernel, " (kernel ", w.kernel[i], ", dilation ", w.dilation[i],
                "); expected effective kernel <= padded input. Hint: pad more or use a smaller kernel.");
  const int64_t room = padded - kernel;
  int64_t out = room / w.stride[i] + 1;
  // ceil_mode adds a last, partial window, but only one that starts inside the input or its leading padding:
  // a window made of trailing padding alone has no value.
  if (ceil_mode && room % w.stride[i] != 0 && out * w.stride[i] < input + w.pad_begin[i]) ++out;
  return out;
}

Window3 window3(const Window& w, const Ints& in, const Ints& out) {
  Window3 r{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
  for (int i = 0; i < w.n; ++i) {
    const int j = 3 - w.n + i;
    r.in[j] = in[i], r.out[j] = out[i], r.k[j] = w.kernel[i];
    r.s[j] = w.stride[i], r.p[j] = w.pad_begin[i], r.d[j] = w.dilation[i];
  }
  return r;
}

Strides5 strides5(const Ints& s) {
  Strides5 r{s[0], s[1], {0, 0, 0}};
  const int n = static_cast<int>(s.size()) - 2;
  for (int i = 0; i < n; ++i) r.d[3 - n + i] = s[2 + i];
  return r;
}

void expect_float(const Call& c, uint32_t input) {
  if (!is_float(c.type(input).dtype))
    type_error(c.name(), ": ", arg_name(c, input), " has dtype ", c.type(input).dtype,
               "; expected a floating point dtype. Hint: cast it first.");
}

void expect_same_dtype(const Call& c, uint32_t a, uint32_t b) {
  if (c.type(a).dtype != c.type(b).dtype)
    type_error(c.name(), ": dtypes differ, got ", arg_name(c, a), " ", c.type(a).dtype, " and ",
               arg_name(c, b), " ", c.type(b).dtype, "; expected the same dtype. Hint: cast one of them.");
}

void expect_rank(const Call& c, uint32_t input, int64_t lo, int64_t hi) {
  const Shape& s = c.type(input).shape;
  const int64_t rank = s.size();
  if (rank < lo || rank > hi)
    value_error(c.name(), ": ", arg_name(c, input), " has rank ", rank, ", got shape ", s, "; expected rank ",
                lo, lo == hi ? std::string() : cat(" to ", hi), ".");
}

void expect_same_rank(const Call& c, uint32_t a, uint32_t b) {
  const Shape &x = c.type(a).shape, &y = c.type(b).shape;
  if (x.size() != y.size())
    value_error(c.name(), ": ranks differ, got ", arg_name(c, a), " ", x, " and ", arg_name(c, b), " ", y,
                "; expected equal ranks. Hint: a single sample needs a batch axis, x.unsqueeze(0).");
}

}  // namespace yuloh
