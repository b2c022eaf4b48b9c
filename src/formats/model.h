// SPDX-License-Identifier: Apache-2.0
// Model: somebody else's model file as read, before it becomes ops: named values, nodes with attributes, weights.
// One structure for all dialects (ONNX, Paddle ProgramDesc, Paddle PIR). Readers (onnx.cpp, paddle.cpp, pir.cpp) fill it
// and check every name, shape, type and length; import.h turns it into ops of the table, writers go the other way.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"

namespace yuloh::formats {

enum class Dialect : uint8_t { kOnnx, kPaddleProgram, kPaddlePir };

// A tensor in a file. Weights point into the mapped file (Storage with a free function): reading copies nothing.
struct FileTensor {
  TensorType type;      // concrete
  Ref<Buffer> buffer;   // row-major
};

struct ModelGraph;
using Attribute = std::variant<std::monostate, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, FileTensor, std::shared_ptr<ModelGraph>>;

// An input or output of a graph. A dim that is not fixed is -1; its name (may be empty) ties equal ones together.
struct Port {
  std::string name;
  DType dtype = DType::kFloat32;
  bool ranked = true;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_names;
};

struct ModelNode {
  std::string type;    // the dialect's own operator name
  std::string domain;  // ONNX; empty: the default one
  std::string name;    // as in the file, for messages
  std::vector<std::string> inputs, outputs;  // names of values; empty string: an optional one left out
  std::map<std::string, Attribute> attrs;
};

struct ModelGraph {
  std::string name;
  std::vector<Port> inputs, outputs;
  std::vector<ModelNode> nodes;                // in an order in which they can run
  std::map<std::string, FileTensor> weights;   // initializers, parameters
};

struct Model {
  Dialect dialect = Dialect::kOnnx;
  std::map<std::string, int64_t> opsets;  // ONNX: domain -> version
  std::string producer;
  ModelGraph graph;
  std::map<std::string, ModelGraph> functions;  // ONNX local functions by "domain:name"
};

// By content, not by extension. `params`: the weights file of Paddle's formats, empty: beside the model. Throws Error
// (kValue, kIo) that names the file, the offset or node and what was expected; never allocates more than the file holds.
std::shared_ptr<const Model> read_model(const std::string& path, const std::string& params = {});

}  // namespace yuloh::formats
