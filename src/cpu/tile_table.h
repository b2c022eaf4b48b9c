// SPDX-License-Identifier: Apache-2.0
// The primitive kernels of tile programs, as tables of function pointers: one table per instruction set,
// filled by tile_kernels.inl. A kernel works on packed blocks of rows x columns in the compute type; an
// operand may instead hold one value per row ("scalar form"). Kernels may run in place (dst == operand of the
// same type). Data path: tile_compile.cpp picks pointers from the table once, tile_kernel.cpp calls them
// block by block.
#pragma once
#include <cstdint>

#include "base/dtype.h"
#include "cpu/cpu_features.h"
#include "ops/scalar.h"

namespace yuloh::tile {

inline constexpr int kNumCTypes = 4;    // CType order: f32, f64, i64, b8
inline constexpr int kNumStorage = 10;  // DType up to float64
inline constexpr int kNumReduce = 7;    // ReduceKind order: none, sum, prod, max, min, any, all
// Sums: element i of a leaf of kLeaf elements goes to lane i % kLanes; lanes, then leaves, combine by
// halving.
inline constexpr int kLanes = 32;
inline constexpr int kLeaf = 1024;
// Column sums: kColGroup rows one after the other, groups combine pairwise.
inline constexpr int kColGroup = 64;

// Bit k of the form: operand k is in scalar form. Kernels that can fail take an int32_t flag as `c`.
using PrimFn = void (*)(void* d, const void* a, const void* b, const void* c, int64_t rows, int64_t cols);
// Storage <-> compute type. Strides in elements on the storage side; the compute side is packed.
using LoadFn = void (*)(void* d, const void* s, int64_t rows, int64_t cols, int64_t row_stride,
                        int64_t col_stride);
using StoreFn = LoadFn;
// d[r] = reduce(a[r, :]); scratch: cols / kLeaf + 1 elements.
using RowReduceFn = void (*)(void* d, const void* a, int64_t rows, int64_t cols, int64_t row_stride,
                             void* scratch);
// acc[c] = op(acc[c], a[0, c]), then a[1, c] ...
using ColReduceFn = void (*)(void* acc, const void* a, int64_t rows, int64_t cols, int64_t row_stride);
using LanesFn = void (*)(void* lanes, const void* a, int64_t n, int64_t first_lane);
using FoldFn = void (*)(void* values, int64_t n);  // halving in place, result in values[0]; destroys the rest

struct ReduceEntry {
  RowReduceFn row;
  ColReduceFn col;
  LanesFn lanes;
  FoldFn fold;
  PrimFn combine;   // elementwise d = op(a, b)
  PrimFn identity;  // fills rows * cols elements
};

// The gates of an LSTM for n hidden units of one batch row; gate k of x, bias, act and dz lies k * hidden
// further (lstm_gates.inl). A null-free contract: absent gradients point at zeros.
struct LstmGates {
  int64_t n, hidden, panel;  // panel: from gate to gate in z, the state's share
  const float *x, *bias, *z, *before;
  float *act, *cell, *h, *copy;  // copy: h once more, where the next step reads it
};
struct LstmGatesBack {
  int64_t n, hidden;
  const float *act, *cell, *before, *dh, *gh, *gc;
  float *dc, *dz, *copy;  // dc: in and out
};

// The same of a GRU; s is the state's share.
struct GruGates {
  int64_t n, hidden, panel;
  const float *x, *bias, *s, *before;
  float *act, *h, *copy;
};
struct GruGatesBack {
  int64_t n, hidden;
  const float *act, *before, *dh, *gh;
  float *carry, *dx, *ds, *copy;  // carry: in and out
};

// A block of attention scores for kLanes queries, one key after the other, so that all sums run over whole
// vectors (attention_rows.inl). Key diagonal + i is hidden from the queries before query i; diagonal == keys:
// none is.
struct AttentionBlock {
  float *scores, *grads;  // keys x kLanes
  int64_t keys, diagonal;
  float *lse, *delta;  // softmax: results log(sum(exp)) and 1 / sum; back: lse and sum(g * out)
};

// Two f32 primitives that one pass can do together, d = second(first(a, b), c); form bits as for primitives,
// of a, b, c. Half of a fused loop's time goes into passing blocks through L1 between primitives.
enum class First : uint8_t { kAdd, kSub, kMul, kLt, kGt, kNone };
enum class Second : uint8_t { kAdd, kSub, kFrom, kMul, kOrZero, kNone };  // kFrom: c - x; kOrZero: x ? c : 0
inline constexpr int kNumFirst = static_cast<int>(First::kNone), kNumSecond = static_cast<int>(Second::kNone);

struct Table {
  PrimFn prim[kNumPrims][kNumCTypes][8];   // by operand type and form; null: not defined
  PrimFn chain[kNumFirst][kNumSecond][8];  // null: not defined
  PrimFn cast[kNumCTypes][kNumCTypes];     // [from][to]
  PrimFn round[kNumStorage][kNumCTypes];   // [target][compute type]; null: nothing to do
  PrimFn
      narrow[kNumStorage];  // i64 cast from a real -> narrow int: outside int32 and NaN give INT32_MIN first
  PrimFn expand[kNumCTypes];  // d[r, c] = a[r]
  LoadFn load[kNumStorage];
  StoreFn store[kNumStorage];
  ReduceEntry reduce[kNumReduce][kNumCTypes];
  void (*lstm_gates)(const LstmGates& p);
  void (*lstm_gates_back)(const LstmGatesBack& p);
  void (*gru_gates)(const GruGates& p);
  void (*gru_gates_back)(const GruGatesBack& p);
  void (*attention_softmax)(const AttentionBlock& p);
  void (*attention_softmax_back)(const AttentionBlock& p);
  // Rows of a cross-entropy by storage of x and of the result: 0 f32, 1 bf16 (softmax_nll.inl).
  void (*nll_lse[2])(const void* x, int64_t n, float* lse);
  void (*nll_dx[2][2])(const void* x, int64_t n, float lse, float g, int64_t label, void* out);
  void (*row_dots)(const float* a, const float* b, int64_t rows, int64_t cols, float* out);
};

const Table& table_sse2();
const Table& table_avx2();
const Table& table_avx512();
const Table& table_for(Isa isa);

// Special functions without a vector form (tile_special.cpp, compiled for the baseline).
double digamma(double x);
double erfinv(double x);
double log_gamma(double x);

}  // namespace yuloh::tile
