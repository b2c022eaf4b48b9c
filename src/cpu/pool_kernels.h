// SPDX-License-Identifier: Apache-2.0
// What a pooling kernel works on, and the vector kernels of maximum pooling: one table per instruction set
// (pool_avx512.cpp, pool_avx2.cpp; both made from pool_kernels.inl). cpu/pool.cpp has the plain loops for the
// rest.
#pragma once
#include <vector>

#include "ops/pool.h"

namespace yuloh {

// One chunk: one sample, channels [0, width) of pointers already moved to the first channel.
struct PoolArgs {
  const PoolGeometry* g;
  int64_t channels;  // distance of neighbouring positions
  int64_t width;
  const void *x, *v;  // v: grad or values
  void* out;
  int32_t* index;
  float* plane;          // gradients add up here: input positions x plane_stride
  int64_t plane_stride;  // f32 results are their own plane
  bool exclusive;
  int64_t divisor;
  const Taps* taps[3];               // by axis and output coordinate
  const std::vector<int64_t>* gaps;  // input positions in no window
  const int64_t* offsets;            // of the taps of a whole window from its first position
  int64_t taps_n;
};
using PoolFn = void (*)(const PoolArgs&);

struct MaxPoolKernels {  // by element type: f32, bf16; null: none
  PoolFn forward[2], index[2];
  PoolFn backward[2];  // windows that do not overlap: every position is written once
};
const MaxPoolKernels* max_pool_avx512(int64_t channels);  // null where the compiler does not target it
const MaxPoolKernels* max_pool_avx2();

}  // namespace yuloh
