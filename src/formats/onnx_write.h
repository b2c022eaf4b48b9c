// SPDX-License-Identifier: Apache-2.0
// Writes a TracedProgram as an ONNX model. OnnxGraph is the model being built (a Model, as the reader makes
// it), OnnxNode one node of the program. onnx_rules*.cpp say what each row of the op table becomes; a
// composite row without a rule is recorded as its body, an elementwise one is written as its arithmetic.
// onnx_save.cpp puts it all together.
#pragma once
#include <unordered_map>

#include "formats/model.h"
#include "formats/write_model.h"
#include "formats/write_node.h"

namespace yuloh::formats {

constexpr int kOnnxOpset = 18, kOnnxLeast = 13, kOnnxMost = 22;

class OnnxGraph {
 public:
  using Id = int32_t;  // 0: an input left out
  struct Attr {
    std::string name;
    Attribute value;
  };
  explicit OnnxGraph(int version) : opset(version) {}
  const int opset;

  // Types of inner results are the dtype only: their dims are known where a node of the program ends
  // (set_type).
  Id op(const char* type, const std::vector<Id>& in, DType out, std::vector<Attr> attrs = {}) {
    return ops(type, in, {out}, std::move(attrs))[0];
  }
  std::vector<Id> ops(const char* type, const std::vector<Id>& in, const std::vector<DType>& outs,
                      std::vector<Attr> attrs = {});
  Id ints(const Ints& v);        // int64, one axis
  Id number(double v, DType t);  // shape []
  Id whole(int64_t v, DType t);  // the same, exact beyond 2^53
  Id tensor(const std::vector<double>& v, DType t, std::vector<int64_t> dims);
  Id constant(const Value& v, const std::string& name);  // data as they are
  Id input(const ProgramPort& p);
  void output(const ProgramPort& p, Id id);
  Id unknown(const OpenType& t);  // in place of what cannot be written
  Id cast(Id x, DType t);         // x itself where it has the dtype
  void set_type(Id id, const OpenType& t) { values_[static_cast<size_t>(id)].type = t; }
  const OpenType& type(Id id) const { return values_[static_cast<size_t>(id)].type; }
  DType dtype(Id id) const { return type(id).dtype; }
  size_t rank(Id id) const { return type(id).rank(); }

  // Helpers that several rules need.
  Id binary(const char* type, Id a, Id b) { return op(type, {a, b}, dtype(a)); }
  Id shape_of(Id x) { return op("Shape", {x}, DType::kInt64); }
  Id dim_of(Id x, int64_t axis);          // int64 [1]
  Id join(const std::vector<Id>& parts);  // of int64 [k] each
  Id reshape(Id x, const Ints& dims) { return op("Reshape", {x, ints(dims)}, dtype(x)); }
  Id flat(Id x) { return reshape(x, {-1}); }
  Id unsqueeze(Id x, const Ints& axes) { return op("Unsqueeze", {x, ints(axes)}, dtype(x)); }
  Id squeeze(Id x, const Ints& axes) { return op("Squeeze", {x, ints(axes)}, dtype(x)); }
  Id transpose(Id x, const Ints& perm);
  Id slice(Id x, int64_t axis, int64_t from, int64_t to);
  Id expand(Id x, Id shape) { return op("Expand", {x, shape}, dtype(x)); }
  Id filled(double v, DType t, Id shape);                             // ConstantOfShape
  Id range(Id count, DType t = DType::kInt64);                        // 0, 1... below an int64 [1]
  Id reduce(const char* type, Id x, const Ints& axes, bool keepdim);  // no axes: all
  Id full_where(Id condition, Id x, Id y);                            // Where for every dtype
  ModelNode* producer(Id id);                                         // null: no node
  void add_input(ModelNode* n, Id id) { n->inputs.push_back(name(id)); }
  const std::string& name(Id id) const { return values_[static_cast<size_t>(id)].name; }
  Model finish();  // without what no output needs

 private:
  struct Known {
    std::string name;
    OpenType type;
    int node = -1;
  };
  Id add(std::string name, OpenType t, int node = -1);
  std::string unique(std::string name);
  Id constant(std::string key, const std::string& name, const TensorType& t, Ref<Buffer> b);
  std::vector<Known> values_{{}};
  std::unordered_map<std::string, int> taken_;
  std::unordered_map<std::string, Id> constants_;
  std::unordered_map<std::string, int> count_;
  Model model_;
};

class OnnxNode : public WriteNode {
 public:
  using Id = OnnxGraph::Id;
  OnnxGraph& g;
  std::vector<Id> in, result;  // one per input and output of the node
  std::vector<bool> used;      // outputs that somebody reads
  std::vector<int> readers;    // of each input's value in all

  OnnxNode(OnnxGraph& graph, const TracedProgram& p, const TracedNode& n) : WriteNode{p, n, {}}, g(graph) {}
  Id arg(std::string_view name) const;  // 0: left out
  std::vector<Id> list(std::string_view name) const;
  Id sizes(std::string_view name);  // an int[] or int attribute as int64 [n], open or not
  Id size(const Size& s) { return s.expr ? open_size(*s.expr) : g.ints({s.value}); }
  Id real_id(std::string_view name, DType t);  // a float or int attribute as a number of shape []
  Id open_size(const DimExpr& e);              // int64 [1]
  Ints axes(std::string_view name) const;      // none: all
  int64_t axis(std::string_view name, size_t rank) const;
  DType promoted() const;
  Id op(const char* type, const std::vector<Id>& inputs, std::vector<OnnxGraph::Attr> attrs = {}) {
    return g.op(type, inputs, out[0].dtype, std::move(attrs));
  }
  void done(Id id) { result = {id}; }
  Id reshaped(Id x, const OpenType& t,
              const std::vector<Id>& open_dims);  // to t; open dims in order as int64 [1]

  Id value(const TracedRef& r) const { return (*made)[r.node][r.index]; }
  const std::vector<std::vector<Id>>* made = nullptr;  // of the nodes before
  const std::vector<Id>* port_ids = nullptr;
  std::unordered_map<int32_t, Id>* dim_cache = nullptr;
};

struct OnnxRule {
  void (*write)(OnnxNode&) = nullptr;
  int least_opset = 0;  // below: as if there was no rule
};
struct OnnxRules {  // tables are filled at start
  OnnxRules(std::initializer_list<std::pair<const char*, OnnxRule>> rows);
};
const OnnxRule* find_onnx_rule(const OpDef& op, int opset);
void write_onnx_node(OnnxNode& n);
void write_onnx_expression(OnnxNode& n);
// What becomes of a row: "operators" (a rule), "arithmetic" (its expression), "body" (other rows) or "none".
std::string onnx_support(const OpDef& op, int opset);

void write_onnx(const TracedProgram& p, const std::string& path, const WriteOptions& o, Refusals* dry);
int checked_opset(int opset);  // 0: kOnnxOpset
// As it is in memory. `external_data` as in WriteOptions.
void save_onnx(const Model& m, const std::string& path, int64_t external_data);

}  // namespace yuloh::formats
