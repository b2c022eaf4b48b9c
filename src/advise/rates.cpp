// SPDX-License-Identifier: Apache-2.0
#include "advise/rates.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace yuloh::advise {
namespace {
constexpr double kAssumedEfficiency = 0.5;
constexpr double kFarWeight =
    2;  // all or nothing from beyond the caches is as far apart as two octaves of size

std::string op_of(const std::string& name) { return name.substr(0, name.find(':')); }

HostRates host_from(const nlohmann::json& j) {
  HostRates h{j.at("step").get<double>(), j.at("call").get<double>(), j.at("call_cold").get<double>(),
              j.at("kernel").get<double>(), j.at("byte").get<double>()};
  for (double x : {h.step, h.call, h.call_cold, h.kernel, h.byte})
    if (!(x >= 0) || !std::isfinite(x))
      value_error("device file: what the host takes is negative, got ", x, ". Hint: run yuloh calibrate.");
  return h;
}
}  // namespace

Work work_of(const Step& s, bool optimizer, double far) {
  return {Rates::name_of(s.kind, s.what, optimizer), s.dtype, s.kernel->cost.flops, s.kernel->cost.bytes,
          far};
}

Rates Rates::assumed(int threads) {
  Rates r;
  r.device = "a CPU that was not measured: catalogue peak x assumed efficiency (yuloh calibrate measures it)";
  r.fp32 = 1e11 * threads, r.bf16 = 2e11 * threads, r.bandwidth = 3e10;
  r.per_kernel = 2e-6, r.spread = 3;
  r.training = r.inference = {2e-4, 2e-6, 6e-6, 1e-6, 1e-10};
  r.interpreter = 55e6, r.scratch = 13e6, r.code_share = 0.7, r.step_bytes = 1e4;
  return r;
}

Rates Rates::from_json(const nlohmann::json& j) {
  try {
    if (const int v = j.at("version").get<int>(); v != kDeviceFileVersion)
      value_error("device file: written by another version, got ", v, "; expected ", kDeviceFileVersion,
                  ". Hint: run yuloh calibrate.");
    Rates r;
    r.origin = Origin::kMeasured;
    r.device = j.at("name").get<std::string>();
    const auto& peaks = j.at("peaks");
    r.fp32 = peaks.at("fp32").get<double>(), r.bf16 = peaks.value("bf16", r.fp32);
    r.bandwidth = peaks.at("copy").get<double>();
    r.per_kernel = j.at("per_kernel").get<double>(), r.cache = j.at("cache").get<double>();
    r.training = host_from(j.at("host_rates").at("training")),
    r.inference = host_from(j.at("host_rates").at("inference"));
    r.spread = j.at("spread").get<double>();
    const auto& process = j.at("process");
    r.interpreter = process.at("interpreter").get<double>(), r.scratch = process.at("scratch").get<double>();
    r.code_share = process.value("code_share", 1.0), r.process_spread = process.value("spread", 0.1);
    r.step_bytes = process.at("step_bytes").get<double>(), r.disturbed = j.value("disturbed", "");
    for (const auto& row : j.at("efficiencies")) {
      const auto name = row.at("name").get<std::string>(), dtype = row.at("dtype").get<std::string>();
      const Point p{row.at("log2_roof_ns").get<double>(), row.at("log2_intensity").get<double>(),
                    row.at("far").get<double>(), row.at("efficiency").get<double>()};
      r.measured_[{name, dtype}].push_back(p);
      if (const std::string op = op_of(name); op != name) r.measured_[{op, dtype}].push_back(p);
    }
    if (r.measured_.empty())
      value_error("device file: it has no efficiencies of kernels. Hint: run yuloh calibrate.");
    for (double x : {r.fp32, r.bf16, r.bandwidth, r.cache})
      if (!(x > 0) || !std::isfinite(x))
        value_error("device file: a peak is not positive, got ", x, ". Hint: run yuloh calibrate.");
    for (const auto& [key, points] : r.measured_)
      for (const Point& p : points)
        if (!(p.efficiency > 0) || !std::isfinite(p.efficiency) || !std::isfinite(p.roof) ||
            !std::isfinite(p.intensity) || !std::isfinite(p.far))
          value_error("device file: the efficiency of ", key.first, " is not a positive number, got ",
                      p.efficiency, ".");
    return r;
  } catch (const nlohmann::json::exception& e) {
    value_error("device file: not what yuloh calibrate writes (", e.what(), "). Hint: run yuloh calibrate.");
  }
}

std::string Rates::name_of(std::string_view kind, std::string_view what, bool optimizer) {
  if (optimizer || kind == "optimizer") return "optimizer";
  if (kind == "elementwise" || kind == "reduction") return std::string(kind);
  return cat(kind, "/", what.substr(0, what.find(' ')));
}

double Rates::roof(const Work& w) const {
  return std::max({w.flops / (is_half(w.dtype) ? bf16 : fp32), w.bytes / bandwidth, 1e-9});
}

double Rates::intensity(double flops, double bytes) {
  return std::log2(std::max({flops, bytes / 16, 1.0}) / std::max(bytes, 1.0));
}

double Rates::seconds(const Work& w) const {
  const double t = roof(w), at = std::log2(t * 1e9), dense = intensity(w.flops, w.bytes);
  const std::string dtype(dtype_name(w.dtype)), like = is_half(w.dtype) ? "bfloat16" : "float32";
  auto it = measured_.find({w.name, dtype});
  if (it == measured_.end()) it = measured_.find({w.name, like});
  if (it == measured_.end()) it = measured_.find({op_of(w.name), like});
  if (it == measured_.end()) it = measured_.find({"reduction", like});  // some loop nest
  if (it == measured_.end()) return per_kernel + t / kAssumedEfficiency;
  double sum = 0, weights = 0;  // log of efficiency, by distance
  for (const Point& p : it->second) {
    const double d = std::pow(p.roof - at, 2) + std::pow(p.intensity - dense, 2) +
                     std::pow(kFarWeight * (p.far - w.far), 2);
    const double weight = 1 / (d * d + 0.05);
    sum += weight * std::log(p.efficiency), weights += weight;
  }
  return std::max(per_kernel, t / std::exp(sum / weights));
}

double Rates::host_seconds(bool train, double calls, double kernels, double moved, double read) const {
  const HostRates& h = train ? training : inference;
  const double cold = std::min(1.0, moved / (kColdTraffic * cache));
  return cold * h.step + calls * (h.call + cold * h.call_cold) + kernels * h.kernel + read * h.byte;
}

}  // namespace yuloh::advise
