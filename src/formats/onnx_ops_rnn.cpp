// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: RNN, LSTM, GRU, unrolled over time. Weights are [directions, gates * hidden, in]; gates
// stand in ONNX's order: LSTM i o f c, GRU z r h.
#include <cctype>

#include "formats/compose.h"
#include "formats/onnx_ops.h"

namespace yuloh::formats {
namespace {
struct Activation {
  std::string name;
  double alpha, beta;
};
Value apply(const Activation& a, const Value& x) {
  if (a.name == "sigmoid") return call("sigmoid", {x});
  if (a.name == "tanh") return call("tanh", {x});
  if (a.name == "relu") return call("relu", {x});
  if (a.name == "affine") return affine(x, a.alpha, a.beta);
  if (a.name == "leakyrelu") return call("leaky_relu", {x}, {{"negative_slope", a.alpha}});
  if (a.name == "thresholdedrelu") return call("thresholded_relu", {x}, {{"threshold", a.alpha}});
  if (a.name == "scaledtanh") return call("tanh", {x * a.beta}) * a.alpha;
  if (a.name == "hardsigmoid") return call("hardsigmoid", {x}, {{"slope", a.alpha}, {"offset", a.beta}});
  if (a.name == "elu") return call("elu", {x}, {{"alpha", a.alpha}});
  if (a.name == "softsign") return call("softsign", {x});
  if (a.name == "softplus") return call("softplus", {x});
  fail(ErrorKind::kNotImplemented, "onnx: activation '", a.name, "' of a recurrent layer is not supported.");
}
double default_alpha(const std::string& n) { return n == "leakyrelu" ? .01 : n == "hardsigmoid" ? .2 : 1; }
// `per` activations of each direction; alphas and betas are listed for those that have them, in order.
std::vector<Activation> activations(const Import& i, int64_t directions,
                                    const std::vector<std::string>& otherwise) {
  std::vector<std::string> names = i.texts_attr("activations");
  if (names.empty())
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), otherwise.begin(), otherwise.end());
  if (names.size() != otherwise.size() * static_cast<size_t>(directions))
    value_error(i.node.type, ": got ", names.size(), " activations.");
  const std::vector<double> alpha = i.reals_attr("activation_alpha"), beta = i.reals_attr("activation_beta");
  std::vector<Activation> r;
  size_t a = 0, b = 0;
  for (std::string& n : names) {
    for (char& c : n) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool has_alpha = n == "affine" || n == "leakyrelu" || n == "thresholdedrelu" || n == "scaledtanh" ||
                           n == "hardsigmoid" || n == "elu";
    const bool has_beta = n == "affine" || n == "scaledtanh" || n == "hardsigmoid";
    r.push_back({n, has_alpha && a < alpha.size() ? alpha[a++] : default_alpha(n),
                 has_beta && b < beta.size() ? beta[b++]
                 : n == "hardsigmoid"        ? .5
                 : n == "scaledtanh"         ? 1
                                             : 0});
  }
  return r;
}

enum class Kind { kRnn, kLstm, kGru };
struct Layer {
  Kind kind;
  Value w, r, bias_w, bias_r, peephole;
  const Activation* f;
  double clip;
  int64_t hidden;
  bool linear_before_reset, input_forget;

  Value limited(const Value& x) const {
    return clip > 0 ? maximum(minimum(x, constant_like(clip, x)), constant_like(-clip, x)) : x;
  }
  Value gate(const Value& all, int64_t k) const { return narrow(all, 1, k * hidden, hidden); }
  Value peep(int64_t k) const { return narrow(peephole, 0, k * hidden, hidden); }

  // What compose.h walks as one op: gates reordered to i f c o.
  bool plain_lstm() const {
    return kind == Kind::kLstm && !peephole && clip <= 0 && !input_forget && f[0].name == "sigmoid" &&
           f[1].name == "tanh" && f[2].name == "tanh";
  }
  Recurrence as_recurrence(const Value& h, const Value& c, bool reverse) const {
    const auto ordered = [&](const Value& v) {
      if (!v) return v;
      const auto rows = [&](int64_t k) { return narrow(v, 0, k * hidden, hidden); };
      return concat({rows(0), rows(2), rows(3), rows(1)}, 0);
    };
    return {Cell::kLstm, ordered(w), ordered(r), ordered(bias_w), ordered(bias_r), h, c, {}, reverse};
  }

  // x: this step's input already multiplied [batch, gates * hidden].
  void step(const Value& x, Value* h, Value* c) const {
    if (kind == Kind::kGru) return gru(x, h);
    Value all = x + matmul(*h, r, false, true);
    if (bias_r) all = all + bias_r;
    if (kind == Kind::kRnn) {
      *h = apply(f[0], limited(all));
      return;
    }
    Value gi = gate(all, 0), go = gate(all, 1), gf = gate(all, 2), gc = gate(all, 3);
    if (peephole) gi = gi + peep(0) * *c, gf = gf + peep(2) * *c;
    gi = apply(f[0], limited(gi));
    gf = input_forget ? 1.0 - gi : apply(f[0], limited(gf));
    const Value next = gf * *c + gi * apply(f[1], limited(gc));
    if (peephole) go = go + peep(1) * next;
    *h = apply(f[0], limited(go)) * apply(f[2], next), *c = next;
  }
  void gru(const Value& x, Value* h) const {
    const Value rzr = narrow(r, 0, 0, 2 * hidden), rh = narrow(r, 0, 2 * hidden, hidden);
    Value zr = narrow(x, 1, 0, 2 * hidden) + matmul(*h, rzr, false, true);
    if (bias_r) zr = zr + narrow(bias_r, 0, 0, 2 * hidden);
    const Value both = apply(f[0], limited(zr)), z = gate(both, 0), reset = gate(both, 1);
    Value own = matmul(linear_before_reset ? *h : reset * *h, rh, false, true);
    if (bias_r) own = own + narrow(bias_r, 0, 2 * hidden, hidden);
    if (linear_before_reset) own = reset * own;
    const Value candidate = apply(f[1], limited(gate(x, 2) + own));
    *h = (1.0 - z) * candidate + z * *h;
  }
};

void recurrent(Import& i, Kind kind) {
  need(i, {3, 3, 3});
  const bool batch_first = i.integer("layout", 0);
  Value x = i.in(0);
  if (batch_first) x = transpose(x, {1, 0, 2});
  const int64_t steps = x.shape()[0], batch = x.shape()[1],
                gates = kind == Kind::kLstm  ? 4
                        : kind == Kind::kGru ? 3
                                             : 1;
  const std::string direction = i.text("direction", "forward");
  const int64_t directions = direction == "bidirectional" ? 2 : 1, hidden = i.in(2).shape()[2];
  const std::vector<std::string> defaults = kind == Kind::kLstm
                                                ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                            : kind == Kind::kGru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                                 : std::vector<std::string>{"Tanh"};
  const std::vector<Activation> f = activations(i, directions, defaults);
  const Value lengths = i.in_or_null(4);
  auto of = [&](const Value& v, int64_t d) { return v ? squeeze(narrow(v, 0, d, 1), 0) : Value(); };
  auto start = [&](size_t k, int64_t d) {
    if (!i.has(k)) return full({batch, hidden}, 0, x.dtype());
    return of(batch_first ? transpose(i.in(k), {1, 0, 2}) : i.in(k), d);
  };
  Values all_y, all_h, all_c;
  for (int64_t d = 0; d < directions; ++d) {
    Layer l{kind,
            of(i.in(1), d),
            of(i.in(2), d),
            {},
            {},
            {},
            f.data() + d * defaults.size(),
            i.real("clip", 0),
            hidden,
            i.integer("linear_before_reset", 0) != 0,
            i.integer("input_forget", 0) != 0};
    if (i.has(3)) {
      const Value b = of(i.in(3), d);
      l.bias_w = narrow(b, 0, 0, gates * hidden), l.bias_r = narrow(b, 0, gates * hidden, gates * hidden);
    }
    if (kind == Kind::kLstm && i.has(7)) l.peephole = of(i.in(7), d);
    Value h = start(5, d), c = kind == Kind::kLstm ? start(6, d) : Value();
    if (steps > 0 && !lengths && l.plain_lstm()) {
      const RecurrenceOut out = run_recurrence(l.as_recurrence(h, c, d == 1 || direction == "reverse"), x);
      all_y.push_back(out.y), all_h.push_back(out.h), all_c.push_back(out.c);
      continue;
    }
    Value projected = matmul(x, l.w, false, true);
    if (l.bias_w) projected = projected + l.bias_w;
    const bool reverse = d == 1 || direction == "reverse";
    Values ys(static_cast<uint32_t>(steps));
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t t = reverse ? steps - 1 - k : k;
      Value next = h, next_c = c;
      l.step(squeeze(narrow(projected, 0, t, 1), 0), &next, &next_c);
      if (lengths) {  // behind the end of a sequence its states stay and its outputs are 0
        const Value valid =
            reshape(greater_than(lengths, constant(static_cast<double>(t), lengths.dtype())), {batch, 1});
        ys[t] = where_or(valid, next, 0);
        h = where(valid, next, h);
        if (c) c = where(valid, next_c, c);
      } else {
        ys[t] = h = next, c = next_c;
      }
    }
    all_y.push_back(steps ? call("stack", ys, {{"axis", 0}}) : full({0, batch, hidden}, 0, x.dtype()));
    all_h.push_back(h);
    if (c) all_c.push_back(c);
  }
  const Value y = call("stack", all_y, {{"axis", batch_first ? 2 : 1}});  // [time, directions, batch, hidden]
  i.out(0, batch_first ? transpose(y, {1, 0, 2, 3}) : y);
  const int64_t at = batch_first ? 1 : 0;
  i.out(1, call("stack", all_h, {{"axis", at}}));
  if (!all_c.empty()) i.out(2, call("stack", all_c, {{"axis", at}}));
}

const ImportTable table(Dialect::kOnnx, {
                                            {"RNN", [](Import& i) { recurrent(i, Kind::kRnn); }},
                                            {"LSTM", [](Import& i) { recurrent(i, Kind::kLstm); }},
                                            {"GRU", [](Import& i) { recurrent(i, Kind::kGru); }},
                                        });
}  // namespace
}  // namespace yuloh::formats
