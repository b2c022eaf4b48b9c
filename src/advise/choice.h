// SPDX-License-Identifier: Apache-2.0
// Which device, and how many: the least that do a job, the cheapest that train within a time or serve a rate
// within a latency; what they take in hours, energy and money. A price of 0 is a price; below 0 none is
// known.
#pragma once
#include <optional>
#include <vector>

#include "advise/decode.h"
#include "advise/layout.h"

namespace yuloh::advise {

struct LeastOption {
  size_t device = 0;  // index into the devices asked about
  double count = 1;
  Layout layout;
  double watts = 0;   // of all of them; 0: not known
  double price = -1;  // of an hour of all of them
};
// Of every device the least power of two (times the degrees that were given) that does the job at all and
// whose communication leaves it a sensible share of its peak; least price first where all are known, else
// least power; boards last. At most `most` of one kind.
std::vector<LeastOption> least_options(const Network& n, const Job& base, const std::vector<Device>& devices,
                                       const Fabric& f, double most, const Freedom& free);

struct TrainingOption {
  size_t device = 0;
  double count = 1;
  Layout layout;
  Interval hours;
  double kilowatt_hours = 0;  // of the devices alone
  double watts = 0;           // of all of them; 0: not known
  double cost = -1;           // below 0: no price known
  bool in_time = true;
  bool pareto = false;  // nothing is both faster and cheaper (or, without prices, takes less energy)
};
struct TrainingChoice {
  std::vector<TrainingOption> options;
  bool priced = false;  // some price is known: ranked by cost, else by power
  std::vector<size_t>
      best;  // of `options`: in time, best first, of more than two devices the best number each
};
// The fastest layout of a training of `samples` on `count` of a device; none fits: nothing.
std::optional<TrainingOption> train_on(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                       double count, double samples, const Freedom& free);
// For every device and every power of two of them up to `most`: the fastest layout, hours for `samples`
// samples. `limit_hours` 0: none. Options that do not fit are left out.
TrainingChoice train_options(const Network& n, const Job& base, const std::vector<Device>& devices,
                             const Fabric& f, double samples, double limit_hours, double most,
                             const Freedom& free = {});

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
  double watts = 0;         // of all copies
  double cost_hour = -1, cost_year = -1;
  double per_money =
      -1;                // requests for one unit of currency, at the rate asked for; infinite at a price of 0
  bool possible = true;  // false: the latency cannot be kept by any number of them (or by the copies given)
};
struct ServingChoice {
  std::vector<ServingOption> options;
  bool priced = false;
  std::vector<size_t> best;
};
// `rate` requests/s in all, `limit` seconds for 99 of 100. `max_batch` bounds the batch of one pass. Degrees
// in `free` are kept: mp, pp, cp of a copy; dp is the number of copies.
ServingChoice serve_options(const Network& n, const Job& base, const std::vector<Device>& devices,
                            const Fabric& f, double rate, double limit, double max_batch,
                            const Freedom& free = {});

// Requests a second of one device (of a group, its share) at the best batch up to `max_batch`, by precision;
// below 0: the device has no such arithmetic, or not even one request fits.
struct RateOption {
  double fp32 = -1, fp16 = -1, int8 = -1;
  double per_money = -1;      // at the best of them; infinite at a price of 0
  double per_watt_hour = -1;  // below 0: the power is not known
};
RateOption rates_of(const Network& n, const Job& base, const Device& d, const Fabric& f, double max_batch,
                    const Freedom& free = {});

// What the least group that holds a request does (advise/decode.h); nothing where none does.
struct GroupDecoding {
  double group = 1;
  Decoding decoding;
};
std::optional<GroupDecoding> decoding_on(const Network& n, const Job& base, const Device& d, const Fabric& f,
                                         double share, const Freedom& free);

// A year of runs: hours, and money where `price` (of a server's hour) is known; hours of a run may be
// negative, where they are what a change saves. Both to 1e-6, so that what is printed adds up.
struct Yearly {
  double hours = 0, money = 0;
};
Yearly yearly(double runs_per_day, double hours_of_run, double servers, double price, double days = 365);

}  // namespace yuloh::advise
