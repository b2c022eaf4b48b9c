// SPDX-License-Identifier: Apache-2.0
// A Model as a Subject: spots are the outputs of the graph's nodes, a stretch is a Model of some of them.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "diff/subject_kinds.h"
#include "formats/onnx_check.h"
#include "formats/package.h"
#include "run/recording.h"

namespace yuloh::diff {
namespace {
using namespace formats;

class ModelSubject : public Subject {
 public:
  explicit ModelSubject(std::shared_ptr<const Model> m) : model_(std::move(m)) {
    const auto program = make_program(model_);
    inputs = program->inputs;
    for (const Port& p : model_->graph.inputs) input_names.push_back(p.name);
    for (const Port& p : model_->graph.outputs) outputs.push_back(p.name);
    for (size_t i = 0; i < model_->graph.nodes.size(); ++i)
      for (const std::string& name : model_->graph.nodes[i].outputs)
        if (!name.empty()) maker_[name] = i;
  }

  std::vector<Spot> spots(const Values& in) const override {
    try {
      const Recording recording(true);
      Values placeholders;
      for (const Value& v : in)
        placeholders.push_back(make_input(v.type(), static_cast<int64_t>(placeholders.size())));
      return recorded_spots(placeholders);
    } catch (const NeedsData&) {
      const Recording recording(false);
      return recorded_spots(in);
    }
  }

  std::shared_ptr<Subject> cut(const std::vector<std::pair<std::string, TensorType>>& known,
                               const std::vector<std::string>& wanted) const override {
    std::unordered_map<std::string, const TensorType*> given;
    for (const auto& [name, type] : known) given.emplace(name, &type);
    auto m = std::make_shared<Model>();
    m->dialect = model_->dialect, m->opsets = model_->opsets, m->producer = model_->producer,
    m->path = model_->path;
    m->functions = model_->functions;
    std::vector<std::string> stack = wanted;
    std::vector<bool> taken(model_->graph.nodes.size());
    std::unordered_set<std::string> seen;
    while (!stack.empty()) {
      const std::string name = std::move(stack.back());
      stack.pop_back();
      if (name.empty() || !seen.insert(name).second) continue;
      if (const auto g = given.find(name); g != given.end()) {
        Port p = port(name);
        p.name = name, p.label.clear(), p.dtype = g->second->dtype, p.ranked = false;
        p.dims.clear(), p.dim_names.clear();
        m->graph.inputs.push_back(std::move(p));
        continue;
      }
      if (const auto w = model_->graph.weights.find(name); w != model_->graph.weights.end()) {
        m->graph.weights.emplace(*w);
        continue;
      }
      const auto it = maker_.find(name);
      if (it == maker_.end()) value_error("diff: value `", name, "` is not known.");
      if (taken[it->second]) continue;
      taken[it->second] = true;
      for (std::string& n : reads(model_->graph.nodes[it->second])) stack.push_back(std::move(n));
    }
    for (size_t i = 0; i < taken.size(); ++i)
      if (taken[i]) m->graph.nodes.push_back(model_->graph.nodes[i]);
    for (const std::string& name : wanted) {
      Port p = port(name);
      p.name = name;
      m->graph.outputs.push_back(std::move(p));
    }
    return std::make_shared<ModelSubject>(std::move(m));
  }

  std::shared_ptr<const Program> program() const override { return make_program(model_); }

  Values record_wide(const Values& in, const Perturbation& p) const override {
    const Recording recording(false);
    const NoGrad no_grad;
    uint64_t stream = 0;
    std::vector<Item> items(in.size());
    for (size_t i = 0; i < in.size(); ++i) items[i].value = widened(in[i], p, stream++);
    WeightCache weights([&](const Value& v) { return widened(v, p, stream++); });
    Values r;
    for (const Item& i : record_items(*model_, items, &weights, {}, true)) {
      if (!i.value) type_error("diff: an output is a sequence; expected a tensor.");
      r.push_back(make_data(i.value.type(), read_value(i.value)));
    }
    return r;
  }

  void save(const std::string& path) const override { write_package(*model_, path); }

 private:
  static std::vector<std::string> reads(const ModelNode& n) {
    std::vector<std::string> names = n.inputs;
    captured_names(n, &names);
    return names;
  }
  Port port(const std::string& name) const {  // what the file says of it, if anything
    for (const auto* ports : {&model_->graph.inputs, &model_->graph.outputs})
      for (const Port& p : *ports)
        if (p.name == name) return p;
    Port p;
    p.name = name, p.ranked = false;
    return p;
  }

  std::vector<Spot> recorded_spots(const Values& in) const {
    const NoGrad no_grad;
    const ModelGraph& g = model_->graph;
    std::unordered_set<std::string> changing;  // depends on the inputs
    for (const Port& p : g.inputs) changing.insert(p.name);
    for (const ModelNode& n : g.nodes) {
      const std::vector<std::string> names = reads(n);
      const bool any = std::any_of(names.begin(), names.end(),
                                   [&](const std::string& s) { return changing.count(s) != 0; });
      if (any || names.empty()) changing.insert(n.outputs.begin(), n.outputs.end());
    }
    std::vector<Spot> r;
    uint64_t first = next_node_id();
    const WatchFn watch = [&](const ModelNode& n, const std::string& name, const Value& v) {
      const auto at = maker_.find(name);
      if (at == maker_.end() || &g.nodes[at->second] != &n || !changing.count(name)) return;
      Spot s;
      s.name = name, s.op = operator_key(n), s.where = n.name, s.type = v.type();
      for (const std::string& from : reads(n))
        if (!from.empty()) (g.weights.count(from) ? s.weights : s.inputs).push_back(from);
      s.product = has_product(v, first);
      if (s.where.empty() && !s.weights.empty()) s.where = s.weights[0];
      r.push_back(std::move(s));
      if (n.outputs.back() == name) first = next_node_id();
    };
    WeightCache weights;
    std::vector<Item> items(in.size());
    for (size_t i = 0; i < in.size(); ++i) items[i].value = in[i];
    record_items(*model_, items, &weights, watch);
    return r;
  }

  std::shared_ptr<const Model> model_;
  std::unordered_map<std::string, size_t> maker_;
};
}  // namespace

std::shared_ptr<Subject> subject_of(std::shared_ptr<const Model> m) {
  return std::make_shared<ModelSubject>(std::move(m));
}

}  // namespace yuloh::diff
