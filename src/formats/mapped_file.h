// SPDX-License-Identifier: Apache-2.0
// MappedFile: a whole file as read-only memory. Weights are slices of it, so reading a model copies nothing.
#pragma once
#include <string>

#include "base/buffer.h"

namespace yuloh::formats {

// The mapping lives as long as its storage. Throws Error (kOs) that names the file.
Ref<Storage> map_file(const std::string& path);

// A row-major tensor at `offset` of a storage. Data whose address does not suit its element type is copied:
// kernels read whole elements. The caller has checked that the bytes are there.
Ref<Buffer> slice_of(const Ref<Storage>& file, size_t offset, const TensorType& type);

}  // namespace yuloh::formats
