// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace yuloh {
namespace {
// Tests put files of their own in the place of the system's.
std::string root() {
  const char* r = getenv("YULOH_SYSROOT");
  return r ? r : "";
}
void upwards(const std::string& mount, std::string path, bool v2,
             const std::function<void(const std::string&, bool)>& f) {
  for (;;) {
    f(mount + path, v2);
    if (path.empty()) return;
    const size_t slash = path.find_last_of('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}
bool read_number(const std::string& file, size_t* r) { return static_cast<bool>(std::ifstream(file) >> *r); }
// The line "name value" of a file of such lines.
size_t field(const std::string& file, const std::string& name) {
  std::ifstream f(file);
  size_t value = 0;
  for (std::string word; f >> word >> value;)
    if (word == name) return value;
  return 0;
}
}  // namespace

void each_cgroup(const std::string& controller, const std::function<void(const std::string&, bool)>& f) {
  std::ifstream groups(root() + "/proc/self/cgroup");
  const std::string mount = root() + "/sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (names.empty()) upwards(mount, path, true, f);
    else if (("," + names + ",").find("," + controller + ",") == std::string::npos) continue;
    else {
      upwards(mount + "/" + controller, path, false, f);
      if (names != controller) upwards(mount + "/" + names, path, false, f);
    }
  }
}

MachineMemory machine_memory() {
  const size_t machine =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  MachineMemory r{machine, machine};
  std::ifstream info(root() + "/proc/meminfo");
  for (std::string word; info >> word;) {
    size_t kib = 0;
    if (word == "MemAvailable:" && info >> kib) {
      r.available = std::min(r.available, kib * 1024);
      break;
    }
  }
  each_cgroup("memory", [&](const std::string& folder, bool v2) {
    size_t limit = 0, used = 0;
    if (!read_number(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), &limit) || limit >= machine)
      return;
    r.total = std::min(r.total, limit);
    if (!read_number(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"), &used)) return;
    // Cached pages of files count as used, but go when memory is wanted.
    used -= std::min(used, field(folder + "/memory.stat", v2 ? "inactive_file" : "total_inactive_file"));
    r.available = std::min(r.available, limit - std::min(used, limit));
  });
  return r;
}

double throttled_seconds() {
  double most = 0;
  each_cgroup("cpu", [&](const std::string& folder, bool v2) {
    const size_t ticks = field(folder + "/cpu.stat", v2 ? "throttled_usec" : "throttled_time");
    most = std::max(most, static_cast<double>(ticks) * (v2 ? 1e-6 : 1e-9));
  });
  return most;
}

}  // namespace yuloh
