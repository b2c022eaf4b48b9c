// SPDX-License-Identifier: Apache-2.0
// Which device, and how many: the cheapest that train within a time, or that serve a rate within a latency.
#pragma once
#include <vector>

#include "advise/layout.h"

namespace yuloh::advise {

struct TrainingOption {
  size_t device = 0;  // index into the devices asked about
  double count = 1;
  Layout layout;
  Interval hours;
  double kilowatt_hours = 0;  // of the devices alone
  double cost = -1;           // below 0: no price known
  bool in_time = true;
};
// For every device and every power of two of them up to `most`: the fastest layout, hours for `samples`
// samples. `limit_hours` 0: none. Options that do not fit are left out.
std::vector<TrainingOption> train_options(const Network& n, const Job& base,
                                          const std::vector<Device>& devices, const Fabric& f, double samples,
                                          double limit_hours, double most, const Freedom& free = {});

struct ServingOption {
  size_t device = 0;
  double group = 1;  // devices that hold one copy of the model (tensor parallel)
  double copies = 1;
  double batch = 1;         // of requests, on average under this load (advise/queue.h)
  Interval seconds;         // of such a batch
  double p50 = 0, p99 = 0;  // seconds
  double busy = 0;          // share of the time
  double load = 0;          // share of what they could keep up with
  double most_rate = 0;     // requests/s of all copies that keep the latency
  double cost_hour = -1;
  double per_money = -1;  // requests for one unit of currency, at the rate asked for
  bool possible = true;   // false: the latency cannot be kept by any number of them
};
// `rate` requests/s in all, `limit` seconds for 99 of 100. `max_batch` bounds the batch of one pass.
std::vector<ServingOption> serve_options(const Network& n, const Job& base,
                                         const std::vector<Device>& devices, const Fabric& f, double rate,
                                         double limit, double max_batch);

}  // namespace yuloh::advise
