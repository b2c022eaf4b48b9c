// SPDX-License-Identifier: Apache-2.0
#include "advise/rates.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace yuloh::advise {
namespace {
constexpr double kAssumedEfficiency = 0.5;
}  // namespace

Rates Rates::assumed(int threads) {
  Rates r;
  r.device = "a CPU that was not measured (yuloh calibrate measures it)";
  r.fp32 = 1e11 * threads, r.bf16 = 2e11 * threads, r.bandwidth = 3e10;
  r.per_kernel = 2e-6, r.per_node = 1.5e-6, r.spread = 0.7;
  r.interpreter = 62e6, r.scratch = 6e6;
  return r;
}

Rates Rates::from_json(const nlohmann::json& j) {
  try {
    if (const int v = j.at("version").get<int>(); v != kDeviceFileVersion)
      value_error("device file: written by another version, got ", v, "; expected ", kDeviceFileVersion, ". Hint: run yuloh calibrate.");
    Rates r;
    r.origin = Origin::kMeasured;
    r.device = j.at("name").get<std::string>();
    const auto& peaks = j.at("peaks");
    r.fp32 = peaks.at("fp32").get<double>(), r.bf16 = peaks.value("bf16", r.fp32);
    r.bandwidth = peaks.at("copy").get<double>();
    r.per_kernel = j.at("per_kernel").get<double>(), r.per_node = j.at("per_node").get<double>();
    r.spread = j.at("spread").get<double>();
    const auto& process = j.at("process");
    r.interpreter = process.at("interpreter").get<double>(), r.scratch = process.at("scratch").get<double>();
    r.code_share = process.value("code_share", 1.0), r.process_spread = process.value("spread", 0.1);
    for (const auto& row : j.at("efficiencies"))
      r.measured_[{row.at("name").get<std::string>(), row.at("dtype").get<std::string>()}].emplace_back(
          row.at("log2_roof_ns").get<double>(), row.at("efficiency").get<double>());
    for (double x : {r.fp32, r.bf16, r.bandwidth})
      if (!(x > 0) || !std::isfinite(x)) value_error("device file: a peak is not positive, got ", x, ". Hint: run yuloh calibrate.");
    for (auto& [key, points] : r.measured_) {
      std::sort(points.begin(), points.end());
      for (const auto& [at, e] : points)
        if (!(e > 0) || !std::isfinite(e)) value_error("device file: the efficiency of ", key.first, " is not positive, got ", e, ".");
    }
    return r;
  } catch (const nlohmann::json::exception& e) {
    value_error("device file: not what yuloh calibrate writes (", e.what(), ").");
  }
}

std::string Rates::name_of(std::string_view kind, std::string_view what, bool optimizer) {
  if (optimizer) return "optimizer";
  if (kind == "elementwise" || kind == "reduction") return std::string(kind);
  return cat(kind, "/", what.substr(0, what.find(':')));
}

double Rates::roof(const Step& s) const {
  const KernelCost& c = s.kernel->cost;
  return std::max({c.flops / (is_half(s.dtype) ? bf16 : fp32), c.bytes / bandwidth, 1e-9});
}

double Rates::seconds(const Step& s, bool optimizer) const {
  const double t = roof(s), at = std::log2(t * 1e9);
  const std::string name = name_of(s.kind, s.what, optimizer);
  const auto find = [&](const std::string& dtype) { return measured_.find({name, dtype}); };
  auto it = find(std::string(dtype_name(s.dtype)));
  if (it == measured_.end()) it = find(is_half(s.dtype) ? "bfloat16" : "float32");
  if (it == measured_.end()) {  // the kind as a whole
    const std::string kind(s.kind);
    it = measured_.find({kind, "float32"});
  }
  if (it == measured_.end()) return per_kernel + t / kAssumedEfficiency;
  const auto& p = it->second;  // between two measured sizes: linear
  const auto hi = std::lower_bound(p.begin(), p.end(), std::make_pair(at, 0.0));
  double e;
  if (hi == p.end()) e = p.back().second;
  else if (hi == p.begin()) e = p.front().second * std::exp2(std::min(0.0, at - p.front().first));  // time, not rate, stays
  else {
    const auto lo = hi - 1;
    const double w = (at - lo->first) / (hi->first - lo->first);
    e = lo->second * (1 - w) + hi->second * w;
  }
  return t / e;
}

}  // namespace yuloh::advise
