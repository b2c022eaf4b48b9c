// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"

namespace yuloh {

// In this order at every node; a replacement's new nodes go through the pipeline in turn. Equal nodes are
// merged last (rewriter.cpp), and dead code never enters the new graph.
const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {
      {"simplify", simplify_node, false},
      {"rules", apply_rules, false},
      {"absorb_cast", absorb_cast, false},
      {"expand", expand_node, true},
  };
  return passes;
}

// What folds must see the products as they were recorded, so precision is chosen in a walk of its own.
const std::vector<std::vector<Pass>>& inference_pipelines() {
  static const std::vector<std::vector<Pass>> walks = {
      {{"skip_training", skip_training, true}, {"fold_batch_norm", fold_batch_norm, true}},
      {{"lower_precision", lower_precision, true}},
  };
  return walks;
}

}  // namespace yuloh
