// SPDX-License-Identifier: Apache-2.0
// Time of one step (training) or one batch (inference), by what it goes to.
#pragma once
#include <vector>

#include "advise/memory.h"

namespace yuloh::advise {

// clang-format off
enum class TimeKind : uint8_t {
  kArithmetic, kElementwise, kOptimizer, kLaunch, kTensor, kExperts, kContext, kPipeline, kBubble, kData,
  kOffload, kTokens
};
struct TimeRow {
  TimeKind id;
  const char* name;
  bool talk;  // communication
};
template <>
struct Table<TimeKind> {
  using enum TimeKind;
  static constexpr TimeRow rows[] = {
      {kArithmetic, "arithmetic", false}, {kElementwise, "elementwise", false}, {kOptimizer, "optimizer", false},
      {kLaunch, "launch", false},         {kTensor, "tensor", true},            {kExperts, "experts", true},
      {kContext, "context", true},        {kPipeline, "pipeline", true},        {kBubble, "bubble", false},
      {kData, "data", true},              {kOffload, "offload", true},          {kTokens, "tokens", false}};
};
// clang-format on
static_assert(in_order<TimeKind>());

// Of a model known by totals, as a Plan's steps say how many layers it has
// (python/yuloh/advise/from_plan.py).
constexpr double kKernelsOfLayer = 4;

struct TimeItem {
  TimeKind what;
  double seconds;
};
struct StepTime {
  std::vector<TimeItem> items;
  Interval seconds;
  double bubble = 0;                       // idle share of the pipeline
  double flops = 0;                        // of the model, all devices, without what recompute repeats
  double share_of_peak = 0;                // model FLOPs/s over peak FLOPs/s
  Precision precision = Precision::kBf16;  // the arithmetic that the device really uses
  bool rate_assumed = false;               // no rate of it is known (Device::rate)
  bool measured = false;                   // efficiencies measured on the device, not assumed
};

// Devices of a job in one server: the same in each where its number divides and no tensor parallel group then
// lies over two, else full ones and one with what is left. Groups lie from inside to outside as tensors,
// context, experts or sharding, data, pipeline, each of devices that follow one another.
double of_server(double devices, double mp, const Device& d);

// Share of the time in which devices wait for one another: communication between them, an idle pipeline.
double waiting_share(const StepTime& s);
// A token more for each of the micro-batch's sequences, when each has `context` behind it (decoders).
double token_seconds(const Network& n, const Job& j, const Device& d, const Fabric& f, double context);
StepTime step_of(const Network& n, const Job& j, const Device& d, const Fabric& f);

}  // namespace yuloh::advise
