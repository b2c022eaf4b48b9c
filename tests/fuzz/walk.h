// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: walks what a reader accepted, every tensor to its last byte; bytes as a file
// with a path.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "formats/model.h"

namespace fuzz {
using namespace yuloh;
inline volatile unsigned g_sum = 0;

inline void touch(const TensorType& t, const Buffer& b) {
  size_t bytes;
  if (__builtin_mul_overflow(static_cast<size_t>(numel(t.shape)), dtype_size(t.dtype), &bytes)) std::abort();
  if (t.dtype == DType::kBool)
    for (size_t i = 0; i < bytes; ++i)
      if (static_cast<const unsigned char*>(b.data())[i] > 1) std::abort();  // kernels count on it
  const auto* p = static_cast<const unsigned char*>(b.data());
  for (size_t i = 0; i < bytes; i += 61) g_sum = g_sum + p[i];
  if (bytes) g_sum = g_sum + p[bytes - 1];
}
inline void touch(const formats::FileTensor& t) {
  if (t.buffer) touch(t.type, *t.buffer);
}
inline void walk(const formats::ModelGraph& g) {
  for (const auto& [name, t] : g.weights) touch(t);
  for (const auto& n : g.nodes) {
    size_t listed = 0;
    for (size_t k : n.list_sizes) listed += k;
    if (listed > n.inputs.size()) std::abort();  // importers count on it
    for (const auto& [name, a] : n.attrs) {
      if (const auto* t = std::get_if<formats::FileTensor>(&a)) touch(*t);
      if (const auto* b = std::get_if<std::shared_ptr<formats::ModelGraph>>(&a)) walk(**b);
    }
  }
}
inline void walk(const formats::Model& m) {
  walk(m.graph);
  for (const auto& [name, f] : m.functions) walk(f);
}

inline Ref<Storage> storage(const uint8_t* data, size_t size) {
  auto s = make_ref<Storage>();
  s->data = const_cast<uint8_t*>(data), s->bytes = size, s->free = [] {};
  return s;
}

// One anonymous file for all inputs of a process.
inline std::string file(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("fuzz", 0);
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != static_cast<ssize_t>(size))
    std::abort();
  return "/proc/self/fd/" + std::to_string(fd);
}
}  // namespace fuzz
