// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx_write.h"

#include <algorithm>
#include <unordered_set>

#include "formats/onnx_types.h"
#include "ops/op.h"
#include "run/recording.h"

namespace yuloh::formats {
using Id = OnnxGraph::Id;

// ---- values ----
std::string OnnxGraph::unique(std::string name) {
  if (name.empty()) name = "value";
  for (int& n = taken_[name]; n++;) {
    std::string other = cat(name, "_", n);
    if (!taken_.count(other)) return taken_[other] = 1, other;
  }
  return name;
}
Id OnnxGraph::add(std::string name, OpenType t, int node) {
  values_.push_back({std::move(name), std::move(t), node});
  return static_cast<Id>(values_.size() - 1);
}
Id OnnxGraph::unknown(const OpenType& t) { return add(unique("unknown"), t); }
Id OnnxGraph::input(const ProgramPort& p) {
  Port port;
  port.name = unique(p.name), port.dtype = p.dtype, port.dims = p.dims, port.dim_names = p.dim_names;
  model_.graph.inputs.push_back(port);
  return add(port.name, {p.dtype, p.dims});
}
void OnnxGraph::output(const ProgramPort& p, Id id) {
  Known& v = values_[static_cast<size_t>(id)];
  Port port;
  port.dtype = v.type.dtype, port.dims = v.type.dims, port.dim_names.resize(port.dims.size());
  bool taken = v.node < 0;
  for (const Port& o : model_.graph.outputs) taken = taken || o.name == v.name;
  port.name = unique(p.name);
  if (taken) {  // an input, a weight, or an output already: a value of its own
    ModelNode n;
    n.type = "Identity", n.name = unique("Identity"), n.inputs = {v.name}, n.outputs = {port.name};
    model_.graph.nodes.push_back(std::move(n));
  } else {
    const std::string old = v.name;
    for (ModelNode& n : model_.graph.nodes) {
      std::replace(n.inputs.begin(), n.inputs.end(), old, port.name);
      std::replace(n.outputs.begin(), n.outputs.end(), old, port.name);
    }
    v.name = port.name;
  }
  model_.graph.outputs.push_back(std::move(port));
}
Id OnnxGraph::constant(std::string key, const std::string& name, const TensorType& t, Ref<Buffer> b) {
  if (!key.empty())
    if (const auto it = constants_.find(key); it != constants_.end()) return it->second;
  FileTensor f;
  f.type = t, f.buffer = std::move(b);
  const std::string as = unique(name);
  model_.graph.weights.emplace(as, std::move(f));
  const Id id = add(as, {t.dtype, {t.shape.begin(), t.shape.end()}});
  if (!key.empty()) constants_.emplace(std::move(key), id);
  return id;
}
Id OnnxGraph::constant(const Value& v, const std::string& name) {
  return constant("", name, v.type(), row_major(v.type(), read_value(v)));
}
Id OnnxGraph::tensor(const std::vector<double>& v, DType t, std::vector<int64_t> dims) {
  TensorType type{t, {}};
  for (int64_t d : dims) type.shape.push_back(d);
  Ref<Buffer> b = allocate_buffer(type);
  char* p = static_cast<char*>(b->data());
  for (size_t i = 0; i < v.size(); ++i) store_double(p + i * dtype_size(t), t, v[i]);
  std::string key = cat(dtype_name(t), type.shape, ":");
  key.append(p, v.size() * dtype_size(t));
  return constant(v.size() <= 64 ? key : "", "constant", type, std::move(b));
}
Id OnnxGraph::number(double v, DType t) { return tensor({v}, t, {}); }
Id OnnxGraph::whole(int64_t v, DType t) {
  const TensorType type{t, {}};
  Ref<Buffer> b = allocate_buffer(type);
  store_int(b->data(), t, v);
  return constant(cat(dtype_name(t), type.shape, ":",
                      std::string_view(static_cast<const char*>(b->data()), dtype_size(t))),
                  "constant", type, b);
}
Id OnnxGraph::ints(const Ints& v) {
  TensorType type{DType::kInt64, {static_cast<int64_t>(v.size())}};
  Ref<Buffer> b = allocate_buffer(type);
  std::copy(v.begin(), v.end(), static_cast<int64_t*>(b->data()));
  std::string key = "ints:";
  key.append(static_cast<const char*>(b->data()), v.size() * 8);
  return constant(v.size() <= 64 ? key : "", "constant", type, std::move(b));
}

// ---- nodes ----
std::vector<Id> OnnxGraph::ops(const char* type, const std::vector<Id>& in, const std::vector<DType>& outs,
                               std::vector<Attr> attrs) {
  ModelNode n;
  n.type = type;
  for (Id id : in) n.inputs.push_back(name(id));
  while (!n.inputs.empty() && n.inputs.back().empty()) n.inputs.pop_back();
  for (Attr& a : attrs) n.attrs.emplace(std::move(a.name), std::move(a.value));
  n.name = unique(cat(type, "_", count_[type]++));
  const auto at = static_cast<int>(model_.graph.nodes.size());
  std::vector<Id> r;
  for (size_t k = 0; k < outs.size(); ++k) {
    n.outputs.push_back(unique(k ? cat(n.name, ".out", k) : n.name + ".out"));
    r.push_back(add(n.outputs.back(), {outs[k], {}}, at));
  }
  model_.graph.nodes.push_back(std::move(n));
  return r;
}
ModelNode* OnnxGraph::producer(Id id) {
  const int at = values_[static_cast<size_t>(id)].node;
  return at < 0 ? nullptr : &model_.graph.nodes[static_cast<size_t>(at)];
}
Id OnnxGraph::cast(Id x, DType t) {
  if (!x || dtype(x) == t) return x;
  const Id r = op("Cast", {x}, t, {{"to", int64_t{onnx_type_of(t, 0)}}});
  set_type(r, {t, type(x).dims});
  return r;
}
Id OnnxGraph::dim_of(Id x, int64_t axis) {
  if (opset >= 15) return op("Shape", {x}, DType::kInt64, {{"start", axis}, {"end", axis + 1}});
  return slice(shape_of(x), 0, axis, axis + 1);
}
Id OnnxGraph::join(const std::vector<Id>& parts) {
  return parts.size() == 1 ? parts[0] : op("Concat", parts, DType::kInt64, {{"axis", int64_t{0}}});
}
Id OnnxGraph::transpose(Id x, const Ints& perm) {
  bool same = true;
  for (uint32_t k = 0; k < perm.size(); ++k) same = same && perm[k] == k;
  return same ? x
              : op("Transpose", {x}, dtype(x), {{"perm", std::vector<int64_t>(perm.begin(), perm.end())}});
}
Id OnnxGraph::slice(Id x, int64_t axis, int64_t from, int64_t to) {
  return op("Slice", {x, ints({from}), ints({to}), ints({axis})}, dtype(x));
}
Id OnnxGraph::filled(double v, DType t, Id shape) {
  FileTensor f;
  f.type = {t, {1}}, f.buffer = allocate_buffer(f.type);
  store_double(f.buffer->data(), t, v);
  return op("ConstantOfShape", {shape}, t, {{"value", f}});
}
Id OnnxGraph::range(Id count, DType t) {
  return cast(
      op("Range", {number(0, DType::kInt64), squeeze(count, {0}), number(1, DType::kInt64)}, DType::kInt64),
      t);
}
Id OnnxGraph::reduce(const char* kind, Id x, const Ints& axes, bool keepdim) {
  std::vector<Attr> attrs{{"keepdims", int64_t{keepdim}}};
  std::vector<Id> in{x};
  const bool as_input = opset >= 18 || std::string_view(kind) == "ReduceSum";
  if (!axes.empty()) {
    if (as_input) in.push_back(ints(axes));
    else attrs.push_back({"axes", std::vector<int64_t>(axes.begin(), axes.end())});
  }
  return op(kind, in, dtype(x), std::move(attrs));
}
Id OnnxGraph::full_where(Id condition, Id x, Id y) {
  const DType t = dtype(x);
  if (t == DType::kBool) {
    const Id no = op("Not", {condition}, t);
    return op("Or", {op("And", {condition, x}, t), op("And", {no, y}, t)}, t);
  }
  if (t == DType::kInt8 || t == DType::kInt16)
    return cast(op("Where", {condition, cast(x, DType::kInt32), cast(y, DType::kInt32)}, DType::kInt32), t);
  return op("Where", {condition, x, y}, t);
}

Model OnnxGraph::finish() {
  std::unordered_set<std::string> needed;
  for (const Port& p : model_.graph.outputs) needed.insert(p.name);
  std::vector<ModelNode> kept;
  auto& nodes = model_.graph.nodes;
  for (size_t i = nodes.size(); i-- > 0;) {
    bool needs = false;
    for (const std::string& o : nodes[i].outputs) needs = needs || needed.count(o);
    if (!needs) continue;
    for (const std::string& s : nodes[i].inputs) needed.insert(s);
    kept.push_back(std::move(nodes[i]));
  }
  std::reverse(kept.begin(), kept.end());
  nodes = std::move(kept);
  auto& w = model_.graph.weights;
  for (auto it = w.begin(); it != w.end();) it = needed.count(it->first) ? std::next(it) : w.erase(it);
  model_.opsets[""] = opset;
  return std::move(model_);
}

// ---- one node of the program ----
std::vector<Id> OnnxNode::list(std::string_view name) const {
  const auto [first, count] = range(name);
  return {in.begin() + first, in.begin() + first + count};
}
Id OnnxNode::arg(std::string_view name) const {
  const auto v = list(name);
  return v.empty() ? 0 : v[0];
}
DType OnnxNode::promoted() const {
  DType t = g.dtype(in[0]);
  for (Id id : in) t = promote(t, g.dtype(id));
  return t;
}
int64_t OnnxNode::axis(std::string_view name, size_t rank) const {
  const int64_t a = integer(name);
  return a < 0 ? a + static_cast<int64_t>(rank) : a;
}
Ints OnnxNode::axes(std::string_view name) const { return none(name) ? Ints() : ints(name); }

Id OnnxNode::open_size(const DimExpr& e) {
  const auto one = [&](int32_t dim) {
    if (const auto it = dim_cache->find(dim); it != dim_cache->end()) return it->second;
    const auto [i, d] = place_of_dim(program, dim);
    return (*dim_cache)[dim] = g.dim_of((*port_ids)[i], static_cast<int64_t>(d));
  };
  Id total = 0;
  for (const DimExpr::Term& term : e.terms) {
    Id p = 0;
    for (int32_t d : term.dims) p = p ? g.binary("Mul", p, one(d)) : one(d);
    if (!p) p = g.ints({term.coefficient});
    else if (term.coefficient != 1) p = g.binary("Mul", p, g.ints({term.coefficient}));
    total = total ? g.binary("Add", total, p) : p;
  }
  if (!total) total = g.ints({0});
  if (e.divisor == 1) return total;
  // Division of integers truncates, Mod has the divisor's sign: this is exact for negative sums, too.
  const Id by = g.ints({e.divisor});
  if (e.rounding == DimExpr::Rounding::kDown) total = g.binary("Sub", total, g.binary("Mod", total, by));
  if (e.rounding == DimExpr::Rounding::kUp)
    total = g.binary("Add", total, g.binary("Mod", g.op("Neg", {total}, DType::kInt64), by));
  return g.binary("Div", total, by);
}
Id OnnxNode::sizes(std::string_view name) {
  if (!open(name)) {
    Ints v;
    for (const Size& s : size_list(name)) v.push_back(s.value);
    return g.ints(v);
  }
  std::vector<Id> parts;
  for (const Size& s : size_list(name)) parts.push_back(size(s));
  return g.join(parts);
}
Id OnnxNode::real_id(std::string_view name, DType t) {
  if (!open(name)) return g.number(real(name), t);
  return g.cast(g.squeeze(size(size_list(name)[0]), {0}), t);
}
Id OnnxNode::reshaped(Id x, const OpenType& t, const std::vector<Id>& open_dims) {
  Ints fixed;
  size_t n_open = 0;
  bool empty = false;
  for (int64_t d : t.dims) fixed.push_back(d), n_open += d < 0, empty = empty || d == 0;
  if (n_open <= (empty ? 0u : 1u)) {
    if (!empty) return g.reshape(x, fixed);
    return g.op("Reshape", {x, g.ints(fixed)}, g.dtype(x), {{"allowzero", int64_t{g.opset >= 14}}});
  }
  std::vector<Id> parts;
  size_t k = 0;
  for (int64_t d : t.dims) parts.push_back(d < 0 ? open_dims.at(k++) : g.ints({d}));
  return g.op("Reshape", {x, g.join(parts)}, g.dtype(x));
}

}  // namespace yuloh::formats
