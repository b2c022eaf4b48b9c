// SPDX-License-Identifier: Apache-2.0
// What is to be done with a network: train or infer, in which precision, split how.
#pragma once
#include <cmath>
#include <string>

#include "advise/device.h"

namespace yuloh::advise {

enum class Optimizer : uint8_t { kSgd, kMomentum, kAdam, kAdamW, kLamb, kAdafactor };
struct OptimizerRow {
  Optimizer id;
  const char* name;
  double states;           // bytes of a parameter, beside the float32 copy of one that is half
  const char* class_name;  // in yuloh.optimizer, as in Paddle's; "": none
};
template <>
struct Table<Optimizer> {
  using enum Optimizer;
  static constexpr const char *what = "optimizer", *hint = "--optimizer";
  static constexpr OptimizerRow rows[] = {
      {kSgd, "sgd", 0, "SGD"},
      {kMomentum, "momentum", 4, "Momentum"},
      {kAdam, "adam", 8, "Adam"},
      {kAdamW, "adamw", 8, "AdamW"},
      {kLamb, "lamb", 8, "Lamb"},
      {kAdafactor, "adafactor", 0.1, ""}};  // rows and columns instead of the full second moment
};
static_assert(in_order<Optimizer>());

enum class Recompute : uint8_t { kNone, kSelective, kFull };  // kSelective: of attention's scores
template <>
struct Table<Recompute> {
  static constexpr const char *what = "recompute", *hint = "--recompute";
  static constexpr NameRow<Recompute> rows[] = {
      {Recompute::kNone, "none"}, {Recompute::kSelective, "selective"}, {Recompute::kFull, "full"}};
};
static_assert(in_order<Recompute>());

// On the host: states, or weights and gradients too.
enum class Offload : uint8_t { kNone, kOptimizer, kAll };
template <>
struct Table<Offload> {
  static constexpr const char *what = "offload", *hint = "--offload";
  static constexpr NameRow<Offload> rows[] = {
      {Offload::kNone, "none"}, {Offload::kOptimizer, "optimizer"}, {Offload::kAll, "all"}};
};
static_assert(in_order<Offload>());

// Matrices that LoRA puts adapters beside.
enum class Target : uint8_t { kQuery, kKey, kValue, kOut, kFeed, kAttention, kAll };
struct TargetRow {
  Target id;
  const char* name;
  unsigned parts;  // bits of Part
};
template <>
struct Table<Target> {
  using enum Target;
  static constexpr const char *what = "lora-targets", *hint = "--lora-targets";
  static constexpr unsigned attention =
                                bit(Part::kQuery) | bit(Part::kKey) | bit(Part::kValue) | bit(Part::kOut),
                            feed = bit(Part::kFeed) | bit(Part::kExpert);
  static constexpr TargetRow rows[] = {
      {kQuery, "q", bit(Part::kQuery)}, {kKey, "k", bit(Part::kKey)}, {kValue, "v", bit(Part::kValue)},
      {kOut, "o", bit(Part::kOut)},     {kFeed, "ffn", feed},         {kAttention, "attention", attention},
      {kAll, "all", attention | feed}};
};
static_assert(in_order<Target>());
struct Targets {
  unsigned parts = row(Target::kAttention).parts;
  bool has(Part p) const { return (parts & bit(p)) != 0; }
};
Targets read_targets(const std::string& list);  // words between commas; throws on others
std::string name(const Targets& t);

struct Job {
  bool training = true;
  Precision precision = Precision::kBf16;
  Optimizer optimizer = Optimizer::kAdamW;
  Recompute recompute = Recompute::kNone;
  double recompute_layers = 0;  // with kFull: the first so many layers only; 0: all
  Offload offload = Offload::kNone;
  bool flash = true;      // attention kernels that keep no scores
  double batch = 1;       // samples of one optimizer step, over all devices
  double micro = 0;       // samples of one pass on one device; 0: batch / replicas
  double new_tokens = 0;  // inference of a decoder: tokens to generate
  // LoRA: rank of the pairs beside frozen matrices (0: all parameters are trained), and which ones have them.
  double lora = 0;
  Targets lora_targets;
  double weight_bits =
      0;  // stored bits of frozen or served matrices: 16, 8, 4; 0: by precision. Arithmetic stays as it is
  double cache_bits = 0;  // of cached keys and values: 16, 8; 0: by precision
  bool eager =
      false;  // a stack that runs op by op: norms keep float32 copies, activation functions their results
  double dp = 1, mp = 1, pp = 1, sharding = 1;
  double cp = 1;     // context parallel: a sample's positions over so many devices, keys and values go round
                     // (ring attention)
  double ep = 1;     // expert parallel: experts over so many of the dp x sharding x cp devices
  double vpp = 1;    // virtual stages of a device (interleaved pipeline)
  double stage = 0;  // of sharding (ZeRO): 0 none, 1 optimizer, 2 and gradients, 3 and weights
  bool sequence_parallel = false;  // with mp: norms and dropout split along the sequence

  double devices() const { return dp * mp * pp * sharding * cp; }
  double replicas() const { return dp * sharding; }
  double micro_batch() const { return micro > 0 ? micro : batch / replicas(); }
  // Micro-batches of a step; without a pipeline the last may be smaller, and counts as a whole one.
  double passes() const { return std::ceil(batch / replicas() / micro_batch()); }
};

// Refuses what cannot be (splits that do not divide).
void check(const Job& j, const Network& n);

// Parameters of all adapters (0 without LoRA), and whether matrices of this part have one.
double adapter_params(const Network& n, const Job& j);
bool adapted(const Job& j, Part part);

double weight_bytes(const Job& j);  // of one parameter, as held on the device; matrices may be stored in less
Interval matrix_bytes(const Job& j);  // the same of a layer's matrices, with their scales
double cache_bytes(const Job& j);     // of one cached number
double gradient_bytes(const Job& j);
double optimizer_bytes(const Job& j);   // states and the fp32 master copy where the weights are half
double activation_bytes(const Job& j);  // of one element

}  // namespace yuloh::advise
