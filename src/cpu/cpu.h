// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: what has to be called once at start, before the first plan is made.
#pragma once

namespace yuloh {

void register_cpu();       // candidate lists (candidates.cpp), then the tile back end
void register_cpu_tile();  // tile back end only (tile_kernel.cpp)

}  // namespace yuloh
