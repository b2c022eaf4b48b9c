// SPDX-License-Identifier: Apache-2.0
// Row, column and full reductions over fixed trees (see tile_table.h); included by tile_kernels.inl in every
// target's namespace.

#if defined(__AVX512F__)
constexpr int kVector = 64;
#elif defined(__AVX__)
constexpr int kVector = 32;
#else
constexpr int kVector = 16;
#endif
template <class T>
struct Vec {
  static constexpr int bytes = kLanes * int(sizeof(T)) < kVector ? kLanes * int(sizeof(T)) : kVector;
  static constexpr int width = bytes / int(sizeof(T)), count = kLanes / width;
  typedef T V __attribute__((vector_size(bytes), aligned(alignof(T)), may_alias));  // any address
};
struct RSum {
  template <class T>
  TILE_INLINE T id() {
    return T(0);
  }
  template <class V>
  TILE_INLINE V f(V x, V y) {
    return x + y;
  }
};
struct RProd {
  template <class T>
  TILE_INLINE T id() {
    return T(1);
  }
  template <class V>
  TILE_INLINE V f(V x, V y) {
    return x * y;
  }
};
template <class T>
TILE_INLINE T lowest() {
  if constexpr (__is_same(T, float)) return -kInf;
  else if constexpr (__is_same(T, double)) return -__builtin_inf();
  else if constexpr (__is_same(T, int64_t)) return INT64_MIN;
  else return T(0);
}
template <class T>
TILE_INLINE T highest() {
  if constexpr (__is_same(T, int64_t)) return INT64_MAX;
  else if constexpr (__is_same(T, b8)) return T(1);
  else return -lowest<T>();
}
struct RMax {  // NaN on either side wins
  template <class T>
  TILE_INLINE T id() {
    return lowest<T>();
  }
  template <class V>
  TILE_INLINE V f(V x, V y) {
    return ((x > y) | (x != x)) ? x : y;
  }
};
struct RMin {
  template <class T>
  TILE_INLINE T id() {
    return highest<T>();
  }
  template <class V>
  TILE_INLINE V f(V x, V y) {
    return ((x < y) | (x != x)) ? x : y;
  }
};
struct RAny {
  template <class T>
  TILE_INLINE T id() {
    return T(0);
  }
  template <class V>
  TILE_INLINE V f(V x, V y) {
    return x | y;
  }
};
struct RAll {
  template <class T>
  TILE_INLINE T id() {
    return T(1);
  }
  template <class V>
  TILE_INLINE V f(V x, V y) {
    return x & y;
  }
};

// lanes[(first + i) % kLanes] = op(lanes[...], a[i])
template <class R, class T>
void lanes(void* lv, const void* av, int64_t n, int64_t first) {
  using V = typename Vec<T>::V;
  constexpr int W = Vec<T>::width, C = Vec<T>::count;
  T* l = static_cast<T*>(lv);
  const T* a = static_cast<const T*>(av);
  int64_t i = 0;
  for (; i < n && (first + i) % kLanes; ++i) l[(first + i) % kLanes] = R::f(l[(first + i) % kLanes], a[i]);
  if (n - i >= kLanes) {
    V acc[C];
    for (int k = 0; k < C; ++k) acc[k] = *reinterpret_cast<const V*>(l + k * W);
    for (; i + kLanes <= n; i += kLanes)
      for (int k = 0; k < C; ++k) acc[k] = R::f(acc[k], *reinterpret_cast<const V*>(a + i + k * W));
    for (int k = 0; k < C; ++k) *reinterpret_cast<V*>(l + k * W) = acc[k];
  }
  for (int64_t j = 0; i < n; ++i, ++j) l[j] = R::f(l[j], a[i]);
}
template <class R, class T>
void fold(void* vv, int64_t n) {
  T* v = static_cast<T*>(vv);
  while (n > 1) {
    const int64_t half = (n + 1) / 2;
    for (int64_t i = 0; i < n - half; ++i) v[i] = R::f(v[i], v[half + i]);
    n = half;
  }
}
template <class R, class T>
TILE_INLINE T reduce_short(T* l, const T* a,
                           int64_t n) {  // the same tree without the lanes that nothing goes to
  if (n == 0) return R::template id<T>();
  int64_t half = kLanes / 2;
  while (half >= n) half /= 2;
  if (!half) return a[0];
  for (int64_t k = 0; k < half; ++k) l[k] = k + half < n ? R::f(a[k], a[k + half]) : a[k];
  for (half /= 2; half; half /= 2)
    for (int64_t k = 0; k < half; ++k) l[k] = R::f(l[k], l[half + k]);
  return l[0];
}
template <class R, class T>
TILE_INLINE T reduce_leaf(const T* a, int64_t n) {
  T l[kLanes];
  if (n <= kLanes) return reduce_short<R, T>(l, a, n);
  for (int k = 0; k < kLanes; ++k) l[k] = R::template id<T>();
  lanes<R, T>(l, a, n, 0);
  for (int half = kLanes / 2; half; half /= 2)
    for (int k = 0; k < half; ++k) l[k] = R::f(l[k], l[half + k]);
  return l[0];
}
template <class R, class T>
void row_reduce(void* dv, const void* av, int64_t rows, int64_t cols, int64_t rs, void* scratch) {
  T* d = static_cast<T*>(dv);
  const T* a = static_cast<const T*>(av);
  T* leaves = static_cast<T*>(scratch);
  for (int64_t r = 0; r < rows; ++r, a += rs) {
    if (cols <= kLeaf) {
      d[r] = reduce_leaf<R, T>(a, cols);
      continue;
    }
    int64_t n = 0;
    for (int64_t c = 0; c < cols; c += kLeaf)
      leaves[n++] = reduce_leaf<R, T>(a + c, cols - c < kLeaf ? cols - c : kLeaf);
    fold<R, T>(leaves, n);
    d[r] = leaves[0];
  }
}
template <class R, class T, int N>
TILE_INLINE void col_strip(T* acc, const T* a, int64_t rows, int64_t rs) {
  using V = typename Vec<T>::V;
  constexpr int W = Vec<T>::width;
  V v[N];
  for (int k = 0; k < N; ++k) v[k] = *reinterpret_cast<const V*>(acc + k * W);
  for (int64_t r = 0; r < rows; ++r, a += rs)
    for (int k = 0; k < N; ++k) v[k] = R::f(v[k], *reinterpret_cast<const V*>(a + k * W));
  for (int k = 0; k < N; ++k) *reinterpret_cast<V*>(acc + k * W) = v[k];
}
template <class R, class T>
void col_reduce(void* accv, const void* av, int64_t rows, int64_t cols, int64_t rs) {
  constexpr int W = Vec<T>::width;
  T* acc = static_cast<T*>(accv);
  const T* a = static_cast<const T*>(av);
  int64_t c = 0;
  for (; c + 4 * W <= cols; c += 4 * W) col_strip<R, T, 4>(acc + c, a + c, rows, rs);
  for (; c + W <= cols; c += W) col_strip<R, T, 1>(acc + c, a + c, rows, rs);
  if (c == cols) return;
  // The last columns as one vector, whose other lanes read into the next row and are dropped; rows that have
  // no such neighbour one by one.
  const int64_t end = (rows - 1) * rs + cols;
  int64_t r = 0;
  if (rs >= 0 && c + W <= end) {
    T part[W] = {};
    for (int64_t k = c; k < cols; ++k) part[k - c] = acc[k];
    const int64_t n = rs ? (end - c - W) / rs + 1 : rows;
    r = n < rows ? n : rows;
    col_strip<R, T, 1>(part, a + c, r, rs);
    for (int64_t k = c; k < cols; ++k) acc[k] = part[k - c];
  }
  for (; r < rows; ++r)
    for (int64_t k = c; k < cols; ++k) acc[k] = R::f(acc[k], a[r * rs + k]);
}
template <class R, class T>
void identity(void* dv, const void*, const void*, const void*, int64_t rows, int64_t cols) {
  T* d = static_cast<T*>(dv);
  for (int64_t i = 0; i < rows * cols; ++i) d[i] = R::template id<T>();
}
