// SPDX-License-Identifier: Apache-2.0
// Tile program: the device-free loop nest that elementwise, reduction and row-wise composites fuse into. The
// CPU runs it block by block with SIMD kernels per primitive (cpu/tile_*); CUDA and OpenCL will print source
// from it. Data path: passes/ -> tile/fuse (groups of nodes) -> Program -> Kernel.
//
// Iteration domain: `outer` rows x `inner` columns, where outer is up to kMaxOuter strided dims and inner is
// one dim. A register holds one block (R rows x inner columns; or part of a long row when no row reduction is
// present), a row register holds one value per row (results of row reductions; row-constant loads).
// Instructions run in order per block.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/op.h"

namespace yuloh {

enum class CType : uint8_t {
  kF32,
  kF64,
  kI64,
  kB8
};  // compute types; half types compute in f32, all ints in i64
CType compute_type(DType t);

struct TileOperand {
  DType dtype;
  Ints outer_strides;    // per outer dim, elements
  int64_t inner_stride;  // 0: one value per row; 1: contiguous; else strided
  int buffer;            // index into the kernel's pointers
};

struct TileInstr {
  enum class Kind : uint8_t {
    kLoad,   // reg[dst] = operand[a] converted to its compute type
    kStore,  // operand[b] = reg[a] converted/rounded to its dtype
    kPrim,   // reg[dst] = prim(reg[a], reg[b], reg[c]); prim kCast converts between compute types
    kRound,  // reg[dst] = reg[a] rounded to dtype (bf16/f16, narrow ints wrap): rounding is part of meaning
    kRowReduce,  // row[dst] = reduce over the columns of reg[a]; fixed tree by shape only
    kColReduce,  // accumulate reg[a] over all rows into column accumulator dst; written at the end to operand
                 // b
    kAllReduce,  // accumulate over rows and columns into one value, written at the end to operand b
  } kind;
  Prim prim = Prim::kArg;
  ReduceKind reduce = ReduceKind::kNone;
  CType type = CType::kF32;       // compute type of the result
  CType from = CType::kF32;       // compute type of the operands (compares, casts, select's values)
  DType dtype = DType::kFloat32;  // kRound: target; kLoad/kStore: storage type
  int dst = -1, a = -1, b = -1, c = -1;
  double imm = 0;    // kPrim kConst
  bool row = false;  // the result is a row register (all operands are row registers or row-constant)
};

struct TileProgram {
  static constexpr int kMaxOuter = 6;
  Shape outer;        // extents of outer dims (may be empty)
  int64_t inner = 1;  // columns
  std::vector<TileOperand> operands;
  std::vector<TileInstr> instrs;
  int n_regs = 0;
  int n_buffers = 0;              // pointers taken: inputs, then outputs
  bool needs_whole_rows = false;  // a row reduction is present
  // The first `keep` outer dims are not reduced by kColReduce / kAllReduce: each of their index tuples is an
  // instance of its own, with its own accumulators and its own result (operand b has its strides there, 0 in
  // the other outer dims). The tree of one instance depends only on the product of the remaining outer
  // extents and on `inner`.
  int keep = 0;
};
std::string to_string(const TileProgram& p);
std::string key_of(const TileProgram& p);  // all fields: equal keys are equal programs
// Throws kRuntime when the program breaks its own rules (register used before set, type mismatch, bad
// operand).
void verify(const TileProgram& p);

}  // namespace yuloh
