// SPDX-License-Identifier: Apache-2.0
// One copy for all strided data: NumPy arrays that come in, results that leave in another layout than
// row-major, files.
#pragma once
#include "base/buffer.h"

namespace yuloh {

// Writes the elements (`size` bytes each) of `src` in row-major order. `strides` are in bytes and may be 0 or
// negative; the two must not overlap. Transpositions go by tiles, so that both sides are read and written in
// whole cache lines.
void copy_row_major(char* dst, const char* src, const Shape& shape, const Ints& strides, size_t size);
void copy_row_major(char* dst, const TensorType& t, const Buffer& b);

Ref<Buffer> row_major_copy(const TensorType& t, const Buffer& b);  // in storage of its own
Ref<Buffer> row_major(const TensorType& t, Ref<Buffer> b);         // itself where it lies by rows

}  // namespace yuloh
