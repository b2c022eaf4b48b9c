// SPDX-License-Identifier: Apache-2.0
// Files that are there whole or not at all: written beside, synced, renamed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace yuloh::formats {

// The parts one after another. Throws Error (kOs) naming the file; what was at `path` before is then still there.
void write_whole(const std::string& path, const std::vector<std::string_view>& parts);
inline void write_whole(const std::string& path, std::string_view text) { write_whole(path, std::vector<std::string_view>{text}); }

}  // namespace yuloh::formats
