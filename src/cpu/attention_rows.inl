// SPDX-License-Identifier: Apache-2.0
// Softmax of blocks of attention scores and its gradient (cpu/attention.cpp); included by tile_kernels.inl in
// every target's namespace.

// Keys that a query may not see: those behind it on the diagonal of a causal block.
TILE_INLINE void hide(const AttentionBlock& p, float* s, float with) {
  for (int64_t j = p.diagonal; j < p.keys; ++j)
    for (int64_t c = 0; c < kLanes && c < j - p.diagonal; ++c) s[j * kLanes + c] = with;
}
template <class R>
TILE_INLINE void over_keys(const float* s, int64_t keys, float* out) {
  using V = Vec<float>::V;
  constexpr int W = Vec<float>::width, C = Vec<float>::count;
  V acc[C];
  for (int k = 0; k < C; ++k) acc[k] = *reinterpret_cast<const V*>(s + k * W);
  for (int64_t j = 1; j < keys; ++j)
    for (int k = 0; k < C; ++k) acc[k] = R::f(acc[k], *reinterpret_cast<const V*>(s + j * kLanes + k * W));
  for (int k = 0; k < C; ++k) *reinterpret_cast<V*>(out + k * W) = acc[k];
}

void attention_softmax(const AttentionBlock& p) {
  float *s = p.scores, m[kLanes], total[kLanes];
  hide(p, s, -kInf);
  over_keys<RMax>(s, p.keys, m);
  for (int64_t j = 0; j < p.keys; ++j) {
    float* row = s + j * kLanes;
    TILE_IVDEP
    for (int c = 0; c < kLanes; ++c) row[c] = exp32(row[c] - m[c]);
  }
  hide(p, s, 0.0f);
  over_keys<RSum>(s, p.keys, total);
  TILE_IVDEP
  for (int c = 0; c < kLanes; ++c) p.lse[c] = m[c] + log32(total[c]), p.delta[c] = 1.0f / total[c];
}

// scores -> weights, weight gradients -> score gradients
void attention_softmax_back(const AttentionBlock& p) {
  float *s = p.scores, *d = p.grads;
  for (int64_t j = 0; j < p.keys; ++j) {
    float *row = s + j * kLanes, *grad = d + j * kLanes;
    TILE_IVDEP
    for (int c = 0; c < kLanes; ++c) {
      const float w = exp32(row[c] - p.lse[c]);
      row[c] = w, grad[c] = w * (grad[c] - p.delta[c]);
    }
  }
  hide(p, s, 0.0f), hide(p, d, 0.0f);
}

// out[r] = a[r, :] . b[r, :]
void row_dots(const float* a, const float* b, int64_t rows, int64_t cols, float* out) {
  using V = Vec<float>::V;
  constexpr int W = Vec<float>::width;
  for (int64_t r = 0; r < rows; ++r, a += cols, b += cols) {
    V acc = {};
    int64_t j = 0;
    for (; j + W <= cols; j += W)
      acc += *reinterpret_cast<const V*>(a + j) * *reinterpret_cast<const V*>(b + j);
    float sum = 0.0f;
    for (int k = 0; k < W; ++k) sum += acc[k];
    for (; j < cols; ++j) sum += a[j] * b[j];
    out[r] = sum;
  }
}
