// SPDX-License-Identifier: Apache-2.0
// Package: a TracedProgram as one file of our own: ops by name, attributes by argument name, weights aligned for mapping,
// a hash over each part. Reading maps the file, verifies every length, name, type and hash, and copies no weight.
#pragma once
#include <memory>
#include <string>

#include "run/traced.h"

namespace yuloh::formats {

// Written beside, synced and renamed: the old file or the new one is there, never half of one.
void write_package(const TracedProgram& p, const std::string& path);
std::shared_ptr<TracedProgram> read_package(const std::string& path);
bool is_package(const std::string& path);  // by content

}  // namespace yuloh::formats
