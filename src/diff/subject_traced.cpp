// SPDX-License-Identifier: Apache-2.0
// A TracedProgram as a Subject: spots are the outputs of its ops, named by op and number; a stretch is a
// TracedProgram.
#include <map>
#include <unordered_map>

#include "diff/subject_kinds.h"
#include "formats/package.h"
#include "ops/fn.h"

namespace yuloh::diff {
namespace {

class TracedSubject : public Subject {
 public:
  explicit TracedSubject(std::shared_ptr<const TracedProgram> p, std::vector<std::string> names = {})
      : program_(std::move(p)), names_(std::move(names)) {
    inputs = program_->inputs;
    for (const ProgramPort& port : inputs) input_names.push_back(port.name);
    std::unordered_map<std::string, int> count;
    if (names_.empty())
      for (const TracedNode& n : program_->nodes) {
        if (n.kind == TracedNode::Kind::kOp) names_.push_back(cat(n.op->name, ".", count[n.op->name]++));
        else if (n.kind == TracedNode::Kind::kInput) names_.push_back(program_->inputs[n.number].name);
        else names_.push_back(cat("constant.", names_.size()));
      }
    for (size_t i = 0; i < names_.size(); ++i) number_[names_[i]] = static_cast<uint32_t>(i);
    for (const TracedRef& r : program_->results) outputs.push_back(name_of(r));
  }

  std::vector<Spot> spots(const Values& in) const override {
    const Recording recording(true);
    const NoGrad no_grad;
    Values placeholders, weights;
    for (const Value& v : in)
      placeholders.push_back(make_input(v.type(), static_cast<int64_t>(placeholders.size())));
    for (const TracedWeight& w : program_->weights) weights.push_back(w.value);
    std::vector<Values> made;
    program_->replay(placeholders, weights, &made);
    std::vector<Spot> r;
    for (uint32_t i = 0; i < made.size(); ++i) {
      const TracedNode& n = program_->nodes[i];
      if (n.kind != TracedNode::Kind::kOp) continue;
      for (uint32_t k = 0; k < made[i].size(); ++k) {
        if (!made[i][k].node->traced) continue;  // of weights alone
        Spot s;
        s.name = name_of({i, k}), s.op = n.op->name, s.type = made[i][k].type();
        for (const TracedRef& from : n.inputs) {
          const TracedNode& m = program_->nodes[from.node];
          if (m.kind == TracedNode::Kind::kWeight) s.weights.push_back(program_->weights[m.number].name);
          else if (m.kind != TracedNode::Kind::kScalar) s.inputs.push_back(name_of(from));
        }
        s.where = n.where;
        s.product = has_product(made[i][k], made[i][k].node->id);
        r.push_back(std::move(s));
      }
    }
    return r;
  }

  std::shared_ptr<Subject> cut(const std::vector<std::pair<std::string, TensorType>>& known,
                               const std::vector<std::string>& wanted) const override {
    std::map<std::pair<uint32_t, uint32_t>, const std::pair<std::string, TensorType>*> given;
    for (const auto& k : known)
      if (const TracedRef r = ref_of(k.first); r.node != UINT32_MAX) given[{r.node, r.index}] = &k;
    // Which nodes take part, and which known values they read.
    std::vector<bool> taken(program_->nodes.size());
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> read;  // known -> number of the input
    std::vector<TracedRef> stack;
    for (const std::string& name : wanted) {
      stack.push_back(ref_of(name));
      if (stack.back().node == UINT32_MAX) value_error("diff: value `", name, "` is not known.");
    }
    auto p = std::make_shared<TracedProgram>();
    std::vector<std::string> names;
    while (!stack.empty()) {
      const TracedRef r = stack.back();
      stack.pop_back();
      if (const auto g = given.find({r.node, r.index}); g != given.end()) {
        if (read.emplace(g->first, static_cast<uint32_t>(p->inputs.size())).second) {
          const auto& [name, type] = *g->second;
          p->inputs.push_back({name,
                               type.dtype,
                               {type.shape.begin(), type.shape.end()},
                               std::vector<std::string>(type.shape.size()),
                               true});
        }
        continue;
      }
      if (taken[r.node]) continue;
      if (program_->nodes[r.node].kind == TracedNode::Kind::kInput)
        value_error("diff: value `", names_[r.node], "` is not known.");
      taken[r.node] = true;
      for (const TracedRef& x : program_->nodes[r.node].inputs) stack.push_back(x);
    }
    if (!sizes_fixed(taken)) {  // its open sizes follow from inputs that may be gone
      const auto fixed = fixed_sizes(known);
      return fixed->cut(known, wanted);
    }
    std::vector<uint32_t> place(program_->nodes.size());
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> input_place;
    for (const auto& [key, number] : read) {
      TracedNode n;
      n.kind = TracedNode::Kind::kInput, n.number = number;
      input_place[key] = static_cast<uint32_t>(p->nodes.size());
      p->nodes.push_back(std::move(n)), names.push_back(p->inputs[number].name);
    }
    std::unordered_map<uint32_t, uint32_t> weights;
    auto moved = [&](const TracedRef& r) -> TracedRef {
      const auto it = input_place.find({r.node, r.index});
      return it != input_place.end() ? TracedRef{it->second, 0} : TracedRef{place[r.node], r.index};
    };
    for (size_t i = 0; i < taken.size(); ++i) {
      if (!taken[i]) continue;
      TracedNode n = program_->nodes[i];
      if (n.kind == TracedNode::Kind::kWeight) {
        const auto [it, fresh] = weights.emplace(n.number, static_cast<uint32_t>(p->weights.size()));
        if (fresh) p->weights.push_back(program_->weights[n.number]);
        n.number = it->second;
      }
      for (TracedRef& r : n.inputs) r = moved(r);
      place[i] = static_cast<uint32_t>(p->nodes.size());
      p->nodes.push_back(std::move(n)), names.push_back(names_[i]);
    }
    for (const std::string& name : wanted) {
      p->results.push_back(moved(ref_of(name)));
      ProgramPort o;
      o.name = name, o.ranked = false;
      p->outputs.push_back(std::move(o));
    }
    return std::make_shared<TracedSubject>(std::move(p), std::move(names));
  }

  std::shared_ptr<const Program> program() const override { return program_; }

  Values record_wide(const Values& in, const Perturbation& how) const override {
    const Recording recording(false);
    const NoGrad no_grad;
    TracedProgram p = *program_;
    uint64_t stream = 0;
    Values wide_in, weights;
    for (const Value& v : in) wide_in.push_back(widened(v, how, stream++));
    for (const TracedWeight& w : p.weights) weights.push_back(widened(w.value, how, stream++));
    for (TracedNode& n : p.nodes) {
      if (n.kind == TracedNode::Kind::kScalar && is_float(n.dtype)) n.dtype = DType::kFloat64;
      if (n.kind != TracedNode::Kind::kOp) continue;
      uint32_t at = 0;
      for (const ArgSpec& a : n.op->args) {
        const auto count = static_cast<uint32_t>(words_of(a, n.attrs.data() + at));
        if (a.kind == ArgKind::kDType && count)
          if (int64_t& word = n.attrs[at + count - 1]; is_float(static_cast<DType>(word)))
            word = static_cast<int64_t>(DType::kFloat64);
        at += count;
      }
    }
    Values r;
    for (const Value& v : p.replay(wide_in, weights)) r.push_back(make_data(v.type(), read_value(v)));
    return r;
  }

  void save(const std::string& path) const override { formats::write_package(*program_, path); }

 private:
  std::string name_of(const TracedRef& r) const {
    return r.index ? cat(names_[r.node], ":", r.index) : names_[r.node];
  }
  TracedRef ref_of(const std::string& name) const {
    auto it = number_.find(name);
    uint32_t index = 0;
    if (const size_t colon = name.rfind(':'); it == number_.end() && colon != std::string::npos) {
      it = number_.find(name.substr(0, colon));
      index = static_cast<uint32_t>(std::strtoul(name.c_str() + colon + 1, nullptr, 10));
    }
    if (it == number_.end()) return {UINT32_MAX, 0};
    return {it->second, index};
  }
  bool sizes_fixed(const std::vector<bool>& taken) const {
    for (size_t i = 0; i < taken.size(); ++i)
      if (taken[i] && !program_->nodes[i].open.empty()) return false;
    return true;
  }
  // The same program for the sizes of these inputs only.
  std::shared_ptr<TracedSubject> fixed_sizes(
      const std::vector<std::pair<std::string, TensorType>>& known) const {
    auto p = std::make_shared<TracedProgram>(*program_);
    const Recording recording(true);
    Values in;
    for (ProgramPort& port : p->inputs)
      for (const auto& [name, type] : known)
        if (name == port.name) {
          in.push_back(make_input(type, static_cast<int64_t>(in.size())));
          break;
        }
    const std::vector<int64_t> sizes = program_->bind_sizes(in);
    for (TracedNode& n : p->nodes) {
      for (const auto& [word, expr] : n.open) {
        int64_t v;
        if (!expr.evaluate(sizes, &v)) value_error("diff: the model does not work for these input sizes.");
        n.attrs[word] = floating_word(n, word) ? std::bit_cast<int64_t>(static_cast<double>(v)) : v;
      }
      n.open.clear();
    }
    p->dims.clear();
    for (ProgramPort& port : p->inputs)
      std::fill(port.dim_names.begin(), port.dim_names.end(), std::string());
    return std::make_shared<TracedSubject>(std::move(p), names_);
  }
  static bool floating_word(const TracedNode& n, uint32_t word) {
    if (n.kind == TracedNode::Kind::kScalar) return !is_integral(n.dtype);
    uint32_t from = 0;
    for (const ArgSpec& a : n.op->args) {
      const auto count = static_cast<uint32_t>(words_of(a, n.attrs.data() + from));
      if (word >= from && word < from + count) return a.kind == ArgKind::kFloat || a.kind == ArgKind::kFloats;
      from += count;
    }
    return false;
  }

  std::shared_ptr<const TracedProgram> program_;
  std::vector<std::string> names_;  // by node
  std::unordered_map<std::string, uint32_t> number_;
};
}  // namespace

std::shared_ptr<Subject> subject_of(std::shared_ptr<const TracedProgram> p) {
  return std::make_shared<TracedSubject>(std::move(p));
}

}  // namespace yuloh::diff
