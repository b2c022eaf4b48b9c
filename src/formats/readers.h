// SPDX-License-Identifier: Apache-2.0
// The readers that read_model (model.cpp) chooses from by the first bytes of a file.
#pragma once
#include "formats/model.h"

namespace yuloh::formats {

// `path` names the file in errors and the folder that external data must lie in; the bytes are in `file`.
std::shared_ptr<const Model> read_onnx(const std::string& path, const Ref<Storage>& file);

}  // namespace yuloh::formats
