// SPDX-License-Identifier: Apache-2.0
// Error measures of the first-divergence finder: one value against what float64 makes of the same inputs, in
// units of what one rounding can do to it (docs/diff.md says why these).
#pragma once
#include "ir/node.h"

namespace yuloh::diff {

struct Measure {
  int64_t n = 0;
  double max_error = 0;          // largest absolute difference
  double largest = 0;            // largest finite magnitude expected
  double units = 0;              // largest difference, in roundings
  double typical_units = 0;      // half of the elements differ by less
  double systematic = 0;         // share of the squared error that one factor and one offset explain
  int64_t at = -1;               // where it is largest; row-major
  double got = 0, expected = 0;  // there
  int64_t not_finite = 0;        // NaN or inf where a finite number (or the other of the two) is expected
  bool overflow =
      false;  // at least one of these: infinite where the expected number is beyond the type's largest
  int64_t differing = 0, sensitive = 0;  // integers: differ; would differ by a few roundings of the inputs
};

// `expected` and `nudged` (one rounding of every input) are float64 or, of integral values, the integers
// themselves. `unit`: the rounding, relative. `type`: whose range counts.
Measure measure(const Value& got, const Value& expected, const Value& nudged, double unit, DType type);

// The same whatever the order of elements: count, sum, sum of magnitudes and squares, smallest, largest.
struct Sketch {
  double n = 0, sum = 0, magnitude = 0, squares = 0, low = 0, high = 0;
};
Sketch sketch(const Value& v);
double unit_roundoff(DType t);  // 0: not a floating-point type
double largest_finite(DType t);

}  // namespace yuloh::diff
