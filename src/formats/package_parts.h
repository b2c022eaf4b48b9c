// SPDX-License-Identifier: Apache-2.0
// Package, inside: how numbers, texts and types are written, and the pool that all tensors of a package lie
// in. package.cpp is the container, package_traced.cpp and package_model.cpp what a program is in it.
#pragma once
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "formats/model.h"
#include "run/traced.h"

namespace yuloh::formats {

uint64_t hash_bytes(const void* data, size_t n);  // package.cpp

class Writer {
 public:
  std::string out;
  void number(int64_t v) { out.append(reinterpret_cast<const char*>(&v), 8); }
  void text(std::string_view s) { number(static_cast<int64_t>(s.size())), out.append(s); }
  template <class C, class F>
  void list(const C& c, F f) {
    number(static_cast<int64_t>(c.size()));
    for (const auto& x : c) f(x);
  }
};

// All throw Error (kValue) that names the file; no count is believed that the bytes left could not hold.
class Reader {
 public:
  Reader(const char* p, size_t n, const std::string& path) : p_(p), end_(p + n), path_(path) {}
  [[noreturn]] void bad(const std::string& what) const {
    value_error("load: ", path_, " is damaged: ", what, ".");
  }
  int64_t number() {
    if (end_ - p_ < 8) bad("the header ends early");
    int64_t v;
    std::memcpy(&v, p_, 8);
    p_ += 8;
    return v;
  }
  int64_t number(int64_t low, int64_t high, const char* what) {
    const int64_t v = number();
    if (v < low || v > high) bad(cat(what, " is ", v, ", expected ", low, " to ", high));
    return v;
  }
  size_t count(size_t least_bytes) {  // of a list whose items take at least so many bytes
    const int64_t n = number();
    if (n < 0 || static_cast<uint64_t>(n) > static_cast<uint64_t>(end_ - p_) / least_bytes)
      bad("a list is longer than the file");
    return static_cast<size_t>(n);
  }
  std::string text() {
    const size_t n = count(1);
    std::string s(p_, n);
    p_ += n;
    return s;
  }
  DType dtype() {
    const std::string s = text();
    DType t;
    if (!dtype_from_name(s, &t)) bad("unknown dtype " + s);
    return t;
  }
  bool done() const { return p_ == end_; }
  const std::string& path() const { return path_; }

 private:
  const char *p_, *end_;
  const std::string& path_;
};

inline void write_type(Writer& w, const TensorType& t) {
  w.text(dtype_name(t.dtype));
  w.list(t.shape, [&](Dim d) { w.number(d); });
}
inline TensorType read_type(Reader& r) {
  TensorType t;
  t.dtype = r.dtype();
  const size_t n = r.count(8);
  if (n > 32) r.bad("a tensor has more than 32 axes");
  // No product of these overflows later, not even beside an extent of 0.
  size_t bytes = std::max<size_t>(1, dtype_size(t.dtype));
  for (size_t i = 0; i < n; ++i) {
    t.shape.push_back(r.number(0, int64_t{1} << 46, "an extent"));
    if (t.shape[i] && (__builtin_mul_overflow(bytes, static_cast<size_t>(t.shape[i]), &bytes) || bytes >> 46))
      r.bad(cat("a tensor is larger than any machine, got ", t));
  }
  return t;
}

// Tensors of a package by number. Equal memory is stored once.
class PoolWriter {
 public:
  int64_t add(const TensorType& t, Ref<Buffer> row_major);
  struct Entry {
    Ref<Buffer> buffer;
    size_t bytes;
    uint64_t hash;
  };
  std::vector<Entry> entries;

 private:
  std::map<std::pair<const void*, size_t>, int64_t> known_;
};
class PoolReader {
 public:
  struct Entry {
    const char* data;
    size_t bytes;
  };
  std::vector<Entry> entries;
  std::shared_ptr<void> mapping;
  // Of this type; in memory that the file is mapped to.
  Ref<Buffer> get(const Reader& r, int64_t number, const TensorType& t) const;
};
inline constexpr size_t kAlign = 64;

void write_traced(Writer& w, PoolWriter* pool, const TracedProgram& p);
std::shared_ptr<TracedProgram> read_traced(Reader& r, const PoolReader& pool);
void write_model(Writer& w, PoolWriter* pool, const Model& m);
std::shared_ptr<Model> read_model_section(Reader& r, const PoolReader& pool);

}  // namespace yuloh::formats
