// SPDX-License-Identifier: Apache-2.0
#include "advise/eager.h"

#include <algorithm>

#include "advise/account.h"

namespace yuloh::advise {
double eager_peak(const DryFlush& flush, bool training) {
  const std::vector<DryNode>& nodes = flush.nodes;
  const auto n = static_cast<int32_t>(nodes.size());
  const auto update = [&](int32_t i) { return flush.scopes[static_cast<size_t>(i)] == kScopeOptimizer; };
  std::vector<int32_t> root(nodes.size()), last(nodes.size(), -1);
  for (int32_t i = 0; i < n; ++i) {
    const DryNode& d = nodes[static_cast<size_t>(i)];
    root[static_cast<size_t>(i)] =
        d.view && !d.inputs.empty() ? (d.inputs[0] < 0 ? -1 : root[static_cast<size_t>(d.inputs[0])]) : i;
    for (int32_t in : d.inputs) {
      if (in < 0 || root[static_cast<size_t>(in)] < 0) continue;
      int32_t& end = last[static_cast<size_t>(root[static_cast<size_t>(in)])];
      end = std::max(end, update(i) ? n : i);  // a gradient lives until all updates are done
    }
    if (d.leaves && root[static_cast<size_t>(i)] >= 0)
      last[static_cast<size_t>(root[static_cast<size_t>(i)])] = n;
  }
  std::vector<double> freed(nodes.size() + 1, 0);
  double held = 0, most = 0;
  for (int32_t i = 0; i < n; ++i) {
    const DryNode& d = nodes[static_cast<size_t>(i)];
    const bool made = !d.view && root[static_cast<size_t>(i)] == i && !(training && update(i));
    if (made) {
      const double bytes = static_cast<double>(d.bytes) + d.eager_keeps;
      held += bytes;
      freed[static_cast<size_t>(std::clamp(last[static_cast<size_t>(i)], i, n))] += bytes;
    }
    most = std::max(most, held + d.eager_copies);
    held -= freed[static_cast<size_t>(i)];
  }
  return most;
}

}  // namespace yuloh::advise
