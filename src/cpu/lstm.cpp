// SPDX-License-Identifier: Apache-2.0
#include "cpu/lstm.h"

#include <algorithm>
#include <cstring>

#include "cpu/recurrent.h"

namespace yuloh {
namespace {
using namespace recurrent;

class LstmKernel final
    : public Kernel {  // gates, weight, bias, h, c -> hidden states, cells, activated gates
 public:
  explicit LstmKernel(const KernelRequest& r) : c_(r.call, r.out[0].type.shape, 4), w_(r.in[1]) {
    cost = c_.cost();
  }
  size_t workspace_bytes() const override {
    return sizeof(float) * (packed() + 2 * state() + c_.tasks() * tile() + w_.room());
  }
  std::string describe() const override { return cat("yuloh_lstm:", isa_name(cpu_isa())); }

  void run(void* const* ptrs) override {
    const auto in = [&](int i) { return static_cast<const float*>(ptrs[i]); };
    const auto out = [&](int i) { return static_cast<float*>(ptrs[5 + i]); };
    const int64_t H = c_.hidden, B = c_.batch, nr = c_.t.nr, row = H + kPad;
    float *weight = static_cast<float*>(ptrs[8]), *states = weight + packed(), *tiles = states + 2 * state();
    w_.pack_forward(c_, ptrs[1], tiles + c_.tasks() * tile(), weight);
    for (int64_t b = 0; b < B; ++b) std::memcpy(states + b * row, in(3) + b * H, sizeof(float) * H);
    const auto gates = tile::table_for(cpu_isa()).lstm_gates;
    for (int64_t s = 0; s < c_.steps; ++s) {
      const int64_t t = c_.at(s);
      const float *from = states + s % 2 * state(), *before = s ? out(1) + c_.at(s - 1) * B * H : in(4);
      float* to = states + (s + 1) % 2 * state();
      c_.each([&](int64_t j, int64_t n, int64_t r0, int64_t rows, int64_t task) {
        float* z = tiles + task * tile();
        for (int64_t g = 0; g < 4; ++g)
          multiply(c_.t, from + r0 * row, row, rows, H, weight + (j / nr * 4 + g) * H * nr, z + g * nr,
                   4 * nr, n);
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
      : c_(r.call, r.in[2].type.shape, 4), w_(r.in[0]), has_gh_(r.call.has("gh")), has_gc_(r.call.has("gc")) {
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
    w_.pack_backward(c_, ptrs[0], zeros + nr, weight);
    std::fill(zeros, zeros + nr, 0.0f);
    std::fill(out[2], out[2] + B * H, 0.0f);
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
                 last ? zeros : dh + (r - r0) * nr, gh ? gh + at * H + j : zeros,
                 gc ? gc + at * H + j : zeros, out[2] + r * H + j, out[0] + at * 4 * H + j,
                 to + r * row + j});
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

}  // namespace

bool lstm_fits(const KernelRequest& r, std::string* why) { return fits(r, 1, why); }
std::unique_ptr<Kernel> make_lstm(const KernelRequest& r) { return std::make_unique<LstmKernel>(r); }

bool lstm_grad_fits(const KernelRequest& r, std::string* why) { return grad_fits(r, why); }
std::unique_ptr<Kernel> make_lstm_grad(const KernelRequest& r) { return std::make_unique<LstmGradKernel>(r); }

LayoutWish all_row_major(const Call& c) {
  LayoutWish w;
  for (uint32_t i = 0; i < c.n_in; ++i) w.in.push_back(row_major_strides(c.type(i).shape));
  return w;
}

}  // namespace yuloh
