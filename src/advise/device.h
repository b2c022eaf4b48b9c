// SPDX-License-Identifier: Apache-2.0
// A device and a network as the arithmetic sees them; the figures come from the catalogue
// (python/yuloh/advise), from `yuloh calibrate`, or from the user, and say so there.
#pragma once
#include <string>

namespace yuloh::advise {

struct Device {
  std::string name;
  std::string kind = "gpu";  // gpu, npu, edge, cpu
  double memory = 0;         // bytes a process can have at most
  double bandwidth = 0;      // bytes/s
  // Dense peaks, operations/s; 0: not supported by the matrix units.
  double fp32 = 0, tf32 = 0, fp16 = 0, bf16 = 0, fp8 = 0, int8 = 0;
  double link = 0;       // bytes/s each way to devices of the same node; 0: only over the host
  double host_link = 0;  // bytes/s each way to host memory
  double watts = 0;
  double per_node = 8;           // devices of one server
  double matrix_efficiency = 0;  // measured share of the peak that products reach; 0: assumed
  double stream_efficiency = 0;  // measured share of the bandwidth; 0: assumed
  double spread = 0;  // measured: a step takes so many times more or less than predicted; 0: assumed
  double price = -1;  // of a device hour, user's currency; below 0: not known

  // bytes/s each way between two of a server; over the host, down and up again
  double between() const { return link > 0 ? link : host_link / 2; }
};

struct Fabric {
  double rate = 25e9;      // bytes/s each way, of one device, between nodes
  double rate_server = 0;  // of a whole server instead, shared by its devices; 0: as `rate` says
  double latency = 10e-6;  // seconds, of one message

  double rate_of(const Device& d) const { return rate_server > 0 ? rate_server / d.per_node : rate; }
};

// Peak for a precision; where the device lacks it, the nearest that it has, named in *used.
double peak_for(const Device& d, const std::string& precision, std::string* used);
void check(const Device& d);
void check(const Fabric& f);

}  // namespace yuloh::advise
