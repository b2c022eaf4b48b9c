// SPDX-License-Identifier: Apache-2.0
// The room of advice: what a model needs, on what, for how much, before anything is spent. First page: a
// model as numbers. Either a transformer's shape (everything else follows by the formulas of the literature,
// named where they stand) or the totals of a model that was really planned (advise/facts.h) or published
// (presets).
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "advise/table.h"

namespace yuloh::advise {

// A figure and how far off it may be. Bytes or seconds; low <= point <= high.
struct Interval {
  double low = 0, point = 0, high = 0;
  constexpr Interval() = default;
  constexpr Interval(double l, double p, double h) : low(l), point(p), high(h) {}
  constexpr explicit Interval(double exact) : low(exact), point(exact), high(exact) {}
  Interval& operator+=(const Interval& o) { return low += o.low, point += o.point, high += o.high, *this; }
  Interval operator*(double f) const { return {low * f, point * f, high * f}; }
};
inline Interval operator+(Interval a, const Interval& b) { return a += b; }

// The first three are transformers; of kTotals the totals of a sample are known.
enum class ModelKind : uint8_t { kDecoder, kEncoder, kVision, kTotals };
template <>
struct Table<ModelKind> {
  static constexpr const char *what = "kind of model", *hint = "--kind";
  static constexpr NameRow<ModelKind> rows[] = {{ModelKind::kDecoder, "decoder"},
                                                {ModelKind::kEncoder, "encoder"},
                                                {ModelKind::kVision, "vision"},
                                                {ModelKind::kTotals, "totals"}};
};
static_assert(in_order<ModelKind>());

struct Network {
  std::string name;
  ModelKind kind = ModelKind::kDecoder;
  double params = 0;  // all of them; 0: from the shape
  double layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, seq = 0, vocab = 0;
  double head_dim = 0;  // of queries, keys and values; 0: hidden / heads
  // Latent attention (DeepSeek): keys and values made from kv_rank numbers a token, queries from q_rank (0:
  // from hidden); rope_dim further positions in every key and query.
  double kv_rank = 0, q_rank = 0, rope_dim = 0;
  // Mixture of experts: `active` of `experts` for a token, each of width expert_ffn, besides `shared` for all
  // tokens; the first dense_layers have the plain feed-forward instead.
  double experts = 0, active = 0, shared = 0, expert_ffn = 0, dense_layers = 0;
  bool gated = false;   // feed-forward of three matrices (SwiGLU), RMS norm, no dropout
  bool tied = true;     // the output projection is the embedding
  bool rotary = false;  // no table of positions
  // kTotals: of one sample, forward
  double forward_flops = 0;
  double kept_elements = 0;     // kept for the backward pass
  double again_flops = 0;       // of forward_flops, what the model's own recompute does twice
  double moved_elements = 0;    // what would be kept without that: its traffic stays; 0: kept_elements
  double working_elements = 0;  // largest set alive at once in inference
  double spread = 0.2;          // relative doubt of the two; small where a Plan of the real model gave them
  // What tensor parallel over mp devices divides: shares of parameters, arithmetic and kept elements in pairs
  // of products, the elements that are summed over the devices after them, and what mp must divide (0: no
  // pairs are known).
  double split_params = 0, split_flops = 0, split_kept = 0, split_sent = 0, split_by = 0;
  double fixed_bytes = 0;  // held whatever the batch: running statistics, constants

  bool transformer() const { return kind != ModelKind::kTotals; }
  // All that tensor parallel cuts: heads, keys and values (copied where there are fewer), widths; experts too
  // where they are not whole.
  bool splits_by(double mp) const {
    const auto by = [mp](double v) { return std::fmod(v, mp) == 0; };
    if (mp == 1) return true;
    if (!transformer()) return split_by > 1 && by(split_by);
    return by(heads) && by(ffn) && (by(kv_heads) || std::fmod(mp, kv_heads) == 0) &&
           (experts == 0 || by(expert_ffn));
  }
  double part(double split, double mp) const { return 1 - split + split / mp; }               // of one device
  double expert_share() const { return experts > 0 ? (layers - dense_layers) / layers : 0; }  // of the layers
};

// The matrices of an average layer (of all kinds where layers differ): what parameters, arithmetic and
// adapters follow from.
enum class Part { kQuery, kKey, kValue, kOut, kFeed, kExpert, kRouter };
constexpr unsigned bit(Part p) { return 1U << static_cast<unsigned>(p); }
struct Matrix {
  Part part;
  double in, out, count;
  double used;  // of `count`, by one token
};
std::vector<Matrix> layer_matrices(const Network& n);

// What was assumed, for the reader; python/yuloh/advise/words.py has the sentences.
enum class RemarkKind : uint8_t { kShape, kSeq, kHeads, kVocab, kShapeDiffers };
template <>
struct Table<RemarkKind> {
  static constexpr NameRow<RemarkKind> rows[] = {{RemarkKind::kShape, "assumed_shape"},
                                                 {RemarkKind::kSeq, "assumed_seq"},
                                                 {RemarkKind::kHeads, "assumed_heads"},
                                                 {RemarkKind::kVocab, "assumed_vocab"},
                                                 {RemarkKind::kShapeDiffers, "shape_differs"}};
};
static_assert(in_order<RemarkKind>());
struct Remark {
  RemarkKind what;
  std::vector<double> numbers;
};
// Fills in what follows from the rest and refuses what cannot be.
std::vector<Remark> complete(Network& n);

double layer_params(const Network& n);      // of one layer
double embedding_params(const Network& n);  // table of tokens and positions
double head_params(const Network& n);       // output projection where it is not the embedding
double shape_params(const Network& n);      // all that the shape says

double expert_params(const Network& n);  // of routed experts, all layers
double active_params(const Network& n);  // that one token meets
double cache_elements(const Network& n,
                      double mp);  // keys and values of one token and layer, on one of mp devices

double layer_flops(const Network& n);  // forward, one layer, one sample
double score_flops(const Network& n);  // of it, what selective recompute repeats
// Forward, logits, one sample: of every position, in an encoder of the masked ones.
double head_flops(const Network& n);
constexpr double kMasked = 0.15;         // of the words (BERT, arXiv:1810.04805, section 3.1)
double forward_flops(const Network& n);  // forward, all, one sample

// The four classes by size: 0 below 1e8 parameters, 1 below 1e9, 2 below 1e10, 3 from there.
int size_class(double params);

}  // namespace yuloh::advise
