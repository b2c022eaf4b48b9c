// SPDX-License-Identifier: Apache-2.0
// A Model in a package: what a reader of somebody else's file made of it, names and all, so that every
// dialect keeps its own operators and one importer serves the file and the package.
#include <bit>

#include "formats/onnx_check.h"
#include "formats/package_parts.h"

namespace yuloh::formats {
namespace {
constexpr int kMaxDepth = 64;  // graphs inside graphs
enum Kind : int64_t {
  kNothing,
  kInteger,
  kReal,
  kText,
  kIntegers,
  kReals,
  kTexts,
  kTensor,
  kGraph,
  kReference
};

void write_graph(Writer& w, PoolWriter* pool, const ModelGraph& g);
ModelGraph read_graph(Reader& r, const PoolReader& pool, int depth);

void write_texts(Writer& w, const std::vector<std::string>& list) {
  w.list(list, [&](const std::string& s) { w.text(s); });
}
std::vector<std::string> read_texts(Reader& r) {
  std::vector<std::string> list(r.count(8));
  for (std::string& s : list) s = r.text();
  return list;
}
void write_opsets(Writer& w, const std::map<std::string, int64_t>& opsets) {
  w.list(opsets, [&](const auto& o) { w.text(o.first), w.number(o.second); });
}
std::map<std::string, int64_t> read_opsets(Reader& r) {
  std::map<std::string, int64_t> opsets;
  for (size_t n = r.count(16); n-- > 0;) {
    std::string domain = r.text();
    opsets[std::move(domain)] = r.number();
  }
  return opsets;
}

void write_tensor(Writer& w, PoolWriter* pool, const FileTensor& t) {
  write_type(w, t.type), w.number(t.stored_as);
  if (t.type.dtype == DType::kString) return write_texts(w, t.strings);
  w.number(pool->add(t.type, row_major(t.type, t.buffer)));
}
FileTensor read_tensor(Reader& r, const PoolReader& pool) {
  FileTensor t;
  t.type = read_type(r), t.stored_as = static_cast<int>(r.number(0, 1 << 10, "an element type"));
  if (t.type.dtype == DType::kString) {
    t.strings = read_texts(r);
    if (static_cast<int64_t>(t.strings.size()) != numel(t.type.shape))
      r.bad("a tensor has another number of strings than elements");
  } else if (t.type.dtype == DType::kSequence) {
    r.bad("a tensor is a sequence");
  } else {
    t.buffer = pool.get(r, r.number(), t.type);
  }
  return t;
}

struct AttributeWriter {
  Writer& w;
  PoolWriter* pool;
  void operator()(std::monostate) const { w.number(kNothing); }
  void operator()(int64_t v) const { w.number(kInteger), w.number(v); }
  void operator()(double v) const { w.number(kReal), w.number(std::bit_cast<int64_t>(v)); }
  void operator()(const std::string& v) const { w.number(kText), w.text(v); }
  void operator()(const std::vector<int64_t>& v) const {
    w.number(kIntegers), w.list(v, [&](int64_t x) { w.number(x); });
  }
  void operator()(const std::vector<double>& v) const {
    w.number(kReals), w.list(v, [&](double x) { w.number(std::bit_cast<int64_t>(x)); });
  }
  void operator()(const std::vector<std::string>& v) const { w.number(kTexts), write_texts(w, v); }
  void operator()(const FileTensor& v) const { w.number(kTensor), write_tensor(w, pool, v); }
  void operator()(const std::shared_ptr<ModelGraph>& v) const { w.number(kGraph), write_graph(w, pool, *v); }
  void operator()(const AttributeRef& v) const { w.number(kReference), w.text(v.name); }
};
Attribute read_attribute(Reader& r, const PoolReader& pool, int depth) {
  switch (r.number(0, kReference, "an attribute's kind")) {
    case kInteger: return r.number();
    case kReal: return std::bit_cast<double>(r.number());
    case kText: return r.text();
    case kIntegers: {
      std::vector<int64_t> v(r.count(8));
      for (int64_t& x : v) x = r.number();
      return v;
    }
    case kReals: {
      std::vector<double> v(r.count(8));
      for (double& x : v) x = std::bit_cast<double>(r.number());
      return v;
    }
    case kTexts: return read_texts(r);
    case kTensor: return read_tensor(r, pool);
    case kGraph: return std::make_shared<ModelGraph>(read_graph(r, pool, depth + 1));
    case kReference: return AttributeRef{r.text()};
    default: return std::monostate();
  }
}
void write_attributes(Writer& w, PoolWriter* pool, const std::map<std::string, Attribute>& attrs) {
  w.list(attrs, [&](const auto& a) { w.text(a.first), std::visit(AttributeWriter{w, pool}, a.second); });
}
std::map<std::string, Attribute> read_attributes(Reader& r, const PoolReader& pool, int depth) {
  std::map<std::string, Attribute> attrs;
  for (size_t n = r.count(16); n-- > 0;) {
    std::string name = r.text();
    attrs[std::move(name)] = read_attribute(r, pool, depth);
  }
  return attrs;
}

void write_port(Writer& w, const Port& p) {
  w.text(p.name), w.text(p.label), w.text(dtype_name(p.dtype)), w.number(p.stored_as);
  w.number(p.ranked), w.number(p.optional);
  w.list(p.dims, [&](int64_t d) { w.number(d); });
  write_texts(w, p.dim_names);
}
Port read_port(Reader& r) {
  Port p;
  p.name = r.text(), p.label = r.text(), p.dtype = r.dtype();
  p.stored_as = static_cast<int>(r.number(0, 1 << 10, "an element type"));
  p.ranked = r.number(0, 1, "a flag") != 0, p.optional = r.number(0, 1, "a flag") != 0;
  p.dims.resize(r.count(8));
  if (p.dims.size() > 32) r.bad("an input has more than 32 axes");
  for (int64_t& d : p.dims) d = r.number(-1, int64_t{1} << 46, "an extent");
  p.dim_names = read_texts(r);
  // Names come with every size or with none.
  if (p.dim_names.size() > p.dims.size()) r.bad("an input has more names of sizes than sizes");
  p.dim_names.resize(p.dims.size());
  return p;
}

void write_node(Writer& w, PoolWriter* pool, const ModelNode& n) {
  w.text(n.type), w.text(n.domain), w.text(n.overload), w.text(n.name);
  write_texts(w, n.inputs), write_texts(w, n.outputs);
  w.list(n.list_sizes, [&](size_t s) { w.number(static_cast<int64_t>(s)); });
  write_attributes(w, pool, n.attrs);
}
ModelNode read_node(Reader& r, const PoolReader& pool, int depth) {
  ModelNode n;
  n.type = r.text(), n.domain = r.text(), n.overload = r.text(), n.name = r.text();
  n.inputs = read_texts(r), n.outputs = read_texts(r);
  size_t listed = 0;
  for (size_t k = r.count(8); k-- > 0;) {
    n.list_sizes.push_back(
        static_cast<size_t>(r.number(0, static_cast<int64_t>(n.inputs.size()), "a list's length")));
    listed += n.list_sizes.back();
  }
  if (listed > n.inputs.size()) r.bad("an operator's lists are longer than its inputs");
  n.attrs = read_attributes(r, pool, depth);
  return n;
}

void write_graph(Writer& w, PoolWriter* pool, const ModelGraph& g) {
  w.text(g.name);
  w.list(g.inputs, [&](const Port& p) { write_port(w, p); });
  w.list(g.outputs, [&](const Port& p) { write_port(w, p); });
  w.list(g.nodes, [&](const ModelNode& n) { write_node(w, pool, n); });
  w.list(g.weights, [&](const auto& t) { w.text(t.first), write_tensor(w, pool, t.second); });
  write_opsets(w, g.opsets), write_attributes(w, pool, g.defaults);
}
ModelGraph read_graph(Reader& r, const PoolReader& pool, int depth) {
  if (depth > kMaxDepth) r.bad("graphs lie inside each other too deeply");
  ModelGraph g;
  g.name = r.text();
  for (size_t n = r.count(64); n-- > 0;) g.inputs.push_back(read_port(r));
  for (size_t n = r.count(64); n-- > 0;) g.outputs.push_back(read_port(r));
  for (size_t n = r.count(64); n-- > 0;) g.nodes.push_back(read_node(r, pool, depth));
  for (size_t n = r.count(24); n-- > 0;) {
    std::string name = r.text();
    g.weights.insert_or_assign(std::move(name), read_tensor(r, pool));
  }
  g.opsets = read_opsets(r), g.defaults = read_attributes(r, pool, depth);
  return g;
}
}  // namespace

void write_model(Writer& w, PoolWriter* pool, const Model& m) {
  w.text(m.dialect == Dialect::kOnnx ? "onnx" : "paddle"), w.text(m.producer);
  write_opsets(w, m.opsets), write_graph(w, pool, m.graph);
  w.list(m.functions, [&](const auto& f) { w.text(f.first), write_graph(w, pool, f.second); });
}
std::shared_ptr<Model> read_model_section(Reader& r, const PoolReader& pool) {
  auto m = std::make_shared<Model>();
  m->path = r.path();
  const std::string dialect = r.text();
  if (dialect != "onnx" && dialect != "paddle")
    r.bad(cat("its model is of an unknown dialect `", dialect.substr(0, 40), "`"));
  m->dialect = dialect == "onnx" ? Dialect::kOnnx : Dialect::kPaddle;
  m->producer = r.text();
  m->opsets = read_opsets(r), m->graph = read_graph(r, pool, 0);
  for (size_t n = r.count(16); n-- > 0;) {
    std::string name = r.text();
    m->functions.insert_or_assign(std::move(name), read_graph(r, pool, 0));
  }
  if (m->dialect == Dialect::kOnnx)
    check_onnx(m.get());  // functions that call themselves, names that nobody makes
  return m;
}

}  // namespace yuloh::formats
