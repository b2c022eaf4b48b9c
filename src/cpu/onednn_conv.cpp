// SPDX-License-Identifier: Apache-2.0
#include "cpu/onednn_conv.h"

#include "cpu/onednn_common.h"
#include "ops/window.h"

namespace yuloh::onednn {
namespace {
using dnnl::memory;

enum class Role { kForward, kGradInput, kGradWeight };
Role role_of(const Call& c) {
  const std::string_view n = c.name();
  return n == "conv" ? Role::kForward : n == "conv_grad_input" ? Role::kGradInput : Role::kGradWeight;
}

// The three operands by what they are, whichever of them is the result.
struct Operands {
  const Operand &x, &weight, &y;
};
Operands operands(const KernelRequest& r) {
  switch (role_of(r.call)) {
    case Role::kForward: return {r.in[0], r.in[1], r.out[0]};
    case Role::kGradInput: return {r.out[0], r.in[1], r.in[0]};
    default: return {r.in[0], r.out[0], r.in[1]};
  }
}

// Weights as the library names them: groups split off the output channels.
memory::desc weight_desc(const Operand& w, int64_t groups, bool any) {
  memory::dims dims = dims_of(w.type.shape), strides = dims_of(w.strides);
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
    strides.insert(strides.begin(), strides[0] * dims[1]);
  }
  if (any) return {dims, data_type(w.type.dtype), memory::format_tag::any};
  return {dims, data_type(w.type.dtype), strides};
}

struct Prepared {
  dnnl::primitive conv, reorder;  // reorder: weights in (or out), empty when the layouts agree
  memory::desc x, weight, user_weight, y, scratch;
  Role role;
  std::string name;
  double flops = 0;
  size_t packed_bytes() const { return reorder ? align64(weight.get_size()) : 0; }
};

std::shared_ptr<void> prepare(const void* request) {
  const auto& r = *static_cast<const KernelRequest*>(request);
  const Operands o = operands(r);
  const int64_t groups = r.call.integer("groups");
  const Window w = window_of(r.call, spatial_of(o.weight.type.shape));
  memory::dims stride, dilation, begin, end;
  for (int i = 0; i < w.n; ++i) {
    stride.push_back(w.stride[i]), dilation.push_back(w.dilation[i] - 1);
    // What the window never reaches on the right is said as less (or negative) padding.
    const int64_t reach = (o.y.type.shape[2 + i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    begin.push_back(w.pad_begin[i]), end.push_back(reach - o.x.type.shape[2 + i] - w.pad_begin[i]);
  }
  auto p = std::make_shared<Prepared>();
  p->role = role_of(r.call);
  p->x = activation_desc(o.x), p->y = activation_desc(o.y);
  p->user_weight = weight_desc(o.weight, groups, false);
  const memory::desc any = weight_desc(o.weight, groups, true);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc fwd(
      engine(),
      p->role == Role::kForward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
      direct, p->x, any, p->y, stride, dilation, begin, end, attr);
  const auto keep = [&](const auto& pd, const memory::desc& weight, const dnnl::primitive& conv) {
    p->conv = conv, p->weight = weight, p->scratch = pd.scratchpad_desc(), p->name = pd.impl_info_str();
  };
  if (p->role == Role::kForward) {
    keep(fwd, fwd.weights_desc(), dnnl::convolution_forward(fwd));
  } else if (p->role == Role::kGradInput) {
    dnnl::convolution_backward_data::primitive_desc pd(engine(), direct, p->x, any, p->y, stride, dilation,
                                                       begin, end, fwd, attr);
    // Depthwise with strides: the library's first choice works group by group, some hundred times slower.
    const bool per_group = groups > 8 && o.weight.type.shape[1] <= 4;
    while (per_group &&
           std::string_view(pd.impl_info_str()).find("brgconv_strided") != std::string_view::npos)
      if (!pd.next_impl()) break;
    keep(pd, pd.weights_desc(), dnnl::convolution_backward_data(pd));
  } else {
    const dnnl::convolution_backward_weights::primitive_desc pd(engine(), direct, p->x, any, p->y, stride,
                                                                dilation, begin, end, fwd, attr);
    keep(pd, pd.diff_weights_desc(), dnnl::convolution_backward_weights(pd));
  }
  if (p->weight != p->user_weight) {
    const bool out = p->role == Role::kGradWeight;
    p->reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine(), out ? p->weight : p->user_weight,
                                                             engine(), out ? p->user_weight : p->weight));
  }
  const Shape& ws = o.weight.type.shape;
  p->flops = 2.0 * static_cast<double>(numel(o.y.type.shape)) *
             static_cast<double>(numel(ws) / std::max<Dim>(ws[0], 1));
  return p;
}

class ConvKernel final : public Kernel {
 public:
  ConvKernel(std::shared_ptr<Prepared> p, FixedData* fixed_weight) : p_(std::move(p)) {
    if (fixed_weight && p_->reorder && p_->role != Role::kGradWeight)
      packed_ = packed(p_->user_weight, p_->weight, *fixed_weight);
  }
  size_t workspace_bytes() const override { return moved_bytes() + p_->scratch.get_size(); }
  void keeps(KeptBytes* k) const override {
    k->add(sizeof *this);
    if (k->first(p_.get())) k->add(sizeof *p_ + kPrimitiveBytes);
    if (packed_ && k->first(packed_.get())) k->add(packed_->data->bytes);
  }
  bool reads(size_t input) const override { return input != 1 || !packed_; }
  std::string describe() const override {
    return "onednn:" + p_->name + (packed_ ? " on packed weight" : p_->reorder ? " + weight reorder" : "");
  }
  void run(void* const* ptrs) override {
    const int weight_at = p_->role == Role::kGradWeight ? 2 : 1;
    char* work = static_cast<char*>(ptrs[3]);
    const memory user(p_->user_weight, engine(), ptrs[weight_at]);
    const memory weight = packed_       ? memory(p_->weight, engine(), packed_->data->data)
                          : p_->reorder ? memory(p_->weight, engine(), work)
                                        : user;
    if (p_->reorder && !packed_ && p_->role != Role::kGradWeight)
      p_->reorder.execute(stream(), {{DNNL_ARG_FROM, user}, {DNNL_ARG_TO, weight}});
    std::unordered_map<int, memory> args;
    switch (p_->role) {
      case Role::kForward:
        args = {{DNNL_ARG_SRC, mem(p_->x, ptrs[0])},
                {DNNL_ARG_WEIGHTS, weight},
                {DNNL_ARG_DST, mem(p_->y, ptrs[2])}};
        break;
      case Role::kGradInput:
        args = {{DNNL_ARG_DIFF_DST, mem(p_->y, ptrs[0])},
                {DNNL_ARG_WEIGHTS, weight},
                {DNNL_ARG_DIFF_SRC, mem(p_->x, ptrs[2])}};
        break;
      case Role::kGradWeight:
        args = {{DNNL_ARG_SRC, mem(p_->x, ptrs[0])},
                {DNNL_ARG_DIFF_DST, mem(p_->y, ptrs[1])},
                {DNNL_ARG_DIFF_WEIGHTS, weight}};
        break;
    }
    if (p_->scratch.get_size()) args.emplace(DNNL_ARG_SCRATCHPAD, mem(p_->scratch, work + moved_bytes()));
    p_->conv.execute(stream(), args);
    if (p_->reorder && p_->role == Role::kGradWeight)
      p_->reorder.execute(stream(), {{DNNL_ARG_FROM, weight}, {DNNL_ARG_TO, user}});
    stream().wait();
  }

 private:
  static memory mem(const memory::desc& d, void* p) { return memory(d, engine(), p); }
  size_t moved_bytes() const { return packed_ ? 0 : p_->packed_bytes(); }
  std::shared_ptr<Prepared> p_;
  std::shared_ptr<const Packed> packed_;
};
}  // namespace

bool conv_fits(const KernelRequest& r, std::string* why) {
  const Operands o = operands(r);
  if (!dtype_fits(o.x.type.dtype, why) || any_empty(r, why)) return false;
  for (const Operand* a : {&o.x, &o.y})
    if (!is_channels_last(a->type.shape, a->strides)) {
      *why = "an activation is not channels-last";
      return false;
    }
  if (!is_dense_in_order(o.weight.type.shape, o.weight.strides)) {
    *why = "the weight is not dense";
    return false;
  }
  return true;
}

LayoutWish conv_layouts(const Call& c) {
  LayoutWish w;
  w.in.resize(2), w.out.resize(1);
  const Role role = role_of(c);
  w.in[0] = channels_last_strides(c.type(0).shape);
  if (role == Role::kGradWeight) w.in[1] = channels_last_strides(c.type(1).shape);
  const TensorType out = c.op.infer(c)[0];
  w.out[0] = role == Role::kGradWeight ? row_major_strides(out.shape) : channels_last_strides(out.shape);
  return w;
}

std::unique_ptr<Kernel> make_conv(const KernelRequest& r) {
  try {
    auto p = prepared<Prepared>(signature(r), prepare, r);
    auto k = std::make_unique<ConvKernel>(p, operands(r).weight.fixed);
    k->cost.flops = p->flops;
    for (const auto* list : {&r.in, &r.out})
      for (const Operand& o : *list)
        k->cost.bytes += static_cast<double>(numel(o.type.shape) * dtype_size(o.type.dtype));
    return k;
  } catch (const dnnl::error&) {
    return nullptr;  // the library has no implementation: the next candidate takes over
  }
}

}  // namespace yuloh::onednn
