// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as an ONNX file. They must give a Model or an Error, in little time and memory. A model
// that is accepted is walked: every weight is read to its last byte.
//
// sources: src/base/*.cpp src/formats/mapped_file.cpp src/formats/onnx.cpp src/formats/onnx_check.cpp
// sources: src/formats/onnx_tensors.cpp src/formats/onnx_types.cpp
#include <cstdint>
#include <functional>

#include "formats/readers.h"

using namespace yuloh;

namespace {
unsigned g_sum = 0;

void touch(const formats::FileTensor& t) {
  if (!t.buffer) return;
  const size_t bytes = static_cast<size_t>(numel(t.type.shape)) * dtype_size(t.type.dtype);
  const auto* p = static_cast<const unsigned char*>(t.buffer->data());
  for (size_t i = 0; i < bytes; i += 61) g_sum += p[i];
  if (bytes) g_sum += p[bytes - 1];
}
void walk(const formats::ModelGraph& g) {
  for (const auto& [name, t] : g.weights) touch(t);
  for (const auto& n : g.nodes)
    for (const auto& [name, a] : n.attrs) {
      if (const auto* t = std::get_if<formats::FileTensor>(&a)) touch(*t);
      if (const auto* b = std::get_if<std::shared_ptr<formats::ModelGraph>>(&a)) walk(**b);
    }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto s = make_ref<Storage>();
    s->data = const_cast<uint8_t*>(data), s->bytes = size, s->free = [] {};
    const auto m = formats::read_onnx("fuzz/model.onnx", s);
    walk(m->graph);
    for (const auto& [name, f] : m->functions) walk(f);
  } catch (const Error&) {
  }
  return 0;
}
