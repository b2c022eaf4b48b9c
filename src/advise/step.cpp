// SPDX-License-Identifier: Apache-2.0
// A step's time: products at a share of the peak, element by element work at a share of the bandwidth, the
// larger of work and launches, collectives at a share of the link. Sources: communication volumes of ZeRO
// stages (arXiv:1910.02054, section 7) and of tensor parallel (arXiv:1909.08053: two all-reduces a pass and
// layer); bubble (p - 1)/(m v) of the pipeline with v virtual stages (arXiv:2104.04473); two all-to-alls a
// pass and layer of experts (GShard, arXiv:2006.16668); keys and values around the ring, behind the scores
// (arXiv:2310.01889). Shares: measured where `yuloh calibrate` or the user gave them, else the assumptions
// below.
#include "advise/step.h"

#include <algorithm>
#include <cmath>

namespace yuloh::advise {
namespace {

// What is assumed and not derived: in brackets what is thought possible, then where it comes from, if from
// anywhere. Shares of the peak and launches by kind of device stand in Table<DeviceKind>: published
// end-to-end shares are 0.4 to 0.52 on A100 for large GPTs (arXiv:2104.04473 table 1, arXiv:2205.05198 table
// 5), best products alone reach 0.87 (A100), 0.80 (H100), 0.51 (MI300X).
struct Assumed {
  static constexpr double kPrompt = 0.7;   // of a GPU's half peak (0.5 to 0.8): TensorRT-LLM on A100
  static constexpr double kStream = 0.75;  // of the bandwidth (0.6 to 0.9)
  // Of the share of large products, what many small ones of experts reach, permutation and uneven loads
  // included (0.2 to 0.6): published MoE runs differ by 3 for one model (docs/advise.md).
  static constexpr double kGrouped = 0.4;
  // Of the bandwidth, for kernels that widen stored bits of 4 and 8 on the way: the mean of gpt-fast's Llama
  // 2 7B and 70B on one A100 (0.55 and 0.64, 0.77 and 0.90).
  static constexpr double kWiden4 = 0.6, kWiden8 = 0.83;

  static constexpr double kLink = 0.75;        // of a link (0.6 to 0.85): NCCL, NVLink 3 0.78, NVLink 4 0.82
  static constexpr double kLeastLink = 1e9;    // bytes/s where none is known
  static constexpr double kLatency = 3e-6;     // seconds of a message inside a server (1e-6 to 10e-6)
  static constexpr double kHidden = 0.5;       // of the backward pass, that gradients travel behind (0 to 1)
  static constexpr double kSeen = 0.1;         // of messages behind work, still seen (0 to 0.2)
  static constexpr double kHopsSeen = 0.5;     // of a pipeline's hops, that no other pass hides (0 to 1)
  static constexpr double kHostStream = 40e9;  // bytes/s of the host for one device's Adam (20e9 to 80e9)
  static constexpr double kHostBytes = 6;      // of a parameter there, beside its states read and written

  // How often kept bytes are moved. Written, read, and again for the gradients (2 to 4); convolutions with
  // their norms twice as often (4 to 8). In inference once: norm and activation are fused into a convolution,
  // and int8 networks keep int8 in between.
  static constexpr double kMoves = 3, kMovesConv = 6, kMovesServed = 1, kMovesInt8 = 0.5;
  static constexpr double kAgain = 1 / 3.0;  // of a step's element by element work, that of the forward pass

  // Kernels of a layer, forward: of a transformer (8 to 20), more for experts (12 to 40), more for a pair of
  // adapters beside each of attention's four matrices. Of a token's layer fewer for experts, and replayed
  // from a graph in half the time.
  static constexpr double kKernels = 12, kKernelsExperts = 24, kKernelsLora = 8, kKernelsToken = 12;
  static constexpr double kReplayed = 0.5;
  static constexpr double kRamp = 0.6;  // of a launch: filling and draining the device, which no queue hides

  // The time of a step over the estimate's. Of 46 published times of dense models that set none of the shares
  // above 40 lie within, none below (test_advise_interval.py counts them); with experts further.
  static constexpr double kLow = 0.7, kHigh = 1.6, kHighExperts = 1.6;
};

double matrix_share(const Device& d, Precision p, bool generates) {
  if (d.matrix_efficiency > 0) return d.matrix_efficiency;
  if (generates && d.kind == DeviceKind::kGpu && (p == Precision::kFp16 || p == Precision::kBf16))
    return Assumed::kPrompt;
  return p == Precision::kFp32 ? row(d.kind).fp32 : row(d.kind).lower;
}
double stream_share(const Device& d) {
  return d.stream_efficiency > 0 ? d.stream_efficiency : Assumed::kStream;
}
double widening(const Job& j) {
  return j.weight_bits == 4 ? Assumed::kWiden4 : j.weight_bits == 8 ? Assumed::kWiden8 : 1;
}

struct Group {
  double rate, latency;
};
// Link of the job's groups of neighbours, `span` devices apart at most.
Group link_of(const Device& d, const Fabric& f, const Job& j, double span) {
  const double here = of_server(j.devices(), j.mp, d), between = f.rate_of(here);
  const double inside =
      std::max(d.between(span), Assumed::kLeastLink);    // a group over servers goes round inside each too
  if (j.devices() > here && std::fmod(here, span) != 0)  // some of the groups
    return {(here > 1 ? std::min(between, inside) : between) * Assumed::kLink, f.latency};
  return {inside * Assumed::kLink, Assumed::kLatency};
}
double all_reduce(double bytes, double size, const Group& g) {
  if (size <= 1) return 0;
  return 2 * (size - 1) / size * bytes / g.rate + 2 * std::log2(size) * g.latency;
}

double all_to_all(double bytes, double size, const Group& g) {  // every device sends all but its own share
  return size <= 1 ? 0 : (size - 1) / size * bytes / g.rate + size * g.latency;
}

// From a stage to the next, of so many positions of each sample of a pass.
double hop_seconds(const Network& n, const Job& j, const Device& d, const Fabric& f, double positions) {
  const Group g = link_of(d, f, j, j.devices());
  return activation_bytes(j) * positions * n.hidden * j.micro_batch() / g.rate + g.latency;
}

struct Pass {
  double arithmetic = 0, elementwise = 0, launch = 0, tensor = 0, experts = 0, context = 0;
  double work() const { return std::max(arithmetic + elementwise + Assumed::kRamp * launch, launch); }
  double seconds() const { return work() + tensor + experts + context; }
};

// Products of a step for one forward product: forward, by inputs, by weights; frozen matrices have no
// gradient.
double passes_of(const Job& j) { return !j.training ? 1 : j.lora > 0 ? 2 : 3; }

// What the scores of one layer and sample cost: fused attention leaves out what a decoder masks, and computes
// in half precision where the products are in fp8 or int8.
double scores_done(const Network& n, const Job& j, const Device& d) {
  const double half = d.rate(used_for(d, Precision::kBf16)), rate = d.rate(used_for(d, j.precision));
  return score_flops(n) * (n.kind == ModelKind::kDecoder && j.flash ? 0.5 : 1) *
         (half > 0 && row(j.precision).served < 2 ? std::max(1.0, rate / half) : 1);
}

Pass pass_of(const Network& n, const Job& j, const Device& d, const Fabric& f, double peak, double stream) {
  const double b = j.micro_batch(), layers = layers_of_device(n, j);
  const double again = !j.training || j.recompute != Recompute::kFull ? 0
                       : j.recompute_layers > 0 ? std::min(layers, std::ceil(j.recompute_layers / j.pp))
                                                : layers;
  const double passes = passes_of(j), adapters = 2 * n.seq * adapter_params(n, j) / n.layers;
  // Served, a decoder needs the logits of the last position alone, an encoder none.
  const double head = j.training || n.kind == ModelKind::kVision ? head_flops(n)
                      : n.kind == ModelKind::kDecoder            ? head_flops(n) / n.seq
                                                                 : 0;
  const double scores = scores_done(n, j, d), layer = layer_flops(n) - score_flops(n) + scores;
  double flops = passes * (layers * layer + head) + 3 * layers * adapters;
  if (j.training && !n.transformer()) flops += layers / n.layers * n.again_flops;
  if (j.lora > 0) flops += layers * scores;  // they have no frozen side
  if (n.experts > 0) {                       // those of routed experts, longer
    double routed = 0;
    for (const Matrix& m : layer_matrices(n))
      if (m.part == Part::kExpert) routed += 2 * n.seq * m.in * m.out * m.used;
    flops += (passes * layers + again) * routed * (1 / Assumed::kGrouped - 1);
  }
  double passes_over_weights = passes;
  flops += again * (layer + adapters), passes_over_weights += again / layers;
  if (j.training && j.recompute == Recompute::kSelective) flops += layers * scores;
  Pass p;
  const double weights = read_bytes(n, j) * passes_over_weights;
  const double mine = n.transformer() ? 1 / j.mp / j.cp : n.part(n.split_flops, j.mp);
  p.arithmetic = std::max(flops * b * mine / peak, weights / stream);
  Job plain = j;
  plain.recompute = Recompute::kNone;
  const double kept = n.transformer() ? kept_layer(n, plain) * layers
                                      : (n.moved_elements > 0 ? n.moved_elements : n.kept_elements) *
                                            n.part(n.split_kept, j.mp) * activation_bytes(j) * b / j.pp;
  const double moves = j.training ? (n.transformer() ? Assumed::kMoves : Assumed::kMovesConv)
                       : !n.transformer() && j.precision == Precision::kInt8 ? Assumed::kMovesInt8
                                                                             : Assumed::kMovesServed;
  p.elementwise = kept * moves / stream;
  if (again > 0) p.elementwise *= 1 + again / layers * Assumed::kAgain;
  if (j.training && n.again_flops > 0) p.elementwise *= 1 + n.again_flops / n.forward_flops * Assumed::kAgain;
  if (j.training && j.weight_bits > 0 &&
      j.weight_bits < 16)  // widened for every pass: written, and read by the product
    p.elementwise += device_params(n, j) * 2 * 2 * passes_over_weights / stream;
  const double kernels = (n.transformer() ? Assumed::kKernels : kKernelsOfLayer) +
                         (n.experts > 0 ? Assumed::kKernelsExperts : 0) +
                         (j.lora > 0 ? Assumed::kKernelsLora : 0);
  p.launch = layers * kernels * (j.training ? 3 : 1) * row(d.kind).launch;
  if (j.mp > 1 && !n.transformer())  // after every pair, and before it on the way back
    p.tensor =
        2 * layers * (j.training ? 2 : 1) *  // two pairs a layer
        all_reduce(activation_bytes(j) * n.split_sent / n.layers / 2 * b, j.mp, link_of(d, f, j, j.mp));
  if (j.mp > 1 && n.transformer()) {
    const double reduces = (j.training ? 4 : 2) + (again > 0 ? 2 * again / layers : 0);
    p.tensor = layers * reduces *
               all_reduce(activation_bytes(j) * n.seq / j.cp * n.hidden * b, j.mp, link_of(d, f, j, j.mp));
  }
  const double rounds = (j.training ? 2 : 1) + (again > 0 ? again / layers : 0);
  if (j.ep > 1) {  // there and back, forward and backward; tensor parallel devices share the copies
    const double copies = activation_bytes(j) * n.seq / j.cp * n.active * n.hidden * b / j.mp;
    p.experts = layers * n.expert_share() * rounds * 2 *
                all_to_all(copies, j.ep, link_of(d, f, j, j.mp * j.cp * j.ep));
  }
  if (j.cp > 1) {  // backward, the gradients go round too
    const double keys = activation_bytes(j) * n.seq / j.cp * cache_elements(n, j.mp) * b;
    const double ring =
        layers * (rounds + (j.training ? 1 : 0)) * (j.cp - 1) * keys / link_of(d, f, j, j.mp * j.cp).rate;
    p.context = std::max(ring - passes * layers * scores * b / j.mp / j.cp / peak, Assumed::kSeen * ring);
  }
  return p;
}

void add(StepTime& s, TimeKind what, double seconds) {
  if (seconds <= 0) return;
  s.items.push_back({what, seconds});
  s.seconds += Interval(seconds);
}

void add(StepTime& s, const Pass& p, double times) {
  add(s, TimeKind::kArithmetic, times * p.arithmetic);
  add(s, TimeKind::kElementwise, times * p.elementwise);
  add(s, TimeKind::kLaunch, times * (p.work() - p.arithmetic - p.elementwise));
  add(s, TimeKind::kTensor, times * p.tensor);
  add(s, TimeKind::kExperts, times * p.experts);
  add(s, TimeKind::kContext, times * p.context);
}

double data_seconds(const Network& n, const Job& j, const Device& d, const Fabric& f, double backward,
                    double forward_and_backward) {
  const double group = j.replicas() * j.cp;  // every part of the sequence has gradients of all weights
  if (group <= 1) return 0;
  // Positions lie next to tensors, then sharding, then data. Gradients are reduced over the sharding group to
  // their owners, each part over the devices that hold it too, and what was updated is gathered; from stage 2
  // on nobody has room for the others' parts, so every pass reduces; at stage 3 weights are gathered instead,
  // for every pass forward and backward. Fewer devices share routed experts.
  const double sharding = j.stage > 0 ? j.sharding : 1;
  const Group inner = link_of(d, f, j, j.mp * j.cp * sharding);
  const Group outer = link_of(d, f, j, j.mp * j.cp * (group / j.cp > sharding ? j.replicas() : 1));
  const auto shared = [&](double trained, double stored, double replicas) {
    const double shards = std::min(sharding, replicas), gradients = trained * gradient_bytes(j);
    const double gathered = j.stage >= 3 ? j.passes() * 2 * stored : gradients;
    const double reduced = (j.stage >= 2 ? j.passes() : 1) * gradients;
    return 0.5 * (all_reduce(reduced, shards, inner) + all_reduce(gathered, shards, inner)) +
           all_reduce(gradients / shards, replicas / shards, outer);
  };
  const double routed = expert_params(n) * layers_of_device(n, j) / n.layers / j.mp / j.ep;
  const double routed_bytes = routed * matrix_bytes(j).point, routed_trained = j.lora > 0 ? 0 : routed;
  const double total =
      shared(trained_params(n, j) - routed_trained, stored_bytes(n, j) - routed_bytes, group) +
      shared(routed_trained, routed_bytes, expert_replicas(j));
  const double hideable = Assumed::kHidden * (j.stage >= 3   ? forward_and_backward * j.passes()
                                              : j.stage == 2 ? backward * j.passes()
                                                             : backward);
  return std::max(total - hideable, Assumed::kSeen * total);
}

double offload_seconds(const Network& n, const Job& j, const Device& d) {
  if (j.offload == Offload::kNone) return 0;
  const double p = trained_params(n, j), rate = std::max(d.host_link, Assumed::kLeastLink) * Assumed::kLink;
  const double mine = j.stage >= 1 ? p / j.sharding : p;
  double s = 0;
  if (j.training) {
    s += mine * (gradient_bytes(j) + weight_bytes(j)) / rate;
    s += mine * (2 * optimizer_bytes(j) + Assumed::kHostBytes) / Assumed::kHostStream;
  }
  if (j.offload == Offload::kAll)
    s += (j.training ? j.passes() * passes_of(j) : 1 + j.new_tokens) * stored_bytes(n, j) /
         (j.stage >= 1 ? j.sharding : 1) / rate;
  return s;
}

void training(StepTime& s, const Network& n, const Job& j, const Device& d, const Fabric& f, double peak,
              double stream) {
  const Pass p = pass_of(n, j, d, f, peak, stream);
  const double m = j.passes(), work = p.work();
  add(s, p, m);
  if (j.pp > 1) {
    const double hop = activation_bytes(j) * n.seq / j.cp * n.hidden * j.micro_batch() /
                       (j.sequence_parallel ? j.mp : 1) / link_of(d, f, j, j.devices()).rate;
    add(s, TimeKind::kPipeline, m * j.vpp * 2 * hop * Assumed::kHopsSeen);
    add(s, TimeKind::kBubble, (j.pp - 1) * (p.seconds() / j.vpp + 2 * hop));
    s.bubble = (j.pp - 1) / j.vpp / (m + (j.pp - 1) / j.vpp);
  }
  const double mine = trained_params(n, j) / (j.stage >= 1 ? j.sharding : 1);
  if (j.offload == Offload::kNone)
    add(s, TimeKind::kOptimizer,
        mine * (2 * optimizer_bytes(j) + 2 * weight_bytes(j) + gradient_bytes(j)) / stream);
  add(s, TimeKind::kData, data_seconds(n, j, d, f, work * 2 / 3, work));
  add(s, TimeKind::kOffload, offload_seconds(n, j, d));
}

void inference(StepTime& s, const Network& n, const Job& j, const Device& d, const Fabric& f, double peak,
               double stream) {
  const Pass p = pass_of(n, j, d, f, peak, stream);
  const double m = j.pp - 1 + j.passes();  // through one stage after the other, the next pass behind
  add(s, p, m);
  add(s, TimeKind::kPipeline, (j.pp - 1) * hop_seconds(n, j, d, f, n.seq / j.cp));
  if (n.kind == ModelKind::kDecoder && j.new_tokens > 0)  // stages work on as many passes at once
    add(s, TimeKind::kTokens,
        j.new_tokens * std::max(1.0, j.passes() / j.pp) *
            token_seconds(n, j, d, f, n.seq + j.new_tokens / 2));
  add(s, TimeKind::kOffload, offload_seconds(n, j, d));
}

}  // namespace

double of_server(double devices, double mp, const Device& d) {
  if (devices <= d.per_node) return devices;
  const double even = devices / std::ceil(devices / d.per_node);
  const bool whole = even == std::floor(even);
  return whole && (std::fmod(even, mp) == 0 || std::fmod(d.per_node, mp) != 0) ? even : d.per_node;
}

double waiting_share(const StepTime& s) {
  double waits = 0;
  for (const TimeItem& i : s.items)
    if (i.what == TimeKind::kBubble || (row(i.what).talk && i.what != TimeKind::kOffload)) waits += i.seconds;
  return waits / s.seconds.point;
}

double token_seconds(const Network& n, const Job& j, const Device& d, const Fabric& f, double context) {
  const Precision used = used_for(d, j.precision);
  const double peak = d.rate(used), stream = d.bandwidth * stream_share(d);
  const double b = j.micro_batch(), layers = layers_of_device(n, j);
  // Weights are read once for the whole batch; of the experts, those that any of its tokens met.
  const double routed = expert_params(n) * layers / n.layers / j.mp / j.ep;
  const double met = n.experts > 0 ? 1 - std::pow(1 - n.active / n.experts, b) : 1;
  const double weights = read_bytes(n, j) - routed * (1 - met) * matrix_bytes(j).point;
  const double cache = layers * cache_elements(n, j.mp) / j.cp * context * b * cache_bytes(j);
  const double read = (weights / widening(j) + cache) / stream;
  const double flops = 2 * (active_params(n) - (n.tied ? 0 : embedding_params(n))) +
                       score_flops(n) * n.layers / n.seq / n.seq * context;
  const double count = flops * b / j.mp / j.pp / (peak * matrix_share(d, used, true));
  double talk = 0;
  if (j.mp > 1)
    talk += layers * 2 * all_reduce(activation_bytes(j) * n.hidden * b, j.mp, link_of(d, f, j, j.mp));
  if (j.ep > 1)
    talk +=
        layers * n.expert_share() * 2 *
        all_to_all(activation_bytes(j) * n.active * n.hidden * b / j.mp, j.ep, link_of(d, f, j, j.mp * j.ep));
  const double launch = layers * (Assumed::kKernels + (n.experts > 0 ? Assumed::kKernelsToken : 0)) *
                        row(d.kind).launch * Assumed::kReplayed;
  const double hops = (j.pp - 1) * hop_seconds(n, j, d, f, 1);
  return j.pp * (std::max({read + Assumed::kRamp * launch, count, launch}) + talk) + hops;
}

StepTime step_of(const Network& n, const Job& j, const Device& d, const Fabric& f) {
  StepTime s;
  s.precision = used_for(d, j.precision);
  const double dense = d.rate(s.precision);
  s.rate_assumed = d.peak(s.precision) <= 0;
  const double peak = dense * matrix_share(d, s.precision, !j.training && n.kind == ModelKind::kDecoder),
               stream = d.bandwidth * stream_share(d);
  (j.training ? training : inference)(s, n, j, d, f, peak, stream);
  s.measured = d.matrix_efficiency > 0 && d.stream_efficiency > 0;
  for (auto& [what, seconds] : s.items) seconds *= d.slower;
  s.seconds = s.seconds * d.slower;
  const double point = s.seconds.point;
  s.seconds = d.spread >= 1 ? Interval(point / d.spread, point, point * d.spread)
                            : Interval(point * Assumed::kLow, point, point * Assumed::kHigh);
  if (n.experts > 0) s.seconds.high *= Assumed::kHighExperts;
  s.flops = passes_of(j) * forward_flops(n) * j.batch;
  if (!j.training && n.kind == ModelKind::kDecoder) s.flops *= 1 + j.new_tokens / n.seq;
  s.share_of_peak = s.flops / point / (dense * j.devices());
  return s;
}

}  // namespace yuloh::advise
