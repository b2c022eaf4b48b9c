// SPDX-License-Identifier: Apache-2.0
// read_model: which dialect a file is in, by its first bytes.
#include "formats/model.h"

#include "formats/foreign.h"
#include "formats/import.h"
#include "formats/mapped_file.h"
#include "formats/package.h"
#include "formats/paddle.h"
#include "formats/readers.h"

namespace yuloh::formats {
std::shared_ptr<const Model> read_model(const std::string& path, const std::string& params) {
  if (is_package(path)) {
    const Package p = read_package(path);
    if (!p.model)
      value_error("read: ", path,
                  " holds a program that was recorded here, not a file's. Hint: jit.load or create_predictor "
                  "runs it.");
    return p.model;
  }
  const Ref<Storage> file = map_file(path);
  const auto* p = static_cast<const unsigned char*>(file->data);
  refuse_foreign(path, {static_cast<const char*>(file->data), file->bytes});
  return p[0] == '{'    ? read_pir(path, file, params)
         : p[0] == 0x0a ? read_program_desc(path, file, params)
                        : read_onnx(path, file);
}

std::shared_ptr<Program> Package::program() const {
  if (traced) return traced;
  const auto made = std::const_pointer_cast<Program>(make_program(model));  // nobody else has it yet
  made->warm = extras.warm, made->drop_pages = drop_pages;
  return made;
}

}  // namespace yuloh::formats
