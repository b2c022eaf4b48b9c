// SPDX-License-Identifier: Apache-2.0
// The callables of the op table as Python sees them: a raw CPython type, called through vectorcall
// (record.cpp does the work), with the signature and documentation of its row.
#include <Python.h>
#include <structmember.h>

#include <sstream>

#include "py/py_tensor.h"

namespace yuloh::py {
namespace {
struct OpCallable {
  PyObject_HEAD vectorcallfunc vectorcall;
  const OpDef* op;
  bool inplace_variant;
  PyObject* name;
};

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* c = reinterpret_cast<OpCallable*>(self);
  return guarded(
      [&] { return record_call(*c->op, args, PyVectorcall_NARGS(nargsf), kwnames, c->inplace_variant); });
}
PyObject* op_descr_get(PyObject* self, PyObject* obj, PyObject*) {
  if (!obj || obj == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, obj);
}
PyObject* op_repr(PyObject* self) {
  auto* c = reinterpret_cast<OpCallable*>(self);
  return PyUnicode_FromFormat("<op %U: %s>", c->name, c->op->schema);
}
void op_dealloc(PyObject* self) {
  Py_XDECREF(reinterpret_cast<OpCallable*>(self)->name);
  PyTypeObject* t = Py_TYPE(self);
  t->tp_free(self);
  Py_DECREF(t);
}
PyObject* op_get_doc(PyObject* self, void*) {
  auto* c = reinterpret_cast<OpCallable*>(self);
  return PyUnicode_FromFormat("%s\n\n%s", c->op->schema, c->op->doc);
}
PyObject* op_get_name(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<OpCallable*>(self)->name); }
PyObject* op_get_schema(PyObject* self, void*) {
  return PyUnicode_FromString(reinterpret_cast<OpCallable*>(self)->op->schema);
}
// inspect.signature(): built from the schema.
PyObject* op_get_signature(PyObject* self, void*) {
  auto* c = reinterpret_cast<OpCallable*>(self);
  std::string s = "(";
  for (const ArgSpec& a : c->op->args)
    s += cat(s.size() > 1 ? ", " : "", a.name, a.has_default ? "=" + a.default_text : "");
  s += s.size() > 1 ? ", name=None)" : "name=None)";
  return PyUnicode_FromString(s.c_str());
}
PyObject* op_get_module(PyObject*, void*) { return PyUnicode_FromString("yuloh"); }
// As for functions: a copy is the op itself (layers that hold an activation are deep-copied), a pickle its
// public name.
PyObject* op_reduce(PyObject* self, PyObject*) {
  auto* c = reinterpret_cast<OpCallable*>(self);
  std::istringstream names(c->op->python);
  for (std::string name; names >> name;) {
    name = name.substr(name.find('.') + 1) + (c->inplace_variant ? "_" : "");
    Obj found(PyImport_ImportModule("yuloh"));  // the same row has one callable per public name
    std::istringstream path(name);
    for (std::string part; found && std::getline(path, part, '.');)
      found = Obj(PyObject_GetAttrString(found.get(), part.c_str()));
    if (found.get() == self) return PyUnicode_FromString(name.c_str());
    PyErr_Clear();
  }
  return Py_NewRef(c->name);
}
PyTypeObject* g_op_type = nullptr;
}  // namespace

PyTypeObject* make_op_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpCallable, vectorcall), READONLY, nullptr}, {}};
  static PyGetSetDef getset[] = {{"__doc__", op_get_doc, nullptr, nullptr, nullptr},
                                 {"__name__", op_get_name, nullptr, nullptr, nullptr},
                                 {"__qualname__", op_get_name, nullptr, nullptr, nullptr},
                                 {"__module__", op_get_module, nullptr, nullptr, nullptr},
                                 {"__text_signature__", op_get_signature, nullptr, nullptr, nullptr},
                                 {"schema", op_get_schema, nullptr, nullptr, nullptr},
                                 {}};
  static PyMethodDef methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(op_descr_get)},
                                {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(op_dealloc)},
                                {Py_tp_members, members},
                                {Py_tp_getset, getset},
                                {0, nullptr}};
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL _Py_TPFLAGS_HAVE_VECTORCALL
#endif
  static PyType_Spec spec{"yuloh._core.Op", sizeof(OpCallable), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                          slots};
  g_op_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return g_op_type;
}

PyObject* make_op_callable(const OpDef& op, bool inplace_variant, const char* public_name) {
  auto* c = reinterpret_cast<OpCallable*>(g_op_type->tp_alloc(g_op_type, 0));
  if (!c) throw PythonError();
  c->vectorcall = op_vectorcall;
  c->op = &op;
  c->inplace_variant = inplace_variant;
  c->name = PyUnicode_FromString(public_name);
  return reinterpret_cast<PyObject*>(c);
}

}  // namespace yuloh::py
