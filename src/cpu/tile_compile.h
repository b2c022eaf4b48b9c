// SPDX-License-Identifier: Apache-2.0
// TileProgram -> TileCode: everything that can be decided before the first run. Axes are merged, a block
// shape is chosen, registers become places in an L1 scratch (or aliases of operand memory), row-invariant
// work is hoisted, and every instruction becomes one Step holding a function pointer. Data path: tile/program
// -> here -> tile_kernel.cpp runs it.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "cpu/tile_table.h"
#include "tile/program.h"

namespace yuloh::tile {

inline int64_t size_of(CType t) { return t == CType::kF32 ? 4 : t == CType::kB8 ? 1 : 8; }

// How many elements a step touches in a block of R rows and C columns.
enum class Extent : uint8_t { kOne, kRows, kCols, kAll, kGrid };  // 1x1, 1xR, 1xC, 1x(R*C), RxC

struct Step {
  enum class Kind : uint8_t { kPrim, kLoad, kStore, kReplicate, kRowReduce, kColReduce, kAllReduce } kind;
  Extent extent = Extent::kAll;
  uint8_t size = 0;                     // bytes per element of the result (or of the reduced value)
  bool strided = false;                 // reductions that read operand memory row by row
  uint16_t d = 0, a = 0, b = 0, c = 0;  // places; d: number of the reduction for kColReduce, kAllReduce
  int16_t operand = -1;
  union {
    PrimFn prim;
    LoadFn load;
    RowReduceFn row;
    ColReduceFn col;
    LanesFn lanes;
  };
  Step() : prim(nullptr) {}
};

struct Operand {
  DType dtype;
  int buffer;
  int64_t size;               // bytes per element
  Ints outer;                 // strides in bytes, per merged outer dimension
  int64_t inner;              // in bytes
  bool linear;                // all rows are one arithmetic sequence
  int64_t row;                // its step in bytes
  int64_t low = 0, high = 0;  // byte range around the pointer that the program may touch
};

struct Accumulator {  // one kColReduce or kAllReduce
  const ReduceEntry* ops;
  int operand;
  int64_t size;  // bytes per element
  bool columns;
  int64_t workspace = 0;  // offset
};

struct Place {  // where a register lives
  enum class Kind : uint8_t { kScratch, kOperand, kConst } kind;
  int64_t offset;  // scratch or constant pool, bytes
};

struct TileCode {  // one way to run the program; see compile() for the two variants
  std::vector<Step> hoisted, body;
  std::vector<Place> places;                 // the first ones are the operands
  int64_t scratch = 0;                       // bytes
  std::vector<std::pair<int, int>> hazards;  // (buffer written, buffer read later in the block)
};

struct TilePlan {
  const Table* table;
  Isa isa;
  Shape outer;
  int64_t rows = 1, cols = 1;
  int64_t block_rows = 1, block_cols = 1;  // R (also an upper bound) and column block
  int64_t clamp = 0;                       // blocks do not cross multiples of this many rows (0: they may)
  bool whole_rows = false;                 // block_cols == cols
  bool linear_order = false;               // an all-reduction: rows before column blocks
  int64_t chunk_rows = 1, chunk_cols = 1, row_chunks = 1, col_chunks = 1;
  double weight = 1;  // work per element, in additions
  std::vector<Operand> operands;
  std::vector<Accumulator> accumulators;
  std::vector<char> constants;
  bool checks = false;        // has steps that can raise
  bool fixed_chunks = false;  // chunk boundaries are part of the result's bits
  int64_t workspace = 0;
  TileCode fast, safe;  // safe: nothing aliases operand memory, all loads stand before all stores
};

void plan_geometry(const TileProgram& p, TilePlan* plan);  // tile_geometry.cpp
TilePlan compile(const TileProgram& p);
inline bool join_primitives = true;  // off: one primitive a pass, which the tests compare with, bit for bit

}  // namespace yuloh::tile
