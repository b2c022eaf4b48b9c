// SPDX-License-Identifier: Apache-2.0
// From a Python call to a node: arguments by schema, number operands in the other operand's dtype, promotion,
// AMP casts, the user's position, in-place rebinding, views.
#include <Python.h>
#include <frameobject.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "plan/profile.h"
#include "py/py_tensor.h"
#include "run/dry_run.h"

namespace yuloh::py {
namespace {

// Code objects are interned for the life of the process, so a position is two words and never dangles.
struct CodeInfo {
  bool library;
};
std::unordered_map<const void*, CodeInfo>& codes() {
  static auto* m = new std::unordered_map<const void*, CodeInfo>;
  return *m;
}
std::string g_library_dir;  // code below it is ours: the user's frame lies above

const CodeInfo& code_info(PyCodeObject* code) {
  auto [it, fresh] = codes().try_emplace(code);
  if (fresh) {
    Py_INCREF(code);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) PyErr_Clear();
    if (g_library_dir.empty()) {
      if (PyObject* m = PyImport_ImportModule("yuloh")) {
        if (PyObject* f = PyObject_GetAttrString(m, "__file__")) {
          g_library_dir = PyUnicode_AsUTF8(f);
          g_library_dir = g_library_dir.substr(0, g_library_dir.rfind('/') + 1);
          Py_DECREF(f);
        }
        Py_DECREF(m);
      }
      PyErr_Clear();
    }
    it->second.library = file && !g_library_dir.empty() &&
                         std::string_view(file).substr(0, g_library_dir.size()) == g_library_dir;
  }
  return it->second;
}

int frame_instr(PyFrameObject* f) {
#if PY_VERSION_HEX >= 0x030b0000
  return PyFrame_GetLasti(f);
#elif PY_VERSION_HEX >= 0x030a0000
  return f->f_lasti * 2;
#else
  return f->f_lasti;
#endif
}

// A Python number at one place of the program: specialised for a few values that simplify, until a second
// distinct value shows up on that line; from then on it is a plan input (DESIGN 3.5).
struct Site {
  double first;
  bool varied;
};
std::unordered_map<uint64_t, Site>& sites() {
  static auto* m = new std::unordered_map<uint64_t, Site>;
  return *m;
}
bool may_specialise(double v, const OpDef& op, int arg) {
  if (modes().tracing)
    return false;  // a number may turn out to depend on a size; TracedProgram specialises later
  const SourcePos& p = modes().pos;
  uint64_t k = reinterpret_cast<uint64_t>(p.code) * 0x9e3779b97f4a7c15ull ^
               static_cast<uint64_t>(static_cast<uint32_t>(p.instr)) << 20 ^ op.uid ^
               static_cast<uint64_t>(arg) << 56;
  auto [it, fresh] = sites().try_emplace(k, Site{v, false});
  if (!fresh && std::bit_cast<uint64_t>(it->second.first) != std::bit_cast<uint64_t>(v))
    it->second.varied = true;
  if (it->second.varied) return false;
  return v == 0 || v == 1 || v == -1 || v == 2 || v == 0.5;
}

Value number_value(PyObject* o, DType t, const OpDef& op, int arg) {
  const bool integral = PyLong_Check(o) || PyBool_Check(o);
  if (integral && is_integral(t)) {
    const int64_t i = as_int(o, op.args[arg].name);
    if (may_specialise(static_cast<double>(i), op, arg))
      return call("full", {}, {{"shape", Ints()}, {"value", static_cast<double>(i)}, {"dtype", t}});
    return make_scalar_int(t, i);
  }
  const double d = as_double(o, op.args[arg].name);
  if (may_specialise(d, op, arg)) return call("full", {}, {{"shape", Ints()}, {"value", d}, {"dtype", t}});
  return make_scalar(t, d);
}

bool is_number(PyObject* o) {
  return PyFloat_Check(o) || PyLong_Check(o) || PyBool_Check(o) ||
         (!is_tensor(o) && PyNumber_Check(o) && !PyObject_CheckBuffer(o)) ||
         (!is_tensor(o) && PyObject_HasAttrString(o, "dtype") && PyObject_HasAttrString(o, "item") &&
          !PyList_Check(o) && PyObject_HasAttrString(o, "ndim") && [&] {
            Obj n(PyObject_GetAttrString(o, "ndim"));
            return n && PyLong_AsLong(n.get()) == 0;
          }());
}

[[noreturn]] void bad_argument(const OpDef& op, const ArgSpec& a, PyObject* o, const char* expected) {
  type_error(op.name, ": argument `", a.name, "` has the wrong type, got ", Py_TYPE(o)->tp_name,
             "; expected ", expected, ".");
}

struct Arguments {
  PyObject* slot[24] = {};
};

// Spellings that Paddle 3.3 accepts beside its own argument names.
const char* alias_of(std::string_view name) {
  if (name == "input") return "x";
  if (name == "x") return "input";
  if (name == "dim") return "axis";
  if (name == "other") return "y";
  return nullptr;
}

void place_arguments(const OpDef& op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                     Arguments* out) {
  const Py_ssize_t n_args = static_cast<Py_ssize_t>(op.args.size());
  Py_ssize_t npos = nargs;
  if (npos == n_args + 1) --npos;  // trailing positional name=
  if (npos > n_args)
    type_error(op.name, ": too many arguments, got ", nargs, "; expected at most ", n_args, ": ", op.schema,
               ".");
  for (Py_ssize_t i = 0; i < npos; ++i) out->slot[i] = args[i];
  if (!kwnames) return;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
    const char* kw = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
    int at = -1;
    for (Py_ssize_t i = 0; i < n_args && at < 0; ++i)
      if (op.args[i].name == kw) at = static_cast<int>(i);
    if (at < 0)
      if (const char* alias = alias_of(kw))
        for (Py_ssize_t i = 0; i < n_args && at < 0; ++i)
          if (op.args[i].name == alias) at = static_cast<int>(i);
    if (at < 0) {
      if (std::string_view(kw) == "name" || std::string_view(kw) == "out") continue;
      type_error(op.name, ": unknown argument `", kw, "`; expected ", op.schema, ".");
    }
    if (out->slot[at]) type_error(op.name, ": argument `", kw, "` is given twice.");
    out->slot[at] = args[nargs + k];
  }
}

// An update op runs once per parameter, with the same numbers nearly every time: equal ones of consecutive
// calls are one leaf, so that a step of 158 parameters has four scalars and not 632.
Value update_value(PyObject* o, DType t, const OpDef& op, int arg) {
  constexpr int kArgs = 16;
  struct Last {
    const OpDef* op = nullptr;
    Value value[kArgs];
  };
  static thread_local Last last;
  if (arg >= kArgs || t != DType::kFloat32 || !PyFloat_CheckExact(o) || modes().recording || modes().tracing)
    return number_value(o, t, op, arg);
  if (last.op != &op) last = {&op, {}};
  Value& v = last.value[arg];
  if (v && std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(o)) == v.node->attrs[0]) return v;
  Value fresh = number_value(o, t, op, arg);
  v = fresh.node->kind == Node::Kind::kScalar ? fresh : Value();
  return fresh;
}

AttrValue static_value(const OpDef& op, const ArgSpec& a, PyObject* o) {
  if (o == Py_None) {
    if (a.optional || a.kind == ArgKind::kInts || a.kind == ArgKind::kFloats) return std::monostate{};
    if (a.kind == ArgKind::kDType) return default_dtype();
    if (a.has_default) return default_of(a);
    bad_argument(op, a, o, "a value");
  }
  switch (a.kind) {
    case ArgKind::kInt: return as_int(o, a.name);
    case ArgKind::kFloat: return as_double(o, a.name);
    case ArgKind::kBool: {
      const int b = PyObject_IsTrue(o);
      if (b < 0) throw PythonError();
      return b != 0;
    }
    case ArgKind::kStr: {
      const char* s = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : nullptr;
      if (!s) bad_argument(op, a, o, "a str");
      return std::string(s);
    }
    case ArgKind::kDType: {
      DType t;
      if (!dtype_from_object(o, &t)) {
        if (PyUnicode_Check(o))
          type_error(op.name, ": argument `", a.name, "` names no dtype, got '", PyUnicode_AsUTF8(o),
                     "'; expected 'float32', 'bfloat16', 'int64', 'bool', ...");
        bad_argument(op, a, o, "a dtype");
      }
      return t;
    }
    case ArgKind::kInts: {
      const Shape s = as_shape(o, a.name);
      return Ints(s.begin(), s.end());
    }
    case ArgKind::kFloats: {
      std::vector<double> r;
      if (PyFloat_Check(o) || PyLong_Check(o)) return std::vector<double>{as_double(o, a.name)};
      const Obj seq = Obj::check(PySequence_Fast(o, "expected a sequence of numbers"));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(seq.get()); ++i)
        r.push_back(as_double(PySequence_Fast_GET_ITEM(seq.get(), i), a.name));
      return r;
    }
    default: break;
  }
  bad_argument(op, a, o, "a static value");
}

// The dtype Python numbers take beside these operands.
DType number_dtype(const OpDef& op, const Arguments& a) {
  bool any = false, float_number = false, int_number = false;
  DType t = DType::kBool;
  for (size_t i = 0; i < op.args.size(); ++i) {
    PyObject* o = a.slot[i];
    const ArgSpec& s = op.args[i];
    if (!o || !(s.kind == ArgKind::kNumber || s.kind == ArgKind::kTensor)) continue;
    if (s.name == "condition" || s.name == "mask") continue;
    if (is_tensor(o)) {
      const DType d = tensor_of(o).type().dtype;
      t = any ? promote(t, d) : d;
      any = true;
    } else if (s.kind == ArgKind::kNumber) {
      if (PyLong_Check(o) && !PyBool_Check(o)) int_number = true;
      else if (!PyBool_Check(o)) float_number = true;
    }
  }
  if (float_number && (!any || is_integral(t))) return default_dtype();
  if (int_number && (!any || t == DType::kBool)) return DType::kInt64;
  return t;
}

Value tensor_input(const OpDef& op, const ArgSpec& a, PyObject* o) {
  if (is_tensor(o)) return tensor_of(o).value();
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o)) return value_from_buffer(o);
  bad_argument(op, a, o, "a Tensor");
}

void promote_inputs(Values* in, const std::vector<char>& part) {
  bool differ = false, any = false;
  DType t = DType::kBool;
  for (uint32_t i = 0; i < in->size(); ++i) {
    if (!part[i]) continue;
    const DType d = (*in)[i].dtype();
    if (any && d != t) differ = true;
    t = any ? promote(t, d) : d;
    any = true;
  }
  if (!differ) return;
  for (uint32_t i = 0; i < in->size(); ++i)
    if (part[i] && (*in)[i].dtype() != t) (*in)[i] = call("cast", {(*in)[i]}, {{"dtype", t}});
}
}  // namespace

DType g_default_dtype = DType::kFloat32;
DType default_dtype() { return g_default_dtype; }
void set_default_dtype(DType t) { g_default_dtype = t; }

Amp& amp() {
  thread_local Amp a;
  return a;
}
Value amp_cast(const OpDef& op, const Value& v) {
  const Amp& a = amp();
  if (!is_float(v.dtype()) || v.dtype() == DType::kFloat64) return v;
  const bool white = std::find(a.white.begin(), a.white.end(), op.uid) != a.white.end();
  const bool black = std::find(a.black.begin(), a.black.end(), op.uid) != a.black.end();
  DType want = v.dtype();
  if (black) want = DType::kFloat32;
  else if (white || a.level == 2) want = a.dtype;
  return want == v.dtype() ? v : call("cast", {v}, {{"dtype", want}});
}

// Resolves only on error; recording stores two words.
static std::string resolve_position(const SourcePos& p) {
  const PyGILState_STATE g = PyGILState_Ensure();
  auto* code = reinterpret_cast<PyCodeObject*>(const_cast<void*>(p.code));
  const int line = PyCode_Addr2Line(code, p.instr);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  std::string s = cat(file ? file : "?", ":", line);
  PyGILState_Release(g);
  return s;
}

bool capture_position() {
  static const bool once = (set_position_resolver(resolve_position), true);
  (void)once;
  PyFrameObject* f = PyEval_GetFrame();  // borrowed
  if (!f) return true;
  Py_INCREF(f);
  bool direct = true;
  for (;; direct = false) {
    PyCodeObject* code = PyFrame_GetCode(f);
    const bool library = code_info(code).library;
    modes().pos.code = code, modes().pos.instr = frame_instr(f);
    Py_DECREF(code);  // interned: stays alive
    if (!library) break;
    PyFrameObject* back = PyFrame_GetBack(f);
    if (!back) break;
    Py_DECREF(f);
    f = back;
  }
  Py_DECREF(f);
  return direct;
}

PyObject* record_call(const OpDef& op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                      bool inplace_variant) {
  Arguments given;
  const profile::RecordScope recording;
  place_arguments(op, args, nargs, kwnames, &given);
  const bool from_user = capture_position();
  Context& ctx = Context::current();
  ++ctx.calls;
  // A closed step runs at the first op after it; a full pending graph at the next op that user code itself
  // calls.
  if (ctx.step_closed || (from_user && ctx.over_limit())) ctx.flush();
  Values in;
  AttrEncoder enc;
  std::vector<char> promotable;
  bool any_number = false;
  for (const ArgSpec& a : op.args) any_number = any_number || a.kind == ArgKind::kNumber;
  const DType num = any_number ? number_dtype(op, given) : DType::kFloat32;
  const bool use_amp = amp().level > 0;
  auto add = [&](Value v, bool part) {
    in.push_back(use_amp ? amp_cast(op, v) : std::move(v));
    promotable.push_back(part);
  };
  for (size_t i = 0; i < op.args.size(); ++i) {
    const ArgSpec& a = op.args[i];
    PyObject* o = given.slot[i];
    if (!o && !a.has_default)
      type_error(op.name, ": missing argument `", a.name, "`; expected ", op.schema, ".");
    const bool none = !o || o == Py_None;
    switch (a.kind) {
      case ArgKind::kTensor:
        if (none) bad_argument(op, a, o ? o : Py_None, "a Tensor");
        add(tensor_input(op, a, o), a.name != "condition" && a.name != "mask");
        break;
      case ArgKind::kOptTensor:
        enc.add_count(!none);
        if (!none) add(tensor_input(op, a, o), false);
        break;
      case ArgKind::kTensorList: {
        if (none) {
          enc.add_count(0);
          break;
        }
        if (is_tensor(o)) {
          enc.add_count(1);
          add(tensor_input(op, a, o), true);
          break;
        }
        const Obj seq(PySequence_Fast(o, ""));
        if (!seq) {
          PyErr_Clear();
          bad_argument(op, a, o, "a list of Tensors");
        }
        const Py_ssize_t n = PySequence_Fast_GET_SIZE(seq.get());
        enc.add_count(n);
        for (Py_ssize_t k = 0; k < n; ++k)
          add(tensor_input(op, a, PySequence_Fast_GET_ITEM(seq.get(), k)), true);
        break;
      }
      case ArgKind::kNumber:
      case ArgKind::kValueFloat:
      case ArgKind::kValueInt: {
        const DType t = a.kind == ArgKind::kNumber       ? num
                        : a.kind == ArgKind::kValueFloat ? DType::kFloat32
                                                         : DType::kInt64;
        if (none) {
          if (!a.has_default || a.default_text == "None")
            bad_argument(op, a, Py_None, "a number or a Tensor");
          in.push_back(make_scalar(t, std::strtod(a.default_text.c_str(), nullptr)));
          promotable.push_back(false);
        } else if (is_tensor(o)) {
          add(tensor_of(o).value(), a.kind == ArgKind::kNumber);
        } else if (is_number(o)) {
          in.push_back(
              (op.inplace_args.empty() ? number_value : update_value)(o, t, op, static_cast<int>(i)));
          promotable.push_back(a.kind == ArgKind::kNumber);
        } else {
          add(tensor_input(op, a, o), a.kind == ArgKind::kNumber);
        }
        break;
      }
      default: enc.add(a, o ? static_value(op, a, o) : default_of(a));
    }
  }
  if (DryRun::any() && !in_dry_memory())
    for (const Value& v : in) refuse_dry_operand(v, op.name);
  if (op.scalar && in.size() > 1) promote_inputs(&in, promotable);

  const bool writes = inplace_variant || !op.inplace_args.empty();
  std::vector<Ref<Tensor>> targets;  // tensors rebound to the outputs, in order
  if (inplace_variant) targets.push_back(&tensor_of(given.slot[0]));
  for (int k : op.inplace_args)
    if (given.slot[k] && is_tensor(given.slot[k])) targets.push_back(&tensor_of(given.slot[k]));
  if (inplace_variant && modes().grad && !targets[0]->stop_gradient() && targets[0]->is_leaf())
    value_error(
        op.name,
        "_: a leaf tensor that requires gradients cannot be changed in place. Hint: use paddle.no_grad().");
  if (op.view && op.write && !writes && in.size() == 1 && is_tensor(given.slot[0])) {
    Attrs attrs = enc.words;
    Value v = apply(op, std::move(in), std::move(enc.words))[0];
    return wrap(Tensor::view_of(&tensor_of(given.slot[0]), op, attrs, std::move(v)));
  }
  Values out = apply(op, std::move(in), std::move(enc.words));
  for (const Value& v : out) {
    int64_t n = static_cast<int64_t>(dtype_size(v.dtype()));
    for (Dim d : v.shape()) n *= d;
    ctx.note_bytes(n);
  }
  PyObject* result = nullptr;
  if (writes) {
    for (size_t i = 0; i < targets.size() && i < out.size(); ++i) {
      Value v = out[i];
      if (inplace_variant && !(v.shape() == targets[i]->type().shape))
        value_error(op.name, "_: the result does not fit into the tensor, got shape ", v.shape(),
                    "; expected ", targets[i]->type().shape, ".");
      if (v.dtype() != targets[i]->type().dtype) v = call("cast", {v}, {{"dtype", targets[i]->type().dtype}});
      targets[i]->assign(v);
    }
    result = Py_NewRef(given.slot[inplace_variant ? 0 : op.inplace_args[0]]);
  } else if (out.size() == 1 && op.n_outputs == 1) {
    result = wrap_value(out[0]);
  } else {
    result = op.n_outputs < 0 ? PyList_New(out.size()) : PyTuple_New(out.size());
    for (uint32_t i = 0; i < out.size(); ++i) {
      PyObject* o = wrap_value(out[i]);
      if (op.n_outputs < 0) PyList_SET_ITEM(result, i, o);
      else PyTuple_SET_ITEM(result, i, o);
    }
  }
  if (flags().eager) {
    try {
      ctx.flush();
    } catch (...) {
      Py_XDECREF(result);
      throw;
    }
  }
  return result;
}

}  // namespace yuloh::py
