// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: what a model expects of its weights (the first bytes: count, then dtype, rank and sizes
// of each), and any bytes as the weights file.
//
// sources: src/base/*.cpp src/formats/mapped_file.cpp src/formats/foreign.cpp src/formats/paddle_weights.cpp src/formats/whole_file.cpp
// sources: tests/fuzz/stubs.cpp
#include <cstring>

#include "formats/paddle.h"
#include "fuzz/walk.h"

using namespace yuloh;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const uint8_t* end = data + size;
  const auto byte = [&] { return data < end ? *data++ : uint8_t{0}; };
  std::map<std::string, TensorType> expected;
  for (int n = byte() % 5, i = 0; i < n; ++i) {
    TensorType t{static_cast<DType>(byte() % (static_cast<int>(DType::kFloat8E5M2) + 1)), {}};
    for (int rank = byte() % 6; rank > 0; --rank) {
      const int64_t d = byte();  // 200 and more: absurd
      t.shape.push_back(d < 200 ? d : int64_t{1} << (d - 193));
    }
    expected.emplace(cat("w", i), t);
  }
  try {
    for (const auto& [name, t] :
         formats::read_paddle_weights(fuzz::file(data, static_cast<size_t>(end - data)), expected))
      fuzz::touch(t);
  } catch (const Error&) {}
  return 0;
}
