// SPDX-License-Identifier: Apache-2.0
// `yuloh._core.Tensor`: attributes, operators and the few methods that are not ops. Everything that an op row
// names `paddle.Tensor.x` is attached by the module at start; printing and the like live in
// python/yuloh/tensor.py.
#include <Python.h>
#include <structmember.h>

#include "py/py_tensor.h"
#include "run/dry_run.h"

namespace yuloh::py {
PyTypeObject* g_tensor_type = nullptr;

namespace {
#define SELF tensor_of(self)

template <class F>
PyCFunction method(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

// ---- life ----
PyObject* tensor_new(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }
int tensor_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* src = nullptr;
  if (kwargs && PyDict_Size(kwargs) > 0) {
    PyErr_SetString(PyExc_TypeError,
                    "Tensor: takes no keyword arguments. Hint: use paddle.to_tensor(data, dtype=...).");
    return -1;
  }
  if (!PyArg_ParseTuple(args, "|O", &src)) return -1;
  return guarded([&]() -> PyObject* {
    Ref<Tensor> t;
    if (src && is_tensor(src)) t = make_ref<Tensor>(tensor_of(src));  // another handle on the same storage
    else {
      const DType d = default_dtype();
      Shape empty{0};
      t = make_ref<Tensor>(src ? value_from_buffer(src) : make_data({d, empty}, allocate_buffer({d, empty})));
    }
    auto* p = reinterpret_cast<PyTensor*>(self);
    Ref<Tensor> old(p->t);
    if (p->t) p->t->unref();
    p->t = t.release();
    return Py_None;
  })
             ? 0
             : -1;
}
int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<PyTensor*>(self)->dict);
  Py_VISIT(Py_TYPE(self));
  return 0;
}
int tensor_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<PyTensor*>(self)->dict);
  return 0;
}
void tensor_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* p = reinterpret_cast<PyTensor*>(self);
  if (p->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(p->dict);
  if (p->t && p->t->unref()) destroy_last(p->t);
  PyTypeObject* t = Py_TYPE(self);
  t->tp_free(self);
  Py_DECREF(t);
}

// ---- attributes ----
PyObject* get_shape(PyObject* self, void*) {
  return guarded([&] {
    const Shape& s = SELF.type().shape;
    PyObject* l = PyList_New(s.size());
    for (uint32_t i = 0; i < s.size(); ++i) PyList_SET_ITEM(l, i, PyLong_FromLongLong(s[i]));
    return l;
  });
}
PyObject* get_dtype(PyObject* self, void*) {
  return guarded([&] { return Py_NewRef(dtype_object(SELF.type().dtype)); });
}
PyObject* get_ndim(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromLong(SELF.type().shape.size()); });
}
PyObject* get_size(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromLongLong(numel(SELF.type().shape)); });
}
PyObject* get_stop_gradient(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(SELF.stop_gradient()); });
}
int set_stop_gradient(PyObject* self, PyObject* v, void*) {
  return guarded([&]() -> PyObject* {
    if (!v) type_error("stop_gradient cannot be deleted.");
    SELF.set_stop_gradient(PyObject_IsTrue(v) != 0);
    return Py_None;
  })
             ? 0
             : -1;
}
PyObject* get_grad(PyObject* self, void*) {
  return guarded([&] {
    const Ref<Tensor> g = SELF.gradient();
    if (!g) return Py_NewRef(Py_None);
    return wrap(g);
  });
}
int set_grad(PyObject* self, PyObject* v, void*) {
  return guarded([&]() -> PyObject* {
    Tensor& t = SELF;
    if (DryRun* dry = DryRun::current()) dry->note_gradient(&t);
    t.grad_is_zero = false;
    if (!v || v == Py_None) {
      t.grad = nullptr;
      return Py_None;
    }
    Tensor& g = tensor_of(v);
    if (!(g.type().shape == t.type().shape))
      value_error("grad: shape does not fit, got ", g.type().shape, "; expected ", t.type().shape, ".");
    t.grad = Ref<Tensor>(&g);
    return Py_None;
  })
             ? 0
             : -1;
}
PyObject* get_name(PyObject* self, void*) {
  return guarded([&] {
    static uint64_t next = 0;
    Tensor& t = SELF;
    if (t.name.empty()) t.name = cat("generated_tensor_", next++);
    return PyUnicode_FromString(t.name.c_str());
  });
}
int set_name(PyObject* self, PyObject* v, void*) {
  return guarded([&]() -> PyObject* {
    const char* s = v ? PyUnicode_AsUTF8(v) : nullptr;
    if (!s) throw PythonError();
    SELF.name = s;
    return Py_None;
  })
             ? 0
             : -1;
}
PyObject* get_persistable(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(SELF.persistable); });
}
int set_persistable(PyObject* self, PyObject* v, void*) {
  return guarded([&]() -> PyObject* {
    SELF.persistable = v && PyObject_IsTrue(v);
    return Py_None;
  })
             ? 0
             : -1;
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(SELF.is_leaf()); });
}
PyObject* get_version(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(SELF.version()); });
}

// ---- methods ----
PyObject* m_numpy(PyObject* self, PyObject*, PyObject*) {
  return guarded([&] { return to_numpy(SELF); });
}
PyObject* m_item_at(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    Tensor& t = SELF;
    const TensorType type = t.type();
    int64_t count = numel(type.shape), flat = 0;
    if (count == 0) index_error("item: an empty tensor has no elements, got shape ", type.shape, ".");
    if (n == 0 && count != 1)
      value_error("item: only a tensor of one element has a single value, got shape ", type.shape, ".");
    const Ref<Buffer> b = data_of(t);
    Ints index(type.shape.size(), 0);
    if (n == 1) flat = as_int(args[0], "item");
    if (n == 1) {
      if (flat < -count || flat >= count)
        index_error("item: index out of range, got ", flat, " for ", count, " elements.");
      if (flat < 0) flat += count;
      for (int d = static_cast<int>(index.size()) - 1; d >= 0; --d)
        index[d] = flat % type.shape[d], flat /= type.shape[d];
    } else if (n > 1) {
      if (n != static_cast<Py_ssize_t>(index.size()))
        value_error("item: got ", n, " indices for shape ", type.shape, ".");
      for (Py_ssize_t d = 0; d < n; ++d)
        index[d] = normalize_axis("item", as_int(args[d], "item"), type.shape[d], "index");
    }
    int64_t at = 0;
    for (uint32_t d = 0; d < index.size(); ++d) at += index[d] * b->strides[d];
    const char* p = static_cast<const char*>(b->data()) + at * static_cast<int64_t>(dtype_size(type.dtype));
    if (type.dtype == DType::kBool) return PyBool_FromLong(load_int(p, type.dtype));
    if (is_integral(type.dtype)) return PyLong_FromLongLong(load_int(p, type.dtype));
    return PyFloat_FromDouble(load_double(p, type.dtype));
  });
}
PyObject* m_backward(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"grad_tensor", "retain_graph", "dump_backward_graph_path", nullptr};
  PyObject *g = Py_None, *path = Py_None;
  int retain = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OpO", const_cast<char**>(names), &g, &retain, &path))
    return nullptr;
  return guarded([&] {
    capture_position();
    SELF.backward(g == Py_None ? Value() : tensor_of(g).value(), retain != 0);
    return Py_NewRef(Py_None);
  });
}
PyObject* m_detach(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(SELF.detach()); });
}
PyObject* m_detach_(PyObject* self, PyObject*) {
  return guarded([&] {
    SELF.set_stop_gradient(true);
    return Py_NewRef(self);
  });
}
PyObject* m_clear_gradient(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"set_to_zero", nullptr};
  int zero = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", const_cast<char**>(names), &zero)) return nullptr;
  return guarded([&] {
    SELF.clear_grad(zero != 0);
    return Py_NewRef(Py_None);
  });
}
PyObject* m_retain_grads(PyObject* self, PyObject*) {
  return guarded([&] {
    SELF.retain_grads();
    return Py_NewRef(Py_None);
  });
}
PyObject* m_rebind(PyObject* self, PyObject* other) {
  return guarded([&] {
    Tensor& t = SELF;
    Tensor& o = tensor_of(other);
    const bool stop = t.stop_gradient();
    auto n = make_ref<Tensor>(o);
    n->name = t.name, n->persistable = t.persistable, n->is_parameter = t.is_parameter;
    n->set_stop_gradient(stop);
    auto* p = reinterpret_cast<PyTensor*>(self);
    Ref<Tensor> old(p->t);
    p->t->unref();
    p->t = n.release();
    return Py_NewRef(self);
  });
}
// Lazy: records a new version of the storage; shape must fit, dtype is converted.
PyObject* m_assign_graph(PyObject* self,
                         PyObject* other) {  // as an op would: gradients flow through the new value
  return guarded([&] {
    Tensor& t = SELF;
    const Value v = tensor_of(other).value();
    if (!(v.shape() == t.type().shape))
      value_error("in-place: the result does not fit into the tensor, got shape ", v.shape(), "; expected ",
                  t.type().shape, ".");
    t.assign(v);
    return Py_NewRef(self);
  });
}
PyObject* m_assign(PyObject* self, PyObject* other) {
  return guarded([&] {
    Tensor& t = SELF;
    Value v = is_tensor(other) ? tensor_of(other).detach()->value() : value_from_buffer(other);
    if (!(v.shape() == t.type().shape))
      value_error("set_value: shape does not fit, got ", v.shape(), "; expected ", t.type().shape, ".");
    if (v.dtype() != t.type().dtype) v = call("cast", {v}, {{"dtype", t.type().dtype}});
    t.assign(v);  // v is cut already; through a view, the elements not written keep their gradient
    return Py_NewRef(self);
  });
}

struct PyCallback {  // a Python callable that may be dropped from any thread
  PyObject* f;
  explicit PyCallback(PyObject* o) : f(Py_NewRef(o)) {}
  ~PyCallback() {
    if (!Py_IsInitialized()) return;
    const PyGILState_STATE g = PyGILState_Ensure();
    Py_DECREF(f);
    PyGILState_Release(g);
  }
};
PyObject* m_add_hook(PyObject* self, PyObject* f) {
  return guarded([&] {
    auto cb = std::make_shared<PyCallback>(f);
    auto hook = std::make_shared<HookFn>([cb](const Value& g) -> Value {
      const Obj arg(wrap_value(g));
      const Obj r = Obj::check(PyObject_CallFunctionObjArgs(cb->f, arg.get(), nullptr));
      if (r.get() == Py_None) return {};
      return tensor_of(r.get()).value();
    });
    return PyLong_FromLong(SELF.add_hook(std::move(hook)));
  });
}
PyObject* m_remove_hook(PyObject* self, PyObject* id) {
  return guarded([&] {
    SELF.remove_hook(static_cast<int>(as_int(id, "hook")));
    return Py_NewRef(Py_None);
  });
}
PyObject* m_data_ptr(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromVoidPtr(data_of(SELF)->data()); });
}
PyObject* m_strides(PyObject* self, PyObject*) {
  return guarded([&] {
    const Ref<Buffer> b = data_of(SELF);
    PyObject* l = PyList_New(b->strides.size());
    for (uint32_t i = 0; i < b->strides.size(); ++i)
      PyList_SET_ITEM(l, i, PyLong_FromLongLong(b->strides[i]));
    return l;
  });
}
PyObject* m_share(PyObject* self, PyObject* other) {
  return guarded([&] { return PyBool_FromLong(SELF.cell() == tensor_of(other).cell()); });
}

// ---- operators: the op table under Python's operator names ----
template <const char* kName>
const OpDef& operator_row() {
  static const OpDef& op = get_op(kName);
  return op;
}
bool can_operate(PyObject* o) {
  return is_tensor(o) || PyFloat_Check(o) || PyLong_Check(o) || PyBool_Check(o) || PyObject_CheckBuffer(o) ||
         PyIndex_Check(o) || PyNumber_Check(o);
}
template <const char* kName>
PyObject* binary(PyObject* a, PyObject* b) {
  if (!can_operate(a) || !can_operate(b)) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] {
    PyObject* args[2] = {a, b};
    Obj left;
    if (!is_tensor(a) && PyObject_CheckBuffer(a))
      args[0] = (left = Obj(wrap_value(value_from_buffer(a)))).get();
    return record_call(operator_row<kName>(), args, 2, nullptr, false);
  });
}
template <const char* kName>
PyObject* unary(PyObject* a) {
  return guarded([&] { return record_call(operator_row<kName>(), &a, 1, nullptr, false); });
}
#define OPNAME(x) constexpr char k_##x[] = #x;
// clang-format off
OPNAME(add) OPNAME(subtract) OPNAME(multiply) OPNAME(divide) OPNAME(floor_divide) OPNAME(remainder)
OPNAME(pow) OPNAME(matmul) OPNAME(neg) OPNAME(abs) OPNAME(bitwise_and) OPNAME(bitwise_or) OPNAME(bitwise_xor)
OPNAME(bitwise_not) OPNAME(bitwise_left_shift) OPNAME(bitwise_right_shift) OPNAME(equal) OPNAME(not_equal)
OPNAME(less_than) OPNAME(less_equal) OPNAME(greater_than) OPNAME(greater_equal)
PyObject* power(PyObject* a, PyObject* b, PyObject*) {
  return binary<k_pow>(a, b);
}
// clang-format on
PyObject* positive(PyObject* a) { return Py_NewRef(a); }
PyObject* richcompare(PyObject* a, PyObject* b, int relation) {
  if (!can_operate(b)) Py_RETURN_NOTIMPLEMENTED;
  switch (relation) {
    case Py_LT: return binary<k_less_than>(a, b);
    case Py_LE: return binary<k_less_equal>(a, b);
    case Py_EQ: return binary<k_equal>(a, b);
    case Py_NE: return binary<k_not_equal>(a, b);
    case Py_GT: return binary<k_greater_than>(a, b);
    default: return binary<k_greater_equal>(a, b);
  }
}
Py_hash_t tensor_hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4);
}

PyObject* as_python_number(PyObject* self) { return m_item_at(self, nullptr, 0); }
int nonzero(PyObject* self) {
  const Obj v(as_python_number(self));
  return v ? PyObject_IsTrue(v.get()) : -1;
}
PyObject* to_int(PyObject* self) {
  const Obj v(as_python_number(self));
  return v ? PyNumber_Long(v.get()) : nullptr;
}
PyObject* to_float(PyObject* self) {
  const Obj v(as_python_number(self));
  return v ? PyNumber_Float(v.get()) : nullptr;
}
PyObject* to_index(PyObject* self) {
  const Obj v(as_python_number(self));
  if (!v) return nullptr;
  if (PyBool_Check(v.get()) || PyLong_Check(v.get())) return PyNumber_Long(v.get());
  PyErr_SetString(PyExc_TypeError, "only integer tensors of one element can be used as an index");
  return nullptr;
}
Py_ssize_t length(PyObject* self) {
  Py_ssize_t n = -1;
  guarded([&]() -> PyObject* {
    const Shape& s = SELF.type().shape;
    if (s.empty()) type_error("len() of a 0-D tensor.");
    n = s[0];
    return Py_None;
  });
  return n;
}
PyObject* subscript(PyObject* self, PyObject* index) {
  return guarded([&] { return get_item(self, index); });
}
int ass_subscript(PyObject* self, PyObject* index, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "tensor elements cannot be deleted");
    return -1;
  }
  return guarded([&]() -> PyObject* { return set_item(self, index, value), Py_None; }) ? 0 : -1;
}
PyObject* sq_item(PyObject* self, Py_ssize_t i) {
  const Obj index(PyLong_FromSsize_t(i));
  return subscript(self, index.get());
}
}  // namespace

PyTypeObject* make_tensor_type() {
  static PyGetSetDef getset[] = {
      {"shape", get_shape, nullptr, "Extents, a list of int.", nullptr},
      {"dtype", get_dtype, nullptr, "Element type.", nullptr},
      {"ndim", get_ndim, nullptr, "Number of axes.", nullptr},
      {"size", get_size, nullptr, "Number of elements.", nullptr},
      {"stop_gradient", get_stop_gradient, set_stop_gradient, "False: gradients flow to this tensor.",
       nullptr},
      {"grad", get_grad, set_grad, "Accumulated gradient or None.", nullptr},
      {"name", get_name, set_name, "Name.", nullptr},
      {"persistable", get_persistable, set_persistable, "Kept in state dicts.", nullptr},
      {"is_leaf", get_is_leaf, nullptr, "Whether no recorded op made it.", nullptr},
      {"inplace_version", get_version, nullptr, "How often its storage was rewritten.", nullptr},
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {}};
  static PyMethodDef methods[] = {
      {"numpy", method(m_numpy), METH_VARARGS | METH_KEYWORDS, "A NumPy copy; runs what is pending."},
      {"item", method(m_item_at), METH_FASTCALL, "The value as a Python number."},
      {"backward", method(m_backward), METH_VARARGS | METH_KEYWORDS, "Records gradients into the leaves."},
      {"detach", m_detach, METH_NOARGS, "An alias outside the gradient graph."},
      {"detach_", m_detach_, METH_NOARGS, ""},
      {"clear_grad", method(m_clear_gradient), METH_VARARGS | METH_KEYWORDS, ""},
      {"clear_gradient", method(m_clear_gradient), METH_VARARGS | METH_KEYWORDS, ""},
      {"retain_grads", m_retain_grads, METH_NOARGS, "Keep .grad of this non-leaf tensor."},
      {"_rebind", m_rebind, METH_O, ""},
      {"_assign", m_assign, METH_O, ""},
      {"_assign_graph", m_assign_graph, METH_O, ""},
      {"_add_hook", m_add_hook, METH_O, ""},
      {"_remove_hook", m_remove_hook, METH_O, ""},
      {"data_ptr", m_data_ptr, METH_NOARGS, "Address of the first element."},
      {"get_strides", m_strides, METH_NOARGS, "Strides in elements."},
      {"_is_shared_buffer_with", m_share, METH_O, ""},
      {}};
  static PyMemberDef members[] = {
      {"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weakrefs), READONLY, nullptr},
      {}};
#define SLOT(s, f) \
  { s, reinterpret_cast<void*>(f) }
  static PyType_Slot slots[] = {SLOT(Py_tp_new, tensor_new),
                                SLOT(Py_tp_init, tensor_init),
                                SLOT(Py_tp_dealloc, tensor_dealloc),
                                SLOT(Py_tp_traverse, tensor_traverse),
                                SLOT(Py_tp_clear, tensor_clear),
                                SLOT(Py_tp_getset, getset),
                                SLOT(Py_tp_methods, methods),
                                SLOT(Py_tp_members, members),
                                SLOT(Py_tp_hash, tensor_hash),
                                SLOT(Py_tp_richcompare, richcompare),
                                SLOT(Py_nb_add, binary<k_add>),
                                SLOT(Py_nb_subtract, binary<k_subtract>),
                                SLOT(Py_nb_multiply, binary<k_multiply>),
                                SLOT(Py_nb_true_divide, binary<k_divide>),
                                SLOT(Py_nb_floor_divide, binary<k_floor_divide>),
                                SLOT(Py_nb_remainder, binary<k_remainder>),
                                SLOT(Py_nb_power, power),
                                SLOT(Py_nb_matrix_multiply, binary<k_matmul>),
                                SLOT(Py_nb_negative, unary<k_neg>),
                                SLOT(Py_nb_positive, positive),
                                SLOT(Py_nb_absolute, unary<k_abs>),
                                SLOT(Py_nb_invert, unary<k_bitwise_not>),
                                SLOT(Py_nb_and, binary<k_bitwise_and>),
                                SLOT(Py_nb_or, binary<k_bitwise_or>),
                                SLOT(Py_nb_xor, binary<k_bitwise_xor>),
                                SLOT(Py_nb_lshift, binary<k_bitwise_left_shift>),
                                SLOT(Py_nb_rshift, binary<k_bitwise_right_shift>),
                                SLOT(Py_nb_bool, nonzero),
                                SLOT(Py_nb_int, to_int),
                                SLOT(Py_nb_float, to_float),
                                SLOT(Py_nb_index, to_index),
                                SLOT(Py_mp_length, length),
                                SLOT(Py_mp_subscript, subscript),
                                SLOT(Py_mp_ass_subscript, ass_subscript),
                                SLOT(Py_sq_item, sq_item),
                                {0, nullptr}};
  static PyType_Spec spec{"yuloh._core.Tensor", sizeof(PyTensor), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  g_tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return g_tensor_type;
}

}  // namespace yuloh::py
