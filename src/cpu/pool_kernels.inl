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
// f(position, whether it is the first) for the taps of a window, in order. N: their number where it is known
// and none is cut off, else 0.
template <int N, class F>
inline void each_tap(const PoolArgs& p, const Window& w, F&& f) {
  if (N) {
#pragma GCC unroll 16
    for (int t = 0; t < N; ++t) f(w.first + p.offsets[t], t == 0);
    return;
  }
  const Window3& g = p.g->w;
  for (int64_t i = w.a.begin; i < w.a.end; ++i)
    for (int64_t j = w.b.begin; j < w.b.end; ++j)
      for (int64_t k = w.c.begin, at = (i * g.in[1] + j) * g.in[2] + k; k < w.c.end; ++k, ++at)
        f(at, at == w.first);
}
inline bool whole(const PoolArgs& p, const Window& w) {
  const int64_t* k = p.g->w.k;
  return w.a.end - w.a.begin == k[0] && w.b.end - w.b.begin == k[1] && w.c.end - w.c.begin == k[2];
}

template <class T, int N>
inline Maximum window_maximum(const PoolArgs& p, const Window& w, int64_t c, V::M m) {
  const T* x = static_cast<const T*>(p.x) + c;
  Maximum r{V::load(x + w.first * p.channels, m), V::set1(static_cast<int32_t>(w.first))};
  each_tap<N>(p, w, [&](int64_t at, bool first) {
    if (first) return;
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

template <class T, bool kIndex, int N>
inline void forward_window(const PoolArgs& p, const Window& w, int64_t q) {
  each_register(p, [&](int64_t c, V::M m) {
    const Maximum r = window_maximum<T, N>(p, w, c, m);
    V::store(static_cast<T*>(p.out) + q * p.channels + c, r.best, m);
    if (kIndex) V::store(p.index + q * p.channels + c, r.at, m);
  });
}
template <class T, int N>
inline void backward_window(const PoolArgs& p, const Window& w, int64_t q) {
  each_register(p, [&](int64_t c, V::M m) {
    const Maximum r = window_maximum<T, N>(p, w, c, m);
    const V::F grad = V::load(static_cast<const T*>(p.v) + q * p.channels + c, m);
    each_tap<N>(p, w, [&](int64_t at, bool) {
      V::store(static_cast<T*>(p.out) + at * p.channels + c,
               V::keep(V::equal(r.at, V::set1(static_cast<int32_t>(at))), grad), m);
    });
  });
}

constexpr int kSmall = 4;  // 2 x 2
template <class T, bool kIndex>
void forward(const PoolArgs& p) {
  const bool small = p.taps_n == kSmall;
  each_window(p, [&](const Window& w, int64_t q) {
    if (small && whole(p, w))
      forward_window<T, kIndex, kSmall>(p, w, q);
    else
      forward_window<T, kIndex, 0>(p, w, q);
  });
}
template <class T>
void backward(const PoolArgs& p) {
  const bool small = p.taps_n == kSmall;
  each_window(p, [&](const Window& w, int64_t q) {
    if (small && whole(p, w))
      backward_window<T, kSmall>(p, w, q);
    else
      backward_window<T, 0>(p, w, q);
  });
  for (const int64_t at : *p.gaps)
    std::memset(static_cast<T*>(p.out) + at * p.channels, 0, sizeof(T) * p.width);
}

template <class... T>  // float, then uint16_t (bf16) where it has loads and stores
MaxPoolKernels table() {
  return {{forward<T, false>...}, {forward<T, true>...}, {backward<T>...}};
}
