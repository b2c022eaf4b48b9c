// SPDX-License-Identifier: Apache-2.0
// Plan: an immutable list of kernel calls with buffer offsets, peak bytes, FLOPs and bytes moved, known
// before it runs. `compile` makes one from a closed Graph (placeholders with layouts in, values out); `run`
// executes it on bound buffers. Training step, inference request, memory estimate and advice are this same
// object stopped at different points.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/kernel.h"

namespace yuloh {

struct PlanInput {
  TensorType type;
  Ints strides;
  bool donatable = false;            // nobody else holds its buffer: an output may take it over
  bool scalar = false;               // a host scalar, passed by value
  std::shared_ptr<FixedData> fixed;  // where every run gets the same (weights of a Session)
};

struct PlanOptions {
  bool fusion = true;
  bool library = true;  // library candidates; off: reference kernels only
  bool donate = true;
  bool rules = true;               // rewrite rules and CSE
  bool explain = false;            // keep candidate decisions in Plan::explain and in the steps
  bool explain_fusion = false;     // ... and what fused with what
  bool lifetimes = false;          // keep Plan::lives
  bool row_major_outputs = false;  // results leave in row-major layout whatever the plan prefers
};

// Where a kernel argument lives.
struct Slot {
  enum class Kind : uint8_t { kInput, kOwn, kArena, kScalar, kConst } kind;
  int32_t index = 0;   // input number | own storage number | scalar number | constant number
  int64_t offset = 0;  // bytes
  size_t bytes = 0;    // of the value (of a view: of its elements)
};

struct ValueLife {     // a value in the arena, or (bytes only) a result that leaves
  int32_t made, last;  // steps; of a result `last` is past the end
  int32_t last_reader = -1;
  size_t bytes;
  bool leaves;
};

struct Step {
  std::shared_ptr<Kernel> kernel;
  std::vector<Slot> slots;        // inputs, outputs, workspace
  int32_t origin = -1;            // position in the recorded graph, for error messages
  std::string what;               // "conv + ..." names of the ops it carries
  std::string refused;            // explain: the candidates before the chosen one, and why not
  DType dtype = DType::kFloat32;  // of its first operand
  std::string_view
      kind;  // kernel_kind of its op; a tile group is what one of its ops says, a reduction or elementwise
  bool checks = false, donates = false;
};

struct PlanOutput {
  TensorType type;
  Ints strides;
  Slot slot;  // kOwn: storage the run allocates; kInput: alias of (a view of) an input
};

class Plan {
 public:
  std::vector<PlanInput> inputs;
  std::vector<PlanOutput> outputs;
  std::vector<Step> steps;
  std::vector<size_t> own_bytes;        // storages that become outputs
  std::vector<int32_t> own_donor;       // input whose storage is taken over, or -1
  std::vector<Ref<Storage>> constants;  // filled at compile time
  size_t arena_bytes = 0;
  size_t peak_bytes = 0;  // arena + own storages not donated + inputs
  KernelCost cost;
  std::vector<std::string> explain;  // fusion and candidate decisions
  std::vector<std::pair<int, size_t>>
      arena_peak;                  // explain: (step that made it, bytes) of what fills the arena most
  std::vector<ValueLife> lives;    // lifetimes: every value that a step makes
  uint64_t serial = 0;             // unique in the process
  std::string dump() const;        // one line per step
  void keeps(KeptBytes* k) const;  // this object, its kernels with their code, and its constants
};

// Seconds that compiling took so far in this process, by part. `kernels` holds tile programs and kernel
// objects; what a library needs to prepare code of its own is `primitives`. Written under the executor's
// lock.
struct CompileSeconds {
  double passes = 0, layouts = 0, fusion = 0, kernels = 0, primitives = 0, memory = 0;
};
CompileSeconds& compile_seconds();

// `graph.inputs[i]` is a kInput node described by inputs[i]. Node.pos.instr of graph nodes is their origin.
std::shared_ptr<const Plan> compile_plan(const Graph& graph, std::vector<PlanInput> inputs,
                                         const PlanOptions& options);

struct PlanRun {
  std::vector<Ref<Buffer>> inputs;     // null for scalars
  std::vector<double> scalars_double;  // by input number (0 where not a scalar)
  std::vector<int64_t> scalars_int;
  std::vector<Ref<Buffer>> outputs;  // result
  int32_t failed_origin = -1;        // set when run throws
  bool wrote_donated = false;        // set once an input's storage has been overwritten
};
// Runs all steps. `poll` (may be empty) is called now and then between kernels until the first donated write;
// it may throw to interrupt. On a throw nothing donated was written unless r->wrote_donated.
void run_plan(const Plan& plan, PlanRun* r, const std::function<void()>& poll);

}  // namespace yuloh
