// SPDX-License-Identifier: Apache-2.0
// Passes: graph -> simpler graph, before layouts and fusion. All passes are local rewrites of one node given
// its already rewritten inputs, so one walk in recording order applies the whole pipeline (pipeline.cpp lists
// it) and keeps that order. Data path: record/grad -> run_passes -> plan/ (layouts, tile/fuse, kernels).
#pragma once
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ops/op.h"

namespace yuloh {

struct PassOptions {
  bool rules = true;       // simplification, rewrite rules, CSE; off: only composites are expanded
  bool fast_math = false;  // rules marked unsound for NaN, inf or signed zeros may fire
  std::function<bool(const Node&)>
      keep_named;  // a composite that a kernel candidate takes whole; null: expand all
  std::vector<std::string>* explain = nullptr;  // "rule: op" for every rewrite
  // Of the inference pipeline (weights are what no placeholder reaches):
  bool fold_weights = true;                 // batch norm into the convolution or product before it
  DType precision = DType::kFloat32;        // kBFloat16: contractions compute in it
  std::vector<std::string> keep_precision;  // row names that stay as they are
  size_t min_segment = 1;                   // contractions of a segment of fewer ops stay as they are
};

// The inputs stay the same kInput nodes; everything else is made anew, in the order of the old graph.
Graph run_passes(const Graph& g, const PassOptions& o);
// The same walk with the passes of a Session, over a graph that still holds its weights.
Graph run_inference_passes(const Graph& g, const PassOptions& o);

// ---- one pass: what to put in place of a node, or nothing ----
struct PassContext {
  const PassOptions& options;
  const char* fired = nullptr;             // name of the rule that answered, for `explain`
  std::unordered_set<const Node*> shared;  // new nodes that more than one old node (or the result) reads
  std::unordered_set<const Node*> kept;    // nodes whose precision stays (small_segments)
};
using NodePass = bool (*)(const Ref<Node>& n, PassContext* c, Values* replacement);
struct Pass {
  const char* name;
  NodePass apply;
  bool always;  // runs even with options.rules off
};
const std::vector<Pass>& pipeline();
const std::vector<std::vector<Pass>>& inference_pipelines();  // one walk each
// The same op, attributes, types and source line over other inputs of the same types (or shapes that
// broadcast alike).
Ref<Node> with_inputs(const Node& n, SmallVec<Value, 3> inputs);

AttrValue attr_value(const Call& c, const ArgSpec& a);  // a static argument as it was given (pattern.cpp)

bool expand_node(const Ref<Node>& n, PassContext* c, Values* replacement);             // expand.cpp
bool skip_training(const Ref<Node>& n, PassContext* c, Values* replacement);           // inference.cpp
bool fold_batch_norm(const Ref<Node>& n, PassContext* c, Values* replacement);         // inference.cpp
bool lower_precision(const Ref<Node>& n, PassContext* c, Values* replacement);         // inference.cpp
std::unordered_set<const Node*> small_segments(const Graph& g, const PassOptions& o);  // inference.cpp
bool absorb_cast(const Ref<Node>& n, PassContext* c, Values* replacement);             // expand.cpp
bool simplify_node(const Ref<Node>& n, PassContext* c,
                   Values* replacement);  // simplify.cpp: identities, by kind of row
bool apply_rules(const Ref<Node>& n, PassContext* c,
                 Values* replacement);  // rules.cpp: rewrite rules as data

}  // namespace yuloh
