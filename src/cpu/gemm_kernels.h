// SPDX-License-Identifier: Apache-2.0
// The micro-kernels of our GEMM, one table per instruction set (gemm_avx512.cpp, gemm_avx2.cpp,
// gemm_portable.cpp; all made from gemm_kernels.inl). A micro-kernel multiplies up to `mr` rows by a panel of
// `nr` columns.
#pragma once
#include <cstdint>

#include "cpu/gemm.h"

namespace yuloh::gemm_detail {

struct MicroArgs {
  int64_t k;
  const float* a;  // element (i, p) at a[i * a_row + p * a_col]
  int64_t a_row, a_col;
  const float* b;  // row p of the panel at b + p * b_row, nr floats readable
  int64_t b_row;
  float* c;
  int64_t c_row;
  int columns;        // valid columns of the panel
  bool accumulate;    // add to c (later blocks of k)
  bool last;          // apply the epilogue
  const float* bias;  // moved to this panel's first column
  const float* add;   // moved to this tile
  int64_t add_row;
  bool relu;
};
using MicroFn = void (*)(const MicroArgs&);

inline constexpr int kMaxRows = 14;
struct Kernels {
  int mr, nr;
  MicroFn micro[kMaxRows + 1];  // by number of rows
  MicroFn half[kMaxRows + 1];   // the same for at most nr / 2 columns
  MicroFn wide;                 // one row, 4 nr columns: enough independent sums to hide the latency
  // out[p * stride + r] = src[r * row_stride + p] for r < rows, p < k; columns [rows, width) become zero.
  void (*pack_transposed)(const float* src, int64_t row_stride, int rows, int64_t k, float* out,
                          int64_t stride, int width);
  // out[p * stride + r] = src[p * k_stride + r]
  void (*pack_rows)(const float* src, int64_t k_stride, int rows, int64_t k, float* out, int64_t stride,
                    int width);
  float (*dot)(const float* a, const float* b, int64_t n);
};
const Kernels& kernels_avx512();
const Kernels& kernels_avx2();
const Kernels& kernels_portable();
const Kernels& kernels();  // this machine's (gemm.cpp)
// out[q * stride + r] = s[r * r_stride + q * k_stride] for r < rows, q < k; columns [rows, width) become
// zero.
void pack(const Kernels& t, const float* s, int64_t r_stride, int64_t k_stride, int rows, int64_t k,
          float* out, int64_t stride, int width);

}  // namespace yuloh::gemm_detail
