// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a Paddle ProgramDesc, without its weights file (see pir.cpp).
//
// sources: src/base/*.cpp src/formats/mapped_file.cpp src/formats/foreign.cpp src/formats/paddle_program.cpp src/formats/paddle_names.cpp
// sources: src/formats/paddle_weights.cpp src/formats/whole_file.cpp tests/fuzz/stubs.cpp
#include "formats/paddle.h"
#include "fuzz/walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fuzz::walk(
        *yuloh::formats::read_program_desc("fuzz/model.pdmodel", fuzz::storage(data, size), "fuzz/none"));
  } catch (const yuloh::Error&) {}
  return 0;
}
