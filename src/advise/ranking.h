// SPDX-License-Identifier: Apache-2.0
// Which of several ways to do a job to take: the one rule of the answer, its tables, the scenarios and the
// page. The least amount comes first: of money where the user has prices, else of power, which goes with
// price. Where no time was set, being twice as fast makes up for a quarter more, and other speeds in
// proportion. That is a score of each way alone: what is taken never hangs on what is not, does not change
// with the unit of money, and nothing is both cheaper and faster.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "advise/table.h"

namespace yuloh::advise {

enum class Use : uint8_t { kCourse, kWorkstation, kServer, kChina, kEdge, kCpu };
struct UseRow {
  Use id;
  const char* name;
  bool usual;   // neither board nor host: what a job is put on unless it is asked for otherwise
  bool larger;  // where one looks for a larger machine
};
template <>
struct Table<Use> {
  using enum Use;
  static constexpr const char *what = "use of a device", *hint = "bought_for";
  static constexpr UseRow rows[] = {
      {kCourse, "course", true, true}, {kWorkstation, "workstation", true, true},
      {kServer, "server", true, true}, {kChina, "china", true, false},
      {kEdge, "edge", false, false},   {kCpu, "cpu", false, false}};
};
static_assert(in_order<Use>());

// What the catalogue says of a device beside its figures.
struct Market {
  Use use = Use::kServer;  // what it is bought for
  bool small = false;      // for inference and small training: not what a large model is trained on
  bool common = false;     // what large models are usually trained on
  bool host = false;       // a CPU, whatever else it is bought for
};

struct Way {
  size_t device = 0;  // index into the devices asked about
  double count = 1;
  double cost = -1;    // money; below 0: no price is known
  double watts = 0;    // of all of them; 0: not known
  double time = 0;     // seconds; infinite: it cannot
  bool able = true;    // within the time or the latency asked for
  bool tight = false;  // its memory fits by the estimate and not by the high end: counts as a quarter dearer
};

struct Asked {
  bool named = false;    // the user named the devices
  bool limited = false;  // a time or a latency was set: all within it are fast enough
  bool training = false;
  int size = 0;                 // size_class
  bool number = false;          // the user gave a number of devices ...
  std::optional<size_t> given;  // ... and this is the way with it, where there is one
};

// Why the first is taken; `cheaper` is what costs less where there is a "though".
enum class Why : uint8_t {
  kNothing,
  kGiven,           // the number is the user's
  kGivenThough,     // so it is, and something costs less
  kLeast,           // of several devices it costs least (by power: of those bought for such work)
  kThough,          // of several devices; something costs less and takes longer
  kNumberThough,    // so many of the one device; another number costs less and takes longer
  kNumberCheapest,  // no other number of it costs less
  kNumberInTime,    // fewer of it are not in time
  kNumberHolds,     // fewer of it do not hold the job
};
template <>
struct Table<Why> {
  using enum Why;
  static constexpr const char *what = "reason", *hint = "the core";
  static constexpr NameRow<Why> rows[] = {{kNothing, ""},
                                          {kGiven, "given"},
                                          {kGivenThough, "given_though"},
                                          {kLeast, "least"},
                                          {kThough, "though"},
                                          {kNumberThough, "number_though"},
                                          {kNumberCheapest, "number_cheapest"},
                                          {kNumberInTime, "number_in_time"},
                                          {kNumberHolds, "number_holds"}};
};
static_assert(in_order<Why>());

struct Ranking {
  bool priced = false;        // ranked by cost, what has no price left out; else by power
  std::vector<size_t> order;  // all that do it, the one to take first
  std::vector<size_t> each;   // the best of every device, in that order
  std::vector<size_t>
      picks;                 // what to name: a few of `each`, without prices or named devices one of each use
  std::vector<size_t> late;  // where nothing does it: the fastest of every device, the fastest first
  std::optional<bool> kept;  // whether the number that was given does it; nothing: none was
  std::optional<size_t> first;    // nothing where it does not
  std::optional<size_t> cheaper;  // what costs least of those that cost less than the first
  std::optional<size_t> next;     // what costs least of those half as fast again
  Why why = Why::kNothing;

  double amount(const Way& w) const;  // of money or power; infinite where it is not known
};
Ranking rank(const std::vector<Way>& ways, const std::vector<Market>& devices, const Asked& asked);

}  // namespace yuloh::advise
