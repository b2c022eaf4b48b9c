// SPDX-License-Identifier: Apache-2.0
// WeakCache: finds things that somebody still holds, by a string key. It keeps nothing alive: what the last
// plan with these shapes dropped is gone, so a bound on plans bounds what they share. Used by cpu/ for
// kernels and primitives.
#pragma once
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace yuloh {

template <class T>
class WeakCache {
 public:
  // The value for a key; `make` runs under the lock where there is none (two plans never make the same thing
  // twice).
  template <class Make>
  std::shared_ptr<T> get(const std::string& key, Make make) {
    std::lock_guard lock(mu_);
    std::weak_ptr<T>& entry = map_[key];
    if (auto held = entry.lock()) return held;
    std::shared_ptr<T> made;
    try {
      made = make();
    } catch (...) {
      map_.erase(key);
      throw;
    }
    entry = made;
    if (map_.size() >= sweep_at_) sweep();
    return made;
  }
  void clear() {
    std::lock_guard lock(mu_);
    map_.clear();
  }

 private:
  void sweep() {  // forgets the keys of what is gone, when as many may have gone as are left
    std::erase_if(map_, [](const auto& e) { return e.second.expired(); });
    sweep_at_ = std::max<size_t>(256, 2 * map_.size());
  }
  std::mutex mu_;
  std::unordered_map<std::string, std::weak_ptr<T>> map_;
  size_t sweep_at_ = 256;
};

}  // namespace yuloh
