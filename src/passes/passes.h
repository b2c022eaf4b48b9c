// SPDX-License-Identifier: Apache-2.0
// Passes: graph -> simpler graph, before layouts and fusion. All passes are local rewrites of one node given
// its already rewritten inputs, so one walk in recording order applies the whole pipeline (pipeline.cpp lists
// it) and keeps that order. Data path: record/grad -> run_passes -> plan/ (layouts, tile/fuse, kernels).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/node.h"

namespace yuloh {

struct PassOptions {
  bool rules = true;       // simplification, rewrite rules, CSE; off: only composites are expanded
  bool fast_math = false;  // rules marked unsound for NaN, inf or signed zeros may fire
  std::function<bool(const Node&)>
      keep_named;  // a composite that a kernel candidate takes whole; null: expand all
  std::vector<std::string>* explain = nullptr;  // "rule: op" for every rewrite
};

// The inputs stay the same kInput nodes; everything else is made anew, in the order of the old graph.
Graph run_passes(const Graph& g, const PassOptions& o);

// ---- one pass: what to put in place of a node, or nothing ----
struct PassContext {
  const PassOptions& options;
  const char* fired = nullptr;  // name of the rule that answered, for `explain`
};
using NodePass = bool (*)(const Ref<Node>& n, PassContext* c, Values* replacement);
struct Pass {
  const char* name;
  NodePass apply;
  bool always;  // runs even with options.rules off
};
const std::vector<Pass>& pipeline();
// The same op, attributes, types and source line over other inputs of the same types (or shapes that
// broadcast alike).
Ref<Node> with_inputs(const Node& n, SmallVec<Value, 3> inputs);

bool expand_node(const Ref<Node>& n, PassContext* c, Values* replacement);  // expand.cpp
bool simplify_node(const Ref<Node>& n, PassContext* c,
                   Values* replacement);  // simplify.cpp: identities, by kind of row
bool apply_rules(const Ref<Node>& n, PassContext* c,
                 Values* replacement);  // rules.cpp: rewrite rules as data

}  // namespace yuloh
