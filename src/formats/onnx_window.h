// SPDX-License-Identifier: Apache-2.0
// The window of an ONNX convolution or pooling node, with auto_pad and ceil_mode worked out.
#pragma once
#include "formats/onnx_ops.h"

namespace yuloh::formats {

struct OnnxWindow {
  Ints kernel, stride, dilation;
  Ints pads;   // begin and end of each axis, as declared (or from auto_pad)
  Ints reach;  // how far windows reach over the input: the end may be less or (ceil_mode) more than declared
  Ints out;
  int64_t extent(size_t d) const;  // of the dilated kernel
};
OnnxWindow window_of(const Import& i, const Shape& x, Ints kernel);
Value conv_with(const Import& i, const Value& x, const Value& weight);  // without bias

}  // namespace yuloh::formats
