// SPDX-License-Identifier: Apache-2.0
// retrace: any Program as a TracedProgram for a writer of files: recorded on placeholders at two sizes of
// every open dim and compared (traced.h), with the rows that the writer does not know recorded as their
// bodies.
#pragma once
#include <array>
#include <map>

#include "ops/bodies.h"
#include "run/traced.h"

namespace yuloh {

// Sizes to try for an open dim, first axes apart: two that are compared, one that must agree, and two that
// must if the program takes them: one that shares no factor with the others tells exact division from
// rounding, a large one shows limits. 0, 1 and 2 mean something to code (empty, broadcast, pairs), so none is
// used. python/yuloh/jit/export.py tries the same.
inline constexpr struct {
  std::array<int64_t, 5> batch{3, 4, 6, 7, 1031};
  std::array<std::array<int64_t, 5>, 4> other{
      {{96, 128, 160, 101, 1033}, {32, 48, 64, 41, 1033}, {8, 12, 16, 11, 1033}, {3, 4, 6, 7, 1033}}};
  size_t most_open = 6;  // dims
} trial_sizes;

struct RetraceOptions {
  KeepNamed::Keep keep;                                // composite rows to keep by name; null: all
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs by name; -1: stays open
};
std::shared_ptr<TracedProgram> retrace(const Program& p, const RetraceOptions& o);

}  // namespace yuloh
