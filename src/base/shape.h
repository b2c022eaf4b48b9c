// SPDX-License-Identifier: Apache-2.0
// Shape algebra: sizes, row-major and permuted strides, broadcasting, axis normalisation. All products are
// overflow-checked in int64, so an absurd size is an error before anything is allocated.
#pragma once
#include <ostream>
#include <string>

#include "base/dtype.h"
#include "base/small_vec.h"

namespace yuloh {

using Dim = int64_t;
using Shape = SmallVec<Dim, 5>;
using Ints = SmallVec<int64_t, 5>;

int64_t numel(const Shape& s);                                // throws kValue on overflow or negative dims
Ints row_major_strides(const Shape& s);                       // in elements
Ints strides_in_order(const Shape& s, const Ints& order);     // order: axes from slowest to fastest
Ints channels_last_strides(const Shape& s);                   // N, spatial..., C; rank >= 3
bool is_dense_in_order(const Shape& s, const Ints& strides);  // some permutation of axes is contiguous
bool is_row_major(const Shape& s, const Ints& strides);       // ignores extents of 1
bool is_channels_last(const Shape& s, const Ints& strides);
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);  // throws kValue
int64_t normalize_axis(std::string_view op, int64_t axis, int64_t rank,
                       std::string_view name = "axis");                    // throws kIndex
Ints normalize_axes(std::string_view op, const Ints& axes, int64_t rank);  // unique, sorted; empty = all
std::string to_string(const Shape& s);                                     // "[2, 3]"
std::ostream& operator<<(std::ostream& o, const Shape& s);

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool operator==(const TensorType& o) const { return dtype == o.dtype && shape == o.shape; }
};
using Types = SmallVec<TensorType, 1>;
std::ostream& operator<<(std::ostream& o, const TensorType& t);
inline std::ostream& operator<<(std::ostream& o, DType t) { return o << dtype_name(t); }

}  // namespace yuloh
