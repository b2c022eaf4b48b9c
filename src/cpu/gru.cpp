// SPDX-License-Identifier: Apache-2.0
// A GRU's whole walk along a sequence, cut and packed as an LSTM's (lstm.h).
#include <algorithm>
#include <cstring>

#include "cpu/lstm.h"
#include "cpu/recurrent.h"

namespace yuloh {
namespace {
using namespace recurrent;

constexpr int64_t kGates = 3;

class GruKernel final
    : public Kernel {  // gates, weight, bias, h -> hidden states, (r, z, c, the state's share of c)
 public:
  explicit GruKernel(const KernelRequest& r) : c_(r.call, r.out[0].type.shape, kGates), w_(r.in[1]) {
    cost = c_.cost();
  }
  size_t workspace_bytes() const override {
    return sizeof(float) * (packed() + 2 * state() + c_.tasks() * tile() + w_.room());
  }
  std::string describe() const override { return cat("yuloh_gru:", isa_name(cpu_isa())); }

  void run(void* const* ptrs) override {
    const auto in = [&](int i) { return static_cast<const float*>(ptrs[i]); };
    float *hs = static_cast<float*>(ptrs[4]), *act = static_cast<float*>(ptrs[5]);
    const int64_t H = c_.hidden, B = c_.batch, nr = c_.t.nr, row = H + kPad;
    float *weight = static_cast<float*>(ptrs[6]), *states = weight + packed(), *tiles = states + 2 * state();
    w_.pack_forward(c_, ptrs[1], tiles + c_.tasks() * tile(), weight);
    for (int64_t b = 0; b < B; ++b) std::memcpy(states + b * row, in(3) + b * H, sizeof(float) * H);
    const auto gates = tile::table_for(cpu_isa()).gru_gates;
    for (int64_t s = 0; s < c_.steps; ++s) {
      const int64_t t = c_.at(s);
      const float* from = states + s % 2 * state();
      float* to = states + (s + 1) % 2 * state();
      c_.each([&](int64_t j, int64_t n, int64_t r0, int64_t rows, int64_t task) {
        float* share = tiles + task * tile();
        for (int64_t g = 0; g < kGates; ++g)
          multiply(c_.t, from + r0 * row, row, rows, H, weight + (j / nr * kGates + g) * H * nr,
                   share + g * nr, kGates * nr, n);
        for (int64_t r = r0; r < r0 + rows; ++r) {
          const int64_t at = t * B + r;
          gates({n, H, nr, in(0) + at * kGates * H + j, in(2) + j, share + (r - r0) * kGates * nr,
                 from + r * row + j, act + at * 4 * H + j, hs + at * H + j, to + r * row + j});
        }
      });
    }
  }

 private:
  int64_t packed() const { return c_.blocks * kGates * c_.hidden * c_.t.nr; }
  int64_t state() const { return c_.batch * (c_.hidden + kPad); }
  int64_t tile() const { return c_.rows * kGates * c_.t.nr; }
  Cut c_;
  Weight w_;
};

class GruGradKernel final : public Kernel {  // weight, states, act, h, gh? -> dx, ds, dh
 public:
  explicit GruGradKernel(const KernelRequest& r)
      : c_(r.call, r.in[1].type.shape, kGates), w_(r.in[0]), has_gh_(r.call.has("gh")) {
    cost = c_.cost();
  }
  size_t workspace_bytes() const override {
    return sizeof(float) * (packed() + 2 * state() + c_.tasks() * tile() + c_.t.nr + w_.room());
  }
  std::string describe() const override { return cat("yuloh_gru:", isa_name(cpu_isa())); }

  void run(void* const* ptrs) override {
    const auto in = [&](int i) { return static_cast<const float*>(ptrs[i]); };
    const float* gh = has_gh_ ? in(4) : nullptr;
    float* const* out = reinterpret_cast<float* const*>(ptrs + 4 + has_gh_);
    const int64_t H = c_.hidden, B = c_.batch, nr = c_.t.nr, row = kGates * H + kPad;
    float *weight = out[3], *states = weight + packed(), *tiles = states + 2 * state();
    float *zeros = tiles + c_.tasks() * tile(), *carry = out[2];
    w_.pack_backward(c_, ptrs[0], zeros + nr, weight);
    std::fill(zeros, zeros + nr, 0.0f);
    std::fill(carry, carry + B * H, 0.0f);
    const auto gates = tile::table_for(cpu_isa()).gru_gates_back;
    for (int64_t s = c_.steps - 1; s >= 0; --s) {
      const int64_t t = c_.at(s);
      const float *from = states + s % 2 * state(), *before = s ? in(1) + c_.at(s - 1) * B * H : in(3);
      float* to = states + (s + 1) % 2 * state();
      const bool last = s == c_.steps - 1;
      c_.each([&](int64_t j, int64_t n, int64_t r0, int64_t rows, int64_t task) {
        float* dh = tiles + task * tile();
        if (!last) multiply(c_.t, from + r0 * row, row, rows, kGates * H, weight + j * kGates * H, dh, nr, n);
        for (int64_t r = r0; r < r0 + rows; ++r) {
          const int64_t at = t * B + r;
          gates({n, H, in(2) + at * 4 * H + j, before + r * H + j, last ? zeros : dh + (r - r0) * nr,
                 gh ? gh + at * H + j : zeros, carry + r * H + j, out[0] + at * kGates * H + j,
                 out[1] + at * kGates * H + j, to + r * row + j});
        }
      });
    }
    const float* first = states + state();  // step 0 wrote there
    c_.each([&](int64_t j, int64_t n, int64_t r0, int64_t rows, int64_t task) {
      float* dh = tiles + task * tile();
      multiply(c_.t, first + r0 * row, row, rows, kGates * H, weight + j * kGates * H, dh, nr, n);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < n; ++i) carry[(r0 + r) * H + j + i] += dh[r * nr + i];
    });
  }

 private:
  int64_t packed() const { return c_.blocks * kGates * c_.hidden * c_.t.nr; }
  int64_t state() const { return c_.batch * (kGates * c_.hidden + kPad); }
  int64_t tile() const { return c_.rows * c_.t.nr; }
  Cut c_;
  Weight w_;
  bool has_gh_;
};
}  // namespace

bool gru_fits(const KernelRequest& r, std::string* why) { return fits(r, 1, why); }
std::unique_ptr<Kernel> make_gru(const KernelRequest& r) { return std::make_unique<GruKernel>(r); }

bool gru_grad_fits(const KernelRequest& r, std::string* why) { return grad_fits(r, why); }
std::unique_ptr<Kernel> make_gru_grad(const KernelRequest& r) { return std::make_unique<GruGradKernel>(r); }

}  // namespace yuloh
