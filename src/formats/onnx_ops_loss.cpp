// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: losses and the optimisers of ai.onnx.preview.training.
#include "formats/onnx_ops.h"

namespace yuloh::formats {
namespace {
// scores [N, C, ...] are log-probabilities; target [N, ...].
Value nll(const Import& i, const Value& scores, const Value& target, const Value& weight) {
  need(i, {2, 1});
  const bool ignores = i.has_attr("ignore_index");
  const double ignored = static_cast<double>(i.integer("ignore_index", -1));
  const Value t = to(target, DType::kInt64);
  const Value skip = ignores ? equal(t, constant(ignored, DType::kInt64)) : Value();
  const Value index = ignores ? where(skip, constant(0, DType::kInt64), t) : t;
  Value loss = -squeeze(
      call("take_along_axis", {scores, unsqueeze(index, 1)}, {{"axis", 1}, {"broadcast", false}}), 1);
  Value w = weight ? reshape(gather(weight, reshape(index, {numel(index.shape())}), 0), index.shape())
                   : full(t.shape(), 1, scores.dtype());
  if (ignores) w = where(skip, constant_like(0, w), w);
  loss = loss * w;
  const std::string reduction = i.text("reduction", "mean");
  if (reduction == "none") return loss;
  Ints axes;
  for (int64_t d = 0; d < loss.rank(); ++d) axes.push_back(d);
  const Value total = sum(loss, axes, false);
  return reduction == "sum" ? total : total / sum(w, axes, false);
}
void softmax_loss(Import& i) {
  const Value log_p = call("log_softmax", {i.in(0)}, {{"axis", 1}});
  i.out(nll(i, log_p, i.in(1), i.in_or_null(2)));
  i.out(1, log_p);
}

// Inputs: rate, step count, then all tensors, all gradients and all states, group by group.
struct Group {
  int64_t n;
  Value rate, step;
  Value at(const Import& i, int64_t group, int64_t k) const {
    return i.in(static_cast<size_t>(2 + group * n + k));
  }
};
Group group_of(const Import& i, int64_t groups) {
  expect(i, i.n_inputs() >= 2 && (i.n_inputs() - 2) % static_cast<size_t>(groups) == 0,
         "rate, step and whole groups of tensors");
  return {static_cast<int64_t>(i.n_inputs() - 2) / groups, i.in(0), i.in(1)};
}
void adagrad(Import& i) {
  const Group g = group_of(i, 3);
  const double norm = i.real("norm_coefficient", 0), eps = i.real("epsilon", 0),
               decay = i.real("decay_factor", 0);
  for (int64_t k = 0; k < g.n; ++k) {
    const Value x = g.at(i, 0, k), grad = x * norm + g.at(i, 1, k), h = g.at(i, 2, k) + square(grad);
    const Value rate = g.rate / (to(g.step, x.dtype()) * decay + 1.0);
    i.out(static_cast<size_t>(k), x - rate * grad / (sqrt(h) + eps)), i.out(static_cast<size_t>(g.n + k), h);
  }
}
void momentum(Import& i) {
  const Group g = group_of(i, 3);
  const double norm = i.real("norm_coefficient", 0), alpha = i.real("alpha", 0), beta = i.real("beta", 0);
  const bool nesterov = i.text("mode", "standard") == "nesterov";
  const Value first = call("less_equal", {g.step, constant(0, g.step.dtype())});
  for (int64_t k = 0; k < g.n; ++k) {
    const Value x = g.at(i, 0, k), grad = x * norm + g.at(i, 1, k);
    const Value v = g.at(i, 2, k) * alpha + grad * where(first, constant_like(1, x), constant_like(beta, x));
    i.out(static_cast<size_t>(k), x - g.rate * (nesterov ? grad + v * alpha : v)),
        i.out(static_cast<size_t>(g.n + k), v);
  }
}
void adam(Import& i) {
  const Group g = group_of(i, 4);
  const double norm = i.real("norm_coefficient", 0), after = i.real("norm_coefficient_post", 0),
               a = i.real("alpha", .9), b = i.real("beta", .999), eps = i.real("epsilon", 0);
  for (int64_t k = 0; k < g.n; ++k) {
    const Value x = g.at(i, 0, k), grad = x * norm + g.at(i, 1, k);
    const Value v = g.at(i, 2, k) * a + grad * (1 - a), h = g.at(i, 3, k) * b + square(grad) * (1 - b),
                t = to(g.step, x.dtype());
    auto rest = [&](double base) { return 1.0 - call("pow", {constant_like(base, t), t}); };
    const Value rate =
        where(greater_than(g.step, constant(0, g.step.dtype())), g.rate * sqrt(rest(b)) / rest(a), g.rate);
    i.out(static_cast<size_t>(k), (x - rate * v / (sqrt(h) + eps)) * (1 - after));
    i.out(static_cast<size_t>(g.n + k), v), i.out(static_cast<size_t>(2 * g.n + k), h);
  }
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"NegativeLogLikelihoodLoss",
                             [](Import& i) { i.out(nll(i, i.in(0), i.in(1), i.in_or_null(2))); }},
                            {"SoftmaxCrossEntropyLoss", softmax_loss},
                            {"ai.onnx.preview.training.Adagrad", adagrad},
                            {"ai.onnx.preview.training.Momentum", momentum},
                            {"ai.onnx.preview.training.Adam", adam},
                        });
}  // namespace
}  // namespace yuloh::formats
