// SPDX-License-Identifier: Apache-2.0
#include "cpu/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/cgroup.h"
#include "base/poll.h"

namespace yuloh {
namespace {

struct Limits {
  int affinity = 1;
  double quota = 0;  // CPUs; 0: none
  std::string source;
};

double cgroup_quota(std::string* source) {
  double best = 0;
  each_cgroup("cpu", [&](const std::string& folder, bool v2) {
    std::string quota;
    double period = 0;
    if (v2) {
      std::ifstream(folder + "/cpu.max") >> quota >> period;
    } else {
      std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
      std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    const double q = period > 0 ? std::atof(quota.c_str()) / period : 0;  // "max" and -1: no quota here
    if (q > 0 && (best == 0 || q < best)) best = q, *source = v2 ? "cgroup v2" : "cgroup v1";
  });
  return best;
}

cpu_set_t start_mask;  // read when the library is loaded
bool have_mask = false;
std::atomic<int> threads{0};  // 0: not decided yet
std::atomic<bool> forked{false};
thread_local bool inside = false;  // this thread is running chunks: nested calls stay serial
thread_local int told_openmp =
    0;  // what this thread last told OpenMP: its team size is a property of the thread

const Limits& limits() {
  static const Limits l = [] {
    Limits r;
    if (have_mask) r.affinity = std::max(1, CPU_COUNT(&start_mask));
    r.quota = cgroup_quota(&r.source);
    return r;
  }();
  return l;
}

void after_fork_in_child() {
  forked = true;
  inside = false;
  omp_set_num_threads(1);  // also for libraries that ask OpenMP how many threads to use
}

// Seconds that recent regions waited for late threads beyond their own work: a moving mean, forgotten slowly
// while regions are avoided. Which thread computes never changes a result, so this only decides speed.
std::atomic<double> lateness{0};
double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
bool avoid_team(double serial_seconds) {
  const double late = lateness.load(std::memory_order_relaxed);
  if (serial_seconds <= 0 || serial_seconds > late) return false;
  lateness.store(late * 0.95, std::memory_order_relaxed);
  return true;
}

struct AtLoad {
  AtLoad() {
    have_mask = sched_getaffinity(0, sizeof start_mask, &start_mask) == 0;
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
  }
} at_load;

}  // namespace

int default_threads() {
  const Limits& l = limits();
  const int by_quota = l.quota > 0 ? std::max(1, static_cast<int>(std::ceil(l.quota - 1e-6))) : l.affinity;
  return std::min(l.affinity, by_quota);
}

int num_threads() {
  if (forked.load(std::memory_order_relaxed)) return 1;
  int n = threads.load(std::memory_order_relaxed);
  if (n <= 0) threads = n = default_threads();
  if (told_openmp != n && !inside) omp_set_num_threads(told_openmp = n);
  return n;
}

void set_num_threads(int n) {
  if (n < 1) n = default_threads();
  threads = n;
  num_threads();
}

std::string thread_reason() {
  const Limits& l = limits();
  std::ostringstream s;
  s << num_threads() << (num_threads() == 1 ? " thread: " : " threads: ");
  if (forked) return s.str() + "forked child, the parent's team does not exist here";
  if (num_threads() != default_threads()) s << "set by the user; default " << default_threads() << ", ";
  s << "affinity mask has " << l.affinity << (l.affinity == 1 ? " CPU, " : " CPUs, ");
  if (l.quota > 0) s << l.source << " quota is " << l.quota << " CPUs";
  else s << "no cgroup quota";
  return s.str();
}

bool in_forked_child() { return forked; }

void reset_affinity() {
  if (have_mask) sched_setaffinity(0, sizeof start_mask, &start_mask);
}

void parallel_chunks(int64_t n, ChunkFn fn, void* context, double serial_seconds) {
  constexpr int64_t kPollEvery = 64;
  const std::function<void()>* const poll =
      poll_between_chunks;  // of this thread; the team's others have none
  const int team = static_cast<int>(std::min<int64_t>(n, num_threads()));
  if (team <= 1 || inside || omp_in_parallel() || avoid_team(serial_seconds)) {
    for (int64_t i = 0; i < n; ++i) {
      fn(context, i);
      if (poll && i % kPollEvery == kPollEvery - 1) (*poll)();
    }
    return;
  }
  std::exception_ptr error;
  std::mutex error_mutex;
  std::atomic<bool> stop{false};
  const double start = seconds();
  double own = start;
#pragma omp parallel num_threads(team)
  {
    const int64_t t = omp_get_thread_num(), of = omp_get_num_threads();
    inside = true;
    try {
      const int64_t begin = n * t / of, end = n * (t + 1) / of;
      for (int64_t i = begin; i < end && !stop.load(std::memory_order_relaxed); ++i) {
        fn(context, i);
        if (t == 0 && poll && i % kPollEvery == kPollEvery - 1) (*poll)();
      }
    } catch (...) {
      stop = true;
      const std::lock_guard<std::mutex> lock(error_mutex);
      if (!error) error = std::current_exception();
    }
    inside = false;
    if (t == 0) own = seconds();
  }
  const double excess = std::max(0.0, (seconds() - own) - (own - start));
  lateness.store(0.75 * lateness.load(std::memory_order_relaxed) + 0.25 * excess, std::memory_order_relaxed);
  if (error) std::rethrow_exception(error);
}

}  // namespace yuloh
