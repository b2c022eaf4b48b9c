// SPDX-License-Identifier: Apache-2.0
// What is to be done with a network: train or infer, in which precision, split how.
#pragma once
#include <string>

#include "advise/network.h"

namespace yuloh::advise {

struct Job {
  bool training = true;
  std::string precision = "bf16";   // fp32, tf32, fp16, bf16, fp8, int8 (the last for inference only)
  std::string optimizer = "adamw";  // sgd, momentum, adam, adamw, lamb, adafactor
  std::string recompute = "none";   // none, selective (attention scores), full
  double recompute_layers = 0;      // with full: the first so many layers only; 0: all
  std::string offload = "none";     // none, optimizer (states on the host), all (weights and gradients too)
  bool flash = true;                // attention kernels that keep no scores
  double batch = 1;                 // samples of one optimizer step, over all devices
  double micro = 0;                 // samples of one pass on one device; 0: batch / replicas
  double new_tokens = 0;            // inference of a decoder: tokens to generate
  // LoRA: rank of the pairs beside frozen matrices (0: all parameters are trained), and which ones have them:
  // words of q, k, v, o, ffn, or attention (q,k,v,o), all.
  double lora = 0;
  std::string lora_targets = "attention";
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
  double passes() const { return batch / replicas() / micro_batch(); }  // micro-batches of a step
};

void check_words(const std::string& precision, const std::string& recompute);
// Refuses what cannot be (unknown words, splits that do not divide).
void check(const Job& j, const Network& n);

// Parameters of all adapters (0 without LoRA), and whether matrices of this part have one. Throws on unknown
// targets.
double adapter_params(const Network& n, const Job& j);
bool adapted(const Job& j, Part part);

double weight_bytes(const Job& j);  // of one parameter, as held on the device; matrices may be stored in less
Interval matrix_bytes(const Job& j);  // the same of a layer's matrices, with their scales
double cache_bytes(const Job& j);     // of one cached number
double gradient_bytes(const Job& j);
double optimizer_bytes(const Job& j);   // states and the fp32 master copy where the weights are half
double activation_bytes(const Job& j);  // of one element

}  // namespace yuloh::advise
