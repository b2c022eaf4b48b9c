// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a package. Checksums count as right (formats/package.cpp: matches), so that what lies
// behind them is reached; all that is accepted is walked.
//
// sources: src/base/*.cpp src/ir/*.cpp src/run/traced.cpp src/formats/mapped_file.cpp src/formats/package.cpp
// sources: src/formats/package_traced.cpp src/formats/package_model.cpp src/formats/onnx_check.cpp src/formats/whole_file.cpp
// sources: src/ops/table.cpp src/ops/call.cpp src/ops/scalar.cpp src/ops/infer.cpp src/ops/fn.cpp tests/fuzz/stubs.cpp
// sources: tests/fuzz/stubs_ops.cpp
#include "formats/package.h"
#include "fuzz/walk.h"

using namespace yuloh;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const formats::Package p = formats::read_package(fuzz::file(data, size));
    const auto touch = [](const Value& v) { fuzz::touch(v.type(), *v.node->outputs[0].buffer); };
    if (p.model) fuzz::walk(*p.model);
    if (p.traced)
      for (const TracedWeight& w : p.traced->weights) touch(w.value);
    for (const formats::GoldenSample& s : p.extras.golden) {
      for (const Value& v : s.inputs) touch(v);
      for (const Value& v : s.outputs) touch(v);
    }
  } catch (const Error&) {
  }
  return 0;
}
