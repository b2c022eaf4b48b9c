// SPDX-License-Identifier: Apache-2.0
// The walk of an LSTM or a GRU along a sequence, as one op: the recorder, the passes and the plan see one
// node per layer instead of some twenty per time step. The body is the unrolled walk; a device may take the
// whole walk (cpu/lstm.cpp, cpu/gru.cpp), which keeps the weight packed and in cache. The gradient walks back
// the same way and leaves the weight's gradient to one product over all time steps.
#include "ops/fn.h"

namespace yuloh {
namespace {

struct Walk {  // gates [time, batch, parts * hidden]
  int64_t steps, batch, hidden;
  bool reverse;
  Walk(const Call& c, const Shape& gates, int64_t parts = 4)
      : steps(gates[0]), batch(gates[1]), hidden(gates[2] / parts), reverse(c.flag("reverse")) {}
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

// The shape of a state, after the checks that both walks share.
Shape require_walk(const Call& c, int64_t parts) {
  require_float(c, 0);
  const Shape& g = c.type(0).shape;
  if (g.size() != 3 || g[2] % parts != 0 || g[0] < 1)
    value_error(c.name(), ": gates are not [time, batch, ", parts,
                " * hidden] with at least one time step, got shape ", g, ".");
  const Shape state{g[1], g[2] / parts};
  require_state(c, "weight", {g[2], g[2] / parts});
  require_state(c, "bias", {g[2]});
  require_state(c, "h", state);
  return state;
}
Types infer_walk(const Call& c) {
  const Shape state = require_walk(c, 4), &g = c.type(0).shape;
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
    const Value i = un("sigmoid", w.gate(z, 0)), f = un("sigmoid", w.gate(z, 1)),
                g = un("tanh", w.gate(z, 2)), o = un("sigmoid", w.gate(z, 3));
    cell = f * cell + i * g;
    h = o * un("tanh", cell);
    hs.push_back(h), cells.push_back(cell), gates.push_back(concat({i, f, g, o}, 1));
  }
  return {w.stacked(hs), w.stacked(cells), w.stacked(gates)};
}

Value plus(const Value& a, const Value& b) { return !a ? b : !b ? a : a + b; }

// Each time step multiplied the state before it: one product over all of them gives the weight's gradient.
// `dz`: that of the state's share of the gates; c.out(0): the states.
Value weight_gradient(const Call& c, const Walk& w, const Value& dz) {
  const Value h = reshape(c["h"], {1, w.batch, w.hidden});
  const Value before = w.steps == 1 ? h
                       : w.reverse  ? concat({yuloh::narrow(c.out(0), 0, 1, w.steps - 1), h}, 0)
                                    : concat({h, yuloh::narrow(c.out(0), 0, 0, w.steps - 1)}, 0);
  const DType t = c["weight"].dtype();
  return matmul(as(reshape(dz, {w.steps * w.batch, dz.shape()[2]}), t),
                as(reshape(before, {w.steps * w.batch, w.hidden}), t), true);
}

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
  const Values d = call_all("lstm_walk_grad", {c["weight"], c["c"], c.out(1), c.out(2), g[0], g[1], g[2]},
                            {{"reverse", w.reverse}});
  return {d[0], weight_gradient(c, w, d[0]), sum(d[0], {0, 1}, false), d[1], d[2]};
}

// ---- GRU: gates r, z, c ----
Types infer_gru(const Call& c) {
  const Shape state = require_walk(c, 3), &g = c.type(0).shape;
  const DType t = c.type(0).dtype;
  return {{t, {g[0], state[0], state[1]}}, {t, {g[0], state[0], 4 * state[1]}}};
}

Values gru(const Call& c) {
  const Walk w(c, c.type(0).shape, 3);
  Value h = c["h"];
  Values hs, gates;
  for (int64_t step = 0; step < w.steps; ++step) {
    const Value x = w.slice(c["gates"], w.at(step)), s = product(h, c["weight"], true) + c["bias"],
                own = w.gate(s, 2);
    const Value r = un("sigmoid", w.gate(x, 0) + w.gate(s, 0)),
                z = un("sigmoid", w.gate(x, 1) + w.gate(s, 1));
    const Value candidate = un("tanh", w.gate(x, 2) + r * own);
    h = (h - candidate) * z + candidate;
    hs.push_back(h), gates.push_back(concat({r, z, candidate, own}, 1));
  }
  return {w.stacked(hs), w.stacked(gates)};
}

Values gru_back(const Call& c) {
  const Walk w(c, c.type(2).shape);
  const Value gh = c["gh"], ga = c["ga"];
  Value dh;
  Values dx, ds;
  for (int64_t step = w.steps - 1; step >= 0; --step) {
    const int64_t t = w.at(step);
    const Value act = w.slice(c["act"], t), r = w.gate(act, 0), z = w.gate(act, 1),
                candidate = w.gate(act, 2);
    const Value before = step ? w.slice(c["states"], w.at(step - 1)) : c["h"];
    if (gh) dh = plus(dh, w.slice(gh, t));
    if (!dh) dh = zeros_like(before);
    const Value extra = ga ? w.slice(ga, t) : Value();
    const auto share = [&](const Value& d, int64_t k) { return extra ? d + w.gate(extra, k) : d; };
    const Value dz = share(dh * (before - candidate), 1) * slope(z);
    const Value dc = share(dh * (1.0 - z), 2) * (1.0 - candidate * candidate);
    const Value dr = share(dc * w.gate(act, 3), 0) * slope(r);
    dx.push_back(concat({dr, dz, dc}, 1)), ds.push_back(concat({dr, dz, share(dc * r, 3)}, 1));
    dh = dh * z + product(ds.back(), c["weight"], false);
  }
  std::reverse(dx.begin(), dx.end()), std::reverse(ds.begin(), ds.end());
  return {w.stacked(dx), w.stacked(ds), dh};
}

Values gru_vjp(const Call& c, const Values& g) {
  const Walk w(c, c.type(0).shape, 3);
  const Values d = call_all("gru_walk_grad", {c["weight"], c.out(0), c.out(1), c["h"], g[0], g[1]},
                            {{"reverse", w.reverse}});
  return {d[0], weight_gradient(c, w, d[1]), sum(d[1], {0, 1}, false), d[2]};
}

const Register rows{
    {.schema =
         "lstm_walk(Tensor gates, Tensor weight, Tensor bias, Tensor h, Tensor c, bool reverse=False) -> "
         "Tensor, Tensor, Tensor",
     .doc = "An LSTM along [time, batch, 4 * hidden], the input's share of its gates i, f, g, o. Results: "
            "hidden "
            "states and cells [time, batch, hidden], and the gates [time, batch, 4 * hidden].",
     .infer = infer_walk,
     .expand = walk,
     .vjp = walk_vjp,
     .needs = "weight h c out out1 out2",
     .kind = "recurrent"},
    {.schema = "lstm_walk_grad(Tensor weight, Tensor c, Tensor cells, Tensor act, Tensor? gh=None, Tensor? "
               "gc=None, "
               "Tensor? ga=None, bool reverse=False) -> Tensor, Tensor, Tensor",
     .inner = true,
     .doc = "Gradients of lstm_walk for gates before their functions, h and c.",
     .infer = [](const Call& c) -> Types {
       return {c.type(3), c.type(1), c.type(1)};
     },
     .expand = walk_back,
     .kind = "recurrent"},
    {.schema =
         "gru_walk(Tensor gates, Tensor weight, Tensor bias, Tensor h, bool reverse=False) -> Tensor, Tensor",
     .doc = "A GRU along [time, batch, 3 * hidden], the input's share of its gates r, z, c, bias included; r "
            "multiplies the "
            "state's share of c. Results: hidden states [time, batch, hidden], and r, z, c and the state's "
            "share of c "
            "[time, batch, 4 * hidden].",
     .infer = infer_gru,
     .expand = gru,
     .vjp = gru_vjp,
     .needs = "weight h out out1",
     .kind = "recurrent"},
    {.schema = "gru_walk_grad(Tensor weight, Tensor states, Tensor act, Tensor h, Tensor? gh=None, Tensor? "
               "ga=None, "
               "bool reverse=False) -> Tensor, Tensor, Tensor",
     .inner = true,
     .doc = "Gradients of gru_walk for the input's and the state's share of the gates before their "
            "functions, and h.",
     .infer = [](const Call& c) -> Types {
       const Shape &act = c.type(2).shape, g{act[0], act[1], act[2] / 4 * 3};
       return {{c.type(2).dtype, g}, {c.type(2).dtype, g}, c.type(3)};
     },
     .expand = gru_back,
     .kind = "recurrent"},
};

}  // namespace
}  // namespace yuloh
