// SPDX-License-Identifier: Apache-2.0
// PIR rules of what makes values, arranges them, reduces them or puts them in order.
#include <numeric>

#include "formats/pir_write.h"

namespace yuloh::formats {
namespace {
using G = PirGraph;
using Id = PirGraph::Id;

// ---- making ----
std::vector<int64_t> all_dims(const Ints& v) { return {v.begin(), v.end()}; }
void full(PirNode& n) {
  const double v = n.real("value");
  if (!n.open("shape")) return n.done(n.g.number(v, n.out[0].dtype, all_dims(n.ints("shape"))));
  n.done(n.g.op("full_with_tensor", {n.g.number(v, n.out[0].dtype, {}), n.sizes("shape")},
                {G::dtype("dtype", n.out[0].dtype)}, n.out[0]));
}
void fill(PirNode& n) {
  n.done(n.g.op("full_with_tensor", {n.g.cast(n.in[0], n.out[0].dtype), n.sizes("shape")},
                {G::dtype("dtype", n.out[0].dtype)}, n.out[0]));
}
void full_like(PirNode& n) {
  n.done(n.g.op("multiply",
                {n.g.op("full_like", {n.in[0], n.g.number(1, n.out[0].dtype, {1})},
                        {G::dtype("dtype", n.out[0].dtype), G::place()}, n.out[0]),
                 n.g.cast(n.in[1], n.out[0].dtype)},
                {}, n.out[0]));
}
template <int kValue>
void constant_like(PirNode& n) {
  n.done(n.g.op("full_like", {n.in[0], n.g.number(kValue, n.out[0].dtype, {1})},
                {G::dtype("dtype", n.out[0].dtype), G::place()}, n.out[0]));
}
void iota(PirNode& n) {  // 0, 1, ... along an axis
  const auto axis = static_cast<size_t>(n.integer("axis"));
  const DType t = n.out[0].dtype;
  const Id shape = n.sizes("shape");
  const auto at = static_cast<int64_t>(axis);
  const Id size = n.g.op("slice", {shape, n.g.ints({at}), n.g.ints({at + 1})},
                         {G::i64s("axes", {0}), G::i64s("infer_flags", {1}), G::i64s("decrease_axis", {})},
                         {DType::kInt64, {1}});
  const Id row =
      n.g.op("arange", {n.g.number(0, DType::kInt64, {1}), size, n.g.number(1, DType::kInt64, {1})},
             {G::dtype("dtype", DType::kInt64), G::place()}, {DType::kInt64, {n.out[0].dims[axis]}});
  n.done(n.g.op("reshape", {n.g.cast(row, t), shape}, {}, n.out[0]));
}
void arange(PirNode& n) {
  const DType t = n.out[0].dtype;
  std::vector<Id> in;
  for (const char* name : {"start", "end", "step"}) {
    const DType as = is_integral(t) ? DType::kInt64 : t;
    in.push_back(n.open(name) ? n.g.cast(n.sizes(name), as) : n.g.number(n.real(name), as, {1}));
  }
  n.done(n.g.op("arange", in, {G::dtype("dtype", t), G::place()}, n.out[0]));
}

// ---- arranging ----
void broadcast(PirNode& n) { n.done(n.g.op("expand", {n.in[0], n.sizes("shape")}, {}, n.out[0])); }
void concat(PirNode& n) {
  std::vector<Id> in;
  for (Id id : n.in) in.push_back(n.g.cast(id, n.out[0].dtype));
  n.done(n.g.op("concat",
                {n.g.combine(in), n.g.number(static_cast<double>(n.integer("axis")), DType::kInt32, {1})}, {},
                n.out[0]));
}
void stack(PirNode& n) {
  n.done(n.g.op("stack", {n.g.combine(n.in)}, {G::i32("axis", n.integer("axis"))}, n.out[0]));
}
void split(PirNode& n) {
  n.result = n.g.list_op(
      "split",
      {n.in[0], n.sizes("sizes"), n.g.number(static_cast<double>(n.integer("axis")), DType::kInt32, {1})}, {},
      n.out);
}
void slice(PirNode& n) {
  const Ints axes = n.ints("axes"), flags(axes.size(), 1);
  const bool strided = !n.none("strides");
  const Ints strides = strided ? n.ints("strides") : Ints(axes.size(), 1);
  bool unit = true;
  for (int64_t s : strides) unit = unit && s == 1;
  if (unit && !(strided && n.open("strides")))
    return n.done(n.g.op("slice", {n.in[0], n.sizes("starts"), n.sizes("ends")},
                         {G::i64s("axes", axes), G::i64s("infer_flags", flags), G::i64s("decrease_axis", {})},
                         n.out[0]));
  n.done(n.g.op("strided_slice", {n.in[0], n.sizes("starts"), n.sizes("ends"), n.sizes("strides")},
                {G::i32s("axes", axes)}, n.out[0]));
}
void gather(PirNode& n) {
  n.done(n.g.op("gather",
                {n.in[0], n.in[1], n.g.number(static_cast<double>(n.integer("axis")), DType::kInt32, {1})},
                {}, n.out[0]));
}
void roll(PirNode& n) {
  n.done(n.g.op("roll", {n.in[0], n.sizes("shifts")},
                {G::i64s("axis", n.none("axis") ? Ints() : n.ints("axis"))}, n.out[0]));
}
void swapaxes(PirNode& n) {
  const auto rank = static_cast<int64_t>(n.g.type(n.in[0]).dims.size());
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), int64_t{0});
  const auto at = [&](const char* a) {
    return static_cast<size_t>(n.integer(a) < 0 ? n.integer(a) + rank : n.integer(a));
  };
  std::swap(perm[at("axis0")], perm[at("axis1")]);
  n.done(n.g.op("transpose", {n.in[0]}, {G::i32s("perm", perm)}, n.out[0]));
}
void transposed(PirNode& n) {
  const auto rank = n.g.type(n.in[0]).dims.size();
  n.done(rank < 2 ? n.in[0] : n.g.op("transpose", {n.in[0]}, {G::i32s("perm", {1, 0})}, n.out[0]));
}
// Paddle's operator does not broadcast: whichever has extent 1 off the axis is expanded to the other.
void take_along_axis(PirNode& n) {
  const std::vector<int64_t> dims[2] = {n.g.type(n.in[0]).dims, n.g.type(n.in[1]).dims};
  const auto axis = static_cast<size_t>(
      n.integer("axis") < 0 ? n.integer("axis") + static_cast<int64_t>(dims[0].size()) : n.integer("axis"));
  Id made[2];
  for (int k : {0, 1}) {
    std::vector<Id> parts;
    PirType t = n.g.type(n.in[static_cast<size_t>(k)]);
    bool wider = false;
    for (size_t d = 0; d < dims[k].size(); ++d) {
      const int64_t other = dims[1 - k][d];
      if (d == axis || dims[k][d] != 1 || other == 1 || !n.flag("broadcast")) {
        parts.push_back(n.g.ints({-1}));
        continue;
      }
      wider = true, t.dims[d] = other;
      parts.push_back(other >= 0 ? n.g.ints({other}) : n.dim_of(n.in[static_cast<size_t>(1 - k)], d));
    }
    made[k] = !wider ? n.in[static_cast<size_t>(k)]
                     : n.g.op("expand", {n.in[static_cast<size_t>(k)], n.join(parts)}, {}, t);
  }
  n.done(n.g.op("take_along_axis", {made[0], made[1]}, {G::i32("axis", n.integer("axis"))}, n.out[0]));
}
void one_hot(PirNode& n) {
  n.done(n.g.cast(
      n.g.op("one_hot",
             {n.in[0], n.g.number(static_cast<double>(n.integer("num_classes")), DType::kInt32, {1})}, {},
             {DType::kFloat32, n.out[0].dims}),
      n.out[0].dtype));
}
void pad(PirNode& n) {  // pairs of all axes; the last three of five can be padded with every mode
  const std::string mode = n.text("mode");
  const Ints pairs = n.ints("pairs");
  if (n.open("pairs")) n.cannot("its widths depend on the sizes of the inputs");
  if (std::any_of(pairs.begin(), pairs.end(), [](int64_t w) { return w < 0; })) n.cannot("a negative width");
  if (mode == "constant")
    return n.done(n.g.op("pad", {n.in[0], n.g.number(n.real("value"), n.out[0].dtype, {1})},
                         {G::i32s("paddings", pairs)}, n.out[0]));
  const auto& dims = n.g.type(n.in[0]).dims;
  const size_t rank = dims.size();
  if (rank < 3 || rank > 5 || pairs[0] || pairs[1] || pairs[2] || pairs[3])
    n.cannot(cat("padding '", mode, "' of the first two axes"));
  Ints given(6, 0), missing;
  for (size_t k = 2; k < rank; ++k) {  // from the last axis
    const size_t to = rank - 1 - k;
    given[2 * to] = pairs[2 * k], given[2 * to + 1] = pairs[2 * k + 1];
  }
  for (size_t k = rank; k < 5; ++k) missing.push_back(static_cast<int64_t>(2 + k - rank));
  Id x = n.in[0];
  std::vector<int64_t> full(dims), out(n.out[0].dims);
  full.insert(full.begin() + 2, 5 - rank, 1), out.insert(out.begin() + 2, 5 - rank, 1);
  const DType t = n.out[0].dtype;
  if (rank < 5) x = n.g.op("unsqueeze", {x, n.g.ints(missing)}, {}, {t, full});
  x = n.g.op("pad3d", {x, n.g.ints(given)},
             {G::text("mode", mode), G::f64("pad_value", n.real("value")), G::text("data_format", "NCDHW")},
             {t, out});
  if (rank < 5) x = n.g.op("squeeze", {x, n.g.ints(missing)}, {}, n.out[0]);
  n.done(x);
}

// ---- reductions ----
void sum(PirNode& n) {
  n.done(n.g.op("sum", {n.in[0], n.none("axis") ? n.g.ints({}) : n.sizes("axis")},
                {G::dtype("dtype", n.out[0].dtype), G::flag("keepdim", n.flag("keepdim"))}, n.out[0]));
}
void prod(PirNode& n) {
  const bool all = n.none("axis");
  n.done(n.g.op("prod", {n.g.cast(n.in[0], n.out[0].dtype), all ? n.g.ints({}) : n.sizes("axis")},
                {G::flag("keepdim", n.flag("keepdim")), G::flag("reduce_all", all)}, n.out[0]));
}
void logsumexp(PirNode& n) {
  const bool all = n.none("axis");
  n.done(n.g.op("logsumexp", {n.in[0]},
                {G::i32s("axis", all ? Ints() : n.ints("axis")), G::flag("keepdim", n.flag("keepdim")),
                 G::flag("reduce_all", all)},
                n.out[0]));
}
void arg_extreme(PirNode& n) {
  const bool flatten = n.none("axis");
  n.done(
      n.g.op(n.node.op->name.c_str(),
             {n.in[0], n.g.number(flatten ? 0 : static_cast<double>(n.integer("axis")), DType::kInt64, {1})},
             {G::flag("keepdims", n.flag("keepdim")), G::flag("flatten", flatten),
              G::dtype("dtype", n.out[0].dtype)},
             n.out[0]));
}
void topk(PirNode& n) {
  n.result = n.g.ops("topk", {n.in[0], n.g.number(static_cast<double>(n.integer("k")), DType::kInt32, {1})},
                     {G::i32("axis", n.none("axis") ? -1 : n.integer("axis")),
                      G::flag("largest", n.flag("largest")), G::flag("sorted", true)},
                     n.out);
}
void sort(PirNode& n) {
  n.result = {n.g.ops("argsort", {n.in[0]},
                      {G::i32("axis", n.integer("axis")), G::flag("descending", n.flag("descending")),
                       G::flag("stable", true)},
                      {n.out[0], {DType::kInt64, n.out[0].dims}})[0]};
}
void cumsum(PirNode& n) {
  const bool flat = n.none("axis");
  n.done(n.g.op("cumsum",
                {n.g.cast(n.in[0], n.out[0].dtype),
                 n.g.number(flat ? -1 : static_cast<double>(n.integer("axis")), DType::kInt32, {1})},
                {G::flag("flatten", flat), G::flag("exclusive", false), G::flag("reverse", false)},
                n.out[0]));
}

// clang-format off
const PirRules table{
    {"full", full}, {"fill", fill}, {"full_like", full_like}, {"zeros_like", constant_like<0>},
    {"ones_like", constant_like<1>}, {"iota", iota}, {"arange_static", arange}, {"broadcast_to", broadcast},
    {"concat", concat}, {"concat_same", concat}, {"stack", stack}, {"split", split}, {"slice", slice},
    {"strided_slice", slice}, {"gather", gather}, {"roll", roll}, {"take_along_axis", take_along_axis},
    {"swapaxes", swapaxes}, {"t", transposed}, {"one_hot", one_hot}, {"pad_core", pad}, {"sum", sum},
    {"prod", prod}, {"logsumexp", logsumexp}, {"argmax", arg_extreme}, {"argmin", arg_extreme},
    {"topk", topk}, {"sort", sort}, {"cumsum", cumsum}};
// clang-format on
}  // namespace
}  // namespace yuloh::formats
