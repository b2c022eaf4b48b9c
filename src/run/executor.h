// SPDX-License-Identifier: Apache-2.0
// Who may run: there is one executor team per process. A thread that looks at graphs, compiles or runs Plans
// gives the interpreter's lock up (Unlocked) and then holds the executor (Running). Flush and Session do;
// nobody else.
#pragma once

#include <functional>

#include "run/tensor.h"

namespace yuloh {

const InterpreterLock& interpreter_lock();
const std::function<void()>& poll_function();  // what run_plan calls between kernels: Ctrl-C (set_poll)

class Unlocked {  // without the interpreter's lock
 public:
  Unlocked() : lock_(interpreter_lock()), token_(lock_.release ? lock_.release() : nullptr) {}
  ~Unlocked() {
    if (token_ && !relocked_) lock_.acquire(token_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  // Holds the interpreter's lock for a moment: every other thread is then between two operations, not within
  // one.
  void meet() {
    if (!token_) return;
    lock_.acquire(token_);
    token_ = lock_.release();
  }
  void relock() {  // before the end: what is seen from here on stays as it is until the caller has looked
    if (token_) lock_.acquire(token_), relocked_ = true;
  }
  void unlock() {
    if (relocked_) token_ = lock_.release(), relocked_ = false;
  }

 private:
  const InterpreterLock lock_;
  void* token_;
  bool relocked_ = false;
};

class Running {  // the executor's lock, taken without the interpreter's: whoever holds it may wait for that
                 // one
 public:
  Running();
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

// Called while Running. True once, in a forked child: plans and kernels made before the fork must go.
bool prepare_executor();

}  // namespace yuloh
