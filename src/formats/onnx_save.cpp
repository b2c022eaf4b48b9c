// SPDX-License-Identifier: Apache-2.0
// A TracedProgram to an ONNX file: nodes by rules, then the Model as protobuf; large weights are written from
// where they lie.
#include "formats/onnx_types.h"
#include "formats/onnx_write.h"
#include "formats/whole_file.h"
#include "formats/wire.h"
#include "ops/op.h"
#include "run/recording.h"

namespace yuloh::formats {
namespace {
constexpr size_t kMostBytes = size_t{1} << 31;  // of a protobuf message
constexpr size_t kExternalAlign = 4096;         // so that readers can map tensors

std::string_view bytes_of_tensor(const FileTensor& t) {
  return {static_cast<const char*>(t.buffer->data()), bytes_of(t.type)};
}

// ---- messages (field numbers of onnx.proto) ----
class Writer {
 public:
  // Tensors of at least `least` bytes go to the external file of this name.
  Writer(std::string external_name, size_t least) : external_name_(std::move(external_name)), least_(least) {}

  WireOut model(const Model& m) {
    const int64_t opset = m.opsets.at("");
    WireOut w;
    w.integer(1, opset <= 18 ? 8 : opset <= 20 ? 9 : 10);
    w.text(2, m.producer);
    w.message(7, graph(m.graph));
    for (const auto& [domain, version] : m.opsets) {
      WireOut o;
      o.text(1, domain), o.integer(2, version);
      w.message(8, o);
    }
    return w;
  }
  std::vector<std::string_view> external;  // with padding between
  size_t external_bytes = 0;

 private:
  WireOut graph(const ModelGraph& g) {
    WireOut w;
    for (const ModelNode& n : g.nodes) w.message(1, node(n));
    w.text(2, g.name.empty() ? "graph" : g.name);
    for (const auto& [name, t] : g.weights) w.message(5, tensor(name, t, true));
    for (const Port& p : g.inputs) w.message(11, port(p));
    for (const Port& p : g.outputs) w.message(12, port(p));
    return w;
  }
  WireOut node(const ModelNode& n) {
    WireOut w;
    for (const std::string& s : n.inputs) w.text(1, s);
    for (const std::string& s : n.outputs) w.text(2, s);
    w.text(3, n.name), w.text(4, n.type);
    for (const auto& [name, a] : n.attrs) w.message(5, attribute(name, a));
    if (!n.domain.empty()) w.text(7, n.domain);
    return w;
  }
  WireOut attribute(const std::string& name, const Attribute& a) {
    enum { kFloat = 1, kInt, kString, kTensor, kGraph, kFloats, kInts, kStrings };
    WireOut w;
    w.text(1, name);
    int64_t type = 0;
    if (const auto* i = std::get_if<int64_t>(&a)) w.integer(3, *i), type = kInt;
    else if (const auto* d = std::get_if<double>(&a)) w.real(2, static_cast<float>(*d)), type = kFloat;
    else if (const auto* s = std::get_if<std::string>(&a)) w.text(4, *s), type = kString;
    else if (const auto* t = std::get_if<FileTensor>(&a)) w.message(5, tensor("", *t, false)), type = kTensor;
    else if (const auto* g = std::get_if<std::shared_ptr<ModelGraph>>(&a))
      w.message(6, graph(**g)), type = kGraph;
    else if (const auto* f = std::get_if<std::vector<double>>(&a)) {
      for (double v : *f) w.real(7, static_cast<float>(v));
      type = kFloats;
    } else if (const auto* v = std::get_if<std::vector<int64_t>>(&a)) {
      for (int64_t n : *v) w.integer(8, n);
      type = kInts;
    } else if (const auto* l = std::get_if<std::vector<std::string>>(&a)) {
      for (const std::string& t : *l) w.text(9, t);
      type = kStrings;
    }
    w.integer(20, type);
    return w;
  }
  WireOut tensor(const std::string& name, const FileTensor& t, bool may_be_external) {
    WireOut w;
    for (Dim d : t.type.shape) w.integer(1, d);
    w.integer(2, onnx_type_of(t.type.dtype, t.stored_as));
    if (!name.empty()) w.text(8, name);
    const std::string_view bytes = bytes_of_tensor(t);
    if (may_be_external && bytes.size() >= least_ && !bytes.empty()) {
      const size_t at = (external_bytes + kExternalAlign - 1) / kExternalAlign * kExternalAlign;
      static const std::string kZeros(kExternalAlign, '\0');
      external.push_back(std::string_view(kZeros).substr(0, at - external_bytes));
      external.push_back(bytes), external_bytes = at + bytes.size();
      for (const auto& [key, value] : {std::pair<const char*, std::string>{"location", external_name_},
                                       {"offset", std::to_string(at)},
                                       {"length", std::to_string(bytes.size())}}) {
        WireOut e;
        e.text(1, key), e.text(2, value);
        w.message(13, e);
      }
      w.integer(14, 1);
    } else if (bytes.size() >= 4096) {
      w.borrow(9, bytes);
    } else {
      w.text(9, bytes);
    }
    return w;
  }
  static WireOut port(const Port& p) {
    WireOut shape, tensor, type, w;
    for (size_t d = 0; d < p.dims.size(); ++d) {
      WireOut dim;
      if (p.dims[d] >= 0) dim.integer(1, p.dims[d]);
      else if (d < p.dim_names.size() && !p.dim_names[d].empty()) dim.text(2, p.dim_names[d]);
      shape.message(1, dim);
    }
    tensor.integer(1, onnx_type_of(p.dtype, p.stored_as));
    if (p.ranked) tensor.message(2, shape);
    type.message(1, tensor);
    w.text(1, p.name), w.message(2, type);
    return w;
  }
  const std::string external_name_;
  const size_t least_;
};
}  // namespace

void save_onnx(const Model& m, const std::string& path, int64_t external_data) {
  const std::string data = path + ".data";
  const std::string name = data.substr(data.rfind('/') + 1);
  const auto write_with = [&](size_t least) {
    Writer w(name, least);
    const WireOut out = w.model(m);
    if (out.size() >= kMostBytes) return false;
    std::vector<WholeFile> files;
    if (w.external_bytes) files.push_back({data, w.external});
    files.push_back({path, out.pieces()});
    write_whole(files);
    return true;
  };
  if (external_data < 0 && write_with(SIZE_MAX)) return;
  if (!write_with(external_data < 0 ? 1024 : static_cast<size_t>(external_data)))
    value_error("write_model: ", path,
                " would be larger than 2 GB without its tensors, which ONNX cannot hold.");
}

int checked_opset(int opset) {
  if (opset == 0) return kOnnxOpset;
  if (opset < kOnnxLeast || opset > kOnnxMost)
    value_error("write_model: opset ", opset, " cannot be written; expected ", kOnnxLeast, " to ", kOnnxMost,
                ".");
  return opset;
}

void write_onnx(const TracedProgram& p, const std::string& path, const WriteOptions& o, Refusals* dry) {
  Recorded recorded;
  const std::vector<std::vector<OpenType>> types = open_types(p, &recorded);
  OnnxGraph g(checked_opset(o.opset));
  Refusals refused;
  std::vector<OnnxGraph::Id> inputs;
  for (const ProgramPort& port : p.inputs) inputs.push_back(g.input(port));
  std::vector<OnnxGraph::Id> weights;
  const std::vector<std::string> names = weight_names(p, true);
  for (size_t i = 0; i < p.weights.size(); ++i) weights.push_back(g.constant(p.weights[i].value, names[i]));
  std::vector<std::vector<int>> readers(p.nodes.size());
  for (size_t i = 0; i < p.nodes.size(); ++i) readers[i].resize(std::max<size_t>(1, types[i].size()));
  for (const TracedNode& n : p.nodes)
    for (const TracedRef& r : n.inputs) ++readers[r.node][r.index];
  for (const TracedRef& r : p.results) ++readers[r.node][r.index];
  std::vector<std::vector<OnnxGraph::Id>> made(p.nodes.size());
  std::unordered_map<int32_t, OnnxGraph::Id> dims;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const TracedNode& n = p.nodes[i];
    OnnxNode node(g, p, n);
    node.port_ids = &inputs, node.dim_cache = &dims, node.out = types[i];
    node.recorded = &recorded, node.made = &made;
    if (n.kind == TracedNode::Kind::kInput) {
      made[i] = {inputs[n.number]};
      continue;
    }
    if (n.kind == TracedNode::Kind::kWeight) {
      made[i] = {weights[n.number]};
      continue;
    }
    try {
      if (n.kind == TracedNode::Kind::kScalar) {
        made[i] = {n.open.empty() ? write_scalar(g, n)
                                  : g.cast(g.squeeze(node.open_size(n.open[0].second), {0}), n.dtype)};
        continue;
      }
      if (is_constant(n, types[i])) {
        const Values v = apply(*n.op, {}, n.attrs);
        for (const Value& x : v) made[i].push_back(g.constant(x, n.op->name));
        continue;
      }
      for (const TracedRef& r : n.inputs)
        node.in.push_back(made[r.node][r.index]), node.readers.push_back(readers[r.node][r.index]);
      for (int count : readers[i]) node.used.push_back(count > 0);
      write_onnx_node(node);
      for (size_t k = 0; k < node.out.size(); ++k) {
        if (k >= node.result.size() || !node.result[k]) {
          if (node.used[k]) node.cannot(cat("its output ", k, " has no counterpart"));
          node.result.resize(std::max(node.result.size(), k + 1));
          node.result[k] = g.unknown(node.out[k]);
        }
        if (g.dtype(node.result[k]) != node.out[k].dtype)
          fail(ErrorKind::kRuntime, "write_model: the rule of ", n.op->name, " made ",
               g.dtype(node.result[k]), "; expected ", node.out[k].dtype, ".");
        if (g.producer(node.result[k])) g.set_type(node.result[k], node.out[k]);
      }
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kNotImplemented) throw;
      refused.add(n.op ? n.op->name : "a number", n.where, e.message());
      node.result.clear();
      for (const OpenType& t : node.out) node.result.push_back(g.unknown(t));
    }
    made[i] = node.result;
  }
  if (dry) return void(*dry = std::move(refused));
  refused.raise("write_model", cat("ONNX opset ", g.opset));
  for (size_t k = 0; k < p.results.size(); ++k)
    g.output(p.outputs[k], made[p.results[k].node][p.results[k].index]);
  Model m = g.finish();
  m.producer = "yuloh";
  save_onnx(m, path, o.external_data);
}

}  // namespace yuloh::formats
