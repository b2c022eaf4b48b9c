// SPDX-License-Identifier: Apache-2.0
// The executor team: one per process, on OpenMP (the libgomp that oneDNN uses too, so the two share their
// threads). Kernels split their work into chunks whose boundaries depend on shapes only; which thread runs a
// chunk never changes a bit. After fork the child works on one thread and never enters a team (its threads do
// not exist there). We set no OMP_* variables and never bind the main thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace yuloh {

int num_threads();  // 1 in a forked child. Also tells OpenMP, so that oneDNN called from this thread agrees
void set_num_threads(int n);  // n < 1: back to the default
std::string thread_reason();  // "2 threads: affinity mask has 2 CPUs, no cgroup quota"
int default_threads();        // min(affinity, cgroup quota)
bool in_forked_child();
// Called first in every thread or process that we start: back to the mask that the process began with.
void reset_affinity();

using ChunkFn = void (*)(void* context, int64_t chunk);
// Runs fn(context, 0..n-1). Contiguous ranges of chunks go to threads in order; nested calls run serially.
// The first exception of any chunk is rethrown in the caller after all threads came back; chunks not begun by
// then are left out. The caller's poll_between_chunks is called now and then and may throw, too.
//
// serial_seconds > 0: an estimate for the whole work on one thread. When other processes hold the CPUs, a
// region waits for its descheduled threads (libgomp's spin); work shorter than the recent waits then stays on
// the calling thread.
void parallel_chunks(int64_t n, ChunkFn fn, void* context, double serial_seconds = 0);

template <class F>
void parallel_for(int64_t n, F&& f, double serial_seconds = 0) {
  if (n == 1) return (void)f(int64_t{0});
  using Fn = std::remove_reference_t<F>;
  parallel_chunks(
      n, [](void* c, int64_t i) { (*static_cast<Fn*>(c))(i); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))), serial_seconds);
}

}  // namespace yuloh
