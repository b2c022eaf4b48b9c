// SPDX-License-Identifier: Apache-2.0
// Writes a TracedProgram as a Paddle PIR program. PirGraph is the file being built: operators, values with
// types, helpers for what PIR passes as tensors (axes, shapes, sizes that are open). pir_rules.cpp says what
// each row of the op table becomes; a row without a rule there is an elementwise expression and is written as
// its arithmetic.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/write_model.h"
#include "formats/write_node.h"

namespace yuloh::formats {

using PirType = OpenType;

class PirGraph {
 public:
  using Id = int64_t;  // 0: an argument left out
  using Json = nlohmann::json;
  struct Attr {
    std::string name;
    Json value;
  };
  static Attr i32(const char* name, int64_t v) { return {name, scalar("0.a_i32", v)}; }
  static Attr i64(const char* name, int64_t v) { return {name, scalar("0.a_i64", v)}; }
  static Attr f32(const char* name, double v) { return {name, real("0.a_f32", static_cast<float>(v))}; }
  static Attr f64(const char* name, double v) { return {name, real("0.a_f64", v)}; }
  static Attr flag(const char* name, bool v) { return {name, scalar("0.a_bool", v)}; }
  static Attr text(const char* name, const std::string& v) { return {name, scalar("0.a_str", v)}; }
  static Attr i32s(const char* name, const Ints& v) { return {name, array("0.a_i32", v)}; }
  static Attr i64s(const char* name, const Ints& v) { return {name, array("0.a_i64", v)}; }
  static Attr reals(const char* name, const std::vector<double>& v);
  static Attr shape(const char* name, const std::vector<int64_t>& v);
  static Attr dtype(const char* name, std::optional<DType> t);
  static Attr place(bool host = false);

  Id op(const char* type, std::vector<Id> in, std::vector<Attr> attrs, PirType out);
  std::vector<Id> ops(const char* type, std::vector<Id> in, std::vector<Attr> attrs,
                      std::vector<PirType> outs);
  std::vector<Id> list_op(const char* type, std::vector<Id> in, std::vector<Attr> attrs,
                          std::vector<PirType> members);  // one list, taken apart
  struct Out {
    std::vector<PirType> types;
    bool list = types.size() != 1;
  };
  std::vector<Id> mixed(const char* type, std::vector<Id> in, std::vector<Attr> attrs,
                        const std::vector<Out>& outs);  // all, lists taken apart
  Id combine(const std::vector<Id>& ids);
  const std::vector<PirType>& list(Id id) const { return lists_.at(id); }  // the members' types
  Id input(const ProgramPort& p);
  Id parameter(const std::string& name, const PirType& t, bool trainable);
  void fetch(const std::string& name, Id id, int column);
  Id unknown(const PirType& t);                             // in place of what cannot be written
  Id ints(const Ints& v);                                   // a constant tensor of int64
  Id number(double v, DType t, std::vector<int64_t> dims);  // a constant
  Id whole(int64_t v, DType t, std::vector<int64_t> dims);  // the same, exact beyond 2^53
  Id constant(const Value& v);                              // its data
  Id as_one_element(Id x);  // a value without axes as [1]; a number is written anew
  Id cast(Id x, DType t);   // x itself where it has the dtype
  const PirType& type(Id id) const { return types_.at(id); }
  void prune();  // drops what no result needs; inputs and parameters stay
  Json json() const;
  // What was made, in order, for the writer of the older format. A list operator's result is one Id that
  // "0.split" takes apart.
  struct Record {
    std::string type;
    std::vector<Id> in, out;
    std::vector<Attr> attrs;
  };
  const std::vector<Record>& records() const { return records_; }

 private:
  static Json scalar(const char* kind, Json v) { return {{"#", kind}, {"D", std::move(v)}}; }
  static Json real(const char* kind, double v);
  static Json array(const char* kind, const Ints& v);
  static Json type_json(const PirType& t);
  Json out(const PirType& t, Id* id);
  Id full(Attr value, DType t, std::vector<int64_t> dims);
  void push(const char* type, const std::vector<Id>& in, std::vector<Attr> attrs, Json outs,
            const std::vector<Id>& ids);
  Json ops_ = Json::array();
  std::vector<Record> records_;
  std::map<Id, PirType> types_;
  std::map<Id, std::vector<PirType>> lists_;
  std::map<Id, Attr> numbers_;  // the value of what `number` and `whole` made
  Id next_ = 1;
};

// One node of the program being written.
class PirNode : public WriteNode {
 public:
  PirGraph& g;
  std::vector<PirGraph::Id> in;  // one per input of the node
  std::vector<PirGraph::Id> result;

  PirNode(PirGraph& graph, const TracedProgram& p, const TracedNode& n) : WriteNode{p, n, {}}, g(graph) {}
  PirGraph::Id arg(std::string_view name) const;  // 0: left out
  std::vector<PirGraph::Id> list(std::string_view name) const;
  PirGraph::Id sizes(std::string_view name);  // an int[] or int attribute as a tensor of int64, open or not
  PirGraph::Id open_size(const DimExpr& e);   // a tensor of one int64
  PirGraph::Id dim_of(PirGraph::Id x, size_t axis);           // the same
  PirGraph::Id join(const std::vector<PirGraph::Id>& parts);  // tensors of int64 end to end
  void done(PirGraph::Id id) { result = {id}; }

  PirGraph::Id value(const TracedRef& r) const { return (*made)[r.node][r.index]; }
  const std::vector<std::vector<PirGraph::Id>>* made = nullptr;  // of the nodes before
  const std::vector<PirGraph::Id>* port_ids = nullptr;           // of the program's inputs
  std::map<int32_t, PirGraph::Id>* dim_cache = nullptr;
};

using PirRule = void (*)(PirNode&);
struct PirRules {  // tables are filled at start
  PirRules(std::initializer_list<std::pair<const char*, PirRule>> rows);
};
std::string pir_support(const OpDef& op);  // as onnx_support
bool has_pir_rule(
    const OpDef& op);  // written as named; composites without a rule are recorded as their bodies
void write_pir_node(PirNode& n);

// A program in PIR's operators: the base of both of Paddle's formats. What has no counterpart goes to
// `refused`.
struct PaddleProgram {
  PirGraph g;
  std::map<std::string, Value> weights;
};
PaddleProgram make_paddle_program(const TracedProgram& p, Refusals* refused);
// `path` and `prefix`.pdiparams, both written beside before either is renamed. Where something has no
// counterpart nothing is written: it goes to `dry`, if given, and is an error otherwise.
void write_pir(const TracedProgram& p, const std::string& path, Refusals* dry = nullptr);  // .json
void write_program_desc(const TracedProgram& p, const std::string& path,
                        Refusals* dry = nullptr);  // .pdmodel
// What both do in the end.
void write_paddle(const std::string& path, const std::vector<std::string_view>& program,
                  const std::map<std::string, Value>& weights);

}  // namespace yuloh::formats
