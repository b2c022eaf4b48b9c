// SPDX-License-Identifier: Apache-2.0
// The CPU's tile interpreter: runs a TileProgram block by block on the executor team. plan/ reaches it
// through make_tile_kernel once register_cpu_tile() was called at start. Memory contract: an output may lie
// exactly on an input of the same element size and layout (in-place, any instruction order: the kernel looks
// at the pointers); overlap at other positions is undefined. Several threads may run one kernel. Bits depend
// on shapes and instruction set only, never on thread count, alignment or in-place use.
#pragma once
#include <memory>

#include "plan/kernel.h"

namespace yuloh {

std::unique_ptr<Kernel> make_cpu_tile_kernel(const TileProgram& p);
std::unique_ptr<Kernel> make_kept_tile_kernel(const TileProgram& p);  // tile_kept.cpp: program.keep > 0
void register_cpu_tile();

}  // namespace yuloh
