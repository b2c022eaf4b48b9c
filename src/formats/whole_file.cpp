// SPDX-License-Identifier: Apache-2.0
#include "formats/whole_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

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
  if (stat(f.path.c_str(), &st) == 0 &&
      !S_ISREG(st.st_mode)) {  // a rename would put a file in a device's or pipe's place
    if (S_ISDIR(st.st_mode)) errno = EISDIR, failed(f.path);
    fail(ErrorKind::kOs, "write: ", f.path, " is a device or pipe; expected the path of a file.");
  }
  sweep_parts(f.path);
  do {  // until the file that is locked is the one of that name: a sweep may come between creating and
        // locking
    if (t->fd >= 0) close(t->fd);
    t->path = cat(f.path, ".", getpid(), ".", count++, ".part");
    t->fd = open(t->path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (t->fd < 0) failed(f.path);
  } while (flock(t->fd, LOCK_EX) == 0 && (fstat(t->fd, &st) != 0 || st.st_nlink == 0));
  for (std::string_view p : f.parts)
    while (!p.empty()) {
      const ssize_t n = write(t->fd, p.data(), p.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) failed(f.path);
      p.remove_prefix(static_cast<size_t>(n));
    }
  if (fsync(t->fd) != 0) failed(f.path);
}
// Of the names that are given here and in python/yuloh/framework/io.py: NAME.PID.N.part and
// .NAME.XXXXXXXX.part
bool is_part_of(std::string_view name, std::string_view target) {
  const bool hidden = !name.empty() && name[0] == '.' && name.substr(1, target.size()) == target;
  if (!hidden && name.substr(0, target.size()) != target) return false;
  std::string_view rest = name.substr(target.size() + hidden);
  if (rest.size() < 7 || rest.front() != '.' || rest.substr(rest.size() - 5) != ".part") return false;
  rest = rest.substr(1, rest.size() - 6);
  if (hidden) return rest.size() == 8 && rest.find('.') == rest.npos;
  const size_t dot = rest.find('.');
  return dot != 0 && dot + 1 < rest.size() && rest.find_first_not_of("0123456789.") == rest.npos &&
         rest.find('.', dot + 1) == rest.npos;
}
}  // namespace

void sweep_parts(const std::string& path) {
  const std::filesystem::path target(path), folder = target.has_parent_path() ? target.parent_path() : ".";
  std::error_code e;
  for (std::filesystem::directory_iterator it(folder, e), end; !e && it != end; it.increment(e)) {
    if (!is_part_of(it->path().filename().string(), target.filename().string())) continue;
    const int fd = open(it->path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
      unlink(it->path().c_str());  // its writer is gone: a living one holds the lock
    close(fd);
  }
}

void write_whole(const std::vector<WholeFile>& files) {
  std::vector<Temporary> beside(files.size());
  for (size_t i = 0; i < files.size(); ++i) write_beside(files[i], &beside[i]);
  for (size_t i = 0; i < files.size(); ++i) {
    if (rename(beside[i].path.c_str(), files[i].path.c_str()) != 0) failed(files[i].path);
    beside[i].path.clear();
  }
}

}  // namespace yuloh::formats
