// SPDX-License-Identifier: Apache-2.0
// Facts: what one training step or one inference of a model needs, read off the Plans of a dry run
// (run/dry_run.h): bytes by kind, FLOPs, bytes moved, time, per kind of kernel and per layer. Everything that
// advises (fit, change, layouts over devices, price) starts from this record; it is also the JSON that
// `yuloh.advise.facts` returns. Every figure carries its origin and an interval.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace yuloh::advise {

enum class Origin : uint8_t { kMeasured, kComputed, kCatalogue, kUser, kAssumed };
const char* origin_name(Origin o);  // "measured", "computed", "catalogue", "user", "assumed" (catalogue peak
                                    // x assumed efficiency)

struct Figure {
  double value = 0, low = 0, high = 0;
  Origin origin = Origin::kComputed;
  static Figure exact(double v) { return {v, v, v, Origin::kComputed}; }
  static Figure within(double v, double share, Origin o) { return {v, v * (1 - share), v * (1 + share), o}; }
  static Figure factor(double v, double f, Origin o) { return {v, v / f, v * f, o}; }
};

// One Layer of the model. Bytes, FLOPs and seconds include its sublayers; of one micro-batch.
struct LayerFacts {
  std::string name, type;          // "layer1.0.conv1", "Conv2D"; the model itself has the name ""
  int32_t parent = -1, depth = 0;  // index in Facts::layers
  int64_t parameters = 0;          // elements, shared ones counted once
  double weight_bytes = 0;
  double activation_bytes = 0;  // made in its forward pass and still needed by the backward pass
  double input_bytes = 0,
         output_bytes = 0;  // what crosses its boundary: a pipeline cut behind it sends output_bytes
  double flops_forward = 0, flops_backward = 0;
  double moved_forward = 0, moved_backward = 0;      // bytes that kernels read and write
  double seconds_forward = 0, seconds_backward = 0;  // on the device of Facts::device
};

// Kernels of one kind and dtype over one step.
struct KindFacts {
  std::string kind;   // conv, depthwise, gemm, attention, elementwise, reduction, gather, optimizer, other
  std::string dtype;  // float32, bfloat16, ...
  int64_t calls = 0;
  double flops = 0, moved = 0, seconds = 0;
  Origin origin = Origin::kAssumed;  // of the seconds
};

// What is held when the allocator's peak is reached; the items add up to `peak`.
struct MemoryFacts {
  double weights = 0, buffers = 0;  // parameters; running statistics and other state
  double gradients =
      0;  // of parameters, alive at the peak (most die inside the step, right after their update)
  double optimizer = 0;    // moments, float32 twins of half-precision parameters
  double activations = 0;  // results of the forward pass
  double temporaries = 0;  // other values of the backward pass, alive at the peak
  double workspace = 0;    // kernels' scratch
  double inputs = 0;       // the batch and labels
  double slack = 0;        // rounding of blocks, holes in the arena
  Figure peak;             // most bytes that tensors and arenas held: paddle.device max_memory_allocated()
  Figure reserved;         // ... with idle blocks: max_memory_reserved()
  // The process: reserved + the rest below. VmHWM of a fresh process.
  double interpreter = 0;  // Python, NumPy, the package and its libraries
  double code = 0;         // plans, kernels, code that libraries generate
  double scratch = 0;      // working space of threads and libraries outside of plans
  Figure process;
  // The same step in a system that runs op by op, as PyTorch does: every result stored, what gradients read
  // kept, all gradients held until the update. Bytes of its tensors at the peak; its own process comes on
  // top.
  Figure eager;
  double gradients_all = 0;  // if every parameter's gradient were held at once (sharding, accumulation)
};

// What tensor parallel can share among devices (split.h); of the recorded batch.
struct SplitFacts {
  int64_t products = 0, by = 0;      // products with a matrix; the devices have to divide `by`
  double parameters = 0, flops = 0;  // of these products and what lies between them; FLOPs forward
  double kept_share = 0;             // of the bytes that the backward pass keeps
  double sent = 0;                   // elements that are summed over the devices, forward
  std::vector<int32_t> layers;       // where the products stand
};

struct Facts {
  static constexpr int kVersion = 1;
  std::string subject;  // "ResNet", a path, ...
  bool training = false;
  std::string precision;  // "float32", "amp-bfloat16", "bfloat16", ...
  std::string optimizer;  // "Adam", "" for inference
  int64_t batch = 0, accumulate = 1;
  bool recompute = false;
  int64_t parameters = 0, trainable = 0;
  MemoryFacts memory;
  double flops = 0, moved = 0;     // of one step: all micro-batches and the update
  int64_t kernels = 0;             // kernel calls of a step
  Figure seconds;                  // of one steady step on `device`
  std::string device;              // which device file or catalogue row the seconds are of
  std::vector<LayerFacts> layers;  // parents before children
  std::vector<KindFacts> kinds;
  SplitFacts split;
  std::vector<std::string> notes;  // what was left out or assumed, in sentences
};

nlohmann::json to_json(const Facts& f);
Facts facts_from_json(const nlohmann::json& j);  // throws Error on what does not fit

}  // namespace yuloh::advise
