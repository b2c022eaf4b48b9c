// SPDX-License-Identifier: Apache-2.0
// The gates of an LSTM or a GRU for some hidden units of one batch row (cpu/lstm.cpp, cpu/gru.cpp); included
// by tile_kernels.inl in every target's namespace, so that exp and tanh are the ones of tile programs.

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

void gru_gates(const GruGates& p) {
  const int64_t H = p.hidden, P = p.panel;
  const float *x = p.x, *bias = p.bias, *s = p.s, *before = p.before;
  float *act = p.act, *h = p.h, *copy = p.copy;
  TILE_IVDEP
  for (int64_t j = 0; j < p.n; ++j) {
    const float r = sigmoid32(x[j] + (s[j] + bias[j])), z = sigmoid32(x[j + H] + (s[j + P] + bias[j + H]));
    const float own = s[j + 2 * P] + bias[j + 2 * H], c = tanh32(x[j + 2 * H] + r * own);
    const float y = (before[j] - c) * z + c;
    act[j] = r, act[j + H] = z, act[j + 2 * H] = c, act[j + 3 * H] = own;
    h[j] = y, copy[j] = y;
  }
}

void gru_gates_back(const GruGatesBack& p) {
  const int64_t H = p.hidden;
  const float *act = p.act, *before = p.before, *dh_next = p.dh, *gh = p.gh;
  float *carry = p.carry, *dx = p.dx, *ds = p.ds, *copy = p.copy;
  TILE_IVDEP
  for (int64_t j = 0; j < p.n; ++j) {
    const float r = act[j], z = act[j + H], c = act[j + 2 * H], own = act[j + 3 * H];
    const float dh = (carry[j] + dh_next[j]) + gh[j];
    const float dz = dh * (before[j] - c) * (z * (1.0f - z)), dc = dh * (1.0f - z) * (1.0f - c * c);
    const float dr = dc * own * (r * (1.0f - r)), d = dc * r;
    dx[j] = dr, dx[j + H] = dz, dx[j + 2 * H] = dc;
    ds[j] = dr, ds[j + H] = dz, ds[j + 2 * H] = d;
    copy[j] = dr, copy[j + H] = dz, copy[j + 2 * H] = d;
    carry[j] = dh * z;
  }
}
