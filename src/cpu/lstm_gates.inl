// SPDX-License-Identifier: Apache-2.0
// The gates of an LSTM for some hidden units of one batch row (cpu/lstm.cpp); included by tile_kernels.inl in every
// target's namespace, so that exp and tanh are the ones of tile programs.

TILE_INLINE float sigmoid32(float x) { return 1.0f / (1.0f + exp32(-x)); }

void lstm_gates(const LstmGates& p) {
  const int64_t H = p.hidden, P = p.panel;
  const float *x = p.x, *bias = p.bias, *z = p.z, *before = p.before;
  float *act = p.act, *cell = p.cell, *h = p.h, *copy = p.copy;
  TILE_IVDEP
  for (int64_t j = 0; j < p.n; ++j) {
    const float i = sigmoid32(x[j] + (z[j] + bias[j]));
    const float f = sigmoid32(x[j + H] + (z[j + P] + bias[j + H]));
    const float g = tanh32(x[j + 2 * H] + (z[j + 2 * P] + bias[j + 2 * H]));
    const float o = sigmoid32(x[j + 3 * H] + (z[j + 3 * P] + bias[j + 3 * H]));
    const float c = f * before[j] + i * g, y = o * tanh32(c);
    act[j] = i, act[j + H] = f, act[j + 2 * H] = g, act[j + 3 * H] = o;
    cell[j] = c, h[j] = y, copy[j] = y;
  }
}

void lstm_gates_back(const LstmGatesBack& p) {
  const int64_t H = p.hidden;
  const float *act = p.act, *cell = p.cell, *before = p.before, *dh_next = p.dh, *gh = p.gh, *gc = p.gc;
  float *dc = p.dc, *dz = p.dz, *copy = p.copy;
  TILE_IVDEP
  for (int64_t j = 0; j < p.n; ++j) {
    const float i = act[j], f = act[j + H], g = act[j + 2 * H], o = act[j + 3 * H], t = tanh32(cell[j]);
    const float dh = dh_next[j] + gh[j];
    const float d = dc[j] + dh * o * (1.0f - t * t) + gc[j];
    const float zi = d * g * (i * (1.0f - i)), zf = d * before[j] * (f * (1.0f - f));
    const float zg = d * i * (1.0f - g * g), zo = dh * t * (o * (1.0f - o));
    dz[j] = zi, dz[j + H] = zf, dz[j + 2 * H] = zg, dz[j + 3 * H] = zo;
    copy[j] = zi, copy[j + H] = zf, copy[j + 2 * H] = zg, copy[j + 3 * H] = zo;
    dc[j] = d * f;
  }
}
