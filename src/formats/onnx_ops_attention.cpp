// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: attention in its forms, rotary positions, and the gated blocks that go with them.
#include <cmath>
#include <limits>

#include "formats/onnx_ops.h"

namespace yuloh::formats {
namespace {
constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// [batch, time, heads * size] -> [batch, heads, time, size]
Value to_heads(const Value& x, int64_t heads) {
  const Shape& s = x.shape();
  if (s.size() != 3 || heads < 1 || s[2] % heads)
    value_error("attention: ", heads, " heads do not divide ", s, ".");
  return transpose(reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}
Value from_heads(const Value& x) {
  const Shape& s = x.shape();
  return reshape(transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}
Value repeat_heads(const Value& x, int64_t times) {  // each head `times` in a row
  if (times == 1) return x;
  const Shape& s = x.shape();
  return reshape(broadcast_to(reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], times, s[2], s[3]}),
                 {s[0], s[1] * times, s[2], s[3]});
}
Value both(const Value& a, const Value& b) { return a ? call("logical_and", {a, b}) : b; }

// Which keys a query may look at, from all sources; `bias` is what a float mask adds. Either may be null.
struct Mask {
  Value allowed, bias;
};
Mask mask_of(const Import& i, DType t, int64_t q_len, int64_t kv_len, int64_t past) {
  Mask m;
  if (i.has(3)) {
    Value v = i.in(3);
    expect(i, v.rank() >= 1 && v.rank() <= 4, "a mask of 1 to 4 dims");
    if (const int64_t missing = kv_len - v.shape().back(); missing > 0) {
      Ints pairs(static_cast<uint32_t>(2 * v.rank()), 0);
      pairs[2 * v.rank() - 1] = missing;
      const bool flag = v.dtype() == DType::kBool;
      v = call("pad_core", {v}, {{"pairs", pairs}, {"value", flag ? 0.0 : kMinusInf}});
    }
    if (v.dtype() == DType::kBool) {
      m.allowed = v;
    } else {
      m.bias = to(v, t);
      m.allowed = not_equal(m.bias, constant_like(kMinusInf, m.bias));
    }
  }
  const Value keys = iota({1, kv_len}, 1, DType::kInt64);
  const Value seqlen =
      i.has(6) ? reshape(to(i.in(6), DType::kInt64), {numel(i.in(6).shape()), 1, 1, 1}) : Value();
  // Positions of the queries among the keys: behind the cache, or at the end of what is valid in it.
  Value query = iota({q_len, 1}, 0, DType::kInt64);
  query =
      seqlen && !i.has(4) ? query + (seqlen - static_cast<double>(q_len)) : query + static_cast<double>(past);
  if (i.integer("is_causal", 0)) m.allowed = both(m.allowed, call("less_equal", {keys, query}));
  const int64_t left = i.integer("left_window_size", -1), right = i.integer("right_window_size", -1);
  if (left >= 0)
    m.allowed = both(m.allowed,
                     call("less_equal", {query - keys, constant(static_cast<double>(left), DType::kInt64)}));
  if (right >= 0)
    m.allowed = both(m.allowed,
                     call("less_equal", {keys - query, constant(static_cast<double>(right), DType::kInt64)}));
  if (seqlen) m.allowed = both(m.allowed, call("less_than", {keys, seqlen}));
  return m;
}
// Softmax over the last axis where rows without any allowed key become 0.
Value masked_softmax(const Value& scores, const Value& allowed) {
  Value p = call("softmax", {scores}, {{"axis", -1}});
  if (!allowed) return p;
  const Value any = call("any", {allowed}, {{"axis", Ints{-1}}, {"keepdim", true}});
  return where(any, p, constant_like(0, p));
}

// Q, K, V, mask, past key, past value, valid lengths -> Y, present key, present value, scores
void attention(Import& i) {
  Value q = i.in(0), k = i.in(1), v = i.in(2);
  const bool flat = q.rank() == 3;
  if (flat) {
    const int64_t qh = i.integer("q_num_heads", 1), kh = i.integer("kv_num_heads", 1);
    q = to_heads(q, qh), k = to_heads(k, kh), v = to_heads(v, kh);
  }
  expect(i,
         q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && (!i.has(4) || i.in(4).rank() == 4) &&
             (!i.has(5) || i.in(5).rank() == 4),
         "queries, keys, values and caches of 4 dims, or of 3 with the numbers of heads");
  const int64_t past = i.has(4) ? i.in(4).shape()[2] : 0;
  if (i.has(4)) k = concat({i.in(4), k}, 2);
  if (i.has(5)) v = concat({i.in(5), v}, 2);
  const Value present_k = k, present_v = v;
  const int64_t repeat = q.shape()[1] / std::max<int64_t>(k.shape()[1], 1);
  k = repeat_heads(k, repeat), v = repeat_heads(v, repeat);
  const DType t = q.dtype();
  const double scale =
      i.has_attr("scale") ? i.real("scale", 1) : 1 / std::sqrt(static_cast<double>(q.shape()[3]));
  const double root = std::sqrt(scale), cap = i.real("softcap", 0);
  Value scores = matmul(q * root, k * root, false, true);
  const int64_t mode = i.integer("qk_matmul_output_mode", 0);
  Value shown = scores;
  if (cap > 0) scores = call("tanh", {scores / cap}) * cap;
  if (mode == 1) shown = scores;
  const Mask m = mask_of(i, t, q.shape()[2], k.shape()[2], past);
  if (m.bias) scores = scores + m.bias;
  if (m.allowed) scores = where(m.allowed, scores, constant_like(kMinusInf, scores));
  if (mode == 2) shown = scores;
  if (i.has_attr("softmax_precision")) scores = to(scores, dtype_attr(i, "softmax_precision"));
  const Value p = to(masked_softmax(scores, m.allowed), t);
  if (mode == 3) shown = p;
  const Value y = matmul(p, v);
  i.out(flat ? from_heads(y) : y);
  i.out(1, present_k), i.out(2, present_v), i.out(3, shown);
}

// com.microsoft.Attention: one projection for Q, K and V, then attention. input, weights, bias, mask_index.
void packed_attention(Import& i) {
  if (i.has(4) || i.has(5) || i.integer("unidirectional", 0))
    i.unsupported("past, attention_bias or unidirectional");
  need(i, {3, 2});
  const Value x = i.in(0);
  const int64_t heads = i.integer("num_heads", 1);
  Ints sizes = i.ints_attr("qkv_hidden_sizes", {});
  Value packed = matmul(x, i.in(1));
  if (i.has(2)) packed = packed + i.in(2);
  if (sizes.empty()) sizes = Ints(3, packed.shape()[2] / 3);
  expect(i, sizes.size() == 3, "three qkv_hidden_sizes");
  const Values qkv = split(packed, sizes, 2);
  const Value q = to_heads(qkv[0], heads), k = to_heads(qkv[1], heads), v = to_heads(qkv[2], heads);
  Value scores =
      matmul(q, k, false, true) * i.real("scale", 1 / std::sqrt(static_cast<double>(q.shape()[3])));
  if (i.has(3)) {
    const Value mask = i.in(3);
    const int64_t b = x.shape()[0], n = x.shape()[1];
    if (mask.rank() != 2 || mask.shape()[1] != n) i.unsupported("a mask_index that is not [batch, sequence]");
    scores = where(reshape(not_equal(mask, constant_like(0, mask)), {b, 1, 1, n}), scores,
                   constant_like(i.real("mask_filter_value", -10000), scores));
  }
  i.out(from_heads(matmul(call("softmax", {scores}, {{"axis", -1}}), v)));
}

void flex_attention(Import& i) {
  need(i, {4, 4, 4});
  const Value q = i.in(0), v0 = i.in(2);
  const int64_t repeat = q.shape()[1] / std::max<int64_t>(i.in(1).shape()[1], 1);
  const Value k = repeat_heads(i.in(1), repeat), v = repeat_heads(v0, repeat);
  const double scale =
      i.has_attr("scale") ? i.real("scale", 1) : 1 / std::sqrt(static_cast<double>(q.shape()[3]));
  const DType work = i.has_attr("softmax_precision") ? dtype_attr(i, "softmax_precision")
                     : is_half(q.dtype())            ? DType::kFloat32
                                                     : q.dtype();
  Value scores = to(matmul(q * std::sqrt(scale), k * std::sqrt(scale), false, true), work);
  if (i.has_attr("score_mod")) scores = to(i.run(i.graph_attr("score_mod"), {scores})[0], work);
  Value p = call("softmax", {scores}, {{"axis", -1}});
  if (i.has_attr("prob_mod")) p = to(i.run(i.graph_attr("prob_mod"), {p})[0], work);
  i.out(to(matmul(p, to(v, work)), v0.dtype()));
}

void rotary(Import& i, bool contrib) {
  // com.microsoft has the positions second and the caches behind them.
  const Value input = i.in(0), positions = contrib ? i.in(1) : i.in_or_null(3);
  Value cos = i.in(contrib ? 2 : 1), sin = i.in(contrib ? 3 : 2);
  const bool flat = input.rank() == 3;
  expect(i, (flat || input.rank() == 4) && cos.rank() >= 2 && sin.rank() >= 2,
         "an input of 3 or 4 dims and caches of 2 or 3");
  int64_t heads = i.integer("num_heads", 0), turn = i.integer("rotary_embedding_dim", 0);
  if (flat && !heads) heads = input.shape()[2] / std::max<int64_t>(1, turn ? turn : 2 * cos.shape().back());
  expect(i, !flat || (heads > 0 && input.shape()[2] % heads == 0),
         "a number of heads that divides the input");
  Value x = flat ? reshape(input, {input.shape()[0], input.shape()[1], heads, input.shape()[2] / heads})
                 : transpose(input, {0, 2, 1, 3});
  const int64_t b = x.shape()[0], n = x.shape()[1], size = x.shape()[3];
  if (!turn) turn = size;
  expect(i, turn > 0 && turn % 2 == 0 && turn <= size, "an even rotary_embedding_dim within the head");
  if (positions) {
    Value p = to(positions, DType::kInt64);
    if (numel(p.shape()) == 1 && n != 1) p = reshape(p, {1, 1}) + iota({1, n}, 1, DType::kInt64);
    p = reshape(broadcast_to(p.rank() == 2 ? p : reshape(p, {1, numel(p.shape())}), {b, n}), {b * n});
    cos = reshape(gather(cos, p, 0), {b, n, turn / 2}), sin = reshape(gather(sin, p, 0), {b, n, turn / 2});
  }
  cos = unsqueeze(cos, 2), sin = unsqueeze(sin, 2);
  const Value part = turn == size ? x : narrow(x, 3, 0, turn);
  const bool interleaved = i.integer("interleaved", 0);
  const Shape s = part.shape();
  Value x1, x2;
  if (interleaved) {
    const Value pairs = reshape(part, {s[0], s[1], s[2], turn / 2, 2});
    x1 = squeeze(narrow(pairs, 4, 0, 1), 4), x2 = squeeze(narrow(pairs, 4, 1, 1), 4);
  } else {
    x1 = narrow(part, 3, 0, turn / 2), x2 = narrow(part, 3, turn / 2, turn / 2);
  }
  const Value real = cos * x1 - sin * x2, imaginary = sin * x1 + cos * x2;
  Value y = interleaved ? reshape(call("stack", {real, imaginary}, {{"axis", 4}}), s)
                        : concat({real, imaginary}, 3);
  if (turn != size) y = concat({y, narrow(x, 3, turn, size - turn)}, 3);
  i.out(flat ? reshape(y, input.shape()) : transpose(y, {0, 2, 1, 3}));
}

// State [batch, heads, dk, dv] that each step decays, corrects and adds to; in float32.
void linear_attention(Import& i) {
  const int64_t qh = i.integer("q_num_heads", 1), kh = i.integer("kv_num_heads", 1);
  const std::string rule = i.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta",
             delta = rule == "delta" || rule == "gated_delta";
  const DType t = i.in(0).dtype(), work = DType::kFloat32;
  const Value q = to(to_heads(i.in(0), qh), work), k = to(to_heads(i.in(1), kh), work),
              v = to(to_heads(i.in(2), kh), work);
  const int64_t b = q.shape()[0], steps = q.shape()[2], dk = q.shape()[3], dv = v.shape()[3];
  const double given = i.real("scale", 0),
               scale = given == 0 ? 1 / std::sqrt(static_cast<double>(dk)) : given;
  Value state = i.has(3) ? to(i.in(3), work) : full({b, kh, dk, dv}, 0, work);
  Value decay = gated ? to(i.in(4), work) : Value(), beta = delta ? to(i.in(5), work) : Value();
  if (gated) decay = exp(to_heads(decay, kh));        // [b, kh, t, 1 or dk]
  if (delta) beta = to_heads(beta, beta.shape()[2]);  // [b, kh or 1, t, 1]
  Values out(static_cast<uint32_t>(steps));
  for (int64_t s = 0; s < steps; ++s) {
    const Value ks = narrow(k, 2, s, 1);  // [b, kh, 1, dk]
    Value vs = narrow(v, 2, s, 1);        // [b, kh, 1, dv]
    if (gated) state = state * swap_last(narrow(decay, 2, s, 1));
    if (delta) vs = narrow(beta, 2, s, 1) * (vs - matmul(ks, state));
    state = state + swap_last(ks) * vs;
    out[s] = matmul(narrow(q, 2, s, 1), repeat_heads(state, qh / kh)) * scale;
  }
  i.out(to(from_heads(concat(out, 2)), t));
  i.out(1, to(state, i.has(3) ? i.in(3).dtype() : t));
}

void causal_conv(Import& i) {
  need(i, {3, 3});
  const Value x = i.in(0), w = i.in(1);
  const int64_t c = x.shape()[1], k = w.shape()[2];
  const Value before = i.has(3) ? i.in(3) : full({x.shape()[0], c, k - 1}, 0, x.dtype());
  const Value all = k > 1 ? concat({before, x}, 2) : x;
  Value y = call("conv", {all, w},
                 {{"stride", Ints{1}}, {"padding", Ints{0, 0}}, {"dilation", Ints{1}}, {"groups", c}});
  if (i.has(2)) y = y + reshape(i.in(2), {c, 1});
  if (i.text("activation", "none") != "none") y = to(call("silu", {to(y, DType::kFloat32)}), x.dtype());
  i.out(y);
  i.out(1,
        k > 1 ? narrow(all, 2, all.shape()[2] - (k - 1), k - 1) : full({x.shape()[0], c, 0}, 0, x.dtype()));
}
void swiglu(Import& i) {
  const double alpha = i.real("alpha", 1);
  const Value a = i.in(0);
  i.out(a * call("sigmoid", {alpha == 1 ? a : a * alpha}) * i.in(1));
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"Attention", attention},
                            {"com.microsoft.Attention", packed_attention},
                            {"ai.onnx.preview.FlexAttention", flex_attention},
                            {"RotaryEmbedding", [](Import& i) { rotary(i, false); }},
                            {"com.microsoft.RotaryEmbedding", [](Import& i) { rotary(i, true); }},
                            {"LinearAttention", linear_attention},
                            {"CausalConvWithState", causal_conv},
                            {"SwiGLU", swiglu},
                        });
}  // namespace
}  // namespace yuloh::formats
