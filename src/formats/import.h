// SPDX-License-Identifier: Apache-2.0
// Import: from a Model to ops of the table. A Model is recorded anew for every concrete set of input types,
// so whatever it computes from shapes (Shape -> Gather -> Concat -> Reshape) is known while recording and
// folds away; what depends on the inputs' data is read, which is only possible when real tensors are fed
// (run/program.h does either). One mapping per foreign operator, in tables: onnx_ops*.cpp, paddle_ops*.cpp.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/model.h"
#include "ops/op.h"
#include "run/program.h"

namespace yuloh::formats {

class Recorder;
// A sequence: its values. An optional is what it holds; an empty one is an Item of neither kind.
using List = std::shared_ptr<const std::vector<Value>>;

// One input or output: a value or, for sequences and optionals, a list.
struct Item {
  Value value;
  List list;
  int stored_as = 0;
  bool fixed = false;  // the same in every recording: made of weights alone
};

// One foreign node being turned into ops.
class Import {
 public:
  const ModelNode& node;
  int64_t opset() const;  // version that the node's domain is read at
  size_t n_inputs() const { return node.inputs.size(); }
  bool has(size_t i) const;  // given and not left out
  Value in(size_t i) const;
  Value in_or_null(size_t i) const;
  Ints ints(size_t i) const;  // the values of an integer input: known from shapes, or read
  double number(size_t i) const;
  FileTensor host(size_t i) const;         // the value of any input, row-major
  double number_of(const Value& v) const;  // the value of one element made on the way
  bool has_attr(const char* name) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  double real(const char* name, double otherwise) const;
  std::string text(const char* name, const char* otherwise) const;
  Ints ints_attr(const char* name, Ints otherwise) const;
  std::vector<double> reals_attr(const char* name) const;
  std::vector<std::string> texts_attr(const char* name) const;
  const FileTensor& tensor_attr(const char* name) const;
  const ModelGraph& graph_attr(const char* name) const;
  Value attr_value(const char* name) const;                                  // a tensor attribute as a value
  const Attribute* attribute(const char* name) const { return find(name); }  // null: left out
  void out(Value v) { out(0, std::move(v)); }
  void out(size_t i, Value v);
  Values run(const ModelGraph& body,
             const Values& inputs);  // a branch or one iteration; sees the outer names
  void expect_trips(int64_t trips,
                    const ModelGraph& body) const;  // refuses a loop that is too long before it begins
  std::vector<Item> run_items(const ModelGraph& body, std::vector<Item> inputs);  // the same with lists
  // While it lives, a run that a read starts keeps these values: a loop's own state is bound to no name.
  struct Held {
    Held(const Import& i, const std::vector<Item>* items, const std::vector<Values>* lists);
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    Recorder& recorder_;
  };
  bool truth(const Value& v, const char* what) const;  // reads a value that has no name
  Item item(size_t i) const;
  void set_item(size_t i, Item v);
  // ONNX element types (formats/onnx_types.h) of what is held wider than stored, else 0.
  int stored_as(size_t i) const;
  void out_stored_as(size_t i,
                     int type);  // after out(i, ...); otherwise an output of in(0)'s dtype inherits it
  // Sequences and optionals exist only while recording.
  List list_in(size_t i) const;  // null where input i is no list
  void list_out(size_t i, List list);
  [[noreturn]] void unsupported(const std::string& why) const;

 private:
  friend class Recorder;
  Import(Recorder& r, const ModelNode& n) : node(n), recorder_(r) {}
  const Attribute* find(const char* name) const;
  template <class T>
  const T& get(const char* name) const;
  Recorder& recorder_;
};
using ImportFn = std::function<void(Import&)>;

// Tables are filled at start by `const ImportTable rows(Dialect::kOnnx, {{"Relu", [](Import& i) {...}},
// ...})`. A hook from outside (Python, C++) replaces or adds a row for one process.
struct ImportTable {
  ImportTable(Dialect d, std::initializer_list<std::pair<const char*, void (*)(Import&)>> rows);
};
void add_import(Dialect d, const std::string& type, ImportFn fn);
const ImportFn* find_import(Dialect d, const std::string& type);

struct Unsupported {
  std::string type, domain;
  int count = 0;
  std::string place;  // first node of this kind
};
std::vector<Unsupported> unsupported_ops(const Model& m);  // all of them, up front

// The program of a model (run/program.h): weights become data nodes once.
std::shared_ptr<const Program> make_program(std::shared_ptr<const Model> m);

// Data nodes of a model's weights, made once and shared by its recordings. Thread-safe. `make`, if given,
// makes another value of one (wider, rounded, perturbed).
class WeightCache {
 public:
  WeightCache() = default;
  explicit WeightCache(std::function<Value(const Value&)> make) : make_(std::move(make)) {}
  Value get(const FileTensor& t);
  // What nodes make of weights alone (dequantised, transposed, reshaped ones): computed once, null before.
  const std::vector<Item>* folded(const ModelNode* n);
  void fold(const ModelNode* n, std::vector<Item> outputs);

 private:
  std::function<Value(const Value&)> make_;
  std::mutex mu_;
  std::unordered_map<const FileTensor*, Value> made_;
  std::unordered_map<const ModelNode*, std::vector<Item>> folded_;
};
// Sees each named tensor once its node is recorded.
using WatchFn = std::function<void(const ModelNode& node, const std::string& name, const Value& v)>;
// `wide`: every floating-point value in float64, and casts between floating-point types do nothing: what the
// model means rather than what its precision makes of it. Inputs and weights are given wide.
std::vector<Item> record_items(const Model& m, const std::vector<Item>& inputs, WeightCache* weights,
                               const WatchFn& watch = {}, bool wide = false);

// Records the model on these inputs (placeholders or values, in the order of m.graph.inputs); returns its
// outputs.
Values record(const Model& m, const Values& inputs, const WatchFn& watch = {});

}  // namespace yuloh::formats
