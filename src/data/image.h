// SPDX-License-Identifier: Apache-2.0
// The loader's image while it is worked on: four bytes a pixel (red, green, blue, unused; grey lives in the
// first), rows one after the other. Moves (crop, resize, flip, pad) are integers that Python drew; what they
// do to a pixel is what Pillow does, bit by bit, so that the thread path and the Python path give the same
// batch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace yuloh::data {

struct Image {
  int width = 0, height = 0;
  std::size_t stride = 0, origin = 0;  // bytes: between rows, and of the first pixel
  std::vector<uint8_t>
      pixels;  // kept between images, so that a thread allocates once; readable kSlack beyond the last row
  static constexpr std::size_t kSlack = 64;
  uint8_t* row(int y) { return pixels.data() + origin + y * stride; }
  const uint8_t* row(int y) const { return pixels.data() + origin + y * stride; }
  void trim() {  // one huge picture shall not stay in memory for good
    if (pixels.size() > (32u << 20)) std::vector<uint8_t>().swap(pixels);
  }
  void reshape(int w, int h) {
    width = w, height = h, stride = static_cast<std::size_t>(w) * 4, origin = 0;
    const std::size_t bytes = stride * h + kSlack;
    if (pixels.size() < bytes) pixels.resize(bytes);
  }
};

struct Rect {
  int top = 0, left = 0, height = 0, width = 0;
};

enum class Filter { kBilinear = 2, kBicubic = 3 };  // Pillow's numbers

// The part `r` of `in`; what lies outside `in` is 0.
void crop(const Image& in, const Rect& r, Image* out);
// `in` resampled to width x height as Pillow's Image.resize: smoothing when it shrinks, 8-bit results between
// the two passes, across before down unless `down_first` (the order is Pillow's choice: newer versions look
// at the sizes). `scratch` holds the first pass.
void resize(const Image& in, int width, int height, Filter filter, bool down_first, Image* scratch,
            Image* out);
void flip(Image* image, bool horizontal, bool vertical);

}  // namespace yuloh::data
