// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx_check.h"

#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace yuloh::formats {
namespace {
class Checker {
 public:
  explicit Checker(Model* m) : m_(*m) {}

  void run() {
    graph(&m_.graph, "the graph", {});
    for (auto& [name, f] : m_.functions) graph(&f, "function '" + name + "'", {});
    for (const auto& [name, f] : m_.functions) no_recursion(name);
  }

 private:
  using Names = std::unordered_set<std::string>;
  template <class... A>
  [[noreturn]] void bad(const A&... a) const {
    value_error("read: ", m_.path, ": ", a..., ".");
  }

  bool known(const std::string& name, const std::vector<const Names*>& outer) const {
    for (const Names* n : outer)
      if (n->count(name)) return true;
    return false;
  }

  void graph(ModelGraph* g, const std::string& where, std::vector<const Names*> outer) {
    // Old files list weights among the inputs, as defaults; what is left are the inputs that a caller gives.
    std::erase_if(g->inputs, [&](const Port& p) { return g->weights.count(p.name) != 0; });
    Names made;
    for (const Port& p : g->inputs)
      if (!made.insert(p.name).second) bad("two inputs of ", where, " are named '", p.name, "'");
    for (const auto& [name, t] : g->weights) made.insert(name);
    std::unordered_map<std::string, size_t> producer;
    for (size_t i = 0; i < g->nodes.size(); ++i)
      for (const std::string& o : g->nodes[i].outputs) {
        if (o.empty()) continue;
        if (made.count(o) || !producer.emplace(o, i).second)
          bad("value '", o, "' of ", where, " is made twice (again by ", describe_node(g->nodes[i]), ")");
      }
    outer.push_back(&made);
    sort(g, where, producer, outer);
    for (ModelNode& n : g->nodes) {
      for (auto& [key, a] : n.attrs)
        if (const auto* body = std::get_if<std::shared_ptr<ModelGraph>>(&a))
          graph(body->get(), "graph '" + key + "' of " + describe_node(n), outer);
      made.insert(n.outputs.begin(), n.outputs.end());
    }
    for (const Port& p : g->outputs)
      if (!known(p.name, outer)) bad("output '", p.name, "' of ", where, " is never made");
  }

  void sort(ModelGraph* g, const std::string& where, const std::unordered_map<std::string, size_t>& producer,
            const std::vector<const Names*>& outer) {
    const size_t n = g->nodes.size();
    std::vector<std::vector<size_t>> users(n);
    std::vector<size_t> waiting(n, 0);
    bool ordered = true;
    for (size_t i = 0; i < n; ++i) {
      std::vector<std::string> names = g->nodes[i].inputs;
      captured_names(g->nodes[i], &names);
      for (const std::string& name : names) {
        if (name.empty()) continue;
        if (const auto it = producer.find(name); it != producer.end()) {
          users[it->second].push_back(i), ++waiting[i];
          ordered = ordered && it->second < i;
        } else if (!known(name, outer)) {
          bad(describe_node(g->nodes[i]), " in ", where, " reads '", name, "', which nothing makes");
        }
      }
    }
    if (ordered) return;
    std::set<size_t> ready;  // by position: an order near the file's
    for (size_t i = 0; i < n; ++i)
      if (!waiting[i]) ready.insert(i);
    std::vector<ModelNode> sorted;
    while (!ready.empty()) {
      const size_t i = *ready.begin();
      ready.erase(ready.begin());
      for (size_t u : users[i])
        if (--waiting[u] == 0) ready.insert(u);
      sorted.push_back(std::move(g->nodes[i]));
    }
    if (sorted.size() != n) {
      size_t i = 0;
      while (!waiting[i]) ++i;
      bad(describe_node(g->nodes[i]), " in ", where, " takes part in a cycle");
    }
    g->nodes = std::move(sorted);
  }

  void no_recursion(const std::string& name) {
    int& state = visited_[name];
    if (state == 2) return;
    if (state == 1) bad("function '", name, "' calls itself");
    if (++depth_ > 100) bad("functions call each other more than 100 deep, at '", name, "'");
    state = 1;
    calls(m_.functions.at(name));
    --depth_;
    visited_[name] = 2;
  }
  void calls(const ModelGraph& g) {
    for (const ModelNode& n : g.nodes) {
      const std::string key = function_key(n);
      if (m_.functions.count(key)) no_recursion(key);
      for (const auto& [k, a] : n.attrs)
        if (const auto* body = std::get_if<std::shared_ptr<ModelGraph>>(&a)) calls(**body);
    }
  }

  Model& m_;
  std::unordered_map<std::string, int> visited_;
  int depth_ = 0;
};
}  // namespace

void captured_names(const ModelNode& n, std::vector<std::string>* out) {
  for (const auto& [key, a] : n.attrs)
    if (const auto* g = std::get_if<std::shared_ptr<ModelGraph>>(&a)) {
      std::unordered_set<std::string> own;
      for (const Port& p : (*g)->inputs) own.insert(p.name);
      for (const auto& [name, t] : (*g)->weights) own.insert(name);
      for (const ModelNode& b : (*g)->nodes) own.insert(b.outputs.begin(), b.outputs.end());
      std::vector<std::string> wanted;
      for (const ModelNode& b : (*g)->nodes) {
        wanted.insert(wanted.end(), b.inputs.begin(), b.inputs.end());
        captured_names(b, &wanted);
      }
      for (const Port& p : (*g)->outputs) wanted.push_back(p.name);
      for (std::string& name : wanted)
        if (!own.count(name)) out->push_back(std::move(name));
    }
}

void check_onnx(Model* m) { Checker(m).run(); }
std::string operator_key(const ModelNode& n) { return n.domain.empty() ? n.type : n.domain + "." + n.type; }
std::string function_key(const ModelNode& n) {
  return n.domain + ":" + n.type + (n.overload.empty() ? "" : ":" + n.overload);
}
std::string describe_node(const ModelNode& n) {
  const std::string s = operator_key(n);
  const std::string& name = !n.name.empty() || n.outputs.empty() ? n.name : n.outputs[0];
  return name.empty() ? s : s + " '" + name + "'";
}

}  // namespace yuloh::formats
