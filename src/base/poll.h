// SPDX-License-Identifier: Apache-2.0
// What a thread calls now and then while a kernel of its runs, so that Ctrl-C acts within a long one.
// run_plan sets it for kernels that may be broken off (nothing that was donated is written yet), the executor
// team (cpu/parallel.cpp) calls it between chunks.
#pragma once
#include <functional>

namespace yuloh {

inline thread_local const std::function<void()>* poll_between_chunks = nullptr;  // may throw

class PollBetweenChunks {
 public:
  explicit PollBetweenChunks(const std::function<void()>* f) : before_(poll_between_chunks) {
    poll_between_chunks = f;
  }
  ~PollBetweenChunks() { poll_between_chunks = before_; }
  PollBetweenChunks(const PollBetweenChunks&) = delete;
  PollBetweenChunks& operator=(const PollBetweenChunks&) = delete;

 private:
  const std::function<void()>* before_;
};

}  // namespace yuloh
