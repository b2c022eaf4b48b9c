// SPDX-License-Identifier: Apache-2.0
// Memory of one device, itemised, as intervals, from numbers alone. Where the model can be planned for real,
// its facts (advise/facts.h) replace the formulas for activations and workspace.
#pragma once
#include <vector>

#include "advise/job.h"

namespace yuloh::advise {

// clang-format off
enum class MemoryKind : uint8_t {
  kWeights, kExperts, kAdapters, kGradients, kOptimizer, kActivations, kLogits, kCache, kWorkspace,
  kCommunication, kRuntime, kFragmentation
};
template <>
struct Table<MemoryKind> {
  using enum MemoryKind;
  static constexpr NameRow<MemoryKind> rows[] = {
      {kWeights, "weights"},     {kExperts, "experts"},         {kAdapters, "adapters"},
      {kGradients, "gradients"}, {kOptimizer, "optimizer"},     {kActivations, "activations"},
      {kLogits, "logits"},       {kCache, "cache"},             {kWorkspace, "workspace"},
      {kCommunication, "communication"}, {kRuntime, "runtime"}, {kFragmentation, "fragmentation"}};
};
// clang-format on
static_assert(in_order<MemoryKind>());

struct MemoryItem {
  MemoryKind what;
  Interval bytes;
};
struct Memory {
  std::vector<MemoryItem> items;
  Interval total;
  double host = 0;  // bytes that offloading puts into host memory, for one device

  Interval of(MemoryKind what) const;
};

// What the fullest device of the job holds. `kind` of the device decides what its runtime takes.
Memory memory_of(const Network& n, const Job& j, const Device& d);

// "yes": even the high end of the interval fits; "tight": the point does; "unlikely": only the low end; "no".
const char* verdict(const Memory& m, const Device& d);
inline bool fits(const Memory& m, const Device& d) { return m.total.point <= d.memory; }
inline bool surely_fits(const Memory& m, const Device& d) { return m.total.high <= d.memory; }

// Largest micro-batch of one device that surely fits, or whose point does (0: not even one sample).
double largest_micro_batch(const Network& n, Job j, const Device& d, bool surely = true);

// Shared with the estimate of time, of the fullest device: its layers, bytes that one of them keeps for the
// backward pass of one micro-batch, parameters, of them those that are trained, the bytes in which all are
// stored, and of these what a pass reads (a table of embeddings is looked up, not read).
double layers_of_device(const Network& n, const Job& j);
double kept_layer(const Network& n, const Job& j);
double device_params(const Network& n, const Job& j);
double trained_params(const Network& n, const Job& j);
double stored_bytes(const Network& n, const Job& j);
double read_bytes(const Network& n, const Job& j);
double expert_replicas(const Job& j);  // devices that hold the same experts

}  // namespace yuloh::advise
