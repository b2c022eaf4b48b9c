// SPDX-License-Identifier: Apache-2.0
// What a container grants this process: the folders of its control groups, and the memory that it may use.
// Limits may stand at any level between our group and the root: the smallest counts.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace yuloh {

// Calls f(folder, v2) for our group of a controller ("cpu", "memory") and everything above it.
void each_cgroup(const std::string& controller,
                 const std::function<void(const std::string& folder, bool v2)>& f);

struct MachineMemory {
  size_t total, available;  // bytes: of the machine or the container, whichever has less
};
MachineMemory machine_memory();

// Seconds, summed over CPUs, for which a CPU quota has stopped our group so far (0: no quota, or it is not
// told).
double throttled_seconds();

}  // namespace yuloh
