// SPDX-License-Identifier: Apache-2.0
// The group of devices that holds one copy of a served model: tensor parallel inside a server, as few as hold
// it, else a pipeline over servers besides; degrees that were given stay. A pipeline is kept full: it works
// on as many batches as it has stages.
#pragma once
#include <functional>
#include <optional>

#include "advise/layout.h"

namespace yuloh::advise {

// Degrees that are 0 (free) or a whole number; throws on anything else.
void check(const Freedom& free);
// Devices of all the degrees that were given; 1 where none was.
double given_devices(const Freedom& free);

// Batches that a served copy has in flight, and whether the memory for all of them is there (of each batch
// its keys and values; what a stage works with it needs for one).
inline double in_flight(const Job& j) { return j.pp; }
bool holds_full(const Network& n, const Job& j, const Device& d);

// Sets j.mp and j.pp (and j.dp = j.sharding = j.ep = 1: a copy) to the least group for which `held` is true.
// False: none.
bool least_group(const Network& n, Job& j, const Device& d, const Fabric& f, const Freedom& free,
                 const std::function<bool(const Job&)>& held);
// The job served by exactly `count` devices, where its memory fits; free.mp = 0 takes what the other degrees
// of `base` leave, and free.pp = 0 as many servers as that needs.
std::optional<Layout> group_layout(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                   double count, const Freedom& free);

}  // namespace yuloh::advise
