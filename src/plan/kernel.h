// SPDX-License-Identifier: Apache-2.0
// Kernel: one step of a Plan, bound to shapes and layouts, ready to run on pointers. Candidate: one way to
// make a kernel for a named op ({op, fits, make}); candidates stand in an ordered list, reference last, and
// say why they refuse. Data path: plan/ lowers a graph to kernels through `make_kernel`; run/ executes them.
// Devices (cpu/) provide them.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ops/op.h"
#include "tile/program.h"

namespace yuloh {

// Data that never changes while plans live: a weight. It may not be computed yet: a kernel that keeps it in a
// layout of its own looks for that under `key` first, and lets the data go when it has its copy.
class FixedData : public std::enable_shared_from_this<FixedData> {
 public:
  FixedData(uint64_t a, uint64_t b) : key{a, b} {}
  virtual ~FixedData() = default;
  virtual const Buffer& get() = 0;
  virtual void let_go() {}
  virtual bool in_file() const { return false; }   // its pages can be read again at any time
  virtual bool computed() const { return false; }  // it can be computed again
  const std::array<uint64_t, 2> key;               // equal: the same data, as long as one of them lives
};

struct Operand {  // type and layout of one kernel argument
  TensorType type;
  Ints strides;  // elements; any permutation, 0 for broadcast; what the caller guarantees at run time
  FixedData* fixed =
      nullptr;  // the data, where it never changes while the plan lives: kernels may keep it packed
};

struct KernelRequest {
  Call call;                 // op, static attributes and input types
  std::vector<Operand> in;   // layouts the values have
  std::vector<Operand> out;  // layouts the plan wants (already what `layouts` asked for)
};

struct KernelCost {
  double flops = 0, bytes = 0;  // useful arithmetic and memory traffic
};

// Adds up what plans keep in memory. What several kernels share counts once.
class KeptBytes {
 public:
  void add(size_t n) { bytes_ += n; }
  bool first(const void* shared) { return seen_.insert(shared).second; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
  std::unordered_set<const void*> seen_;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // ptrs: inputs, then outputs, then one workspace pointer if workspace_bytes() > 0. Called without the GIL,
  // from one thread at a time per Plan run; may use the executor team (parallel.h). May throw Error (data
  // checks).
  virtual void run(void* const* ptrs) = 0;
  virtual size_t workspace_bytes() const { return 0; }
  // In place of run in a dry run: takes the storage that run would take beside the workspace, and computes
  // nothing.
  virtual void rehearse(void* const*) {}
  virtual void keeps(KeptBytes* k) const { k->add(512); }  // roughly, between runs
  // Output `out` may lie where input `in` of the same type and layout lies, if nobody reads that input later.
  virtual bool may_overwrite([[maybe_unused]] size_t in, [[maybe_unused]] size_t out) const { return false; }
  virtual bool reads([[maybe_unused]] size_t input) const {
    return true;
  }                                          // false: it has that operand in a layout of its own
  virtual std::string describe() const = 0;  // "onednn:brgconv_fwd" ...
  KernelCost cost;
};

// What layouts a candidate wants, before the kernel is made: strides for each input and output (empty = does
// not care / takes what comes for inputs, row-major for outputs).
struct LayoutWish {
  std::vector<Ints> in, out;
};

struct Candidate {
  std::string_view op;
  std::string_view name;  // "onednn", "yuloh_gemm", "reference"
  // True if it can run the request; otherwise *why says the reason in a few words.
  bool (*fits)(const KernelRequest& r, std::string* why);
  std::unique_ptr<Kernel> (*make)(const KernelRequest& r);
  // Optional; null: channels-last for ops whose row says so, else row-major.
  LayoutWish (*layouts)(const Call& call) = nullptr;
};

void register_candidates(
    std::initializer_list<Candidate> rows);  // order of registration files: cpu/candidates.cpp
const std::vector<Candidate>& candidates_for(std::string_view op);
// First fitting candidate, or null; `refusals` collects "op: name refused: why" lines for YULOH_EXPLAIN.
std::unique_ptr<Kernel> make_candidate(const KernelRequest& r, std::string* chosen,
                                       std::vector<std::string>* refusals);
// The row's own host loop; outputs must be row-major.
std::unique_ptr<Kernel> make_reference(const KernelRequest& r);

// The device's tile back end: set once at start by cpu/ (plan/ may not include it).
// Equal programs may share a kernel.
using TileBackend = std::shared_ptr<Kernel> (*)(const TileProgram& p);
void register_tile_backend(TileBackend b);
std::shared_ptr<Kernel> make_tile_kernel(const TileProgram& p);  // verifies first

}  // namespace yuloh
