// SPDX-License-Identifier: Apache-2.0
// Random numbers. Philox 4x32-10 is a function of (seed, counter); element i of an op uses counter offset +
// i, so the same seed gives the same bits on any thread count and recomputation replays them. (seed, offset)
// are assigned at recording.
#include <cmath>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {
using S = Scalar;

struct Bits {
  uint32_t a, b, c, d;
};
inline Bits philox(uint64_t key, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1, c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}
inline double unit53(Bits r) {  // [0, 1)
  return static_cast<double>((uint64_t{r.a} << 21) ^ (uint64_t{r.b} >> 11)) * 0x1p-53;
}
inline double gaussian(Bits r) {  // Box-Muller; the first uniform lies in (0, 1]
  const double u = (static_cast<double>(r.a) + 1) * 0x1p-32, v = static_cast<double>(r.b) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

struct Stream {
  uint64_t seed, offset;
};
Stream stream_of(const HostCall& h) {
  const size_t n = h.in.size();
  return {static_cast<uint64_t>(scalar_int(h.in[n - 2])), static_cast<uint64_t>(scalar_int(h.in[n - 1]))};
}

// The same function for a block of successive counters, written so that compilers vectorise it: lanes are
// columns.
constexpr int kBlock = 32;
struct BitsBlock {
  uint32_t a[kBlock], b[kBlock];
};
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
void philox_block(uint64_t key, uint64_t first, BitsBlock* out) {
  uint32_t c0[kBlock], c1[kBlock], c2[kBlock], c3[kBlock];
  for (int i = 0; i < kBlock; ++i) {
    const uint64_t c = first + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(c), c1[i] = static_cast<uint32_t>(c >> 32), c2[i] = 0, c3[i] = 0;
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kBlock; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[i], p1 = uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0, c1[i] = static_cast<uint32_t>(p1);
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1, c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < kBlock; ++i) out->a[i] = c0[i], out->b[i] = c1[i];
}
// put(i, first word, second word) for i in [0, n), in any order.
template <class F>
void each_draw(const HostCall& h, int64_t n, F&& put) {
  const Stream s = stream_of(h);
  parallel_ranges((n + kBlock - 1) / kBlock, 256, [&](int64_t from, int64_t to) {
    BitsBlock bits;
    for (int64_t block = from; block < to; ++block) {
      const int64_t base = block * kBlock;
      philox_block(s.seed, s.offset + static_cast<uint64_t>(base), &bits);
      const int m = static_cast<int>(std::min<int64_t>(kBlock, n - base));
      for (int i = 0; i < m; ++i) put(base + i, bits.a[i], bits.b[i]);
    }
  });
}
template <class F>
void fill_random(const HostCall& h, F&& draw) {
  const HostOperand& o = h.out[0];
  with_any(h.call.name(), o.dtype, [&](auto e) {
    using E = decltype(e);
    auto* p = o.as<typename E::T>();
    each_draw(h, o.numel(), [&](int64_t i, uint32_t a, uint32_t b) {
      p[i] = E::put(static_cast<typename E::C>(draw(Bits{a, b, 0, 0}, i)));
    });
  });
}
// 24 random bits for float32 (11 and 8 for the halves), so that rounding never yields 1.
void host_uniform01(const HostCall& h) {
  switch (h.out[0].dtype) {
    case DType::kFloat64: return fill_random(h, [](Bits r, int64_t) { return unit53(r); });
    case DType::kFloat16:
      return fill_random(h, [](Bits r, int64_t) { return static_cast<double>(r.a >> 21) * 0x1p-11; });
    case DType::kBFloat16:
      return fill_random(h, [](Bits r, int64_t) { return static_cast<double>(r.a >> 24) * 0x1p-8; });
    default: {
      float* p = h.out[0].as<float>();
      return each_draw(h, h.out[0].numel(), [&](int64_t i, uint32_t a, uint32_t) {
        p[i] = static_cast<float>(a >> 8) * 0x1p-24f;
      });
    }
  }
}
void host_normal01(const HostCall& h) {
  fill_random(h, [](Bits r, int64_t) { return gaussian(r); });
}
void host_keep_mask(const HostCall& h) {
  const double keep = 1 - h.call.real("p");
  const uint64_t limit = static_cast<uint64_t>(std::ceil(keep * 0x1p32));
  uint8_t* p = h.out[0].as<uint8_t>();
  each_draw(h, h.out[0].numel(), [&](int64_t i, uint32_t a, uint32_t) { p[i] = a < limit; });
}
void host_randint(const HostCall& h) {
  const int64_t low = h.call.integer("low");
  const uint64_t span = static_cast<uint64_t>(h.call.integer("high")) - static_cast<uint64_t>(low);
  fill_random(h, [&](Bits r, int64_t) {
    const uint64_t u = (uint64_t{r.a} << 32) | r.b;
    return static_cast<int64_t>(static_cast<uint64_t>(low) +
                                static_cast<uint64_t>((static_cast<unsigned __int128>(u) * span) >> 64));
  });
}
void host_randperm(
    const HostCall& h) {  // element i is exchanged with one of the elements before it or itself
  const Stream s = stream_of(h);
  const HostOperand& o = h.out[0];
  const int64_t n = o.numel();
  std::vector<int64_t> p(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const Bits r = philox(s.seed, s.offset + static_cast<uint64_t>(i));
    const uint64_t u = (uint64_t{r.a} << 32) | r.b;
    const int64_t j =
        static_cast<int64_t>((static_cast<unsigned __int128>(u) * static_cast<uint64_t>(i + 1)) >> 64);
    p[i] = p[j], p[j] = i;
  }
  for (int64_t i = 0; i < n; ++i)
    store_int(o.as<char>() + i * static_cast<int64_t>(dtype_size(o.dtype)), o.dtype, p[i]);
}

// Class numbers by inverting the running sum; without replacement a drawn class loses its weight.
void host_multinomial(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const int64_t k = h.call.integer("num_samples"), size = static_cast<int64_t>(dtype_size(x.dtype));
  const Stream s = stream_of(h);
  const Lanes a(x, static_cast<int64_t>(x.shape.size()) - 1);
  std::vector<double> p(static_cast<size_t>(a.length));
  for (int64_t l = 0; l < a.count; ++l) {
    double total = 0;
    int64_t positive = 0;
    for (int64_t i = 0; i < a.length; ++i) {
      p[i] = load_double(x.as<char>() + (a.start(l) + i * a.stride) * size, x.dtype);
      if (!(p[i] >= 0) || std::isinf(p[i]))
        value_error("multinomial: not a probability, got ", p[i], " for class ", i, " of row ", l,
                    "; expected finite values >= 0.");
      total += p[i], positive += p[i] > 0;
    }
    if (total <= 0 || (!h.call.flag("replacement") && positive < k))
      value_error("multinomial: too few classes with a positive probability, got ", positive, " in row ", l,
                  "; expected at least ", k, ".");
    for (int64_t j = 0; j < k; ++j) {
      const double u = unit53(philox(s.seed, s.offset + static_cast<uint64_t>(l * k + j))) * total;
      double sum = 0;
      int64_t pick = -1;
      for (int64_t i = 0; i < a.length; ++i) {
        if (p[i] > 0) pick = i;
        sum += p[i];
        if (p[i] > 0 && u < sum) break;
      }
      o.as<int64_t>()[l * k + j] = pick;
      if (!h.call.flag("replacement")) total -= p[pick], p[pick] = 0;
    }
  }
}
// Products of uniforms for small rates, a rounded normal (error below 1 %) from 64 on. One counter per
// element: further uniforms come from other keys.
void host_poisson(const HostCall& h) {
  const HostOperand &x = h.in[0], &o = h.out[0];
  const Stream s = stream_of(h);
  const int64_t n = o.numel(), size = static_cast<int64_t>(dtype_size(x.dtype));
  for (int64_t i = 0; i < n; ++i) {
    const double rate = load_double(x.as<char>() + offset_at(x.shape, x.strides, i) * size, x.dtype);
    const uint64_t at = s.offset + static_cast<uint64_t>(i);
    double k = 0;
    if (rate >= 64) {
      k = std::max(0.0, std::round(rate + std::sqrt(rate) * gaussian(philox(s.seed, at))));
    } else if (rate > 0) {
      const double limit = std::exp(-rate);
      double p = 1;
      for (uint64_t draw = 0;; ++draw) {
        p *= unit53(philox(s.seed + (draw << 32), at));
        if (p <= limit) break;
        ++k;
      }
    } else if (rate != 0) {
      k = NAN;
    }
    store_double(o.as<char>() + i * size, o.dtype, k);
  }
}

Types infer_random(const Call& c) {
  const DType t = c.dtype("dtype");
  if (!is_float(t) || !dtype_has_kernels(t))
    type_error(c.name(), ": dtype is not supported, got ", t, "; expected a floating point dtype.");
  return {{t, shape_arg(c)}};
}
Values with_stream(const Call& c, Values v) {  // hands the reserved (seed, offset) on to the op inside
  v.push_back(c.in[c.n_in - 2]), v.push_back(c.in[c.n_in - 1]);
  return v;
}
Value draw(const Call& c, const char* op, const Shape& s, DType t) {
  return call(op, with_stream(c, {}), {{"shape", to_ints(s)}, {"dtype", t}});
}
Types infer_first_float(const Call& c) { return require_float(c, 0), Types{c.type(0)}; }

const Register sources{
    {.schema = "uniform01(int[] shape, dtype dtype) -> Tensor",
     .doc = "Uniform in [0, 1).",
     .infer = infer_random,
     .host = host_uniform01,
     .no_grad = true,
     .random = true},
    {.schema = "normal01(int[] shape, dtype dtype) -> Tensor",
     .doc = "Standard normal.",
     .infer = infer_random,
     .host = host_normal01,
     .no_grad = true,
     .random = true},
    {.schema = "keep_mask(int[] shape, float p) -> Tensor",
     .doc = "bool, False with probability p.",
     .infer = [](const Call& c) -> Types {
       return {{DType::kBool, shape_arg(c)}};
     },
     .host = host_keep_mask,
     .no_grad = true,
     .random = true,
     .eager = {.results = 3}},  // float32 on the CPU; here bytes
    {.schema = "randint_static(int low, int high, int[] shape, dtype dtype) -> Tensor",
     .doc = "Integers in [low, high).",
     .infer = [](const Call& c) -> Types {
       if (c.integer("low") >= c.integer("high"))
         value_error("randint: the range is empty, got low ", c.integer("low"), " and high ",
                     c.integer("high"), "; expected low < high.");
       return {{c.dtype("dtype"), shape_arg(c)}};
     },
     .host = host_randint,
     .no_grad = true,
     .random = true},
    {.schema = "randperm_static(int n, dtype dtype) -> Tensor",
     .doc = "0..n-1 in random order.",
     .infer = [](const Call& c) -> Types {
       if (c.integer("n") < 0) value_error("randperm: n is negative, got ", c.integer("n"), ".");
       return {{c.dtype("dtype"), {c.integer("n")}}};
     },
     .host = host_randperm,
     .no_grad = true,
     .random = true},
    {.schema = "uniform_static(value float min, value float max, int[] shape, dtype dtype) -> Tensor",
     .doc = "Uniform in [min, max).",
     .infer = infer_random,
     .expand = [](const Call& c) -> Values {
       const Value u = draw(c, "uniform01", shape_arg(c), c.dtype("dtype"));
       return {call("between", {u, c["min"], c["max"]})};
     },
     .no_grad = true,
     .random = true},
    {.schema = "between(Tensor u, value float min, value float max) -> Tensor",
     .doc = "min + u * (max - min).",
     .infer = like_first,
     .scalar = [](S u, S lo, S hi) { return lo + u * (hi - lo); }},
    {.schema = "gaussian_static(value float mean, value float std, int[] shape, dtype dtype) -> Tensor",
     .doc = "Normal with mean and standard deviation.",
     .infer = infer_random,
     .expand = [](const Call& c) -> Values {
       return {call("mean_std", {draw(c, "normal01", shape_arg(c), c.dtype("dtype")), c["mean"], c["std"]})};
     },
     .no_grad = true,
     .random = true},
    {.schema = "mean_std(Tensor z, value float mean, value float std) -> Tensor",
     .doc = "mean + z * std.",
     .infer = like_first,
     .scalar = [](S z, S m, S s) { return m + z * s; }},
    {.schema =
         "truncated_normal(int[] shape, float mean, float std, float a, float b, dtype dtype) -> Tensor",
     .doc = "Normal limited to [mean + a * std, mean + b * std] by inverting the distribution function.",
     .infer = infer_random,
     .expand = [](const Call& c) -> Values {
       const DType t = c.dtype("dtype"), wide = t == DType::kFloat64 ? t : DType::kFloat32;
       const double lo = std::erf(c.real("a") / std::sqrt(2.0)), hi = std::erf(c.real("b") / std::sqrt(2.0));
       const Value u = affine(draw(c, "uniform01", shape_arg(c), wide), hi - lo, lo);
       const double eps = wide == DType::kFloat64 ? 1e-15 : 6e-8;  // erfinv of +-1 is infinite
       const Value v = call("clip", {u, constant(-1 + eps, wide), constant(1 - eps, wide)});
       const Value z = call("clip", {un("erfinv", v) * std::sqrt(2.0), constant(c.real("a"), wide),
                                     constant(c.real("b"), wide)});
       return {cast(affine(z, c.real("std"), c.real("mean")), t)};
     },
     .no_grad = true,
     .random = true},
    {.schema = "multinomial_core(Tensor x, int num_samples=1, bool replacement=False) -> Tensor",
     .doc = "Class numbers drawn from the probabilities in the last axis.",
     .infer = [](const Call& c) -> Types {
       require_float(c, 0);
       require_rank(c, 0, 1, 2);
       Shape s = c.type(0).shape;
       const int64_t k = c.integer("num_samples");
       if (k < 1 || (!c.flag("replacement") && k > s.back()))
         value_error(
             "multinomial: num_samples out of range, got ", k, " for ", s.back(),
             " classes; expected at least 1",
             c.flag("replacement") ? "." : " and at most one for each class. Hint: replacement=True.");
       s[s.size() - 1] = k;
       return {{DType::kInt64, s}};
     },
     .host = host_multinomial,
     .no_grad = true,
     .random = true,
     .checks = true},
    {.schema = "poisson_core(Tensor x) -> Tensor",
     .doc = "Poisson counts with rates x.",
     .infer = infer_first_float,
     .host = host_poisson,
     .no_grad = true,
     .random = true},
    {.schema = "bernoulli(Tensor x) -> Tensor",
     .python = "",
     .doc = "1 with probability x, else 0.",
     .infer = infer_first_float,
     .expand = [](const Call& c) -> Values {
       const Value u = draw(c, "uniform01", c.type(0).shape,
                            c.type(0).dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
       return {cast(call("less_than", {u, cast(c["x"], u.dtype())}), c.type(0).dtype)};
     },
     .no_grad = true,
     .random = true},
};

void check_probability(const Call& c) {
  const double p = c.real("p");
  if (!(p >= 0 && p <= 1))
    value_error(c.name(), ": p is not a probability, got ", p, "; expected 0 <= p <= 1.");
}
// The mask covers only the axes that are dropped independently (`axis`); the others share one draw.
Values dropout_body(const Call& c) {
  const Value x = c["x"];
  const double p = c.real("p");
  const bool upscale = c.str("mode") == "upscale_in_train";
  if (!c.flag("training")) return {upscale || p == 0 ? x : x * (1 - p)};
  if (p == 0) return {x};
  Shape s = x.shape();
  if (const Ints axes = c.ints("axis"); !axes.empty()) {
    const Ints kept = normalize_axes(c.name(), axes, x.rank());
    for (uint32_t i = 0, k = 0; i < s.size(); ++i)
      if (k < kept.size() && kept[k] == i) ++k;
      else s[i] = 1;
  }
  const Value mask = call("keep_mask", with_stream(c, {}), {{"shape", to_ints(s)}, {"p", p}});
  return {call("dropout_apply", {x, mask}, {{"divisor", upscale && p < 1 ? 1 - p : 1.0}})};
}
const Register dropouts{
    {.schema = "dropout_apply(Tensor x, Tensor mask, float divisor=1.0) -> Tensor",
     .doc = "x / divisor where mask is True, else 0.",
     .infer = like_first,
     .scalar = [](const Call& c, S x, S m) { return select(m, x / S(c.real("divisor")), S(0)); }},
    {.schema = "dropout(Tensor x, float p=0.5, int[]? axis=None, bool training=True, str "
               "mode='upscale_in_train') -> Tensor",
     .python = YULOH_F("dropout"),
     .doc = "Zeroes elements with probability p while training; survivors are divided by 1 - p "
            "(upscale_in_train), or inputs are "
            "multiplied by 1 - p at inference (downscale_in_infer).",
     .infer = [](const Call& c) -> Types {
       check_probability(c);
       if (c.str("mode") != "upscale_in_train" && c.str("mode") != "downscale_in_infer")
         value_error("dropout: unknown mode, got '", c.str("mode"),
                     "'; expected 'upscale_in_train' or 'downscale_in_infer'.");
       normalize_axes(c.name(), c.ints("axis"), c.type(0).shape.size());
       return require_float(c, 0), Types{c.type(0)};
     },
     .expand = dropout_body,
     .random = true},
};
}  // namespace
}  // namespace yuloh
