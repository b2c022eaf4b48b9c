// SPDX-License-Identifier: Apache-2.0
// read_model: which dialect a file is in, by its first bytes.
#include "formats/model.h"

#include "formats/mapped_file.h"
#include "formats/readers.h"

namespace yuloh::formats {

std::shared_ptr<const Model> read_model(const std::string& path, const std::string&) {
  const Ref<Storage> file = map_file(path);
  const auto* p = static_cast<const unsigned char*>(file->data);
  // ONNX begins with ir_version (field 1, a number) in what every writer makes; an empty model is named as one, too.
  if (file->bytes == 0) value_error("read: ", path, " is empty; expected a model.");
  if (p[0] == '{') value_error("read: ", path, " begins like JSON; expected an ONNX model.");
  return read_onnx(path, file);
}

}  // namespace yuloh::formats
