// SPDX-License-Identifier: Apache-2.0
// Rows of a softmax cross-entropy (cpu/softmax_nll.cpp); included by tile_kernels.inl in every target's
// namespace.

template <class In>
void nll_lse(const void* xv, int64_t n, float* lse) {
  const auto* x = static_cast<const typename In::S*>(xv);
  float m[kLanes], sum[kLanes], last = -kInf, rest = 0.0f;
  for (int c = 0; c < kLanes; ++c) m[c] = -kInf, sum[c] = 0.0f;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    TILE_IVDEP
    for (int c = 0; c < kLanes; ++c) m[c] = RMax::f(m[c], static_cast<float>(In::in(x[i + c])));
  }
  for (; i < n; ++i) last = RMax::f(last, static_cast<float>(In::in(x[i])));
  for (int c = 0; c < kLanes; ++c) last = RMax::f(last, m[c]);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    TILE_IVDEP
    for (int c = 0; c < kLanes; ++c) sum[c] += exp32(static_cast<float>(In::in(x[i + c])) - last);
  }
  for (; i < n; ++i) rest += exp32(static_cast<float>(In::in(x[i])) - last);
  for (int half = kLanes / 2; half; half /= 2)
    for (int c = 0; c < half; ++c) sum[c] += sum[half + c];
  *lse = last + log32(sum[0] + rest);
}
template <class In, class Out>
void nll_dx(const void* xv, int64_t n, float lse, float g, int64_t label, void* outv) {
  const auto* x = static_cast<const typename In::S*>(xv);
  auto* out = static_cast<typename Out::S*>(outv);  // may be x
  const bool hit = label >= 0 && label < n;
  const float at = hit ? static_cast<float>(In::in(x[label])) : 0.0f;
  TILE_IVDEP
  for (int64_t i = 0; i < n; ++i) out[i] = Out::out(exp32(static_cast<float>(In::in(x[i])) - lse) * g);
  if (hit) out[label] = Out::out((exp32(at - lse) - 1.0f) * g);
}
