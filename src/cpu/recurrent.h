// SPDX-License-Identifier: Apache-2.0
// What the kernels of recurrent walks share (lstm.cpp, gru.cpp): how a time step is cut, the packed weight,
// the product of a state with its panels. Private to them.
#pragma once
#include <algorithm>

#include "cpu/cpu_features.h"
#include "cpu/gemm_kernels.h"
#include "cpu/parallel.h"
#include "cpu/tile_table.h"
#include "plan/kernel.h"

namespace yuloh::recurrent {

inline constexpr int64_t kBlockK = 256;    // as in gemm.cpp: a panel of the weight fills two thirds of L1
inline constexpr int64_t kBlockRows = 56;  // batch rows of one task
inline constexpr int64_t kPad =
    16;  // floats after each row of a state: rows of 4 KiB would share their cache sets

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sizes, and how one time step is cut: tasks own `nr` hidden units (all gates of them) of some batch rows.
// The cut depends on shapes only.
struct Cut {
  const gemm_detail::Kernels& t;
  int64_t steps, batch, hidden, gates;
  bool reverse;
  int64_t blocks, row_blocks, rows;

  Cut(const Call& c, const Shape& states, int64_t gates)
      : t(gemm_detail::kernels()),
        steps(states[0]),
        batch(states[1]),
        hidden(states[2]),
        gates(gates),
        reverse(c.flag("reverse")) {
    blocks = divide_up(hidden, t.nr);
    row_blocks = divide_up(batch, kBlockRows);
    rows = divide_up(batch, row_blocks);
  }
  int64_t at(int64_t step) const { return reverse ? steps - 1 - step : step; }
  int64_t tasks() const { return blocks * row_blocks; }
  double seconds() const {  // of one time step on one thread
    return static_cast<double>(2 * gates * batch * hidden * hidden) / 2e11;
  }
  KernelCost cost() const {
    const double b = static_cast<double>(steps * batch), h = static_cast<double>(hidden);
    const double g = static_cast<double>(gates);
    return {2 * g * b * h * h + 10 * g * b * h, 4 * (b * (2 * g + 2) * h + g * h * h)};
  }
  // f(first hidden unit, how many, first row, how many, task) for every task, in parallel.
  template <class F>
  void each(F&& f) const {
    parallel_for(
        tasks(),
        [&](int64_t task) {
          const int64_t j = task / row_blocks * t.nr, r = task % row_blocks * rows;
          f(j, std::min<int64_t>(t.nr, hidden - j), r, std::min(rows, batch - r), task);
        },
        seconds());
  }
};

// A weight in half precision is widened before it is packed: all arithmetic is f32, where the body of
// ops/recurrent.cpp rounds each state to the weight's precision as well.
struct Weight {
  DType dtype;
  int64_t rows, columns;
  explicit Weight(const Operand& o) : dtype(o.type.dtype), rows(o.type.shape[0]), columns(o.type.shape[1]) {}
  int64_t room() const { return dtype == DType::kFloat32 ? 0 : rows * columns; }  // floats
  const float* widened(const void* w, float* memory) const {
    if (!room()) return static_cast<const float*>(w);
    const auto load = tile::table_for(cpu_isa()).load[static_cast<int>(dtype)];
    const int64_t size = static_cast<int64_t>(dtype_size(dtype));
    parallel_for(rows, [&](int64_t r) {
      load(memory + r * columns, static_cast<const char*>(w) + r * columns * size, 1, columns, columns, 1);
    });
    return memory;
  }
  // Panels of nr hidden units, gate by gate: what a state is multiplied by. `memory`: room() floats.
  void pack_forward(const Cut& c, const void* w, float* memory, float* panels) const {
    const float* plain = widened(w, memory);
    const int64_t H = c.hidden, nr = c.t.nr;
    parallel_for(c.blocks * c.gates, [&](int64_t i) {
      const int64_t j = i / c.gates * nr, gate = i % c.gates;
      gemm_detail::pack(c.t, plain + (gate * H + j) * H, H, 1, static_cast<int>(std::min(nr, H - j)), H,
                        panels + i * H * nr, nr, static_cast<int>(nr));
    });
  }
  // Panels of nr hidden units over all gates: what the gradient of the gates is multiplied by.
  void pack_backward(const Cut& c, const void* w, float* memory, float* panels) const {
    const float* plain = widened(w, memory);
    const int64_t H = c.hidden, nr = c.t.nr, all = c.gates * H;
    parallel_for(c.blocks, [&](int64_t i) {
      gemm_detail::pack(c.t, plain + i * nr, 1, H, static_cast<int>(std::min(nr, H - i * nr)), all,
                        panels + i * all * nr, nr, static_cast<int>(nr));
    });
  }
};

// out (rows x n, rows out_row apart) = a (rows x k) times a packed panel of nr columns.
inline void multiply(const gemm_detail::Kernels& t, const float* a, int64_t a_row, int64_t rows, int64_t k,
                     const float* panel, float* out, int64_t out_row, int64_t n) {
  const int64_t step = divide_up(rows, divide_up(rows, t.mr));
  gemm_detail::MicroArgs m = {};
  m.a_row = a_row, m.a_col = 1, m.b_row = t.nr, m.c_row = out_row, m.columns = static_cast<int>(n);
  for (int64_t k0 = 0; k0 < k; k0 += kBlockK) {
    m.k = std::min(kBlockK, k - k0), m.accumulate = k0 > 0, m.b = panel + k0 * t.nr;
    for (int64_t r = 0; r < rows; r += step) {
      m.a = a + r * a_row + k0, m.c = out + r * out_row;
      t.micro[std::min(step, rows - r)](m);
    }
  }
}

// All operands f32 and stored by rows; number `weight` may be bf16.
inline bool fits(const KernelRequest& r, size_t weight, std::string* why) {
  for (const auto* operands : {&r.in, &r.out})
    for (const Operand& o : *operands) {
      const bool half = &o == &r.in[weight] && o.type.dtype == DType::kBFloat16;
      if ((o.type.dtype != DType::kFloat32 && !half) || numel(o.type.shape) == 0 ||
          !is_row_major(o.type.shape, o.strides)) {
        *why = "an operand is empty, not float32 or not stored by rows";
        return false;
      }
    }
  return true;
}
inline bool grad_fits(const KernelRequest& r, std::string* why) {
  if (!r.call.has("ga")) return fits(r, 0, why);
  *why = "the gates themselves have a gradient";
  return false;
}

}  // namespace yuloh::recurrent
