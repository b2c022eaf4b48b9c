// SPDX-License-Identifier: Apache-2.0
// Checks of a job and bytes per parameter (Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 3.1:
// mixed-precision Adam holds 2 + 2 + 12 bytes). Adapters: Hu et al. 2021 (arXiv:2106.09685); matrices of 4
// bits with a scale for 64 numbers, in float32 or once more in 8 bits: Dettmers et al. 2023
// (arXiv:2305.14314, section 3).
#include "advise/job.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "advise/device.h"
#include "base/error.h"

namespace yuloh::advise {
namespace {

void one_of(const char* what, const std::string& got, std::initializer_list<const char*> allowed) {
  std::string list;
  for (const char* a : allowed) {
    if (got == a) return;
    list += list.empty() ? a : std::string(", ") + a;
  }
  value_error("advise: unknown ", what, ", got '", got, "'; expected one of ", list, ". Hint: check --", what,
              ".");
}
void count(const char* what, double v, double high = 1 << 20) {
  if (!(std::isfinite(v) && v >= 1 && v <= high && v == std::floor(v)))
    value_error("advise: ", what, " must be a whole number from 1 to ", high, ", got ", v, ". Hint: check --",
                what, ".");
}
bool half(const Job& j) { return j.precision == "fp16" || j.precision == "bf16" || j.precision == "fp8"; }

bool says(const std::string& list, const char* word) {
  return ("," + list + ",").find(std::string(",") + word + ",") != std::string::npos;
}
void check_targets(const std::string& list) {
  size_t from = 0;
  while (from <= list.size()) {
    const size_t to = std::min(list.find(',', from), list.size());
    one_of("lora-targets", list.substr(from, to - from), {"q", "k", "v", "o", "ffn", "attention", "all"});
    from = to + 1;
  }
}
void check_lora(const Job& j, const Network& n) {
  check_targets(j.lora_targets);
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

bool adapted(const Job& j, Part part) {
  const std::string& t = j.lora_targets;
  if (j.lora == 0 || part == Part::kRouter) return false;
  if (says(t, "all")) return true;
  const bool feed = part == Part::kFeed || part == Part::kExpert;
  if (feed) return says(t, "ffn");
  return says(t, "attention") || says(t, part == Part::kQuery   ? "q"
                                         : part == Part::kKey   ? "k"
                                         : part == Part::kValue ? "v"
                                                                : "o");
}
double adapter_params(const Network& n, const Job& j) {
  double p = 0;
  for (const Matrix& m : layer_matrices(n))
    if (adapted(j, m.part)) p += n.layers * m.count * j.lora * (m.in + m.out);
  return p;
}

void check_words(const std::string& precision, const std::string& recompute) {
  one_of("precision", precision, {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"});
  one_of("recompute", recompute, {"none", "selective", "full"});
}
void check(const Job& j, const Network& n) {
  check_words(j.precision, j.recompute);
  one_of("optimizer", j.optimizer, {"sgd", "momentum", "adam", "adamw", "lamb", "adafactor"});
  one_of("offload", j.offload, {"none", "optimizer", "all"});
  if (j.training && j.precision == "int8")
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
  if (j.devices() > 1 << 20)
    value_error("advise: too many devices, got ", j.devices(), "; expected at most ", 1 << 20, ".");
  if (std::fmod(j.batch, j.replicas()) != 0)
    value_error("advise: the batch must be a multiple of dp x sharding, got ", j.batch, " and ", j.replicas(),
                ". Hint: check --batch.");
  if (j.micro != 0 && std::fmod(j.batch / j.replicas(), j.micro) != 0)
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
  check_splits(j, n);
  if (!(j.recompute_layers >= 0 && j.recompute_layers <= n.layers))
    value_error("advise: recompute-layers must be 0 to the layers, got ", j.recompute_layers, " of ",
                n.layers, ".");
}

double weight_bytes(const Job& j) {
  return j.precision == "int8" ? 1 : half(j) ? (j.precision == "fp8" && !j.training ? 1 : 2) : 4;
}
Interval matrix_bytes(const Job& j) {
  if (j.weight_bits == 4) return {0.5 + 0.016, 0.5 + 0.04, 0.5 + 0.0625};
  if (j.weight_bits == 8) return {1, 1.01, 1.06};
  return Interval(j.weight_bits == 16 ? 2 : weight_bytes(j));
}
double cache_bytes(const Job& j) { return j.cache_bits > 0 ? j.cache_bits / 8 : activation_bytes(j); }
double gradient_bytes(const Job& j) { return half(j) ? 2 : 4; }
double optimizer_bytes(const Job& j) {
  const double master = half(j) ? 4 : 0;
  if (j.optimizer == "sgd") return master;
  if (j.optimizer == "momentum") return master + 4;
  if (j.optimizer == "adafactor") return master + 0.1;  // rows and columns instead of the full second moment
  return master + 8;
}
double activation_bytes(const Job& j) { return half(j) || j.precision == "int8" ? 2 : 4; }

double peak_for(const Device& d, const std::string& precision, std::string* used) {
  struct Peak {
    const char* name;
    double rate;
  };
  const Peak order[] = {{"fp8", d.fp8},   {"int8", d.int8}, {"bf16", d.bf16},
                        {"fp16", d.fp16}, {"tf32", d.tf32}, {"fp32", d.fp32}};
  const auto rate_of = [&](const std::string& p) {
    for (const Peak& s : order)
      if (p == s.name) return s.rate;
    return 0.0;
  };
  std::string p = precision;
  if (p == "fp8" && d.fp8 <= 0) p = "bf16";
  if (p == "int8" && d.int8 <= 0) p = "fp16";
  if (p == "bf16" && d.bf16 <= 0) p = "fp16";
  else if (p == "fp16" && d.fp16 <= 0) p = "bf16";
  if ((p == "tf32" || p == "bf16" || p == "fp16") && rate_of(p) <= 0) p = "fp32";
  if (p == "fp32" && d.fp32 <= 0) p = d.fp16 > 0 ? "fp16" : "bf16";  // some accelerators state no fp32 rate
  if (used) *used = p;
  return rate_of(p);
}
void check(const Device& d) {
  one_of("kind of device", d.kind, {"gpu", "npu", "edge", "cpu"});
  const auto need = [&](const char* what, double v, double low, double high) {
    if (!(std::isfinite(v) && v >= low && v <= high))
      value_error("advise: device '", d.name, "' has an impossible ", what, ", got ", v, "; expected ", low,
                  " to ", high, ". Hint: check the device file.");
  };
  need("memory", d.memory, 1 << 20, 1e16), need("bandwidth", d.bandwidth, 1e6, 1e16);
  need("fp32 rate", d.fp32, 0, 1e20), need("tf32 rate", d.tf32, 0, 1e20), need("fp16 rate", d.fp16, 0, 1e20);
  need("bf16 rate", d.bf16, 0, 1e20), need("fp8 rate", d.fp8, 0, 1e20), need("int8 rate", d.int8, 0, 1e20);
  need("link", d.link, 0, 1e16), need("host link", d.host_link, 0, 1e16), need("watts", d.watts, 0, 1e6);
  need("number per server", d.per_node, 1, 1 << 16), need("efficiency", d.matrix_efficiency, 0, 1),
      need("efficiency", d.stream_efficiency, 0, 1);
  if (d.spread != 0) need("spread", d.spread, 1, 100);
  if (std::isnan(d.price) || d.price > 1e9)
    value_error("advise: device '", d.name, "' has an impossible price, got ", d.price,
                ". Hint: check --prices.");
  if (std::max({d.fp32, d.tf32, d.fp16, d.bf16}) <= 0)
    value_error("advise: device '", d.name, "' has no rate of arithmetic. Hint: check the device file.");
}
void check(const Fabric& f) {
  const auto rate = [](double v) { return std::isfinite(v) && v >= 1e6 && v <= 1e13; };
  if (!(rate(f.rate) && (f.rate_server == 0 || rate(f.rate_server)) && std::isfinite(f.latency) &&
        f.latency >= 0 && f.latency <= 1))
    value_error("advise: impossible network, got ", f.rate, " bytes/s and ", f.latency,
                " s. Hint: check --network.");
}

}  // namespace yuloh::advise
