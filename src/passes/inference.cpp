// SPDX-License-Identifier: Apache-2.0
// Passes of a Session: rewrites that pay because weights never change. A weight is whatever no placeholder
// reaches (Node::traced); arithmetic between weights is recorded here and computed once by the Session
// (run/program.cpp).
#include <algorithm>
#include <unordered_map>

#include "ops/fn.h"
#include "passes/passes.h"

namespace yuloh {
namespace {

bool keeps(const PassOptions& o, const OpDef& op) {
  return std::find(o.keep_precision.begin(), o.keep_precision.end(), op.name) != o.keep_precision.end();
}
bool is_weight(const Value& v) { return v && !v.node->traced && v.dtype() == DType::kFloat32; }

// A sum of products whose channels a factor can be moved into: the op, and the axis of its weight that counts
// them.
struct Product {
  const Node* node;
  int64_t axis;
};
bool find_product(const Value& v, const PassContext& c, Product* p) {
  const Node& n = *v.node;
  if (n.kind != Node::Kind::kOp || !n.op->contraction || c.shared.count(&n) || n.inputs.size() != 2)
    return false;
  if (!n.traced || !is_weight(n.inputs[1]) || !n.op->channel_axis) return false;
  *p = {&n, n.op->channel_axis(Call(n))};
  return p->axis >= 0;
}

Shape along(int64_t axis, int64_t rank, int64_t n) {
  Shape s(static_cast<uint32_t>(rank), 1);
  s[static_cast<uint32_t>(axis)] = n;
  return s;
}
// `b`, added to `x`, is one number per channel (axis 1): `vector` is it with shape [channels].
bool per_channel(const Value& b, const Value& x, Value* vector) {
  const int64_t missing = x.rank() - b.rank(), n = x.shape()[1];
  if (!is_weight(b) || missing < 0 || numel(b.shape()) != n) return false;
  for (int64_t i = 0; i < b.rank(); ++i)
    if (b.shape()[static_cast<uint32_t>(i)] != (i + missing == 1 ? n : 1)) return false;
  return *vector = reshape(b, {n}), true;
}
}  // namespace

// Dropout outside training draws nothing, so the random stream stays where it is.
bool skip_training(const Ref<Node>& n, PassContext* c, Values* replacement) {
  if (!n->op->random || !n->op->expand) return false;
  const auto& args = n->op->args;
  if (std::none_of(args.begin(), args.end(), [](const ArgSpec& a) { return a.name == "training"; }))
    return false;
  if (Call(*n).flag("training")) return false;
  *replacement = n->op->expand(Call(*n));
  c->fired = "skip_training";
  return true;
}

// batch_norm(conv(x, w) [+ b]) = conv(x, w * s) + (b - mean) * s + beta, s = gamma / sqrt(variance + eps).
bool fold_batch_norm(const Ref<Node>& n, PassContext* c, Values* replacement) {
  static const OpDef *norm = &get_op("batch_norm_infer"), *plus = &get_op("add"),
                     *channel = &get_op("channel_bias");
  if (n->op != norm || !c->options.fold_weights || n->inputs[0].dtype() != DType::kFloat32) return false;
  const Call call_(*n);
  const Value mean = call_["mean"], variance = call_["variance"], gamma = call_["weight"],
              beta = call_["bias"];
  for (const Value& v : {mean, variance})
    if (!is_weight(v)) return false;
  for (const Value& v : {gamma, beta})
    if (v && !is_weight(v)) return false;
  Value x = n->inputs[0], bias;
  Product p;
  if (x.node->op == channel && !c->shared.count(x.node.get())) {
    if (!find_product(x.node->inputs[0], *c, &p) || !is_weight(x.node->inputs[1])) return false;
    bias = x.node->inputs[1], x = x.node->inputs[0];
  } else if (x.node->op == plus && x.index == 0 && !c->shared.count(x.node.get())) {
    const Value a = x.node->inputs[0], b = x.node->inputs[1];
    if (find_product(a, *c, &p) && per_channel(b, a, &bias)) x = a;
    else if (find_product(b, *c, &p) && per_channel(a, b, &bias)) x = b;
    else return false;
  } else if (!find_product(x, *c, &p)) {
    return false;
  }
  Value s = un("rsqrt", affine(variance, 1, call_.real("epsilon")));
  if (gamma) s = s * gamma;
  Value shift = (bias ? bias - mean : -mean) * s;
  if (beta) shift = shift + beta;
  const Value w = p.node->inputs[1];
  const int64_t channels = s.shape()[0];
  const Value scaled = w * reshape(s, along(p.axis, w.rank(), channels));
  const Value y = apply(*p.node->op, {p.node->inputs[0], scaled}, p.node->attrs)[0];
  *replacement = {y + reshape(shift, along(1, y.rank(), channels))};
  c->fired = "fold_batch_norm";
  return true;
}

// Segments: what hangs together through values that depend on the inputs, once the ops that keep their
// precision are cut out. The contractions of a segment of fewer than `min_segment` ops stay as they are: two
// casts would not pay.
std::unordered_set<const Node*> small_segments(const Graph& g, const PassOptions& o) {
  std::unordered_set<const Node*> kept;
  if (o.min_segment <= 1 || o.precision == DType::kFloat32) return kept;
  std::unordered_map<const Node*, const Node*> parent;
  std::unordered_map<const Node*, size_t> size;
  const auto taken = [&](const Node& n) { return n.kind == Node::Kind::kOp && n.traced && !keeps(o, *n.op); };
  const auto root = [&](const Node* n) {
    while (parent[n] != n) n = parent[n] = parent[parent[n]];
    return n;
  };
  const std::vector<Node*> order = topological(g.outputs);
  for (const Node* n : order)
    if (taken(*n)) {
      parent[n] = n;
      for (const Value& v : n->inputs)
        if (v && taken(*v.node)) parent[root(v.node.get())] = root(n);
    }
  for (const Node* n : order)
    if (taken(*n) && !n->op->view) ++size[root(n)];
  for (const Node* n : order)
    if (taken(*n) && n->op->contraction && size[root(n)] < o.min_segment) kept.insert(n);
  return kept;
}

// Operands are rounded to bf16, sums stay f32 inside the kernel, the result is f32 again; casts fuse into
// what is around.
bool lower_precision(const Ref<Node>& n, PassContext* c, Values* replacement) {
  const PassOptions& o = c->options;
  if (!n->op->contraction || o.precision != DType::kBFloat16 || !n->traced) return false;
  if (keeps(o, *n->op) || c->kept.count(n.get())) return false;
  Values in;
  for (const Value& v : n->inputs) {
    if (v.dtype() != DType::kFloat32) return false;
    in.push_back(cast(v, DType::kBFloat16));
  }
  *replacement = {cast(apply(*n->op, std::move(in), n->attrs)[0], DType::kFloat32)};
  c->fired = "lower_precision";
  return true;
}

}  // namespace yuloh
