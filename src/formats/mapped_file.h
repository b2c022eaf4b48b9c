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
// Whether n bytes are booleans, 0 or 1: kernels count on it, so every reader asks and refuses what is
// neither.
bool only_bools(const void* data, size_t n);

}  // namespace yuloh::formats
