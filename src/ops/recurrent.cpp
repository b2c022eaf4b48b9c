// SPDX-License-Identifier: Apache-2.0
// An LSTM's walk along a sequence, as one op: the recorder, the passes and the plan see one node per layer instead of
// some twenty per time step. The body is the unrolled walk; a device may take the whole walk (cpu/lstm.cpp), which keeps
// the weight packed and in cache. The gradient walks back the same way and leaves the weight's gradient to one product
// over all time steps.
#include "ops/fn.h"

namespace yuloh {
namespace {

struct Walk {  // gates [time, batch, 4 * hidden]
  int64_t steps, batch, hidden;
  bool reverse;
  explicit Walk(const Call& c, const Shape& gates)
      : steps(gates[0]), batch(gates[1]), hidden(gates[2] / 4), reverse(c.flag("reverse")) {}
  int64_t at(int64_t step) const { return reverse ? steps - 1 - step : step; }  // step: 0, 1, 2... as walked
  Value slice(const Value& x, int64_t time) const {
    return reshape(yuloh::narrow(x, 0, time, 1), {batch, x.shape()[2]});
  }
  Value gate(const Value& z, int64_t k) const { return yuloh::narrow(z, 1, k * hidden, hidden); }
  // The values of all times, given in the order of the walk.
  Value stacked(Values parts) const {
    if (reverse) std::reverse(parts.begin(), parts.end());
    for (Value& v : parts) v = reshape(v, {1, batch, v.shape()[1]});
    return concat(parts, 0);
  }
};

Value as(const Value& x, DType t) { return x.dtype() == t ? x : cast(x, t); }
// The state's share of the gates; the weight may be narrower than the gates (mixed precision).
Value product(const Value& x, const Value& w, bool transpose_w) {
  return as(matmul(as(x, w.dtype()), w, false, transpose_w), x.dtype());
}
Value slope(const Value& y) { return y * (1.0 - y); }  // of sigmoid, from its result

void require_state(const Call& c, const char* name, const Shape& want) {
  const Value v = c[name];
  if (v && !(v.shape() == want))
    value_error(c.name(), ": ", name, " does not fit, got shape ", v.shape(), "; expected ", want, ".");
}

Types infer_walk(const Call& c) {
  require_float(c, 0);
  const Shape& g = c.type(0).shape;
  if (g.size() != 3 || g[2] % 4 != 0 || g[0] < 1)
    value_error(c.name(), ": gates are not [time, batch, 4 * hidden] with at least one time step, got shape ", g, ".");
  const Shape state{g[1], g[2] / 4};
  require_state(c, "weight", {g[2], g[2] / 4});
  require_state(c, "bias", {g[2]});
  require_state(c, "h", state);
  require_state(c, "c", state);
  const DType t = c.type(0).dtype;
  return {{t, {g[0], state[0], state[1]}}, {t, {g[0], state[0], state[1]}}, {t, g}};
}

Values walk(const Call& c) {
  const Walk w(c, c.type(0).shape);
  Value h = c["h"], cell = c["c"];
  Values hs, cells, gates;
  for (int64_t s = 0; s < w.steps; ++s) {
    const Value z = w.slice(c["gates"], w.at(s)) + (product(h, c["weight"], true) + c["bias"]);
    const Value i = un("sigmoid", w.gate(z, 0)), f = un("sigmoid", w.gate(z, 1)), g = un("tanh", w.gate(z, 2)),
                o = un("sigmoid", w.gate(z, 3));
    cell = f * cell + i * g;
    h = o * un("tanh", cell);
    hs.push_back(h), cells.push_back(cell), gates.push_back(concat({i, f, g, o}, 1));
  }
  return {w.stacked(hs), w.stacked(cells), w.stacked(gates)};
}

Value plus(const Value& a, const Value& b) { return !a ? b : !b ? a : a + b; }

Values walk_back(const Call& c) {
  const Walk w(c, c.type(3).shape);
  const Value gh = c["gh"], gc = c["gc"], ga = c["ga"];
  const auto of = [&](const Value& g, int64_t t) { return g ? w.slice(g, t) : Value(); };
  Value dh, dc;
  Values dz;
  for (int64_t s = w.steps - 1; s >= 0; --s) {
    const int64_t t = w.at(s);
    const Value act = w.slice(c["act"], t), th = un("tanh", w.slice(c["cells"], t));
    const Value i = w.gate(act, 0), f = w.gate(act, 1), g = w.gate(act, 2), o = w.gate(act, 3);
    const Value before = s ? w.slice(c["cells"], w.at(s - 1)) : c["c"];
    dh = plus(dh, of(gh, t));
    if (!dh) dh = zeros_like(before);
    dc = plus(plus(dc, dh * o * (1.0 - th * th)), of(gc, t));
    const Value extra = of(ga, t);
    const auto share = [&](const Value& d, int64_t k) { return extra ? d + w.gate(extra, k) : d; };
    dz.push_back(concat({share(dc * g, 0) * slope(i), share(dc * before, 1) * slope(f),
                         share(dc * i, 2) * (1.0 - g * g), share(dh * th, 3) * slope(o)},
                        1));
    dc = dc * f;
    dh = product(dz.back(), c["weight"], false);
  }
  std::reverse(dz.begin(), dz.end());
  return {w.stacked(dz), dh, dc};
}

Values walk_vjp(const Call& c, const Values& g) {
  const Walk w(c, c.type(0).shape);
  const Value weight = c["weight"], h = reshape(c["h"], {1, w.batch, w.hidden});
  const Values d = call_all("lstm_walk_grad", {weight, c["c"], c.out(1), c.out(2), g[0], g[1], g[2]},
                            {{"reverse", w.reverse}});
  // Each time step multiplied the state before it: one product over all of them gives the weight's gradient.
  const Value before = w.steps == 1 ? h
                       : w.reverse  ? concat({yuloh::narrow(c.out(0), 0, 1, w.steps - 1), h}, 0)
                                    : concat({h, yuloh::narrow(c.out(0), 0, 0, w.steps - 1)}, 0);
  const Value dz = reshape(d[0], {w.steps * w.batch, 4 * w.hidden});
  const Value flat = reshape(before, {w.steps * w.batch, w.hidden});
  return {d[0], matmul(as(dz, weight.dtype()), as(flat, weight.dtype()), true), sum(d[0], {0, 1}, false), d[1], d[2]};
}

const Register rows{
    {.schema = "lstm_walk(Tensor gates, Tensor weight, Tensor bias, Tensor h, Tensor c, bool reverse=False) -> "
               "Tensor, Tensor, Tensor",
     .doc = "An LSTM along [time, batch, 4 * hidden], the input's share of its gates i, f, g, o. Results: hidden "
            "states and cells [time, batch, hidden], and the gates [time, batch, 4 * hidden].",
     .infer = infer_walk,
     .expand = walk,
     .vjp = walk_vjp,
     .needs = "weight h c out out1 out2",
     .kind = "recurrent"},
    {.schema = "lstm_walk_grad(Tensor weight, Tensor c, Tensor cells, Tensor act, Tensor? gh=None, Tensor? gc=None, "
               "Tensor? ga=None, bool reverse=False) -> Tensor, Tensor, Tensor",
     .inner = true,
     .doc = "Gradients of lstm_walk for gates before their functions, h and c.",
     .infer = [](const Call& c) -> Types { return {c.type(3), c.type(1), c.type(1)}; },
     .expand = walk_back,
     .kind = "recurrent"},
};

}  // namespace
}  // namespace yuloh
