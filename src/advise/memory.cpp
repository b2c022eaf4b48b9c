// SPDX-License-Identifier: Apache-2.0
// The formulas of advise/memory.h. Sources: parameters, gradients and states per parameter and their
// sharding: ZeRO (arXiv:1910.02054, section 3 and 5); activations of a layer, s b h (10 + 24/t + 5 a s / h t)
// bytes, with sequence parallel and selective recompute: Korthikanti et al. 2022 (arXiv:2205.05198, table 2);
// micro-batches in flight of the first stage of a 1F1B pipeline: Narayanan et al. 2021 (arXiv:2104.04473).
// Both are written here by element, so that they hold for 4-byte elements, gated feed-forward and grouped
// keys too. What is assumed and not derived stands in `Assumed` with its range.
#include "advise/memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace yuloh::advise {
namespace {

constexpr double kGiB = 1073741824.0;

// Taken from experience, not derived; the width of the intervals comes from here.
struct Assumed {
  static Interval activations() { return {0.90, 1.0, 1.20}; }
  static Interval working() { return {0.5, 1.0, 2.0}; }
  static Interval fragmentation() { return {0.0, 0.03, 0.08}; }  // of what comes and goes
  static Interval runtime(const Device& d) {                     // context, kernels' code, libraries' scratch
    if (d.kind == "cpu") return {0.05 * kGiB, 0.15 * kGiB, 0.3 * kGiB};
    if (d.kind == "edge") return {0.7 * kGiB, 1.2 * kGiB, 2.0 * kGiB};  // the system shares the memory
    return {0.35 * kGiB, 0.6 * kGiB, 1.1 * kGiB};
  }
  static Interval communication(const Device& d) {
    return d.kind == "cpu" ? Interval(0, 0.03 * kGiB, 0.1 * kGiB)
                           : Interval(0.1 * kGiB, 0.35 * kGiB, 0.9 * kGiB);
  }
  static constexpr double kBucket = 200e6;  // gradients gathered before they are sent
  // A network known by totals whose blocks are recomputed keeps the blocks' inputs and one block.
  static Interval recomputed_totals() { return {0.2, 0.35, 0.5}; }
};

double layers_of_device(const Network& n, const Job& j) { return std::ceil(n.layers / j.pp); }

// Elements of one layer that mp does not split, and those that it does, without the scores.
struct KeptElements {
  double whole, split;
};
KeptElements kept_elements(const Network& n) {
  const double sh = n.seq * n.hidden, kv = n.kv_heads / n.heads;
  return {4 * sh, sh * (1 + 2 * kv + 1) + (n.gated ? 3 : 2) * n.seq * n.ffn};
}
double scores_bytes(const Network& n, const Job& j) {  // softmax and dropout outputs and a mask byte
  return n.heads * n.seq * n.seq * (2 * activation_bytes(j) + 1) / j.mp;
}
double layer_input(const Network& n, const Job& j) {
  return activation_bytes(j) * n.seq * n.hidden / (j.sequence_parallel ? j.mp : 1);
}

// One micro-batch of the layers of the fullest stage.
Interval kept_by_pass(const Network& n, const Job& j) {
  const double b = j.micro_batch();
  if (!n.transformer()) {
    Interval r = Interval(1 - n.spread, 1, 1 + n.spread) * (n.kept_elements * activation_bytes(j) * b);
    if (j.recompute == "full")
      r = {r.low * Assumed::recomputed_totals().low, r.point * Assumed::recomputed_totals().point,
           r.high * Assumed::recomputed_totals().high};
    return r * (1 / j.pp);
  }
  const double layers = layers_of_device(n, j);
  const double again =
      j.recompute == "full"
          ? (j.recompute_layers > 0 ? std::min(layers, std::ceil(j.recompute_layers / j.pp)) : layers)
          : 0;
  Interval r(again * layer_input(n, j) * b);
  return r + Assumed::activations() * ((layers - again) * kept_layer(n, j));
}

Interval logits_bytes(const Network& n, const Job& j) {
  if (n.kind == "vision" || !n.transformer()) return {};
  const double one = n.seq * n.vocab / j.mp * j.micro_batch(), e = activation_bytes(j);
  if (n.kind == "encoder")
    return {0, 0.15 * one * (e + 4), one * (e + 4)};  // masked words only; none when fine-tuned
  return {4 * one, (e + 4) * one, (2 * e + 8) * one};
}

Interval working_bytes(const Network& n, const Job& j) {
  const double b = j.micro_batch(), e = activation_bytes(j);
  if (!n.transformer())
    return (n.spread < 0.1 ? Interval(1 - n.spread, 1, 1 + n.spread) : Assumed::working()) *
               (n.working_elements * e * b) +
           Interval(n.fixed_bytes);
  double one = e * n.seq * ((n.gated ? 3 : 2) * n.ffn / j.mp + 2 * n.hidden) * b;
  if (!j.flash) one += scores_bytes(n, j) * b;
  Interval r = Assumed::working() * one;
  if (j.training && j.recompute == "full")
    r += Assumed::activations() * kept_layer(n, j);  // the layer that is being repeated
  return r;
}

// Parameters of the device that holds `embedding` and `head` or not.
double stage_params(const Network& n, const Job& j, bool first, bool last) {
  const double rest = n.params - embedding_params(n) - head_params(n);
  double p = std::max(rest, 0.0) / n.layers * layers_of_device(n, j);
  if (first) p += embedding_params(n);
  if (last)
    p += n.tied && j.pp > 1 && n.transformer() && n.kind != "vision" ? n.hidden * n.vocab : head_params(n);
  return p / j.mp;
}

void add(Memory& m, const char* what, const Interval& bytes) {
  if (bytes.high <= 0) return;
  m.items.push_back({what, bytes});
  m.total += bytes;
}

void add_states(Memory& m, const Network& n, const Job& j, double params) {
  const double shard = j.sharding;
  const double w = params * weight_bytes(j), g = params * gradient_bytes(j), o = params * optimizer_bytes(j);
  const double one_layer = n.params / n.layers / j.mp * weight_bytes(j);
  const bool away = j.offload == "all";
  if (away || j.stage >= 3)
    add(m, "weights",
        Interval(away ? 0 : w / shard) + Interval(1, 2, 3) * one_layer);  // the layer in use and the next
  else
    add(m, "weights", Interval(w));
  if (!j.training) {
    if (away) m.host += w / (j.stage >= 3 ? shard : 1);
    return;
  }
  const double kept_gradients = j.stage >= 2 ? g / shard : g;
  // Some stacks accumulate half gradients in single precision.
  const double wide = gradient_bytes(j) == 2 && (j.passes() > 1 || j.pp > 1) ? 2 : 1;
  if (away || (j.offload == "optimizer" && j.stage >= 2))
    add(m, "gradients", Interval(0.5, 1, 1.5) * std::min(Assumed::kBucket * 2, g));
  else
    add(m, "gradients", {kept_gradients, kept_gradients, kept_gradients * wide});
  if (j.offload == "none") add(m, "optimizer", Interval(j.stage >= 1 ? o / shard : o));
  if (j.offload != "none")
    m.host += (j.stage >= 1 ? o / shard : o) + (away           ? w + g
                                                : j.stage >= 2 ? kept_gradients
                                                               : 0) /
                                                   (j.stage >= 3 ? shard : 1);
}

Memory of_stage(const Network& n, const Job& j, const Device& d, bool first, bool last) {
  Memory m;
  add_states(m, n, j, stage_params(n, j, first, last));
  if (j.training) {
    const double flying =
        first ? std::min(j.pp, j.passes()) : 1;  // 1F1B: the first stage waits for all that follow
    add(m, "activations", kept_by_pass(n, j) * flying);
    if (last) add(m, "logits", logits_bytes(n, j));
  } else if (n.kind == "decoder") {
    const double tokens = n.seq + j.new_tokens;
    add(m, "cache",
        Interval(2 * n.layers / j.pp * n.hidden * n.kv_heads / n.heads / j.mp * tokens * j.micro_batch() *
                 activation_bytes(j)));
    if (last) add(m, "logits", Interval(1, 1, 2) * (j.micro_batch() * n.vocab * 4 / j.mp));
  }
  add(m, "workspace", working_bytes(n, j));
  if (j.devices() > 1) {
    Interval c = Assumed::communication(d);
    if (j.training && j.replicas() > 1)
      c += Interval(0, 1, 2) * std::min(Assumed::kBucket, n.params / j.pp / j.mp * gradient_bytes(j));
    add(m, "communication", c);
  }
  add(m, "runtime", Assumed::runtime(d));
  const Interval moving = m.of("activations") + m.of("workspace") + m.of("logits") + m.of("gradients");
  add(m, "fragmentation",
      {0, moving.point * Assumed::fragmentation().point, moving.high * Assumed::fragmentation().high});
  return m;
}

}  // namespace

Interval Memory::of(const char* what) const {
  for (const MemoryItem& i : items)
    if (std::strcmp(i.what, what) == 0) return i.bytes;
  return {};
}

double kept_layer(const Network& n, const Job& j) {
  const double b = j.micro_batch();
  if (!n.transformer()) return kept_by_pass(n, j).point / layers_of_device(n, j);
  const double e = activation_bytes(j), masks = n.gated ? 0 : 2 * n.seq * n.hidden;
  const KeptElements k = kept_elements(n);
  double one = (k.whole * e + masks) / (j.sequence_parallel ? j.mp : 1) + k.split * e / j.mp;
  if (!j.flash && j.recompute == "none") one += scores_bytes(n, j);
  return one * b;
}

double device_params(const Network& n, const Job& j) {
  return std::max(stage_params(n, j, true, j.pp == 1), j.pp > 1 ? stage_params(n, j, false, true) : 0.0);
}

Memory memory_of(const Network& n, const Job& j, const Device& d) {
  Memory first = of_stage(n, j, d, true, j.pp == 1);
  if (j.pp == 1) return first;
  Memory last = of_stage(n, j, d, false, true);
  return first.total.point >= last.total.point ? first : last;
}

const char* verdict(const Memory& m, const Device& d) {
  return m.total.high <= d.memory    ? "yes"
         : m.total.point <= d.memory ? "tight"
         : m.total.low <= d.memory   ? "unlikely"
                                     : "no";
}

double largest_micro_batch(const Network& n, Job j, const Device& d) {
  const auto fit = [&](double b) {
    return j.micro = b, j.batch = b * j.replicas(), fits(memory_of(n, j, d), d);
  };
  if (!fit(1)) return 0;
  double low = 1, high = 2;
  while (high < (1 << 24) && fit(high)) low = high, high *= 2;
  while (high - low > std::max(1.0, std::floor(low / 64))) {  // to one sample, or to 1.5 % of many
    const double mid = std::floor((low + high) / 2);
    (fit(mid) ? low : high) = mid;
  }
  return low;
}

}  // namespace yuloh::advise
