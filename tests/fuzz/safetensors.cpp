// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a safetensors file. They must give tensors or an Error, in little time and
// memory; every tensor that is given is read to its last byte.
//
// sources: src/base/*.cpp src/formats/mapped_file.cpp src/formats/whole_file.cpp src/formats/safetensors.cpp tests/fuzz/stubs.cpp
#include "formats/safetensors.h"

#include <cstdint>

using namespace yuloh;

namespace {
unsigned g_sum = 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto s = make_ref<Storage>();
    s->data = const_cast<uint8_t*>(data), s->bytes = size, s->free = [] {};
    for (const auto& [name, t] : formats::read_safetensors("fuzz.safetensors", s).tensors) {
      const size_t bytes = static_cast<size_t>(numel(t.type.shape)) * dtype_size(t.type.dtype);
      const auto* p = static_cast<const unsigned char*>(t.buffer->data());
      for (size_t i = 0; i < bytes; ++i) g_sum += p[i];
    }
  } catch (const Error&) {}
  return 0;
}
