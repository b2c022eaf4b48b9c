// SPDX-License-Identifier: Apache-2.0
#include "formats/compose.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <set>

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
  return call(
      "resample", {x},
      {{"axis", axis}, {"taps", how == Resize::kLinear ? 2 : 4}, {"index", index}, {"weight", weight}});
}

// ---- einsum: labels are characters; an ellipsis' axes get the characters 0, 1, ... from the right ----
namespace {
using Labels = std::string;
struct Labelled {
  Value v;
  Labels labels;
};

Labels expand_ellipsis(const std::string& text, int64_t rank, const std::string& equation) {
  const size_t dots = text.find("...");
  const int64_t named = static_cast<int64_t>(text.size()) - (dots == text.npos ? 0 : 3);
  if (dots == text.npos ? named != rank : named > rank)
    value_error("einsum: operand ", text, " of ", equation, " has ", named, " labels; expected ", rank, ".");
  if (dots == text.npos) return text;
  Labels middle;
  for (int64_t k = rank - named; k-- > 0;) middle += static_cast<char>(1 + k);
  return text.substr(0, dots) + middle + text.substr(dots + 3);
}

// A label that stands twice takes the diagonal.
Labelled without_repeats(Labelled t) {
  for (size_t i = 0; i < t.labels.size(); ++i) {
    const size_t j = t.labels.find(t.labels[i], i + 1);
    if (j == Labels::npos) continue;
    const int64_t n = t.v.shape()[i];
    if (t.v.shape()[j] != n)
      value_error("einsum: label ", std::string(1, t.labels[i]), " has sizes ", n, " and ", t.v.shape()[j],
                  ".");
    Shape a(t.v.rank(), 1), b(t.v.rank(), 1);
    a[i] = n, b[j] = n;
    const Value on = cast(equal(iota(a, static_cast<int64_t>(i), DType::kInt64),
                                iota(b, static_cast<int64_t>(j), DType::kInt64)),
                          t.v.dtype());
    t.v = sum(t.v * on, {static_cast<int64_t>(j)}, false);
    t.labels.erase(j, 1);
    --i;
  }
  return t;
}

Labelled summed(Labelled t, const Labels& keep) {
  Ints axes;
  Labels left;
  for (size_t i = 0; i < t.labels.size(); ++i)
    if (keep.find(t.labels[i]) == Labels::npos) axes.push_back(static_cast<int64_t>(i));
    else left += t.labels[i];
  if (!axes.empty()) t.v = sum_in(t.v, axes, false, t.v.dtype());
  t.labels = left;
  return t;
}

// Axes in the order of `order`; labels that t lacks become extents of 1.
Value arranged(const Labelled& t, const Labels& order) {
  Ints perm;
  Shape shape;
  for (char c : order) {
    const size_t i = t.labels.find(c);
    if (i != Labels::npos) perm.push_back(static_cast<int64_t>(i)), shape.push_back(t.v.shape()[i]);
    else shape.push_back(1);
  }
  return reshape(transpose(t.v, perm), shape);
}

int64_t extent(const Value& v, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= v.shape()[i];
  return n;
}

Labelled contract(Labelled a, Labelled b, const Labels& keep) {
  const Labels both_keep = keep;
  a = summed(a, keep + b.labels), b = summed(b, keep + a.labels);
  Labels batch, left, right, inner;
  for (char c : a.labels) {
    const bool shared = b.labels.find(c) != Labels::npos;
    const bool broadcast = shared && a.v.shape()[a.labels.find(c)] != b.v.shape()[b.labels.find(c)];
    if (!shared) left += c;
    else if (both_keep.find(c) != Labels::npos || broadcast) batch += c;
    else inner += c;
  }
  for (char c : b.labels)
    if (a.labels.find(c) == Labels::npos) right += c;
  const Value x = arranged(a, batch + left + inner), y = arranged(b, batch + inner + right);
  const size_t nb = batch.size();
  Shape xs, ys, out;
  for (size_t i = 0; i < nb; ++i) {
    xs.push_back(x.shape()[i]), ys.push_back(y.shape()[i]);
    out.push_back(std::max(x.shape()[i], y.shape()[i]));
    if (x.shape()[i] == 0 || y.shape()[i] == 0) out.back() = 0;
  }
  const int64_t m = extent(x, nb, nb + left.size()), k = extent(x, nb + left.size(), x.shape().size());
  const int64_t n = extent(y, nb + inner.size(), y.shape().size());
  xs.push_back(m), xs.push_back(k);
  ys.push_back(extent(y, nb, nb + inner.size())), ys.push_back(n);
  for (size_t i = 0; i < left.size(); ++i) out.push_back(x.shape()[nb + i]);
  for (size_t i = 0; i < right.size(); ++i) out.push_back(y.shape()[nb + inner.size() + i]);
  Labelled r{reshape(matmul(reshape(x, xs), reshape(y, ys)), out), batch + left + right};
  return summed(std::move(r), keep);
}
}  // namespace

Value einsum(const std::string& equation, const Values& operands) {
  std::string text;
  for (char c : equation)
    if (c != ' ') text += c;
  const size_t arrow = text.find("->");
  for (char c : text)
    if (!std::isalpha(static_cast<unsigned char>(c)) &&
        std::string_view(".,->").find(c) == std::string_view::npos)
      value_error("einsum: ", equation, " has a character that is no label.");
  std::vector<std::string> parts(1);
  for (char c : text.substr(0, arrow))
    if (c == ',') parts.emplace_back();
    else parts.back() += c;
  if (parts.size() != operands.size())
    value_error("einsum: ", equation, " names ", parts.size(), " operands, got ", operands.size(), ".");
  std::vector<Labelled> in;
  Labels all;
  int64_t widest = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    in.push_back(without_repeats({operands[i], expand_ellipsis(parts[i], operands[i].rank(), equation)}));
    for (char c : expand_ellipsis(parts[i], operands[i].rank(), equation)) {
      all += c;
      if (c < 32) widest = std::max<int64_t>(widest, c);
    }
  }
  Labels result, dots;
  for (int64_t k = widest; k-- > 0;) dots += static_cast<char>(1 + k);
  if (arrow != text.npos) {
    const std::string right = text.substr(arrow + 2);
    const size_t at = right.find("...");
    result = at == right.npos ? right : right.substr(0, at) + dots + right.substr(at + 3);
  } else {
    std::set<char> once;
    for (char c : all)
      if (c >= 32 && std::count(all.begin(), all.end(), c) == 1) once.insert(c);
    result = dots + Labels(once.begin(), once.end());
  }
  for (char c : result)
    if (all.find(c) == Labels::npos)
      value_error("einsum: label ", std::string(1, c), " of the result of ", equation, " is in no operand.");
  Labelled t = in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    Labels keep = result;
    for (size_t k = i + 1; k < in.size(); ++k) keep += in[k].labels;
    t = contract(t, in[i], keep);
  }
  t = summed(t, result);
  return arranged(t, result);
}

// ---- recurrent layers ----
namespace {
Value step_of(const Value& x, int64_t t) {
  return reshape(narrow(x, 0, t, 1), Shape{x.shape()[1], x.shape()[2]});
}
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
  if (r.cell == Cell::kLstm && !r.lengths &&
      time > 0) {  // one op, whose length may stay open when the model is written
    const Value bias = r.bias_hh ? r.bias_hh : full({4 * hidden}, 0, x.dtype());
    const Values walk = call_all("lstm_walk", {projected, r.hh, bias, h, c}, {{"reverse", r.reverse}});
    const int64_t last = r.reverse ? 0 : time - 1;
    return {walk[0], step_of(walk[0], last), step_of(walk[1], last)};
  }
  if (r.cell == Cell::kGru && r.linear_before_reset && !r.lengths && time > 0) {
    const Value bias = r.bias_hh ? r.bias_hh : full({3 * hidden}, 0, x.dtype());
    const Value states = call_all("gru_walk", {projected, r.hh, bias, h}, {{"reverse", r.reverse}})[0];
    return {states, step_of(states, r.reverse ? 0 : time - 1), Value()};
  }
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
      const Value valid =
          reshape(greater_than(r.lengths, constant(static_cast<double>(t), r.lengths.dtype())), {batch, 1});
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

std::vector<int64_t> nms(const float* corners, const float* scores, const int64_t* groups, int64_t n,
                         double threshold) {
  std::vector<int64_t> order(static_cast<size_t>(n)), keep;
  std::iota(order.begin(), order.end(), int64_t{0});
  if (scores)
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
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
