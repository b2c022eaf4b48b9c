// SPDX-License-Identifier: Apache-2.0
// The kernel of a `loop` region: a nested Plan run `trips` times, carried values going round. Its peak is one
// iteration plus the carried values.
#include "base/strided.h"
#include "plan/builder.h"

namespace yuloh {
namespace {
Ref<Buffer> borrow(void* p, const Ints& strides) {
  auto b = make_ref<Buffer>();
  b->storage = make_ref<Storage>();
  b->storage->data = p;
  b->storage->free = [] {};
  b->strides = strides;
  return b;
}

class LoopKernel final : public Kernel {
 public:
  LoopKernel(const KernelRequest& r, const Graph& body, const PlanOptions& options)
      : n_carried_(r.call.integer("n_carried")), trips_(r.call.integer("trips")), in_(r.in), out_(r.out) {
    for (size_t i = 0; i < r.in.size(); ++i) {
      // Carried values come back in the layout the body leaves them in, so both sides are row-major.
      const bool carried = static_cast<int64_t>(i) < n_carried_;
      if (carried && !is_row_major(r.in[i].type.shape, r.in[i].strides)) strided_carry_ = true;
      inputs_.push_back(
          {r.in[i].type, carried ? row_major_strides(r.in[i].type.shape) : r.in[i].strides, false, false});
    }
    try {
      plan_ = compile_plan(body, inputs_, options);
    } catch (Error& e) {
      e.origin = -1;  // a position in the body means nothing outside: the loop itself is to blame
      throw;
    }
    cost.flops = plan_->cost.flops * static_cast<double>(trips_);
    cost.bytes = plan_->cost.bytes * static_cast<double>(trips_);
  }
  void run(void* const* ptrs) override { run(ptrs, trips_); }
  void rehearse(void* const* ptrs) override { run(ptrs, std::min<int64_t>(trips_, 2)); }
  void keeps(KeptBytes* k) const override { plan_->keeps(k); }
  std::string describe() const override {
    return cat("loop x", trips_, " of ", plan_->steps.size(), " steps");
  }

 private:
  void run(void* const* ptrs, int64_t trips) {
    std::vector<Ref<Buffer>> bound;
    for (size_t i = 0; i < in_.size(); ++i) bound.push_back(borrow(ptrs[i], in_[i].strides));
    if (strided_carry_)
      for (int64_t i = 0; i < n_carried_; ++i) bound[i] = row_major(in_[i].type, bound[i]);
    for (int64_t t = 0; t < trips; ++t) {
      PlanRun run;
      run.inputs = bound;
      run.scalars_double.resize(bound.size()), run.scalars_int.resize(bound.size());
      run_plan(*plan_, &run, {});
      for (int64_t i = 0; i < n_carried_; ++i) bound[i] = row_major(out_[i].type, run.outputs[i]);
    }
    for (int64_t i = 0; i < n_carried_; ++i)
      __builtin_memcpy(ptrs[in_.size() + i], bound[i]->data(),
                       numel(out_[i].type.shape) * dtype_size(out_[i].type.dtype));
  }
  int64_t n_carried_, trips_;
  std::vector<Operand> in_, out_;
  std::vector<PlanInput> inputs_;
  std::shared_ptr<const Plan> plan_;
  bool strided_carry_ = false;
};
}  // namespace

std::unique_ptr<Kernel> make_region_kernel(const KernelRequest& r, const Graph& body,
                                           const PlanOptions& options) {
  return std::make_unique<LoopKernel>(r, body, options);
}

}  // namespace yuloh
