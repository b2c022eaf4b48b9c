// SPDX-License-Identifier: Apache-2.0
#include "plan/kernel.h"

#include <map>

namespace yuloh {
namespace {
std::map<std::string_view, std::vector<Candidate>>& registry() {
  static auto* r = new std::map<std::string_view, std::vector<Candidate>>;
  return *r;
}
TileBackend g_tile_backend = nullptr;

// The reference: the row's own loop nest over strided operands.
class HostKernel final : public Kernel {
 public:
  explicit HostKernel(const KernelRequest& r)
      : op_(r.call.op),
        attrs_(r.call.attrs),
        values_(placeholders(r)),
        call_(op_, values_.data(), values_.size(), attrs_) {
    for (const Operand& o : r.in) in_.push_back({nullptr, o.type.dtype, o.type.shape, o.strides});
    for (const Operand& o : r.out) out_.push_back({nullptr, o.type.dtype, o.type.shape, o.strides});
    for (const auto* v : {&in_, &out_})
      for (const HostOperand& o : *v) cost.bytes += static_cast<double>(numel(o.shape) * dtype_size(o.dtype));
  }
  void run(void* const* ptrs) override {
    size_t k = 0;
    for (auto& o : in_) o.data = ptrs[k++];
    for (auto& o : out_) o.data = ptrs[k++];
    op_.host(HostCall{call_, in_, out_});
  }
  std::string describe() const override { return "reference:" + op_.name; }

 private:
  static std::vector<Value> placeholders(
      const KernelRequest& r) {  // types only: the graph itself is not kept alive
    std::vector<Value> v;
    for (const Operand& o : r.in) v.push_back(make_input(o.type, 0));
    return v;
  }
  const OpDef& op_;
  Attrs attrs_;
  std::vector<Value> values_;
  Call call_;
  std::vector<HostOperand> in_, out_;
};
}  // namespace

void register_candidates(std::initializer_list<Candidate> rows) {
  for (const Candidate& c : rows) registry()[c.op].push_back(c);
}
const std::vector<Candidate>& candidates_for(std::string_view op) {
  static const std::vector<Candidate> none;
  const auto it = registry().find(op);
  return it == registry().end() ? none : it->second;
}

std::unique_ptr<Kernel> make_candidate(const KernelRequest& r, std::string* chosen,
                                       std::vector<std::string>* refusals) {
  for (const Candidate& c : candidates_for(r.call.op.name)) {
    std::string why;
    if (c.fits(r, &why))
      if (auto k = c.make(r)) {
        if (chosen) *chosen = std::string(c.name);
        return k;
      }
    if (refusals) refusals->push_back(cat(r.call.op.name, ": ", c.name, " refused: ", why));
  }
  return nullptr;
}

std::unique_ptr<Kernel> make_reference(const KernelRequest& r) {
  if (!r.call.op.host) fail(ErrorKind::kNotImplemented, r.call.op.name, ": no kernel for these operands.");
  return std::make_unique<HostKernel>(r);
}

void register_tile_backend(TileBackend b) { g_tile_backend = b; }
std::shared_ptr<Kernel> make_tile_kernel(const TileProgram& p) {
  verify(p);
  if (!g_tile_backend) fail(ErrorKind::kRuntime, "tile program: no device is registered.");
  return g_tile_backend(p);
}

}  // namespace yuloh
