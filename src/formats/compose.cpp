// SPDX-License-Identifier: Apache-2.0
#include "formats/compose.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace yuloh::formats {

Value data_of(const std::vector<int64_t>& v, const Shape& s, DType t) {
  const TensorType type{t, s};
  auto b = allocate_buffer(type);
  for (size_t i = 0; i < v.size(); ++i) {
    char* at = static_cast<char*>(b->data()) + i * dtype_size(t);
    if (is_integral(t)) store_int(at, t, v[i]);
    else store_double(at, t, static_cast<double>(v[i]));
  }
  return make_data(type, std::move(b));
}
Value data_of(const std::vector<double>& v, const Shape& s, DType t) {
  const TensorType type{t, s};
  auto b = allocate_buffer(type);
  for (size_t i = 0; i < v.size(); ++i) {
    char* at = static_cast<char*>(b->data()) + i * dtype_size(t);
    if (is_integral(t)) store_int(at, t, static_cast<int64_t>(v[i]));
    else store_double(at, t, v[i]);
  }
  return make_data(type, std::move(b));
}

// ---- resizing ----
Value resize_axis(const Value& x, int64_t axis, Resize how, const std::vector<double>& where, double a) {
  const int64_t size = x.shape()[static_cast<size_t>(axis)];
  if (size < 1) value_error("resize: axis ", axis, " of ", x.shape(), " is empty.");
  const auto clamp = [&](double p) { return std::clamp<int64_t>(static_cast<int64_t>(p), 0, size - 1); };
  bool same = static_cast<int64_t>(where.size()) == size;
  for (size_t i = 0; same && i < where.size(); ++i) same = where[i] == static_cast<double>(i);
  if (same) return x;
  if (how == Resize::kNearest) {
    std::vector<int64_t> index;
    for (double p : where) index.push_back(clamp(p));
    return call("index_select", {x, data_of(index, {static_cast<int64_t>(index.size())})}, {{"axis", axis}});
  }
  Ints index;
  std::vector<double> weight;
  for (double p : where) {
    const double low = std::floor(p), s = p - low;
    if (how == Resize::kLinear) {
      index.push_back(clamp(low)), index.push_back(clamp(low + 1));
      weight.push_back(1 - s), weight.push_back(s);
      continue;
    }
    const auto near = [a](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
    const auto far = [a](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
    for (int k = -1; k <= 2; ++k) index.push_back(clamp(low + k));
    for (double w : {far(s + 1), near(s), near(1 - s), far(2 - s)}) weight.push_back(w);
  }
  return call("resample", {x}, {{"axis", axis}, {"taps", how == Resize::kLinear ? 2 : 4}, {"index", index}, {"weight", weight}});
}

// ---- recurrent layers ----
namespace {
Value step_of(const Value& x, int64_t t) { return reshape(narrow(x, 0, t, 1), Shape{x.shape()[1], x.shape()[2]}); }
Value sigmoid(const Value& x) { return un("sigmoid", x); }
Value tanh_of(const Value& x) { return un("tanh", x); }
Values parts(const Value& x, int64_t n) {
  const int64_t each = x.shape()[1] / n;
  return call_all("split", {x}, {{"sizes", Ints(static_cast<size_t>(n), each)}, {"axis", 1}});
}
Value plus(const Value& a, const Value& bias) { return bias ? a + bias : a; }
}  // namespace

RecurrenceOut run_recurrence(const Recurrence& r, const Value& x) {
  const int64_t time = x.shape()[0], batch = x.shape()[1], hidden = r.hh.shape()[1];
  const Value projected = plus(matmul(x, r.ih, false, true), r.bias_ih);
  Value h = r.h ? r.h : full({batch, hidden}, 0, x.dtype());
  Value c = r.cell == Cell::kLstm ? (r.c ? r.c : full({batch, hidden}, 0, x.dtype())) : Value();
  Values ys(static_cast<size_t>(time));
  for (int64_t k = 0; k < time; ++k) {
    const int64_t t = r.reverse ? time - 1 - k : k;
    const Value in = step_of(projected, t);
    Value next, next_c;
    if (r.cell == Cell::kGru) {
      const Values p = parts(in, 3);
      Value gate_r, gate_z, candidate;
      if (r.linear_before_reset) {
        const Values s = parts(plus(matmul(h, r.hh, false, true), r.bias_hh), 3);
        gate_r = sigmoid(p[0] + s[0]), gate_z = sigmoid(p[1] + s[1]);
        candidate = tanh_of(p[2] + gate_r * s[2]);
      } else {
        const Value rz = narrow(r.hh, 0, 0, 2 * hidden), own = narrow(r.hh, 0, 2 * hidden, hidden);
        Value s = matmul(h, rz, false, true);
        if (r.bias_hh) s = s + narrow(r.bias_hh, 0, 0, 2 * hidden);
        const Values q = parts(s, 2);
        gate_r = sigmoid(p[0] + q[0]), gate_z = sigmoid(p[1] + q[1]);
        Value m = matmul(gate_r * h, own, false, true);
        if (r.bias_hh) m = m + narrow(r.bias_hh, 0, 2 * hidden, hidden);
        candidate = tanh_of(p[2] + m);
      }
      next = (h - candidate) * gate_z + candidate;
    } else {
      const Value sums = in + plus(matmul(h, r.hh, false, true), r.bias_hh);
      if (r.cell == Cell::kLstm) {
        const Values g = parts(sums, 4);
        next_c = sigmoid(g[1]) * c + sigmoid(g[0]) * tanh_of(g[2]);
        next = sigmoid(g[3]) * tanh_of(next_c);
      } else {
        next = r.cell == Cell::kRelu ? un("relu", sums) : tanh_of(sums);
      }
    }
    Value out = next;
    if (r.lengths) {
      const Value valid = reshape(greater_than(r.lengths, constant(static_cast<double>(t), r.lengths.dtype())), {batch, 1});
      out = where_or(valid, next, 0);
      next = where(valid, next, h);
      if (next_c) next_c = where(valid, next_c, c);
    }
    ys[static_cast<size_t>(t)] = out;
    h = next;
    if (next_c) c = next_c;
  }
  if (time == 0) return {full({0, batch, hidden}, 0, x.dtype()), h, c};
  return {call("stack", ys, {{"axis", 0}}), h, c};
}

std::vector<int64_t> nms(const float* corners, const float* scores, const int64_t* groups, int64_t n, double threshold) {
  std::vector<int64_t> order(static_cast<size_t>(n)), keep;
  std::iota(order.begin(), order.end(), int64_t{0});
  if (scores) std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  const auto area = [&](int64_t i) {
    const float* b = corners + 4 * i;
    return (double{b[2]} - b[0]) * (double{b[3]} - b[1]);
  };
  for (int64_t i : order) {
    const float* p = corners + 4 * i;
    bool drop = false;
    for (int64_t k : keep) {
      if (groups && groups[k] != groups[i]) continue;
      const float* q = corners + 4 * k;
      const double w = std::max(0.0, double{std::min(p[2], q[2])} - std::max(p[0], q[0]));
      const double h = std::max(0.0, double{std::min(p[3], q[3])} - std::max(p[1], q[1]));
      const double both = w * h, either = area(i) + area(k) - both;
      if (either > 0 && both / either > threshold) {
        drop = true;
        break;
      }
    }
    if (!drop) keep.push_back(i);
  }
  return keep;
}

}  // namespace yuloh::formats
