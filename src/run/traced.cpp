// SPDX-License-Identifier: Apache-2.0
#include "run/traced.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

namespace yuloh {
namespace {
using Wide = __int128;
bool fits(Wide v) { return v >= INT64_MIN && v <= INT64_MAX; }

std::string label(const TracedNode& n) {
  const char* name = n.kind == TracedNode::Kind::kOp ? n.op->name.c_str() : "number";
  return n.where.empty() ? std::string(name) : cat(name, " (", n.where, ")");
}
}  // namespace

// ---- expressions ----

bool DimExpr::evaluate(const std::vector<int64_t>& sizes, int64_t* r) const {
  Wide sum = 0;
  for (const Term& t : terms) {
    Wide p = t.coefficient;
    for (int32_t d : t.dims) {
      p *= sizes[static_cast<size_t>(d)];
      if (!fits(p)) return false;
    }
    sum += p;
  }
  Wide q = sum / divisor;
  const Wide rest = sum - q * divisor;
  if (rest != 0) {
    if (rounding == Rounding::kExact) return false;
    if (rounding == Rounding::kDown && rest < 0) --q;
    if (rounding == Rounding::kUp && rest > 0) ++q;
  }
  if (!fits(q)) return false;
  *r = static_cast<int64_t>(q);
  return true;
}

std::string DimExpr::text(const std::vector<std::string>& names) const {
  std::string s;
  for (const Term& t : terms) {
    std::string p = t.coefficient == 1 && !t.dims.empty() ? "" : std::to_string(t.coefficient);
    for (int32_t d : t.dims) p += cat(p.empty() ? "" : "*", names[static_cast<size_t>(d)]);
    s += cat(s.empty() ? "" : " + ", p);
  }
  if (s.empty()) return "0";
  if (divisor == 1) return s;
  const char* how = rounding == Rounding::kDown ? "floor" : rounding == Rounding::kUp ? "ceil" : "";
  return cat(how, "((", s, ")/", divisor, ")");
}

// ---- recording again ----

std::vector<int64_t> TracedProgram::bind_sizes(const Values& in) const {
  if (in.size() != inputs.size())
    value_error("program: it takes ", inputs.size(), " inputs, got ", in.size(), ".");
  std::vector<int64_t> sizes(dims.size(), -1);
  for (uint32_t i = 0; i < in.size(); ++i) {
    const ProgramPort& p = inputs[i];
    if (in[i].rank() != static_cast<int64_t>(p.dims.size()))
      value_error("program: input `", p.name, "` has the wrong rank, got shape ", in[i].shape(),
                  "; expected ", p.dims.size(), " axes.");
    for (uint32_t d = 0; d < p.dim_names.size(); ++d)
      for (size_t k = 0; k < dims.size(); ++k)
        if (p.dim_names[d] == dims[k]) {
          const int64_t n = in[i].shape()[d];
          if (sizes[k] >= 0 && sizes[k] != n)
            value_error("program: input `", p.name, "` does not fit another input, got size ", n, " of axis ",
                        d, "; expected ", sizes[k], " as there.");
          sizes[k] = n;
        }
  }
  return sizes;
}

Values TracedProgram::record(const Values& in) const { return record_by_place(in, {}); }
Values TracedProgram::record_by_place(const Values& in, const Made& place) const {
  Values w;
  for (const TracedWeight& x : weights) w.push_back(x.value);
  return replay(in, w, nullptr, place);
}
std::vector<NamedValue> TracedProgram::named_weights() const {
  std::vector<NamedValue> r;
  for (const TracedWeight& w : weights)
    r.push_back({w.name, w.parameter, w.trainable, w.is_parameter, w.value});
  return r;
}

Values TracedProgram::replay(const Values& in, const Values& weight_values, std::vector<Values>* all,
                             const Made& place) const {
  const std::vector<int64_t> sizes = bind_sizes(in);
  std::vector<Values> made(nodes.size());
  auto at = [&](const TracedRef& r) {  // files say what they like
    if (r.node >= made.size() || r.index >= made[r.node].size())
      value_error("program: a node reads output ", r.index, " of node ", r.node, ", which does not exist.");
    return made[r.node][r.index];
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const TracedNode& n = nodes[i];
    if (n.kind == TracedNode::Kind::kInput) {
      made[i] = {in[n.number]};
      continue;
    }
    if (n.kind == TracedNode::Kind::kWeight) {
      made[i] = {weight_values[n.number]};
      continue;
    }
    Attrs attrs = n.attrs;
    for (const auto& [word, expr] : n.open) {
      int64_t v;
      if (!expr.evaluate(sizes, &v)) {
        std::string got;
        for (size_t k = 0; k < dims.size(); ++k) got += cat(k ? ", " : "", dims[k], " = ", sizes[k]);
        value_error(label(n), ": the model does not work for these input sizes, got ", got,
                    "; expected a whole number for ", expr.text(dims), ".");
      }
      attrs[word] = v;
    }
    if (n.kind == TracedNode::Kind::kScalar) {
      // Words of `open` are whole numbers: of a floating-point scalar the value, not the bits.
      const bool whole = is_integral(n.dtype);
      const double d =
          n.open.empty() && !whole ? std::bit_cast<double>(attrs[0]) : static_cast<double>(attrs[0]);
      if (n.open.empty() && (d == 0 || d == 1 || d == -1 || d == 2 || d == 0.5) &&
          !(d == 0 && std::signbit(d)))
        made[i] = {call("full", {}, {{"shape", Ints()}, {"value", d}, {"dtype", n.dtype}})};
      else made[i] = {whole ? make_scalar_int(n.dtype, attrs[0]) : make_scalar(n.dtype, d)};
      continue;
    }
    if (!n.open.empty()) {  // floating-point attributes: bits
      const int64_t* w = n.attrs.data();
      uint32_t from = 0;
      for (const ArgSpec& a : n.op->args) {
        const auto count = static_cast<uint32_t>(words_of(a, w + from));
        if (a.kind == ArgKind::kFloat || a.kind == ArgKind::kFloats)
          for (const auto& [word, expr] : n.open)
            if (word >= from && word < from + count)
              attrs[word] = std::bit_cast<int64_t>(static_cast<double>(attrs[word]));
        from += count;
      }
    }
    Values args;
    for (const TracedRef& r : n.inputs) args.push_back(at(r));
    made[i] = apply(*n.op, std::move(args), std::move(attrs));
    if (place) place(n.where);
  }
  Values r;
  for (const TracedRef& x : results) r.push_back(at(x));
  if (all) *all = std::move(made);
  return r;
}

// ---- one trace ----

Trace take_trace(const Recording& recording, const std::vector<Value>& inputs,
                 const std::vector<Value>& outputs, const std::vector<NamedValue>& names,
                 const std::function<std::string(const Node&)>& where) {
  Trace t;
  std::map<std::pair<const Node*, uint32_t>, uint32_t> number;  // leaves; ops under index 0
  std::map<std::pair<const Node*, uint32_t>, const NamedValue*> named;
  for (const NamedValue& n : names) named.try_emplace({n.value.node.get(), n.value.index}, &n);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TracedNode n;
    n.kind = TracedNode::Kind::kInput, n.number = static_cast<uint32_t>(i);
    number[{inputs[i].node.get(), 0}] = static_cast<uint32_t>(t.nodes.size());
    t.nodes.push_back(std::move(n));
    t.types.push_back(inputs[i].type());
  }
  // What was recorded since the start and still knows what it was made from.
  auto is_inner = [&](const Node& n) {
    return n.kind == Node::Kind::kOp && n.id >= recording.first() && !n.executed;
  };
  const std::vector<Node*> order = reached(outputs, [&](const Value& v) { return is_inner(*v.node); });
  auto ref = [&](const Value& v) -> TracedRef {
    Node& n = *v.node;
    if (is_inner(n)) return {number.at({&n, 0}), v.index};
    const auto it = number.find({&n, v.index});
    if (it != number.end()) return {it->second, 0};
    TracedNode leaf;
    if (n.kind == Node::Kind::kScalar) {
      leaf.kind = TracedNode::Kind::kScalar, leaf.attrs = n.attrs, leaf.dtype = v.dtype();
    } else if (n.kind == Node::Kind::kInput) {
      fail(ErrorKind::kRuntime,
           "to_static: a tensor of another recording is used in this one. Hint: layers must not keep "
           "tensors that they computed while a program was recorded.");
    } else {
      leaf.kind = TracedNode::Kind::kWeight, leaf.number = static_cast<uint32_t>(t.weights.size());
      TracedWeight w;
      if (const auto k = named.find({&n, v.index}); k != named.end()) {
        w.name = k->second->name, w.parameter = k->second->parameter;
        w.trainable = k->second->trainable, w.is_parameter = k->second->is_parameter;
      }
      w.value = make_data(v.type(), read_value(v));
      t.weights.push_back(std::move(w));
    }
    const auto at = static_cast<uint32_t>(t.nodes.size());
    number[{&n, v.index}] = at;
    t.nodes.push_back(std::move(leaf));
    return {at, 0};
  };
  for (Node* n : order) {
    if (n->extra && (n->extra->region || n->extra->custom_vjp))
      fail(ErrorKind::kNotImplemented, "to_static: ", n->op->name,
           " with a body of its own cannot be part of a program yet.");
    TracedNode m;
    m.op = n->op, m.attrs = n->attrs, m.where = where ? where(*n) : describe_position(n->pos);
    const uint32_t count = n->op->random && n->op->n_inputs_fixed >= 0
                               ? static_cast<uint32_t>(n->op->n_inputs_fixed)
                               : n->inputs.size();
    for (uint32_t i = 0; i < count && i < n->inputs.size(); ++i) m.inputs.push_back(ref(n->inputs[i]));
    number[{n, 0}] = static_cast<uint32_t>(t.nodes.size());
    t.nodes.push_back(std::move(m));
  }
  for (const Value& v : outputs) t.results.push_back(ref(v)), t.result_types.push_back(v.type());
  return t;
}

// ---- many traces ----

namespace {
[[noreturn]] void differs(const TracedNode& n, const std::string& what) {
  fail(ErrorKind::kValue, "to_static: ", what,
       " depends on an open size in a way that cannot be kept in the program, at ", label(n),
       ". Hint: fix that size in the InputSpec.");
}

// The one polynomial, linear in every open size, that goes through the corners.
bool fit(const std::vector<Trace>& corners, size_t n_dims, const std::vector<int64_t>& values, DimExpr* e) {
  Wide divisor = 1;
  for (size_t i = 0; i < n_dims; ++i) divisor *= corners[size_t{1} << i].sizes[i] - corners[0].sizes[i];
  std::vector<Wide> c(size_t{1} << n_dims, 0);
  for (size_t mask = 0; mask < corners.size(); ++mask)
    for (size_t set = 0; set < c.size(); ++set) {  // sizes that are factors in this term
      Wide p = values[mask];
      for (size_t i = 0; i < n_dims; ++i) {
        const int64_t a = corners[0].sizes[i], b = corners[size_t{1} << i].sizes[i];
        p *= (set >> i & 1) ? ((mask >> i & 1) ? 1 : -1) : ((mask >> i & 1) ? -a : b);
        if (p > (Wide{1} << 100) || p < -(Wide{1} << 100)) return false;
      }
      c[set] += p;
    }
  Wide g = divisor < 0 ? -divisor : divisor;
  for (Wide x : c)
    for (Wide y = x < 0 ? -x : x; y != 0;) {
      const Wide r = g % y;
      g = y, y = r;
    }
  if (divisor < 0) g = -g;
  if (!fits(divisor / g)) return false;
  e->divisor = static_cast<int64_t>(divisor / g);
  for (size_t set = 0; set < c.size(); ++set) {
    if (c[set] == 0) continue;
    if (!fits(c[set] / g)) return false;
    DimExpr::Term t{static_cast<int64_t>(c[set] / g), {}};
    for (size_t i = 0; i < n_dims; ++i)
      if (set >> i & 1) t.dims.push_back(static_cast<int32_t>(i));
    e->terms.push_back(std::move(t));
  }
  return true;
}

bool same_data(const Value& a, const Value& b) {
  if (a == b) return true;
  if (!(a.type() == b.type())) return false;
  const Buffer &x = *a.node->outputs[a.index].buffer, &y = *b.node->outputs[b.index].buffer;
  if (x.data() == y.data()) return true;
  if (!is_row_major(a.shape(), x.strides) || !is_row_major(a.shape(), y.strides)) return false;
  return std::memcmp(x.data(), y.data(), static_cast<size_t>(numel(a.shape())) * dtype_size(a.dtype())) == 0;
}

// Which words of a node are whole numbers, which are floating-point numbers, and which can never differ.
std::vector<char> word_kinds(const TracedNode& n) {
  std::vector<char> k(n.attrs.size(), 'x');
  if (n.kind == TracedNode::Kind::kScalar) return {is_integral(n.dtype) ? 'i' : 'f'};
  if (n.kind != TracedNode::Kind::kOp) return k;
  uint32_t at = 0;
  for (const ArgSpec& a : n.op->args) {
    const auto count = static_cast<uint32_t>(words_of(a, n.attrs.data() + at));
    const bool list = a.kind == ArgKind::kInts || a.kind == ArgKind::kFloats;
    const uint32_t from = at + (list || a.optional ? 1 : 0);
    const char c = a.kind == ArgKind::kInt || a.kind == ArgKind::kInts       ? 'i'
                   : a.kind == ArgKind::kFloat || a.kind == ArgKind::kFloats ? 'f'
                                                                             : 'x';
    for (uint32_t w = from; w < at + count && !a.is_input(); ++w) k[w] = c;
    at += count;
  }
  return k;
}
}  // namespace

std::shared_ptr<TracedProgram> generalise(const std::vector<Trace>& corners, const std::vector<Trace>& more,
                                          std::vector<ProgramPort> inputs,
                                          std::vector<std::string> output_names,
                                          std::vector<std::string> dims) {
  if (corners.size() != size_t{1} << dims.size())
    fail(ErrorKind::kRuntime, "to_static: 2^n traces are needed for n open sizes.");
  const Trace& base = corners[0];
  std::vector<const Trace*> all;
  for (const Trace& t : corners) all.push_back(&t);
  for (const Trace& t : more) all.push_back(&t);
  auto p = std::make_shared<TracedProgram>();
  p->inputs = std::move(inputs), p->dims = std::move(dims);
  p->nodes = base.nodes, p->results = base.results, p->weights = base.weights;
  for (const Trace* t : all) {
    const size_t n = std::min(t->nodes.size(), base.nodes.size());
    for (size_t i = 0; i < n; ++i) {
      const TracedNode &a = base.nodes[i], &b = t->nodes[i];
      if (a.kind != b.kind || a.op != b.op || !(a.inputs == b.inputs) || a.number != b.number ||
          a.dtype != b.dtype || a.attrs.size() != b.attrs.size())
        differs(a, "which ops run");
    }
    if (t->nodes.size() != base.nodes.size() || !(t->results == base.results))
      differs(base.nodes.back(), "how many ops run");
    for (size_t i = 0; i < base.weights.size(); ++i)
      if (base.weights[i].name != t->weights[i].name ||
          !same_data(base.weights[i].value, t->weights[i].value)) {
        for (const TracedNode& m : base.nodes)  // named by its first reader
          for (const TracedRef& r : m.inputs)
            if (base.nodes[r.node].kind == TracedNode::Kind::kWeight && base.nodes[r.node].number == i)
              differs(m, "the data of a constant tensor");
        differs(base.nodes.back(), "the data of a constant tensor");
      }
  }
  for (size_t i = 0; i < p->nodes.size(); ++i) {
    TracedNode& n = p->nodes[i];
    if (n.where.empty())  // a number: the line of its first reader
      for (size_t k = i + 1; k < p->nodes.size() && n.where.empty(); ++k)
        for (const TracedRef& r : p->nodes[k].inputs)
          if (r.node == i) n.where = p->nodes[k].where;
    const std::vector<char> kinds = word_kinds(n);
    // What a convolution or pool makes of open sizes may be no polynomial; a reshape can leave one such size
    // to be filled in.
    bool left_out = n.kind != TracedNode::Kind::kOp || !*n.op->fills ||
                    std::any_of(n.attrs.begin() + 1, n.attrs.end(), [](int64_t w) { return w < 1; });
    const auto leave_out = [&](uint32_t w) {
      if (left_out) differs(n, "a number");
      left_out = true, n.op = &get_op(n.op->fills), n.attrs[w] = -1;
    };
    for (uint32_t w = 0; w < n.attrs.size(); ++w) {
      if (std::all_of(all.begin(), all.end(),
                      [&](const Trace* t) { return t->nodes[i].attrs[w] == n.attrs[w]; }))
        continue;
      if (kinds[w] == 'x') differs(n, "an attribute");
      auto value = [&](const Trace& t, int64_t* v) {
        *v = t.nodes[i].attrs[w];
        if (kinds[w] == 'i') return true;
        const double d = std::bit_cast<double>(*v);
        if (d != std::floor(d) || std::fabs(d) > 1e15) return false;
        *v = static_cast<int64_t>(d);
        return true;
      };
      std::vector<int64_t> values;
      for (const Trace& t : corners) {
        int64_t v;
        if (!value(t, &v)) differs(n, "a number");
        values.push_back(v);
      }
      DimExpr e;
      if (!fit(corners, p->dims.size(), values, &e)) {
        leave_out(w);
        continue;
      }
      bool agrees = false;
      for (const auto r : {DimExpr::Rounding::kExact, DimExpr::Rounding::kDown, DimExpr::Rounding::kUp}) {
        e.rounding = r;
        agrees = std::all_of(more.begin(), more.end(), [&](const Trace& t) {
          int64_t v, have;
          return value(t, &v) && e.evaluate(t.sizes, &have) && v == have;
        });
        if (agrees) break;
      }
      if (!agrees) {
        leave_out(w);
        continue;
      }
      n.open.emplace_back(w, std::move(e));
    }
  }
  for (size_t k = 0; k < base.results.size(); ++k) {
    ProgramPort o;
    o.name = k < output_names.size() ? output_names[k] : cat("output_", k);
    o.dtype = base.result_types[k].dtype;
    for (uint32_t d = 0; d < base.result_types[k].shape.size(); ++d) {
      bool fixed = true;
      for (const Trace* t : all)
        fixed = fixed && t->result_types[k].shape[d] == base.result_types[k].shape[d];
      o.dims.push_back(fixed ? base.result_types[k].shape[d] : -1);
    }
    p->outputs.push_back(std::move(o));
  }
  return p;
}

std::vector<uint32_t> TracedProgram::statistics() const {
  std::vector<uint32_t> r;
  for (const TracedNode& n : nodes) {
    if (n.kind != TracedNode::Kind::kOp || !*n.op->statistics) continue;
    const std::string names = cat(" ", n.op->statistics, " ");
    const Call call(*n.op, nullptr, static_cast<uint32_t>(n.inputs.size()), n.attrs);
    for (size_t a = 0; a < n.op->args.size(); ++a) {
      if (names.find(" " + n.op->args[a].name + " ") == std::string::npos) continue;
      const InputRange range = input_range(call, static_cast<int>(a));
      for (uint32_t i = range.first; i < range.first + range.count; ++i)
        if (const TracedNode& from = nodes[n.inputs[i].node]; from.kind == TracedNode::Kind::kWeight)
          r.push_back(from.number);
    }
  }
  return r;
}

}  // namespace yuloh
