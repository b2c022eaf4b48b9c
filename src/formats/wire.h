// SPDX-License-Identifier: Apache-2.0
// Wire: a protobuf message in memory, walked field by field (ONNX, Paddle ProgramDesc). It copies nothing,
// allocates nothing and trusts nothing: every length is compared with what is left, and an error tells the
// byte it stands at. WireOut: one being written; large data is borrowed, not copied.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace yuloh::formats {

class Wire {
 public:
  // `file` names the source in errors and must outlive the object; `begin` is where its byte 0 lies.
  Wire(const char* file, const char* begin, const char* from, const char* to, int depth = 0)
      : file_(file), begin_(begin), at_(from), end_(to), depth_(depth) {
    if (depth > kMaxDepth) bad("messages are nested more than ", kMaxDepth, " deep");
  }
  static constexpr int kMaxDepth = 100;

  bool next() {  // to the next field; false: the end
    if (at_ == end_) return false;
    const uint64_t key = varint();
    field = static_cast<uint32_t>(key >> 3);
    type = static_cast<int>(key & 7);
    if (key >> 32 || field == 0) bad("a field number is ", key >> 3);
    number_ = 0, data_ = {};
    if (type == 0) number_ = varint();
    else if (type == 1) number_ = fixed<uint64_t>();
    else if (type == 5) number_ = fixed<uint32_t>();
    else if (type == 2) {
      const uint64_t n = varint();
      if (n > static_cast<uint64_t>(end_ - at_))
        bad("field ", field, " declares ", n, " bytes where ", end_ - at_, " are left");
      data_ = {at_, static_cast<size_t>(n)}, at_ += n;
    } else {
      bad("field ", field, " has wire type ", type);
    }
    return true;
  }

  uint32_t field = 0;
  int type = 0;
  int64_t integer() const { return need(0), static_cast<int64_t>(number_); }
  float real() const {
    need(5);
    const uint32_t bits = static_cast<uint32_t>(number_);
    float f;
    return std::memcpy(&f, &bits, 4), f;
  }
  std::string_view bytes() const { return need(2), data_; }
  std::string text() const { return std::string(bytes()); }
  Wire message() const {
    return need(2), Wire(file_, begin_, data_.data(), data_.data() + data_.size(), depth_ + 1);
  }

  // Repeated numbers, packed or one by one: calls f(int64_t) or f(float) or f(double).
  template <class F>
  void integers(F f) const {
    if (type == 0) return f(static_cast<int64_t>(number_));
    Wire w = message();
    while (w.at_ != w.end_) f(static_cast<int64_t>(w.varint()));
  }
  template <class T, class F>
  void fixeds(F f) const {  // T: float or double
    if (type == (sizeof(T) == 4 ? 5 : 1)) {
      T v;
      return std::memcpy(&v, &number_, sizeof v), f(v);
    }
    Wire w = message();
    while (w.at_ != w.end_) {
      const auto bits = w.fixed<std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>();
      T v;
      std::memcpy(&v, &bits, sizeof v);
      f(v);
    }
  }

  template <class... A>
  [[noreturn]] void bad(const A&... a) const {
    value_error("read: ", file_, " is damaged at byte ", at_ - begin_, ": ", a..., ".");
  }
  size_t position() const { return static_cast<size_t>(at_ - begin_); }

 private:
  void need(int t) const {
    if (type != t) bad("field ", field, " has wire type ", type, "; expected ", t);
  }
  uint64_t varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) bad("a number is cut off");
      const auto byte = static_cast<uint8_t>(*at_++);
      v |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return v;
    }
    bad("a number has more than 10 bytes");
  }
  template <class T>
  T fixed() {
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) bad("a number is cut off");
    T v;
    std::memcpy(&v, at_, sizeof v);
    at_ += sizeof v;
    return v;
  }

  const char *file_, *begin_, *at_, *end_;
  int depth_;
  uint64_t number_ = 0;
  std::string_view data_;
};

class WireOut {
 public:
  void integer(uint32_t field, int64_t v) { key(field, 0), varint(static_cast<uint64_t>(v)); }
  void real(uint32_t field, float v) { key(field, 5), raw(&v, 4); }
  void real64(uint32_t field, double v) { key(field, 1), raw(&v, 8); }
  void text(uint32_t field, std::string_view s) { key(field, 2), varint(s.size()), raw(s.data(), s.size()); }
  void borrow(uint32_t field, std::string_view s) {  // the bytes must outlive the message
    key(field, 2), varint(s.size());
    parts_.push_back({own_.size(), s}), size_ += s.size();
  }
  void message(uint32_t field, const WireOut& m) {
    key(field, 2), varint(m.size_);
    const size_t base = own_.size();
    own_ += m.own_, size_ += m.size_;
    for (const Part& p : m.parts_) parts_.push_back({base + p.at, p.bytes});
  }
  size_t size() const { return size_; }
  // The whole message, piece by piece; valid as long as this object and what it borrowed.
  std::vector<std::string_view> pieces() const {
    std::vector<std::string_view> r;
    size_t from = 0;
    for (const Part& p : parts_) {
      r.push_back(std::string_view(own_).substr(from, p.at - from)), r.push_back(p.bytes);
      from = p.at;
    }
    r.push_back(std::string_view(own_).substr(from));
    return r;
  }

 private:
  struct Part {
    size_t at;  // in own_
    std::string_view bytes;
  };
  void key(uint32_t field, int type) { varint(uint64_t{field} << 3 | static_cast<uint64_t>(type)); }
  void varint(uint64_t v) {
    for (; v >= 128; v >>= 7) put(static_cast<char>(v | 128));
    put(static_cast<char>(v));
  }
  void put(char c) { own_.push_back(c), ++size_; }
  void raw(const void* p, size_t n) { own_.append(static_cast<const char*>(p), n), size_ += n; }
  std::string own_;
  std::vector<Part> parts_;
  size_t size_ = 0;
};

}  // namespace yuloh::formats
