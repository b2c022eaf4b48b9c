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
    r.node_bytes = process.value("node_bytes", 0.0);
    for (const auto& row : j.at("efficiencies"))
      r.measured_[{row.at("name").get<std::string>(), row.at("dtype").get<std::string>()}].push_back(
          {row.at("log2_roof_ns").get<double>(), row.at("log2_intensity").get<double>(), row.at("efficiency").get<double>()});
    for (double x : {r.fp32, r.bf16, r.bandwidth})
      if (!(x > 0) || !std::isfinite(x)) value_error("device file: a peak is not positive, got ", x, ". Hint: run yuloh calibrate.");
    for (const auto& [key, points] : r.measured_)
      for (const Point& p : points)
        if (!(p.efficiency > 0) || !std::isfinite(p.efficiency) || !std::isfinite(p.roof) || !std::isfinite(p.intensity))
          value_error("device file: the efficiency of ", key.first, " is not a positive number, got ", p.efficiency, ".");
    return r;
  } catch (const nlohmann::json::exception& e) {
    value_error("device file: not what yuloh calibrate writes (", e.what(), "). Hint: run yuloh calibrate.");
  }
}

std::string Rates::name_of(std::string_view kind, std::string_view what, bool optimizer) {
  if (optimizer || kind == "optimizer") return "optimizer";
  if (kind == "elementwise" || kind == "reduction") return std::string(kind);
  return cat(kind, "/", what.substr(0, what.find(':')));
}

double Rates::roof(const Step& s) const {
  const KernelCost& c = s.kernel->cost;
  return std::max({c.flops / (is_half(s.dtype) ? bf16 : fp32), c.bytes / bandwidth, 1e-9});
}

double Rates::intensity(double flops, double bytes) { return std::log2(std::max(flops, 1.0) / std::max(bytes, 1.0)); }

double Rates::seconds(const Step& s, bool optimizer) const {
  const double t = roof(s), at = std::log2(t * 1e9), dense = intensity(s.kernel->cost.flops, s.kernel->cost.bytes);
  const std::string name = name_of(s.kind, s.what, optimizer);
  const auto find = [&](const std::string& n, const std::string& dtype) { return measured_.find({n, dtype}); };
  auto it = find(name, std::string(dtype_name(s.dtype)));
  if (it == measured_.end()) it = find(name, is_half(s.dtype) ? "bfloat16" : "float32");
  if (it == measured_.end()) it = find("reduction", is_half(s.dtype) ? "bfloat16" : "float32");  // some loop nest
  if (it == measured_.end()) return per_kernel + t / kAssumedEfficiency;
  double sum = 0, weights = 0;  // log of efficiency, by distance
  for (const Point& p : it->second) {
    const double d = std::pow(p.roof - at, 2) + std::pow(p.intensity - dense, 2), w = 1 / (d * d + 0.05);
    sum += w * std::log(p.efficiency), weights += w;
  }
  return std::max(per_kernel, t / std::exp(sum / weights));
}

}  // namespace yuloh::advise
