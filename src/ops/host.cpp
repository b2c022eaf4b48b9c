// SPDX-License-Identifier: Apache-2.0
#include "ops/host.h"

namespace yuloh {
namespace {
struct Pair {
  uint64_t a, b;
};
template <class T>
void copy_as(const Shape& shape, void* dst, const Ints& ds, const void* src, const Ints& ss) {
  const int rank = static_cast<int>(shape.size());
  const int64_t inner = rank ? shape[rank - 1] : 1, di = rank ? ds[rank - 1] : 1,
                si = rank ? ss[rank - 1] : 1;
  Shape outer;
  for (int i = 0; i + 1 < rank; ++i) outer.push_back(shape[i]);
  const int64_t rows = numel(outer);
  if (inner == 0) return;
  Walk<2> w(outer, {ds, ss});
  for (int64_t r = 0; r < rows; ++r, w.next()) {
    T* d = static_cast<T*>(dst) + w.offset[0];
    const T* s = static_cast<const T*>(src) + w.offset[1];
    if (di == 1 && si == 1) std::memcpy(d, s, sizeof(T) * static_cast<size_t>(inner));
    else
      for (int64_t i = 0; i < inner; ++i) d[i * di] = s[i * si];
  }
}
ChunkRunner g_runner = nullptr;
}  // namespace

void set_chunk_runner(ChunkRunner r) { g_runner = r; }
void run_chunks(int64_t n, void (*fn)(void*, int64_t), void* context) {
  if (g_runner) return g_runner(n, fn, context);
  for (int64_t i = 0; i < n; ++i) fn(context, i);
}

static void copy_piece(const Shape& shape, void* dst, const Ints& ds, const void* src, const Ints& ss,
                       size_t size) {
  switch (size) {
    case 1: return copy_as<uint8_t>(shape, dst, ds, src, ss);
    case 2: return copy_as<uint16_t>(shape, dst, ds, src, ss);
    case 4: return copy_as<uint32_t>(shape, dst, ds, src, ss);
    case 8: return copy_as<uint64_t>(shape, dst, ds, src, ss);
    default: return copy_as<Pair>(shape, dst, ds, src, ss);
  }
}

// Large copies are cut along their first axis: pieces of 128 kB or more.
void copy_strided(const Shape& shape, void* dst, const Ints& ds, const void* src, const Ints& ss,
                  size_t size) {
  constexpr int64_t kPiece = 128 << 10;
  const int64_t bytes = numel(shape) * static_cast<int64_t>(size), step = static_cast<int64_t>(size);
  uint32_t axis = 0;
  while (axis < shape.size() && shape[axis] == 1) ++axis;
  if (bytes < 2 * kPiece || axis + 1 >= shape.size()) return copy_piece(shape, dst, ds, src, ss, size);
  const int64_t grain = std::max<int64_t>(1, kPiece / (bytes / shape[axis]));
  parallel_ranges(shape[axis], grain, [&](int64_t from, int64_t to) {
    Shape piece = shape;
    piece[axis] = to - from;
    copy_piece(piece, static_cast<char*>(dst) + from * ds[axis] * step, ds,
               static_cast<const char*>(src) + from * ss[axis] * step, ss, size);
  });
}

std::vector<int64_t> read_ints(const HostOperand& x) {
  const int64_t n = x.numel();
  std::vector<int64_t> r(static_cast<size_t>(n));
  Walk<1> w(x.shape, {x.strides});
  const int64_t size = static_cast<int64_t>(dtype_size(x.dtype));
  for (int64_t i = 0; i < n; ++i, w.next()) r[i] = load_int(x.as<char>() + w.offset[0] * size, x.dtype);
  return r;
}
std::vector<int64_t> read_indices(std::string_view op, const HostOperand& x, int64_t n) {
  std::vector<int64_t> r = read_ints(x);
  for (size_t i = 0; i < r.size(); ++i) r[i] = checked_index(op, r[i], n, static_cast<int64_t>(i));
  return r;
}
int64_t scalar_int(const HostOperand& x) { return load_int(x.data, x.dtype); }
double scalar_real(const HostOperand& x) { return load_double(x.data, x.dtype); }

Lanes::Lanes(const HostOperand& x, int64_t axis) {
  length = x.shape.empty() ? 1 : x.shape[axis];
  stride = x.shape.empty() ? 1 : x.strides[axis];
  for (int64_t i = 0; i < static_cast<int64_t>(x.shape.size()); ++i)
    if (i != axis) outer.push_back(x.shape[i]), outer_strides.push_back(x.strides[i]);
  count = yuloh::numel(outer);
}

}  // namespace yuloh
