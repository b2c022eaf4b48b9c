// SPDX-License-Identifier: Apache-2.0
// The Python face of the core: the Tensor type and the callables of the op table are raw CPython types
// because their call path is the price of every recorded op (at most a microsecond); everything else is
// nanobind (module.cpp). Nothing here is per op: schemas say how arguments convert, rows say which public
// names exist.
#pragma once
#include <Python.h>

#include <string>
#include <vector>

#include "run/tensor.h"

#if PY_VERSION_HEX < 0x030a0000
inline PyObject* Py_NewRef(PyObject* o) {
  Py_INCREF(o);
  return o;
}
#endif

namespace yuloh::py {

struct PyTensor {
  PyObject_HEAD Tensor* t;
  PyObject* dict;
  PyObject* weakrefs;
};
extern PyTypeObject* g_tensor_type;

inline bool is_tensor(PyObject* o) { return PyObject_TypeCheck(o, g_tensor_type); }
Tensor& tensor_of(PyObject* o);  // throws TypeError
PyObject* wrap(Ref<Tensor> t);   // new reference
PyObject* wrap_value(const Value& v);

// A Python error already set; thrown through C++ frames and turned back at the boundary: `guarded` in raw
// CPython slots, the translator of module.cpp under nanobind.
struct PythonError {};
void set_python_error(const Error& e);  // sets the matching exception type
template <class F>
PyObject* guarded(F f) {
  try {
    return f();
  } catch (const PythonError&) {
  } catch (const Error& e) { set_python_error(e); } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) { PyErr_SetString(PyExc_RuntimeError, e.what()); }
  return nullptr;
}

class Obj {  // owned reference
 public:
  Obj() = default;
  explicit Obj(PyObject* p) : p_(p) {}
  Obj(const Obj& o) : p_(o.p_) { Py_XINCREF(p_); }
  Obj(Obj&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Obj& operator=(Obj o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Obj() { Py_XDECREF(p_); }
  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }
  static Obj borrow(PyObject* p) {
    Py_XINCREF(p);
    return Obj(p);
  }
  static Obj check(PyObject* p) {
    if (!p) throw PythonError();
    return Obj(p);
  }

 private:
  PyObject* p_ = nullptr;
};

// ---- conversions ----
PyObject* dtype_object(DType t);                // borrowed singleton
bool dtype_from_object(PyObject* o, DType* t);  // DType, str, np.dtype, np.float32, float/int/bool
void register_dtype_object(DType t, PyObject* o);
Value value_from_buffer(PyObject* array);  // copies; NumPy arrays and anything with a buffer
Value value_borrowing_buffer(
    PyObject* array);  // no copy where the array is contiguous: it is pinned, and must not change
PyObject* to_numpy(Tensor& t);
int64_t as_int(PyObject* o, std::string_view what);
double as_double(PyObject* o, std::string_view what);
Shape as_shape(PyObject* o, std::string_view what);

// ---- recording ----
PyObject* record_call(const OpDef& op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                      bool inplace_variant);
inline Ref<Buffer> data_of(
    Tensor& t);           // materialise(), with the user's position where a recording may refuse
bool capture_position();  // modes().pos = the user's instruction; true: user code called us directly
DType default_dtype();
void set_default_dtype(DType t);
struct Amp {
  int level = 0;  // 0 off, 1 O1, 2 O2
  DType dtype = DType::kBFloat16;
  std::vector<uint64_t> white, black;  // op uids
};
Amp& amp();
Value amp_cast(const OpDef& op, const Value& v);

PyTypeObject* make_tensor_type();
PyTypeObject* make_op_type();
PyObject* make_op_callable(const OpDef& op, bool inplace_variant, const char* public_name);
PyObject* get_item(PyObject* self, PyObject* index);
int set_item(PyObject* self, PyObject* index, PyObject* value);

inline Ref<Buffer> data_of(Tensor& t) {
  if (modes().tracing) capture_position();
  return t.materialise();
}

}  // namespace yuloh::py
