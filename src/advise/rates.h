// SPDX-License-Identifier: Apache-2.0
// How long a kernel takes on a device: its roofline (operations over peak, bytes over bandwidth) divided by
// what kernels of its kind, dtype and size were measured to reach of it. The figures come from a device file
// of `yuloh calibrate`; without one they are assumed, and say so.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "advise/facts.h"
#include "plan/plan.h"

namespace yuloh::advise {

constexpr int kDeviceFileVersion = 3;  // 3: efficiencies by intensity and far share, what the host takes
// A step that moves this many times the caches' bytes leaves nothing of the host's in them.
constexpr double kColdTraffic = 4;

struct Work {        // one run of a kernel
  std::string name;  // Rates::name_of
  DType dtype = DType::kFloat32;
  double flops = 0, bytes = 0;
  double far = 0;  // share of the bytes that comes from beyond the caches (plan/traffic.h)
};
Work work_of(const Step& s, bool optimizer, double far);

// What one step takes beside its kernels: Python, recording, lookup, starting kernels, reading the result.
// The host's own data and code have left the caches when a step moves more than they hold.
struct HostRates {
  double step = 0;                 // seconds for a step whose data does not fit the caches
  double call = 0, call_cold = 0;  // for an op that Python calls; what comes on top when caches are cold
  double kernel = 0;               // for a kernel
  double byte = 0;                 // for a byte of a result that is read
};

class Rates {
 public:
  static Rates assumed(int threads);                          // of a CPU that nobody has measured
  static Rates from_json(const nlohmann::json& device_file);  // throws Error on what does not fit
  // Name of a kernel among those that share an efficiency: "conv/conv_grad_weight:onednn", "elementwise",
  // "optimizer".
  static std::string name_of(std::string_view kind, std::string_view what, bool optimizer);
  double roof(const Work& w) const;                     // seconds at full peak or bandwidth
  static double intensity(double flops, double bytes);  // log2 of operations per byte, -4 for copies
  double seconds(const Work& w) const;
  double host_seconds(bool training, double calls, double kernels, double moved, double read) const;

  std::string device;
  Origin origin = Origin::kAssumed;
  double fp32 = 0, bf16 = 0, bandwidth = 0;  // operations/s, bytes/s
  double cache = 32e6;                       // bytes that all caches hold
  double per_kernel = 0;                     // seconds of the shortest kernel
  HostRates training, inference;
  double spread = 2;  // what a step's time may differ by, as a factor either way
  double interpreter = 0, scratch = 0, code_share = 1,
         step_bytes = 0;  // the process: bytes before a model, of libraries,
  // per byte of plans, per step of a plan (compiling it needs memory that stays with the process)
  std::string disturbed;  // what else kept the machine busy when it was measured
  double process_spread = 0.15;

 private:
  struct Point {
    double roof, intensity;  // log2 of ns at full speed, and of operations per byte
    double far;
    double efficiency;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Point>>
      measured_;  // by name, with and without :kernel, and dtype
};

}  // namespace yuloh::advise
