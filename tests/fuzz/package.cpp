// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a package. Checksums count as right (formats/package.cpp: matches), so that
// what lies behind them is reached; all that is accepted is walked.
//
// sources: src/base/*.cpp src/ir/*.cpp src/run/traced.cpp src/formats/mapped_file.cpp src/formats/package.cpp
// sources: src/formats/package_traced.cpp src/formats/package_model.cpp src/formats/onnx_check.cpp src/formats/whole_file.cpp
// sources: src/formats/paddle_weights.cpp src/formats/foreign.cpp
// sources: src/ops/table.cpp src/ops/call.cpp src/ops/scalar.cpp src/ops/infer.cpp src/ops/fn.cpp tests/fuzz/stubs.cpp
// sources: tests/fuzz/stubs_ops.cpp
#include "formats/package.h"

#include "fuzz/walk.h"

using namespace yuloh;

namespace {
// Every argument as a recording reads it.
void walk(const TracedNode& n) {
  if (n.kind == TracedNode::Kind::kScalar && n.attrs.size() != 1) std::abort();
  if (n.kind != TracedNode::Kind::kOp) return;
  const Call c(*n.op, nullptr, static_cast<uint32_t>(n.inputs.size()), n.attrs);
  uint32_t words = 0, inputs = 0;
  for (const ArgSpec& a : n.op->args) {
    if (words + (a.is_input() && a.kind != ArgKind::kOptTensor && a.kind != ArgKind::kTensorList ? 0 : 1) >
        n.attrs.size())
      std::abort();
    words += static_cast<uint32_t>(words_of(a, n.attrs.data() + words));
    if (words > n.attrs.size()) std::abort();
    if (a.is_input()) {
      const InputRange r = input_range(c, static_cast<int>(&a - n.op->args.data()));
      if (r.first != inputs) std::abort();
      inputs += r.count;
      continue;
    }
    if (!c.has(a.name)) continue;
    if (a.kind == ArgKind::kInts)
      for (int64_t v : c.ints(a.name)) fuzz::g_sum = fuzz::g_sum + static_cast<unsigned>(v);
    else if (a.kind == ArgKind::kFloats)
      fuzz::g_sum = fuzz::g_sum + static_cast<unsigned>(c.reals(a.name).size());
    else if (a.kind == ArgKind::kStr)
      for (char v : c.str(a.name)) fuzz::g_sum = fuzz::g_sum + static_cast<unsigned>(v);
    else if (a.kind == ArgKind::kDType && static_cast<uint64_t>(c.integer(a.name)) >= kNumDTypes)
      std::abort();
    else fuzz::g_sum = fuzz::g_sum + static_cast<unsigned>(c.integer(a.name));
  }
  if (words != n.attrs.size() || inputs != n.inputs.size()) std::abort();
  for (const auto& [word, e] : n.open)
    if (word >= n.attrs.size()) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const formats::Package p = formats::read_package(fuzz::file(data, size));
    const auto touch = [](const Value& v) { fuzz::touch(v.type(), *v.node->outputs[0].buffer); };
    if (p.model) fuzz::walk(*p.model);
    if (p.traced) {
      for (const TracedWeight& w : p.traced->weights) touch(w.value);
      for (const TracedNode& n : p.traced->nodes) walk(n);
    }
    for (const auto& types : p.extras.warm)
      for (const TensorType& t : types) {
        size_t bytes;
        if (__builtin_mul_overflow(static_cast<size_t>(numel(t.shape)), dtype_size(t.dtype), &bytes))
          std::abort();
      }
    for (const formats::GoldenSample& s : p.extras.golden) {
      for (const Value& v : s.inputs) touch(v);
      for (const Value& v : s.outputs) touch(v);
    }
  } catch (const Error&) {}
  return 0;
}
