// SPDX-License-Identifier: Apache-2.0
// The figures of advise/decode.h: what is left beside weights, workspace of one prompt and runtime is cache.
#include "advise/decode.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace yuloh::advise {

Decoding decoding_of(const Network& n, Job j, const Device& d, const Fabric& f, double share) {
  if (n.kind != ModelKind::kDecoder || j.training)
    value_error("advise: only decoders generate tokens, got ", name(n.kind),
                j.training ? " in training." : ".");
  if (!(share > 0 && share <= 1))
    value_error("advise: the share of memory must be above 0 and at most 1, got ", share, ".");
  const auto with_batch = [&](double b) {
    Job k = j;
    k.batch = k.micro = b, k.dp = k.sharding = 1;
    return k;
  };
  Decoding r;
  r.context = n.seq + j.new_tokens;
  r.cache_token = layers_of_device(n, j) * cache_elements(n, j.mp) / j.cp * cache_bytes(j);
  const Memory one = memory_of(n, with_batch(1), d);
  const double request = r.cache_token * r.context, room = d.memory * share;
  const auto held = [&](double total) {
    return std::max(0.0, std::floor((room - (total - request)) / request));
  };
  r.most = {held(one.total.high), held(one.total.point), held(one.total.low)};
  const auto tokens = [&](double total) { return std::max(0.0, (room - (total - request)) / r.cache_token); };
  r.room = {tokens(one.total.high), tokens(one.total.point), tokens(one.total.low)};
  Job prompt = with_batch(1);
  prompt.new_tokens = 0;
  r.prompt = step_of(n, prompt, d, f).seconds.point;
  std::vector<double> batches;
  for (double b = 1; b < r.most.point; b *= 2) batches.push_back(b);
  if (r.most.point >= 1) batches.push_back(r.most.point);
  for (double b : batches) {
    DecodeRow row;
    row.batch = b, row.cache = b * request;
    row.token = token_seconds(n, with_batch(std::ceil(b / j.pp)), d, f, n.seq + j.new_tokens / 2);
    row.tokens = b / row.token;
    row.requests = b / (b * r.prompt / std::min(b, j.pp) + j.new_tokens * row.token);
    r.rows.push_back(row);
  }
  return r;
}

}  // namespace yuloh::advise
