// SPDX-License-Identifier: Apache-2.0
#include "diff/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "run/recording.h"

namespace yuloh::diff {
namespace {

constexpr int64_t kBlock = 64;  // neighbours that share an estimate

std::vector<double> numbers(const Value& v) {
  const TensorType& t = v.type();
  const Ref<Buffer> b = row_major(t, read_value(v));
  const int64_t n = numel(t.shape);
  std::vector<double> r(static_cast<size_t>(n));
  const char* p = static_cast<const char*>(b->data());
  const size_t width = dtype_size(t.dtype);
  for (int64_t i = 0; i < n; ++i) {
    const char* at = p + static_cast<size_t>(i) * width;
    r[static_cast<size_t>(i)] =
        is_integral(t.dtype) ? static_cast<double>(load_int(at, t.dtype)) : load_double(at, t.dtype);
  }
  return r;
}

double smallest_normal(DType t) {
  switch (t) {
    case DType::kFloat16: return 0x1p-14;
    case DType::kFloat64: return std::numeric_limits<double>::min();
    case DType::kFloat8E4M3: return 0x1p-6;
    case DType::kFloat8E5M2: return 0x1p-14;
    default: return std::numeric_limits<float>::min();
  }
}

// What one rounding of every input (and of the result) does to each element. The response of one element to
// one draw may be zero by chance, so neighbours are averaged; where a whole block does not respond (dead
// units), a quarter of the whole tensor's response stands in: what is fused before may have rounded there.
std::vector<double> rounding_units(const std::vector<double>& expected, const std::vector<double>& nudged,
                                   double unit, DType type) {
  const size_t n = expected.size();
  std::vector<double> r(n);
  double all = 0;
  size_t counted = 0;
  for (size_t i = 0; i < n; ++i) {
    const double d = nudged[i] - expected[i];
    r[i] = std::isfinite(d) ? d * d : 0;
    all += r[i], counted += std::isfinite(d);
  }
  const double floor = counted ? std::sqrt(all / static_cast<double>(counted)) / 4 : 0;
  for (size_t from = 0; from < n; from += kBlock) {
    const size_t to = std::min(n, from + kBlock);
    double sum = 0;
    for (size_t i = from; i < to; ++i) sum += r[i];
    const double local = std::max(floor, std::sqrt(sum / static_cast<double>(to - from)));
    for (size_t i = from; i < to; ++i)
      r[i] = local + (std::isfinite(expected[i]) ? unit * std::fabs(expected[i]) : 0) + smallest_normal(type);
  }
  return r;
}

// How much of the error one factor and one offset explain: rounding is scattered, a wrong constant is not.
double explained(const std::vector<double>& error, const std::vector<double>& expected) {
  double n = 0, e = 0, y = 0, ee = 0, yy = 0, ey = 0;
  for (size_t i = 0; i < error.size(); ++i) {
    if (!std::isfinite(error[i]) || !std::isfinite(expected[i])) continue;
    ++n, e += error[i], y += expected[i];
    ee += error[i] * error[i], yy += expected[i] * expected[i], ey += error[i] * expected[i];
  }
  if (n < 8 || ee == 0) return 0;
  const double vy = yy - y * y / n, cov = ey - e * y / n;
  double fit = e * e / n;
  if (vy > 0) fit += cov * cov / vy;
  return std::min(1.0, fit / ee);
}

Measure measure_integers(const std::vector<double>& a, const std::vector<double>& b,
                         const std::vector<double>& c) {
  Measure m;
  m.n = static_cast<int64_t>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    m.sensitive += b[i] != c[i];
    m.largest = std::max(m.largest, std::fabs(b[i]));
    const double d = std::fabs(a[i] - b[i]);
    if (d == 0) continue;
    ++m.differing;
    if (d > m.max_error) m.max_error = d, m.at = static_cast<int64_t>(i), m.got = a[i], m.expected = b[i];
  }
  return m;
}
}  // namespace

double unit_roundoff(DType t) {
  switch (t) {
    case DType::kFloat16: return 0x1p-11;
    case DType::kBFloat16: return 0x1p-8;
    case DType::kFloat32:
    case DType::kComplex64: return 0x1p-24;
    case DType::kFloat64:
    case DType::kComplex128: return 0x1p-53;
    case DType::kFloat8E4M3: return 0x1p-4;
    case DType::kFloat8E5M2: return 0x1p-3;
    default: return 0;
  }
}
double largest_finite(DType t) {
  switch (t) {
    case DType::kFloat16: return 65504;
    case DType::kBFloat16: return 0x1.fep127;
    case DType::kFloat64: return std::numeric_limits<double>::max();
    case DType::kFloat8E4M3: return 448;
    case DType::kFloat8E5M2: return 57344;
    default: return std::numeric_limits<float>::max();
  }
}

Measure measure(const Value& got, const Value& expected, const Value& nudged, double unit, DType type) {
  if (!(got.shape() == expected.shape()) || !(got.shape() == nudged.shape()))
    value_error("diff: shapes differ, got ", got.shape(), "; expected ", expected.shape(), " and ",
                nudged.shape(), ".");
  const std::vector<double> a = numbers(got), b = numbers(expected), c = numbers(nudged);
  if (is_integral(got.dtype()) || is_integral(expected.dtype())) return measure_integers(a, b, c);
  const std::vector<double> units = rounding_units(b, c, unit, type);
  Measure m;
  m.n = static_cast<int64_t>(a.size());
  std::vector<double> ratios(a.size()), errors(a.size());
  bool bad_seen = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(b[i])) m.largest = std::max(m.largest, std::fabs(b[i]));
    const bool both = std::isfinite(a[i]) && std::isfinite(b[i]);
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    // A mask's -3e38 that grows to -inf is meant; what comes of it is measured where it comes.
    const bool masked = std::isinf(a[i]) && a[i] < 0 && b[i] < -std::numeric_limits<float>::max();
    errors[i] = both ? a[i] - b[i] : 0;
    if (both || same || masked) {
      const double e = std::fabs(errors[i]);
      ratios[i] = e / units[i];
      m.max_error = std::max(m.max_error, e);
      if (!bad_seen && ratios[i] > m.units) m.at = static_cast<int64_t>(i), m.got = a[i], m.expected = b[i];
      m.units = std::max(m.units, ratios[i]);
      continue;
    }
    ++m.not_finite;
    if (std::isinf(a[i]) && std::fabs(b[i]) > largest_finite(type)) m.overflow = true;
    if (!std::exchange(bad_seen, true)) m.at = static_cast<int64_t>(i), m.got = a[i], m.expected = b[i];
  }
  m.systematic = explained(errors, b);
  if (!ratios.empty()) {
    const auto half = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), half, ratios.end());
    m.typical_units = *half;
  }
  return m;
}

Sketch sketch(const Value& v) {
  Sketch s;
  const std::vector<double> x = numbers(v);
  s.n = static_cast<double>(x.size());
  if (!x.empty()) s.low = s.high = x[0];
  for (double d : x) {
    s.sum += d, s.magnitude += std::fabs(d), s.squares += d * d;
    s.low = std::min(s.low, d), s.high = std::max(s.high, d);
  }
  return s;
}

}  // namespace yuloh::diff
