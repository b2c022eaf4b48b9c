// SPDX-License-Identifier: Apache-2.0
// Special functions without a vector form, in double.
#include <math.h>

#include "base/error.h"
#include "cpu/tile_table.h"

namespace yuloh::tile {
namespace {
constexpr double kPi = 3.14159265358979323846;

// Newton on ::erf(y) = x with the exact derivative; three steps from a 4-digit start reach double precision.
double erfinv_start(double x) {
  const double w = ::log1p(-x * x), a = 0.147, t = 2 / (kPi * a) + w / 2;
  return ::copysign(::sqrt(::sqrt(t * t - w / a) - t), x);
}
}  // namespace

double erfinv(double x) {
  if (!(x > -1 && x < 1)) return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
  if (x == 0) return x;
  double y = erfinv_start(x);
  for (int i = 0; i < 4; ++i) {
    // far out erf is flat: use erfc, which keeps its relative precision
    const double e =
        ::fabs(x) < 0.5 ? ::erf(y) - x : ((1 - ::fabs(x)) - ::erfc(::fabs(y))) * (x < 0 ? -1 : 1);
    const double step = e / (2 / ::sqrt(kPi) * ::exp(-y * y));
    y -= step / (1 + y * step);  // Halley
  }
  return y;
}

double digamma(double x) {
  if (x == 0) return ::copysign(INFINITY, -x);
  if (x < 0) {
    if (x == ::floor(x)) return NAN;
    return digamma(1 - x) - kPi / ::tan(kPi * x);
  }
  double r = 0;
  for (; x < 10; x += 1) r -= 1 / x;
  const double z = 1 / (x * x);  // asymptotic series, error below 1e-16 from 10 on
  const double series =
      z * (1.0 / 12 -
           z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760))))));
  return r + ::log(x) - 0.5 / x - series;
}

double log_gamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

const Table& table_for(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return table_avx512();
  if (isa == Isa::kAvx2) return table_avx2();
#endif
  return table_sse2();
}

}  // namespace yuloh::tile
