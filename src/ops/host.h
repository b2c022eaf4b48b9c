// SPDX-License-Identifier: Apache-2.0
// Loop helpers of host rows (the reference lowering): walking strided operands, dispatch over element types,
// index checks. Only src/ops/*.cpp include it.
#pragma once
#include <algorithm>
#include <cstring>

#include "ops/op.h"

namespace yuloh {

// Ranges of [0, n) of at least `grain` elements, on the device's team where one was lent. Boundaries depend
// on n and grain only, and ranges write disjoint results, so the thread count never changes a bit.
using ChunkRunner = void (*)(int64_t n, void (*fn)(void*, int64_t), void* context);
void set_chunk_runner(ChunkRunner r);
void run_chunks(int64_t n, void (*fn)(void*, int64_t), void* context);
template <class F>
void parallel_ranges(int64_t n, int64_t grain, F&& f) {
  const int64_t chunks = std::min<int64_t>(64, (n + grain - 1) / std::max<int64_t>(grain, 1));
  if (chunks <= 1) return n > 0 ? f(int64_t{0}, n) : void();
  struct Work {
    F& f;
    int64_t n, chunks;
  } work{f, n, chunks};
  run_chunks(
      chunks,
      [](void* c, int64_t i) {
        const Work& w = *static_cast<Work*>(c);
        w.f(w.n * i / w.chunks, w.n * (i + 1) / w.chunks);
      },
      &work);
}

// Element access by dtype: T is the storage, C the type to compute in.
template <class Storage, class Compute, DType D>
struct Elem {
  using T = Storage;
  using C = Compute;
  static constexpr DType dtype = D;
  static C get(T v) {
    if constexpr (D == DType::kBFloat16) return bf16_to_float(v);
    else if constexpr (D == DType::kFloat16) return half_to_float(v);
    else return static_cast<C>(v);
  }
  static T put(C v) {
    if constexpr (D == DType::kBFloat16) return float_to_bf16(v);
    else if constexpr (D == DType::kFloat16) return float_to_half(v);
    else return static_cast<T>(v);
  }
};
template <class F>
void with_float(std::string_view op, DType t, F&& f) {
  switch (t) {
    case DType::kFloat32: return f(Elem<float, float, DType::kFloat32>{});
    case DType::kFloat64: return f(Elem<double, double, DType::kFloat64>{});
    case DType::kBFloat16: return f(Elem<uint16_t, float, DType::kBFloat16>{});
    case DType::kFloat16: return f(Elem<uint16_t, float, DType::kFloat16>{});
    default: type_error(op, ": dtype is not supported, got ", t, "; expected a floating point dtype.");
  }
}
template <class F>
void with_any(std::string_view op, DType t, F&& f) {
  switch (t) {
    case DType::kBool: return f(Elem<uint8_t, int64_t, DType::kBool>{});
    case DType::kUInt8: return f(Elem<uint8_t, int64_t, DType::kUInt8>{});
    case DType::kInt8: return f(Elem<int8_t, int64_t, DType::kInt8>{});
    case DType::kInt16: return f(Elem<int16_t, int64_t, DType::kInt16>{});
    case DType::kInt32: return f(Elem<int32_t, int64_t, DType::kInt32>{});
    case DType::kInt64: return f(Elem<int64_t, int64_t, DType::kInt64>{});
    default: return with_float(op, t, f);
  }
}

// Element offset of row-major position `i` of `shape` under `strides`.
inline int64_t offset_at(const Shape& shape, const Ints& strides, int64_t i) {
  int64_t off = 0;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    off += (i % shape[d]) * strides[d];
    i /= shape[d];
  }
  return off;
}

// Walks `shape` in row-major order with one element offset per operand.
template <int N>
class Walk {
 public:
  Walk(const Shape& shape, const Ints (&strides)[N]) : shape_(shape), at_(shape.size(), 0) {
    for (int k = 0; k < N; ++k) strides_[k] = strides[k];
  }
  int64_t offset[N] = {};
  void next() {
    for (int d = static_cast<int>(shape_.size()) - 1; d >= 0; --d) {
      if (++at_[d] < shape_[d]) {
        for (int k = 0; k < N; ++k) offset[k] += strides_[k][d];
        return;
      }
      for (int k = 0; k < N; ++k) offset[k] -= strides_[k][d] * (shape_[d] - 1);
      at_[d] = 0;
    }
  }
  const Ints& at() const { return at_; }

 private:
  const Shape& shape_;
  Ints at_;
  Ints strides_[N];
};

// dst (strided) = src (strided), both of `shape`; dtype given by element size.
void copy_strided(const Shape& shape, void* dst, const Ints& dst_strides, const void* src,
                  const Ints& src_strides, size_t size);
inline void copy_in(const HostOperand& dst, const HostOperand& src) {
  copy_strided(dst.shape, dst.data, dst.strides, src.data, src.strides, dtype_size(dst.dtype));
}

// An index into an axis of extent n: negative values count from the end; anything else raises IndexError.
inline int64_t checked_index(std::string_view op, int64_t i, int64_t n, int64_t position) {
  if (i < -n || i >= n)
    index_error(op, ": index out of range, got ", i, " at position ", position, "; expected ", -n,
                " <= index < ", n, ".");
  return i < 0 ? i + n : i;
}
// All indices of an operand in row-major order, checked and wrapped.
std::vector<int64_t> read_indices(std::string_view op, const HostOperand& index, int64_t n);
std::vector<int64_t> read_ints(const HostOperand& x);
int64_t scalar_int(const HostOperand& x);
double scalar_real(const HostOperand& x);

// The order of sorting and searching: NaN comes after every number (NumPy's rule).
template <class C>
bool is_nan(C v) {
  return v != v;
}
template <class C>
bool less(C a, C b) {
  return a < b || (is_nan(b) && !is_nan(a));
}

// x as lanes along one axis: n lanes of `length` elements, lane k starting at `start(k)` with step `stride`.
struct Lanes {
  Lanes(const HostOperand& x, int64_t axis);
  int64_t length, stride, count;
  int64_t start(int64_t lane) const { return offset_at(outer, outer_strides, lane); }
  Shape outer;
  Ints outer_strides;
};

}  // namespace yuloh
