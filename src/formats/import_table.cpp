// SPDX-License-Identifier: Apache-2.0
// Around the Recorder (import.cpp): the table of mappings, values of weights, and a model as a Program.
#include <unordered_map>

#include "formats/import.h"
#include "formats/onnx_check.h"

namespace yuloh::formats {
namespace {
struct Rows {
  std::mutex mu;
  std::unordered_map<std::string, ImportFn> by_name[3];
};
Rows& rows() {
  static auto* r = new Rows;
  return *r;
}
}  // namespace

ImportTable::ImportTable(Dialect d, std::initializer_list<std::pair<const char*, void (*)(Import&)>> list) {
  for (const auto& [name, fn] : list) add_import(d, name, fn);
}
void add_import(Dialect d, const std::string& type, ImportFn fn) {
  std::lock_guard lock(rows().mu);
  rows().by_name[static_cast<int>(d)][type] = std::move(fn);
}
const ImportFn* find_import(Dialect d, const std::string& type) {
  std::lock_guard lock(rows().mu);
  const auto& map = rows().by_name[static_cast<int>(d)];
  const auto it = map.find(type);
  return it == map.end() ? nullptr : &it->second;  // rows are never removed and references to them stay
}

Value WeightCache::get(const FileTensor& t) {
  if (t.type.dtype == DType::kString) fail(ErrorKind::kNotImplemented, "import: strings are not supported.");
  std::lock_guard lock(mu_);
  Value& v = made_[&t];
  if (!v) {
    v = make_data(t.type, t.buffer);
    if (make_) v = make_(v);
  }
  return v;
}

const std::vector<Item>* WeightCache::folded(const ModelNode* n) {
  std::lock_guard lock(mu_);
  const auto it = folded_.find(n);
  return it == folded_.end() ? nullptr : &it->second;  // never replaced
}
void WeightCache::fold(const ModelNode* n, std::vector<Item> outputs) {
  std::lock_guard lock(mu_);
  folded_.try_emplace(n, std::move(outputs));
}

// ---- models ----
std::vector<Unsupported> unsupported_ops(const Model& m) {
  std::vector<Unsupported> r;
  std::map<std::string, size_t> at;
  std::function<void(const ModelGraph&)> walk = [&](const ModelGraph& g) {
    for (const ModelNode& n : g.nodes) {
      for (const auto& [k, a] : n.attrs)
        if (const auto* b = std::get_if<std::shared_ptr<ModelGraph>>(&a)) walk(**b);
      if (m.functions.count(function_key(n)) || find_import(m.dialect, operator_key(n))) continue;
      const auto [it, fresh] = at.try_emplace(operator_key(n), r.size());
      if (fresh) r.push_back({n.type, n.domain, 0, describe_node(n)});
      ++r[it->second].count;
    }
  };
  walk(m.graph);
  for (const auto& [name, f] : m.functions) walk(f);
  return r;
}

static Values record_with(const Model& m, const Values& inputs, WeightCache* weights, const WatchFn& watch) {
  std::vector<Item> items(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) items[i].value = inputs[i];
  Values r;
  for (const Item& i : record_items(m, items, weights, watch)) {
    if (!i.value)
      fail(ErrorKind::kNotImplemented, "import: an output of ", m.path, " is a sequence; expected tensors.");
    r.push_back(i.value);
  }
  return r;
}
Values record(const Model& m, const Values& inputs, const WatchFn& watch) {
  WeightCache weights;
  return record_with(m, inputs, &weights, watch);
}

namespace {
class ModelProgram : public Program {
 public:
  explicit ModelProgram(std::shared_ptr<const Model> m) : model_(std::move(m)) {
    for (const Port& p : model_->graph.inputs) inputs.push_back(port(p));
    for (const Port& p : model_->graph.outputs) outputs.push_back(port(p));
  }
  Values record(const Values& in) const override { return record_with(*model_, in, &weights_, {}); }
  std::vector<NamedValue> named_weights() const override {
    std::vector<NamedValue> r;
    for (const auto& [name, t] : model_->graph.weights)
      if (t.type.dtype != DType::kString)
        r.push_back({name, name, is_float(t.type.dtype), is_float(t.type.dtype), weights_.get(t)});
    return r;
  }
  Values record_by_place(const Values& in, const Made& made) const override {
    return record_with(*model_, in, &weights_, [&](const ModelNode&, const std::string& name, const Value&) {
      made("`" + name + "`");
    });
  }

 private:
  std::shared_ptr<const Model> model_;
  static ProgramPort port(const Port& p) {
    return {p.label.empty() ? p.name : p.label, p.dtype, p.dims, p.dim_names, p.ranked};
  }
  mutable WeightCache weights_;
};
}  // namespace
std::shared_ptr<const Program> make_program(std::shared_ptr<const Model> m) {
  return std::make_shared<ModelProgram>(std::move(m));
}

}  // namespace yuloh::formats
