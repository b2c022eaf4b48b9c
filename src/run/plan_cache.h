// SPDX-License-Identifier: Apache-2.0
// The Plan cache: plans by the structural hash of what a flush would run. Values are not part of the key;
// shapes, dtypes, layouts, what may be donated and what must be kept are. Used by flush.cpp and
// structure.cpp.
#pragma once
#include <list>
#include <memory>
#include <unordered_map>

#include "plan/plan.h"

namespace yuloh {

struct PlanKey {
  uint64_t a = 0x9e3779b97f4a7c15ull, b = 0xc2b2ae3d27d4eb4full;
  void mix(uint64_t x) {
    const unsigned __int128 m = static_cast<unsigned __int128>(a ^ x) * 0xd6e8feb86659fd93ull;
    a = static_cast<uint64_t>(m) ^ static_cast<uint64_t>(m >> 64);
    b = (b ^ x) * 0xff51afd7ed558ccdull;
    b ^= b >> 29;
  }
  bool operator==(const PlanKey& o) const { return a == o.a && b == o.b; }
};
struct PlanKeyHash {
  size_t operator()(const PlanKey& k) const { return k.a; }
};

// Bounded by bytes: steps, kernels, the code that libraries generated for them, constants. The plan used
// longest ago goes first; the newest stays whatever its size. What two plans share counts twice.
class PlanCache {
 public:
  std::shared_ptr<const Plan> find(const PlanKey& k) {
    const auto it = map_.find(k);
    if (it == map_.end()) return nullptr;
    order_.splice(order_.end(), order_, it->second.where);
    return it->second.plan;
  }
  void put(const PlanKey& k, std::shared_ptr<const Plan> p, size_t limit) {
    KeptBytes kept;
    p->keeps(&kept);
    bytes_ += kept.bytes();
    order_.push_back(k);
    map_[k] = {std::move(p), kept.bytes(), std::prev(order_.end())};
    while (bytes_ > limit && order_.size() > 1) {
      const auto it = map_.find(order_.front());
      bytes_ -= it->second.bytes;
      map_.erase(it);
      order_.pop_front();
    }
  }
  void clear() { map_.clear(), order_.clear(), bytes_ = 0; }
  size_t bytes() const { return bytes_; }
  size_t size() const { return order_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const Plan> plan;
    size_t bytes;
    std::list<PlanKey>::iterator where;
  };
  std::unordered_map<PlanKey, Entry, PlanKeyHash> map_;
  std::list<PlanKey> order_;
  size_t bytes_ = 0;
};

}  // namespace yuloh
