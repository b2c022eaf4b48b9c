// SPDX-License-Identifier: Apache-2.0
// SmallVec<T, N>: a vector whose first N elements live inside the object. Shapes, inputs and attributes of
// one op call almost always fit, so recording an op allocates nothing but its node.
#pragma once
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <new>
#include <type_traits>
#include <utility>

namespace yuloh {

template <class T, uint32_t N>
class SmallVec {
 public:
  using value_type = T;
  SmallVec() = default;
  SmallVec(std::initializer_list<T> l) { assign(l.begin(), l.end()); }
  explicit SmallVec(uint32_t n, const T& v = T()) { resize(n, v); }
  template <class It, class = typename std::iterator_traits<It>::iterator_category>
  SmallVec(It first, It last) {
    assign(first, last);
  }
  SmallVec(const SmallVec& o) { assign(o.begin(), o.end()); }
  SmallVec(SmallVec&& o) noexcept { take(o); }
  SmallVec& operator=(const SmallVec& o) {
    if (this != &o) assign(o.begin(), o.end());
    return *this;
  }
  SmallVec& operator=(SmallVec&& o) noexcept {
    if (this != &o) destroy(), take(o);
    return *this;
  }
  ~SmallVec() { destroy(); }

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }

  void push_back(T v) {
    if (size_ == cap_) grow(cap_ * 2);
    new (data_ + size_++) T(std::move(v));
  }
  void pop_back() { data_[--size_].~T(); }
  void clear() {
    for (uint32_t i = 0; i < size_; ++i) data_[i].~T();
    size_ = 0;
  }
  void resize(uint32_t n, const T& v = T()) {
    while (size_ > n) pop_back();
    if (n > cap_) grow(n);
    while (size_ < n) new (data_ + size_++) T(v);
  }
  template <class It>
  void assign(It first, It last) {
    clear();
    for (; first != last; ++first) push_back(static_cast<T>(*first));
  }
  void insert(uint32_t pos, T v) {
    push_back(std::move(v));
    for (uint32_t i = size_ - 1; i > pos; --i) std::swap(data_[i], data_[i - 1]);
  }
  void erase(uint32_t pos) {
    for (uint32_t i = pos; i + 1 < size_; ++i) data_[i] = std::move(data_[i + 1]);
    pop_back();
  }
  bool operator==(const SmallVec& o) const {
    if (size_ != o.size_) return false;
    for (uint32_t i = 0; i < size_; ++i)
      if (!(data_[i] == o.data_[i])) return false;
    return true;
  }

 private:
  T* inline_data() { return reinterpret_cast<T*>(buf_); }
  void grow(uint32_t want) {
    const uint32_t cap = want < 4 ? 4 : want;
    T* p = static_cast<T*>(::operator new(sizeof(T) * cap, std::align_val_t(alignof(T))));
    for (uint32_t i = 0; i < size_; ++i) new (p + i) T(std::move(data_[i])), data_[i].~T();
    release();
    data_ = p;
    cap_ = cap;
  }
  void release() {
    if (data_ != inline_data()) ::operator delete(data_, std::align_val_t(alignof(T)));
  }
  void destroy() {
    clear();
    release();
    data_ = inline_data();
    cap_ = N;
  }
  void take(SmallVec& o) {  // *this is empty and inline
    if (o.data_ != o.inline_data()) {
      data_ = o.data_, size_ = o.size_, cap_ = o.cap_;
      o.data_ = o.inline_data(), o.size_ = 0, o.cap_ = N;
      return;
    }
    for (uint32_t i = 0; i < o.size_; ++i) new (data_ + i) T(std::move(o.data_[i]));
    size_ = o.size_;
    o.clear();
  }
  T* data_ = inline_data();
  uint32_t size_ = 0;
  uint32_t cap_ = N;
  alignas(T) unsigned char buf_[sizeof(T) * (N ? N : 1)];
};

}  // namespace yuloh
