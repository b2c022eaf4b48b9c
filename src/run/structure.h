// SPDX-License-Identifier: Apache-2.0
// Structure: what a flush would run, without its values. What is there already (buffers, numbers) are leaves;
// every input of a node is a leaf's number or another node's output. From that follow the key that finds a
// Plan and, on a miss, the closed graph that a Plan is compiled from. Data path: flush.cpp collects nodes ->
// Structure -> Plan -> run.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/node.h"
#include "run/plan_cache.h"

namespace yuloh {

uint32_t fresh_mark();  // for Node::mark: no node has it yet

class Structure {
 public:
  // `order`: pending nodes, each with its place here as `slot`; `outputs`: those of their results that are
  // wanted. `committed`: older values that cells go back to after a failure. `donate`: leaves that nobody
  // else holds may be overwritten.
  Structure(const std::vector<Node*>& order, const std::vector<Value>& outputs, std::vector<Value> committed,
            bool donate);
  PlanKey key() const;
  std::shared_ptr<const Plan> compile() const;
  void feed(PlanRun* r) const;  // the leaves' values

 private:
  struct Leaf {
    Value v;
    uint32_t edges = 0;
    bool donatable = false;
  };
  struct NodeIndex {
    const Node* n;
    uint32_t i;
    bool operator==(const NodeIndex& o) const { return n == o.n && i == o.i; }
  };
  struct NodeIndexHash {
    size_t operator()(const NodeIndex& k) const { return reinterpret_cast<size_t>(k.n) * 31 + k.i; }
  };
  uint32_t leaf_number(const Value& v);
  void count_committed(const Value& v);
  bool may_donate(const Leaf& l) const;

  const std::vector<Node*>& order_;
  const std::vector<Value>& outputs_;
  const uint32_t mark_ =
      fresh_mark();  // of leaves that are the only output of their node: its slot is the leaf's number
  std::vector<Leaf> leaves_;
  std::unordered_map<NodeIndex, uint32_t, NodeIndexHash> multi_;  // the others'
  std::vector<uint64_t> codes_;                                   // of all inputs in order
};

}  // namespace yuloh
