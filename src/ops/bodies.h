// SPDX-License-Identifier: Apache-2.0
// Which composite rows are recorded under their name: all, unless a writer of model files whose operators are
// fewer says otherwise while it traces. Those that it refuses are recorded as their bodies.
#pragma once
#include <functional>
#include <utility>

namespace yuloh {

struct OpDef;

class KeepNamed {  // scope guard, per thread
 public:
  using Keep = std::function<bool(const OpDef&)>;
  explicit KeepNamed(Keep keep) : keep_(std::move(keep)), outer_(now()) {
    now() = keep_ ? &keep_ : nullptr;
  }  // null: all
  ~KeepNamed() { now() = outer_; }
  KeepNamed(const KeepNamed&) = delete;
  KeepNamed& operator=(const KeepNamed&) = delete;
  static bool refuses(const OpDef& op) { return now() && !(*now())(op); }

 private:
  static const Keep*& now() {
    thread_local const Keep* keep = nullptr;
    return keep;
  }
  const Keep keep_;
  const Keep* const outer_;
};

}  // namespace yuloh
