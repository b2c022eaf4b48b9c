// SPDX-License-Identifier: Apache-2.0
// read_model: which dialect a file is in, by its first bytes.
#include "formats/model.h"

#include "formats/import.h"
#include "formats/mapped_file.h"
#include "formats/package.h"
#include "formats/paddle.h"
#include "formats/readers.h"

namespace yuloh::formats {
namespace {
// A ProgramDesc begins with its first block, a message (field 1) that begins with the block's number (field 1, a number: 0).
bool looks_like_program(const Ref<Storage>& file) {
  const auto* p = static_cast<const unsigned char*>(file->data);
  size_t at = 1;
  while (at < file->bytes && at < 11 && (p[at] & 0x80)) ++at;
  return at + 2 < file->bytes && p[at + 1] == 0x08 && p[at + 2] == 0x00;
}
}  // namespace

std::shared_ptr<const Model> read_model(const std::string& path, const std::string& params) {
  if (is_package(path)) {
    const Package p = read_package(path);
    if (!p.model) value_error("read: ", path, " holds a program that was recorded here, not a file's. Hint: jit.load or create_predictor runs it.");
    return p.model;
  }
  const Ref<Storage> file = map_file(path);
  const auto* p = static_cast<const unsigned char*>(file->data);
  // ONNX begins with ir_version (field 1, a number) in what every writer makes; an empty model is named as one, too.
  if (file->bytes == 0) value_error("read: ", path, " is empty; expected a model.");
  std::shared_ptr<const Model> m = p[0] == '{' ? read_pir(path, file, params)
                                   : p[0] == 0x0a && looks_like_program(file) ? read_program_desc(path, file, params)
                                                                               : read_onnx(path, file);
  return m;
}

std::shared_ptr<Program> Package::program() const {
  if (traced) return traced;
  const auto made = std::const_pointer_cast<Program>(make_program(model));  // nobody else has it yet
  made->warm = extras.warm, made->drop_pages = drop_pages;
  return made;
}

}  // namespace yuloh::formats
