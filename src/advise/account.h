// SPDX-License-Identifier: Apache-2.0
// Reads Facts off a dry run: what its Plans hold at the allocator's peak, what a steady step computes and
// moves, and how both spread over the layers. What only the caller knows (names of layers, which tensors are
// parameters) is a Subject.
#pragma once
#include "advise/facts.h"
#include "advise/rates.h"
#include "run/dry_run.h"

namespace yuloh::advise {

constexpr int32_t kScopeOptimizer = 1,
                  kScopeFirstLayer = 2;  // SourcePos::scope while recording; 0: outside of all layers

struct Subject {
  Facts facts;  // filled in so far: subject, precision, parameters, layers with their names, bytes of tensors
  size_t steady_from = 0;  // flushes before it are the first steps
};
Facts account(const DryRun& run, const MemoryStats& end, const Rates& rates, Subject subject);

}  // namespace yuloh::advise
