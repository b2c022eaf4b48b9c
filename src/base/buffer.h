// SPDX-License-Identifier: Apache-2.0
// Buffer: one materialised value = a slice of a Storage plus a layout. Storage is memory with a free function
// and byte accounting; several buffers (views) may share one. A layout is strides in elements (any
// permutation of the axes, broadcast strides of 0 included); `packed` is the room for opaque library layouts
// (DESIGN 2.7).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/ref.h"
#include "base/shape.h"

namespace yuloh {

class Allocator;  // buffer.cpp

struct Storage : RefCounted {
  void* data = nullptr;
  size_t bytes = 0;
  std::function<void()> free;  // foreign memory: called once at the end (NumPy, mmap); empty: own allocator
  std::shared_ptr<Allocator>
      dry;  // of a dry run: the allocator that counts it; its contents were never computed
  ~Storage();
};

struct Buffer : RefCounted {
  Ref<Storage> storage;
  int64_t offset = 0;  // in bytes from storage->data
  Ints strides;        // in elements, one per axis
  std::shared_ptr<const void> packed;
  void* data() const { return static_cast<char*>(storage->data) + offset; }
};

// The host allocator: 64-byte aligned, size-bucketed free lists, accounting. Thread-safe. Throws kMemory.
Ref<Storage> allocate_storage(size_t bytes);
// Memory that is given back soon: of at least so many bytes, out of a larger idle block where there is one.
Ref<Storage> allocate_scratch(size_t bytes);
Ref<Buffer> allocate_buffer(const TensorType& t, const Ints& strides);  // dense in some axis order
Ref<Buffer> allocate_buffer(const TensorType& t);                       // row-major

struct MemoryStats {
  size_t allocated, reserved, max_allocated, max_reserved;
};  // bytes
MemoryStats memory_stats();
// Told of every block that the allocator hands out or takes back; null: nobody. Must not allocate storage
// itself.
using MemoryHook = void (*)(const void* block, size_t bytes, bool taken);
void set_memory_hook(MemoryHook hook);
void reset_max_memory();
void release_cached_memory();  // returns the free lists to the system
// While it lives, what this thread has taken since and not given back may add up to `bytes`: more throws
// kMemory before the system is asked.
class MemoryBudget {
 public:
  MemoryBudget(size_t bytes, std::string what);
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;
  void take(const Storage* s, size_t bytes);
  void give_back(const Storage* s);  // at its end

 private:
  size_t left_, bytes_;
  std::unordered_map<const Storage*, size_t> taken_;
  std::string what_;
  MemoryBudget* outer_;
};
// Dry memory: while one lives, what this thread allocates is counted by the same rules in an allocator of its
// own, which starts empty and has no limit. Pages are promised and not touched (read, they are zeros), so a
// run of any size can be rehearsed. memory_stats and its like speak of it meanwhile. Not nested; storages may
// outlive it.
class DryMemory {
 public:
  DryMemory();
  ~DryMemory();
  DryMemory(const DryMemory&) = delete;
  DryMemory& operator=(const DryMemory&) = delete;
};
bool in_dry_memory();  // this thread allocates dry
void set_memory_limit(
    size_t bytes);  // 0: none. An allocation above it throws kMemory before the kernel's OOM killer does.

}  // namespace yuloh
