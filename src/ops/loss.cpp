// SPDX-License-Identifier: Apache-2.0
// Losses. Cross-entropy is a composite around `softmax_nll`, whose body and gradient are one row-wise tile
// program each: the label is compared with the class numbers instead of being gathered, so no scatter is
// needed in the gradient.
#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {
using S = Scalar;

const Register elementwise{
    {.schema = "nll_pick(Tensor cls, Tensor label, Tensor value) -> Tensor",
     .doc = "value where cls equals label, else 0.",
     .infer = [](const Call& c) -> Types {
       return {{c.type(2).dtype, broadcast_inputs(c)}};
     },
     .scalar = [](S k, S l, S v) { return select(k == l, v, S(0)); }},
    {.schema =
         "softmax_nll_grad(Tensor cls, Tensor label, Tensor soft, Tensor g, int ignore_index) -> Tensor",
     .inner = true,
     .doc = "(soft - (cls == label)) * g, 0 for ignored rows.",
     .infer = [](const Call& c) -> Types {
       return {{c.type(2).dtype, broadcast_inputs(c)}};
     },
     .scalar =
         [](const Call& c, S k, S l, S p, S g) {
           const S drop = (l == S(static_cast<double>(c.integer("ignore_index")))) | (g == S(0));
           return select(drop, S(0), (p - select(k == l, S(1), S(0))) * g);
         }},
    {.schema = "square_error_cost(Tensor input, Tensor label) -> Tensor",
     .python = YULOH_F("square_error_cost"),
     .doc = "(input - label) squared, elementwise.",
     .infer = same_float,
     .scalar = [](S x, S y) { return (x - y) * (x - y); }},
    {.schema = "abs_error(Tensor input, Tensor label) -> Tensor",
     .doc = "|input - label|.",
     .infer = same_float,
     .scalar = [](S x, S y) { return abs(x - y); }},
    {.schema = "smooth_l1_elementwise(Tensor input, Tensor label, float delta=1.0) -> Tensor",
     .doc = "0.5 d^2 / delta where |d| < delta, else |d| - 0.5 delta, times delta (Huber form).",
     .infer = same_float,
     .scalar =
         [](const Call& c, S x, S y) {
           const S d = x - y, t(c.real("delta"));
           return select(abs(d) < t, S(0.5) * d * d, t * (abs(d) - S(0.5) * t));
         }},
    {.schema = "log_loss(Tensor input, Tensor label, float epsilon=0.0001) -> Tensor",
     .python = YULOH_F("log_loss"),
     .doc = "-label log(input + epsilon) - (1 - label) log(1 - input + epsilon), elementwise.",
     .infer = same_float,
     .scalar =
         [](const Call& c, S x, S y) {
           const S e(c.real("epsilon"));
           return -(y * log(x + e)) - (S(1) - y) * log(S(1) - x + e);
         }},
    {.schema = "bce_elementwise(Tensor input, Tensor label) -> Tensor",
     .doc = "-(label log input + (1 - label) log(1 - input)), logarithms not below -100.",
     .infer = same_float,
     .scalar = [](S x,
                  S y) { return -(y * max(log(x), S(-100)) + (S(1) - y) * max(log(S(1) - x), S(-100))); },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {call("bce_grad", {c["input"], c["label"], g[0]}),
               g[0] * (call("clip", {log(1.0 - c["input"]), constant_like(-100, c["input"]),
                                     constant_like(0, c["input"])}) -
                       call("clip", {log(c["input"]), constant_like(-100, c["input"]),
                                     constant_like(0, c["input"])}))};
     },
     .needs = "input label"},
    {.schema = "bce_grad(Tensor input, Tensor label, Tensor g) -> Tensor",
     .inner = true,
     .doc = "g (input - label) / max(input (1 - input), 1e-12).",
     .infer = same_float,
     .scalar = [](S x, S y, S g) { return g * (x - y) / max(x * (S(1) - x), S(1e-12)); }},
    {.schema = "bce_logits_elementwise(Tensor logit, Tensor label) -> Tensor",
     .doc = "max(x, 0) - x y + log(1 + exp(-|x|)).",
     .infer = same_float,
     .scalar = [](S x, S y) { return max(x, S(0)) - x * y + log1p(exp(-abs(x))); },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return {g[0] * (un("sigmoid", c["logit"]) - c["label"]), -(g[0] * c["logit"])};
     },
     .needs = "logit label"},
};

Value reduced(const Call& c, const Value& v) {
  const std::string& how = c.str("reduction");
  if (how == "none") return v;
  return how == "sum" ? call("sum", {v}, {{"dtype", v.dtype()}}) : call("mean", {v});
}
void check_reduction(const Call& c) {
  const std::string& how = c.str("reduction");
  if (how != "none" && how != "mean" && how != "sum")
    value_error(c.name(), ": unknown reduction, got '", how, "'; expected 'none', 'mean' or 'sum'.");
}
Types infer_pairwise(const Call& c) {
  check_reduction(c);
  const TensorType t = same_float(c)[0];
  return {{t.dtype, c.str("reduction") == "none" ? t.shape : Shape()}};
}

#define YULOH_PAIR_LOSS(s, py, text, expr)                               \
  {                                                                      \
    .schema = s, .python = py, .doc = text, .infer = infer_pairwise,     \
    .expand = [](const Call& c) -> Values { return {reduced(c, expr)}; } \
  }
Value times(const Value& v, const Value& w) { return w ? v * w : v; }
Value pos_weighted(const Call& c) {
  const Value v = call("bce_logits_elementwise", {c["logit"], c["label"]});
  const Value pw = c["pos_weight"];
  if (!pw) return times(v, c["weight"]);
  // (1 - y) x + (1 + (pw - 1) y) log(1 + exp(-x)), the second factor without overflow.
  const Value x = c["logit"], y = c["label"];
  return times((1.0 - y) * x + ((pw - 1.0) * y + 1.0) * -un("log_sigmoid", x), c["weight"]);
}
Value kl(const Call& c) {
  const Value x = c["input"], y = c["label"];
  if (c.flag("log_target")) return exp(y) * (y - x);
  const Value ok = greater_than(y, constant_like(0, y));
  return where_or(ok, y * (log(where(ok, y, constant_like(1, y))) - x), 0);
}
Types infer_kl(const Call& c) {
  const std::string& how = c.str("reduction");
  if (how != "none" && how != "mean" && how != "sum" && how != "batchmean")
    value_error("kl_div: unknown reduction, got '", how, "'; expected 'none', 'mean', 'sum' or 'batchmean'.");
  const TensorType t = same_float(c)[0];
  return {{t.dtype, how == "none" ? t.shape : Shape()}};
}

const Register pairwise{
    YULOH_PAIR_LOSS("mse_loss(Tensor input, Tensor label, str reduction='mean') -> Tensor",
                    YULOH_F("mse_loss"), "Squared error, reduced.",
                    call("square_error_cost", {c["input"], c["label"]})),
    YULOH_PAIR_LOSS("l1_loss(Tensor input, Tensor label, str reduction='mean') -> Tensor", YULOH_F("l1_loss"),
                    "Absolute error, reduced.", call("abs_error", {c["input"], c["label"]})),
    YULOH_PAIR_LOSS(
        "smooth_l1_loss(Tensor input, Tensor label, str reduction='mean', float delta=1.0) -> Tensor",
        YULOH_F("smooth_l1_loss"), "Huber loss, reduced.",
        call("smooth_l1_elementwise", {c["input"], c["label"]}, {{"delta", c.real("delta")}})),
    YULOH_PAIR_LOSS("binary_cross_entropy(Tensor input, Tensor label, Tensor? weight=None, str "
                    "reduction='mean') -> Tensor",
                    YULOH_F("binary_cross_entropy"), "Cross-entropy of probabilities, reduced.",
                    times(call("bce_elementwise", {c["input"], c["label"]}), c["weight"])),
    YULOH_PAIR_LOSS("binary_cross_entropy_with_logits(Tensor logit, Tensor label, Tensor? weight=None, str "
                    "reduction='mean', "
                    "Tensor? pos_weight=None) -> Tensor",
                    YULOH_F("binary_cross_entropy_with_logits"), "Cross-entropy of sigmoid(logit), reduced.",
                    pos_weighted(c)),
    {.schema = "kl_div(Tensor input, Tensor label, str reduction='mean', bool log_target=False) -> Tensor",
     .python = YULOH_F("kl_div"),
     .doc = "Kullback-Leibler divergence; input holds logarithms. A label of 0 contributes 0.",
     .infer = infer_kl,
     .expand = [](const Call& c) -> Values {
       const Value v = kl(c);
       if (c.str("reduction") != "batchmean") return {reduced(c, v)};
       return {call("sum", {v}, {{"dtype", v.dtype()}}) / static_cast<double>(v.rank() ? v.shape()[0] : 1)};
     }},
};

// ---- labels ----
void check_labels(const HostCall& h) {
  const int64_t classes = h.call.integer("classes"), ignore = h.call.integer("ignore_index");
  const std::vector<int64_t> v = read_ints(h.in[0]);
  const HostOperand& o = h.out[0];
  for (size_t i = 0; i < v.size(); ++i) {
    if (v[i] != ignore && (v[i] < 0 || v[i] >= classes))
      index_error(h.call.str("who"), ": label out of range, got ", v[i], " at position ", i,
                  "; expected 0 <= label < ", classes, ", or ignore_index ", ignore, ".");
    o.as<int64_t>()[i] = v[i] == ignore ? -1 : v[i];
  }
}
int64_t class_axis(const Call& c, const char* x) {
  return normalize_axis(c.name(), c.integer("axis"), c[x].rank());
}
// Hard labels may or may not carry an axis of extent 1 in place of the classes.
Shape label_shape(const Shape& x, int64_t axis) {
  Shape s = x;
  s[axis] = 1;
  return s;
}
Shape without(const Shape& x, int64_t axis) {
  Shape s;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i)
    if (i != axis) s.push_back(x[i]);
  return s;
}
Value labels_of(const Call& c, const Value& label, const Shape& x, int64_t axis) {
  const Value l = call(
      "check_labels", {label},
      {{"classes", x[axis]}, {"ignore_index", c.integer("ignore_index")}, {"who", std::string(c.name())}});
  return reshape(l, label_shape(x, axis));
}
void require_labels(const Call& c, const Value& label, const Shape& x, int64_t axis) {
  if (!is_integer(label.dtype()))
    type_error(c.name(), ": labels are not integers, got dtype ", label.dtype(),
               "; expected int32 or int64. Hint: soft_label=True takes probabilities.");
  if (!(label.shape() == label_shape(x, axis)) && !(label.shape() == without(x, axis)))
    value_error(c.name(), ": label does not fit, got shape ", label.shape(), " for input ", x, "; expected ",
                without(x, axis), " or ", label_shape(x, axis), ".");
}

Types infer_softmax_nll(const Call& c) {
  require_float(c, 0);
  const int64_t k = class_axis(c, "x");
  return {{c.type(0).dtype, label_shape(c.type(0).shape, k)}};
}
// x in the dtype that the row computes in.
DType computed(const Call& c) { return c.has("dtype") ? c.dtype("dtype") : c.type(0).dtype; }
Value widened(const Call& c) { return computed(c) == c.type(0).dtype ? c["x"] : cast(c["x"], computed(c)); }
Value classes(const Value& x, int64_t axis) { return iota(x.shape(), axis, DType::kInt64); }

const Register cores{
    {.schema = "check_labels(Tensor label, int classes, int ignore_index, str who) -> Tensor",
     .doc = "label as int64, -1 where it is ignore_index; any other value outside 0..classes-1 raises "
            "IndexError.",
     .infer = [](const Call& c) -> Types {
       return {{DType::kInt64, c.type(0).shape}};
     },
     .host = check_labels,
     .no_grad = true,
     .checks = true},
    {.schema = "softmax_nll(Tensor x, Tensor label, int ignore_index, int axis, dtype? dtype=None) -> "
               "Tensor, Tensor",
     .doc = "-log(softmax(x))[label] along axis (kept as 1); 0 where label is ignore_index. Second: "
            "log(sum(exp(x))).",
     .infer = [](const Call& c) -> Types {
       Types t = infer_softmax_nll(c);
       t[0].dtype = computed(c);
       return {t[0], t[0]};
     },
     .expand = [](const Call& c) -> Values {
       const Value x = widened(c);
       const int64_t k = class_axis(c, "x");
       const Value m = max(x, {k});
       const Value lse = log(sum(exp(x - m), {k})) + m;
       return {sum(call("nll_pick", {classes(x, k), c["label"], lse - x}), {k}), lse};
     },
     .vjp = [](const Call& c, const Values& g) -> Values {
       const int64_t k = class_axis(c, "x");
       Value dx = g[1] ? g[1] * exp(widened(c) - c.out(1)) : Value();
       if (g[0]) {
         const Value d =
             call("softmax_nll_dx", {c["x"], c["label"], c.out(1), g[0]},
                  {{"ignore_index", c.integer("ignore_index")}, {"axis", k}, {"dtype", computed(c)}});
         dx = dx ? dx + d : d;
       }
       return {dx.dtype() == c.type(0).dtype ? dx : cast(dx, c.type(0).dtype), Value()};
     },
     .needs = "x label out1",
     .takes_narrow = true,
     .eager = {.first = 1}},  // log-probabilities; here their sum per row
    {.schema =
         "softmax_nll_dx(Tensor x, Tensor label, Tensor lse, Tensor g, int ignore_index, int axis, dtype? "
         "dtype=None, dtype? out=None) -> Tensor",
     .inner = true,
     .doc = "Gradient of softmax_nll's first result for x: (exp(x - lse) - (class == label)) * g, 0 for "
            "ignored rows.",
     .infer = [](const Call& c) -> Types {
       return {{c.has("out") ? c.dtype("out") : computed(c), c.type(0).shape}};
     },
     .expand = [](const Call& c) -> Values {
       const Value x = widened(c);
       const Value d =
           call("softmax_nll_grad", {classes(x, c.integer("axis")), c["label"], exp(x - c["lse"]), c["g"]},
                {{"ignore_index", c.integer("ignore_index")}});
       return {c.has("out") && c.dtype("out") != d.dtype() ? cast(d, c.dtype("out")) : d};
     },
     .takes_narrow = true},
    {.schema = "nll_gather(Tensor x, Tensor label, int axis) -> Tensor",
     .doc = "-x[label] along axis (kept as 1); 0 where no class matches.",
     .infer = infer_softmax_nll,
     .expand = [](const Call& c) -> Values {
       const int64_t k = class_axis(c, "x");
       return {sum(call("nll_pick", {classes(c["x"], k), c["label"], -c["x"]}), {k})};
     },
     .vjp = [](const Call& c, const Values& g) -> Values {
       const int64_t k = class_axis(c, "x");
       return {call("nll_pick", {classes(c["x"], k), c["label"], -g[0]}), Value()};
     },
     .needs = "label"},
};

struct Rows {  // losses by row (axis kept as 1) and the weight each has in the mean
  Value loss, weight;
};
Value row_weight(const Value& label, const Value& w, const Shape& x, int64_t axis, DType t) {
  const Value kept = not_equal(label, constant(-1, DType::kInt64));
  if (!w) return cast(kept, t);
  Shape s(x.size(), 1);
  s[axis] = x[axis];
  const Value cls = iota(s, axis, DType::kInt64);
  return where_or(kept, sum(call("nll_pick", {cls, label, broadcast_to(reshape(cast(w, t), s), x)}), {axis}),
                  0);
}
Rows hard_rows(const Call& c, const Value& x, int64_t axis) {
  const Value label = labels_of(c, c["label"], x.shape(), axis);
  const bool log_input = !c.flag("use_softmax");
  Value nll = log_input ? call("nll_gather", {log(x), label}, {{"axis", axis}})
                        : call("softmax_nll", {x, label}, {{"ignore_index", -1}, {"axis", axis}});
  const Value w = row_weight(label, c["weight"], x.shape(), axis, x.dtype());
  if (const double s = c.real("label_smoothing"); s > 0) {
    const Value lp = log_input ? log(x) : call("log_softmax", {x}, {{"axis", axis}});
    nll = nll * (1 - s) + mean(-lp, {axis}) * s;
    if (!c["weight"]) nll = nll * w;
  }
  return {c["weight"] ? nll * w : nll, w};
}
Rows soft_rows(const Call& c, const Value& x, int64_t axis) {
  Value label = c["label"];
  const double k = static_cast<double>(x.shape()[axis]);
  if (is_integer(label.dtype()))
    label =
        cast(equal(iota(x.shape(), axis, DType::kInt64), labels_of(c, label, x.shape(), axis)), x.dtype());
  label = cast(label, x.dtype());
  if (const double s = c.real("label_smoothing"); s > 0) label = affine(label, 1 - s, s / k);
  const Value lp = c.flag("use_softmax") ? call("log_softmax", {x}, {{"axis", axis}}) : log(x);
  Rows r{sum(-(label * lp), {axis}), {}};
  if (const Value w = c["weight"]) {
    Shape s(x.rank(), 1);
    s[axis] = x.shape()[axis];
    r.weight = sum(label * reshape(cast(w, x.dtype()), s), {axis});
    r.loss = r.loss * r.weight;
  }
  return r;
}
// sum / total, and 0 (not NaN) when everything is ignored; all rows of an empty batch give 0 too.
Value weighted_mean(const Value& loss, const Value& weight) {
  const Value total = call("sum", {weight}, {{"dtype", loss.dtype()}}),
              zero = equal(total, constant_like(0, total));
  return call("sum", {loss}, {{"dtype", loss.dtype()}}) / where(zero, constant_like(1, total), total);
}
Types infer_cross_entropy(const Call& c) {
  check_reduction(c);
  require_float(c, 0);
  require_rank(c, 0, 1);
  const Value x = c["input"], label = c["label"], w = c["weight"];
  const int64_t k = class_axis(c, "input");
  if (!c.flag("soft_label")) require_labels(c, label, x.shape(), k);
  else if (!(label.shape() == x.shape()))
    value_error("cross_entropy: soft labels do not fit, got shape ", label.shape(), "; expected ", x.shape(),
                ".");
  if (w && !(w.shape() == Shape{x.shape()[k]}))
    value_error("cross_entropy: weight does not fit, got shape ", w.shape(), "; expected [", x.shape()[k],
                "], one per class.");
  if (c.str("reduction") != "none") return {{x.dtype(), {}}};
  const bool squeezed = !c.flag("soft_label") && label.rank() + 1 == x.rank();
  return {{x.dtype(), squeezed ? without(x.shape(), k) : label_shape(x.shape(), k)}};
}
Values cross_entropy(const Call& c) {
  const Value x = c["input"];
  const int64_t k = class_axis(c, "input");
  const Rows r = c.flag("soft_label") ? soft_rows(c, x, k) : hard_rows(c, x, k);
  const std::string& how = c.str("reduction");
  if (how == "none") return {reshape(r.loss, infer_cross_entropy(c)[0].shape)};
  if (how == "sum") return {call("sum", {r.loss}, {{"dtype", x.dtype()}})};
  return {r.weight ? weighted_mean(r.loss, r.weight) : call("mean", {r.loss})};
}

Types infer_nll(const Call& c) {
  check_reduction(c);
  require_float(c, 0);
  require_rank(c, 0, 2);
  require_labels(c, c["label"], c.type(0).shape, 1);
  return {{c.type(0).dtype, c.str("reduction") == "none" ? without(c.type(0).shape, 1) : Shape()}};
}
Values nll_loss(const Call& c) {
  const Value x = c["input"], label = labels_of(c, c["label"], x.shape(), 1);
  const Value w = row_weight(label, c["weight"], x.shape(), 1, x.dtype());
  const Value loss = call("nll_gather", {x, label}, {{"axis", 1}}) * w;
  const std::string& how = c.str("reduction");
  if (how == "none") return {reshape(loss, infer_nll(c)[0].shape)};
  return {how == "sum" ? call("sum", {loss}, {{"dtype", x.dtype()}}) : weighted_mean(loss, w)};
}

const Register classification{
    {.schema =
         "cross_entropy(Tensor input, Tensor label, Tensor? weight=None, int ignore_index=-100, str "
         "reduction='mean', "
         "bool soft_label=False, int axis=-1, bool use_softmax=True, float label_smoothing=0.0) -> Tensor",
     .python = YULOH_F("cross_entropy"),
     .doc = "Cross-entropy of softmax(input) (or of probabilities) and labels. The mean divides by the "
            "weights of rows that are kept; "
            "when all are ignored it is 0.",
     .infer = infer_cross_entropy,
     .expand = cross_entropy},
    {.schema = "nll_loss(Tensor input, Tensor label, Tensor? weight=None, int ignore_index=-100, str "
               "reduction='mean') -> Tensor",
     .python = YULOH_F("nll_loss"),
     .doc = "-input[label] for log-probabilities along axis 1, weighted and reduced.",
     .infer = infer_nll,
     .expand = nll_loss},
};
}  // namespace
}  // namespace yuloh
