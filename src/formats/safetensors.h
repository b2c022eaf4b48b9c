// SPDX-License-Identifier: Apache-2.0
// safetensors: eight bytes of header length, a JSON header {name: {dtype, shape, data_offsets}}, and the data
// without a gap. Files are mapped; every name, type, shape and range is checked before a byte of data is
// used.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/model.h"

namespace yuloh::formats {

struct SafeTensors {
  std::vector<std::pair<std::string, FileTensor>> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// Tensors are slices of `file` (mapped_file.h). Unsigned integers that the IR lacks are held wider with the
// same values (U16 in int32, U32 and U64 in int64; a U64 from 2^63 on is an error). Throws Error (kValue)
// with the name that is wrong; `path` is only for messages.
SafeTensors read_safetensors(const std::string& path, const Ref<Storage>& file);

// A whole file or none. Data are aligned to 8 bytes, each tensor to its element size: larger elements come
// first.
void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, FileTensor>>& tensors,
                       const std::map<std::string, std::string>& metadata);

// One tensor in foreign bytes. `number` counts elements from the beginning of the bytes; a tensor that is not
// row-major, misaligned, big-endian (`swap`) or of an unsigned type is copied. All of it is checked against
// the size of `bytes`; `element`: safetensors' name of the type ("F32", "U16" ...).
FileTensor tensor_in(const std::string& where, const Ref<Storage>& bytes, size_t offset,
                     const std::string& element, const Shape& shape, const Ints& strides, bool swap);

}  // namespace yuloh::formats
