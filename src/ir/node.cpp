// SPDX-License-Identifier: Apache-2.0
#include "ir/node.h"

#include <algorithm>
#include <bit>

namespace yuloh {
namespace {
std::atomic<uint64_t> g_next_id{1};
}

uint64_t next_node_id() { return g_next_id.fetch_add(1, std::memory_order_relaxed); }

Modes& modes() {
  thread_local Modes m;
  return m;
}

void destroy_last(Node* n) {
  thread_local std::vector<Node*>* work = nullptr;  // non-null while some frame below us unwinds
  if (work) {
    work->push_back(n);
    return;
  }
  std::vector<Node*> stack{n};
  work = &stack;
  while (!stack.empty()) {
    Node* x = stack.back();
    stack.pop_back();
    delete x;  // drops its inputs; the last ones come back here and are queued
  }
  work = nullptr;
}

static Value leaf_node(Node::Kind kind, const TensorType& t) {
  auto n = make_ref<Node>();
  n->kind = kind;
  n->id = next_node_id();
  n->outputs.push_back({t, nullptr});
  return Value(std::move(n));
}
Value make_data(const TensorType& t, Ref<Buffer> b) {
  Value v = leaf_node(Node::Kind::kData, t);
  v.node->outputs[0].buffer = std::move(b);
  v.node->executed = true;
  return v;
}
Value make_scalar(DType t, double d) {
  Value v = leaf_node(Node::Kind::kScalar, {t, {}});
  v.node->attrs.push_back(is_integral(t) ? static_cast<int64_t>(d) : std::bit_cast<int64_t>(d));
  return v;
}
Value make_scalar_int(DType t, int64_t i) {
  Value v = leaf_node(Node::Kind::kScalar, {t, {}});
  v.node->attrs.push_back(is_integral(t) ? i : std::bit_cast<int64_t>(static_cast<double>(i)));
  return v;
}
double scalar_as_double(const Node& n) {
  return is_integral(n.outputs[0].type.dtype) ? static_cast<double>(n.attrs[0])
                                              : std::bit_cast<double>(n.attrs[0]);
}
Value make_input(const TensorType& t, int64_t number) {
  Value v = leaf_node(Node::Kind::kInput, t);
  v.node->traced = true;
  v.node->attrs.push_back(number);
  return v;
}

namespace {
class Seen {  // a set of addresses by open addressing: graphs are walked at every plan miss
 public:
  bool insert(Node* n) {  // false: it was there
    if (2 * ++count_ > slots_.size()) grow();
    Node*& at = *find(n);
    if (at) return --count_, false;
    at = n;
    return true;
  }

 private:
  Node** find(Node* n) {
    const size_t mask = slots_.size() - 1;
    size_t i = (reinterpret_cast<uintptr_t>(n) * 0x9e3779b97f4a7c15ull >> 32) & mask;
    while (slots_[i] && slots_[i] != n) i = (i + 1) & mask;
    return &slots_[i];
  }
  void grow() {
    std::vector<Node*> old(slots_.empty() ? 64 : 4 * slots_.size());
    old.swap(slots_);
    for (Node* n : old)
      if (n) *find(n) = n;
  }
  std::vector<Node*> slots_;
  size_t count_ = 0;
};
}  // namespace

std::vector<Node*> reached(const std::vector<Value>& roots, const std::function<bool(const Value&)>& inside) {
  std::vector<Node*> order, stack;
  Seen seen;
  auto visit = [&](const Value& v) {
    if (inside(v) && seen.insert(v.node.get())) stack.push_back(v.node.get());
  };
  for (const Value& r : roots) visit(r);
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    order.push_back(n);
    for (const Value& v : n->inputs) visit(v);
  }
  std::sort(order.begin(), order.end(), [](Node* a, Node* b) { return a->id < b->id; });
  return order;
}
std::vector<Node*> topological(const std::vector<Value>& roots) {
  return reached(roots, [](const Value& v) { return v && !v.node->materialised(v.index); });
}

}  // namespace yuloh
