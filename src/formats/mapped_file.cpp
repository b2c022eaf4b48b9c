// SPDX-License-Identifier: Apache-2.0
#include "formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace yuloh::formats {
namespace {
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};
}  // namespace

Ref<Storage> map_file(const std::string& path) {
  const Descriptor d{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (d.fd < 0) fail(ErrorKind::kOs, "read: cannot open ", path, ": ", std::strerror(errno), ".");
  struct stat st {};
  if (fstat(d.fd, &st) != 0 || !S_ISREG(st.st_mode))
    fail(ErrorKind::kOs, "read: ", path,
         S_ISDIR(st.st_mode) ? " is a directory; expected a file. Hint: name the file in it."
                             : " is not a regular file (a device, pipe or socket).");
  auto s = make_ref<Storage>();
  if (st.st_size == 0) {
    static char nothing[8];
    s->data = nothing, s->free = [] {};
    return s;
  }
  const size_t bytes = static_cast<size_t>(st.st_size);
  void* p = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, d.fd, 0);
  if (p == MAP_FAILED) fail(ErrorKind::kOs, "read: cannot map ", path, ": ", std::strerror(errno), ".");
  s->data = p, s->bytes = bytes;
  s->free = [p, bytes] { munmap(p, bytes); };
  return s;
}

Ref<Buffer> slice_of(const Ref<Storage>& file, size_t offset, const TensorType& type) {
  const size_t size = dtype_size(type.dtype), bytes = static_cast<size_t>(numel(type.shape)) * size;
  const char* at = static_cast<const char*>(file->data) + offset;
  if (reinterpret_cast<uintptr_t>(at) % size != 0 || bytes == 0) {
    Ref<Buffer> b = allocate_buffer(type);
    if (bytes) std::memcpy(b->data(), at, bytes);
    return b;
  }
  auto b = make_ref<Buffer>();
  b->storage = file, b->offset = static_cast<int64_t>(offset), b->strides = row_major_strides(type.shape);
  return b;
}

bool only_bools(const void* data, size_t n) {
  const auto* p = static_cast<const unsigned char*>(data);
  return std::all_of(p, p + n, [](unsigned char c) { return c <= 1; });
}

}  // namespace yuloh::formats
