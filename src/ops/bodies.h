// SPDX-License-Identifier: Apache-2.0
// Which composite rows are recorded under their name: all, unless a writer of model files whose operators are fewer says
// otherwise while it traces. Those that it refuses are recorded as their bodies.
#pragma once
namespace yuloh {

struct OpDef;

class KeepNamed {  // scope guard, per thread
 public:
  using Keep = bool (*)(const OpDef&);
  explicit KeepNamed(Keep keep) : saved_(now()) { now() = keep; }  // null: all
  ~KeepNamed() { now() = saved_; }
  KeepNamed(const KeepNamed&) = delete;
  KeepNamed& operator=(const KeepNamed&) = delete;
  static bool refuses(const OpDef& op) { return now() && !now()(op); }

 private:
  static Keep& now() {
    thread_local Keep keep = nullptr;
    return keep;
  }
  const Keep saved_;
};

}  // namespace yuloh
