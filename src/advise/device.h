// SPDX-License-Identifier: Apache-2.0
// A device and a network as the arithmetic sees them; the figures come from the catalogue
// (python/yuloh/advise), from `yuloh calibrate`, or from the user, and say so there.
#pragma once
#include <array>
#include <string>

#include "advise/network.h"

namespace yuloh::advise {

enum class Precision : uint8_t { kFp32, kTf32, kFp16, kBf16, kFp8, kInt8 };  // the last for inference only
struct PrecisionRow {
  Precision id;
  const char* name;
  double weight, served;    // bytes of a parameter in training, in inference
  double gradient, master;  // of its gradient, of the float32 copy beside half weights
  double activation;        // of an element
  Precision instead[4];  // where a device has no peak for it: the first of these that it has, none less exact
  const char* dtype;     // what a Plan of it is recorded in
};
template <>
struct Table<Precision> {
  using enum Precision;
  static constexpr const char *what = "precision", *hint = "--precision";
  static constexpr PrecisionRow rows[] = {
      {kFp32, "fp32", 4, 4, 4, 0, 4, {kFp32, kFp32, kFp32, kFp32}, "float32"},
      {kTf32, "tf32", 4, 4, 4, 0, 4, {kFp32, kFp32, kFp32, kFp32}, "float32"},
      {kFp16, "fp16", 2, 2, 2, 4, 2, {kBf16, kFp32, kTf32, kFp16}, "float16"},
      {kBf16, "bf16", 2, 2, 2, 4, 2, {kFp16, kFp32, kTf32, kBf16}, "bfloat16"},
      {kFp8, "fp8", 2, 1, 2, 4, 2, {kBf16, kFp16, kFp32, kTf32}, "bfloat16"},
      {kInt8, "int8", 1, 1, 4, 0, 2, {kFp16, kBf16, kFp32, kTf32}, "float32"}};
};
static_assert(in_order<Precision>());

enum class DeviceKind : uint8_t { kGpu, kNpu, kEdge, kCpu };
struct DeviceKindRow {
  DeviceKind id;
  const char* name;
  Interval runtime;        // GiB: context, kernels' code, libraries' scratch
  Interval communication;  // GiB: buffers of a process that talks to others
  double launch;           // seconds
  double fp32, lower;      // shares of the dense peak that products reach, assumed (advise/step.cpp)
  bool hosts;              // the host's memory is the same memory
};
template <>
struct Table<DeviceKind> {
  using enum DeviceKind;
  static constexpr const char *what = "kind of device", *hint = "the device file";
  static constexpr DeviceKindRow rows[] = {
      {kGpu, "gpu", {0.35, 0.6, 1.1}, {0.1, 0.35, 0.9}, 5e-6, 0.7, 0.6, false},
      {kNpu, "npu", {0.35, 0.6, 1.1}, {0.1, 0.35, 0.9}, 5e-6, 0.7, 0.4, false},
      {kEdge, "edge", {0.7, 1.2, 2.0}, {0.1, 0.35, 0.9}, 10e-6, 0.7, 0.4, true},  // with the system's own
      {kCpu, "cpu", {0.05, 0.15, 0.3}, {0, 0.03, 0.1}, 2e-6, 0.65, 0.6, true}};
};
static_assert(in_order<DeviceKind>());

struct Device {
  std::string name;
  DeviceKind kind = DeviceKind::kGpu;
  double memory = 0;                                     // bytes a process can have at most
  double bandwidth = 0;                                  // bytes/s
  std::array<double, size_of_table<Precision>> peaks{};  // dense, operations/s; 0: not supported
  double link = 0;       // bytes/s each way to devices of the same node; 0: only over the host
  double pair_link = 0;  // the same to the one device that a bridge joins it with; 0: no bridge
  double host_link = 0;  // bytes/s each way to host memory
  double watts = 0;
  double per_node = 8;           // devices of one server
  double matrix_efficiency = 0;  // measured share of the peak that products reach; 0: assumed
  double stream_efficiency = 0;  // measured share of the bandwidth; 0: assumed
  double spread = 0;  // measured: a step takes so many times more or less than predicted; 0: assumed
  double slower = 1;  // planned: a step of the network at hand takes so many times what the shares say
  double runtime = 0,
         runtime_doubt = 0;  // planned: bytes of a process beside its tensors, +-; 0: by the kind
  double price = -1;         // of a device hour, user's currency; below 0: not known

  double peak(Precision p) const { return peaks[static_cast<size_t>(p)]; }
  double rate(Precision p) const;  // peak, or what is assumed of fp32 where that is not known
  // bytes/s each way inside a group of neighbours in a server; over the host, down and up again
  double between(double group) const {
    return link > 0 ? link : group <= 2 && pair_link > 0 ? pair_link : host_link / 2;
  }
};

struct Fabric {
  double rate = 25e9;      // bytes/s each way, of one device, between nodes
  double rate_server = 0;  // of a whole server instead, shared by its devices; 0: as `rate` says
  double latency = 10e-6;  // seconds, of one message
  bool alone = false;      // no network: what does not lie in one server cannot be

  bool joins(const Device& d, double devices) const { return !alone || devices <= d.per_node; }

  double rate_of(double held) const { return rate_server > 0 ? rate_server / held : rate; }  // by a server
};

// The precision that the device really computes in where it lacks what was asked for.
Precision used_for(const Device& d, Precision asked);
void check(const Device& d);
void check(const Fabric& f);

}  // namespace yuloh::advise
