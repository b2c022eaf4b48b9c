// SPDX-License-Identifier: Apache-2.0
// retrace: any Program as a TracedProgram for a writer of files: recorded on placeholders at two sizes of every open dim
// and compared (traced.h), with the rows that the writer does not know recorded as their bodies.
#pragma once
#include <map>

#include "ops/bodies.h"
#include "run/traced.h"

namespace yuloh {

struct RetraceOptions {
  KeepNamed::Keep keep;                                // composite rows to keep by name; null: all
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs by name; -1: stays open
};
std::shared_ptr<TracedProgram> retrace(const Program& p, const RetraceOptions& o);

}  // namespace yuloh
