// SPDX-License-Identifier: Apache-2.0
// Maximum pooling over registers of channels. The including file defines, in an anonymous namespace, struct
// V: V::n lanes; registers F (float) and I (int32); masks M; part(count), load(T*, M), store(T*, F, M),
// store(int32_t*, I, M), set1(int32_t), above(v, best): v takes the place of best (NaN wins, the first one
// stays), equal, both, select.

struct Maximum {
  V::F best;
  V::I at;
};
struct Window {
  Taps a, b, c;
  int64_t first;  // position of the first tap
};
// f(window, output position) for every window.
template <class F>
inline void each_window(const PoolArgs& p, F&& f) {
  const Window3& w = p.g->w;
  const Taps *t0 = p.taps[0], *t1 = p.taps[1], *t2 = p.taps[2];
  int64_t q = 0;
  for (int64_t o0 = 0; o0 < w.out[0]; ++o0)
    for (int64_t o1 = 0; o1 < w.out[1]; ++o1) {
      const int64_t row = (t0[o0].begin * w.in[1] + t1[o1].begin) * w.in[2];
      for (int64_t o2 = 0; o2 < w.out[2]; ++o2, ++q) f(Window{t0[o0], t1[o1], t2[o2], row + t2[o2].begin}, q);
    }
}
// f(position) for the taps of a window, in order.
template <class F>
inline void each_tap(const PoolArgs& p, const Window& w, F&& f) {
  const Window3& g = p.g->w;
  for (int64_t i = w.a.begin; i < w.a.end; ++i)
    for (int64_t j = w.b.begin; j < w.b.end; ++j)
      for (int64_t k = w.c.begin, at = (i * g.in[1] + j) * g.in[2] + k; k < w.c.end; ++k, ++at) f(at);
}

template <class T>
inline Maximum window_maximum(const PoolArgs& p, const Window& w, int64_t c, V::M m) {
  const T* x = static_cast<const T*>(p.x) + c;
  Maximum r{V::load(x + w.first * p.channels, m), V::set1(static_cast<int32_t>(w.first))};
  each_tap(p, w, [&](int64_t at) {
    if (at == w.first) return;
    const V::F v = V::load(x + at * p.channels, m);
    const V::M take = V::above(v, r.best);
    r.best = V::select(take, v, r.best);
    r.at = V::select(take, V::set1(static_cast<int32_t>(at)), r.at);
  });
  return r;
}
// f(first channel, mask) for registers of channels.
template <class F>
inline void each_register(const PoolArgs& p, F&& f) {
  for (int64_t c = 0; c < p.width; c += V::n)
    f(c, V::part(static_cast<int>(std::min<int64_t>(V::n, p.width - c))));
}

template <class T, bool kIndex>
inline void forward_window(const PoolArgs& p, const Window& w, int64_t q) {
  each_register(p, [&](int64_t c, V::M m) {
    const Maximum r = window_maximum<T>(p, w, c, m);
    V::store(static_cast<T*>(p.out) + q * p.channels + c, r.best, m);
    if (kIndex) V::store(p.index + q * p.channels + c, r.at, m);
  });
}
template <class T>
inline void backward_window(const PoolArgs& p, const Window& w, int64_t q) {
  each_register(p, [&](int64_t c, V::M m) {
    const Maximum r = window_maximum<T>(p, w, c, m);
    const V::F grad = V::load(static_cast<const T*>(p.v) + q * p.channels + c, m);
    each_tap(p, w, [&](int64_t at) {
      V::store(static_cast<T*>(p.out) + at * p.channels + c,
               V::keep(V::equal(r.at, V::set1(static_cast<int32_t>(at))), grad), m);
    });
  });
}

// Windows of N taps of which none is cut off: everything in locals (a store through an intrinsic makes the
// compiler read members again), and the tap's number in place of its position.
template <class T, int N>
struct Whole {
  const T *x, *g;
  T* out;
  int32_t* index;
  int64_t channels, width, offsets[N];
  int32_t positions[N];

  explicit Whole(const PoolArgs& p)
      : x(static_cast<const T*>(p.x)),
        g(static_cast<const T*>(p.v)),
        out(static_cast<T*>(p.out)),
        index(p.index),
        channels(p.channels),
        width(p.width) {
    for (int t = 0; t < N; ++t)
      offsets[t] = p.offsets[t] * p.channels, positions[t] = static_cast<int32_t>(p.offsets[t]);
  }
  static Maximum maximum(const T* from, const int64_t* offsets, V::M m) {
    Maximum r{V::load(from, m), V::set1(0)};
#pragma GCC unroll 16
    for (int t = 1; t < N; ++t) {
      const V::F v = V::load(from + offsets[t], m);
      const V::M take = V::above(v, r.best);
      r.best = V::select(take, v, r.best);
      r.at = V::select(take, V::set1(t), r.at);
    }
    return r;
  }
  template <bool kIndex>
  void forward(int64_t first, int64_t q) const {
    for (int64_t c = 0; c < width; c += V::n) {
      const V::M m = V::part(static_cast<int>(std::min<int64_t>(V::n, width - c)));
      const Maximum r = maximum(x + first * channels + c, offsets, m);
      V::store(out + q * channels + c, r.best, m);
      if (!kIndex) continue;
      V::I at = V::set1(static_cast<int32_t>(first));
#pragma GCC unroll 16
      for (int t = 1; t < N; ++t)
        at = V::select(V::equal(r.at, V::set1(t)), V::set1(static_cast<int32_t>(first) + positions[t]), at);
      V::store(index + q * channels + c, at, m);
    }
  }
  void backward(int64_t first, int64_t q) const {
    for (int64_t c = 0; c < width; c += V::n) {
      const V::M m = V::part(static_cast<int>(std::min<int64_t>(V::n, width - c)));
      const Maximum r = maximum(x + first * channels + c, offsets, m);
      const V::F grad = V::load(g + q * channels + c, m);
      T* to = out + first * channels + c;
#pragma GCC unroll 16
      for (int t = 0; t < N; ++t) V::store(to + offsets[t], V::keep(V::equal(r.at, V::set1(t)), grad), m);
    }
  }
};
// Whole windows go to whole(first position, output position), others to rest(window, output position).
template <class F, class G>
inline void split_windows(const PoolArgs& p, F&& whole, G&& rest) {
  const Window3& w = p.g->w;
  const Taps *t0 = p.taps[0], *t1 = p.taps[1], *t2 = p.taps[2];
  const int64_t n0 = w.out[0], n1 = w.out[1], n2 = w.out[2], rows = w.in[1], columns = w.in[2], k0 = w.k[0],
                k1 = w.k[1], step = w.s[2];
  int64_t lo = 0, hi = n2;  // outputs of a row whose taps are all there
  while (lo < n2 && t2[lo].end - t2[lo].begin != w.k[2]) ++lo;
  while (hi > lo && t2[hi - 1].end - t2[hi - 1].begin != w.k[2]) --hi;
  int64_t q = 0;
  for (int64_t o0 = 0; o0 < n0; ++o0)
    for (int64_t o1 = 0; o1 < n1; ++o1, q += n2) {
      const Taps a = t0[o0], b = t1[o1];
      const int64_t row = (a.begin * rows + b.begin) * columns;
      const bool all = a.end - a.begin == k0 && b.end - b.begin == k1 && lo < hi;
      const int64_t from = all ? lo : n2, to = all ? hi : n2;
      for (int64_t o2 = 0; o2 < from; ++o2) rest(Window{a, b, t2[o2], row + t2[o2].begin}, q + o2);
      if (from < to)
        for (int64_t o2 = from, first = row + t2[from].begin; o2 < to; ++o2, first += step)
          whole(first, q + o2);
      for (int64_t o2 = to; o2 < n2; ++o2) rest(Window{a, b, t2[o2], row + t2[o2].begin}, q + o2);
    }
}

constexpr int kSmall = 4;  // 2 x 2
template <class T, bool kIndex>
void forward(const PoolArgs& p) {
  const auto rest = [&](const Window& w, int64_t q) { forward_window<T, kIndex>(p, w, q); };
  if (p.taps_n != kSmall) return each_window(p, rest);
  const Whole<T, kSmall> whole(p);
  split_windows(
      p, [whole](int64_t first, int64_t q) { whole.template forward<kIndex>(first, q); }, rest);
}
template <class T>
void backward(const PoolArgs& p) {
  const auto rest = [&](const Window& w, int64_t q) { backward_window<T>(p, w, q); };
  if (p.taps_n == kSmall) {
    const Whole<T, kSmall> whole(p);
    split_windows(
        p, [whole](int64_t first, int64_t q) { whole.backward(first, q); }, rest);
  } else {
    each_window(p, rest);
  }
  for (const int64_t at : *p.gaps)
    std::memset(static_cast<T*>(p.out) + at * p.channels, 0, sizeof(T) * p.width);
}

template <class... T>  // float, then uint16_t (bf16) where it has loads and stores
MaxPoolKernels table() {
  return {{forward<T, false>...}, {forward<T, true>...}, {backward<T>...}};
}
