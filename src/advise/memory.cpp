// SPDX-License-Identifier: Apache-2.0
// The formulas of advise/memory.h. Sources: parameters, gradients and states per parameter and their
// sharding: ZeRO (arXiv:1910.02054, section 3 and 5); activations of a layer, s b h (10 + 24/t + 5 a s / h t)
// bytes, with sequence parallel and selective recompute: Korthikanti et al. 2022 (arXiv:2205.05198, table 2);
// micro-batches in flight of the first stage of a 1F1B pipeline: Narayanan et al. 2021 (arXiv:2104.04473).
// Both are written here by element, so that they hold for 4-byte elements, gated feed-forward and grouped
// keys too; latent attention, experts, adapters beside frozen matrices (whose products keep no input),
// virtual stages (1 + (p - 1)/(p v), arXiv:2104.04473, section 2.2) and context parallel follow by counting.
// What is assumed and not derived stands in `Assumed` with its range.
#include "advise/memory.h"

#include <algorithm>
#include <cmath>

namespace yuloh::advise {
namespace {

constexpr double kGiB = 1073741824.0;

// Taken from experience, not derived; the width of the intervals comes from here.
struct Assumed {
  static Interval activations() { return {0.90, 1.0, 1.20}; }
  static Interval working() { return {0.5, 1.0, 2.0}; }
  static Interval fragmentation() { return {0.0, 0.03, 0.08}; }  // of what comes and goes
  static constexpr double kUneven = 1.25;   // tokens that the busiest device's experts get, above the mean
  static constexpr double kBucket = 200e6;  // gradients gathered before they are sent
  // A network known by totals whose blocks are recomputed keeps the blocks' inputs and one block.
  static Interval recomputed_totals() { return {0.2, 0.35, 0.5}; }
};

double tokens(const Network& n, const Job& j) { return n.seq / j.cp; }  // of one sample on one device

// Bytes of one sample and layer that mp does not split, and those that it does, without the scores. A product
// keeps its input for the gradient of its matrix; beside a frozen matrix only where an adapter reads it, or
// where the matrix is stored in few bits (the library call keeps it).
struct KeptBytes {
  double whole = 0, split = 0;
};
KeptBytes kept_bytes(const Network& n, const Job& j) {
  const double s = tokens(n, j), h = n.hidden, d = n.head_dim, e = activation_bytes(j),
               moe = n.expert_share();
  const bool frozen = j.lora > 0, all = !frozen || (j.weight_bits > 0 && j.weight_bits < 16);
  const bool attention =
      all || adapted(j, Part::kQuery) || adapted(j, Part::kKey) || adapted(j, Part::kValue);
  const bool feed = all || adapted(j, Part::kFeed), expert = all || adapted(j, Part::kExpert);
  const double up = n.gated ? 2 : 1,
               through = up + (j.eager && n.gated ? 1 : 0);  // SiLU's own result, unless it is fused
  KeptBytes k;
  k.whole = s * h * e *
            (2 + (attention ? 1 : 0) + (feed || (moe > 0 && expert) ? 1 : 0));  // norms and what reads them
  k.whole += s * e * (n.kv_rank + n.q_rank);
  k.split = s * e * (n.heads * (d + n.rope_dim) + n.kv_heads * (2 * d + n.rope_dim) + n.heads * d);
  k.split += s * e * n.ffn * (1 - moe) * (through + (feed ? 1 : 0));
  if (moe > 0) {
    k.whole += s * moe * n.active * h * e *
               (expert ? 2 : 1);  // sent copies, and results that the router's weights multiply
    k.whole += s * moe * 2 * 4 * n.experts;
    k.split += s * e * moe * n.expert_ffn *
               (n.active * (through + (expert ? 1 : 0)) + n.shared * (through + (feed ? 1 : 0)));
  }
  if (!n.gated) k.whole += 2 * s * h;             // dropout's masks
  if (j.eager && n.gated) k.whole += s * h * 12;  // RMS norms composed of float32 ops
  if (frozen) {
    if (j.eager) k.whole += s * h;  // the mask of the adapters' dropout
    for (const Matrix& m : layer_matrices(n))
      if (adapted(j, m.part)) k.whole += s * e * j.lora * m.used;
  }
  return k;
}
// Softmax and dropout outputs and a mask byte; a stack that runs op by op keeps the float32 softmax too.
double scores_bytes(const Network& n, const Job& j) {
  const double e = activation_bytes(j), wide = j.eager && e < 4 ? 4 : 0;
  return n.heads * tokens(n, j) * n.seq * (2 * e + 1 + wide) / j.mp;
}
double layer_input(const Network& n, const Job& j) {
  return activation_bytes(j) * tokens(n, j) * n.hidden / (j.sequence_parallel ? j.mp : 1);
}

// One micro-batch of the layers of the fullest stage.
Interval kept_by_pass(const Network& n, const Job& j) {
  const double b = j.micro_batch();
  if (!n.transformer()) {
    Interval r = Interval(1 - n.spread, 1, 1 + n.spread) * (n.kept_elements * activation_bytes(j) * b);
    if (j.recompute == Recompute::kFull)
      r = {r.low * Assumed::recomputed_totals().low, r.point * Assumed::recomputed_totals().point,
           r.high * Assumed::recomputed_totals().high};
    return r * (n.part(n.split_kept, j.mp) / j.pp);
  }
  const double layers = layers_of_device(n, j);
  const double again =
      j.recompute == Recompute::kFull
          ? (j.recompute_layers > 0 ? std::min(layers, std::ceil(j.recompute_layers / j.pp)) : layers)
          : 0;
  Interval r(again * layer_input(n, j) * b);
  r += Assumed::activations() * ((layers - again) * kept_layer(n, j));
  if (j.ep > 1) r.high *= Assumed::kUneven;
  return r;
}

Interval logits_bytes(const Network& n, const Job& j) {
  if (n.kind == ModelKind::kVision || !n.transformer()) return {};
  const double one = tokens(n, j) * n.vocab / j.mp * j.micro_batch(), e = activation_bytes(j);
  if (n.kind == ModelKind::kEncoder)
    return {0, kMasked * one * (e + 4), one * (e + 4)};  // masked words only; none when fine-tuned
  return {4 * one, (j.eager ? 2 * e + 8 : e + 4) * one, (2 * e + 8) * one};
}

Interval working_bytes(const Network& n, const Job& j) {
  const double b = j.micro_batch(), e = activation_bytes(j);
  if (!n.transformer())
    return (n.spread < 0.1 ? Interval(1 - n.spread, 1, 1 + n.spread) : Assumed::working()) *
               (n.working_elements * e * b) +
           Interval(n.fixed_bytes);
  const double moe = n.expert_share(),
               wide = std::max(moe < 1 ? n.ffn : 0, (n.active + n.shared) * n.expert_ffn);
  double one = e * tokens(n, j) * ((n.gated ? 3 : 2) * wide / j.mp + (2 + 2 * n.active) * n.hidden) * b;
  if (!j.flash) one += scores_bytes(n, j) * b;
  Interval r = Assumed::working() * one;
  if (j.weight_bits > 0 && j.weight_bits < 16) {  // one matrix at a time in the arithmetic's precision
    double largest = 0;
    for (const Matrix& m : layer_matrices(n)) largest = std::max(largest, m.in * m.out);
    r += Interval(0, 1, 2) * (2 * largest / j.mp);
  }
  if (j.training && j.recompute == Recompute::kFull)
    r += Assumed::activations() * kept_layer(n, j);  // the layer that is being repeated
  return r;
}

// Parameters of one device, by what becomes of them.
struct Held {
  double tables = 0, matrices = 0, experts = 0, adapters = 0;
  double lookups = 0;  // of the tables, those that no product reads
  double all() const { return tables + matrices + experts; }
};
Held stage_params(const Network& n, const Job& j, bool first, bool last) {
  const double share = layers_of_device(n, j) / n.layers, routed = expert_params(n);
  Held h;
  h.matrices = std::max(n.params - embedding_params(n) - head_params(n) - routed, 0.0) * share;
  h.experts = routed * share / j.ep;
  if (first) h.tables += embedding_params(n);
  if (first && n.kind != ModelKind::kVision && n.transformer())  // patches are a product
    h.lookups = (embedding_params(n) - (n.tied && last ? n.hidden * n.vocab : 0)) / j.mp;
  if (last)
    h.tables += n.tied && j.pp > 1 && n.transformer() && n.kind != ModelKind::kVision ? n.hidden * n.vocab
                                                                                      : head_params(n);
  h.adapters = adapter_params(n, j) * share * (0.5 + 0.5 / j.mp);  // one of each pair is split
  h.tables /= j.mp, h.experts /= j.mp,
      h.matrices *= n.transformer() ? 1 / j.mp : n.part(n.split_params, j.mp);
  return h;
}
Held fullest_stage(const Network& n, const Job& j) {
  const Held first = stage_params(n, j, true, j.pp == 1), last = stage_params(n, j, j.pp == 1, true);
  return first.all() >= last.all() ? first : last;
}

void add(Memory& m, MemoryKind what, const Interval& bytes) {
  if (bytes.high <= 0) return;
  m.items.push_back({what, bytes});
  m.total += bytes;
}

void add_states(Memory& m, const Network& n, const Job& j, const Held& held) {
  const double shard = j.sharding, expert_shard = std::min(shard, expert_replicas(j));
  const bool away = j.offload == Offload::kAll, frozen = j.lora > 0;
  const Interval plain = Interval(held.tables * weight_bytes(j)) + matrix_bytes(j) * held.matrices;
  const Interval experts = matrix_bytes(j) * held.experts;
  if (away || (j.stage >= 3 && shard > 1)) {
    const double one_layer =
        (n.params - expert_params(n) * (1 - 1 / j.ep)) / n.layers / j.mp * matrix_bytes(j).point;
    add(m, MemoryKind::kWeights,
        plain * (away ? 0 : 1 / shard) + Interval(1, 2, 3) * one_layer);  // the layer in use and the next
    if (!away) add(m, MemoryKind::kExperts, experts * (1 / expert_shard));
  } else {
    add(m, MemoryKind::kWeights, plain), add(m, MemoryKind::kExperts, experts);
  }
  if (frozen) add(m, MemoryKind::kAdapters, Interval(weight_bytes(j), weight_bytes(j), 4) * held.adapters);
  if (!j.training) {
    if (away) m.host += (plain.point + experts.point) / (j.stage >= 3 ? shard : 1);
    return;
  }
  // What is trained, as if sharded once: experts are fewer to share them.
  const double dense = frozen ? held.adapters : held.tables + held.matrices,
               routed = frozen ? 0 : held.experts;
  const auto sharded = [&](bool yes) { return yes ? dense / shard + routed / expert_shard : dense + routed; };
  const double g = (dense + routed) * gradient_bytes(j),
               kept_gradients = sharded(j.stage >= 2) * gradient_bytes(j);
  const double states = sharded(j.stage >= 1) * optimizer_bytes(j);
  // Some stacks accumulate half gradients in single precision.
  const double wide = gradient_bytes(j) == 2 && (j.passes() > 1 || j.pp > 1 || frozen) ? 2 : 1;
  if (away || (j.offload == Offload::kOptimizer && j.stage >= 2))
    add(m, MemoryKind::kGradients, Interval(0.5, 1, 1.5) * std::min(Assumed::kBucket * 2, g));
  else add(m, MemoryKind::kGradients, {kept_gradients, kept_gradients, kept_gradients * wide});
  if (j.offload == Offload::kNone)
    return add(m, MemoryKind::kOptimizer, frozen ? Interval(states / 3, states, states) : Interval(states));
  m.host += states;
  if (away) m.host += (plain.point + experts.point + g) / (j.stage >= 3 ? shard : 1);
  else if (j.stage >= 2) m.host += kept_gradients / (j.stage >= 3 ? shard : 1);
}

Memory of_stage(const Network& n, const Job& j, const Device& d, bool first, bool last) {
  Memory m;
  add_states(m, n, j, stage_params(n, j, first, last));
  if (j.training) {
    // 1F1B: the first stage waits for all that follow; virtual stages start more of them.
    const double flying =
        first ? std::min(j.pp, j.passes()) * (1 + (j.vpp > 1 ? (j.pp - 1) / (j.pp * j.vpp) : 0)) : 1;
    add(m, MemoryKind::kActivations, kept_by_pass(n, j) * flying);
    if (last) add(m, MemoryKind::kLogits, logits_bytes(n, j));
  } else if (n.kind == ModelKind::kDecoder) {
    const double context = n.seq + j.new_tokens;
    add(m, MemoryKind::kCache,
        Interval(layers_of_device(n, j) * cache_elements(n, j.mp) * context / j.cp * j.micro_batch() *
                 cache_bytes(j)));
    if (last) add(m, MemoryKind::kLogits, Interval(1, 1, 2) * (j.micro_batch() * n.vocab * 4 / j.mp));
  }
  add(m, MemoryKind::kWorkspace, working_bytes(n, j));
  if (j.devices() > 1) {
    Interval c = row(d.kind).communication * kGiB;
    if (j.training && j.replicas() > 1)
      c += Interval(0, 1, 2) * std::min(Assumed::kBucket, trained_params(n, j) * gradient_bytes(j));
    if (j.ep > 1)  // sent and received copies of one micro-batch
      c += Interval(1, 2, 4) * (activation_bytes(j) * tokens(n, j) * j.micro_batch() * n.active * n.hidden);
    if (j.cp > 1)  // the neighbour's keys and values, twice
      c += Interval(1, 2, 4) *
           (activation_bytes(j) * tokens(n, j) * j.micro_batch() * cache_elements(n, j.mp));
    add(m, MemoryKind::kCommunication, c);
  }
  const Interval planned(std::max(0.0, d.runtime - d.runtime_doubt), d.runtime, d.runtime + d.runtime_doubt);
  add(m, MemoryKind::kRuntime, d.runtime > 0 ? planned : row(d.kind).runtime * kGiB);
  const Interval moving = m.of(MemoryKind::kActivations) + m.of(MemoryKind::kWorkspace) +
                          m.of(MemoryKind::kLogits) + m.of(MemoryKind::kGradients);
  add(m, MemoryKind::kFragmentation,
      {0, moving.point * Assumed::fragmentation().point, moving.high * Assumed::fragmentation().high});
  return m;
}

}  // namespace

Interval Memory::of(MemoryKind what) const {
  for (const MemoryItem& i : items)
    if (i.what == what) return i.bytes;
  return {};
}

double kept_layer(const Network& n, const Job& j) {
  const double b = j.micro_batch();
  if (!n.transformer()) return kept_by_pass(n, j).point / layers_of_device(n, j);
  const KeptBytes k = kept_bytes(n, j);
  double one = k.whole / (j.sequence_parallel ? j.mp : 1) + k.split / j.mp;
  if (!j.flash && j.recompute == Recompute::kNone) one += scores_bytes(n, j);
  return one * b;
}

double layers_of_device(const Network& n, const Job& j) { return std::ceil(n.layers / j.pp); }
double expert_replicas(const Job& j) { return std::max(j.replicas() * j.cp / j.ep, 1.0); }
double device_params(const Network& n, const Job& j) { return fullest_stage(n, j).all(); }
double trained_params(const Network& n, const Job& j) {
  const Held h = fullest_stage(n, j);
  return j.lora > 0 ? h.adapters : h.all();
}
double stored_bytes(const Network& n, const Job& j) {
  const Held h = fullest_stage(n, j);
  return h.tables * weight_bytes(j) + (h.matrices + h.experts) * matrix_bytes(j).point +
         h.adapters * weight_bytes(j);
}

double read_bytes(const Network& n, const Job& j) {
  return stored_bytes(n, j) - fullest_stage(n, j).lookups * weight_bytes(j);
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

double largest_micro_batch(const Network& n, Job j, const Device& d, bool surely) {
  // As many passes as the job has, and enough to fill the pipeline: what is in flight counts.
  const double passes = std::max(std::ceil(j.passes()), j.pp);
  const auto fit = [&](double b) {
    j.micro = b, j.batch = b * passes * j.replicas();
    const Memory m = memory_of(n, j, d);
    return surely ? surely_fits(m, d) : fits(m, d);
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
