// SPDX-License-Identifier: Apache-2.0
// A composite op is replaced by its body unless a kernel candidate takes it whole (DESIGN 2.2).
#include "ops/op.h"
#include "passes/passes.h"

namespace yuloh {

bool expand_node(const Ref<Node>& n, PassContext* c, Values* replacement) {
  if (!n->op->expand) return false;
  if (c->options.keep_named && c->options.keep_named(*n)) return false;
  *replacement = n->op->expand(Call(*n));
  return true;
}

}  // namespace yuloh
