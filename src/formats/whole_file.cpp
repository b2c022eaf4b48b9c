// SPDX-License-Identifier: Apache-2.0
#include "formats/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
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
void write_beside(const WholeFile& f, Temporary* t) {
  static std::atomic<unsigned> count{0};  // two threads that write one path do not share a temporary file
  struct stat st;
  if (stat(f.path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) errno = EISDIR, failed(f.path);
  t->path = cat(f.path, ".", getpid(), ".", count++, ".part");
  t->fd = open(t->path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (t->fd < 0) failed(f.path);
  for (std::string_view p : f.parts)
    while (!p.empty()) {
      const ssize_t n = write(t->fd, p.data(), p.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) failed(f.path);
      p.remove_prefix(static_cast<size_t>(n));
    }
  if (fsync(t->fd) != 0) failed(f.path);
}
}  // namespace

void write_whole(const std::vector<WholeFile>& files) {
  std::vector<Temporary> beside(files.size());
  for (size_t i = 0; i < files.size(); ++i) write_beside(files[i], &beside[i]);
  for (size_t i = 0; i < files.size(); ++i) {
    if (rename(beside[i].path.c_str(), files[i].path.c_str()) != 0) failed(files[i].path);
    beside[i].path.clear();
  }
}

}  // namespace yuloh::formats
