// SPDX-License-Identifier: Apache-2.0
#include "advise/device.h"

#include <algorithm>
#include <cmath>

namespace yuloh::advise {

Precision used_for(const Device& d, Precision asked) {
  if (d.peak(asked) > 0) return asked;
  for (Precision p : row(asked).instead)
    if (d.peak(p) > 0) return p;
  return asked;
}

// Where only rates of matrix units are known: fp32 is 1/8 (MI300X, V100) to 1/28 (B200) of the half rate on
// devices for training that state both.
constexpr double kVector = 1 / 16.0;
double Device::rate(Precision p) const {
  const double half = std::max({peak(Precision::kFp16), peak(Precision::kBf16), 2 * peak(Precision::kTf32)});
  return peak(p) <= 0 && row(p).served == 4 ? kVector * half : peak(p);
}

void check(const Device& d) {
  const auto need = [&](const std::string& what, double v, double low, double high) {
    if (!(std::isfinite(v) && v >= low && v <= high))
      value_error("advise: device '", d.name, "' has an impossible ", what, ", got ", v, "; expected ", low,
                  " to ", high, ". Hint: check the device file.");
  };
  need("memory", d.memory, 1 << 20, 1e16), need("bandwidth", d.bandwidth, 1e6, 1e16);
  for (const PrecisionRow& p : Table<Precision>::rows)
    need(std::string(p.name) + " rate", d.peak(p.id), 0, 1e20);
  need("link", d.link, 0, 1e16), need("link of a pair", d.pair_link, 0, 1e16),
      need("host link", d.host_link, 0, 1e16), need("watts", d.watts, 0, 1e6);
  need("number per server", d.per_node, 1, 1 << 16), need("efficiency", d.matrix_efficiency, 0, 1),
      need("efficiency", d.stream_efficiency, 0, 1);
  if (d.spread != 0) need("spread", d.spread, 1, 100);
  need("factor of the plan", d.slower, 1e-6, 1e6), need("runtime", d.runtime, 0, 1e16);
  need("runtime", d.runtime_doubt, 0, 1e16);
  if (std::isnan(d.price) || d.price > 1e9)
    value_error("advise: device '", d.name, "' has an impossible price, got ", d.price,
                ". Hint: check --prices.");
  if (d.rate(Precision::kFp32) <= 0)
    value_error("advise: device '", d.name, "' has no rate of arithmetic. Hint: check the device file.");
}
void check(const Fabric& f) {
  const auto rate = [](double v) { return std::isfinite(v) && v >= 1e6 && v <= 1e13; };
  if (!(rate(f.rate) && (f.rate_server == 0 || rate(f.rate_server)) && std::isfinite(f.latency) &&
        f.latency >= 0 && f.latency <= 1))
    value_error("advise: impossible network, got ", f.rate, " bytes/s and ", f.latency,
                " s. Hint: check --network.");
}

}  // namespace yuloh::advise
