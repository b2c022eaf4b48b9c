// SPDX-License-Identifier: Apache-2.0
// Tile programs whose leading `keep` outer dims are not reduced (a sum over the middle of the axes): one
// inner program per index tuple, over moved pointers. Many instances are spread over the team, few run one
// after the other with the team inside; the bits are the same because an instance's chunks depend on its
// shape only.
#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/tile_kernel.h"

namespace yuloh {
namespace {

class KeptKernel final : public Kernel {
 public:
  explicit KeptKernel(const TileProgram& p) : n_buffers_(p.n_buffers) {
    TileProgram inner = p;
    inner.keep = 0;
    kept_ = Shape(p.outer.begin(), p.outer.begin() + p.keep);
    inner.outer = Shape(p.outer.begin() + p.keep, p.outer.end());
    instances_ = numel(kept_);
    for (size_t k = 0; k < p.operands.size(); ++k) {  // every operand moves on its own
      const TileOperand& o = p.operands[k];
      Moved m{o.buffer, {}};
      for (int d = 0; d < p.keep; ++d)
        m.steps.push_back(o.outer_strides[d] * static_cast<int64_t>(dtype_size(o.dtype)));
      moved_.push_back(std::move(m));
      inner.operands[k].buffer = static_cast<int>(k);
      inner.operands[k].outer_strides = Ints(o.outer_strides.begin() + p.keep, o.outer_strides.end());
    }
    inner.n_buffers = static_cast<int>(p.operands.size());
    inner_ = make_cpu_tile_kernel(inner);
    workspace_ = (inner_->workspace_bytes() + 63) / 64 * 64;
    lanes_ = std::clamp<int64_t>(instances_, 1, kMaxLanes);
    cost = {inner_->cost.flops * static_cast<double>(instances_),
            inner_->cost.bytes * static_cast<double>(instances_)};
  }
  size_t workspace_bytes() const override { return workspace_ * static_cast<size_t>(lanes_); }
  void keeps(KeptBytes* k) const override { k->add(sizeof *this), inner_->keeps(k); }
  std::string describe() const override { return cat(inner_->describe(), " x ", instances_); }

  void run(void* const* ptrs) override {
    char* workspace = workspace_ ? static_cast<char*>(ptrs[n_buffers_]) : nullptr;
    if (instances_ < 2 * num_threads()) return instances(0, instances_, ptrs, workspace);
    const int64_t per = (instances_ + lanes_ - 1) / lanes_;
    parallel_for(lanes_, [&](int64_t lane) {
      instances(lane * per, std::min(instances_, (lane + 1) * per), ptrs,
                workspace + static_cast<size_t>(lane) * workspace_);
    });
  }

 private:
  static constexpr int64_t kMaxLanes = 32;
  struct Moved {
    int buffer;
    Ints steps;  // bytes, per kept dim
  };
  void instances(int64_t from, int64_t to, void* const* ptrs, char* workspace) {
    std::vector<void*> p(moved_.size() + 1);
    p.back() = workspace;
    for (int64_t i = from; i < to; ++i) {
      for (size_t k = 0; k < moved_.size(); ++k) {
        int64_t rest = i, at = 0;
        for (int d = static_cast<int>(kept_.size()) - 1; d >= 0; --d)
          at += rest % kept_[d] * moved_[k].steps[d], rest /= kept_[d];
        p[k] = static_cast<char*>(ptrs[moved_[k].buffer]) + at;
      }
      inner_->run(p.data());
    }
  }
  int n_buffers_;
  Shape kept_;
  int64_t instances_ = 0, lanes_ = 1;
  std::vector<Moved> moved_;
  std::unique_ptr<Kernel> inner_;
  size_t workspace_ = 0;
};
}  // namespace

std::unique_ptr<Kernel> make_kept_tile_kernel(const TileProgram& p) {
  return std::make_unique<KeptKernel>(p);
}

}  // namespace yuloh
