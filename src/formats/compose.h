// SPDX-License-Identifier: Apache-2.0
// Bodies that operators of several dialects share, composed of ops of the table: resizing along an axis,
// einsum, recurrent layers, non-maximum suppression.
#pragma once
#include <functional>
#include <string>

#include "ops/fn.h"

namespace yuloh::formats {

// Resizes `axis`: output i takes its value from source coordinate where[i], by the two (linear) or four
// (cubic, with coefficient `a`) nearest elements; kNearest takes element where[i], an integer already.
enum class Resize : uint8_t { kNearest, kLinear, kCubic };
Value resize_axis(const Value& x, int64_t axis, Resize how, const std::vector<double>& where,
                  double a = -0.75);

// Sum of products by labels, "bij,bjk->bik"; the result's part may be left out; an ellipsis stands for axes
// that broadcast.
Value einsum(const std::string& equation, const Values& operands);

// One direction of a recurrent layer over time-major x [time, batch, in]. Weights: ih [gates * hidden, in],
// hh [gates * hidden, hidden], biases may be null. The order of the gates is Paddle's: LSTM i f g o, GRU r z
// c.
enum class Cell : uint8_t { kTanh, kRelu, kLstm, kGru };
struct Recurrence {
  Cell cell;
  Value ih, hh, bias_ih, bias_hh;
  Value h, c;     // start: [batch, hidden]
  Value lengths;  // int [batch], null: all steps; later outputs are 0, states stay
  bool reverse = false;
  bool linear_before_reset = true;  // GRU: r scales W_hh h + b (Paddle, PyTorch); false: r scales h
};
struct RecurrenceOut {
  Value y;     // [time, batch, hidden]
  Value h, c;  // last states
};
RecurrenceOut run_recurrence(const Recurrence& r, const Value& x);

// Greedy non-maximum suppression on the host: positions of kept boxes, best first. corners [n][4]: x1 y1 x2
// y2; a box whose overlap (intersection over union) with a better kept one of the same group is above
// `threshold` is dropped.
std::vector<int64_t> nms(const float* corners, const float* scores, const int64_t* groups, int64_t n,
                         double threshold);

Value data_of(const std::vector<int64_t>& v, const Shape& s, DType t = DType::kInt64);  // a constant tensor
Value data_of(const std::vector<double>& v, const Shape& s, DType t = DType::kFloat32);

}  // namespace yuloh::formats
