// SPDX-License-Identifier: Apache-2.0
#include "base/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"

namespace yuloh {
namespace {
std::atomic<MemoryHook> g_hook{nullptr};
void tell(const void* block, size_t bytes, bool taken) {
  if (const MemoryHook hook = g_hook.load(std::memory_order_relaxed)) hook(block, bytes, taken);
}

// Blocks are rounded up so that the same step asks for the same sizes; freed blocks wait in a list per size. Between
// two steps nearly everything lies idle and is wanted again at once, so blocks go back to the system only when the total
// is more than a quarter above the highest use.
class Allocator {
 public:
  // `scratch`: a larger block will do, so that work of changing sizes goes on in the pages it has.
  void* get(size_t bytes, size_t* rounded, bool scratch) {
    *rounded = round_up(bytes);
    std::lock_guard lock(mu_);
    if (scratch && *rounded >= kLargeScratch) {
      auto it = free_.lower_bound(*rounded);
      while (it != free_.end() && it->second.empty()) it = free_.erase(it);
      if (it != free_.end()) *rounded = it->first;
    }
    if (limit_ && allocated_ + *rounded > limit_)
      fail(ErrorKind::kMemory, "allocate: memory limit, got a request of ", bytes, " bytes with ", allocated_,
           " in use; expected at most ", limit_, ". Hint: use a smaller batch or raise the limit.");
    void* p = nullptr;
    if (auto it = free_.find(*rounded); it != free_.end() && !it->second.empty()) {
      p = it->second.back(), it->second.pop_back(), idle_ -= *rounded;
    } else {
      const size_t use = allocated_ + *rounded;
      const bool large = *rounded >= (size_t{4} << 20);  // from the start of a page on, else madvise refuses
      if (use + idle_ > high(use)) trim(use < max_allocated_ ? max_allocated_ - use : 0);
      if (*rounded > (size_t{1} << 46) || !available(use + idle_, *rounded) || posix_memalign(&p, large ? 4096 : 64, *rounded) != 0)
        fail(ErrorKind::kMemory, "allocate: out of memory, got a request of ", bytes, " bytes with ", allocated_,
             " in use. Hint: use a smaller batch.");
      if (large) madvise(p, *rounded, MADV_HUGEPAGE);
    }
    allocated_ += *rounded;
    max_allocated_ = std::max(max_allocated_, allocated_);
    max_reserved_ = std::max(max_reserved_, allocated_ + idle_);
    tell(p, *rounded, true);
    return p;
  }
  void put(void* p, size_t rounded) {
    std::lock_guard lock(mu_);
    allocated_ -= rounded;
    tell(p, rounded, false);
    free_[rounded].push_back(p);
    idle_ += rounded;
    if (allocated_ + idle_ > high(allocated_)) trim(max_allocated_ - allocated_);
  }
  void trim_all() {
    std::lock_guard lock(mu_);
    trim(0);
  }
  MemoryStats stats() {
    std::lock_guard lock(mu_);
    return {allocated_, allocated_ + idle_, max_allocated_, max_reserved_};
  }
  void reset_max() {
    std::lock_guard lock(mu_);
    max_allocated_ = allocated_, max_reserved_ = allocated_ + idle_;
  }
  void set_limit(size_t b) {
    std::lock_guard lock(mu_);
    limit_ = b;
  }

 private:
  static constexpr size_t kLargeScratch = size_t{1} << 20;
  static size_t round_up(size_t n) {
    const size_t step = n < 4096 ? 64 : n < (1u << 20) ? 4096 : (1u << 16);
    return std::max<size_t>((n + step - 1) / step * step, 64);
  }
  // The system promises more than it has and ends the process when the pages are touched: large blocks ask first.
  static bool available(size_t total, size_t request) {
    if (request < (size_t{64} << 20)) return true;
    const size_t machine = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    if (total > machine - machine / 32) return false;
    std::ifstream f("/proc/meminfo");
    for (std::string word; f >> word;) {
      size_t kib = 0;
      if (word == "MemAvailable:" && f >> kib) return request < kib * 1024;
    }
    return true;
  }
  size_t high(size_t use) const {
    const size_t most = std::max(max_allocated_, use);
    return most + most / 4 + (size_t{64} << 20);
  }
  void trim(size_t target) {  // largest blocks first
    for (auto it = free_.rbegin(); it != free_.rend() && idle_ > target; ++it)
      while (!it->second.empty() && idle_ > target) {
        std::free(it->second.back());
        it->second.pop_back();
        idle_ -= it->first;
      }
  }
  std::mutex mu_;
  std::map<size_t, std::vector<void*>> free_;
  size_t allocated_ = 0, idle_ = 0, max_allocated_ = 0, max_reserved_ = 0, limit_ = 0;
};
Allocator& allocator() {
  static Allocator* a = new Allocator;  // never destroyed: buffers may outlive static destruction
  return *a;
}
}  // namespace

Storage::~Storage() {
  if (free) free();
  else if (data) allocator().put(data, bytes);
}

namespace {
Ref<Storage> allocate(size_t bytes, bool scratch) {
  auto s = make_ref<Storage>();
  s->data = allocator().get(bytes, &s->bytes, scratch);
  return s;
}
}  // namespace
Ref<Storage> allocate_storage(size_t bytes) { return allocate(bytes, false); }
Ref<Storage> allocate_scratch(size_t bytes) { return allocate(bytes, true); }
Ref<Buffer> allocate_buffer(const TensorType& t, const Ints& strides) {
  const int64_t n = numel(t.shape);
  int64_t bytes;
  if (__builtin_mul_overflow(n, static_cast<int64_t>(dtype_size(t.dtype)), &bytes))
    value_error("allocate: size overflows, got ", t, ".");
  auto b = make_ref<Buffer>();
  b->storage = allocate_storage(static_cast<size_t>(bytes));
  b->strides = strides;
  return b;
}
Ref<Buffer> allocate_buffer(const TensorType& t) { return allocate_buffer(t, row_major_strides(t.shape)); }

MemoryStats memory_stats() { return allocator().stats(); }
void set_memory_hook(MemoryHook hook) { g_hook = hook; }
void reset_max_memory() { allocator().reset_max(); }
void release_cached_memory() { allocator().trim_all(); }
void set_memory_limit(size_t bytes) { allocator().set_limit(bytes); }

}  // namespace yuloh
