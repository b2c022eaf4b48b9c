// SPDX-License-Identifier: Apache-2.0
// Serving a decoder: how many requests a device's memory holds at once, and what a token costs by how many
// are decoded together.
#pragma once
#include <vector>

#include "advise/step.h"

namespace yuloh::advise {

struct DecodeRow {
  double batch = 1;  // requests decoded together
  double token =
      0;  // seconds of one further token of each of them; a pipeline has a part of them in each stage
  double cache = 0;     // bytes of their keys and values, on one device
  double tokens = 0;    // generated a second, prompts not counted
  double requests = 0;  // finished a second, prompts counted: continuous batching
};
struct Decoding {
  Interval most;                // requests at once, each with the whole context
  Interval room;                // tokens of all of them together
  double cache_token = 0;       // bytes of keys and values of one token, on one device
  double context = 0;           // prompt and generated tokens
  double prompt = 0;            // seconds until the first token of a request that comes alone
  std::vector<DecodeRow> rows;  // batches of powers of two up to `most`, and that itself
};

// `share`: of the memory that is used (servers leave some). j.batch is not looked at; j.new_tokens are
// generated.
Decoding decoding_of(const Network& n, Job j, const Device& d, const Fabric& f, double share);

}  // namespace yuloh::advise
