// SPDX-License-Identifier: Apache-2.0
// How long a request waits at a server that batches greedily: it takes whatever waits, at most `most`, as
// soon as it is free, or its first stage is, where it is a pipeline. There is no closed form once batches are
// bounded or their time grows with them, so the same 50,000 Poisson arrivals are played through it:
// deterministic, and within a few percent (tests/python/test_advise_queue.py).
#pragma once
#include <functional>

namespace yuloh::advise {

constexpr double kMostLoad = 0.9;  // of what a server can keep up with: nobody runs one closer to its limit

struct Queue {
  double p50 = 0, p99 = 0;  // seconds from arrival to answer; infinite above kMostLoad
  double batch = 1;         // requests of a batch, on average
  double busy = 0;          // share of the time
  double load = 0;          // rate over the rate at full batches
};
// `rate` requests/s to one server, `seconds(b)` for a batch of b through all its equal stages.
Queue queue_of(double rate, double most, const std::function<double(double)>& seconds, size_t stages = 1);

}  // namespace yuloh::advise
