// SPDX-License-Identifier: Apache-2.0
// Sliding windows over 1 to 3 spatial dims: the geometry that convolution and pooling share. Reads and checks
// the static attributes (kernel, stride, padding, dilation), computes output extents overflow-checked, and
// presents every rank as three dims so that one loop nest serves all. Used by ops/ (inference, reference) and
// cpu/ (library kernels).
#pragma once
#include "ops/op.h"

namespace yuloh {

struct Window {
  int n = 0;  // spatial dims
  Ints kernel, stride, pad_begin, pad_end, dilation;
};

// Attributes `stride`, `padding` (begin/end pairs) and, where the row has it, `dilation`; checks lengths and
// signs.
Window window_of(const Call& c, const Ints& kernel);
// Output extent along spatial axis i for an input extent; a kernel that does not fit the padded input is an
// error.
int64_t window_output(const Call& c, const Window& w, int i, int64_t input, bool ceil_mode = false);
Ints spatial_of(const Shape& s);  // the extents after N and C

// The same window as exactly three dims (front-filled with extent 1), for loop nests.
struct Window3 {
  int64_t in[3], out[3], k[3], s[3], p[3], d[3];
};
Window3 window3(const Window& w, const Ints& in, const Ints& out);
// Strides of an N, C, spatial... operand as {n, c, d0, d1, d2}.
struct Strides5 {
  int64_t n, c, d[3];
};
Strides5 strides5(const Ints& s);

// Storage access of reference loops by dtype: get -> double, put <- double.
struct HostF32 {
  using T = float;
  static double get(T v) { return v; }
  static T put(double v) { return static_cast<float>(v); }
};
struct HostF64 {
  using T = double;
  static double get(T v) { return v; }
  static T put(double v) { return v; }
};
struct HostBF16 {
  using T = uint16_t;
  static double get(T v) { return bf16_to_float(v); }
  static T put(double v) { return float_to_bf16(static_cast<float>(v)); }
};
struct HostF16 {
  using T = uint16_t;
  static double get(T v) { return half_to_float(v); }
  static T put(double v) { return float_to_half(static_cast<float>(v)); }
};
template <class F>
void with_float(const Call& c, DType t, F&& f) {
  switch (t) {
    case DType::kFloat32: return f(HostF32{});
    case DType::kFloat64: return f(HostF64{});
    case DType::kBFloat16: return f(HostBF16{});
    case DType::kFloat16: return f(HostF16{});
    default:
      type_error(c.name(), ": dtype is not supported, got ", t,
                 "; expected a floating point dtype. Hint: cast first.");
  }
}
void expect_float(const Call& c, uint32_t input);               // throws kType
void expect_same_dtype(const Call& c, uint32_t a, uint32_t b);  // throws kType
void expect_rank(const Call& c, uint32_t input, int64_t lo, int64_t hi);
void expect_same_rank(const Call& c, uint32_t a, uint32_t b);

}  // namespace yuloh
