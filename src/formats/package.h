// SPDX-License-Identifier: Apache-2.0
// Package: a program as one file of our own, a traced one or a Model of somebody else's file: graph, weights
// aligned for mapping, golden samples, input types to be ready for. Reading maps the file, verifies every
// byte of it (docs/package.md), and copies no weight.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "formats/model.h"
#include "run/traced.h"

namespace yuloh::formats {

// Inputs and what they gave where the package was made, in fp32 (or what the program itself says).
struct GoldenSample {
  std::vector<Value> inputs, outputs;  // data
  std::vector<double> tolerance;       // absolute, by output
};
struct PackageExtras {
  std::vector<GoldenSample> golden;
  std::vector<std::vector<TensorType>> warm;  // in place of the program's own, unless empty
  std::string about;                          // what it was made from
  // Tensors that NAME.pdiparams beside the package NAME.yuloh holds, too, stay there and are referred to.
  bool weights_beside = false;
};
struct PackageSection {
  std::string name;
  size_t bytes;
  uint64_t hash;
};
struct Package {
  std::shared_ptr<TracedProgram> traced;  // or
  std::shared_ptr<const Model> model;
  PackageExtras extras;
  std::vector<PackageSection> sections;
  uint64_t hash = 0;  // over all sections' hashes
  std::function<void()> drop_pages;
  std::shared_ptr<Program> program() const;  // with its warm types
};

// Written beside, synced and renamed: the old file or the new one is there, never half of one.
void write_package(const TracedProgram& p, const std::string& path, const PackageExtras& extras = {});
void write_package(const Model& m, const std::string& path, const PackageExtras& extras = {});
Package read_package(const std::string& path);
bool is_package(const std::string& path);  // by content

}  // namespace yuloh::formats
