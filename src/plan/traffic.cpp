// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic.h"

#include <map>
#include <tuple>

namespace yuloh {

std::vector<double> far_shares(const std::vector<const std::vector<Slot>*>& slots, double cache) {
  std::map<std::tuple<Slot::Kind, int32_t, int64_t>, double> touched;  // when, in bytes moved since the start
  std::vector<double> shares(slots.size(), 0);
  double now = 0;
  for (int turn = 0; turn < 2; ++turn)  // the first fills the caches
    for (size_t i = 0; i < slots.size(); ++i) {
      double moved = 0, far = 0;
      for (const Slot& s : *slots[i]) {
        if (s.kind == Slot::Kind::kScalar) continue;
        const auto it = touched.find({s.kind, s.index, s.offset});
        moved += static_cast<double>(s.bytes);
        if (it == touched.end() || now - it->second > cache) far += static_cast<double>(s.bytes);
      }
      now += moved;
      for (const Slot& s : *slots[i]) touched[{s.kind, s.index, s.offset}] = now;
      shares[i] = moved > 0 ? far / moved : 0;
    }
  return shares;
}

std::vector<double> far_shares(const Plan& plan, double cache) {
  std::vector<const std::vector<Slot>*> slots;
  for (const Step& s : plan.steps) slots.push_back(&s.slots);
  return far_shares(slots, cache);
}

}  // namespace yuloh
