// SPDX-License-Identifier: Apache-2.0
// How long a kernel takes on a device: its roofline (operations over peak, bytes over bandwidth) divided by what kernels
// of its kind, dtype and size were measured to reach of it. The figures come from a device file of `yuloh calibrate`;
// without one they are assumed, and say so.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "advise/facts.h"
#include "plan/plan.h"

namespace yuloh::advise {

constexpr int kDeviceFileVersion = 2;  // 2: efficiencies by intensity too

class Rates {
 public:
  static Rates assumed(int threads);            // of a CPU that nobody has measured
  static Rates from_json(const nlohmann::json& device_file);  // throws Error on what does not fit
  // Name of a kernel among those that share an efficiency: "conv/conv_grad_weight", "elementwise", "optimizer".
  static std::string name_of(std::string_view kind, std::string_view what, bool optimizer);
  double roof(const Step& s) const;  // seconds at full peak or bandwidth
  static double intensity(double flops, double bytes);  // log2 of operations per byte
  double seconds(const Step& s, bool optimizer) const;

  std::string device;
  Origin origin = Origin::kAssumed;
  double fp32 = 0, bf16 = 0, bandwidth = 0;     // operations/s, bytes/s
  double per_kernel = 0, per_node = 0;          // seconds: starting a kernel, recording and looking up a node
  double spread = 0.5;                          // what a step's time may differ by, as a share
  double interpreter = 0, scratch = 0, code_share = 1, node_bytes = 0;  // the process: bytes
  // before a model, of libraries, per byte of plans, per node of a step
  double process_spread = 0.15;

 private:
  struct Point {
    double roof, intensity;  // log2 of ns at full speed, and of operations per byte
    double efficiency;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Point>> measured_;  // by name and dtype
};

}  // namespace yuloh::advise
