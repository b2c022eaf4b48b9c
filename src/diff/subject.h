// SPDX-License-Identifier: Apache-2.0
// Subject: a program taken apart for the first-divergence finder. Whatever it came from (ONNX, Paddle, a
// package), it has named inner values in an order, each made by an op of the file; any stretch between known
// values is a program of its own, which runs as it is or in float64, and which a package can hold. What is
// inside a loop's or branch's body counts as one op.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "run/program.h"

namespace yuloh::diff {

// An inner value and the op that makes it.
struct Spot {
  std::string name;
  std::string op;                   // as the file calls it
  std::string where;                // what its author would recognise: node name, source line
  std::vector<std::string> inputs;  // names of the op's activations
  std::vector<std::string> weights;
  TensorType type;
  bool product = false;  // sums of products take part, which a Session may lower to bf16
};

// Every floating-point number of inputs and weights times 1 + size * (1 or -1), by a counter-based generator.
struct Perturbation {
  double size = 0;
  uint64_t seed = 0;
};

class Subject {
 public:
  virtual ~Subject() = default;
  std::vector<ProgramPort> inputs;
  std::vector<std::string> input_names, outputs;  // of values: a port may have another
  // In recording order; without lists and what weights alone decide. Reads data where shapes depend on them.
  virtual std::vector<Spot> spots(const Values& in) const = 0;
  // What lies between: `wanted` from `known`. Inputs that it does not need are dropped.
  virtual std::shared_ptr<Subject> cut(const std::vector<std::pair<std::string, TensorType>>& known,
                                       const std::vector<std::string>& wanted) const = 0;
  virtual std::shared_ptr<const Program> program() const = 0;
  // All in float64; floating-point inputs are widened. Throws what an op says that cannot.
  virtual Values record_wide(const Values& in, const Perturbation& p) const = 0;
  virtual void save(const std::string& path) const = 0;  // a package
};

std::shared_ptr<Subject> read_subject(const std::string& path, const std::string& params);

Value widened(const Value& v, const Perturbation& p,
              uint64_t stream);  // data or placeholder; others stay as they are

}  // namespace yuloh::diff
