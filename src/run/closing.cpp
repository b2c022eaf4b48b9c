// SPDX-License-Identifier: Apache-2.0
#include "run/closing.h"

#include <algorithm>
#include <cstring>

#include "ops/op.h"
#include "run/recording.h"

namespace yuloh {
namespace {
constexpr size_t kSharedByContent = 4096;  // bytes
constexpr size_t kPart =
    16 << 20;  // bytes computed at once: the old and the new weights are not all there together

bool has_buffer(const Value& v) { return v.node->materialised(v.index); }
bool is_op(const Node& n) { return n.kind == Node::Kind::kOp; }

struct ValueHash {
  size_t operator()(const Value& v) const { return reinterpret_cast<size_t>(v.node.get()) * 31 + v.index; }
};

std::vector<Node*> collect(const std::vector<Value>& roots, bool (*inside)(const Node&)) {
  return reached(roots, [inside](const Value& v) { return is_op(*v.node) && inside(*v.node); });
}
}  // namespace

bool belongs_to_plan(const Node& n) {
  static const OpDef* full = &get_op("full");
  return n.traced || n.op->view || (n.op == full && n.inputs.empty());
}

ClosedGraph close_graph(const std::vector<Value>& roots, const std::vector<TensorType>& fed,
                        bool (*inside)(const Node&)) {
  ClosedGraph r;
  std::unordered_map<const Node*, Ref<Node>> copies;
  std::unordered_map<Value, Value, ValueHash> bound;
  auto add_input = [&](const TensorType& t, const Value& leaf, bool scalar, int64_t drawn) {
    const Value in = make_input(t, static_cast<int64_t>(r.inputs.size()));
    r.graph.inputs.push_back(in);
    r.inputs.push_back({t, scalar ? Ints() : row_major_strides(t.shape), false, scalar});
    r.leaves.push_back(leaf), r.drawn.push_back(drawn);
    return in;
  };
  for (const TensorType& t : fed) add_input(t, {}, false, 0);
  auto map = [&](const Value& v) -> Value {
    if (const auto it = copies.find(v.node.get()); it != copies.end()) return Value(it->second, v.index);
    if (v.node->kind == Node::Kind::kInput) {
      const int64_t i = v.node->attrs[0];
      if (i < 0 || i >= static_cast<int64_t>(fed.size()))
        fail(ErrorKind::kRuntime,
             "program: a tensor of another recording is used in this one. Hint: layers must not keep "
             "tensors that they computed while a program was recorded.");
      return r.graph.inputs[static_cast<size_t>(i)];
    }
    Value& in = bound[v];
    if (!in) in = add_input(v.type(), v, v.node->kind == Node::Kind::kScalar, 0);
    return in;
  };
  for (Node* n : collect(roots, inside)) {
    SmallVec<Value, 3> in;
    const bool draws = n->op->random && n->op->n_inputs_fixed >= 0;
    for (uint32_t i = 0; i < n->inputs.size(); ++i) {
      const int64_t nth = draws ? int64_t{i} - n->op->n_inputs_fixed : -1;
      const int64_t count = numel(n->outputs[0].type.shape);
      if (nth >= 0 && n->inputs[i].node->kind == Node::Kind::kScalar && count > 0)
        in.push_back(add_input(n->inputs[i].type(), {}, true, nth == 0 ? count : -count));
      else in.push_back(map(n->inputs[i]));
    }
    auto m = make_ref<Node>();
    m->op = n->op, m->id = next_node_id(), m->attrs = n->attrs, m->inputs = std::move(in);
    for (const auto& o : n->outputs) m->outputs.push_back({o.type, nullptr});
    if (n->extra && n->extra->region) m->make_extra().region = n->extra->region;
    copies.emplace(n, std::move(m));
  }
  for (const Value& v : roots) r.graph.outputs.push_back(map(v));
  return r;
}

// ---- constants ----

namespace {
class Hasher {
 public:
  std::vector<Ref<Storage>> from;

  PlanKey of(const Value& v) {
    for (Node* n : collect({v}, [](const Node& n) { return !n.materialised(0); }))
      known_.try_emplace(n, node_key(*n));
    return value_key(v);
  }

 private:
  PlanKey value_key(const Value& v) {
    PlanKey k;
    if (const auto it = known_.find(v.node.get()); it != known_.end()) {
      k = it->second;
      k.mix(v.index);
      return k;
    }
    const TensorType& t = v.type();
    k.mix(static_cast<uint64_t>(t.dtype) << 8 | t.shape.size());
    for (Dim d : t.shape) k.mix(static_cast<uint64_t>(d));
    if (v.node->kind == Node::Kind::kScalar) {
      k.mix(static_cast<uint64_t>(v.node->attrs[0]) ^ 0x5ca1a);
      return k;
    }
    const Buffer& b = *v.node->outputs[v.index].buffer;
    const size_t bytes = static_cast<size_t>(numel(t.shape)) * dtype_size(t.dtype);
    if (bytes <= kSharedByContent && is_row_major(t.shape, b.strides)) {
      const char* p = static_cast<const char*>(b.data());
      for (size_t i = 0; i < bytes; i += 8) {
        uint64_t w = 0;
        std::memcpy(&w, p + i, std::min<size_t>(8, bytes - i));
        k.mix(w);
      }
      return k;
    }
    for (int64_t s : b.strides) k.mix(static_cast<uint64_t>(s));
    k.mix(reinterpret_cast<uint64_t>(b.storage.get()));
    k.mix(static_cast<uint64_t>(b.offset));
    from.push_back(b.storage);
    return k;
  }
  PlanKey node_key(const Node& n) {
    PlanKey k;
    k.mix(n.op->uid);
    for (int64_t w : n.attrs) k.mix(static_cast<uint64_t>(w));
    if (n.extra && n.extra->region) k.mix(n.id);  // loops between weights: not shared
    for (const Value& v : n.inputs) {
      const PlanKey i = value_key(v);
      k.mix(i.a), k.mix(i.b);
    }
    return k;
  }
  std::unordered_map<const Node*, PlanKey> known_;
};
}  // namespace

// Values that depend on data only.
static std::vector<Ref<Buffer>> compute(const std::vector<Value>& roots, const PlanOptions& options) {
  ClosedGraph c = close_graph(roots, {}, [](const Node& n) { return !n.materialised(0); });
  PlanRun run;
  for (size_t i = 0; i < c.leaves.size(); ++i) {
    const Value& v = c.leaves[i];
    const bool scalar = v.node->kind == Node::Kind::kScalar;
    run.scalars_int.push_back(scalar ? v.node->attrs[0] : 0);
    run.scalars_double.push_back(scalar ? scalar_as_double(*v.node) : 0);
    run.inputs.push_back(scalar ? Ref<Buffer>() : v.node->outputs[v.index].buffer);
    if (!scalar) c.inputs[i].strides = run.inputs.back()->strides;
  }
  run_plan(*compile_plan(c.graph, c.inputs, options), &run, {});
  return std::move(run.outputs);
}

namespace {
class Given final : public FixedData {
 public:
  Given(const PlanKey& k, Ref<Buffer> b) : FixedData(k.a, k.b), buffer_(std::move(b)) {}
  const Buffer& get() override { return *buffer_; }
  bool in_file() const override { return static_cast<bool>(buffer_->storage->free); }

 private:
  Ref<Buffer> buffer_;
};

class Computed final : public FixedData {
 public:
  Computed(const PlanKey& k, Value v, std::vector<Ref<Storage>> from, const PlanOptions& options,
           std::function<void()> done)
      : FixedData(k.a, k.b),
        value_(std::move(v)),
        from_(std::move(from)),
        options_(options),
        done_(std::move(done)) {
    options_.row_major_outputs = true;
  }
  const Buffer& get() override {
    if (!buffer_) {
      buffer_ = compute({value_}, options_)[0];
      if (done_) done_();
    }
    return *buffer_;
  }
  void let_go() override { buffer_ = nullptr; }
  bool computed() const override { return true; }
  const std::vector<Ref<Storage>>& from() const { return from_; }

 private:
  Value value_;
  std::vector<Ref<Storage>> from_;
  PlanOptions options_;
  std::function<void()> done_;
  Ref<Buffer> buffer_;
};
}  // namespace

std::vector<std::shared_ptr<FixedData>> Constants::resolve(const std::vector<Value>& values,
                                                           const std::vector<char>& later,
                                                           const PlanOptions& options,
                                                           const std::function<void(size_t)>& room,
                                                           const std::function<void()>& done) {
  std::vector<std::shared_ptr<FixedData>> r(values.size());
  std::vector<size_t> missing;
  std::vector<PlanKey> keys(values.size());
  std::vector<std::vector<Ref<Storage>>> from(values.size());
  size_t bytes = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& v = values[i];
    if (!v || v.node->kind == Node::Kind::kScalar) continue;
    Hasher h;
    keys[i] = h.of(v);
    from[i] = std::move(h.from);
    const size_t n = static_cast<size_t>(numel(v.shape())) * dtype_size(v.dtype());
    if (const auto it = map_.find(keys[i]); it != map_.end()) {
      r[i] = std::make_shared<Given>(keys[i], it->second.buffer);
    } else if (has_buffer(v)) {
      const Ref<Buffer>& b = v.node->outputs[v.index].buffer;
      r[i] = std::make_shared<Given>(keys[i], b);
      map_[keys[i]] = {b, std::move(from[i])};
    } else if (later[i]) {
      r[i] = std::make_shared<Computed>(keys[i], v, std::move(from[i]), options, done);
      bytes += n;
    } else {
      missing.push_back(i);
      bytes += n;
    }
  }
  if (bytes) room(bytes);
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] && !has_buffer(values[i]) && values[i].node->kind == Node::Kind::kOp &&
        !map_.count(keys[i]))
      check_constant_work(values[i], "prepare");
  for (size_t first = 0; first < missing.size();) {
    std::vector<Value> roots;
    size_t part = 0;
    for (; first + roots.size() < missing.size() && part < kPart; part += bytes_of(roots.back().type()))
      roots.push_back(values[missing[first + roots.size()]]);
    const std::vector<Ref<Buffer>> made = compute(roots, options);
    for (size_t k = 0; k < made.size(); ++k) {
      const size_t i = missing[first + k];
      r[i] = std::make_shared<Given>(keys[i], made[k]);
      map_[keys[i]] = {made[k], std::move(from[i])};
    }
    first += made.size();
    if (done) done();
  }
  return r;
}

void check_constant_work(const Value& v, const std::string& who) {
  double elements = 0, held = 0;
  std::unordered_set<const void*> seen;
  std::vector<const Node*> stack{v.node.get()};
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    if (!seen.insert(n).second) continue;
    for (const Value& x : n->inputs) {
      if (!n->op->view) elements += static_cast<double>(numel(x.shape()));
      if (x.node->kind == Node::Kind::kOp && !x.node->materialised(x.index)) stack.push_back(x.node.get());
      else if (has_buffer(x) && seen.insert(x.node->outputs[x.index].buffer->storage.get()).second)
        held += static_cast<double>(x.node->outputs[x.index].buffer->storage->bytes);
    }
    for (const auto& o : n->outputs)
      if (!n->op->view) elements += static_cast<double>(numel(o.type.shape));
  }
  const double most = std::max(kConstantWork, 64 * held);
  if (elements > most)
    value_error(who, ": ", elements, " elements would be computed from ", held,
                " bytes of constants; expected at most ", most, ". Hint: is a shape in the file damaged?");
}

Ref<Buffer> Constants::keep(FixedData& data) {
  Ref<Buffer> b(const_cast<Buffer*>(&data.get()));
  PlanKey k;
  k.a = data.key[0], k.b = data.key[1];
  if (const auto* c = dynamic_cast<const Computed*>(&data)) map_[k] = {b, c->from()};
  return b;
}

void Constants::drop_unused() {
  std::erase_if(map_, [](const auto& e) { return e.second.buffer->use_count() == 1; });
}

}  // namespace yuloh
