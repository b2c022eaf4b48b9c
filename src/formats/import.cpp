// SPDX-License-Identifier: Apache-2.0
// The Recorder walks a model's nodes in order and lets the mapping of each make ops. Names live in scopes:
// the graph, a function's body, a branch. A value that must be known (a shape, a condition, a trip count) is
// computed on the spot when no placeholder takes part in it, else NeedsData is raised and the caller records
// again on real tensors.
#include "formats/import.h"

#include <algorithm>
#include <unordered_set>

#include "base/strided.h"
#include "formats/onnx_check.h"
#include "run/closing.h"
#include "run/executor.h"
#include "run/recording.h"

namespace yuloh::formats {
class Recorder : public InFlight {
 public:
  Recorder(const Model& m, WeightCache* weights, const WatchFn& watch, bool wide)
      : model_(m), weights_(*weights), watch_(watch), wide_(wide) {}

  std::vector<Item> run(const std::vector<Item>& inputs) {
    if (inputs.size() != model_.graph.inputs.size())
      value_error("import: ", model_.path, " takes ", model_.graph.inputs.size(), " inputs, got ",
                  inputs.size(), ".");
    for (const Item& i : inputs) tracing_ = tracing_ || (i.value && depends(i.value));
    Scope s{nullptr, &model_.graph, {}, nullptr, &model_.opsets};
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Port& p = model_.graph.inputs[i];
      Item item = inputs[i];
      if (!item.stored_as) item.stored_as = p.stored_as;
      if (item.value) check_input(p, item.value);
      s.values[p.name] = std::move(item);
    }
    return graph(s);
  }

  // The scope of names while one graph is walked.
  struct Scope {
    Scope* outer;
    const ModelGraph* graph;
    std::unordered_map<std::string, Item> values;
    const std::map<std::string, Attribute>* attrs;  // of the function call, null outside
    const std::map<std::string, int64_t>* opsets;
  };

  void collect(std::vector<Value>* out) const override {
    for (const Scope* s = scope_; s; s = s->outer) collect_scope(*s, out);
    for (const Scope* s : suspended_)
      for (; s; s = s->outer) collect_scope(*s, out);
    for (const auto& [items, lists] : held_) {
      for (const Item& i : *items) collect_item(i, out);
      for (const Values& l : *lists) out->insert(out->end(), l.begin(), l.end());
    }
  }

  Item item(const std::string& name) {
    for (Scope* s = scope_; s; s = s->outer) {
      if (const auto it = s->values.find(name); it != s->values.end()) return it->second;
      if (const auto it = s->graph->weights.find(name); it != s->graph->weights.end()) {
        Item i;
        i.value = weights_.get(it->second), i.stored_as = it->second.stored_as, i.fixed = true;
        return i;
      }
    }
    value_error("import: value '", name, "' is not known.");
  }
  const FileTensor* weight(const std::string& name) const {
    for (Scope* s = scope_; s; s = s->outer) {
      if (s->values.count(name)) return nullptr;
      if (const auto it = s->graph->weights.find(name); it != s->graph->weights.end()) return &it->second;
    }
    return nullptr;
  }

  double number(const Value& v, const ModelNode& node) {
    return load_double(buffer(v, "an inner value", node)->data(), v.dtype());
  }
  // The value of a name, row-major in memory; from now on the name stands for these data.
  FileTensor read(const std::string& name, const ModelNode& node) {
    const Item i = item(name);
    if (!i.value) fail(ErrorKind::kType, "import: '", name, "' is a list where a tensor is read.");
    FileTensor t;
    t.type = i.value.type(), t.buffer = buffer(i.value, name, node), t.stored_as = i.stored_as;
    if (i.value.node->kind == Node::Kind::kOp)
      for (Scope* s = scope_; s; s = s->outer)
        if (const auto it = s->values.find(name); it != s->values.end()) {
          it->second.value = make_data(t.type, t.buffer);
          break;
        }
    t.buffer = row_major(t.type, std::move(t.buffer));
    return t;
  }

  void set(const std::string& name, Item i) {
    if (!name.empty()) scope_->values[name] = std::move(i);
  }

  const Attribute* attribute(const ModelNode& n, const char* name) const {
    const auto it = n.attrs.find(name);
    if (it == n.attrs.end()) return nullptr;
    const auto* ref = std::get_if<AttributeRef>(&it->second);
    if (!ref) return &it->second;
    if (!scope_->attrs) return nullptr;
    const auto a = scope_->attrs->find(ref->name);
    return a == scope_->attrs->end() ? nullptr : &a->second;
  }
  int64_t opset(const std::string& domain) const {
    const auto it = scope_->opsets->find(domain);
    return it == scope_->opsets->end() ? 1 : it->second;
  }

  std::vector<Item> body(const ModelGraph& g, std::vector<Item> inputs) {
    if (inputs.size() != g.inputs.size())
      value_error("import: a subgraph takes ", g.inputs.size(), " inputs, got ", inputs.size(), ".");
    begin_one();  // a body without nodes, too
    Scope s{scope_, &g, {}, scope_->attrs, scope_->opsets};
    for (size_t i = 0; i < inputs.size(); ++i) s.values[g.inputs[i].name] = std::move(inputs[i]);
    return graph(s);
  }
  bool truth(const Value& v, const char* what, const ModelNode& node) {
    if (numel(v.shape()) != 1)
      value_error("import: ", describe_node(node), ": ", what, " has shape ", v.shape(),
                  "; expected one element.");
    return load_double(buffer(v, what, node)->data(), v.dtype()) != 0;
  }
  // A loop that cannot end before `trips` iterations.
  void expect_trips(int64_t trips, const ModelGraph& g) const {
    if (trips > (kMaxNodes - count_) / static_cast<int64_t>(g.nodes.size() + 1))
      too_many(cat(trips, " times ", g.nodes.size()));
  }
  std::vector<std::pair<const std::vector<Item>*, const std::vector<Values>*>> held_;
  Model const& model() const { return model_; }
  WeightCache& weights() { return weights_; }

 private:
  static void collect_scope(const Scope& s, std::vector<Value>* out) {
    for (const auto& [name, i] : s.values) collect_item(i, out);
  }
  static void collect_item(const Item& i, std::vector<Value>* out) {
    if (i.value) out->push_back(i.value);
    if (i.list) out->insert(out->end(), i.list->begin(), i.list->end());
  }

  void check_input(const Port& p, const Value& v) const {
    if (p.dtype == DType::kSequence || p.dtype == DType::kString) return;
    if (v.dtype() != p.dtype && !(wide_ && is_float(v.dtype()) && is_float(p.dtype)))
      type_error("import: input '", p.name, "' of ", model_.path, " has dtype ", v.dtype(), "; expected ",
                 p.dtype, ".");
    bool fits = !p.ranked || p.dims.size() == v.shape().size();
    for (size_t d = 0; p.ranked && fits && d < p.dims.size(); ++d)
      fits = p.dims[d] < 0 || p.dims[d] == v.shape()[d];
    if (fits) return;
    std::string want;
    for (size_t d = 0; d < p.dims.size(); ++d)
      want += (d ? ", " : "") + (p.dims[d] >= 0 ? std::to_string(p.dims[d])
                                 : d >= p.dim_names.size() || p.dim_names[d].empty() ? "?"
                                                                                     : p.dim_names[d]);
    value_error("import: input '", p.name, "' of ", model_.path, " has shape ", v.shape(), "; expected [",
                want, "].");
  }

  std::vector<Item> graph(Scope& s) {
    struct Enter {
      Scope*& at;
      Scope* before;
      Enter(Scope*& a, Scope* s) : at(a), before(a) { at = s; }
      ~Enter() { at = before; }
    } const enter(scope_, &s);
    const std::vector<std::vector<std::string>>& dying = last_uses(*s.graph);
    for (size_t i = 0; i < s.graph->nodes.size(); ++i) {
      const ModelNode& n = s.graph->nodes[i];
      try {
        node(n);
      } catch (Error& e) {
        if (!located_) e.append(cat("\n  in ", describe_node(n), " of ", model_.path));
        located_ = true;
        throw;
      }
      for (const std::string& name : dying[i]) s.values.erase(name);
    }
    std::vector<Item> out;
    for (const Port& p : s.graph->outputs) {
      // A function may leave an output out that its caller does not ask for.
      out.push_back(p.name.empty() ? Item() : item(p.name));
      if (p.stored_as) out.back().stored_as = p.stored_as;
    }
    return out;
  }

  // By node: names of the graph that nobody reads after it. What is dropped early need not be kept by a run.
  const std::vector<std::vector<std::string>>& last_uses(const ModelGraph& g) {
    auto& r = last_uses_[&g];
    if (!r.empty() || g.nodes.empty()) return r;
    std::unordered_map<std::string, size_t> last;
    std::unordered_set<std::string> kept;
    for (const Port& p : g.outputs) kept.insert(p.name);
    r.resize(g.nodes.size());
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      std::vector<std::string> names = g.nodes[i].inputs;
      captured_names(g.nodes[i], &names);
      for (const std::string& name : names) last[name] = i;
      for (const std::string& name : g.nodes[i].outputs) last.try_emplace(name, i);
    }
    for (const auto& [name, i] : last)
      if (!kept.count(name)) r[i].push_back(name);
    return r;
  }

  void node(const ModelNode& n) {
    apply(n);
    if (wide_) widen(n);
    if (watch_)
      for (const std::string& name : n.outputs)
        if (const auto it = scope_->values.find(name); it != scope_->values.end() && it->second.value)
          watch_(n, name, it->second.value);
  }
  void widen(const ModelNode& n) {
    const bool cast = n.type == "Cast" || n.type == "CastLike" || n.type == "cast";
    for (const std::string& name : n.outputs) {
      const auto it = scope_->values.find(name);
      if (it == scope_->values.end() || !it->second.value || !is_float(it->second.value.dtype())) continue;
      Value& v = it->second.value;
      if (cast && is_float(item(n.inputs[0]).value.dtype())) v = item(n.inputs[0]).value;
      if (v.dtype() != DType::kFloat64) v = call("cast", {v}, {{"dtype", DType::kFloat64}});
    }
  }
  void apply(const ModelNode& n) {
    begin_one();
    if (const auto f = model_.functions.find(function_key(n)); f != model_.functions.end())
      return function(n, f->second);
    const ImportFn* fn = find_import(model_.dialect, operator_key(n));
    Import i(*this, n);
    if (!fn) i.unsupported("no mapping exists");
    const bool fixed = fixed_inputs(n);
    if (fixed)
      if (const std::vector<Item>* known = weights_.folded(&n)) {
        for (size_t k = 0; k < known->size(); ++k) set(n.outputs[k], (*known)[k]);
        return;
      }
    const uint64_t first = next_node_id();
    (*fn)(i);
    if (fixed && !draws(n, first)) fold(n);
    for (size_t k = 0; k < n.outputs.size(); ++k)
      if (!n.outputs[k].empty() && k < 1 && !scope_->values.count(n.outputs[k]))
        i.unsupported("its mapping makes no result");
  }

  // A node or an iteration. Ctrl-C acts here, too.
  void begin_one() {
    if (++count_ > kMaxNodes) too_many(cat("more than ", kMaxNodes));
    if (count_ % 64 == 0)
      if (const auto& poll = poll_function()) poll();
  }
  [[noreturn]] static void too_many(const std::string& n) {
    value_error("import: ", n, " nodes come out of the model's loops and functions; expected at most ",
                kMaxNodes, ". Hint: is a trip count damaged?");
  }

  // A function's nodes mean something else at every call.
  bool fixed_inputs(const ModelNode& n) {
    if (scope_->attrs) return false;
    for (const auto& [name, a] : n.attrs)
      if (std::holds_alternative<std::shared_ptr<ModelGraph>>(a)) return false;
    for (const std::string& name : n.inputs)
      if (!name.empty() && !item(name).fixed) return false;
    return !n.inputs.empty() || n.type == "Constant";
  }
  // Whether what a mapping made, nodes from `first` on, holds random numbers: those are new in every run.
  bool draws(const ModelNode& n, uint64_t first) {
    std::vector<Value> made;
    for (const std::string& name : n.outputs)
      if (const auto it = scope_->values.find(name); it != scope_->values.end())
        made.push_back(it->second.value);
    const auto inner = reached(made, [first](const Value& v) {
      return v && v.node->kind == Node::Kind::kOp && v.node->id >= first;
    });
    return std::any_of(inner.begin(), inner.end(), [](const Node* m) { return m->op->random; });
  }
  void fold(const ModelNode& n) {
    std::vector<Item> out;
    for (const std::string& name : n.outputs) {
      Item i;
      if (const auto it = scope_->values.find(name); it != scope_->values.end()) i = it->second;
      if (i.list) return;
      if (i.value && i.value.node->kind == Node::Kind::kOp)
        check_constant_work(i.value, cat("import: '", name, "'")),
            i.value = make_data(i.value.type(), buffer(i.value, name, n));
      i.fixed = true, out.push_back(std::move(i));
    }
    for (size_t k = 0; k < out.size(); ++k) set(n.outputs[k], out[k]);
    weights_.fold(&n, std::move(out));
  }

  void function(const ModelNode& n, const ModelGraph& f) {
    std::map<std::string, Attribute> attrs = f.defaults;
    for (const auto& [name, a] : n.attrs)
      if (const Attribute* resolved = attribute(n, name.c_str())) attrs[name] = *resolved;
    Scope s{nullptr, &f, {}, &attrs, f.opsets.empty() ? scope_->opsets : &f.opsets};
    for (size_t i = 0; i < f.inputs.size(); ++i)
      s.values[f.inputs[i].name] = i < n.inputs.size() && !n.inputs[i].empty() ? item(n.inputs[i]) : Item();
    suspended_.push_back(scope_);
    std::vector<Item> out = graph(s);
    suspended_.pop_back();
    for (size_t i = 0; i < n.outputs.size() && i < out.size(); ++i) set(n.outputs[i], std::move(out[i]));
  }

  // Whether a placeholder takes part in a value.
  bool depends(const Value& v) {
    std::vector<const Node*> stack{v.node.get()};
    while (!stack.empty()) {
      const Node* n = stack.back();
      bool &known = known_[n->id], &r = depends_[n->id];
      if (known) {
        stack.pop_back();
        continue;
      }
      if (n->kind != Node::Kind::kOp || n->executed) {
        r = n->kind == Node::Kind::kInput, known = true, stack.pop_back();
        continue;
      }
      bool open = false, any = false;
      for (const Value& x : n->inputs) {
        if (x.node->materialised(x.index)) continue;
        if (!known_[x.node->id]) stack.push_back(x.node.get()), open = true;
        else any = any || depends_[x.node->id];
      }
      if (open) continue;
      depends_[n->id] = any, known_[n->id] = true, stack.pop_back();
    }
    return depends_[v.node->id];
  }

  Ref<Buffer> buffer(const Value& v, const std::string& name, const ModelNode& node) {
    Node& n = *v.node;
    if (n.kind == Node::Kind::kScalar) {
      Ref<Buffer> b = allocate_buffer(v.type());
      if (is_float(v.dtype())) store_double(b->data(), v.dtype(), scalar_as_double(n));
      else store_int(b->data(), v.dtype(), n.attrs[0]);
      return b;
    }
    if (n.kind != Node::Kind::kInput && n.materialised(v.index)) return n.outputs[v.index].buffer;
    if (n.kind == Node::Kind::kInput || (tracing_ && depends(v)))
      throw NeedsData(ErrorKind::kValue, cat("import: ", describe_node(node), " needs the value of '", name,
                                             "', which depends on the data that are fed."));
    if (cheap(n)) Context::current().compute(v);
    else Context::current().flush(&v);
    return n.outputs[v.index].buffer;
  }
  // Small enough to be computed by itself, and again by what else reads the values below.
  static bool cheap(const Node& root) {
    std::vector<const Node*> stack{&root};
    std::unordered_set<const Node*> seen;
    while (!stack.empty()) {
      const Node* n = stack.back();
      stack.pop_back();
      if (!seen.insert(n).second) continue;
      if (seen.size() > 200) return false;
      for (const auto& o : n->outputs)
        if (numel(o.type.shape) > 4096) return false;
      for (const Value& x : n->inputs)
        if (pending(x)) stack.push_back(x.node.get());
    }
    return true;
  }

  static constexpr int64_t kMaxNodes = 2'000'000;
  const Model& model_;
  WeightCache& weights_;
  const WatchFn& watch_;
  const bool wide_;
  Scope* scope_ = nullptr;
  std::vector<const Scope*> suspended_;  // of callers of the function being walked
  std::unordered_map<const ModelGraph*, std::vector<std::vector<std::string>>> last_uses_;
  std::unordered_map<uint64_t, bool> depends_, known_;
  bool tracing_ = false, located_ = false;
  int64_t count_ = 0;
};

std::vector<Item> record_items(const Model& m, const std::vector<Item>& inputs, WeightCache* weights,
                               const WatchFn& watch, bool wide) {
  return Recorder(m, weights, watch, wide).run(inputs);
}

// ---- Import: what a mapping sees ----
int64_t Import::opset() const { return recorder_.opset(node.domain); }
bool Import::has(size_t i) const {
  if (i >= node.inputs.size() || node.inputs[i].empty()) return false;
  const FileTensor* w = recorder_.weight(node.inputs[i]);
  if (w) return true;
  const Item item = recorder_.item(node.inputs[i]);
  return item.value || item.list;  // a function's argument that its caller left out
}
Value Import::in(size_t i) const {
  if (!has(i)) value_error("import: ", describe_node(node), " has no input ", i, ".");
  Item item = recorder_.item(node.inputs[i]);
  if (!item.value)
    type_error("import: ", describe_node(node), ": input ", i, " is a list; expected a tensor.");
  return item.value;
}
Value Import::in_or_null(size_t i) const { return has(i) ? in(i) : Value(); }
FileTensor Import::host(size_t i) const {
  in(i);
  return recorder_.read(node.inputs[i], node);
}
Ints Import::ints(size_t i) const {
  const FileTensor t = host(i);
  Ints r;
  const int64_t n = numel(t.type.shape);
  if (n > 1 << 20)
    value_error("import: ", describe_node(node), ": input ", i, " has ", n,
                " elements; expected a short list.");
  const char* p = static_cast<const char*>(t.buffer->data());
  for (int64_t k = 0; k < n; ++k) r.push_back(load_int(p + k * dtype_size(t.type.dtype), t.type.dtype));
  return r;
}
double Import::number(size_t i) const {
  const FileTensor t = host(i);
  if (numel(t.type.shape) != 1)
    value_error("import: ", describe_node(node), ": input ", i, " has shape ", t.type.shape,
                "; expected one number.");
  return load_double(t.buffer->data(), t.type.dtype);
}
double Import::number_of(const Value& v) const {
  if (numel(v.shape()) != 1)
    value_error("import: ", describe_node(node), ": a value has shape ", v.shape(), "; expected one number.");
  return recorder_.number(v, node);
}
const Attribute* Import::find(const char* name) const {
  const Attribute* a = recorder_.attribute(node, name);
  return a && std::holds_alternative<std::monostate>(*a) ? nullptr : a;
}
template <class T>
const T& Import::get(const char* name) const {
  const Attribute* a = find(name);
  if (!a) value_error("import: ", describe_node(node), " has no attribute '", name, "'.");
  if (const T* v = std::get_if<T>(a)) return *v;
  type_error("import: ", describe_node(node), ": attribute '", name, "' is of another type.");
}
bool Import::has_attr(const char* name) const { return find(name) != nullptr; }
int64_t Import::integer(const char* name, int64_t otherwise) const {
  return find(name) ? get<int64_t>(name) : otherwise;
}
double Import::real(const char* name, double otherwise) const {
  return find(name) ? get<double>(name) : otherwise;
}
std::string Import::text(const char* name, const char* otherwise) const {
  return find(name) ? get<std::string>(name) : std::string(otherwise);
}
Ints Import::ints_attr(const char* name, Ints otherwise) const {
  if (!find(name)) return otherwise;
  if (const auto* one = std::get_if<int64_t>(find(name))) return {*one};
  const auto& v = get<std::vector<int64_t>>(name);
  return Ints(v.begin(), v.end());
}
std::vector<double> Import::reals_attr(const char* name) const {
  const Attribute* a = find(name);
  if (const auto* v = a ? std::get_if<std::vector<int64_t>>(a) : nullptr)
    return std::vector<double>(v->begin(), v->end());
  return find(name) ? get<std::vector<double>>(name) : std::vector<double>();
}
std::vector<std::string> Import::texts_attr(const char* name) const {
  return find(name) ? get<std::vector<std::string>>(name) : std::vector<std::string>();
}
const FileTensor& Import::tensor_attr(const char* name) const { return get<FileTensor>(name); }
const ModelGraph& Import::graph_attr(const char* name) const {
  return *get<std::shared_ptr<ModelGraph>>(name);
}
Value Import::attr_value(const char* name) const { return recorder_.weights().get(tensor_attr(name)); }
void Import::out(size_t i, Value v) {
  if (i >= node.outputs.size()) return;
  Item item;
  item.value = std::move(v);
  if (has(0)) {
    const Item first = recorder_.item(node.inputs[0]);
    if (first.value && first.value.dtype() == item.value.dtype()) item.stored_as = first.stored_as;
  }
  recorder_.set(node.outputs[i], std::move(item));
}
int Import::stored_as(size_t i) const { return has(i) ? recorder_.item(node.inputs[i]).stored_as : 0; }
void Import::out_stored_as(size_t i, int type) {
  if (i >= node.outputs.size() || node.outputs[i].empty()) return;
  Item item = recorder_.item(node.outputs[i]);
  item.stored_as = type;
  recorder_.set(node.outputs[i], std::move(item));
}
List Import::list_in(size_t i) const { return has(i) ? recorder_.item(node.inputs[i]).list : nullptr; }
void Import::list_out(size_t i, List list) {
  if (i >= node.outputs.size()) return;
  Item item;
  item.list = std::move(list);
  recorder_.set(node.outputs[i], std::move(item));
}
void Import::expect_trips(int64_t trips, const ModelGraph& g) const { recorder_.expect_trips(trips, g); }
std::vector<Item> Import::run_items(const ModelGraph& body, std::vector<Item> inputs) {
  return recorder_.body(body, std::move(inputs));
}
Item Import::item(size_t i) const { return recorder_.item(node.inputs[i]); }
Import::Held::Held(const Import& i, const std::vector<Item>* items, const std::vector<Values>* lists)
    : recorder_(i.recorder_) {
  recorder_.held_.emplace_back(items, lists);
}
Import::Held::~Held() { recorder_.held_.pop_back(); }
bool Import::truth(const Value& v, const char* what) const { return recorder_.truth(v, what, node); }
void Import::set_item(size_t i, Item v) {
  if (i < node.outputs.size()) recorder_.set(node.outputs[i], std::move(v));
}
Values Import::run(const ModelGraph& body, const Values& inputs) {
  std::vector<Item> items(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) items[i].value = inputs[i];
  Values r;
  for (const Item& i : recorder_.body(body, std::move(items))) r.push_back(i.value);
  return r;
}
void Import::unsupported(const std::string& why) const {
  const char* where = recorder_.model().dialect == Dialect::kOnnx ? "onnx" : "paddle";
  fail(ErrorKind::kNotImplemented, where, ": operator ", operator_key(node), " (version ", opset(),
       ") is not supported: ", why, ". Hint: @yuloh.onnx.mapping(\"", operator_key(node),
       recorder_.model().dialect == Dialect::kOnnx ? "\")" : "\", dialect=\"paddle\")", " adds one.");
}

}  // namespace yuloh::formats
