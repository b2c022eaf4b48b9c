// SPDX-License-Identifier: Apache-2.0
// A model as numbers: parameters and arithmetic of a transformer from its shape.
// Sources: parameters 12 L h^2 (1 + 13/12h + (V+s)/12Lh) and FLOPs 24 B s L h^2 (1 + s/6h + V/12Lh) forward,
// Narayanan et al. 2021 (arXiv:2104.04473, section 5.1 and appendix), generalised to gated feed-forward,
// grouped keys, experts, and latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).
#include "advise/network.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace yuloh::advise {
namespace {

void in_range(const char* name, double v, double low, double high) {
  if (!(std::isfinite(v) && v >= low && v <= high))
    value_error("advise: ", name, " is out of range, got ", v, "; expected ", low, " to ", high,
                ". Hint: check --", name, ".");
}
void whole(const char* name, double v) {
  if (v != std::floor(v))
    value_error("advise: ", name, " must be a whole number, got ", v, ". Hint: check --", name, ".");
}

constexpr double kVocab = 50304;  // GPT-2's 50,257, up to a multiple of 128

// A shape for a bare number of parameters: 128 columns of width a layer, as in GPT-3 175B and LLaMA 7B, and
// like these of a width and depth that devices can share.
void assume_shape(Network& n) {
  const auto nearest = [](double v, double step) { return std::max(1.0, std::round(v / step)) * step; };
  if (n.hidden == 0 && n.layers == 0) {
    const double width = std::cbrt(n.params * 128 / 12);
    n.hidden = nearest(width, width > 1536 ? 1024 : width > 384 ? 256 : 128);
    if (n.hidden > 1024 * 1024)
      value_error("advise: no transformer of ", n.params,
                  " parameters is known; expected at most 1e15. Hint: check --params.");
  }
  const double per_layer_at = 12;
  if (n.experts > 0)
    value_error(
        "advise: experts need the shape of the model, got parameters alone. Hint: --layers, --hidden and "
        "--expert-ffn.");
  if (n.hidden == 0)
    n.hidden = std::max(64.0, 64 * std::round(std::sqrt(n.params / (per_layer_at * n.layers)) / 64));
  if (n.layers == 0) {
    const double ends = n.kind == ModelKind::kVision ? 0 : n.hidden * kVocab * (n.tied ? 1 : 2);
    const double layers = std::max(0.5 * n.params, n.params - ends) / (per_layer_at * n.hidden * n.hidden);
    n.layers = nearest(layers, layers > 14 ? 4 : 1);
  }
}

// Of experts and latent attention; what is left away follows.
void complete_parts(Network& n) {
  for (const auto& [name, v] : {std::pair<const char*, double>{"head-dim", n.head_dim},
                                {"kv-rank", n.kv_rank},
                                {"q-rank", n.q_rank},
                                {"rope-dim", n.rope_dim},
                                {"experts", n.experts},
                                {"active", n.active},
                                {"shared-experts", n.shared},
                                {"expert-ffn", n.expert_ffn},
                                {"dense-layers", n.dense_layers}})
    if (v != 0) in_range(name, v, 1, 1 << 24), whole(name, v);
  if (n.head_dim == 0) n.head_dim = n.hidden / n.heads;
  if (n.kv_rank == 0 && (n.q_rank > 0 || n.rope_dim > 0))
    value_error("advise: q-rank and rope-dim belong to latent attention, got no kv-rank. Hint: --kv-rank.");
  if (n.experts == 0) {
    if (n.active > 0 || n.shared > 0 || n.expert_ffn > 0 || n.dense_layers > 0)
      value_error(
          "advise: active, shared or dense experts without experts, got experts 0. Hint: --experts 8.");
    return;
  }
  if (n.experts < 2)
    value_error("advise: experts must be 2 or more, got ", n.experts, ". Hint: check --experts.");
  if (n.active == 0) n.active = std::min(2.0, n.experts);
  if (n.active > n.experts)
    value_error("advise: active experts cannot exceed the experts, got ", n.active, " of ", n.experts,
                ". Hint: check --experts and --active.");
  if (n.expert_ffn == 0) n.expert_ffn = n.ffn;
  if (n.dense_layers >= n.layers)
    value_error("advise: dense layers must be fewer than the layers, got ", n.dense_layers, " of ", n.layers,
                ". Hint: check --dense-layers.");
}

}  // namespace

std::vector<Remark> complete(Network& n) {
  std::vector<Remark> remarks;
  if (n.params != 0) in_range("params", n.params, 1, 1e16), whole("params", n.params);
  if (!n.transformer()) {
    in_range("params", n.params, 1, 1e16);
    in_range("forward-flops", n.forward_flops, 0, 1e21);
    in_range("kept-elements", n.kept_elements, 0, 1e15);
    in_range("again-flops", n.again_flops, 0, 1e21), in_range("moved-elements", n.moved_elements, 0, 1e15);
    in_range("working-elements", n.working_elements, 0, 1e15);
    in_range("spread", n.spread, 0, 1), in_range("fixed-bytes", n.fixed_bytes, 0, 1e15);
    in_range("split-params", n.split_params, 0, 1), in_range("split-flops", n.split_flops, 0, 1);
    in_range("split-kept", n.split_kept, 0, 1), in_range("split-sent", n.split_sent, 0, 1e15);
    in_range("split-by", n.split_by, 0, 1 << 24), whole("split-by", n.split_by);
    if (n.layers == 0) n.layers = 1;
    in_range("layers", n.layers, 1, 1 << 24), whole("layers", n.layers);
    return remarks;
  }
  const bool shaped = n.layers > 0 && n.hidden > 0;
  if (!shaped && n.params == 0)
    value_error(
        "advise: nothing is known of the model's size; expected --params, or --layers and --hidden, or a "
        "preset. Hint: yuloh advise --params 7e9, or yuloh advise --list presets.");
  for (const auto& [name, v] : {std::pair<const char*, double>{"layers", n.layers},
                                {"hidden", n.hidden},
                                {"heads", n.heads},
                                {"kv-heads", n.kv_heads},
                                {"ffn", n.ffn},
                                {"seq", n.seq},
                                {"vocab", n.vocab}})
    if (v != 0) in_range(name, v, 1, 1 << 24), whole(name, v);
  if (n.params != 0 && n.params < 1e5 && !shaped)
    value_error("advise: a transformer cannot have ", n.params,
                " parameters; expected 1e5 or more. Hint: check --params.");
  if (!shaped) {
    assume_shape(n);
    remarks.push_back({RemarkKind::kShape, {n.layers, n.hidden}});
  }
  if (n.seq == 0)
    n.seq = n.kind == ModelKind::kVision ? 197 : 2048, remarks.push_back({RemarkKind::kSeq, {n.seq}});
  if (n.heads == 0) {
    n.heads = std::max(1.0, std::round(n.hidden / 128));
    while (std::fmod(n.hidden, n.heads) != 0) --n.heads;
    remarks.push_back({RemarkKind::kHeads, {n.heads}});
  }
  if (n.kv_heads == 0) n.kv_heads = n.heads;
  if (n.kv_heads > n.heads || std::fmod(n.heads, n.kv_heads) != 0)
    value_error("advise: heads must be a multiple of kv-heads, got ", n.heads, " and ", n.kv_heads,
                ". Hint: check --heads and --kv-heads.");
  if (n.head_dim == 0 && std::fmod(n.hidden, n.heads) != 0)
    value_error("advise: hidden must be a multiple of heads, got ", n.hidden, " and ", n.heads,
                ". Hint: check --hidden and --heads.");
  if (n.ffn == 0) n.ffn = n.gated ? 256 * std::ceil(n.hidden * 8 / 3 / 256) : 4 * n.hidden;
  if (n.vocab == 0 && n.kind != ModelKind::kVision)
    n.vocab = kVocab, remarks.push_back({RemarkKind::kVocab, {n.vocab}});
  complete_parts(n);
  const double from_shape = shape_params(n);
  if (n.params == 0) n.params = from_shape;
  const double ratio = n.params / from_shape;
  if (shaped && (ratio > 2 || ratio < 0.5))
    value_error(
        "advise: ", n.params, " parameters do not go with ", n.layers, " layers of width ", n.hidden,
        ", which have ", from_shape,
        "; expected a shape within a factor of 2. Hint: leave --params away, or give --ffn, --vocab.");
  if (std::abs(ratio - 1) > 0.03)
    remarks.push_back({RemarkKind::kShapeDiffers, {from_shape / 1e9, n.params / 1e9}});
  return remarks;
}

std::vector<Matrix> layer_matrices(const Network& n) {
  if (!n.transformer()) return {};
  const double h = n.hidden, d = n.head_dim, wide = n.heads * d, moe = n.expert_share(), up = n.gated ? 2 : 1;
  std::vector<Matrix> r;
  const auto add = [&](Part p, double in, double out, double count, double used) {
    if (count > 0) r.push_back({p, in, out, count, used});
  };
  if (n.kv_rank > 0) {
    const double q = n.heads * (d + n.rope_dim);
    if (n.q_rank > 0) add(Part::kQuery, h, n.q_rank, 1, 1), add(Part::kQuery, n.q_rank, q, 1, 1);
    else add(Part::kQuery, h, q, 1, 1);
    add(Part::kKey, h, n.kv_rank + n.rope_dim, 1, 1);
    add(Part::kKey, n.kv_rank, n.kv_heads * d, 1, 1), add(Part::kValue, n.kv_rank, n.kv_heads * d, 1, 1);
  } else {
    add(Part::kQuery, h, wide, 1, 1);
    add(Part::kKey, h, n.kv_heads * d, 1, 1), add(Part::kValue, h, n.kv_heads * d, 1, 1);
  }
  add(Part::kOut, wide, h, 1, 1);
  add(Part::kFeed, h, n.ffn, up * (1 - moe), up * (1 - moe)), add(Part::kFeed, n.ffn, h, 1 - moe, 1 - moe);
  if (moe > 0) {
    add(Part::kRouter, h, n.experts, moe, moe);
    add(Part::kExpert, h, n.expert_ffn, moe * up * n.experts, moe * up * n.active);
    add(Part::kExpert, n.expert_ffn, h, moe * n.experts, moe * n.active);
    add(Part::kFeed, h, n.expert_ffn * n.shared, n.shared > 0 ? moe * up : 0, moe * up);
    add(Part::kFeed, n.expert_ffn * n.shared, h, n.shared > 0 ? moe : 0, moe);
  }
  return r;
}
double layer_params(const Network& n) {
  if (!n.transformer()) return n.params / n.layers;
  double p = n.gated ? 2 * n.hidden : 9 * n.hidden + n.ffn;  // norms and biases
  for (const Matrix& m : layer_matrices(n)) p += m.in * m.out * m.count;
  return p;
}
double expert_params(const Network& n) {
  double p = 0;
  for (const Matrix& m : layer_matrices(n))
    if (m.part == Part::kExpert) p += m.in * m.out * m.count * n.layers;
  return p;
}
double active_params(const Network& n) {
  double idle = 0;
  for (const Matrix& m : layer_matrices(n)) idle += m.in * m.out * (m.count - m.used) * n.layers;
  return n.params - idle;
}
double cache_elements(const Network& n, double mp) {
  if (n.kv_rank > 0) return n.kv_rank + n.rope_dim;  // every device holds the latent
  return 2 * n.head_dim * std::max(n.kv_heads / mp, 1.0);
}
double embedding_params(const Network& n) {
  if (!n.transformer()) return 0;
  if (n.kind == ModelKind::kVision) return n.hidden * (3 * 16 * 16 + n.seq + 1);
  return n.hidden * (n.vocab + (n.rotary ? 0 : n.seq));
}
double head_params(const Network& n) {
  if (!n.transformer()) return 0;
  if (n.kind == ModelKind::kVision) return n.hidden * (n.vocab > 0 ? n.vocab : 1000);
  return n.tied ? 0 : n.hidden * n.vocab;
}
double shape_params(const Network& n) {
  return n.layers * layer_params(n) + embedding_params(n) + head_params(n) + 2 * n.hidden;
}

double score_flops(const Network& n) {
  return n.transformer() ? 2 * n.seq * n.seq * n.heads * (2 * n.head_dim + n.rope_dim) : 0;
}
double layer_flops(const Network& n) {
  if (!n.transformer()) return n.forward_flops / n.layers;
  // The parameters said count, not only the shape's, so that a wider feed-forward is paid for.
  const double matrices = (active_params(n) - embedding_params(n) - head_params(n)) / n.layers;
  return 2 * n.seq * std::max(matrices, 0.0) + score_flops(n);
}
double head_flops(const Network& n) {
  if (!n.transformer()) return 0;
  if (n.kind == ModelKind::kVision) return 2 * head_params(n);
  return (n.kind == ModelKind::kEncoder ? kMasked : 1) * 2 * n.seq * n.hidden * n.vocab;
}
double forward_flops(const Network& n) { return n.layers * layer_flops(n) + head_flops(n); }

int size_class(double params) { return params < 1e8 ? 0 : params < 1e9 ? 1 : params < 1e10 ? 2 : 3; }

}  // namespace yuloh::advise
