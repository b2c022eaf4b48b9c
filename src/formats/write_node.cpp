// SPDX-License-Identifier: Apache-2.0
#include "formats/write_node.h"

#include <algorithm>
#include <set>

#include "ops/op.h"

namespace yuloh::formats {

int64_t OpenType::numel() const {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d < 0) return -1;
    n *= d;
  }
  return n;
}

// ---- one node ----
WriteNode::Words WriteNode::words(std::string_view name) const {
  uint32_t at = 0;
  for (const ArgSpec& a : node.op->args) {
    if (a.name == name) return {&a, at};
    at += static_cast<uint32_t>(words_of(a, node.attrs.data() + at));
  }
  fail(ErrorKind::kRuntime, "write: ", node.op->name, " has no argument ", name, ".");
}
namespace {
// The node as a Call on inputs without values: attributes decode as everywhere else.
Call call_of(const TracedNode& n) {
  return Call(*n.op, nullptr, static_cast<uint32_t>(n.inputs.size()), n.attrs);
}
}  // namespace
void WriteNode::require_fixed(std::string_view name) const {
  if (open(name)) cannot(cat("its `", name, "` depends on the sizes of the inputs"));
}
int64_t WriteNode::integer(std::string_view name) const {
  return require_fixed(name), call_of(node).integer(name);
}
double WriteNode::real(std::string_view name) const { return require_fixed(name), call_of(node).real(name); }
std::string WriteNode::text(std::string_view name) const { return call_of(node).str(name); }
Ints WriteNode::ints(std::string_view name) const { return require_fixed(name), call_of(node).ints(name); }
std::vector<double> WriteNode::reals(std::string_view name) const {
  return require_fixed(name), call_of(node).reals(name);
}
bool WriteNode::none(std::string_view name) const { return !call_of(node).has(name); }
bool WriteNode::open(std::string_view name) const {
  const Words w = words(name);
  const auto n = static_cast<uint32_t>(words_of(*w.spec, node.attrs.data() + w.at));
  for (const auto& [word, e] : node.open)
    if (word >= w.at && word < w.at + n) return true;
  return false;
}
std::pair<uint32_t, uint32_t> WriteNode::range(std::string_view name) const {
  const Call c = call_of(node);
  for (size_t i = 0; i < node.op->args.size(); ++i) {
    if (node.op->args[i].name != name) continue;
    const InputRange r = input_range(c, static_cast<int>(i));
    return {r.first, r.count};
  }
  fail(ErrorKind::kRuntime, "write: ", node.op->name, " has no argument ", name, ".");
}
std::vector<WriteNode::Size> WriteNode::size_list(std::string_view name) const {
  const Words w = words(name);
  const bool is_list = w.spec->kind == ArgKind::kInts;
  const Call c = call_of(node);
  const bool is_real = w.spec->kind == ArgKind::kFloat;
  const Ints v = is_list ? c.ints(name)
                         : Ints{is_real && !open(name) ? static_cast<int64_t>(c.real(name))
                                : is_real              ? node.attrs[w.at]
                                                       : c.integer(name)};
  const auto n = static_cast<uint32_t>(words_of(*w.spec, node.attrs.data() + w.at));
  const uint32_t first = w.at + n - static_cast<uint32_t>(v.size());  // the entries stand last
  std::vector<Size> r;
  for (uint32_t k = 0; k < v.size(); ++k) {
    r.push_back({v[k], nullptr});
    for (const auto& [word, e] : node.open)
      if (word == first + k) r.back().expr = &e;
  }
  return r;
}
std::optional<WriteNode::Product> WriteNode::product_of_input(size_t input) const {
  const auto is_op = [](const TracedNode& n, std::string_view name) {
    return n.kind == TracedNode::Kind::kOp && n.op->name == name && n.open.empty();
  };
  const TracedNode& sum = program.nodes[node.inputs[input].node];
  if (!is_op(sum, "add")) return {};
  const TracedNode& product = program.nodes[sum.inputs[0].node];
  if (!is_op(product, "matmul") || !Call(*product.op, nullptr, 2, product.attrs).flag("transpose_y") ||
      Call(*product.op, nullptr, 2, product.attrs).flag("transpose_x"))
    return {};
  const auto rank = [&](const TracedRef& r) { return recorded->made[0][r.node][r.index].rank(); };
  if (rank(sum.inputs[1]) != 1 || rank(product.inputs[1]) != 2) return {};
  return Product{product.inputs[0], product.inputs[1], sum.inputs[1]};
}
bool WriteNode::is_read(uint32_t output) const {
  const TracedRef mine{static_cast<uint32_t>(&node - program.nodes.data()), output};
  for (const TracedRef& r : program.results)
    if (r == mine) return true;
  for (const TracedNode& n : program.nodes)
    for (const TracedRef& r : n.inputs)
      if (r == mine) return true;
  return false;
}
bool WriteNode::read_only_at(uint32_t output, bool last) const {
  const auto self = static_cast<uint32_t>(&node - program.nodes.data());
  const TracedRef mine{self, output};
  for (const TracedRef& r : program.results)
    if (r == mine) return false;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const TracedNode& n = program.nodes[i];
    for (const TracedRef& r : n.inputs) {
      if (!(r == mine)) continue;
      if (n.kind != TracedNode::Kind::kOp || (n.op->name != "slice" && n.op->name != "strided_slice"))
        return false;
      const WriteNode reader{program, n, {}};
      const std::vector<Size> axes = reader.size_list("axes"), starts = reader.size_list("starts");
      if (axes.size() != 1 || axes[0].value != 0) return false;
      for (int run : {0, 1}) {
        const int64_t length = recorded->made[run][self][output].shape()[0];
        int64_t at = starts[0].value;
        if (starts[0].expr && !starts[0].expr->evaluate(recorded->sizes[run], &at)) return false;
        if (at < 0) at += length;
        if (at != (last ? length - 1 : 0) || recorded->made[run][i][0].shape()[0] != 1) return false;
      }
    }
  }
  return true;
}
void WriteNode::cannot(const std::string& why) const { throw Error(ErrorKind::kNotImplemented, why); }

// ---- the program ----
namespace {
std::vector<Values> made_at(const TracedProgram& p, const std::vector<int64_t>& sizes) {
  const Recording recording(true);
  Values in;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    TensorType t{p.inputs[i].dtype, {}};
    for (size_t d = 0; d < p.inputs[i].dims.size(); ++d) {
      int64_t n = p.inputs[i].dims[d];
      if (n < 0)
        for (size_t k = 0; k < p.dims.size(); ++k)
          if (p.inputs[i].dim_names[d] == p.dims[k]) n = sizes[k];
      t.shape.push_back(n);
    }
    in.push_back(make_input(t, static_cast<int64_t>(i)));
  }
  Values weights;
  for (const TracedWeight& w : p.weights) weights.push_back(w.value);
  std::vector<Values> made;
  p.replay(in, weights, &made);
  return made;
}

// Sizes that every inner size depends on visibly and that suit models which halve or split: multiples of 32
// first.
std::vector<Values> made_somewhere(const TracedProgram& p, int64_t factor, std::vector<int64_t>* at) {
  std::string first;
  for (const int64_t unit : {32, 1, 8, 128, 4}) {
    std::vector<int64_t> sizes;
    for (size_t k = 0; k < p.dims.size(); ++k) sizes.push_back(unit * (factor + static_cast<int64_t>(k)));
    try {
      *at = sizes;
      return made_at(p, sizes);
    } catch (const Error& e) {
      if (first.empty()) first = e.message();
    }
  }
  value_error("write: the program does not record at the sizes tried to find which inner sizes are open: ",
              first);
}

}  // namespace

std::vector<std::vector<OpenType>> open_types(const TracedProgram& p, Recorded* recorded) {
  for (int run : {0, 1}) recorded->made[run] = made_somewhere(p, 2 + run, &recorded->sizes[run]);
  const std::vector<Values>&a = recorded->made[0], &b = recorded->made[1];
  std::vector<std::vector<OpenType>> r(p.nodes.size());
  for (size_t i = 0; i < p.nodes.size(); ++i)
    for (size_t k = 0; k < a[i].size(); ++k) {
      OpenType t{a[i][k].dtype(), {}};
      const Shape &x = a[i][k].shape(), &y = b[i][k].shape();
      for (size_t d = 0; d < x.size(); ++d) t.dims.push_back(d < y.size() && x[d] == y[d] ? x[d] : -1);
      r[i].push_back(std::move(t));
    }
  return r;
}

bool is_constant(const TracedNode& n, const std::vector<OpenType>& out) {
  if (n.kind != TracedNode::Kind::kOp || !n.inputs.empty() || !n.open.empty() || n.op->random) return false;
  for (const OpenType& t : out)
    if (t.numel() < 0 || t.numel() > 4096) return false;
  return true;
}

bool row_uses(const OpDef& op, bool (*prim)(Prim)) {
  if (!op.scalar && !op.expr) return false;
  AttrEncoder enc;
  Values in;
  for (const ArgSpec& a : op.args) {
    if (a.is_input()) in.push_back(make_input({DType::kFloat32, {1}}, 0));
    else if (a.has_default) enc.add(a, default_of(a));
    else if (a.kind == ArgKind::kInts) enc.add(a, Ints());
    else if (a.kind == ArgKind::kDType) enc.add(a, DType::kFloat32);
    else if (a.kind == ArgKind::kStr) enc.add(a, std::string());
    else if (a.kind == ArgKind::kFloat) enc.add(a, 1.0);
    else enc.add(a, int64_t{1});
  }
  const auto e = scalar_expr(Call(op, in.data(), static_cast<uint32_t>(in.size()), enc.words));
  return std::any_of(e->nodes.begin(), e->nodes.end(), [&](const ExprNode& n) { return prim(n.prim); });
}

std::pair<size_t, size_t> place_of_dim(const TracedProgram& p, int32_t dim) {
  for (size_t i = 0; i < p.inputs.size(); ++i)
    for (size_t d = 0; d < p.inputs[i].dim_names.size(); ++d)
      if (p.inputs[i].dims[d] < 0 && p.inputs[i].dim_names[d] == p.dims[static_cast<size_t>(dim)])
        return {i, d};
  fail(ErrorKind::kNotImplemented, "an open size belongs to no input");
}

std::vector<std::string> weight_names(const TracedProgram& p, bool state_dict_first) {
  std::vector<std::string> r;
  std::set<std::string> taken;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const TracedWeight& w = p.weights[i];
    const std::string &first = state_dict_first ? w.name : w.parameter,
                      &second = state_dict_first ? w.parameter : w.name;
    std::string name = !first.empty() ? first : !second.empty() ? second : cat("constant_", i);
    while (!taken.insert(name).second) name = cat(name, "_", i);
    r.push_back(name);
  }
  return r;
}

}  // namespace yuloh::formats
