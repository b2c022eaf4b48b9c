// SPDX-License-Identifier: Apache-2.0
// Tile kernels for one instruction set (flags: targets.cmake).
#define TILE_TABLE table_avx512
#include "cpu/tile_kernels.inl"
