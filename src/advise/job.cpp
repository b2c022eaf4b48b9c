// SPDX-License-Identifier: Apache-2.0
// Checks of a job and bytes per parameter (Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 3.1:
// mixed-precision Adam holds 2 + 2 + 12 bytes). Adapters: Hu et al. 2021 (arXiv:2106.09685); matrices of 4
// bits with a scale for 64 numbers, in float32 or once more in 8 bits: Dettmers et al. 2023
// (arXiv:2305.14314, section 3).
#include "advise/job.h"

#include <algorithm>
#include <cmath>

namespace yuloh::advise {
namespace {

void count(const char* what, double v, double high = 1 << 20) {
  if (!(std::isfinite(v) && v >= 1 && v <= high && v == std::floor(v)))
    value_error("advise: ", what, " must be a whole number from 1 to ", high, ", got ", v, ". Hint: check --",
                what, ".");
}
void check_lora(const Job& j, const Network& n) {
  if (j.lora == 0) return;
  count("lora", j.lora, 1 << 16);
  if (!n.transformer())
    value_error("advise: LoRA needs a transformer's shape, got ", n.name,
                ". Hint: a preset such as llama-7b, or --layers and --hidden.");
  if (!j.training)
    value_error(
        "advise: LoRA trains; adapters are merged for inference. Hint: leave --lora or --inference away.");
  for (const Matrix& m : layer_matrices(n))
    if (adapted(j, m.part) && j.lora > std::min(m.in, m.out))
      value_error("advise: the rank of LoRA cannot exceed the matrices, got ", j.lora, " beside ", m.in,
                  " x ", m.out, ". Hint: --lora 16.");
}
void check_bits(const Job& j) {
  if (j.weight_bits != 0 && j.weight_bits != 16 && j.weight_bits != 8 && j.weight_bits != 4)
    value_error("advise: weight-bits must be 4, 8 or 16, got ", j.weight_bits,
                ". Hint: check --weight-bits.");
  if (j.cache_bits != 0 && j.cache_bits != 16 && j.cache_bits != 8)
    value_error("advise: cache-bits must be 8 or 16, got ", j.cache_bits, ". Hint: check --cache-bits.");
  if (j.weight_bits != 0 && j.training && j.lora == 0)
    value_error("advise: weights of ", j.weight_bits,
                " bits cannot be trained themselves. Hint: --lora 16, or --inference.");
  if (j.cache_bits != 0 && j.training)
    value_error("advise: cache-bits serves inference only. Hint: --inference.");
}
void check_served(const Job& j, const Network& n) {
  if (j.recompute != Recompute::kNone)
    value_error("advise: recompute is for training, got ", name(j.recompute),
                ". Hint: leave --recompute or --inference away.");
  if (j.offload == Offload::kOptimizer)
    value_error(
        "advise: inference has no optimizer states to offload. Hint: --offload all, for the weights.");
  if (j.stage == 1 || j.stage == 2)
    value_error("advise: sharding stage ", j.stage,
                " shards what only a training has. Hint: --mp or --stage 3.");
  if (n.kind == ModelKind::kDecoder) return;
  for (const auto& [what, v] : {std::pair{"new-tokens", j.new_tokens}, {"cache-bits", j.cache_bits}})
    if (v != 0)
      value_error("advise: ", what, " is for models that generate tokens, got ", v, " for ", n.name, " (",
                  name(n.kind), "). Hint: leave --", what, " away.");
}
void check_splits(const Job& j, const Network& n) {
  count("cp", j.cp), count("ep", j.ep), count("vpp", j.vpp, 1024);
  if (j.sequence_parallel && j.mp > 1 && std::fmod(n.seq, j.mp) != 0)
    value_error("advise: sequence parallel needs a sequence that is a multiple of mp, got ", n.seq, " and ",
                j.mp, ". Hint: check --seq and --mp.");
  if (j.vpp > 1 && j.pp == 1)
    value_error("advise: virtual stages (vpp) need a pipeline, got vpp ", j.vpp, " and pp 1. Hint: --pp.");
  if (j.vpp > 1 && std::fmod(n.layers, j.pp * j.vpp) != 0)
    value_error("advise: the layers must be a multiple of pp x vpp, got ", n.layers, " and ", j.pp, " x ",
                j.vpp, ". Hint: check --vpp.");
  if (j.vpp > 1 && j.training && std::fmod(j.passes(), j.pp) != 0)
    value_error("advise: an interleaved pipeline needs a multiple of pp micro-batches, got ", j.passes(),
                " and pp ", j.pp, ". Hint: --micro-batch or --batch.");
  if (j.cp > 1 && (!n.transformer() || std::fmod(n.seq, 2 * j.cp) != 0))
    value_error("advise: context parallel needs a sequence that is a multiple of 2 cp, got ", n.seq, " and ",
                j.cp, ". Hint: check --cp.");
  if (j.ep > 1 && n.experts == 0)
    value_error("advise: expert parallel (ep) needs a mixture of experts, got none. Hint: --experts.");
  if (j.ep > 1 && std::fmod(n.experts, j.ep) != 0)
    value_error("advise: the experts must be a multiple of ep, got ", n.experts, " and ", j.ep,
                ". Hint: check --ep.");
  if (j.ep > 1 && std::fmod(j.replicas() * j.cp, j.ep) != 0)
    value_error(
        "advise: experts lie over data parallel devices, so dp x sharding x cp must be a multiple of ep, "
        "got ",
        j.replicas() * j.cp, " and ", j.ep, ". Hint: check --ep.");
}

}  // namespace

Targets read_targets(const std::string& list) {
  Targets t{0};
  for (size_t from = 0; from <= list.size();) {
    const size_t to = std::min(list.find(',', from), list.size());
    t.parts |= row(read_word<Target>(std::string_view(list).substr(from, to - from))).parts;
    from = to + 1;
  }
  return t;
}
std::string name(const Targets& t) {
  std::string list;
  for (const TargetRow& r : Table<Target>::rows) {
    if (r.parts == t.parts) return r.name;
    if ((r.parts & t.parts) == r.parts && r.id < Target::kAttention)
      list += list.empty() ? r.name : std::string(",") + r.name;
  }
  return list;
}

bool adapted(const Job& j, Part part) { return j.lora > 0 && j.lora_targets.has(part); }
double adapter_params(const Network& n, const Job& j) {
  double p = 0;
  for (const Matrix& m : layer_matrices(n))
    if (adapted(j, m.part)) p += n.layers * m.count * j.lora * (m.in + m.out);
  return p;
}

void check(const Job& j, const Network& n) {
  if (j.training && j.precision == Precision::kInt8)
    value_error("advise: int8 serves inference only, got training. Hint: --precision bf16, or --inference.");
  count("batch", j.batch, 1e9), count("dp", j.dp), count("mp", j.mp), count("pp", j.pp),
      count("sharding", j.sharding);
  if (j.micro != 0) count("micro-batch", j.micro, 1e9);
  if (!(j.stage >= 0 && j.stage <= 3 && j.stage == std::floor(j.stage)))
    value_error("advise: stage must be 0, 1, 2 or 3, got ", j.stage, ". Hint: check --stage.");
  if (j.stage > 0 && j.sharding == 1 && j.dp > 1)
    value_error("advise: sharding stage ", j.stage, " shards over the sharding group, got dp ", j.dp,
                " and sharding 1. Hint: --sharding ", j.dp, " instead of --dp, or both.");
  if (!(j.new_tokens >= 0 && j.new_tokens <= 1e7))
    value_error("advise: new-tokens must be 0 to 1e7, got ", j.new_tokens, ". Hint: check --new-tokens.");
  check_lora(j, n), check_bits(j);
  if (!j.training) check_served(j, n);
  if (j.devices() > 1 << 20)
    value_error("advise: too many devices, got ", j.devices(), "; expected at most ", 1 << 20, ".");
  if (std::fmod(j.batch, j.replicas()) != 0)
    value_error("advise: the batch must be a multiple of dp x sharding, got ", j.batch, " and ", j.replicas(),
                ". Hint: check --batch.");
  if (j.micro > j.batch / j.replicas() ||
      (j.micro != 0 && (j.pp > 1 || !j.training) && std::fmod(j.batch / j.replicas(), j.micro) != 0))
    value_error("advise: the batch of one replica must be a multiple of the micro-batch, got ",
                j.batch / j.replicas(), " and ", j.micro, ". Hint: check --micro-batch.");
  if (j.pp > n.layers)
    value_error("advise: pp cannot exceed the layers, got ", j.pp, " and ", n.layers, ". Hint: check --pp.");
  if (j.mp > 1 && !n.transformer() && n.split_by > 1 && !n.splits_by(j.mp))
    value_error("advise: the pairs of products of ", n.name, " divide by ", n.split_by, ", got mp ", j.mp,
                ". Hint: check --mp.");
  if (j.mp > 1 && !n.transformer() && n.split_by <= 1)
    value_error("advise: tensor parallel (mp) needs a transformer's shape or pairs of products, got mp ",
                j.mp, " for ", n.name, ". Hint: --mp 1.");
  if (n.transformer() && std::fmod(n.heads, j.mp) != 0)
    value_error("advise: heads must be a multiple of mp, got ", n.heads, " and ", j.mp,
                ". Hint: check --mp.");
  if (n.transformer() && !n.splits_by(j.mp))
    value_error("advise: the feed-forward and key-value heads must be multiples of mp, got ffn ", n.ffn,
                n.experts > 0 ? cat(", expert-ffn ", n.expert_ffn) : std::string(), ", kv-heads ", n.kv_heads,
                " and mp ", j.mp, ". Hint: check --mp.");
  check_splits(j, n);
  if (!(j.recompute_layers >= 0 && j.recompute_layers <= n.layers))
    value_error("advise: recompute-layers must be 0 to the layers, got ", j.recompute_layers, " of ",
                n.layers, ".");
}

double weight_bytes(const Job& j) { return j.training ? row(j.precision).weight : row(j.precision).served; }
Interval matrix_bytes(const Job& j) {
  if (j.weight_bits == 4) return {0.5 + 0.016, 0.5 + 0.04, 0.5 + 0.0625};
  if (j.weight_bits == 8) return {1, 1.01, 1.06};
  return Interval(j.weight_bits == 16 ? 2 : weight_bytes(j));
}
double cache_bytes(const Job& j) { return j.cache_bits > 0 ? j.cache_bits / 8 : activation_bytes(j); }
double gradient_bytes(const Job& j) { return row(j.precision).gradient; }
double optimizer_bytes(const Job& j) { return row(j.precision).master + row(j.optimizer).states; }
double activation_bytes(const Job& j) { return row(j.precision).activation; }

}  // namespace yuloh::advise
