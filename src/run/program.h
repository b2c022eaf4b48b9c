// SPDX-License-Identifier: Apache-2.0
// Program: a computation that can be recorded for any concrete input types: a file that was read, a traced
// Python function, a package. Session: runs one on buffers. It records on placeholders once per set of input
// types, compiles a Plan, keeps it in a cache bounded by bytes, and shares the weights between all shapes,
// threads and clones.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace yuloh {

struct ProgramPort {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;  // -1: any size
  std::vector<std::string> dim_names;
  bool ranked = true;  // false: any number of axes
};

// A weight as users know it.
struct NamedValue {
  std::string name, parameter;  // as in state_dict; the tensor's own name
  bool trainable, is_parameter;
  Value value;
};

class Program {
 public:
  virtual ~Program() = default;
  std::vector<ProgramPort> inputs, outputs;
  std::vector<std::vector<TensorType>> warm;  // input types that a Session gets ready for when it is made
  // Called when weights have been folded or packed into new memory: pages that can be read from their file
  // again may go.
  std::function<void()> drop_pages;
  // Weights are data nodes (make_data) made once: equal for every call. Throws NeedsData where a value of a
  // placeholder must be read to go on (read_value of run/recording.h does). Called from any thread.
  virtual Values record(const Values& inputs) const = 0;
  // For writers of files (run/retrace.h): the weights that `record` uses by name, and `record` with a call of
  // `made` after each piece, naming the line or node that everything recorded since the last call stems from.
  virtual std::vector<NamedValue> named_weights() const { return {}; }
  using Made = std::function<void(const std::string& place)>;
  virtual Values record_by_place(const Values& inputs, const Made&) const { return record(inputs); }
};

// Thrown when recording on placeholders reads a value that depends on the data fed.
struct NeedsData : Error {
  using Error::Error;
};

struct SessionOptions {
  PlanOptions plan;
  bool fold_weights = true;                 // batch norm into the convolution or product before it
  DType precision = DType::kFloat32;        // kBFloat16: matrix products and convolutions compute in it
  std::vector<std::string> keep_precision;  // op names that stay in fp32 ("disabled_ops")
  size_t min_segment = 1;                   // contractions of a segment of fewer ops stay in fp32 (passes.h)
  size_t memory_limit = 0;  // bytes of weights, plans, workspaces of all runs together; 0: none
  size_t plan_cache_bytes = size_t{256} << 20;
};

// One option as text, for every binding: "precision" = "float32" | "bfloat16"; "keep_precision" = row names
// with commas between them; "min_segment", "memory_limit", "plan_cache_bytes" = numbers; "fold_weights",
// "fusion", "library", "rules" = "0" | "1". kValue for a value that makes no sense; false: there is no such
// option.
bool set_option(SessionOptions* o, const std::string& key, const std::string& value);
bool switch_value(const std::string& key, const std::string& value);
size_t number_value(const std::string& key, const std::string& value);

// weights, plans, slack (free blocks kept, where a request finds its workspace) and other (interpreter,
// libraries, the rest of the program) add up to process (resident bytes). workspace: of the largest shape;
// mapped: weights that lie in their file only, not in memory; limit: 0 where there is none.
struct MemoryItem {
  std::string what;
  size_t bytes;
};

class Session {
 public:
  Session(std::shared_ptr<const Program> program, SessionOptions options);
  ~Session();
  // Thread-safe. Row-major or strided buffers in, row-major buffers out. Raises what is wrong with the inputs
  // by name.
  std::vector<Ref<Buffer>> run(const std::vector<TensorType>& types, const std::vector<Ref<Buffer>>& inputs,
                               std::vector<TensorType>* out_types);
  std::shared_ptr<const Plan> prepare(
      const std::vector<TensorType>& types);           // compiles ahead; null: needs data
  void warm_up(const std::vector<TensorType>& types);  // compiles and runs once on zeros
  std::shared_ptr<Session> clone() const;              // shares program, weights and plans
  std::vector<MemoryItem> memory_report() const;
  const Program& program() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace yuloh
