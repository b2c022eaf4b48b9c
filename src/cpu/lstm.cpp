// SPDX-License-Identifier: Apache-2.0
#include "cpu/lstm.h"

#include <algorithm>
#include <cstring>

#include "cpu/cpu_features.h"
#include "cpu/gemm_kernels.h"
#include "cpu/parallel.h"
#include "cpu/tile_table.h"

namespace yuloh {
namespace {
using gemm_detail::Kernels;

constexpr int64_t kBlockK = 256;   // as in gemm.cpp: a panel of the weight fills two thirds of L1
constexpr int64_t kBlockRows = 56;  // batch rows of one task
constexpr int64_t kPad = 16;       // floats after each row of a state: rows of 4 KiB would share their cache sets

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sizes, and how one time step is cut: tasks own `nr` hidden units (all four gates of them) of some batch rows. The cut
// depends on shapes only.
struct Cut {
  const Kernels& t;
  int64_t steps, batch, hidden;
  bool reverse;
  int64_t blocks, row_blocks, rows;

  Cut(const Call& c, const Shape& gates)
      : t(gemm_detail::kernels()), steps(gates[0]), batch(gates[1]), hidden(gates[2] / 4), reverse(c.flag("reverse")) {
    blocks = divide_up(hidden, t.nr);
    row_blocks = divide_up(batch, kBlockRows);
    rows = divide_up(batch, row_blocks);
  }
  int64_t at(int64_t step) const { return reverse ? steps - 1 - step : step; }
  int64_t tasks() const { return blocks * row_blocks; }
  double seconds() const {  // of one time step on one thread
    return static_cast<double>(8 * batch * hidden * hidden) / 2e11;
  }
  KernelCost cost() const {
    const double b = static_cast<double>(steps * batch), h = static_cast<double>(hidden);
    return {8 * b * h * h + 40 * b * h, 4 * (b * 10 * h + 4 * h * h)};
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

// A weight in half precision is widened before it is packed: all arithmetic is f32, where the body of ops/recurrent.cpp
// rounds each state to the weight's precision as well.
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
};

// out (rows x n, rows out_row apart) = a (rows x k) times a packed panel of nr columns.
void multiply(const Kernels& t, const float* a, int64_t a_row, int64_t rows, int64_t k, const float* panel, float* out,
              int64_t out_row, int64_t n) {
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

class LstmKernel final : public Kernel {  // gates, weight, bias, h, c -> hidden states, cells, activated gates
 public:
  explicit LstmKernel(const KernelRequest& r) : c_(r.call, r.in[0].type.shape), w_(r.in[1]) { cost = c_.cost(); }
  size_t workspace_bytes() const override {
    return sizeof(float) * (packed() + 2 * state() + c_.tasks() * tile() + w_.room());
  }
  std::string describe() const override { return cat("yuloh_lstm:", isa_name(cpu_isa())); }

  void run(void* const* ptrs) override {
    const auto in = [&](int i) { return static_cast<const float*>(ptrs[i]); };
    const auto out = [&](int i) { return static_cast<float*>(ptrs[5 + i]); };
    const int64_t H = c_.hidden, B = c_.batch, nr = c_.t.nr, row = H + kPad;
    float *weight = static_cast<float*>(ptrs[8]), *states = weight + packed(), *tiles = states + 2 * state();
    const float* plain = w_.widened(ptrs[1], tiles + c_.tasks() * tile());
    parallel_for(c_.blocks * 4, [&](int64_t i) {
      const int64_t j = i / 4 * nr, gate = i % 4;
      gemm_detail::pack(c_.t, plain + (gate * H + j) * H, H, 1, static_cast<int>(std::min(nr, H - j)), H,
                        weight + i * H * nr, nr, static_cast<int>(nr));
    });
    for (int64_t b = 0; b < B; ++b) std::memcpy(states + b * row, in(3) + b * H, sizeof(float) * H);
    const auto gates = tile::table_for(cpu_isa()).lstm_gates;
    for (int64_t s = 0; s < c_.steps; ++s) {
      const int64_t t = c_.at(s);
      const float *from = states + s % 2 * state(), *before = s ? out(1) + c_.at(s - 1) * B * H : in(4);
      float* to = states + (s + 1) % 2 * state();
      c_.each([&](int64_t j, int64_t n, int64_t r0, int64_t rows, int64_t task) {
        float* z = tiles + task * tile();
        for (int64_t g = 0; g < 4; ++g)
          multiply(c_.t, from + r0 * row, row, rows, H, weight + (j / nr * 4 + g) * H * nr, z + g * nr, 4 * nr, n);
        for (int64_t r = r0; r < r0 + rows; ++r) {
          const int64_t at = t * B + r;
          gates({n, H, nr, in(0) + at * 4 * H + j, in(2) + j, z + (r - r0) * 4 * nr, before + r * H + j,
                 out(2) + at * 4 * H + j, out(1) + at * H + j, out(0) + at * H + j, to + r * row + j});
        }
      });
    }
  }

 private:
  int64_t packed() const { return c_.blocks * 4 * c_.hidden * c_.t.nr; }
  int64_t state() const { return c_.batch * (c_.hidden + kPad); }
  int64_t tile() const { return c_.rows * 4 * c_.t.nr; }
  Cut c_;
  Weight w_;
};

class LstmGradKernel final : public Kernel {  // weight, c, cells, act, gh?, gc? -> dz, dh, dc
 public:
  explicit LstmGradKernel(const KernelRequest& r)
      : c_(r.call, r.in[3].type.shape), w_(r.in[0]), has_gh_(r.call.has("gh")), has_gc_(r.call.has("gc")) {
    cost = c_.cost();
  }
  size_t workspace_bytes() const override {
    return sizeof(float) * (packed() + 2 * state() + c_.tasks() * tile() + c_.t.nr + w_.room());
  }
  std::string describe() const override { return cat("yuloh_lstm:", isa_name(cpu_isa())); }

  void run(void* const* ptrs) override {
    const auto in = [&](int i) { return static_cast<const float*>(ptrs[i]); };
    const float* gh = has_gh_ ? in(4) : nullptr;
    const float* gc = has_gc_ ? in(4 + has_gh_) : nullptr;
    float* const* out = reinterpret_cast<float* const*>(ptrs + 4 + has_gh_ + has_gc_);
    const int64_t H = c_.hidden, B = c_.batch, nr = c_.t.nr, row = 4 * H + kPad;
    float *weight = out[3], *states = weight + packed(), *tiles = states + 2 * state();
    float* zeros = tiles + c_.tasks() * tile();
    const float* plain = w_.widened(ptrs[0], zeros + nr);
    std::fill(zeros, zeros + nr, 0.0f);
    std::fill(out[2], out[2] + B * H, 0.0f);
    parallel_for(c_.blocks, [&](int64_t i) {
      gemm_detail::pack(c_.t, plain + i * nr, 1, H, static_cast<int>(std::min(nr, H - i * nr)), 4 * H,
                        weight + i * 4 * H * nr, nr, static_cast<int>(nr));
    });
    const auto gates = tile::table_for(cpu_isa()).lstm_gates_back;
    for (int64_t s = c_.steps - 1; s >= 0; --s) {
      const int64_t t = c_.at(s);
      const float *from = states + s % 2 * state(), *before = s ? in(2) + c_.at(s - 1) * B * H : in(1);
      float* to = states + (s + 1) % 2 * state();
      const bool last = s == c_.steps - 1;
      c_.each([&](int64_t j, int64_t n, int64_t r0, int64_t rows, int64_t task) {
        float* dh = tiles + task * tile();
        if (!last) multiply(c_.t, from + r0 * row, row, rows, 4 * H, weight + j * 4 * H, dh, nr, n);
        for (int64_t r = r0; r < r0 + rows; ++r) {
          const int64_t at = t * B + r;
          gates({n, H, in(3) + at * 4 * H + j, in(2) + at * H + j, before + r * H + j,
                 last ? zeros : dh + (r - r0) * nr, gh ? gh + at * H + j : zeros, gc ? gc + at * H + j : zeros,
                 out[2] + r * H + j, out[0] + at * 4 * H + j, to + r * row + j});
        }
      });
    }
    const float* first = states + state();  // step 0 wrote there
    c_.each([&](int64_t j, int64_t n, int64_t r0, int64_t rows, int64_t) {
      multiply(c_.t, first + r0 * row, row, rows, 4 * H, weight + j * 4 * H, out[1] + r0 * H + j, H, n);
    });
  }

 private:
  int64_t packed() const { return c_.blocks * 4 * c_.hidden * c_.t.nr; }
  int64_t state() const { return c_.batch * (4 * c_.hidden + kPad); }
  int64_t tile() const { return c_.rows * c_.t.nr; }
  Cut c_;
  Weight w_;
  bool has_gh_, has_gc_;
};

bool fits(const KernelRequest& r, size_t weight, std::string* why) {
  for (const auto* operands : {&r.in, &r.out})
    for (const Operand& o : *operands) {
      const bool half = &o == &r.in[weight] && o.type.dtype == DType::kBFloat16;
      if ((o.type.dtype != DType::kFloat32 && !half) || numel(o.type.shape) == 0 || !is_row_major(o.type.shape, o.strides)) {
        *why = "an operand is empty, not float32 or not stored by rows";
        return false;
      }
    }
  return true;
}
}  // namespace

bool lstm_fits(const KernelRequest& r, std::string* why) { return fits(r, 1, why); }
std::unique_ptr<Kernel> make_lstm(const KernelRequest& r) { return std::make_unique<LstmKernel>(r); }

bool lstm_grad_fits(const KernelRequest& r, std::string* why) {
  if (!r.call.has("ga")) return fits(r, 0, why);
  *why = "the gates themselves have a gradient";
  return false;
}
std::unique_ptr<Kernel> make_lstm_grad(const KernelRequest& r) { return std::make_unique<LstmGradKernel>(r); }

LayoutWish all_row_major(const Call& c) {
  LayoutWish w;
  for (uint32_t i = 0; i < c.n_in; ++i) w.in.push_back(row_major_strides(c.type(i).shape));
  return w;
}

}  // namespace yuloh
