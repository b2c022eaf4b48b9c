// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured on the executor's threads: the roofs that kernels are compared
// with. Arithmetic: independent multiply-adds in registers; memory: streams far larger than the caches.
#pragma once
#include <vector>

namespace yuloh {

struct Peak {
  const char* name;  // "fp32", "bf16", "int8": operations/s (a multiply-add is two); "read", "copy": bytes/s
  double rate;
};
// Best of as many tries as fit into `seconds` each. A dtype that the CPU has no multiply-add for is left out.
std::vector<Peak> machine_peaks(double seconds);

}  // namespace yuloh
