// SPDX-License-Identifier: Apache-2.0
// Optimizer updates as composites of elementwise rows: the fuser makes one pass over memory of each. Learning
// rate and coefficients are run-time values, so a schedule never recompiles. With skip_update True every
// tensor keeps its value.
#include "ops/rows.h"

namespace yuloh {
namespace {
using S = Scalar;

#define YULOH_STEP(s, text, ...)                                                           \
  {                                                                                        \
    .schema = s, .doc = text, .infer = like_first, .scalar = __VA_ARGS__, .no_grad = true, \
    .kind = "optimizer"                                                                    \
  }

const Register steps{
    YULOH_STEP("sgd_step(Tensor p, Tensor g, value float lr) -> Tensor", "p - lr * g.",
               [](S p, S g, S lr) { return p - lr * g; }),
    YULOH_STEP("momentum_velocity(Tensor v, Tensor g, value float mu) -> Tensor", "mu * v + g.",
               [](S v, S g, S mu) { return mu * v + g; }),
    YULOH_STEP("nesterov_step(Tensor p, Tensor g, Tensor v, value float lr, value float mu) -> Tensor",
               "p - lr * (g + mu * v).", [](S p, S g, S v, S lr, S mu) { return p - (g + v * mu) * lr; }),
    YULOH_STEP("moment_step(Tensor m, Tensor g, value float beta) -> Tensor", "beta * m + (1 - beta) * g.",
               [](S m, S g, S b) { return b * m + (S(1) - b) * g; }),
    YULOH_STEP("moment2_step(Tensor m, Tensor g, value float beta) -> Tensor",
               "beta * m + (1 - beta) * g * g.", [](S m, S g, S b) { return b * m + (S(1) - b) * g * g; }),
    YULOH_STEP("times_value(Tensor x, value float y) -> Tensor", "x * y.", [](S x, S y) { return x * y; }),
    YULOH_STEP("adam_step(Tensor p, Tensor m, Tensor v, Tensor b1, Tensor b2, value float lr, value float "
               "epsilon) -> Tensor",
               "p - lr' * m / (sqrt(v) + epsilon * sqrt(1 - b2)), lr' = lr * sqrt(1 - b2) / (1 - b1).",
               [](S p, S m, S v, S b1, S b2, S lr, S eps) {
                 const S root = sqrt(S(1) - b2), step = lr * root / (S(1) - b1);
                 return p - step * (m / (sqrt(v) + eps * root));
               }),
    YULOH_STEP("decay_step(Tensor p, value float lr, value float weight_decay) -> Tensor",
               "p * (1 - lr * weight_decay).", [](S p, S lr, S wd) { return p * (S(1) - lr * wd); }),
    YULOH_STEP("rms_momentum(Tensor mom, Tensor g, Tensor ms, Tensor mg, value float lr, value float "
               "momentum, value float epsilon, "
               "bool centered) -> Tensor",
               "momentum * mom + lr * g / sqrt(ms + epsilon), ms less mg squared when centered.",
               [](const Call& c, S mom, S g, S ms, S mg, S lr, S mu, S eps) {
                 const S var = c.flag("centered") ? ms - mg * mg + eps : ms + eps;
                 return mu * mom + lr * g / sqrt(var);
               }),
    YULOH_STEP("lamb_direction(Tensor p, Tensor m, Tensor v, Tensor b1, Tensor b2, value float epsilon, "
               "value float weight_decay) -> Tensor",
               "m' / (sqrt(v') + epsilon) + weight_decay * p with bias-corrected m', v'.",
               [](S p, S m, S v, S b1, S b2, S eps, S wd) {
                 return m / (S(1) - b1) / (sqrt(v / (S(1) - b2)) + eps) + wd * p;
               }),
    YULOH_STEP("lamb_step(Tensor p, Tensor d, Tensor p_norm, Tensor d_norm, value float lr) -> Tensor",
               "p - lr * ratio * d, ratio = p_norm / d_norm where both are positive, else 1.",
               [](S p, S d, S pn, S dn, S lr) {
                 const S ratio = select((pn > S(0)) & (dn > S(0)), pn / dn, S(1));
                 return p - lr * ratio * d;
               }),
};

// New values unless skip_update (shape [] or [1], bool) is True.
Values unless_skipped(const Call& c, Values old, Values next) {
  const Value skip = c["skip_update"];
  if (!skip) return next;
  const Value s = reshape(skip, {});
  for (uint32_t i = 0; i < next.size(); ++i) next[i] = where(s, old[i], next[i]);
  return next;
}
template <int N>
Types first_n(const Call& c) {
  if (!(c.type(0).shape == c["grad"].shape()))
    value_error(c.name(), ": the gradient does not fit, got shape ", c["grad"].shape(), "; expected ",
                c.type(0).shape, ".");
  Types t;
  uint32_t i = 0;
  for (const ArgSpec& a : c.op.args)
    if (a.inplace) t.push_back(c[a.name].type()), ++i;
  return t;
}
Value grad_of(const Call& c) { return cast(c["grad"], c["param"].dtype()); }

Values sgd(const Call& c) {
  return unless_skipped(c, {c["param"]}, {call("sgd_step", {c["param"], grad_of(c), c["lr"]})});
}
Values momentum(const Call& c) {
  const Value p = c["param"], g = grad_of(c), v = call("momentum_velocity", {c["velocity"], g, c["mu"]});
  const Value next = c.flag("use_nesterov") ? call("nesterov_step", {p, g, v, c["lr"], c["mu"]})
                                            : call("sgd_step", {p, v, c["lr"]});
  return unless_skipped(c, {p, c["velocity"]}, {next, v});
}
Values adam_from(const Call& c, const Value& p) {
  const Value g = grad_of(c), b1 = c["beta1_pow"], b2 = c["beta2_pow"];
  const Value m = call("moment_step", {c["moment1"], g, c["beta1"]}),
              v = call("moment2_step", {c["moment2"], g, c["beta2"]});
  return unless_skipped(c, {c["param"], c["moment1"], c["moment2"], b1, b2},
                        {call("adam_step", {p, m, v, b1, b2, c["lr"], c["epsilon"]}), m, v,
                         call("times_value", {b1, c["beta1"]}), call("times_value", {b2, c["beta2"]})});
}
Values adam(const Call& c) { return adam_from(c, c["param"]); }
Values adamw(const Call& c) {
  return adam_from(c, call("decay_step", {c["param"], c["lr"], c["weight_decay"]}));
}
Values rmsprop(const Call& c) {
  const Value p = c["param"], g = grad_of(c);
  const Value ms = call("moment2_step", {c["mean_square"], g, c["rho"]});
  const Value mg = c.flag("centered") ? call("moment_step", {c["mean_grad"], g, c["rho"]}) : c["mean_grad"];
  const Value mom = call("rms_momentum", {c["moment"], g, ms, mg, c["lr"], c["momentum"], c["epsilon"]},
                         {{"centered", c.flag("centered")}});
  return unless_skipped(c, {p, c["mean_square"], c["moment"], c["mean_grad"]}, {p - mom, ms, mom, mg});
}
Values lamb(const Call& c) {
  const Value p = c["param"], g = grad_of(c), b1 = c["beta1_pow"], b2 = c["beta2_pow"];
  const Value m = call("moment_step", {c["moment1"], g, c["beta1"]}),
              v = call("moment2_step", {c["moment2"], g, c["beta2"]});
  const Value d = call("lamb_direction", {p, m, v, b1, b2, c["epsilon"], c["weight_decay"]});
  const Value next =
      call("lamb_step", {p, d, sqrt(un("squared_l2_norm", p)), sqrt(un("squared_l2_norm", d)), c["lr"]});
  return unless_skipped(
      c, {p, c["moment1"], c["moment2"], b1, b2},
      {next, m, v, call("times_value", {b1, c["beta1"]}), call("times_value", {b2, c["beta2"]})});
}

#define YULOH_ADAM_STATE \
  "Tensor! param, Tensor grad, Tensor! moment1, Tensor! moment2, Tensor! beta1_pow, Tensor! beta2_pow, "
const Register updates{
    {.schema = "sgd_(Tensor! param, Tensor grad, value float lr, Tensor? skip_update=None) -> Tensor",
     .doc = "Plain gradient descent.",
     .infer = first_n<1>,
     .expand = sgd,
     .no_grad = true},
    {.schema = "momentum_(Tensor! param, Tensor grad, Tensor! velocity, value float lr, value float mu, bool "
               "use_nesterov=False, "
               "Tensor? skip_update=None) -> Tensor, Tensor",
     .doc = "Gradient descent with (Nesterov) momentum.",
     .infer = first_n<2>,
     .expand = momentum,
     .no_grad = true},
    {.schema = "adam_(" YULOH_ADAM_STATE
               "value float lr, value float beta1, value float beta2, value float epsilon, "
               "Tensor? skip_update=None) -> Tensor, Tensor, Tensor, Tensor, Tensor",
     .doc = "Adam; beta powers hold the value for this step and are multiplied after use.",
     .infer = first_n<5>,
     .expand = adam,
     .no_grad = true},
    {.schema =
         "adamw_(" YULOH_ADAM_STATE
         "value float lr, value float beta1, value float beta2, value float epsilon, "
         "value float weight_decay, Tensor? skip_update=None) -> Tensor, Tensor, Tensor, Tensor, Tensor",
     .doc = "Adam with decoupled weight decay.",
     .infer = first_n<5>,
     .expand = adamw,
     .no_grad = true},
    {.schema = "rmsprop_(Tensor! param, Tensor grad, Tensor! mean_square, Tensor! moment, Tensor! mean_grad, "
               "value float lr, "
               "value float rho, value float epsilon, value float momentum, bool centered=False, Tensor? "
               "skip_update=None) "
               "-> Tensor, Tensor, Tensor, Tensor",
     .doc = "RMSProp, optionally centered.",
     .infer = first_n<4>,
     .expand = rmsprop,
     .no_grad = true},
    {.schema =
         "lamb_(" YULOH_ADAM_STATE
         "value float lr, value float beta1, value float beta2, value float epsilon, "
         "value float weight_decay, Tensor? skip_update=None) -> Tensor, Tensor, Tensor, Tensor, Tensor",
     .doc = "Lamb: Adam's direction scaled by the ratio of the norms of parameter and direction.",
     .infer = first_n<5>,
     .expand = lamb,
     .no_grad = true},
};
}  // namespace
}  // namespace yuloh
