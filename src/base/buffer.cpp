// SPDX-License-Identifier: Apache-2.0
#include "base/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "base/cgroup.h"
#include "base/error.h"

namespace yuloh {
namespace {
std::atomic<MemoryHook> g_hook{nullptr};
void tell(const void* block, size_t bytes, bool taken) {
  if (const MemoryHook hook = g_hook.load(std::memory_order_relaxed)) hook(block, bytes, taken);
}

}  // namespace

// Blocks are rounded up so that the same step asks for the same sizes; freed blocks wait in a list per size.
// Between two steps nearly everything lies idle and is wanted again at once, so blocks are kept, but no more
// than what was once in use at the same time (and a little): then another plan's sizes push idle blocks out,
// the largest first. What tensors and plans asked for (`allocated_`) is what users are told; the blocks that
// it lies in (`used_`) may be larger.
class Allocator {
 public:
  explicit Allocator(bool dry) : dry_(dry) {}
  ~Allocator() { trim(0); }  // a dry one: after its last storage
  // `scratch`: a larger block will do, so that work of changing sizes goes on in the pages it has.
  void* get(size_t bytes, size_t* rounded, bool scratch) {
    const size_t asked = *rounded = round_up(bytes);
    std::lock_guard lock(mu_);
    if (scratch && *rounded >= kLargeScratch) {
      auto it = free_.lower_bound(*rounded);
      while (it != free_.end() && it->second.empty()) it = free_.erase(it);
      if (it != free_.end() && (!limit_ || used_ + it->first <= limit_)) *rounded = it->first;
    }
    if (limit_ && used_ + *rounded > limit_)  // blocks, not what was asked for: a ceiling is one of memory
      fail(ErrorKind::kMemory, "allocate: memory limit, got a request of ", bytes, " bytes with ", used_,
           " in use; expected at most ", limit_, ". Hint: use a smaller batch or raise the limit.");
    void* p = nullptr;
    if (auto it = free_.find(*rounded); it != free_.end() && !it->second.empty()) {
      p = it->second.back(), it->second.pop_back(), idle_ -= *rounded;
    } else {
      const size_t use = used_ + *rounded;
      if (use + idle_ > high(use)) trim(use < most_used_ ? most_used_ - use : 0);
      if (*rounded > (size_t{1} << 46) || (!dry_ && !available(use + idle_, *rounded)) ||
          !(p = dry_ ? promised(*rounded) : from_system(*rounded)))
        fail(ErrorKind::kMemory, "allocate: out of memory, got a request of ", bytes, " bytes with ",
             allocated_, " in use. Hint: use a smaller batch.");
    }
    if (*rounded > asked) roomy_[p] = asked;
    allocated_ += asked, used_ += *rounded;
    most_used_ = std::max(most_used_, used_);
    max_allocated_ = std::max(max_allocated_, allocated_);
    max_reserved_ = std::max(max_reserved_, used_ + idle_);
    if (!dry_) tell(p, asked, true);
    return p;
  }
  void put(void* p, size_t rounded) {
    std::lock_guard lock(mu_);
    size_t asked = rounded;
    if (const auto it = roomy_.find(p); it != roomy_.end()) asked = it->second, roomy_.erase(it);
    allocated_ -= asked, used_ -= rounded;
    if (!dry_) tell(p, asked, false);
    free_[rounded].push_back(p);
    idle_ += rounded;
    if (used_ + idle_ > high(used_)) trim(most_used_ - used_);
  }
  void trim_all() {
    std::lock_guard lock(mu_);
    trim(0);
    most_used_ = used_;
  }
  MemoryStats stats() {
    std::lock_guard lock(mu_);
    return {allocated_, used_ + idle_, max_allocated_, max_reserved_};
  }
  void reset_max() {
    std::lock_guard lock(mu_);
    max_allocated_ = allocated_, max_reserved_ = used_ + idle_;
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
  // The system promises more than it has and ends the process when the pages are touched: large blocks ask
  // first.
  static bool available(size_t total, size_t request) {
    if (request < (size_t{64} << 20)) return true;
    const MachineMemory m = machine_memory();
    return total <= m.total - m.total / 32 && request < m.available;
  }
  // Large blocks come from the system itself: given back, they are gone at once, whatever lies beside them on
  // the heap.
  static constexpr size_t kLarge = size_t{4} << 20, kHugePage = size_t{2} << 20;
  static void* from_system(size_t rounded) {
    void* p = nullptr;
    if (rounded < kLarge) return posix_memalign(&p, 64, rounded) == 0 ? p : nullptr;
    const size_t span = rounded + kHugePage;
    p = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    const auto at = reinterpret_cast<uintptr_t>(p), first = (at + kHugePage - 1) / kHugePage * kHugePage;
    if (first > at) munmap(p, first - at);
    if (const size_t rest = at + span - first - rounded)
      munmap(reinterpret_cast<void*>(first + rounded), rest);
    p = reinterpret_cast<void*>(first);
    madvise(p, rounded, MADV_HUGEPAGE);
    return p;
  }
  // Small blocks are real, so that host numbers may be written; the others cost nothing until somebody
  // writes.
  static constexpr size_t kPromise = size_t{64} << 10;
  static void* promised(size_t rounded) {
    void* p = nullptr;
    if (rounded < kPromise) {
      if (posix_memalign(&p, 64, rounded) != 0) return nullptr;
      return memset(p, 0, rounded);
    }
    p = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
  }
  void to_system(void* p, size_t rounded) const {
    if (rounded < (dry_ ? kPromise : kLarge)) std::free(p);
    else munmap(p, rounded);
  }
  size_t high(size_t use) const {
    const size_t most = std::max(most_used_, use);
    return most + most / 64 + (size_t{4} << 20);
  }
  void trim(size_t target) {  // largest blocks first
    for (auto it = free_.rbegin(); it != free_.rend() && idle_ > target; ++it)
      while (!it->second.empty() && idle_ > target) {
        to_system(it->second.back(), it->first);
        it->second.pop_back();
        idle_ -= it->first;
      }
  }
  const bool dry_;
  std::mutex mu_;
  std::map<size_t, std::vector<void*>> free_;
  std::map<const void*, size_t> roomy_;  // blocks in use that are larger than what was asked for, and that
  size_t allocated_ = 0, used_ = 0, idle_ = 0, max_allocated_ = 0, max_reserved_ = 0, limit_ = 0;
  size_t most_used_ = 0;  // blocks; users cannot reset it
};

namespace {
thread_local std::shared_ptr<Allocator> t_dry;
Allocator& process_allocator() {
  static Allocator* a = new Allocator(false);  // never destroyed: buffers may outlive static destruction
  return *a;
}
Allocator& allocator() { return t_dry ? *t_dry : process_allocator(); }
}  // namespace

DryMemory::DryMemory() {
  if (t_dry) fail(ErrorKind::kRuntime, "dry run: one is running in this thread already.");
  t_dry = std::make_shared<Allocator>(true);
}
DryMemory::~DryMemory() { t_dry = nullptr; }
bool in_dry_memory() { return t_dry != nullptr; }

namespace {
thread_local MemoryBudget* g_budget = nullptr;
}  // namespace

Storage::~Storage() {
  if (g_budget) g_budget->give_back(this);
  if (free) free();
  else if (data) (dry ? *dry : process_allocator()).put(data, bytes);
}

namespace {
Ref<Storage> allocate(size_t bytes, bool scratch) {
  auto s = make_ref<Storage>();
  if (g_budget) g_budget->take(s.get(), bytes);
  s->dry = t_dry;
  s->data = allocator().get(bytes, &s->bytes, scratch);
  return s;
}
}  // namespace
MemoryBudget::MemoryBudget(size_t bytes, std::string what)
    : left_(bytes), bytes_(bytes), what_(std::move(what)), outer_(g_budget) {
  g_budget = this;
}
MemoryBudget::~MemoryBudget() { g_budget = outer_; }
void MemoryBudget::take(const Storage* s, size_t bytes) {
  if (bytes > left_)
    fail(ErrorKind::kMemory, what_, ": memory limit, got a request of ", bytes, " bytes with ",
         bytes_ - left_, " of ", bytes_, " in use. Hint: use a smaller batch or raise the limit.");
  taken_[s] = bytes;
  left_ -= bytes;
}
void MemoryBudget::give_back(const Storage* s) {
  const auto it = taken_.find(s);
  if (it == taken_.end()) return;  // older than the budget
  left_ += it->second;
  taken_.erase(it);
}
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
