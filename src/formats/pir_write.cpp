// SPDX-License-Identifier: Apache-2.0
#include "formats/pir_write.h"

#include <cmath>
#include <set>

#include "run/recording.h"

namespace yuloh::formats {
namespace {
const char* type_code(DType t) {
  switch (t) {
    case DType::kBool: return "0.t_bool";
    case DType::kUInt8: return "0.t_ui8";
    case DType::kInt8: return "0.t_i8";
    case DType::kInt16: return "0.t_i16";
    case DType::kInt32: return "0.t_i32";
    case DType::kInt64: return "0.t_i64";
    case DType::kFloat16: return "0.t_f16";
    case DType::kBFloat16: return "0.t_bf16";
    case DType::kFloat32: return "0.t_f32";
    case DType::kFloat64: return "0.t_f64";
    case DType::kComplex64: return "0.t_c64";
    case DType::kComplex128: return "0.t_c128";
    default: value_error("write: PIR files have no element type ", t, ".");
  }
}
}  // namespace

// ---- attributes and types ----
PirGraph::Json PirGraph::real(const char* kind, double v) {
  if (std::isfinite(v)) return scalar(kind, v);
  return {{"#", kind}, {"VD", std::isnan(v) ? "NaN" : v > 0 ? "INF" : "-INF"}};
}
PirGraph::Json PirGraph::array(const char* kind, const Ints& v) {
  Json a = Json::array();
  for (int64_t n : v) a.push_back(scalar(kind, n));
  return {{"#", "0.a_array"}, {"D", a}};
}
PirGraph::Attr PirGraph::reals(const char* name, const std::vector<double>& v) {
  Json a = Json::array();
  for (double d : v) a.push_back(real("0.a_f64", d));
  return {name, {{"#", "0.a_array"}, {"D", a}}};
}
PirGraph::Attr PirGraph::shape(const char* name, const std::vector<int64_t>& v) {
  return {name, {{"#", "1.a_intarray"}, {"D", v}}};
}
PirGraph::Attr PirGraph::dtype(const char* name, std::optional<DType> t) {
  return {name, {{"#", "1.a_dtype"}, {"D", t ? std::string(dtype_name(*t)) : "Undefined(ALL_DTYPE)"}}};
}
PirGraph::Attr PirGraph::place(bool host) {
  return {"place", {{"#", "1.a_place"}, {"D", Json::array({host ? 1 : 0, 0, ""})}}};
}

PirGraph::Json PirGraph::type_json(const PirType& t) {
  return {{"#", "0.t_dtensor"},
          {"D", Json::array({{{"#", type_code(t.dtype)}}, t.dims, "NCHW", Json::array(), 0})}};
}

// ---- operators ----
PirGraph::Json PirGraph::out(const PirType& t, Id* id) {
  *id = next_++;
  types_[*id] = t;
  return {{"%", *id}, {"TT", type_json(t)}};
}
void PirGraph::push(const char* type, const std::vector<Id>& in, std::vector<Attr> attrs, Json outs,
                    const std::vector<Id>& ids) {
  records_.push_back({type, in, ids, attrs});
  Json a = Json::array(), i = Json::array(), stop = Json::array();
  for (Attr& at : attrs) a.push_back({{"AT", std::move(at.value)}, {"N", at.name}});
  for (Id id : in) i.push_back({{"%", id}});
  for (size_t k = 0; k < ids.size(); ++k) stop.push_back(scalar("0.a_bool", true));
  const Json oa = {{{"AT", {{"#", "0.a_array"}, {"D", stop}}}, {"N", "stop_gradient"}}};
  ops_.push_back({{"#", type}, {"A", a}, {"I", i}, {"O", outs}, {"OA", Json::array({oa[0]})}});
}
std::vector<PirGraph::Id> PirGraph::ops(const char* type, std::vector<Id> in, std::vector<Attr> attrs,
                                        std::vector<PirType> outs) {
  Json o = Json::array();
  std::vector<Id> ids;
  for (const PirType& t : outs) {
    Id id;
    o.push_back(out(t, &id));
    ids.push_back(id);
  }
  push((std::string(type).find('.') == std::string::npos ? "1." + std::string(type) : std::string(type))
           .c_str(),
       in, std::move(attrs), o, ids);
  return ids;
}
PirGraph::Id PirGraph::op(const char* type, std::vector<Id> in, std::vector<Attr> attrs, PirType t) {
  return ops(type, std::move(in), std::move(attrs), {std::move(t)})[0];
}
PirGraph::Id PirGraph::combine(const std::vector<Id>& ids) {
  Json members = Json::array();
  std::vector<PirType> types;
  for (Id id : ids) members.push_back(type_json(type(id))), types.push_back(type(id));
  const Id id = next_++;
  lists_[id] = types;
  push("0.combine", ids, {}, Json::array({{{"%", id}, {"TT", {{"#", "0.t_vec"}, {"D", members}}}}}), {id});
  return id;
}
std::vector<PirGraph::Id> PirGraph::list_op(const char* type, std::vector<Id> in, std::vector<Attr> attrs,
                                            std::vector<PirType> members) {
  Json types = Json::array();
  for (const PirType& t : members) types.push_back(type_json(t));
  const Id id = next_++;
  push(("1." + std::string(type)).c_str(), in, std::move(attrs),
       Json::array({{{"%", id}, {"TT", {{"#", "0.t_vec"}, {"D", types}}}}}), {id});
  return ops("0.split", {id}, {}, std::move(members));
}
std::vector<PirGraph::Id> PirGraph::mixed(const char* type, std::vector<Id> in, std::vector<Attr> attrs,
                                          const std::vector<Out>& outs) {
  Json o = Json::array();
  std::vector<Id> ids, all;
  for (const Out& t : outs) {
    if (!t.list) {
      Id id;
      o.push_back(out(t.types[0], &id));
      ids.push_back(id);
      continue;
    }
    Json types = Json::array();
    for (const PirType& m : t.types) types.push_back(type_json(m));
    ids.push_back(next_++);
    lists_[ids.back()] = t.types;
    o.push_back({{"%", ids.back()}, {"TT", {{"#", "0.t_vec"}, {"D", types}}}});
  }
  push(("1." + std::string(type)).c_str(), in, std::move(attrs), o, ids);
  for (size_t k = 0; k < outs.size(); ++k) {
    if (!outs[k].list) all.push_back(ids[k]);
    else
      for (Id id : ops("0.split", {ids[k]}, {}, outs[k].types)) all.push_back(id);
  }
  return all;
}
PirGraph::Id PirGraph::input(const ProgramPort& p) {
  return op("data", {}, {text("name", p.name), shape("shape", p.dims), dtype("dtype", p.dtype), place()},
            {p.dtype, p.dims});
}
PirGraph::Id PirGraph::parameter(const std::string& name, const PirType& t, bool trainable) {
  Id id;
  const Json o = out(t, &id);
  records_.push_back({"p", {}, {id}, {text("name", name), flag("trainable", trainable)}});
  ops_.push_back({{"#", "p"},
                  {"A", Json::array({0, 1, 1, name})},
                  {"DA", Json::array()},
                  {"O", o},
                  {"OA", Json::array({1, trainable ? 0 : 1, trainable ? 1 : 0})},
                  {"QA", Json::array()}});
  return id;
}
void PirGraph::fetch(const std::string& name, Id id, int column) {
  op("fetch", {id}, {text("name", name), i32("col", column)}, type(id));
}
PirGraph::Id PirGraph::unknown(const PirType& t) {
  Id id;
  out(t, &id);
  return id;
}
PirGraph::Id PirGraph::ints(const Ints& v) {
  return op("full_int_array", {}, {i64s("value", v), dtype("dtype", DType::kInt64), place(true)},
            {DType::kInt64, {static_cast<int64_t>(v.size())}});
}
PirGraph::Id PirGraph::full(Attr value, DType t, std::vector<int64_t> dims) {
  const Id id = op("full", {}, {shape("shape", dims), value, dtype("dtype", t), place(true)}, {t, dims});
  numbers_.emplace(id, std::move(value));
  return id;
}
PirGraph::Id PirGraph::as_one_element(Id x) {
  const DType t = type(x).dtype;
  if (const auto it = numbers_.find(x); it != numbers_.end()) return full(Attr(it->second), t, {1});
  return op("reshape", {x, ints({1})}, {}, {t, {1}});
}
PirGraph::Id PirGraph::number(double v, DType t, std::vector<int64_t> dims) {
  return full(f64("value", v), t, std::move(dims));
}
PirGraph::Id PirGraph::whole(int64_t v, DType t, std::vector<int64_t> dims) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (v >= -kExact && v <= kExact) return number(static_cast<double>(v), t, std::move(dims));
  return full(i64("value", v), t, std::move(dims));
}
PirGraph::Id PirGraph::constant(const Value& v) {
  const TensorType& t = v.type();
  if (is_complex(t.dtype))
    fail(ErrorKind::kNotImplemented, "constants of complex numbers have no counterpart");
  const Ref<Buffer> b = row_major(t, read_value(v));
  std::vector<double> data;
  Ints integers;
  for (int64_t i = 0; i < numel(t.shape); ++i) {
    const char* p = static_cast<const char*>(b->data()) + i * static_cast<int64_t>(dtype_size(t.dtype));
    if (is_integral(t.dtype)) integers.push_back(load_int(p, t.dtype));
    else data.push_back(load_double(p, t.dtype));
  }
  const Attr values = is_integral(t.dtype) ? i64s("values", integers) : reals("values", data);
  const std::vector<int64_t> dims(t.shape.begin(), t.shape.end());
  return op("assign_value_", {number(0, t.dtype, dims)},
            {i32s("shape", Ints(dims.begin(), dims.end())), dtype("dtype", t.dtype), values, place()},
            {t.dtype, dims});
}
PirGraph::Id PirGraph::cast(Id x, DType t) {
  if (type(x).dtype == t) return x;
  return op("cast", {x}, {dtype("dtype", t)}, {t, type(x).dims});
}
void PirGraph::prune() {
  std::set<Id> needed;
  std::vector<Record> records;
  std::vector<Json> ops;
  for (size_t i = records_.size(); i-- > 0;) {  // one operator each
    Record& r = records_[i];
    bool keep = r.type == "p" || r.type == "1.data" || r.type == "1.fetch";
    for (Id id : r.out) keep = keep || needed.count(id);
    if (!keep) continue;
    needed.insert(r.in.begin(), r.in.end());
    records.push_back(std::move(r)), ops.push_back(std::move(ops_[i]));
  }
  records_.assign(std::make_move_iterator(records.rbegin()), std::make_move_iterator(records.rend()));
  ops_ = Json::array();
  for (size_t i = ops.size(); i-- > 0;) ops_.push_back(std::move(ops[i]));
}
PirGraph::Json PirGraph::json() const {
  const Json block = {{"#", "block_0"}, {"args", Json::array()}, {"ops", ops_}};
  const Json region = {{"#", "region_0"}, {"blocks", Json::array({block})}};
  return {{"base_code", {{"magic", "pir"}, {"trainable", true}, {"version", 4}}},
          {"program", {{"regions", Json::array({region})}}}};
}

// ---- one node ----
std::vector<PirGraph::Id> PirNode::list(std::string_view name) const {
  const auto [first, count] = range(name);
  return {in.begin() + first, in.begin() + first + count};
}
PirGraph::Id PirNode::arg(std::string_view name) const {
  const auto v = list(name);
  return v.empty() ? 0 : v[0];
}

PirGraph::Id PirNode::open_size(const DimExpr& e) {
  const auto one = [&](int32_t dim) -> PirGraph::Id {
    if (const auto it = dim_cache->find(dim); it != dim_cache->end()) return it->second;
    const auto [i, d] = place_of_dim(program, dim);
    return (*dim_cache)[dim] = dim_of((*port_ids)[i], d);
  };
  const PirType t{DType::kInt64, {1}};
  PirGraph::Id total = 0;
  for (const DimExpr::Term& term : e.terms) {
    PirGraph::Id p = 0;
    for (int32_t d : term.dims) p = p ? g.op("multiply", {p, one(d)}, {}, t) : one(d);
    if (!p) p = g.ints({term.coefficient});
    else if (term.coefficient != 1) p = g.op("multiply", {p, g.ints({term.coefficient})}, {}, t);
    total = total ? g.op("add", {total, p}, {}, t) : p;
  }
  if (!total) total = g.ints({0});
  if (e.divisor == 1) return total;
  if (e.rounding == DimExpr::Rounding::kUp) total = g.op("add", {total, g.ints({e.divisor - 1})}, {}, t);
  return g.op("floor_divide", {total, g.ints({e.divisor})}, {}, t);
}

PirGraph::Id PirNode::sizes(std::string_view name) {
  const std::vector<Size> list = size_list(name);
  std::vector<PirGraph::Id> parts;
  Ints fixed;
  for (const Size& s : list) fixed.push_back(s.value);
  if (!open(name)) return g.ints(fixed);
  for (const Size& s : list) parts.push_back(s.expr ? open_size(*s.expr) : g.ints({s.value}));
  return join(parts);
}
PirGraph::Id PirNode::join(const std::vector<PirGraph::Id>& parts) {
  if (parts.size() == 1) return parts[0];
  return g.op("concat", {g.combine(parts), g.number(0, DType::kInt32, {1})}, {},
              {DType::kInt64, {static_cast<int64_t>(parts.size())}});
}
PirGraph::Id PirNode::dim_of(PirGraph::Id x, size_t axis) {
  const auto at = static_cast<int64_t>(axis);
  const auto s = g.op("shape64", {x}, {}, {DType::kInt64, {static_cast<int64_t>(g.type(x).dims.size())}});
  return g.op(
      "slice", {s, g.ints({at}), g.ints({at + 1})},
      {PirGraph::i64s("axes", {0}), PirGraph::i64s("infer_flags", {1}), PirGraph::i64s("decrease_axis", {})},
      {DType::kInt64, {1}});
}

}  // namespace yuloh::formats
