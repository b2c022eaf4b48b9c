// SPDX-License-Identifier: Apache-2.0
// PIR rules of layers: windows, normalisation, resizing, recurrence.
#include <algorithm>

#include "formats/pir_write.h"

namespace yuloh::formats {
namespace {
using G = PirGraph;
using Id = PirGraph::Id;

// A convolution over one axis is one over two, of which the first has size 1.
struct Window {
  bool line = false;  // one spatial axis
  int spatial = 2;
};
std::vector<int64_t> planed(std::vector<int64_t> dims) {
  dims.insert(dims.begin() + 2, 1);
  return dims;
}
Id to_plane(PirNode& n, Id x) {
  const PirType t = n.g.type(x);
  return n.g.op("unsqueeze", {x, n.g.ints({2})}, {}, {t.dtype, planed(t.dims)});
}
Id to_line(PirNode& n, Id x) { return n.g.op("squeeze", {x, n.g.ints({2})}, {}, n.out[0]); }
Ints lead(bool line, const Ints& v, int64_t with) {
  if (!line) return v;
  Ints r{with};
  for (int64_t n : v) r.push_back(n);
  return r;
}
// Paddle takes one number per axis where both ends are equal, pairs otherwise.
Ints pads(PirNode& n, bool line) {
  if (n.open("padding")) n.cannot("its padding depends on the sizes of the inputs");
  Ints p;
  if (line) p.push_back(0), p.push_back(0);
  for (int64_t v : n.ints("padding")) p.push_back(v);
  bool even = true;
  for (size_t k = 0; k + 1 < p.size(); k += 2) even = even && p[k] == p[k + 1];
  if (!even) return p;
  Ints half;
  for (size_t k = 0; k < p.size(); k += 2) half.push_back(p[k]);
  return half;
}
const char* format(int spatial) { return spatial == 3 ? "NCDHW" : "NCHW"; }

void conv(PirNode& n) {
  const auto rank = n.g.type(n.in[0]).dims.size();
  const bool line = rank == 3;
  const int spatial = rank == 5 ? 3 : 2;
  const Id x = line ? to_plane(n, n.in[0]) : n.in[0], w = line ? to_plane(n, n.in[1]) : n.in[1];
  std::vector<G::Attr> a{G::i32s("strides", lead(line, n.ints("stride"), 1)),
                         G::i32s("paddings", pads(n, line)), G::text("padding_algorithm", "EXPLICIT")};
  const G::Attr dilation = G::i32s("dilations", lead(line, n.ints("dilation"), 1)),
                groups = G::i32("groups", n.integer("groups"));
  if (spatial == 2) a.push_back(dilation), a.push_back(groups);
  else a.push_back(groups), a.push_back(dilation);
  a.push_back(G::text("data_format", format(spatial)));
  const PirType t{n.out[0].dtype, line ? planed(n.out[0].dims) : n.out[0].dims};
  const Id y = n.g.op(spatial == 3 ? "conv3d" : "conv2d", {x, w}, a, t);
  n.done(line ? to_line(n, y) : y);
}
void conv_transpose(PirNode& n) {
  const auto rank = n.g.type(n.in[0]).dims.size();
  const bool line = rank == 3;
  const int spatial = rank == 5 ? 3 : 2;
  const Id x = line ? to_plane(n, n.in[0]) : n.in[0], w = line ? to_plane(n, n.in[1]) : n.in[1];
  std::vector<G::Attr> a{G::i32s("strides", lead(line, n.ints("stride"), 1)),
                         G::i32s("paddings", pads(n, line)),
                         G::i32s("output_padding", lead(line, n.ints("output_padding"), 0))};
  if (spatial == 3) a.push_back(G::i32s("output_size", {}));
  for (G::Attr& e : std::vector<G::Attr>{
           G::text("padding_algorithm", "EXPLICIT"), G::i32("groups", n.integer("groups")),
           G::i32s("dilations", lead(line, n.ints("dilation"), 1)), G::text("data_format", format(spatial))})
    a.push_back(std::move(e));
  const PirType t{n.out[0].dtype, line ? planed(n.out[0].dims) : n.out[0].dims};
  std::vector<Id> in{x, w};
  if (spatial == 2) in.push_back(n.g.ints({}));
  const Id y = n.g.op(spatial == 3 ? "conv3d_transpose" : "conv2d_transpose", in, a, t);
  n.done(line ? to_line(n, y) : y);
}
void pool_as(PirNode& n, bool average, bool adaptive) {
  const auto rank = n.g.type(n.in[0]).dims.size();
  const bool line = rank == 3;
  const int spatial = rank == 5 ? 3 : 2;
  const char* size_name = adaptive ? "output_size" : "kernel_size";
  if (n.open(size_name)) n.cannot("its window depends on the sizes of the inputs");
  const Ints size = lead(line, n.ints(size_name), 1);
  const Id x = line ? to_plane(n, n.in[0]) : n.in[0];
  const Ints stride = adaptive ? Ints(size.size(), 1) : lead(line, n.ints("stride"), 1);
  const bool exclusive = adaptive || !average || n.flag("exclusive");
  if (average && !adaptive && !n.none("divisor")) n.cannot("a divisor of its own");
  if (!exclusive && n.flag("ceil_mode"))
    n.cannot("a mean that counts padding in partial windows, which Paddle divides by another number");
  std::vector<G::Attr> a{G::i64s("strides", stride),
                         G::i64s("paddings", adaptive ? Ints(size.size(), 0) : pads(n, line)),
                         G::flag("ceil_mode", !adaptive && n.flag("ceil_mode")),
                         G::flag("exclusive", exclusive),
                         G::text("data_format", format(spatial)),
                         G::text("pooling_type", average ? "avg" : "max"),
                         G::flag("global_pooling", false),
                         G::flag("adaptive", adaptive),
                         G::text("padding_algorithm", "EXPLICIT")};
  const PirType t{n.out[0].dtype, line ? planed(n.out[0].dims) : n.out[0].dims};
  Id y;
  if (spatial == 3) {
    a.insert(a.begin(), G::i64s("kernel_size", size));
    a[1] = G::i64s("strides", stride),
    a[2] = G::i64s("paddings", adaptive ? Ints(size.size(), 0) : pads(n, line));
    y = n.g.op("pool3d", {x}, a, t);
  } else {
    y = n.g.op("pool2d", {x, n.g.ints(size)}, a, t);
  }
  n.done(line ? to_line(n, y) : y);
}
void max_pool(PirNode& n) { pool_as(n, false, false); }
void avg_pool(PirNode& n) { pool_as(n, true, false); }
void adaptive_avg_pool(PirNode& n) { pool_as(n, true, true); }
// Paddle's plain pool has no adaptive maximum; the one that gives positions, too, has.
void max_pool_at(PirNode& n, bool adaptive) {
  const auto rank = n.g.type(n.in[0]).dims.size();
  const bool line = rank == 3;
  const Ints size = lead(line, n.ints(adaptive ? "output_size" : "kernel_size"), 1);
  Ints padding(size.size(), 0);
  if (!adaptive) padding = pads(n, line);
  if (padding.size() != size.size()) n.cannot("padding that differs between the ends of an axis");
  const PirType t{n.out[0].dtype, line ? planed(n.out[0].dims) : n.out[0].dims};
  const Id x = line ? to_plane(n, n.in[0]) : n.in[0];
  n.result = n.g.ops(rank == 5 ? "max_pool3d_with_index" : "max_pool2d_with_index", {x},
                     {G::i32s("kernel_size", size),
                      G::i32s("strides", adaptive ? Ints(size.size(), 1) : lead(line, n.ints("stride"), 1)),
                      G::i32s("paddings", padding), G::flag("global_pooling", false),
                      G::flag("adaptive", adaptive), G::flag("ceil_mode", !adaptive && n.flag("ceil_mode"))},
                     {t, {DType::kInt32, t.dims}});
  n.result.resize(n.out.size());
  if (line)
    for (size_t k = 0; k < n.result.size(); ++k)
      n.result[k] = n.g.op("squeeze", {n.result[k], n.g.ints({2})}, {}, n.out[k]);
}
void adaptive_max_pool(PirNode& n) { max_pool_at(n, true); }
void max_pool_with_index(PirNode& n) { max_pool_at(n, false); }

Id ones_or(PirNode& n, Id id, double v, int64_t size) {
  return id ? id : n.g.number(v, n.out[0].dtype, {size});
}
void batch_norm(PirNode& n) {
  const int64_t c = n.g.type(n.arg("mean")).dims[0];
  const PirType stat{n.g.type(n.arg("mean")).dtype, {c}};
  n.result = {n.g.ops("batch_norm_",
                      {n.in[0], n.arg("mean"), n.arg("variance"), ones_or(n, n.arg("weight"), 1, c),
                       ones_or(n, n.arg("bias"), 0, c)},
                      {G::flag("is_test", true), G::f32("momentum", 0.9),
                       G::f32("epsilon", n.real("epsilon")), G::text("data_format", "NCHW"),
                       G::flag("use_global_stats", true), G::flag("trainable_statistics", false)},
                      {n.out[0], stat, stat, stat, stat, {DType::kUInt8, {-1}}})[0]};
}
void layer_norm(PirNode& n) {
  const auto& x = n.g.type(n.in[0]).dims;
  const auto rank = static_cast<int64_t>(x.size());
  const int64_t axis = n.integer("begin_axis") < 0 ? n.integer("begin_axis") + rank : n.integer("begin_axis");
  const auto flat = [&](Id id) -> Id {  // Paddle keeps weights of several axes flat
    if (!id || n.g.type(id).dims.size() == 1) return id;
    int64_t size = 1;
    for (int64_t d : n.g.type(id).dims) size *= d;
    return n.g.op("reshape", {id, n.g.ints({size})}, {}, {n.g.type(id).dtype, {size}});
  };
  if (axis == 0) n.cannot("Paddle does not normalise over the first axis");
  const PirType stat{DType::kFloat32, {x.begin(), x.begin() + axis}};
  n.result = n.g.ops("layer_norm", {n.in[0], flat(n.arg("weight")), flat(n.arg("bias"))},
                     {G::f32("epsilon", n.real("epsilon")), G::i32("begin_norm_axis", axis)},
                     {n.out[0], stat, stat});
  n.result.resize(2);  // its third is the variance, not 1 / deviation
}
void group_norm(PirNode& n) {
  const auto& x = n.g.type(n.in[0]).dims;
  const PirType stat{DType::kFloat32, {x[0], n.integer("num_groups")}};
  n.result = n.g.ops("group_norm", {n.in[0], n.arg("weight"), n.arg("bias")},
                     {G::f64("epsilon", n.real("epsilon")), G::i32("groups", n.integer("num_groups")),
                      G::text("data_format", "NCHW")},
                     {n.out[0], stat, stat});
  n.result.resize(2);
}
void p_norm(PirNode& n) {
  const bool all = n.none("axis");
  if (!all && n.ints("axis").size() != 1) n.cannot("a norm over several axes");
  n.done(n.g.op("p_norm", {n.in[0]},
                {G::f32("porder", n.real("p")), G::i32("axis", all ? -1 : n.ints("axis")[0]),
                 G::f32("epsilon", 1e-12), G::flag("keepdim", n.flag("keepdim")), G::flag("asvector", all)},
                n.out[0]));
}
void resample(PirNode& n) {  // a sum over taps of gathered slices times their weights
  const auto axis = static_cast<size_t>(n.integer("axis"));
  const int64_t taps = n.integer("taps"), size = n.out[0].dims[axis];
  const Ints index = n.ints("index");
  const std::vector<double> weight = n.reals("weight");
  if (n.open("index") || size < 0) n.cannot("resizing to a size that is open; give a fixed output size");
  const DType t = n.out[0].dtype;
  Id total = 0;
  for (int64_t k = 0; k < taps; ++k) {
    Ints at;
    std::vector<double> w;
    for (int64_t i = 0; i < size; ++i)
      at.push_back(index[static_cast<size_t>(i * taps + k)]),
          w.push_back(weight[static_cast<size_t>(i * taps + k)]);
    const Id part =
        n.g.op("gather", {n.in[0], n.g.ints(at), n.g.number(static_cast<double>(axis), DType::kInt32, {1})},
               {}, n.out[0]);
    std::vector<int64_t> shape(n.out[0].dims.size(), 1);
    shape[axis] = size;
    const Id zero = n.g.number(0, t, {size});
    Id factor = n.g.op("assign_value_", {zero},
                       {G::i32s("shape", {size}), G::dtype("dtype", t), G::reals("values", w), G::place()},
                       {t, {size}});
    factor = n.g.op("reshape", {factor, n.g.ints(Ints(shape.begin(), shape.end()))}, {}, {t, shape});
    const Id term = n.g.op("multiply", {part, factor}, {}, n.out[0]);
    total = total ? n.g.op("add", {total, term}, {}, n.out[0]) : term;
  }
  n.done(total);
}

// Paddle's layer starts from its input: what the input's share of the gates was made of where it is known,
// else the gates themselves with a weight of ones on the diagonal. Paddle's `rnn` for one layer and
// direction; `states`: its state arguments. The results of `rnn`: all hidden states, the dropout state, the
// last of each state.
std::vector<Id> recurrent(PirNode& n, const char* mode, int64_t gates,
                          const std::vector<const char*>& states) {
  const DType t = n.out[0].dtype;
  const std::vector<int64_t> dims = n.out[0].dims;  // [time, batch, hidden]
  const int64_t hidden = dims[2], rows = gates * hidden;
  if (n.g.type(n.arg("weight")).dtype != t) n.cannot("a weight of another dtype");
  Id x = n.in[0], w, b;
  if (const auto p = n.product_of_input(0); p && n.g.type(n.value(p->x)).dims.size() == 3) {
    x = n.value(p->x), w = n.value(p->w), b = n.value(p->b);
  } else {
    std::vector<double> one(static_cast<size_t>(rows * rows), 0.0);
    for (int64_t i = 0; i < rows; ++i) one[static_cast<size_t>(i * rows + i)] = 1;
    w = n.g.op("assign_value_", {n.g.number(0, t, {rows, rows})},
               {G::i32s("shape", {rows, rows}), G::dtype("dtype", t), G::reals("values", one), G::place()},
               {t, {rows, rows}});
    b = n.g.number(0, t, {rows});
  }
  const auto flipped = [&](Id id) {
    return n.flag("reverse") ? n.g.op("flip", {id}, {G::i32s("axis", {0})}, n.g.type(id)) : id;
  };
  const PirType state{t, {1, dims[1], hidden}};
  std::vector<Id> start;
  for (const char* name : states)
    start.push_back(n.g.op("unsqueeze", {n.arg(name), n.g.ints({0})}, {}, state));
  auto r =
      n.g.mixed("rnn",
                {flipped(x), n.g.combine(start), n.g.combine({w, n.arg("weight"), b, n.arg("bias")}), 0,
                 n.g.number(0, DType::kUInt8, {1})},
                {G::f32("dropout_prob", 0), G::flag("is_bidirec", false),
                 G::i32("input_size", n.g.type(x).dims[2]), G::i32("hidden_size", hidden),
                 G::i32("num_layers", 1), G::text("mode", mode), G::i32("seed", 0), G::flag("is_test", true)},
                {{{n.out[0]}},
                 {{{DType::kUInt8, {}}}},
                 {std::vector<PirType>(states.size(), state), true},
                 {{{t, {}}}}});
  r[0] = flipped(r[0]);
  return r;
}
void gru(PirNode& n) { n.result = {recurrent(n, "GRU", 3, {"h"})[0], 0}; }
void lstm(PirNode& n) {
  const DType t = n.out[0].dtype;
  const auto r = recurrent(n, "LSTM", 4, {"h", "c"});
  n.result = {r[0]};
  if (n.read_only_at(1, !n.flag("reverse")))  // then the last cell will do for all
    n.result.push_back(n.g.op("add",
                              {n.g.op("full_like", {n.result[0], n.g.number(0, t, {1})},
                                      {G::dtype("dtype", t), G::place()}, n.out[0]),
                               r[3]},
                              {}, n.out[1]));
  else n.result.push_back(0);
}
void interpolate(PirNode& n) {
  const size_t rank = n.g.type(n.in[0]).dims.size();
  const Ints axes = n.ints("axes");
  const bool last = axes[0] == 1, scaled = n.reals("scale")[0] > 0, cubic = n.text("mode") == "bicubic";
  const std::string mode = n.text("mode");
  const char* type = mode == "nearest" ? "nearest_interp"
                     : cubic           ? "bicubic_interp"
                     : rank == 3       ? "linear_interp"
                     : rank == 4       ? "bilinear_interp"
                                       : "trilinear_interp";
  int64_t out[3] = {-1, -1, -1};  // depth, height, width
  Id sizes = 0;
  if (!scaled && n.open("size")) sizes = n.g.cast(n.sizes("size"), DType::kInt32);
  if (!scaled && !sizes)
    for (uint32_t k = 0; k < axes.size(); ++k) out[3 - axes.size() + k] = n.ints("size")[k];
  n.done(n.g.op(
      type, {n.in[0], sizes, 0, 0},
      {G::text("data_format", last ? "NHWC" : "NCHW"), G::i32("out_d", out[0]), G::i32("out_h", out[1]),
       G::i32("out_w", out[2]), G::reals("scale", scaled ? n.reals("scale") : std::vector<double>()),
       G::text("interp_method", mode), G::flag("align_corners", n.flag("align_corners")),
       G::i32("align_mode", n.integer("align_mode"))},
      n.out[0]));
}

// clang-format off
const PirRules table{
    {"conv", conv}, {"conv_transpose", conv_transpose}, {"max_pool", max_pool}, {"avg_pool", avg_pool},
    {"adaptive_avg_pool", adaptive_avg_pool}, {"adaptive_max_pool", adaptive_max_pool},
    {"adaptive_max_pool_with_index", adaptive_max_pool}, {"max_pool_with_index", max_pool_with_index},
    {"batch_norm_infer", batch_norm}, {"layer_norm", layer_norm}, {"group_norm", group_norm},
    {"p_norm", p_norm}, {"resample", resample}, {"interpolate_core", interpolate}, {"lstm_walk", lstm},
    {"gru_walk", gru}};
// clang-format on
}  // namespace
}  // namespace yuloh::formats
