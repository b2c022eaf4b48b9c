// SPDX-License-Identifier: Apache-2.0
// JPEG files to pixels. The decoder is libjpeg-turbo, found when it is first needed: the copy that Pillow
// brings, else the system's. The module is built and works without either; then Python decodes (jpeg_ready()
// says so).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/image.h"

namespace yuloh::data {

// Loads the first of `candidates` that has the interface this was built for; returns its name, "" when none
// has.
std::string load_jpeg_library(const std::vector<std::string>& candidates);
bool jpeg_ready();

struct JpegSize {
  int width = 0, height = 0;  // 0: not a file for us (no JPEG, four channels, 12 bits, arithmetic coding)
};
// From the header alone; `bytes` may be the beginning of a file.
JpegSize jpeg_size(const uint8_t* bytes, size_t count);
JpegSize jpeg_size(const std::string& path);
// Up to `most` bytes of a plain file; false for anything else (a pipe would block). `bytes` only grows.
bool read_file(const std::string& path, size_t most, std::vector<uint8_t>* bytes, size_t* count);

// The part `want` of the image, bit-equal to a full decode. False: the file is damaged, cut off or not for
// us; `out` holds nothing then. Rows below `want` are not read.
bool decode_jpeg(const uint8_t* bytes, size_t count, const Rect& want, Image* out);

}  // namespace yuloh::data
