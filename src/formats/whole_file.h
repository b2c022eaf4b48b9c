// SPDX-License-Identifier: Apache-2.0
// Files that are there whole or not at all: written beside, synced, renamed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace yuloh::formats {

struct WholeFile {
  std::string path;
  std::vector<std::string_view> parts;  // one after another
};
// Throws Error (kOs) naming the file; what was at the paths before is then still there. Files that belong
// together are all written before the first is renamed; the last in the list is the one that names the
// others.
void write_whole(const std::vector<WholeFile>& files);
// Removes what killed writers of this path left beside it. A writer holds a lock (flock) on its temporary
// file as long as it lives, so that two that write one path, even in two containers, leave each other's
// alone.
void sweep_parts(const std::string& path);
inline void write_whole(const std::string& path, const std::vector<std::string_view>& parts) {
  write_whole({WholeFile{path, parts}});
}
inline void write_whole(const std::string& path, std::string_view text) {
  write_whole(path, std::vector<std::string_view>{text});
}

}  // namespace yuloh::formats
