// SPDX-License-Identifier: Apache-2.0
// What a file is that no reader here knows: told by its first bytes, so that "damaged" is said only of files
// of a known kind.
#pragma once
#include <string>
#include <string_view>

namespace yuloh::formats {

struct FileKind {
  std::string what, hint;  // "a web page (HTML)"; empty: none of the kinds listed in foreign.cpp
  bool weights = false;    // tensors without a graph: what `load` reads where a model is refused
};
// `head`: the first bytes (4096 are enough), `bytes`: how many the file has.
FileKind foreign_kind(std::string_view head, size_t bytes);
// Throws Error (kValue) naming the kind, the first bytes and what is read, if this is no model of a known
// format; files that begin as one do, but are damaged further on, pass.
void refuse_foreign(const std::string& path, std::string_view file);
// The same for a file of weights, where its beginning fits none: names the kind if it is one of those listed,
// else returns.
void refuse_foreign_weights(const std::string& path, std::string_view file);
// `4d 5a 90 00 "MZ.."` for messages.
std::string first_bytes(std::string_view head);

}  // namespace yuloh::formats
