// SPDX-License-Identifier: Apache-2.0
// A TracedProgram in a package: ports, open sizes, weights by number in the pool, ops by name, attributes by
// argument name.
#include <algorithm>
#include <map>

#include "formats/package_parts.h"

namespace yuloh::formats {
namespace {
void write_port(Writer& w, const ProgramPort& p) {
  w.text(p.name), w.text(dtype_name(p.dtype));
  w.list(p.dims, [&](int64_t d) { w.number(d); });
  w.list(p.dim_names, [&](const std::string& s) { w.text(s); });
}
ProgramPort read_port(Reader& r) {
  ProgramPort p;
  p.name = r.text(), p.dtype = r.dtype();
  const size_t n = r.count(8);
  if (n > 32) r.bad("an input has more than 32 axes");
  for (size_t i = 0; i < n; ++i) p.dims.push_back(r.number(-1, int64_t{1} << 46, "an extent"));
  const size_t names = r.count(8);
  for (size_t i = 0; i < names; ++i) p.dim_names.push_back(r.text());
  return p;
}

// Arguments by name: a row may gain arguments with defaults and old files still load.
void write_attrs(Writer& w, const TracedNode& n) {
  uint32_t at = 0;
  w.number(static_cast<int64_t>(n.op->args.size()));
  for (const ArgSpec& a : n.op->args) {
    const auto count = static_cast<uint32_t>(words_of(a, n.attrs.data() + at));
    w.text(a.name);
    w.number(count);
    for (uint32_t k = 0; k < count; ++k) {
      const int64_t word = n.attrs[at + k];
      if (a.kind == ArgKind::kStr && k + 1 == count)
        w.text(word ? *reinterpret_cast<const std::string*>(word) : "");
      else if (a.kind == ArgKind::kDType && k + 1 == count) w.text(dtype_name(static_cast<DType>(word)));
      else w.number(word);
      const auto open =
          std::find_if(n.open.begin(), n.open.end(), [&](const auto& o) { return o.first == at + k; });
      w.number(open != n.open.end());
      if (open == n.open.end()) continue;
      const DimExpr& e = open->second;
      w.number(e.divisor), w.number(static_cast<int64_t>(e.rounding));
      w.list(e.terms, [&](const DimExpr::Term& t) {
        w.number(t.coefficient);
        w.list(t.dims, [&](int32_t d) { w.number(d); });
      });
    }
    at += count;
  }
}

DimExpr read_expr(Reader& r, size_t n_dims) {
  DimExpr e;
  e.divisor = r.number(1, INT64_MAX, "a divisor");
  e.rounding = static_cast<DimExpr::Rounding>(r.number(0, 2, "a rounding"));
  const size_t terms = r.count(16);
  for (size_t i = 0; i < terms; ++i) {
    DimExpr::Term t{r.number(), {}};
    const size_t n = r.count(8);
    for (size_t k = 0; k < n; ++k)
      t.dims.push_back(static_cast<int32_t>(r.number(0, static_cast<int64_t>(n_dims) - 1, "an open size")));
    e.terms.push_back(std::move(t));
  }
  return e;
}

void read_attrs(Reader& r, TracedNode& n, size_t n_dims) {
  struct Given {
    std::vector<int64_t> words;
    std::vector<std::pair<uint32_t, DimExpr>> open;
  };
  std::map<std::string, Given> given;
  const size_t n_args = r.count(16);
  for (size_t i = 0; i < n_args; ++i) {
    const std::string name = r.text();
    const auto spec =
        std::find_if(n.op->args.begin(), n.op->args.end(), [&](const ArgSpec& a) { return a.name == name; });
    if (spec == n.op->args.end()) r.bad(cat("op ", n.op->name, " has no argument `", name, "`"));
    const auto [at, fresh] = given.try_emplace(name);
    if (!fresh) r.bad(cat("op ", n.op->name, " has argument `", name, "` twice"));
    Given& g = at->second;
    const size_t count = r.count(16);
    for (size_t k = 0; k < count; ++k) {
      if (spec->kind == ArgKind::kStr && k + 1 == count)
        g.words.push_back(reinterpret_cast<int64_t>(intern(r.text())));
      else if (spec->kind == ArgKind::kDType && k + 1 == count)
        g.words.push_back(static_cast<int64_t>(r.dtype()));
      else g.words.push_back(r.number());
      // Only numbers may follow from open sizes: not the count of a list, the flag of an optional or a
      // string.
      const bool list = spec->kind == ArgKind::kInts || spec->kind == ArgKind::kFloats;
      const bool number = (list || spec->kind == ArgKind::kInt || spec->kind == ArgKind::kFloat) &&
                          k >= (list || spec->optional ? 1u : 0u);
      if (r.number(0, number, "a flag")) g.open.emplace_back(static_cast<uint32_t>(k), read_expr(r, n_dims));
    }
    const bool counted = spec->kind == ArgKind::kOptTensor || spec->kind == ArgKind::kTensorList;
    if (count && (counted || spec->kind == ArgKind::kInts || spec->kind == ArgKind::kFloats) &&
        (g.words[0] < (counted ? 0 : -1) || g.words[0] > 1 << 24))
      r.bad(cat("op ", n.op->name, ": argument `", name, "` has a count of ", g.words[0]));
    if (spec->is_input() && spec->kind != ArgKind::kOptTensor && spec->kind != ArgKind::kTensorList
            ? count != 0
            : count == 0 || static_cast<size_t>(words_of(*spec, g.words.data())) != count)
      r.bad(cat("op ", n.op->name, ": argument `", name, "` has the wrong length"));
  }
  int64_t n_inputs = 0;
  for (const ArgSpec& a : n.op->args) {
    const auto g = given.find(a.name);
    const bool counted = a.kind == ArgKind::kOptTensor || a.kind == ArgKind::kTensorList;
    if (g == given.end()) {
      if (counted) n.attrs.push_back(0);
      else if (a.is_input() || !a.has_default)
        r.bad(cat("op ", n.op->name, ": argument `", a.name, "` is missing"));
      else {
        AttrEncoder enc;
        enc.add(a, default_of(a));
        for (int64_t w : enc.words) n.attrs.push_back(w);
      }
      continue;
    }
    n_inputs += counted ? g->second.words[0] : a.is_input();
    for (auto& [k, e] : g->second.open) n.open.emplace_back(n.attrs.size() + k, std::move(e));
    for (int64_t w : g->second.words) n.attrs.push_back(w);
  }
  if (n_inputs != static_cast<int64_t>(n.inputs.size()))
    r.bad(cat("op ", n.op->name, " has ", n.inputs.size(), " inputs, its arguments say ", n_inputs));
}

void write_node(Writer& w, const TracedNode& n) {
  w.number(static_cast<int64_t>(n.kind)), w.number(n.number), w.text(n.where);
  w.list(n.inputs, [&](const TracedRef& r) { w.number(r.node), w.number(r.index); });
  if (n.kind == TracedNode::Kind::kScalar) {
    w.text(dtype_name(n.dtype)), w.number(n.attrs[0]);
    w.number(!n.open.empty());
    if (n.open.empty()) return;
    const DimExpr& e = n.open[0].second;
    w.number(e.divisor), w.number(static_cast<int64_t>(e.rounding));
    w.list(e.terms, [&](const DimExpr::Term& t) {
      w.number(t.coefficient);
      w.list(t.dims, [&](int32_t d) { w.number(d); });
    });
  } else if (n.kind == TracedNode::Kind::kOp) {
    w.text(n.op->name);
    write_attrs(w, n);
  }
}
TracedNode read_node(Reader& r, size_t i, size_t n_inputs, size_t n_weights, size_t n_dims) {
  TracedNode n;
  n.kind = static_cast<TracedNode::Kind>(r.number(0, 3, "a node's kind"));
  const size_t most = n.kind == TracedNode::Kind::kInput    ? n_inputs
                      : n.kind == TracedNode::Kind::kWeight ? n_weights
                                                            : 1;
  n.number = static_cast<uint32_t>(r.number(0, static_cast<int64_t>(most) - 1, "a node's number"));
  n.where = r.text();
  const size_t inputs = r.count(16);
  for (size_t k = 0; k < inputs; ++k) {
    const auto node =
        static_cast<uint32_t>(r.number(0, static_cast<int64_t>(i) - 1, "an input"));  // made before
    n.inputs.push_back({node, static_cast<uint32_t>(r.number(0, 1 << 20, "an output"))});
  }
  if (n.kind == TracedNode::Kind::kScalar) {
    n.dtype = r.dtype();
    n.attrs.push_back(r.number());
    if (r.number(0, 1, "a flag")) n.open.emplace_back(0, read_expr(r, n_dims));
  } else if (n.kind == TracedNode::Kind::kOp) {
    const std::string name = r.text();
    n.op = find_op(name);
    if (!n.op)
      fail(ErrorKind::kNotImplemented, "load: the file uses op `", name,
           "`, which this version does not have. Hint: it was "
           "written by a newer version.");
    read_attrs(r, n, n_dims);
  }
  return n;
}
}  // namespace

void write_traced(Writer& w, PoolWriter* pool, const TracedProgram& p) {
  w.list(p.inputs, [&](const ProgramPort& x) { write_port(w, x); });
  w.list(p.outputs, [&](const ProgramPort& x) { write_port(w, x); });
  w.list(p.dims, [&](const std::string& s) { w.text(s); });
  w.list(p.weights, [&](const TracedWeight& x) {
    const TensorType& t = x.value.type();
    Ref<Buffer> b = row_major(t, read_value(x.value));
    w.text(x.name), w.text(x.parameter), w.number(x.trainable), w.number(x.is_parameter);
    write_type(w, t), w.number(pool->add(t, std::move(b)));
  });
  w.list(p.nodes, [&](const TracedNode& n) { write_node(w, n); });
  w.list(p.results, [&](const TracedRef& r) { w.number(r.node), w.number(r.index); });
}

std::shared_ptr<TracedProgram> read_traced(Reader& r, const PoolReader& pool) {
  auto p = std::make_shared<TracedProgram>();
  const size_t n_in = r.count(24);
  for (size_t i = 0; i < n_in; ++i) p->inputs.push_back(read_port(r));
  const size_t n_out = r.count(24);
  for (size_t i = 0; i < n_out; ++i) p->outputs.push_back(read_port(r));
  const size_t n_dims = r.count(8);
  for (size_t i = 0; i < n_dims; ++i) p->dims.push_back(r.text());
  const size_t n_weights = r.count(56);
  for (size_t i = 0; i < n_weights; ++i) {
    TracedWeight w;
    w.name = r.text(), w.parameter = r.text();
    w.trainable = r.number(0, 1, "a flag") != 0, w.is_parameter = r.number(0, 1, "a flag") != 0;
    const TensorType t = read_type(r);
    w.value = make_data(t, pool.get(r, r.number(), t));
    p->weights.push_back(std::move(w));
  }
  const size_t n_nodes = r.count(32);
  for (size_t i = 0; i < n_nodes; ++i) p->nodes.push_back(read_node(r, i, n_in, n_weights, n_dims));
  const size_t n_results = r.count(16);
  for (size_t i = 0; i < n_results; ++i) {
    const auto node = static_cast<uint32_t>(r.number(0, static_cast<int64_t>(n_nodes) - 1, "a result"));
    p->results.push_back({node, static_cast<uint32_t>(r.number(0, 1 << 20, "an output"))});
  }
  if (n_results != n_out) r.bad("the number of results differs");
  return p;
}

}  // namespace yuloh::formats
