// SPDX-License-Identifier: Apache-2.0
// What this CPU can do. The tile kernels and our own GEMM are compiled once per level and pick one at run
// time. YULOH_MAX_ISA=sse2|avx2|avx512 in the environment (or set_max_isa) lowers the level, for tests and
// for bug reports.
#pragma once
#include <string>

namespace yuloh {

enum class Isa { kSse2, kAvx2, kAvx512 };  // AVX2 includes FMA and F16C; AVX-512 means F, BW, DQ, VL
Isa cpu_isa();                             // the level in use: min(hardware, limit)
Isa hardware_isa();                        // what the CPU and the operating system offer
void set_max_isa(Isa limit);               // affects kernels made afterwards
const char* isa_name(Isa isa);
bool cpu_has_avx512_bf16();
std::string cpu_summary();  // "AMD EPYC ..., avx512 (bf16, vnni)" for doctor and reports

}  // namespace yuloh
