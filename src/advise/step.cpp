// SPDX-License-Identifier: Apache-2.0
// A step's time: products at a share of the peak, element by element work at a share of the bandwidth, the
// larger of work and launches, collectives at a share of the link. Sources: communication volumes of ZeRO
// stages (arXiv:1910.02054, section 7) and of tensor parallel (arXiv:1909.08053: two all-reduces a pass and
// layer); bubble (p - 1)/m of the pipeline (arXiv:2104.04473). Shares: measured where `yuloh calibrate` or
// the user gave them, else the assumptions below.
#include "advise/step.h"

#include <algorithm>
#include <cmath>

namespace yuloh::advise {
namespace {

// Share of the dense peak that products reach inside a training step. Published end-to-end shares are 0.4 to
// 0.52 on A100 for large GPTs (arXiv:2104.04473 table 1, arXiv:2205.05198 table 5), best products alone reach
// 0.87 (A100), 0.80 (H100), 0.51 (MI300X).
double matrix_share(const Device& d, const std::string& precision) {
  if (d.matrix_efficiency > 0) return d.matrix_efficiency;
  if (precision == "fp32") return d.kind == "cpu" ? 0.65 : 0.7;
  if (d.kind == "edge" || d.kind == "npu") return 0.4;
  return 0.6;
}
double stream_share(const Device& d) { return d.stream_efficiency > 0 ? d.stream_efficiency : 0.75; }
constexpr double kLinkShare = 0.75;  // NCCL all-reduce of large buffers: 0.78 of NVLink 3, 0.82 of NVLink 4
constexpr double kHidden = 0.5;      // share of the backward pass that gradients can travel behind

double launch_seconds(const Device& d) { return d.kind == "cpu" ? 2e-6 : d.kind == "edge" ? 10e-6 : 5e-6; }
constexpr double kRamp = 0.6;  // of a launch: filling and draining the device, which no queue hides

struct Group {
  double rate, latency;
};
// Link of a group of `size` neighbours, `span` devices apart at most.
Group link_of(const Device& d, const Fabric& f, double span) {
  if (span > d.per_node) return {f.rate * kLinkShare, f.latency};
  const double rate = d.link > 0 ? d.link : d.host_link / 2;  // through the host: down and up again
  return {std::max(rate, 1e9) * kLinkShare, 3e-6};
}
double all_reduce(double bytes, double size, const Group& g) {
  if (size <= 1) return 0;
  return 2 * (size - 1) / size * bytes / g.rate + 2 * std::log2(size) * g.latency;
}

struct Pass {
  double arithmetic = 0, elementwise = 0, launch = 0, tensor = 0;
  double work() const { return std::max(arithmetic + elementwise + kRamp * launch, launch); }
  double seconds() const { return work() + tensor; }
};

Pass pass_of(const Network& n, const Job& j, const Device& d, const Fabric& f, double peak, double stream) {
  const double b = j.micro_batch(), layers = std::ceil(n.layers / j.pp);
  const double again = j.recompute != "full"    ? 0
                       : j.recompute_layers > 0 ? std::min(layers, std::ceil(j.recompute_layers / j.pp))
                                                : layers;
  double flops = (j.training ? 3 : 1) * (layers * layer_flops(n) + head_flops(n));
  double passes_over_weights = j.training ? 3 : 1;
  if (j.training && j.recompute == "full")
    flops += again * layer_flops(n), passes_over_weights += again / layers;
  if (j.training && j.recompute == "selective") flops += layers * score_flops(n);
  Pass p;
  const double weights = device_params(n, j) * weight_bytes(j) * passes_over_weights;
  p.arithmetic = std::max(flops * b / j.mp / peak, weights / stream);
  Job plain = j;
  plain.recompute = "none", plain.flash = j.flash;
  // Written, read, and both again for the gradients; convolutions with their norms move everything twice as
  // often.
  const double kept =
      n.transformer() ? kept_layer(n, plain) * layers : n.kept_elements * activation_bytes(j) * b / j.pp;
  // In inference a convolution's norm and activation are fused into it, and int8 networks keep int8 in between.
  const double moves = j.training ? (n.transformer() ? 3 : 6) : !n.transformer() && j.precision == "int8" ? 0.5 : 1;
  p.elementwise = kept * moves / stream;
  if (again > 0) p.elementwise *= 1 + again / layers / 3;
  p.launch = layers * (n.transformer() ? 12 : 4) * (j.training ? 3 : 1) * launch_seconds(d);
  if (j.mp > 1) {
    const double reduces = (j.training ? 4 : 2) + (again > 0 ? 2 * again / layers : 0);
    p.tensor =
        layers * reduces * all_reduce(activation_bytes(j) * n.seq * n.hidden * b, j.mp, link_of(d, f, j.mp));
  }
  return p;
}

void add(StepTime& s, const char* what, double seconds) {
  if (seconds <= 0) return;
  s.items.push_back({what, seconds});
  s.seconds += Interval(seconds);
}

double data_seconds(const Network& n, const Job& j, const Device& d, const Fabric& f, double backward,
                    double forward_and_backward) {
  if (j.replicas() <= 1) return 0;
  const double p = device_params(n, j);
  const double span = j.mp * j.replicas() * (j.mp * j.replicas() > d.per_node ? 1 : 1);
  const Group g = link_of(d, f, span);
  double total = all_reduce(p * gradient_bytes(j), j.replicas(), g);
  double hideable = kHidden * backward;
  if (j.stage >= 3) {  // weights are gathered for every pass, forward and backward
    total = all_reduce(p * gradient_bytes(j), j.sharding, g) * 0.5 +
            j.passes() * 2 * 0.5 * all_reduce(p * weight_bytes(j), j.sharding, g);
    if (j.dp > 1) total += all_reduce(p * gradient_bytes(j) / j.sharding, j.dp, g);
    hideable = kHidden * forward_and_backward * j.passes();
  }
  return std::max(total - hideable, 0.1 * total);
}

double offload_seconds(const Network& n, const Job& j, const Device& d) {
  if (j.offload == "none") return 0;
  const double p = device_params(n, j), rate = std::max(d.host_link, 1e9) * kLinkShare;
  const double mine = j.stage >= 1 ? p / j.sharding : p;
  double s = 0;
  if (j.training) {
    s += mine * (gradient_bytes(j) + weight_bytes(j)) / rate;
    s += mine * (2 * optimizer_bytes(j) + 6) /
         40e9;  // the host's Adam: bound by its memory, one device's share
  }
  if (j.offload == "all") s += j.passes() * (j.training ? 3 : 1) * mine * weight_bytes(j) / rate;
  return s;
}

void training(StepTime& s, const Network& n, const Job& j, const Device& d, const Fabric& f, double peak,
              double stream) {
  const Pass p = pass_of(n, j, d, f, peak, stream);
  const double m = j.passes(), work = p.work();
  add(s, "arithmetic", m * p.arithmetic);
  add(s, "elementwise", m * p.elementwise);
  add(s, "launch", m * (work - p.arithmetic - p.elementwise));
  add(s, "tensor", m * p.tensor);
  if (j.pp > 1) {
    const double hop = activation_bytes(j) * n.seq * n.hidden * j.micro_batch() /
                       (j.sequence_parallel ? j.mp : 1) / link_of(d, f, j.devices()).rate;
    add(s, "pipeline", m * 2 * hop * 0.5);
    add(s, "bubble", (j.pp - 1) * (p.seconds() + 2 * hop));
    s.bubble = (j.pp - 1) / (m + j.pp - 1);
  }
  const double mine = device_params(n, j) / (j.stage >= 1 ? j.sharding : 1);
  if (j.offload == "none")
    add(s, "optimizer", mine * (2 * optimizer_bytes(j) + 2 * weight_bytes(j) + gradient_bytes(j)) / stream);
  add(s, "data", data_seconds(n, j, d, f, work * 2 / 3, work));
  add(s, "offload", offload_seconds(n, j, d));
}

void inference(StepTime& s, const Network& n, const Job& j, const Device& d, const Fabric& f, double peak,
               double stream) {
  const Pass p = pass_of(n, j, d, f, peak, stream);
  const double work = p.work();
  add(s, "arithmetic", j.pp * p.arithmetic);
  add(s, "elementwise", j.pp * p.elementwise);
  add(s, "launch", j.pp * (work - p.arithmetic - p.elementwise));
  add(s, "tensor", j.pp * p.tensor);
  if (n.kind == "decoder" && j.new_tokens > 0) {  // a token reads every weight and the cache
    const double b = j.micro_batch();
    const double cache = 2 * n.layers / j.pp * n.hidden * n.kv_heads / n.heads / j.mp *
                         (n.seq + j.new_tokens / 2) * b * activation_bytes(j);
    const double read = (device_params(n, j) * weight_bytes(j) + cache) / stream;
    const double count = (forward_flops(n) / n.seq) * b / j.mp / j.pp / peak;
    const double talk =
        j.mp > 1
            ? n.layers / j.pp * 2 * all_reduce(activation_bytes(j) * n.hidden * b, j.mp, link_of(d, f, j.mp))
            : 0;
    add(s, "tokens",
        j.new_tokens * j.pp * (std::max({read, count, n.layers / j.pp * 12 * launch_seconds(d) / 2}) + talk));
  }
  add(s, "offload", offload_seconds(n, j, d));
}

}  // namespace

StepTime step_of(const Network& n, const Job& j, const Device& d, const Fabric& f) {
  StepTime s;
  const double dense = peak_for(d, j.precision, &s.precision);
  const double peak = dense * matrix_share(d, s.precision), stream = d.bandwidth * stream_share(d);
  (j.training ? training : inference)(s, n, j, d, f, peak, stream);
  s.measured = d.matrix_efficiency > 0 && d.stream_efficiency > 0;
  const double point = s.seconds.point;
  s.seconds =
      s.measured ? Interval(point * 0.85, point, point * 1.2) : Interval(point * 0.7, point, point * 1.6);
  s.flops = (j.training ? 3 : 1) * forward_flops(n) * j.batch;
  if (!j.training && n.kind == "decoder") s.flops *= 1 + j.new_tokens / n.seq;
  s.share_of_peak = s.flops / point / (dense * j.devices());
  return s;
}

}  // namespace yuloh::advise
