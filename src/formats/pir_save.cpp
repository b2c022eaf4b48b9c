// SPDX-License-Identifier: Apache-2.0
// make_paddle_program: nodes by rules (pir_rules.cpp); write_pir: as `.json` and `.pdiparams`.
#include "formats/paddle.h"
#include "formats/pir_write.h"

namespace yuloh::formats {

PaddleProgram make_paddle_program(const TracedProgram& p, Refusals* refused) {
  Recorded recorded;
  const std::vector<std::vector<OpenType>> types = open_types(p, &recorded);
  const std::vector<std::string> names = weight_names(p, false);
  PaddleProgram made_program;
  PirGraph& g = made_program.g;
  std::vector<PirGraph::Id> inputs, weight_ids;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const TracedWeight& w = p.weights[i];
    const Shape& s = w.value.shape();
    weight_ids.push_back(g.parameter(names[i], {w.value.dtype(), {s.begin(), s.end()}}, w.trainable));
    made_program.weights.emplace(names[i], w.value);
  }
  for (const ProgramPort& port : p.inputs) inputs.push_back(g.input(port));
  std::vector<std::vector<PirGraph::Id>> made(p.nodes.size());
  std::map<int32_t, PirGraph::Id> dims;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const TracedNode& n = p.nodes[i];
    PirNode node(g, p, n);
    node.port_ids = &inputs, node.dim_cache = &dims, node.out = types[i];
    node.recorded = &recorded, node.made = &made;
    switch (n.kind) {
      case TracedNode::Kind::kInput: made[i] = {inputs[n.number]}; continue;
      case TracedNode::Kind::kWeight: made[i] = {weight_ids[n.number]}; continue;
      case TracedNode::Kind::kScalar:
        if (!n.open.empty()) {
          PirGraph::Id s = node.open_size(n.open[0].second);
          s = g.op("reshape", {s, g.ints({})}, {}, {DType::kInt64, {}});
          made[i] = {g.cast(s, n.dtype)};
        } else {
          made[i] = {write_scalar(g, n, std::vector<int64_t>())};
        }
        continue;
      default: break;
    }
    for (const TracedRef& r : n.inputs) node.in.push_back(made[r.node][r.index]);
    try {
      if (is_constant(n, types[i]) && !has_pir_rule(*n.op) && !n.op->scalar) {
        for (const Value& v : apply(*n.op, {}, n.attrs)) made[i].push_back(g.constant(v));
        continue;
      }
      write_pir_node(node);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kNotImplemented) throw;
      refused->add(n.op->name, n.where, e.message());
      node.result.clear();
      for (const OpenType& t : node.out) node.result.push_back(g.unknown(t));
    }
    made[i] = node.result;
  }
  for (size_t k = 0; k < p.results.size(); ++k) {
    const TracedRef& r = p.results[k];
    PirGraph::Id id = made[r.node][r.index];
    // An input or weight that is a result, too, gets a value of its own.
    if (p.nodes[r.node].kind != TracedNode::Kind::kOp) id = g.op("assign", {id}, {}, g.type(id));
    g.fetch(cat("fetch_name_", k), id, static_cast<int>(k));
  }
  g.prune();
  return made_program;
}

void write_pir(const TracedProgram& p, const std::string& path, Refusals* dry) {
  Refusals refused;
  const PaddleProgram made = make_paddle_program(p, &refused);
  if (dry) return void(*dry = std::move(refused));
  refused.raise("write_model", "Paddle's operators");
  const std::string text = made.g.json().dump();
  write_paddle(path, {text}, made.weights);
}

}  // namespace yuloh::formats
