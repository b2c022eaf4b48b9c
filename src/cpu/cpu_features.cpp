// SPDX-License-Identifier: Apache-2.0
#include "cpu/cpu_features.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace yuloh {
namespace {
Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kSse2;
}
Isa& limit() {
  static Isa value = [] {
    const char* s = std::getenv("YULOH_MAX_ISA");
    if (s && !std::strcmp(s, "sse2")) return Isa::kSse2;
    if (s && !std::strcmp(s, "avx2")) return Isa::kAvx2;
    return Isa::kAvx512;
  }();
  return value;
}
}  // namespace

Isa hardware_isa() {
  static const Isa isa = detect();
  return isa;
}
Isa cpu_isa() { return hardware_isa() < limit() ? hardware_isa() : limit(); }
void set_max_isa(Isa max) { limit() = max; }
const char* isa_name(Isa isa) { return isa == Isa::kAvx512 ? "avx512" : isa == Isa::kAvx2 ? "avx2" : "sse2"; }

bool cpu_has_avx512_bf16() {
#if defined(__x86_64__)
  return hardware_isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

std::string cpu_summary() {
  std::string model = "unknown CPU", line;
  std::ifstream info("/proc/cpuinfo");
  while (std::getline(info, line))
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  model += std::string(", ") + isa_name(hardware_isa());
  if (cpu_has_avx512_bf16()) model += " with bf16";
  if (cpu_isa() != hardware_isa()) model += std::string(" (limited to ") + isa_name(cpu_isa()) + ")";
  return model;
}

}  // namespace yuloh
