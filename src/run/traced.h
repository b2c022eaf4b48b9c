// SPDX-License-Identifier: Apache-2.0
// TracedProgram: a Program as data, made by running a function (usually Python) on placeholders. Ops of the
// table with their attributes, weights by name, and open sizes: where an input's size is not fixed, every
// number that follows from it is an expression. Writers of model files walk this structure; a Session records
// it again for concrete sizes.
#pragma once
#include <functional>

#include "run/program.h"
#include "run/recording.h"

namespace yuloh {

// sum of coefficient * product of open sizes, divided. Exact: a remainder is an error (the sizes do not suit
// the model).
struct DimExpr {
  enum class Rounding : uint8_t { kExact, kDown, kUp };
  struct Term {
    int64_t coefficient = 0;
    std::vector<int32_t> dims;  // numbers of open sizes; empty: a constant
  };
  std::vector<Term> terms;
  int64_t divisor = 1;
  Rounding rounding = Rounding::kExact;
  bool evaluate(const std::vector<int64_t>& sizes,
                int64_t* r) const;  // false: not a whole number, or too large
  std::string text(const std::vector<std::string>& names) const;
};

struct TracedRef {
  uint32_t node = 0, index = 0;
  bool operator==(const TracedRef&) const = default;
};

struct TracedNode {
  enum class Kind : uint8_t { kOp, kInput, kWeight, kScalar } kind = Kind::kOp;
  const OpDef* op = nullptr;
  Attrs attrs;  // kOp: words in schema order; kScalar: the number's bits, as in Node
  std::vector<std::pair<uint32_t, DimExpr>> open;  // words of attrs that depend on open sizes
  std::vector<TracedRef> inputs;                   // without the implicit seed and offset of random ops
  uint32_t number = 0;                             // of the input or weight
  DType dtype = DType::kFloat32;                   // kScalar
  std::string where;                               // "file:line" of the user's code
};

struct TracedWeight {
  std::string name;       // as in state_dict; empty: a constant of the code
  std::string parameter;  // the tensor's own name
  bool trainable = false, is_parameter = false;
  Value value;  // data
};

class TracedProgram : public Program {
 public:
  std::vector<std::string> dims;  // names of the open sizes; input ports refer to them by dim_names
  std::vector<TracedNode> nodes;  // inputs first
  std::vector<TracedRef> results;
  std::vector<TracedWeight> weights;
  Values record(const Values& inputs) const override;
  // With other values in the weights' place; `all`, if given, takes the outputs of every node.
  Values replay(const Values& inputs, const Values& weight_values, std::vector<Values>* all = nullptr,
                const Made& made = {}) const;
  std::vector<NamedValue> named_weights() const override;
  Values record_by_place(const Values& inputs, const Made& made) const override;
  std::vector<int64_t> bind_sizes(const Values& inputs) const;
  std::vector<uint32_t> statistics()
      const;  // numbers of the weights that are running statistics (OpDef::statistics)
};

// One run of the function with concrete sizes.
struct Trace {
  std::vector<int64_t> sizes;  // of the open sizes
  std::vector<TensorType> types;
  std::vector<TracedNode> nodes;
  std::vector<TracedRef> results;
  std::vector<TracedWeight> weights;
  std::vector<TensorType> result_types;
};
// `where`, if given, says where a node stems from; otherwise its own position does.
Trace take_trace(const Recording& recording, const std::vector<Value>& inputs,
                 const std::vector<Value>& outputs, const std::vector<NamedValue>& names,
                 const std::function<std::string(const Node&)>& where = {});

// `corners`: 2^n traces, in trace b open size i has its second value where bit i of b is set. `more`: further
// traces that the expressions must agree with; the first with sizes that share no factor with the corners'
// decides rounding.
std::shared_ptr<TracedProgram> generalise(const std::vector<Trace>& corners, const std::vector<Trace>& more,
                                          std::vector<ProgramPort> inputs,
                                          std::vector<std::string> output_names,
                                          std::vector<std::string> dims);

}  // namespace yuloh
