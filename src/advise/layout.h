// SPDX-License-Identifier: Apache-2.0
// How to split a job over devices, and what to change so that it fits: every combination is estimated, none
// is guessed.
#pragma once
#include <string>
#include <vector>

#include "advise/step.h"

namespace yuloh::advise {

struct Layout {
  Job job;
  Memory memory;
  StepTime step;
};

// What the search may change besides dp, mp, pp, sharding and the micro-batch.
struct Freedom {
  bool recompute = true;
  bool stage = true;
  bool micro = true;
  double most_mp = 0;                                                    // 0: the devices of one server
  double dp = 0, mp = 0, pp = 0, sharding = 0, cp = 0, ep = 0, vpp = 0;  // fixed degrees; 0: free

  bool allows(const Job& j) const;
};
struct Degree {
  const char* name;
  double Job::*of;
  double Freedom::*fixed;
};
inline constexpr Degree kDegrees[] = {
    {"dp", &Job::dp, &Freedom::dp},   {"mp", &Job::mp, &Freedom::mp},
    {"pp", &Job::pp, &Freedom::pp},   {"sharding", &Job::sharding, &Freedom::sharding},
    {"cp", &Job::cp, &Freedom::cp},   {"ep", &Job::ep, &Freedom::ep},
    {"vpp", &Job::vpp, &Freedom::vpp}};

std::vector<double> divisors(double n);  // of a whole number, ascending

Layout layout_of(const Network& n, const Job& j, const Device& d, const Fabric& f);

// The `keep` fastest splits over `devices` whose point estimate fits, each (dp, mp, pp, sharding, stage) once
// with its best micro-batch and recompute. Empty: none fits. The batch of `base` is the global one and stays.
std::vector<Layout> search_layouts(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                   double devices, const Freedom& free, size_t keep);

// clang-format off
enum class ChangeKind : uint8_t {
  kAccumulate, kBatch, kPrecision, kFlash, kRecompute, kOffload, kOptimizer, kLora, kQlora, kWeightBits,
  kCacheBits, kSharding, kTensor, kPipeline, kExpertsOver, kContext
};
struct ChangeRow {
  ChangeKind id;
  const char* name;
  bool same;  // the same training, the same results, where the batch stays
};
template <>
struct Table<ChangeKind> {
  using enum ChangeKind;
  static constexpr ChangeRow rows[] = {
      {kAccumulate, "accumulate", true},   {kBatch, "batch", false},         {kPrecision, "precision", true},
      {kFlash, "flash", true},             {kRecompute, "recompute", true},  {kOffload, "offload", true},
      {kOptimizer, "optimizer", false},    {kLora, "lora", false},           {kQlora, "qlora", false},
      {kWeightBits, "weight_bits", false}, {kCacheBits, "cache_bits", false}, {kSharding, "sharding", true},
      {kTensor, "tensor", true},           {kPipeline, "pipeline", true},    {kExpertsOver, "experts_over", true},
      {kContext, "context", true}};
};
// clang-format on
static_assert(in_order<ChangeKind>());

struct Change {
  ChangeKind what;
  std::string detail;  // "4", "bf16", "12 of 32 layers", "stage 2 over 8"
  Layout after;
  double saved = 0;                   // bytes of the fullest device
  double time_factor = 1;             // seconds of one sample, after / before
  double work_factor = 1;             // the same times devices: what they are held for
  bool fits = false, surely = false;  // the estimate; even its high end
  bool same = true;                   // the same training, the same results
};

// Single changes to `base` that are sensible to offer, those first that surely make it fit, then those whose
// estimate does (least time added first), then by bytes saved.
std::vector<Change> changes(const Network& n, const Job& base, const Device& d, const Fabric& f);
// A shortest list of changes on the same devices that together make it fit; empty when none does (or when it
// fits).
std::vector<Change> changes_to_fit(const Network& n, const Job& base, const Device& d, const Fabric& f);

// What would make a layout over `devices` fit where none does and the search does not change by itself:
// states or everything on the host (the same training), adapters, and those beside 4 bits (another training).
struct Rescue {
  Job job;
  Layout best;
};
std::vector<Rescue> rescues(const Network& n, const Job& base, const Device& d, const Fabric& f,
                            double devices, const Freedom& free);

}  // namespace yuloh::advise
