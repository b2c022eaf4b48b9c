// SPDX-License-Identifier: Apache-2.0
// Which device, and how many: that do a job, train within a time or serve a rate within a latency, ranked by
// advise/ranking.h; what they take in hours, energy and money. A price of 0 is a price; below 0 none is
// known.
#pragma once
#include <optional>
#include <vector>

#include "advise/decode.h"
#include "advise/layout.h"
#include "advise/ranking.h"

namespace yuloh::advise {

// What is asked of the devices: that they train `samples`, serve `rate`, or merely do the job.
struct Goals {
  double samples = 0, hours = 0;             // of a training, and within how many hours; 0: no such goal
  double rate = 0, p99 = 1, max_batch = 64;  // requests/s; seconds for 99 of 100; samples of one pass
  double most = 128;                         // devices of one kind
  double count = 0;                          // the number that the user gave; 0: none
  std::vector<double> counts;                // of every device the only number to look at; empty: free
  bool named = false;                        // the user named the devices
};

// A number of a device that does it, or would but for the time. Its cost: of the training, else of an hour.
struct Option : Way {
  std::optional<Layout> layout;  // where no rate is served
  Interval hours;                // of a training
  double kilowatt_hours = 0;     // of the devices alone
  bool sure = true;              // the slow end of the interval is within the time or the latency too
  bool pareto = false;  // no other is both faster and cheaper (or, without prices, takes less energy)
  double group = 1;     // for a rate: devices that hold one copy of the model (tensor parallel)
  double copies = 0;
  double batch = 1;         // of requests, on average under this load (advise/queue.h)
  Interval seconds;         // of such a batch
  double p50 = 0, p99 = 0;  // seconds
  double slow = 0;          // p99 at the slow end of the interval; infinite where they do not keep up
  double busy = 0;          // share of the time
  double load = 0;          // share of what they could keep up with
  double most_rate = 0;     // requests/s of all copies that keep the latency
  double cost_year = -1;
  double per_money = -1;  // requests for one unit of money, at the rate asked for; infinite at a price of 0
};
struct Choice {
  std::vector<Option> options;
  Ranking ranking;             // of the options, by index
  std::optional<Option> sure;  // where the first is not: the least of its device that is; nothing: none is
};
// Of every device (`market`: what is said of each beside its figures):
// - for a training, the fastest layout of every power of two (times the degrees that were given) up to
//   goals.most;
// - for a rate, the fewest copies that keep the latency; degrees in `free` are kept, dp is the number of
// copies;
// - else the least power of two that does the job at all and does not mostly wait for one another.
// A number that was given is tried on the first device named, else on the one that would be taken.
Choice choose(const Network& n, const Job& base, const std::vector<Device>& devices,
              const std::vector<Market>& market, const Fabric& f, const Goals& goals, const Freedom& free);

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

// The price of an hour of `d` with its energy at full power, a kilowatt hour at `energy`; below 0 where the
// power is not known, or where the user's list (`listed`: there is one) has no price of it.
double with_energy(const Device& d, double energy, bool listed);

// A year of runs: hours, and money where `price` (of a server's hour) is known; hours of a run may be
// negative, where they are what a change saves. Both to 1e-6, so that what is printed adds up. machines: so
// many at once, a year having 8,760 hours.
struct Yearly {
  double hours = 0, money = 0, machines = 1;
};
Yearly yearly(double runs_per_day, double hours_of_run, double servers, double price, double days = 365);

}  // namespace yuloh::advise
