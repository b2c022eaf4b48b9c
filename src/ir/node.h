// SPDX-License-Identifier: Apache-2.0
// The graph IR: Value = (Node, output index), Node = one immutable op application. The same nodes are what
// recording makes, what gradients are built from, what passes rewrite and what a Plan is lowered from. Nodes
// carry types (known at once) and, after a Plan ran, buffers for the outputs that somebody still needs.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/ref.h"
#include "base/shape.h"

namespace yuloh {

struct OpDef;
class Node;
void destroy_last(Node* n);  // unwinds iteratively: a chain of a million nodes must not touch the stack

struct Value {
  Ref<Node> node;
  uint32_t index = 0;
  Value() = default;
  Value(Ref<Node> n, uint32_t i = 0) : node(std::move(n)), index(i) {}
  explicit operator bool() const { return static_cast<bool>(node); }
  bool operator==(const Value& o) const { return node == o.node && index == o.index; }
  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int64_t rank() const { return shape().size(); }
  bool requires_grad() const;
};
using Values = SmallVec<Value, 4>;
// Static attributes, encoded as words in schema order (ops/op.h decodes them). Part of the structural hash.
using Attrs = SmallVec<int64_t, 8>;

// Where the user's code recorded a node: an interned code object and an instruction; resolved to file:line on
// error.
struct SourcePos {
  const void* code = nullptr;
  int32_t instr = -1;
  // Which part of a model was being recorded (set_scope of py/, 0: none); what a backward makes of it is -1 -
  // scope.
  int32_t scope = 0;
};

struct Graph;

// What identifies the leaf of a differentiation: owned by the run-time tensor, outlives it only as an empty
// shell.
struct LeafInfo : RefCounted {
  void* owner = nullptr;  // run::Tensor, null once that died
};
using HookFn = std::function<Value(const Value&)>;
struct NodeExtra {
  Ref<LeafInfo> leaf;                                               // op `leaf`
  std::vector<std::pair<uint32_t, std::shared_ptr<HookFn>>> hooks;  // gradient hooks by output index
  std::function<Values(const Values&)> custom_vjp;                  // PyLayer, recompute
  std::shared_ptr<const Graph> replay;  // recompute: from the later inputs of custom_grad to its outputs
  std::shared_ptr<const Graph> region;  // loop bodies
  std::string error;                    // a failed value re-raises this
  int error_kind = 0;
};

class Node : public RefCounted {
 public:
  enum class Kind : uint8_t { kOp, kData, kScalar, kInput };
  struct Output {
    TensorType type;
    Ref<Buffer> buffer;  // set once materialised (kData: always)
  };

  Kind kind = Kind::kOp;
  bool requires_grad = false;
  bool released = false;  // the tape no longer needs this node (a backward without retain_graph passed it)
  bool executed = false;  // its kernel ran; never runs again
  bool traced = false;  // depends on a placeholder: has no value, only a place in the program being recorded
  const OpDef* op = nullptr;
  uint64_t id = 0;              // creation order, process-wide: inputs always have smaller ids
  uint32_t mark = 0, slot = 0;  // scratch of one walk: run/flush.cpp under its lock, plan/ on its own copy
  SourcePos pos;
  SmallVec<Value, 3> inputs;
  Attrs attrs;  // kScalar: the value's bits in attrs[0] (double or int64 by dtype), not hashed; kInput: its
                // number
  SmallVec<Output, 1> outputs;
  std::unique_ptr<NodeExtra> extra;

  NodeExtra& make_extra() {
    if (!extra) extra = std::make_unique<NodeExtra>();
    return *extra;
  }
  bool materialised(uint32_t i) const { return static_cast<bool>(outputs[i].buffer); }
};

inline const TensorType& Value::type() const { return node->outputs[index].type; }
inline bool Value::requires_grad() const { return node && node->requires_grad; }
inline bool pending(const Value& v) {
  return v && v.node->kind == Node::Kind::kOp && !v.node->materialised(v.index);
}

// Leaves.
Value make_data(const TensorType& t, Ref<Buffer> b);
Value make_scalar(DType t, double v);  // a plan input of shape []: changing its value never recompiles
Value make_scalar_int(DType t, int64_t v);
Value make_input(const TensorType& t, int64_t number);  // placeholder inside a Graph
double scalar_as_double(const Node& n);
uint64_t next_node_id();

// Values that C++ code below a user's callback (a gradient hook) still needs: a flush inside it keeps them.
class InFlight {
 public:
  virtual void collect(std::vector<Value>* out) const = 0;
  InFlight* outer() const { return outer_; }

 protected:
  InFlight();
  ~InFlight();

 private:
  InFlight* outer_;
};

class Recording;  // a Program being recorded (run/recording.h)

// The modes that decide semantics (Paddle's own), one object per thread.
struct Modes {
  bool grad = true;
  SourcePos pos;
  InFlight* in_flight = nullptr;  // innermost
  Recording* recording = nullptr;
  bool tracing = false;  // recording on placeholders
};
Modes& modes();
inline InFlight::InFlight() : outer_(modes().in_flight) { modes().in_flight = this; }
inline InFlight::~InFlight() { modes().in_flight = outer_; }

class GradMode {  // scope guard
 public:
  explicit GradMode(bool on) : saved_(modes().grad) { modes().grad = on; }
  ~GradMode() { modes().grad = saved_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool saved_;
};
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

// A closed graph: placeholders in, values out. What passes take and return, and what regions own.
struct Graph {
  std::vector<Value> inputs;   // kInput nodes, in order
  std::vector<Value> outputs;  // may repeat
};
// What the roots reach through values that `inside` accepts; inputs first (by id).
std::vector<Node*> reached(const std::vector<Value>& roots, const std::function<bool(const Value&)>& inside);
std::vector<Node*> topological(const std::vector<Value>& roots);  // stops at materialised values
std::string to_string(const Graph& g);                            // one line per node
std::string_view op_name(const Node& n);

}  // namespace yuloh
