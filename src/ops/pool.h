// SPDX-License-Identifier: Apache-2.0
// Pooling geometry shared by inference, reference loops (ops/pool.cpp) and CPU kernels (cpu/pool.cpp): which
// elements a window meets and what an average is divided by.
#pragma once
#include "ops/window.h"

namespace yuloh {

struct PoolGeometry {
  Window3 w;
  int64_t end[3];  // input extent + trailing padding: where non-exclusive counting stops
  Ints out;        // output extents, one per spatial dim
};
PoolGeometry pool_geometry(const Call& c, const Shape& x);  // throws kValue

struct Taps {
  int64_t begin, end;  // input positions along one axis
};
Taps pool_taps(const Window3& w, int axis, int64_t o);
double pool_divisor(const PoolGeometry& g, bool exclusive, int64_t divisor, const int64_t o[3]);

}  // namespace yuloh
