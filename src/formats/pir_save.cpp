// SPDX-License-Identifier: Apache-2.0
// write_pir: a TracedProgram to `prefix`.json and `prefix`.pdiparams. The types of inner values come from recording the
// program twice on placeholders: what differs between two sizes of an open dim is open.
#include <set>

#include "formats/paddle.h"
#include "formats/pir_write.h"
#include "formats/whole_file.h"

namespace yuloh::formats {
namespace {

std::vector<Values> made_at(const TracedProgram& p, const std::vector<int64_t>& sizes) {
  const Recording recording(true);
  Values in;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    TensorType t{p.inputs[i].dtype, {}};
    for (size_t d = 0; d < p.inputs[i].dims.size(); ++d) {
      int64_t n = p.inputs[i].dims[d];
      if (n < 0)
        for (size_t k = 0; k < p.dims.size(); ++k)
          if (p.inputs[i].dim_names[d] == p.dims[k]) n = sizes[k];
      t.shape.push_back(n);
    }
    in.push_back(make_input(t, static_cast<int64_t>(i)));
  }
  Values weights;
  for (const TracedWeight& w : p.weights) weights.push_back(w.value);
  std::vector<Values> made;
  p.replay(in, weights, &made);
  return made;
}

// Sizes that every inner size depends on visibly and that suit models which halve or split: multiples of 32 first.
std::vector<Values> made_somewhere(const TracedProgram& p, int64_t factor) {
  std::string first;
  for (const int64_t unit : {32, 1, 8, 128, 4}) {
    std::vector<int64_t> sizes;
    for (size_t k = 0; k < p.dims.size(); ++k) sizes.push_back(unit * (factor + static_cast<int64_t>(k)));
    try {
      return made_at(p, sizes);
    } catch (const Error& e) {
      if (first.empty()) first = e.message();
    }
  }
  value_error("jit.save: the program does not record at the sizes tried to find which inner sizes are open: ", first);
}

std::string unique_name(const TracedWeight& w, size_t i, std::set<std::string>* taken) {
  std::string name = !w.parameter.empty() ? w.parameter : !w.name.empty() ? w.name : cat("constant_", i);
  if (!taken->insert(name).second) name = cat(name, "_", i), taken->insert(name);
  return name;
}
}  // namespace

void write_pir(const TracedProgram& p, const std::string& prefix) {
  const std::vector<Values> a = made_somewhere(p, 2), b = p.dims.empty() ? a : made_somewhere(p, 3);
  PirGraph g;
  std::map<std::string, Value> weights;
  std::set<std::string> taken;
  std::vector<PirGraph::Id> inputs, weight_ids;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const TracedWeight& w = p.weights[i];
    const std::string name = unique_name(w, i, &taken);
    const Shape& s = w.value.shape();
    weight_ids.push_back(g.parameter(name, {w.value.dtype(), {s.begin(), s.end()}}, w.trainable));
    weights.emplace(name, w.value);
  }
  for (const ProgramPort& port : p.inputs) inputs.push_back(g.input(port));
  std::vector<std::vector<PirGraph::Id>> made(p.nodes.size());
  std::map<int32_t, PirGraph::Id> dims;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const TracedNode& n = p.nodes[i];
    PirNode node{g, p, n, {}, {}, {}};
    node.port_ids = &inputs, node.dim_cache = &dims;
    for (size_t k = 0; k < a[i].size(); ++k) {
      PirType t{a[i][k].dtype(), {}};
      const Shape &x = a[i][k].shape(), &y = b[i][k].shape();
      for (size_t d = 0; d < x.size(); ++d) t.dims.push_back(d < y.size() && x[d] == y[d] ? x[d] : -1);
      node.out.push_back(std::move(t));
    }
    switch (n.kind) {
      case TracedNode::Kind::kInput: made[i] = {inputs[n.number]}; continue;
      case TracedNode::Kind::kWeight: made[i] = {weight_ids[n.number]}; continue;
      case TracedNode::Kind::kScalar:
        if (!n.open.empty()) {
          PirGraph::Id s = node.open_size(n.open[0].second);
          s = g.op("reshape", {s, g.ints({})}, {}, {DType::kInt64, {}});
          made[i] = {g.cast(s, n.dtype)};
        } else {
          const Value& v = a[i][0];
          made[i] = {g.number(v.node->kind == Node::Kind::kScalar ? scalar_as_double(*v.node) : Call(*v.node).real("value"), n.dtype, {})};
        }
        continue;
      default: break;
    }
    for (const TracedRef& r : n.inputs) node.in.push_back(made[r.node][r.index]);
    write_pir_node(node);
    made[i] = node.result;
  }
  for (size_t k = 0; k < p.results.size(); ++k) {
    const TracedRef& r = p.results[k];
    PirGraph::Id id = made[r.node][r.index];
    // An input or weight that is a result, too, gets a value of its own.
    if (p.nodes[r.node].kind != TracedNode::Kind::kOp) id = g.op("assign", {id}, {}, g.type(id));
    g.fetch(cat("fetch_name_", k), id, static_cast<int>(k));
  }
  write_paddle_weights(prefix + ".pdiparams", weights);
  write_whole(prefix + ".json", g.json().dump());
}

}  // namespace yuloh::formats
