// SPDX-License-Identifier: Apache-2.0
// The op table: one row (OpDef) per op. Binding, docs, stubs, serialisation, gradients, checks, kernels and
// cost all derive from the row; there is no `switch` over ops anywhere else. An op file in src/ops/ defines
// rows as constants and lists them in one `const Register rows{...}`. Adding an op touches that file and one
// file in tests/vectors/.
//
// Schema grammar:  name(type arg[=default], ...) -> Tensor[, Tensor...] | Tensor[]
//   Tensor x     input;  Tensor? x=None  optional;  Tensor[] x  list
//   Tensor! x    rebound in place to the next output
//   number x     a tensor or a Python number: becomes an input Value of shape [] in the other operand's dtype
//   value float x  a run-time scalar input of shape [] (f32): changing it never recompiles
//   value int x    the same as int64
//   [static] int | float | bool | str | dtype | int[] | float[]
//                each optionally `?` with default None: part of the structure
#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ir/node.h"
#include "ops/scalar.h"

namespace yuloh {

struct Call;
struct HostCall;

enum class ArgKind : uint8_t {
  kTensor,
  kOptTensor,
  kTensorList,
  kNumber,
  kValueFloat,
  kValueInt,  // inputs
  kInt,
  kFloat,
  kBool,
  kStr,
  kDType,
  kInts,
  kFloats,  // static
};
struct ArgSpec {
  std::string name;
  ArgKind kind;
  bool optional = false;  // static `?`
  bool has_default = false;
  bool inplace = false;      // `!`
  std::string default_text;  // "None", "1e-5", "[1, 1]", "'mean'"
  bool is_input() const { return kind <= ArgKind::kValueInt; }
};

// One elementwise body; built from a captureless lambda over Scalars, optionally with the Call first (static
// attributes).
struct ScalarFn {
  Scalar (*fn)(const Call& c, const Scalar* args) = nullptr;
  int arity = 0;
  ScalarFn() = default;
  template <class F>
  ScalarFn(F) {
    bind<F>(std::make_integer_sequence<int, 12>{});
  }
  explicit operator bool() const { return fn != nullptr; }

 private:
  template <class F, int... K>
  void bind(std::integer_sequence<int, K...>) {
    (try_arity<F, K + 1>(std::make_integer_sequence<int, K + 1>{}), ...);
  }
  template <class F, int N, int... I>
  void try_arity(std::integer_sequence<int, I...>) {
    if constexpr (std::is_invocable_v<F, decltype((void)I, std::declval<Scalar>())...>) {
      fn = [](const Call&, const Scalar* a) { return F{}(a[I]...); };
      arity = N;
    } else if constexpr (std::is_invocable_v<F, const Call&, decltype((void)I, std::declval<Scalar>())...>) {
      fn = [](const Call& c, const Scalar* a) { return F{}(c, a[I]...); };
      arity = N;
    }
  }
};

enum class ReduceKind : uint8_t { kNone, kSum, kProd, kMax, kMin, kAny, kAll };

using InferFn = Types (*)(const Call&);
using ExpandFn = Values (*)(const Call&);
using VjpFn = Values (*)(const Call&,
                         const Values& g);  // one Value (null = none) per input; g entries may be null
using ViewFn = bool (*)(const Call&, const Ints& in_strides, Ints* out_strides,
                        int64_t* offset);  // false: needs a copy
using WriteFn = Value (*)(const Call&, const Value& base, const Value& new_view);
using HostFn = void (*)(const HostCall&);

struct OpDef {
  const char* schema;
  const char* python = "";  // public names, space separated; "paddle.Tensor.x" makes a method
  bool inner = false;       // stands in no graph that users record: gradients, bodies and plans make it
  const char* doc = "";
  InferFn infer = nullptr;
  // Exactly one lowering:
  ScalarFn scalar = {};                   // elementwise over broadcast inputs
  ReduceKind reduce = ReduceKind::kNone;  // schema (Tensor x, int[] axis, bool keepdim ...)
  ExpandFn expand = nullptr;              // a body in simpler ops; definition and fallback
  ViewFn view = nullptr;                  // a strided alias of input 0
  HostFn host = nullptr;                  // a plain loop nest; the reference, last candidate
  // Gradient: derived for scalar rows; explicit elsewhere. A composite without rule is expanded when
  // recorded.
  VjpFn vjp = nullptr;
  const char* needs = "";        // inputs/outputs that vjp reads values of: "x weight out out1"
  WriteFn write = nullptr;       // views: the base after its view was overwritten
  bool no_grad = false;          // not differentiable (integer or boolean results)
  bool random = false;           // takes implicit trailing inputs (int64 seed, int64 offset)
  bool checks = false;           // may raise on data (index ranges): runs before any donated write
  bool inplace_variant = false;  // also make `name_` (elementwise Tensor methods)
  bool takes_narrow = false;     // input 0 may come in half precision, with the static `dtype` to compute in
  bool channels_last = false;    // rank >= 3 operands want channels-last inside a Plan
  bool barrier = false;          // passes neither remove it nor make one of two
  const char* kind = "";     // of kernel, for cost: "conv", "gemm", ...; "": by its lowering (kernel_kind)
  bool contraction = false;  // sums of products: may take bf16 operands for f32 ones (PassOptions)
  // Of a contraction: the axis of input 1 that counts axis 1 of the result, so that a factor per channel may
  // move into the weight; -1: none does. Null: never.
  int64_t (*channel_axis)(const Call&) = nullptr;
  const char* statistics = "";  // inputs that training updates without a gradient: "mean variance"
  bool forwards = false;        // its results are inputs of it: costs nothing in any system
  // Of a system that runs op by op: what it keeps for the gradient beside the results, in bytes of operand 0
  // and of the results; what it copies while the op runs, of all operands and results (advise/eager.cpp).
  struct Eager {
    float first = 0, results = 0, copies = 0;
  } eager = {};
  const char* fills = "";  // a row of the same arguments that works out one extent given as -1
  // ---- filled by the table ----
  std::string name;
  std::vector<ArgSpec> args;
  int n_outputs = 1;        // -1: list, given by infer
  int n_inputs_fixed = -1;  // -1: depends on the call
  uint64_t uid = 0;         // hash of the name: stable across runs
  std::vector<int> inplace_args;
  std::shared_ptr<const Expr> expr;  // derived rows (gradients) carry their expression directly
  const OpDef* base = nullptr;       // derived rows: the op they come from
};

// An op application being inferred, differentiated, expanded or lowered.
struct Call {
  const OpDef& op;
  const Value* in;
  uint32_t n_in;
  const Attrs& attrs;
  const Node* node = nullptr;  // once made: gives outputs

  explicit Call(const Node& n)
      : op(*n.op), in(n.inputs.data()), n_in(n.inputs.size()), attrs(n.attrs), node(&n) {}
  Call(const OpDef& o, const Value* i, uint32_t n, const Attrs& a) : op(o), in(i), n_in(n), attrs(a) {}
  Value operator[](std::string_view arg) const;  // null when an optional is absent
  Values list(std::string_view arg) const;
  Value out(uint32_t i = 0) const;
  const TensorType& type(uint32_t input = 0) const { return in[input].type(); }
  bool has(std::string_view arg) const;
  int64_t integer(std::string_view arg) const;
  double real(std::string_view arg) const;
  bool flag(std::string_view arg) const { return integer(arg) != 0; }
  DType dtype(std::string_view arg) const { return static_cast<DType>(integer(arg)); }
  const std::string& str(std::string_view arg) const;
  Ints ints(std::string_view arg) const;
  std::vector<double> reals(std::string_view arg) const;
  std::string_view name() const { return op.name; }
};

// Strided operands of a reference kernel. Outputs are row-major and allocated; scalars are 0-D operands too.
struct HostOperand {
  void* data;
  DType dtype;
  Shape shape;
  Ints strides;  // elements
  int64_t numel() const { return yuloh::numel(shape); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};
struct HostCall {
  const Call& call;
  const std::vector<HostOperand>& in;
  const std::vector<HostOperand>& out;
};

// ---- the table ----
struct Register {
  Register(std::initializer_list<OpDef> rows);
};
const OpDef* find_op(std::string_view name);  // null when absent
const OpDef& get_op(std::string_view name);
const std::vector<const OpDef*>& all_ops();  // in name order, derived rows excluded
// The expression of a scalar row for given static attributes (cached per row when it has none).
std::shared_ptr<const Expr> scalar_expr(const Call& c);
// Derived row: gradient of a scalar op with respect to input i; args = the op's inputs, then g. Null: always
// zero.
const OpDef* scalar_gradient(const OpDef& op, int input);
const std::string* intern(std::string_view s);  // interned strings: static `str` words are pointers to them
uint32_t needs_inputs(const Node& n);           // bit mask of inputs whose values its vjp reads
uint32_t needs_outputs(const Node& n);
std::string_view kernel_kind(
    const OpDef& op);  // conv, gemm, attention, recurrent, pool, elementwise, reduction, optimizer, other

int words_of(const ArgSpec& a,
             const int64_t* words);  // how many words of `Attrs` an argument takes, given its first

// Schema position <-> inputs of one call: first input and count of argument `i` (0 or 1 for optionals, n for
// lists).
struct InputRange {
  uint32_t first, count;
};
InputRange input_range(const Call& c, int arg);

// ---- random numbers: (seed, offset) is assigned when recorded, reserved by element count ----
struct RngState {
  int64_t seed, offset;
};
RngState rng_state();
void set_rng_state(RngState s);
RngState reserve_rng(int64_t count);  // the state to draw `count` numbers with

// ---- making nodes ----
using AttrValue =
    std::variant<std::monostate, bool, int64_t, double, DType, std::string, Ints, std::vector<double>>;
struct NamedAttr {
  std::string_view name;
  AttrValue value;
  NamedAttr(std::string_view n, bool v) : name(n), value(v) {}
  NamedAttr(std::string_view n, int v) : name(n), value(int64_t{v}) {}
  NamedAttr(std::string_view n, int64_t v) : name(n), value(v) {}
  NamedAttr(std::string_view n, double v) : name(n), value(v) {}
  NamedAttr(std::string_view n, DType v) : name(n), value(v) {}
  NamedAttr(std::string_view n, const char* v) : name(n), value(std::string(v)) {}
  NamedAttr(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
  NamedAttr(std::string_view n, Ints v) : name(n), value(std::move(v)) {}
  NamedAttr(std::string_view n, std::vector<double> v) : name(n), value(std::move(v)) {}
  NamedAttr(std::string_view n, std::monostate) : name(n), value(std::monostate{}) {}
};
struct AttrEncoder {  // words in schema order; used by the binding and by `call`
  Attrs words;
  void add(const ArgSpec& spec, const AttrValue& v);  // monostate = None
  void add_count(int64_t n) { words.push_back(n); }   // Tensor? and Tensor[]: how many inputs
};
// Infers types, sets requires_grad; no side effects otherwise. Composites without a gradient rule expand here
// when gradients are recorded.
Values apply(const OpDef& op, Values inputs, Attrs attrs);
const AttrValue& default_of(const ArgSpec& a);  // the schema default, parsed once
// For bodies and gradients: call("sum", {x}, {{"axis", axes}, {"keepdim", true}}). Missing attributes take
// their defaults. Optional/list arguments: pass inputs in schema order; a null Value = absent optional. One
// Tensor[] takes the rest.
Values call_all(std::string_view op, Values inputs, std::initializer_list<NamedAttr> attrs = {});
Value call(std::string_view op, Values inputs, std::initializer_list<NamedAttr> attrs = {});

}  // namespace yuloh
