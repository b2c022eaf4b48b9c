// SPDX-License-Identifier: Apache-2.0
#include "run/executor.h"

#include <mutex>

#include "cpu/parallel.h"

namespace yuloh {
namespace {
// One lock for looking at graphs and running plans: there is one executor team per process.
std::mutex g_exec_mu;
thread_local bool g_running = false;  // this thread holds it
}  // namespace

Running::Running() {
  // A signal handler or a finaliser that Python ran in the middle of a step reads a tensor.
  if (g_running)
    fail(ErrorKind::kRuntime,
         "read: a step is running in this thread; a tensor cannot be computed inside a signal handler "
         "or finaliser that interrupts it. Hint: note the event and read after the step.");
  g_exec_mu.lock();
  g_running = true;
}
Running::~Running() {
  g_running = false;
  g_exec_mu.unlock();
}

// Around fork(): nobody else runs a step then, so the child finds locks and graphs whole.
void before_fork() {
  if (g_running) return;
  const Unlocked unlocked;
  g_exec_mu.lock();
}
void after_fork() {
  if (!g_running) g_exec_mu.unlock();
}

bool prepare_executor() {
  num_threads();  // the calling thread's team size, so that library kernels agree with ours
  static bool seen = false;
  if (seen || !in_forked_child()) return false;
  return seen = true;
}

}  // namespace yuloh
