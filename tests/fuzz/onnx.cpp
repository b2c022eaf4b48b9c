// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as an ONNX file. They must give a Model or an Error, in little time and memory.
// A model that is accepted is walked: every weight is read to its last byte.
//
// sources: src/base/*.cpp src/formats/mapped_file.cpp src/formats/foreign.cpp src/formats/onnx.cpp src/formats/onnx_check.cpp
// sources: src/formats/onnx_tensors.cpp src/formats/onnx_types.cpp
#include "formats/readers.h"
#include "fuzz/walk.h"

using namespace yuloh;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fuzz::walk(*formats::read_onnx("fuzz/model.onnx", fuzz::storage(data, size)));
  } catch (const Error&) {}
  return 0;
}
