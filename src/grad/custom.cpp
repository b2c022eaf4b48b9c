// SPDX-License-Identifier: Apache-2.0
// `custom_grad`: the boundary that PyLayer and recompute record. Its outputs are its first n inputs; the
// other inputs are where gradients flow, by the function in NodeExtra::custom_vjp. Executing it costs
// nothing: the body forwards.
#include "ops/op.h"

namespace yuloh {
namespace {
const Register rows{
    {.schema = "custom_grad(Tensor[] values, int n) -> Tensor[]",
     .inner = true,
     .doc = "Forwards its first n inputs; gradients go to the others by a user function.",
     .infer = [](const Call& c) -> Types {
       Types t;
       if (c.integer("n") < 0 || c.integer("n") > c.n_in)
         value_error("custom_grad: n is out of range, got ", c.integer("n"), "; expected 0 to ", c.n_in, ".");
       for (int64_t i = 0; i < c.integer("n"); ++i) t.push_back(c.in[i].type());
       return t;
     },
     .expand = [](const Call& c) -> Values { return Values(c.in, c.in + c.integer("n")); },
     .vjp = [](const Call&, const Values&) -> Values { return {}; },
     .forwards = true},
    {.schema = "rewritten(Tensor x, Tensor old) -> Tensor",
     .inner = true,
     .doc = "x, where a write that is not recorded for gradients (no_grad, detach) replaced old: gradients "
            "pass to old.",
     .infer = [](const Call& c) -> Types { return {c.type(0)}; },
     .expand = [](const Call& c) -> Values { return {c["x"]}; },
     .vjp = [](const Call&, const Values& g) -> Values {
       return {Value(), g[0]};
     },
     .forwards = true},
};
}  // namespace
}  // namespace yuloh
