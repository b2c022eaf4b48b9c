// SPDX-License-Identifier: Apache-2.0
// write_model: any Program (a Python function that was recorded, a file that was read) to a file of the
// format that its suffix names: .yuloh (package.h), .json (pir_write.h), .pdmodel, .onnx (onnx_write.h).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "run/program.h"

namespace yuloh::formats {

struct WriteOptions {
  int opset = 0;  // ONNX: 13 to 22; 0: kOnnxOpset
  int64_t external_data =
      -1;  // ONNX: tensors of so many bytes go to path.data; -1: only where a file would pass 2 GB
  std::vector<int64_t> results;                        // numbers of those to keep, in this order; empty: all
  std::vector<std::string> output_names;               // empty: the program's
  std::map<std::string, std::vector<int64_t>> shapes;  // fixes open sizes of inputs by name; -1: stays open
};
// A row without a counterpart: how often, where first, why.
struct Unwritable {
  std::string op;
  int count = 0;
  std::string place, why;
};

// Whole files or none. Throws Error: kNotImplemented naming everything without a counterpart, kValue for an
// unknown suffix or sizes that cannot stay open, NeedsData for a program whose structure depends on data,
// kOs.
void write_model(const Program& p, const std::string& path, const WriteOptions& o = {});
std::vector<Unwritable> unwritable(const Program& p, const std::string& path, const WriteOptions& o = {});

// For writers: gathers what cannot be written and raises it as one error.
class Refusals {
 public:
  void add(const std::string& op, const std::string& place, const std::string& why);
  void raise(const char* who, const std::string& format) const;  // returns where there is nothing
  std::vector<Unwritable> list;
};

}  // namespace yuloh::formats
