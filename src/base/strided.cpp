// SPDX-License-Identifier: Apache-2.0
#include "base/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace yuloh {
namespace {
struct Axis {
  int64_t extent, from, to;  // strides in bytes
};

template <size_t kSize>
void copy_plane(char* dst, const char* src, const Axis& a,
                const Axis& b) {  // b: the axis that is contiguous in dst
  constexpr int64_t kTile = 32;
  for (int64_t i0 = 0; i0 < a.extent; i0 += kTile)
    for (int64_t j0 = 0; j0 < b.extent; j0 += kTile) {
      const int64_t i1 = std::min(a.extent, i0 + kTile), j1 = std::min(b.extent, j0 + kTile);
      for (int64_t i = i0; i < i1; ++i) {
        const char* from = src + i * a.from + j0 * b.from;
        char* to = dst + i * a.to + j0 * b.to;
        for (int64_t j = j0; j < j1; ++j, from += b.from, to += kSize) std::memcpy(to, from, kSize);
      }
    }
}
using Plane = void (*)(char*, const char*, const Axis&, const Axis&);
Plane plane_of(size_t size) {
  switch (size) {
    case 1: return copy_plane<1>;
    case 2: return copy_plane<2>;
    case 4: return copy_plane<4>;
    case 8: return copy_plane<8>;
    case 16: return copy_plane<16>;
    default: return nullptr;
  }
}

void walk(char* dst, const char* src, const SmallVec<Axis, 5>& axes, uint32_t d, const Axis& a, const Axis& b,
          size_t size, Plane plane) {
  if (d < axes.size()) {
    for (int64_t i = 0; i < axes[d].extent; ++i)
      walk(dst + i * axes[d].to, src + i * axes[d].from, axes, d + 1, a, b, size, plane);
  } else if (b.from == static_cast<int64_t>(size)) {
    for (int64_t i = 0; i < a.extent; ++i)
      std::memcpy(dst + i * a.to, src + i * a.from, static_cast<size_t>(b.extent) * size);
  } else if (plane) {
    plane(dst, src, a, b);
  } else {
    for (int64_t i = 0; i < a.extent; ++i)
      for (int64_t j = 0; j < b.extent; ++j)
        std::memcpy(dst + i * a.to + j * b.to, src + i * a.from + j * b.from, size);
  }
}
}  // namespace

void copy_row_major(char* dst, const char* src, const Shape& shape, const Ints& strides, size_t size) {
  SmallVec<Axis, 5> axes;  // without extents of 1; neighbours that are one walk in both are one axis
  int64_t to = static_cast<int64_t>(size);
  for (uint32_t d = static_cast<uint32_t>(shape.size()); d-- > 0;) {
    if (shape[d] == 0) return;
    if (shape[d] == 1) continue;
    if (!axes.empty() && strides[d] == axes.back().from * axes.back().extent) {
      axes.back().extent *= shape[d];
    } else {
      axes.push_back({shape[d], strides[d], to});
    }
    to *= shape[d];
  }
  const Axis one{1, 0, 0};
  const Axis inner = axes.empty() ? Axis{1, static_cast<int64_t>(size), static_cast<int64_t>(size)} : axes[0];
  uint32_t beside = 0;  // the other axis of a plane: where src is walked in the smallest steps
  for (uint32_t d = 1; d < axes.size(); ++d)
    if (beside == 0 || std::llabs(axes[d].from) < std::llabs(axes[beside].from)) beside = d;
  SmallVec<Axis, 5> outer;
  for (uint32_t d = static_cast<uint32_t>(axes.size()); d-- > 1;)
    if (d != beside) outer.push_back(axes[d]);
  walk(dst, src, outer, 0, beside ? axes[beside] : one, inner, size, plane_of(size));
}

void copy_row_major(char* dst, const TensorType& t, const Buffer& b) {
  const auto size = static_cast<int64_t>(dtype_size(t.dtype));
  Ints strides = b.strides;
  for (int64_t& s : strides) s *= size;
  copy_row_major(dst, static_cast<const char*>(b.data()), t.shape, strides, static_cast<size_t>(size));
}

Ref<Buffer> row_major_copy(const TensorType& t, const Buffer& b) {
  Ref<Buffer> r = allocate_buffer(t);
  copy_row_major(static_cast<char*>(r->data()), t, b);
  return r;
}

Ref<Buffer> row_major(const TensorType& t, Ref<Buffer> b) {
  return is_row_major(t.shape, b->strides) ? std::move(b) : row_major_copy(t, *b);
}

}  // namespace yuloh
