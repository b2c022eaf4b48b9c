// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a Paddle PIR program. Its weights file is absent: a program that wants one
// is refused at the end, after all of it was read.
//
// sources: src/base/*.cpp src/formats/mapped_file.cpp src/formats/foreign.cpp src/formats/pir.cpp src/formats/paddle_weights.cpp
// sources: src/formats/whole_file.cpp tests/fuzz/stubs.cpp
#include "formats/paddle.h"
#include "fuzz/walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fuzz::walk(*yuloh::formats::read_pir("fuzz/model.json", fuzz::storage(data, size), "fuzz/none"));
  } catch (const yuloh::Error&) {}
  return 0;
}
