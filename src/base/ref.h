// SPDX-License-Identifier: Apache-2.0
// Ref<T>: intrusive reference counting. Counts are atomic because tensors may cross user threads; types that
// own long chains (graph nodes) overload `destroy_last` to unwind iteratively.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace yuloh {

class RefCounted {
 public:
  void ref() const { count_.fetch_add(1, std::memory_order_relaxed); }
  bool unref() const { return count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }  // true: last one gone
  bool try_ref() const {  // for registries that may meet an object whose last reference is going
    uint32_t n = count_.load(std::memory_order_relaxed);
    while (n != 0)
      if (count_.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) return true;
    return false;
  }
  uint32_t use_count() const { return count_.load(std::memory_order_relaxed); }

 protected:
  RefCounted() = default;
  RefCounted(const RefCounted&) : count_(0) {}
  RefCounted& operator=(const RefCounted&) { return *this; }
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> count_{0};
};

template <class T>
void destroy_last(T* p) {
  delete p;
}  // found by overload for types that unwind by hand

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(T* p) : p_(p) {
    if (p_) p_->ref();
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->ref();
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(const Ref& o) {
    Ref(o).swap(*this);
    return *this;
  }
  Ref& operator=(Ref&& o) noexcept {
    Ref(std::move(o)).swap(*this);
    return *this;
  }
  ~Ref() {
    if (p_ && p_->unref()) destroy_last(p_);
  }
  void swap(Ref& o) noexcept { std::swap(p_, o.p_); }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool operator==(const Ref& o) const { return p_ == o.p_; }
  T* release() { return std::exchange(p_, nullptr); }  // caller takes over the count

 private:
  T* p_ = nullptr;
};

template <class T, class... A>
Ref<T> make_ref(A&&... a) {
  return Ref<T>(new T(std::forward<A>(a)...));
}

}  // namespace yuloh
