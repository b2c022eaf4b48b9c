// SPDX-License-Identifier: Apache-2.0
// Model: somebody else's model file as read, before it becomes ops: named values, nodes with attributes,
// weights. One structure for all dialects (ONNX, Paddle ProgramDesc, Paddle PIR). Readers (onnx.cpp,
// paddle.cpp, pir.cpp) fill it and check every name, shape, type and length; import.h turns it into ops of
// the table, writers go the other way.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"

namespace yuloh::formats {

enum class Dialect : uint8_t {
  kOnnx,
  kPaddle
};  // Paddle: PIR's operator names, whichever of its formats was read

// A tensor in a file. Weights point into the mapped file (Storage with a free function): reading copies
// nothing.
struct FileTensor {
  TensorType type;     // concrete
  Ref<Buffer> buffer;  // row-major; null for strings
  int stored_as =
      0;  // ONNX: the element type in the file where the IR holds it wider (uint16 as int32), else 0
  std::vector<std::string> strings;
};
// Inside a function's body: the value of the caller's attribute of this name.
struct AttributeRef {
  std::string name;
};

struct ModelGraph;
using Attribute =
    std::variant<std::monostate, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, FileTensor, std::shared_ptr<ModelGraph>, AttributeRef>;

// An input or output of a graph. A dim that is not fixed is -1; its name (may be empty) ties equal ones
// together.
struct Port {
  std::string name, label;  // label: what users call it where the value's name is another, else empty
  DType dtype = DType::kFloat32;
  int stored_as = 0;  // as in FileTensor
  bool ranked = true, optional = false;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_names;
};

struct ModelNode {
  std::string type;                          // the dialect's own operator name
  std::string domain, overload;              // ONNX; empty: the default one
  std::string name;                          // as in the file, for messages
  std::vector<std::string> inputs, outputs;  // names of values; empty string: an optional one left out
  std::vector<size_t> list_sizes;            // Paddle: how many names each argument has in `inputs`
  std::map<std::string, Attribute> attrs;
};

struct ModelGraph {
  std::string name;
  std::vector<Port> inputs, outputs;
  std::vector<ModelNode> nodes;               // in an order in which they can run
  std::map<std::string, FileTensor> weights;  // initializers, parameters
  // Of functions only: versions their bodies are written for, and what an attribute is when the caller leaves
  // it out.
  std::map<std::string, int64_t> opsets;
  std::map<std::string, Attribute> defaults;
};

struct Model {
  Dialect dialect = Dialect::kOnnx;
  std::map<std::string, int64_t> opsets;  // ONNX: domain -> version
  std::string producer, path;
  ModelGraph graph;
  std::map<std::string, ModelGraph>
      functions;  // ONNX local functions by "domain:name" (with an overload: "domain:name:overload")
};

// By content, not by extension. `params`: the weights file of Paddle's formats, empty: beside the model.
// Throws Error (kValue, kOs) that names the file, the offset or node and what was expected; never allocates
// more than the file holds.
std::shared_ptr<const Model> read_model(const std::string& path, const std::string& params = {});

}  // namespace yuloh::formats
