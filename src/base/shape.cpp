// SPDX-License-Identifier: Apache-2.0
#include "base/shape.h"

#include <algorithm>

#include "base/error.h"

namespace yuloh {

namespace {
// Sizes come from files too: a product that no tensor can have is refused wherever it is first formed.
void times(int64_t* n, Dim d, const Shape& s) {
  if (__builtin_mul_overflow(*n, d, n)) value_error("shape: element count overflows int64, got ", s, ".");
}
}  // namespace

int64_t numel(const Shape& s) {
  int64_t n = 1;
  bool zero = false;
  for (Dim d : s) {
    if (d < 0) value_error("shape: negative extent, got ", s, "; expected all extents >= 0.");
    if (d == 0) zero = true;
    else times(&n, d, s);
  }
  return zero ? 0 : n;
}

Ints row_major_strides(const Shape& s) {
  Ints st(s.size(), 1);
  int64_t n = 1;
  for (int i = static_cast<int>(s.size()) - 1; i >= 0; --i) st[i] = n, times(&n, std::max<Dim>(s[i], 1), s);
  return st;
}

Ints strides_in_order(const Shape& s, const Ints& order) {
  Ints st(s.size(), 1);
  int64_t n = 1;
  for (int i = static_cast<int>(order.size()) - 1; i >= 0; --i)
    st[order[i]] = n, times(&n, std::max<Dim>(s[order[i]], 1), s);
  return st;
}

Ints channels_last_strides(const Shape& s) {
  Ints order;
  order.push_back(0);
  for (uint32_t i = 2; i < s.size(); ++i) order.push_back(i);
  order.push_back(1);
  return strides_in_order(s, order);
}

bool is_dense_in_order(const Shape& s, const Ints& strides) {
  Ints ax;
  for (uint32_t i = 0; i < s.size(); ++i) {
    if (s[i] == 0) return true;
    if (s[i] != 1) ax.push_back(i);
  }
  std::sort(ax.begin(), ax.end(), [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
  int64_t n = 1;
  for (int64_t a : ax) {
    if (strides[a] != n) return false;
    n *= s[a];
  }
  return true;
}

static bool same_ignoring_ones(const Shape& s, const Ints& a, const Ints& b) {
  for (uint32_t i = 0; i < s.size(); ++i) {
    if (s[i] == 0) return true;
    if (s[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}
bool is_row_major(const Shape& s, const Ints& strides) {
  return same_ignoring_ones(s, strides, row_major_strides(s));
}
bool is_channels_last(const Shape& s, const Ints& strides) {
  return s.size() >= 3 && same_ignoring_ones(s, strides, channels_last_strides(s));
}

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  const bool a_long = a.size() >= b.size();
  Shape r = a_long ? a : b;
  const Shape& o = a_long ? b : a;
  const uint32_t off = r.size() - o.size();
  for (uint32_t i = 0; i < o.size(); ++i) {
    Dim& d = r[off + i];
    if (d == o[i] || o[i] == 1) continue;
    if (d != 1)
      value_error(op, ": shapes do not broadcast, got ", a, " and ", b,
                  "; expected extents that are equal or 1, but axis ",
                  static_cast<int>(off + i) - static_cast<int>(r.size()), " has ", d, " and ", o[i], ".");
    d = o[i];
  }
  return r;
}

int64_t normalize_axis(std::string_view op, int64_t axis, int64_t rank, std::string_view name) {
  const int64_t r = std::max<int64_t>(rank, 1);
  if (axis < -r || axis >= r)
    index_error(op, ": ", name, " out of range, got ", axis, "; expected ", -r, " <= ", name, " < ", r,
                " for a tensor of rank ", rank, ".");
  return axis < 0 ? axis + r : axis;
}

Ints normalize_axes(std::string_view op, const Ints& axes, int64_t rank) {
  Ints r;
  if (axes.empty()) {
    for (int64_t i = 0; i < rank; ++i) r.push_back(i);
    return r;
  }
  for (int64_t a : axes) {
    const int64_t n = normalize_axis(op, a, rank);
    if (rank == 0) continue;
    for (int64_t x : r)
      if (x == n)
        value_error(op, ": axis ", a, " is given twice in ", to_string(axes), "; expected distinct axes.");
    r.push_back(n);
  }
  std::sort(r.begin(), r.end());
  return r;
}

std::string to_string(const Shape& s) {
  std::string r = "[";
  for (uint32_t i = 0; i < s.size(); ++i) r += (i ? ", " : "") + std::to_string(s[i]);
  return r + "]";
}
std::ostream& operator<<(std::ostream& o, const Shape& s) { return o << to_string(s); }
std::ostream& operator<<(std::ostream& o, const TensorType& t) { return o << t.dtype << t.shape; }

}  // namespace yuloh
