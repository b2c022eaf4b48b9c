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
  double dp = 1, mp = 1, pp = 1, sharding = 1;
  double stage = 0;                // of sharding (ZeRO): 0 none, 1 optimizer, 2 and gradients, 3 and weights
  bool sequence_parallel = false;  // with mp: norms and dropout split along the sequence

  double devices() const { return dp * mp * pp * sharding; }
  double replicas() const { return dp * sharding; }
  double micro_batch() const { return micro > 0 ? micro : batch / replicas(); }
  double passes() const { return batch / replicas() / micro_batch(); }  // micro-batches of a step
};

// Refuses what cannot be (unknown words, splits that do not divide).
void check(const Job& j, const Network& n);

double weight_bytes(const Job& j);  // of one parameter, as held on the device
double gradient_bytes(const Job& j);
double optimizer_bytes(const Job& j);   // states and the fp32 master copy where the weights are half
double activation_bytes(const Job& j);  // of one element

}  // namespace yuloh::advise
