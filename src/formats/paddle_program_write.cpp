// SPDX-License-Identifier: Apache-2.0
// Writes Paddle's older format, a ProgramDesc (`.pdmodel`): the operators that pir_rules.cpp makes, renamed
// by the table of paddle_names.cpp read backwards. What PIR passes as constant tensors (axes, shapes) are
// attributes here.
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "formats/paddle.h"
#include "formats/pir_write.h"
#include "formats/wire.h"

namespace yuloh::formats {
namespace {
using G = PirGraph;
using Id = PirGraph::Id;

struct Constant {
  std::vector<double> numbers;
  std::vector<int64_t> whole;  // the same as integers: doubles hold those to 2^53 only
  std::vector<int64_t> dims;
  DType dtype;
};
int64_t nearest(double v) {
  return v >= -0x1p63 && v < 0x1p63 ? static_cast<int64_t>(v) : v > 0 ? INT64_MAX : INT64_MIN;
}

class DescWriter {
 public:
  DescWriter(const PirGraph& g, const TracedProgram& p) : g_(g), program_(p) {}

  WireOut program() {
    for (const G::Record& r : g_.records()) {
      if (r.type == "0.combine") members_[r.out[0]] = r.in;
      else if (r.type == "0.split") members_[r.in[0]] = r.out;
      else if (r.type == "1.fetch") name_result(r);
    }
    special_var("feed", 9), special_var("fetch", 10);
    for (const G::Record& r : g_.records()) write(r);
    WireOut block, version, all;
    block.integer(1, 0), block.integer(2, -1);
    for (const WireOut& v : vars_) block.message(3, v);
    for (auto f = feeds_.rbegin(); f != feeds_.rend(); ++f)
      block.message(4, *f);  // the last first: Paddle's jit.load turns them round
    for (const WireOut& o : ops_) block.message(4, o);
    version.integer(1, 3003001);
    all.message(1, block), all.message(4, version);
    return all;
  }

 private:
  using enum AttrType;

  // ---- messages (field numbers of framework.proto) ----
  void var(const std::string& name, const OpenType& t, bool persistable, bool parameter, bool stop_gradient,
           bool feed) {
    WireOut tensor, lod, type, v;
    tensor.integer(1, paddle_dtype_number(t.dtype));
    for (int64_t d : t.dims) tensor.integer(2, d);
    lod.message(1, tensor), lod.integer(2, 0);
    type.integer(1, 7), type.message(3, lod);
    v.text(1, name), v.message(2, type), v.integer(3, persistable), v.integer(4, feed),
        v.integer(5, parameter), v.integer(6, stop_gradient);
    vars_.push_back(std::move(v));
  }
  void special_var(const char* name, int kind) {
    WireOut type, v;
    type.integer(1, kind);
    v.text(1, name), v.message(2, type), v.integer(3, 1);
    vars_.push_back(std::move(v));
  }
  struct Op {
    std::string type;
    std::vector<std::pair<std::string, std::vector<std::string>>> inputs, outputs;
    std::map<std::string, WireOut> attrs;
  };
  template <class F>
  static void attr(Op& op, const std::string& name, AttrType kind, F value) {
    WireOut w;
    w.text(1, name), w.integer(2, static_cast<int64_t>(kind));
    value(w);
    op.attrs.insert_or_assign(name, std::move(w));
  }
  static void integer(Op& op, const std::string& name, int64_t v, bool wide = false) {
    attr(op, name, wide ? kLong : kInt, [&](WireOut& w) { w.integer(wide ? 13 : 3, v); });
  }
  static void flag(Op& op, const std::string& name, bool v) {
    attr(op, name, kBool, [&](WireOut& w) { w.integer(10, v); });
  }
  static void real(Op& op, const std::string& name, double v) {
    attr(op, name, kFloat, [&](WireOut& w) { w.real(4, static_cast<float>(v)); });
  }
  static void text(Op& op, const std::string& name, const std::string& v) {
    attr(op, name, kString, [&](WireOut& w) { w.text(5, v); });
  }
  static void integers(Op& op, const std::string& name, const std::vector<int64_t>& v, bool wide = false) {
    attr(op, name, wide ? kLongs : kInts, [&](WireOut& w) {
      for (int64_t n : v) w.integer(wide ? 15 : 6, n);
    });
  }
  static void reals(Op& op, const std::string& name, const G::Json& list) {
    attr(op, name, kFloats, [&](WireOut& w) {
      for (const G::Json& v : list.at("D")) w.real(7, static_cast<float>(number_of(v)));
    });
  }
  void push(const Op& op) { ops_.push_back(wire(op)); }
  static WireOut wire(const Op& op) {
    WireOut w;
    const auto slots = [&](uint32_t field, const auto& list) {
      for (const auto& [slot, names] : list) {
        WireOut a;
        a.text(1, slot);
        for (const std::string& n : names) a.text(2, n);
        w.message(field, a);
      }
    };
    slots(1, op.inputs), slots(2, op.outputs);
    w.text(3, op.type);
    for (const auto& [name, a] : op.attrs) w.message(4, a);
    return w;
  }

  // ---- names ----
  void name_result(const G::Record& r) {
    const std::string& name = program_.outputs[static_cast<size_t>(integer_of(r, "col"))].name;
    if (taken_.insert(name).second) names_.emplace(r.in[0], name);
  }
  std::string fresh(const std::string& base) {
    for (;;)
      if (std::string n = cat(base, "_", count_++); taken_.insert(n).second) return n;
  }
  const std::string& made(Id id, const std::string& base) {  // an operator's result: a variable of its own
    const auto it = names_.find(id);
    const std::string& name = it != names_.end() ? it->second : names_.emplace(id, fresh(base)).first->second;
    var(name, g_.type(id), false, false, true, false);
    return name;
  }
  const std::string& name(Id id) {  // of an argument; constants become variables at their first use
    const auto c = constants_.find(id);
    if (c != constants_.end() && written_.insert(id).second) write_constant(id, c->second);
    return names_.at(id);
  }
  void write_constant(Id id, const Constant& c) {
    Op op;
    bool same = true;
    for (size_t i = 0; i < c.numbers.size(); ++i)
      same = same && c.numbers[i] == c.numbers[0] && c.whole[i] == c.whole[0];
    op.outputs = {{"Out", {made(id, "constant")}}};
    // Paddle reads str_value as a double, too.
    const bool wide =
        is_integral(c.dtype) && c.dims.empty() && static_cast<long double>(c.whole[0]) != c.numbers[0];
    if (same && !wide && !c.numbers.empty()) {
      op.type = "fill_constant";
      integer(op, "dtype", paddle_dtype_number(c.dtype)), integers(op, "shape", c.dims, true),
          real(op, "value", c.numbers[0]);
      std::ostringstream exact;
      exact.precision(17);
      if (is_integral(c.dtype)) exact << c.whole[0];
      else exact << c.numbers[0];
      text(op, "str_value", exact.str());
    } else {
      op.type = "assign_value";
      integer(op, "dtype", paddle_dtype_number(c.dtype)), integers(op, "shape", c.dims),
          scalars(op, "values", c);
    }
    push(op);
  }
  static void scalars(Op& op, const std::string& name, const Constant& c) {
    attr(op, name, kScalars, [&](WireOut& w) {
      for (size_t i = 0; i < c.numbers.size(); ++i) {
        WireOut s;
        const bool whole = is_integral(c.dtype);
        s.integer(1, whole ? 2 : 3);  // LONG, FLOAT64
        if (whole) s.integer(3, c.whole[i]);
        else s.real64(4, c.numbers[i]);
        w.message(21, s);
      }
    });
  }

  // ---- attributes of a record ----
  static const G::Json* find(const G::Record& r, const char* name) {
    for (const G::Attr& a : r.attrs)
      if (a.name == name) return &a.value;
    return nullptr;
  }
  static int64_t integer_of(const G::Record& r, const char* name) {
    return find(r, name)->at("D").get<int64_t>();
  }
  static double number_of(const G::Json& j) {
    if (!j.contains("VD")) return j.at("D").get<double>();
    const std::string v = j.at("VD");
    return v == "NaN" ? NAN : v == "INF" ? INFINITY : -INFINITY;
  }
  static void add_number(Constant* c, const G::Json& j) {
    c->numbers.push_back(number_of(j));
    c->whole.push_back(j.contains("D") && j.at("D").is_number_integer() ? j.at("D").get<int64_t>()
                                                                        : nearest(c->numbers.back()));
  }
  static std::vector<int64_t> integers_of(const G::Json& j) {
    std::vector<int64_t> r;
    for (const G::Json& e : j.at("D"))
      r.push_back(e.is_object() ? e.at("D").get<int64_t>() : e.get<int64_t>());
    return r;
  }
  static DType dtype_of(const G::Json& j) {
    DType t = DType::kFloat32;
    dtype_from_name(j.at("D").get<std::string>(), &t);
    return t;
  }
  static void copy_attr(Op& op, const std::string& name, const G::Json& j, const std::string& kind) {
    const std::string type = j.at("#");
    if (type == "0.a_i32" || type == "0.a_i64") integer(op, name, j.at("D").get<int64_t>(), kind == "LONG");
    else if (type == "0.a_f32" || type == "0.a_f64") real(op, name, number_of(j));
    else if (type == "0.a_bool") flag(op, name, j.at("D").get<bool>());
    else if (type == "0.a_str") text(op, name, j.at("D").get<std::string>());
    else if (type == "1.a_dtype") integer(op, name, paddle_dtype_number(dtype_of(j)));
    else if (kind == "FLOATS") reals(op, name, j);
    else if (type == "0.a_array" || type == "1.a_intarray")
      integers(op, name, integers_of(j), kind == "LONGS");
  }

  // ---- operators ----
  void write(const G::Record& r) {
    const std::string type = r.type.substr(r.type.find('.') + 1);
    if (r.type == "0.combine" || r.type == "0.split") return;
    if (r.type == "p") {
      const std::string n = find(r, "name")->at("D");
      names_[r.out[0]] = n, taken_.insert(n);
      return var(n, g_.type(r.out[0]), true, true, !find(r, "trainable")->at("D").get<bool>(), false);
    }
    if (type == "data") return feed(r);
    if (type == "fetch") {
      Op op;
      op.type = "fetch", op.inputs = {{"X", {name(r.in[0])}}}, op.outputs = {{"Out", {"fetch"}}};
      integer(op, "col", integer_of(r, "col"));
      return push(op);
    }
    if (type == "full_int_array") {
      const std::vector<int64_t> v = integers_of(*find(r, "value"));
      constants_[r.out[0]] = {{v.begin(), v.end()}, v, {static_cast<int64_t>(v.size())}, DType::kInt64};
      return;
    }
    if (type == "full") {
      const std::vector<int64_t> dims = integers_of(*find(r, "shape"));
      Constant c{{}, {}, dims, dtype_of(*find(r, "dtype"))};
      add_number(&c, *find(r, "value"));
      constants_[r.out[0]] = std::move(c);
      return;
    }
    if (type == "assign_value_") return assign_value(r);
    if (type == "full_with_tensor") return full_with_tensor(r);
    if (type == "shape64") return shape64(r);
    plain(type, r);
  }
  void feed(const G::Record& r) {
    const std::string n = find(r, "name")->at("D");
    names_[r.out[0]] = n, taken_.insert(n);
    var(n, g_.type(r.out[0]), false, false, true, true);
    Op op;
    op.type = "feed", op.inputs = {{"X", {"feed"}}}, op.outputs = {{"Out", {n}}};
    integer(op, "col", n_inputs_++);
    feeds_.push_back(wire(op));
  }
  void assign_value(const G::Record& r) {
    Constant c{{}, {}, integers_of(*find(r, "shape")), dtype_of(*find(r, "dtype"))};
    for (const G::Json& v : find(r, "values")->at("D")) add_number(&c, v);
    constants_[r.out[0]] = std::move(c);
  }
  void full_with_tensor(const G::Record& r) {
    Op op;
    op.type = "fill_constant",
    op.inputs = {{"ValueTensor", {as_line(r.in[0])}}, {"ShapeTensor", {name(r.in[1])}}};
    op.outputs = {{"Out", {made(r.out[0], "full")}}};
    integer(op, "dtype", paddle_dtype_number(dtype_of(*find(r, "dtype")))), integers(op, "shape", {}, true),
        real(op, "value", 0), text(op, "str_value", "0");
    push(op);
  }
  std::string as_line(Id id) {  // [] -> [1]
    if (!g_.type(id).dims.empty()) return name(id);
    Op op;
    op.type = "reshape2", op.inputs = {{"X", {name(id)}}};
    op.outputs = {{"Out", {temporary("line", {g_.type(id).dtype, {1}})}},
                  {"XShape", {temporary("unread", {DType::kFloat32, {0}})}}};
    integers(op, "shape", {1});
    push(op);
    return op.outputs[0].second[0];
  }
  std::string temporary(const char* base, const OpenType& t) {
    const std::string n = fresh(base);
    var(n, t, false, false, true, false);
    return n;
  }
  void shape64(const G::Record& r) {  // 32 bits here
    Op op, cast;
    const OpenType& t = g_.type(r.out[0]);
    op.type = "shape", op.inputs = {{"Input", {name(r.in[0])}}},
    op.outputs = {{"Out", {temporary("shape", {DType::kInt32, t.dims})}}};
    cast.type = "cast", cast.inputs = {{"X", op.outputs[0].second}},
    cast.outputs = {{"Out", {made(r.out[0], "shape")}}};
    integer(cast, "in_dtype", paddle_dtype_number(DType::kInt32)),
        integer(cast, "out_dtype", paddle_dtype_number(DType::kInt64));
    push(op), push(cast);
  }

  void plain(std::string type, const G::Record& r) {
    if (type == "batch_norm_") type = "batch_norm";
    if (type == "tril" || type == "triu") return triangle(type, r);
    static const WriteRow kUnary{"", {"X"}, {"Out"}, {}, {}, {}, {}};
    const WriteRow* row = write_row(type);
    const WriteRow& w = row ? *row : kUnary;
    if (!row && r.in.size() != 1)
      fail(ErrorKind::kNotImplemented, "write_model: Paddle's operator ", type,
           " is not written to .pdmodel. Hint: write .json.");
    Op op;
    op.type = row ? w.old : type;
    for (const G::Attr& a : r.attrs) {
      if (a.name == "place") continue;
      const auto n = w.renamed.find(a.name);
      const std::string& as = n == w.renamed.end() ? a.name : n->second;
      const auto k = w.kinds.find(as);
      copy_attr(op, as, a.value, k == w.kinds.end() ? "" : k->second);
    }
    bool open_sizes = false;
    for (size_t i = 0; i < r.in.size(); ++i) {
      if (!r.in[i]) continue;
      const auto c = w.constants.find(i);
      if (c != w.constants.end() && constants_.count(r.in[i])) {
        const Constant& v = constants_.at(r.in[i]);
        if (c->second.empty()) continue;  // only PIR has it
        const auto k = w.kinds.find(c->second);
        if (c->second == "dim" && v.numbers.empty()) {
          every_axis(op, r, false);
          continue;
        }
        if (is_list(c->second)) integers(op, c->second, v.whole, k != w.kinds.end() && k->second == "LONGS");
        else if (k != w.kinds.end() && k->second == "FLOAT") real(op, c->second, v.numbers[0]);
        else if (is_float(v.dtype)) real(op, c->second, v.numbers[0]);
        else integer(op, c->second, v.whole[0], k != w.kinds.end() && k->second == "LONG");
        continue;
      }
      if (i >= w.inputs.size() || w.inputs[i] == "-") {
        if (i < w.inputs.size()) continue;
        fail(ErrorKind::kNotImplemented, "write_model: argument ", i, " of ", type,
             " is no constant, which .pdmodel cannot hold. Hint: write .json.");
      }
      std::string slot = w.inputs[i];
      if (slot.back() == '*') slot.pop_back();
      std::vector<std::string> names;
      if (slot == "SectionsTensorList") {
        for (Id id : parts_of(r.in[i])) names.push_back(name(id));
        integers(op, "sections", std::vector<int64_t>(names.size(), -1));
      } else if (const auto m = members_.find(r.in[i]); m != members_.end()) {
        for (Id id : m->second) names.push_back(name(id));
      } else {
        names.push_back(name(r.in[i]));
      }
      open_sizes = open_sizes || w.constants.count(i);
      op.inputs.emplace_back(slot, std::move(names));
    }
    if (op.type == "slice" || op.type == "strided_slice")
      integers(op, "infer_flags",
               std::vector<int64_t>(integers_of(*find(r, "axes")).size(), open_sizes ? -1 : 1));
    if (op.type == "one_hot_v2") integer(op, "dtype", paddle_dtype_number(DType::kFloat32));
    if (op.type == "cast") integer(op, "in_dtype", paddle_dtype_number(g_.type(r.in[0]).dtype));
    if (op.type == "reduce_sum") rename_sum_dtype(op, r);
    if (op.type.rfind("reduce_", 0) == 0)
      if (const G::Json* axis = find(r, "axis"); axis && integers_of(*axis).empty()) every_axis(op, r, true);
    complete(op);
    outputs(op, w, r);
    push(op);
  }
  // Paddle's predictor and jit.load translate a file to PIR, and ask for attributes even where a tensor or a
  // default speaks.
  static void complete(Op& op) {
    static const std::set<std::string> broadcast{"equal",      "not_equal",    "less_than",
                                                 "less_equal", "greater_than", "greater_equal"};
    const auto lacks = [&](const char* name) { return !op.attrs.count(name); };
    if ((op.type.rfind("elementwise_", 0) == 0 || broadcast.count(op.type)) && lacks("axis"))
      integer(op, "axis", -1);
    if (op.type == "reshape2" && lacks("shape")) integers(op, "shape", {});
    if (op.type.find("conv2d_transpose") != std::string::npos && lacks("output_size"))
      integers(op, "output_size", {});
    if (op.type == "split" && lacks("num")) integer(op, "num", 0);
    if (op.type == "hard_swish" && lacks("offset"))
      real(op, "threshold", 6), real(op, "scale", 6), real(op, "offset", 3);
    if (op.type.rfind("reduce_", 0) == 0 && lacks("reduce_all")) flag(op, "reduce_all", false);
  }
  static bool is_list(const std::string& attr) {
    static const std::set<std::string> one{"axis", "k", "depth", "pad_value", "value"};
    return !one.count(attr);
  }
  void every_axis(Op& op, const G::Record& r,
                  bool wide) {  // named one by one: jit.load does not look at reduce_all
    std::vector<int64_t> all(g_.type(r.in[0]).dims.size());
    std::iota(all.begin(), all.end(), 0);
    integers(op, "dim", all, wide), flag(op, "reduce_all", true);
  }
  void rename_sum_dtype(Op& op, const G::Record& r) {
    op.attrs.erase("dtype");
    integer(op, "in_dtype", paddle_dtype_number(g_.type(r.in[0]).dtype)),
        integer(op, "out_dtype", paddle_dtype_number(g_.type(r.out[0]).dtype));
  }
  // The one-element tensors that a tensor of open sizes was joined from.
  std::vector<Id> parts_of(Id id) const {
    for (const G::Record& r : g_.records())
      if (r.type == "1.concat" && r.out[0] == id) return members_.at(r.in[0]);
    return {id};
  }
  void outputs(Op& op, const WriteRow& w, const G::Record& r) {
    for (size_t k = 0; k < r.out.size() && k < w.outputs.size(); ++k) {
      std::string slot = w.outputs[k];
      const bool list = slot.back() == '*';
      if (list) slot.pop_back();
      std::vector<std::string> names;
      if (const auto m = members_.find(r.out[k]); list && m == members_.end()) {  // nobody reads them
        for (const OpenType& t : g_.list(r.out[k])) names.push_back(temporary("unread", t));
      } else if (list) {
        for (Id id : m->second) names.push_back(made(id, op.type));
      } else if (op.type == "batch_norm" && (slot == "MeanOut" || slot == "VarianceOut")) {
        names.push_back(name(r.in[slot == "MeanOut" ? 1 : 2]));  // in place
      } else {
        names.push_back(made(r.out[k], op.type));
      }
      op.outputs.emplace_back(slot, std::move(names));
    }
    for (const std::string& slot : w.unread)
      op.outputs.emplace_back(slot, std::vector<std::string>{temporary("unread", {DType::kFloat32, {0}})});
  }
  void triangle(const std::string& type, const G::Record& r) {
    Op op;
    op.type = "tril_triu", op.inputs = {{"X", {name(r.in[0])}}},
    op.outputs = {{"Out", {made(r.out[0], type)}}};
    integer(op, "diagonal", integer_of(r, "diagonal")), flag(op, "lower", type == "tril");
    push(op);
  }

  const PirGraph& g_;
  const TracedProgram& program_;
  std::vector<WireOut> vars_, ops_, feeds_;
  std::map<Id, std::string> names_;
  std::map<Id, std::vector<Id>> members_;
  std::map<Id, Constant> constants_;
  std::set<Id> written_;
  std::set<std::string> taken_{"feed", "fetch"};
  int64_t count_ = 0, n_inputs_ = 0;
};
}  // namespace

void write_program_desc(const TracedProgram& p, const std::string& path, Refusals* dry) {
  Refusals refused;
  const PaddleProgram made = make_paddle_program(p, &refused);
  if (dry) return void(*dry = std::move(refused));
  refused.raise("write_model", "Paddle's operators");
  const WireOut out = DescWriter(made.g, p).program();
  write_paddle(path, out.pieces(), made.weights);
}

}  // namespace yuloh::formats
