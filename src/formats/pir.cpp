// SPDX-License-Identifier: Apache-2.0
// Reads Paddle's PIR program (`.json`). Values are numbered ("%12"); a list value ("builtin.combine") is
// taken apart into its members, so that every name of a Model is one tensor. Regions of `if` and `while`
// become graphs in attributes.
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "formats/paddle.h"

namespace yuloh::formats {
namespace {
using Json = nlohmann::json;
constexpr int64_t kMaxScratch = int64_t{64} << 20;  // bytes of parameters that the weights file does not hold

DType type_code(const std::string& code, const std::string& where) {
  static const std::map<std::string, DType> codes{
      {"t_bool", DType::kBool},         {"t_ui8", DType::kUInt8},        {"t_i8", DType::kInt8},
      {"t_i16", DType::kInt16},         {"t_i32", DType::kInt32},        {"t_i64", DType::kInt64},
      {"t_f16", DType::kFloat16},       {"t_bf16", DType::kBFloat16},    {"t_f32", DType::kFloat32},
      {"t_f64", DType::kFloat64},       {"t_c64", DType::kComplex64},    {"t_c128", DType::kComplex128},
      {"t_f8e4m3", DType::kFloat8E4M3}, {"t_f8e5m2", DType::kFloat8E5M2}};
  const auto it = codes.find(code.substr(code.find('.') + 1));
  if (it == codes.end()) value_error("read: element type ", code, " of ", where, " is not known.");
  return it->second;
}

class Reader {
 public:
  Reader(const std::string& path, Model* m) : path_(path), model_(*m) {}

  void read(const Json& root) {
    const Json& base = at(root, "base_code", "the file");
    if (at(base, "magic", "base_code") != "pir") bad("it is not a PIR program");
    model_.dialect = Dialect::kPaddle;
    model_.producer = cat("pir ", text(at(base, "version", "base_code")));
    const Json& blocks = block_of(at(root, "program", "the file"));
    graph(blocks, &model_.graph, 0);
  }
  const std::map<std::string, TensorType>& parameters() const { return parameters_; }
  const std::map<std::string, TensorType>& scratch() const {
    return scratch_;
  }  // not in the weights file: zeros

 private:
  template <class... A>
  [[noreturn]] void bad(const A&... a) const {
    value_error("read: ", path_, ": ", a..., ".");
  }
  const Json& at(const Json& j, const char* key, const std::string& where) const {
    if (!j.is_object() || !j.contains(key)) bad("\"", key, "\" is missing in ", where);
    return j[key];
  }
  const Json& list(const Json& j, const char* key, const std::string& where) const {
    const Json& a = at(j, key, where);
    if (!a.is_array()) bad("\"", key, "\" of ", where, " is not a list");
    return a;
  }
  const Json& block_of(const Json& owner, size_t region = 0) const {
    const Json& regions = list(owner, "regions", "a program");
    if (region >= regions.size()) bad("region ", region, " is missing");
    const Json& blocks = list(regions[region], "blocks", "a region");
    if (blocks.size() != 1) bad("a region has ", blocks.size(), " blocks; expected one");
    return blocks[0];
  }
  int64_t integer(const Json& j, const std::string& where) const {
    if (!j.is_number_integer()) bad("a number was expected in ", where, ", got ", text(j).substr(0, 60));
    return j.get<int64_t>();
  }

  // ---- types ----
  struct Type {
    Port port;
    std::vector<Type> members;
    bool is_list = false;
  };
  Type type_of(const Json& j, const std::string& where, int depth = 0) const {
    const std::string kind = text(at(j, "#", where));
    const Json& d = at(j, "D", where);
    Type t;
    if (kind.ends_with("t_vec")) {
      if (depth > 4) bad("lists of ", where, " are nested too deep");
      t.is_list = true;
      for (const Json& m : d) t.members.push_back(type_of(m, where, depth + 1));
    } else if (kind.ends_with("t_dtensor")) {
      if (!d.is_array() || d.size() < 2 || !d[1].is_array())
        bad("the type of ", where, " is not one of a tensor");
      t.port.dtype = type_code(text(at(d[0], "#", where)), where);
      for (const Json& n : d[1]) t.port.dims.push_back(integer(n, where));
    } else {
      t.port.ranked = false;  // tensor arrays and the like: nobody reads the type of these
    }
    return t;
  }
  // Lists and objects stand for their kind: writing one out recurses as deep as a hostile file likes.
  static std::string text(const Json& j) {
    return j.is_string()       ? j.get<std::string>()
           : j.is_structured() ? std::string("(") + j.type_name() + ")"
                               : j.dump();
  }

  // ---- attributes ----
  Attribute attribute(const Json& j, const std::string& where, int depth = 0) const {
    const std::string kind = text(at(j, "#", where));
    const std::string code = kind.substr(kind.find('.') + 1);
    if (j.contains("VD")) {  // what JSON cannot write
      const std::string v = text(j["VD"]);
      if (v == "INF") return std::numeric_limits<double>::infinity();
      if (v == "-INF") return -std::numeric_limits<double>::infinity();
      return std::nan("");
    }
    if (!j.contains("D")) return {};
    const Json& d = j["D"];
    if (code == "a_array") return array(d, where, depth + 1);
    if (code == "a_intarray") {
      std::vector<int64_t> v;
      for (const Json& n : d) v.push_back(integer(n, where));
      return v;
    }
    if (d.is_boolean()) return int64_t{d.get<bool>()};
    if (code == "a_f32" || code == "a_f64") {
      if (!d.is_number()) bad("a number was expected in ", where);
      return d.get<double>();
    }
    if (d.is_number_integer()) return d.get<int64_t>();
    if (d.is_number()) return d.get<double>();
    if (d.is_string()) return d.get<std::string>();
    return {};
  }
  Attribute array(const Json& d, const std::string& where, int depth) const {
    if (depth > 4) bad("lists in ", where, " are nested too deep");
    std::vector<int64_t> ints;
    std::vector<double> reals;
    std::vector<std::string> texts;
    for (const Json& e : d) {
      Attribute a = attribute(e, where, depth);
      if (const auto* i = std::get_if<int64_t>(&a))
        ints.push_back(*i), reals.push_back(static_cast<double>(*i));
      else if (const auto* r = std::get_if<double>(&a)) reals.push_back(*r);
      else if (auto* s = std::get_if<std::string>(&a)) texts.push_back(std::move(*s));
    }
    if (!texts.empty()) return texts;
    if (reals.size() > ints.size()) return reals;
    return ints;
  }

  // ---- values: number -> one name, or the names of its members ----
  using Names = std::vector<std::string>;
  const Names& names(const Json& ref, const std::string& where) const {
    static const Names kNone{""};
    const int64_t id = integer(at(ref, "%", where), where);
    if (id == 0) return kNone;
    const auto it = values_.find(id);
    if (it == values_.end()) bad("value %", id, " is used in ", where, " before it is made");
    return it->second;
  }
  static std::string value_name(int64_t id) { return cat("%", id); }
  Names define(const Json& out, const std::string& where) {
    const int64_t id = integer(at(out, "%", where), where);
    if (id == 0) return {""};
    const Type t = type_of(at(out, "TT", where), where);
    Names n;
    if (!t.is_list) n.push_back(value_name(id));
    for (size_t i = 0; i < t.members.size(); ++i) n.push_back(cat("%", id, ".", i));
    if (!values_.emplace(id, n).second) bad("value %", id, " is made twice");
    return n;
  }

  void parameter(const Json& op) {
    const Json& a = list(op, "A", "a parameter");
    if (a.size() < 4 || !a[3].is_string()) bad("a parameter has no name");
    const std::string name = a[3].get<std::string>();
    const Json& out = at(op, "O", name);
    const Type t = type_of(at(out, "TT", name), name);
    TensorType type{t.port.dtype, {}};
    for (int64_t d : t.port.dims) type.shape.push_back(d);
    const bool saved =
        !op.contains("OA") || !op["OA"].is_array() || op["OA"].empty() || op["OA"][0] != 0;  // persistable
    if (!(saved ? parameters_ : scratch_).emplace(name, type).second)
      bad("parameter ", name, " stands there twice");
    values_[integer(at(out, "%", name), name)] = {name};
  }

  void graph(const Json& block, ModelGraph* g, int depth) {
    if (depth > 50) bad("regions are nested too deep");
    if (depth > 0 && block.contains("args"))
      for (const Json& arg : list(block, "args", "a block")) {
        const int64_t id = integer(at(arg, "#", "a block argument"), "a block argument");
        Port p = type_of(at(arg, "TT", "a block argument"), "a block argument").port;
        p.name = value_name(id);
        values_[id] = {p.name};
        g->inputs.push_back(std::move(p));
      }
    for (const Json& op : list(block, "ops", "a block")) node(op, g, depth);
  }

  void node(const Json& op, ModelGraph* g, int depth) {
    const std::string kind = text(at(op, "#", "an operator"));
    if (kind == "p") return parameter(op);
    ModelNode n;
    n.type = kind.substr(kind.find('.') + 1);
    const std::string where = cat("operator ", g->nodes.size(), " (", n.type, ")");
    for (const Json& a : list(op, "A", where))
      n.attrs[text(at(a, "N", where))] = attribute(at(a, "AT", where), where);
    if (const auto it = n.attrs.find("struct_name"); it != n.attrs.end())
      if (const auto* s = std::get_if<std::string>(&it->second)) n.name = *s;
    std::vector<const Names*> in;
    for (const Json& r : list(op, "I", where)) in.push_back(&names(r, where));
    const Json& outs = list(op, "O", where);

    if (n.type == "combine") {
      Names all;
      for (const Names* m : in) all.insert(all.end(), m->begin(), m->end());
      if (outs.size() != 1) bad(where, " has ", outs.size(), " outputs");
      values_[integer(at(outs[0], "%", where), where)] = std::move(all);
      return;
    }
    if (kind == "0.split" || kind == "0.slice") {  // members of a list
      const int64_t first = kind == "0.slice" ? index_of(n, where) : 0;
      for (size_t i = 0; i < outs.size(); ++i) {
        const size_t k = static_cast<size_t>(first) + i;
        if (in.size() != 1 || k >= in[0]->size())
          bad(where, " takes member ", k, " of a list of ", in.empty() ? 0 : in[0]->size());
        values_[integer(at(outs[i], "%", where), where)] = {(*in[0])[k]};
      }
      return;
    }
    if (n.type == "fetch") {
      Port p = outs.empty() ? Port{} : type_of(at(outs[0], "TT", where), where).port;
      if (in.size() != 1 || in[0]->size() != 1) bad(where, " fetches nothing");
      p.name = (*in[0])[0];
      const auto* label = std::get_if<std::string>(&n.attrs["name"]);
      if (label) p.label = *label;
      g->outputs.push_back(std::move(p));
      return;
    }
    if (n.type == "yield") {
      for (const Names* m : in)
        for (const std::string& name : *m) {
          Port p;
          p.name = name;
          g->outputs.push_back(std::move(p));
        }
      return;
    }
    if (n.type == "data" || n.type == "feed") {
      if (outs.size() != 1) bad(where, " has ", outs.size(), " outputs");
      Port p = type_of(at(outs[0], "TT", where), where).port;
      const auto* label = std::get_if<std::string>(&n.attrs["name"]);
      p.name = label ? *label : value_name(integer(at(outs[0], "%", where), where));
      values_[integer(at(outs[0], "%", where), where)] = {p.name};
      g->inputs.push_back(std::move(p));
      return;
    }
    for (const Names* m : in) {
      n.list_sizes.push_back(m->size());
      n.inputs.insert(n.inputs.end(), m->begin(), m->end());
    }
    if (op.contains("regions")) {
      const size_t count = op["regions"].size();
      for (size_t i = 0; i < count; ++i) {
        auto body = std::make_shared<ModelGraph>();
        body->name = cat(where, " region ", i);
        graph(block_of(op, i), body.get(), depth + 1);
        n.attrs[cat("region", i)] = std::move(body);
      }
    }
    for (const Json& o : outs) {
      const Names made = define(o, where);
      n.outputs.insert(n.outputs.end(), made.begin(), made.end());
    }
    g->nodes.push_back(std::move(n));
  }
  int64_t index_of(const ModelNode& n, const std::string& where) const {
    const auto it = n.attrs.find("index");
    const auto* i = it == n.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
    if (!i || *i < 0) bad(where, " has no index");
    return *i;
  }

  const std::string& path_;
  Model& model_;
  std::map<int64_t, Names> values_;
  std::map<std::string, TensorType> parameters_, scratch_;
};
}  // namespace

std::shared_ptr<const Model> read_pir(const std::string& path, const Ref<Storage>& file,
                                      const std::string& params) {
  auto m = std::make_shared<Model>();
  const char* begin = static_cast<const char*>(file->data);
  const Json root = Json::parse(begin, begin + file->bytes, nullptr, false);
  if (root.is_discarded()) value_error("read: ", path, " is not valid JSON.");
  Reader r(path, m.get());
  r.read(root);
  m->path = path;
  m->graph.weights = read_paddle_weights(weights_path(path, params), r.parameters());
  size_t scratch = 0;
  for (const auto& [name, type] : r.scratch()) {
    const int64_t n = numel(type.shape);
    if (n > kMaxScratch ||
        (scratch += static_cast<size_t>(n) * dtype_size(type.dtype)) > static_cast<size_t>(kMaxScratch))
      value_error("read: ", path, ": parameter ", name, " is not saved and has shape ", type.shape,
                  ", too large for a work area.");
    FileTensor t{type, allocate_buffer(type)};
    std::memset(t.buffer->data(), 0, static_cast<size_t>(numel(type.shape)) * dtype_size(type.dtype));
    m->graph.weights.emplace(name, std::move(t));
  }
  return m;
}

}  // namespace yuloh::formats
