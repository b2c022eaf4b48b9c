// SPDX-License-Identifier: Apache-2.0
#include "formats/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace yuloh::formats {
namespace {
struct Temporary {
  std::string path;
  int fd = -1;
  ~Temporary() {
    if (fd >= 0) close(fd);
    if (!path.empty()) unlink(path.c_str());
  }
};
[[noreturn]] void failed(const std::string& path) {
  fail(ErrorKind::kOs, "write: cannot write ", path, ": ", std::strerror(errno), ".");
}
}  // namespace

void write_whole(const std::string& path, const std::vector<std::string_view>& parts) {
  static std::atomic<unsigned> count{0};  // two threads that write one path do not share a temporary file
  Temporary t{cat(path, ".", getpid(), ".", count++, ".part")};
  t.fd = open(t.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (t.fd < 0) failed(path);
  for (std::string_view p : parts)
    while (!p.empty()) {
      const ssize_t n = write(t.fd, p.data(), p.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) failed(path);
      p.remove_prefix(static_cast<size_t>(n));
    }
  if (fsync(t.fd) != 0 || rename(t.path.c_str(), path.c_str()) != 0) failed(path);
  t.path.clear();
}

}  // namespace yuloh::formats
