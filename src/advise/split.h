// SPDX-License-Identifier: Apache-2.0
// Which products of a planned model tensor parallel can split: pairs whose first matrices are split by
// columns and whose last by rows (arXiv:1909.08053, section 3). Read off the recorded graph: from a first
// product to the last, every op on the way must work on the columns, or on the heads made of them, one by
// one; then what lies between needs no exchange.
#pragma once
#include "advise/facts.h"
#include "run/dry_run.h"

namespace yuloh::advise {

// Of the flushes from `from`; `facts` has the layers.
SplitFacts split_of(const DryRun& run, size_t from, const Facts& facts);

}  // namespace yuloh::advise
