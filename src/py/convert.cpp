// SPDX-License-Identifier: Apache-2.0
// Python objects <-> core values: dtypes, shapes, buffers (NumPy and anything else with the buffer protocol),
// errors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/strided.h"
#include "py/py_tensor.h"

namespace yuloh::py {
namespace {
PyObject* g_dtypes[kNumDTypes];

// struct-module format characters of native buffers.
bool dtype_of_format(const char* f, Py_ssize_t size, DType* t) {
  if (!f) return *t = DType::kUInt8, true;
  while (*f == '@' || *f == '=' || *f == '<' || *f == '|') ++f;
  if (f[0] == 0 || f[1] != 0) return false;
  switch (*f) {
    case '?': *t = DType::kBool; return true;
    case 'e': *t = DType::kFloat16; return true;
    case 'f': *t = DType::kFloat32; return true;
    case 'd': *t = DType::kFloat64; return true;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      *t = size == 1 ? DType::kInt8 : size == 2 ? DType::kInt16 : size == 4 ? DType::kInt32 : DType::kInt64;
      return true;
    case 'B': *t = DType::kUInt8; return true;
    case 'H': *t = DType::kBFloat16; return true;  // Paddle's convention: uint16 arrays carry bfloat16 bits
    default: return false;
  }
}

// Types that NumPy lacks come out as their bits.
const char* numpy_name(DType t) {
  if (t == DType::kFloat8E4M3 || t == DType::kFloat8E5M2) return "uint8";
  return t == DType::kBFloat16 ? "uint16" : dtype_name(t).data();
}

}  // namespace

Tensor& tensor_of(PyObject* o) {
  if (!is_tensor(o)) type_error("expected a Tensor, got ", Py_TYPE(o)->tp_name, ".");
  Tensor* t = reinterpret_cast<PyTensor*>(o)->t;
  if (!t) type_error("the Tensor was not initialised.");
  return *t;
}
PyObject* wrap(Ref<Tensor> t) {
  auto* p = reinterpret_cast<PyTensor*>(g_tensor_type->tp_alloc(g_tensor_type, 0));
  if (!p) throw PythonError();
  p->t = t.release();
  return reinterpret_cast<PyObject*>(p);
}
PyObject* wrap_value(const Value& v) { return wrap(make_ref<Tensor>(v)); }

void set_python_error(const Error& e) {
  PyObject* kinds[] = {PyExc_ValueError,        PyExc_TypeError,    PyExc_IndexError,          PyExc_KeyError,
                       PyExc_RuntimeError,      PyExc_MemoryError,  PyExc_NotImplementedError, PyExc_OSError,
                       PyExc_ZeroDivisionError, PyExc_OverflowError};
  PyErr_SetString(kinds[static_cast<int>(e.kind())], e.what());
}

void register_dtype_object(DType t, PyObject* o) { g_dtypes[static_cast<int>(t)] = Py_NewRef(o); }
PyObject* dtype_object(DType t) { return g_dtypes[static_cast<int>(t)]; }

bool dtype_from_object(PyObject* o, DType* t) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (g_dtypes[i] == o) return *t = static_cast<DType>(i), true;
  if (PyUnicode_Check(o)) {
    const char* s = PyUnicode_AsUTF8(o);
    return s && dtype_from_name(s, t);
  }
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return *t = DType::kFloat32, true;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return *t = DType::kInt64, true;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return *t = DType::kBool, true;
  // np.dtype('float32').name, np.float32.__name__
  for (const char* attr : {"name", "__name__"}) {
    const Obj n(PyObject_GetAttrString(o, attr));
    if (!n) {
      PyErr_Clear();
      continue;
    }
    if (PyUnicode_Check(n.get()) && dtype_from_name(PyUnicode_AsUTF8(n.get()), t)) return true;
    if (PyUnicode_Check(n.get()) && std::string_view(PyUnicode_AsUTF8(n.get())) == "uint16")
      return *t = DType::kBFloat16, true;
  }
  return false;
}

int64_t as_int(PyObject* o, std::string_view what) {
  if (is_tensor(o)) {
    Tensor& t = tensor_of(o);
    if (numel(t.type().shape) != 1)
      type_error(what, ": expected one integer, got a Tensor of shape ", t.type().shape, ".");
    const Ref<Buffer> b = data_of(t);
    return load_int(b->data(), t.type().dtype);
  }
  const Obj i(PyNumber_Index(o));
  if (!i) {
    PyErr_Clear();
    const double d = PyFloat_Check(o) ? PyFloat_AS_DOUBLE(o) : 0.5;
    if (std::fabs(d) < 0x1p63 && d == std::trunc(d)) return static_cast<int64_t>(d);
    type_error(what, ": expected an integer, got ", Py_TYPE(o)->tp_name, ".");
  }
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(i.get(), &overflow);
  if (overflow) value_error(what, ": the integer does not fit into 64 bits.");
  return v;
}
double as_double(PyObject* o, std::string_view what) {
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (is_tensor(o)) {
    Tensor& t = tensor_of(o);
    if (numel(t.type().shape) != 1)
      type_error(what, ": expected one number, got a Tensor of shape ", t.type().shape, ".");
    const Ref<Buffer> b = data_of(t);
    return load_double(b->data(), t.type().dtype);
  }
  const double d = PyFloat_AsDouble(o);
  if (d == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    type_error(what, ": expected a number, got ", Py_TYPE(o)->tp_name, ".");
  }
  return d;
}
Shape as_shape(PyObject* o, std::string_view what) {
  Shape s;
  if (is_tensor(o)) {
    Tensor& t = tensor_of(o);
    const TensorType type = t.type();
    if (type.shape.size() > 1) type_error(what, ": expected a 1-D Tensor, got shape ", type.shape, ".");
    const Ref<Buffer> b = data_of(t);
    for (int64_t i = 0; i < numel(type.shape); ++i)
      s.push_back(load_int(static_cast<char*>(b->data()) +
                               i * dtype_size(type.dtype) * (type.shape.empty() ? 0 : b->strides[0]),
                           type.dtype));
    return s;
  }
  if (PyLong_Check(o) || PyFloat_Check(o)) {
    s.push_back(as_int(o, what));
    return s;
  }
  const Obj seq(PySequence_Fast(o, ""));
  if (!seq) {
    PyErr_Clear();
    s.push_back(as_int(o, what));  // numpy integers; throws for anything else
    return s;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(seq.get()); ++i)
    s.push_back(as_int(PySequence_Fast_GET_ITEM(seq.get(), i), what));
  return s;
}

Value value_from_buffer(PyObject* array) {
  Py_buffer b;
  if (PyObject_GetBuffer(array, &b, PyBUF_RECORDS_RO) != 0) throw PythonError();
  struct Release {
    Py_buffer* b;
    ~Release() { PyBuffer_Release(b); }
  } release{&b};
  TensorType t;
  if (!dtype_of_format(b.format, b.itemsize, &t.dtype))
    type_error("to_tensor: arrays of this element type are not supported, got format `", b.format, "`.");
  for (int i = 0; i < b.ndim; ++i) t.shape.push_back(b.shape[i]);
  Ref<Buffer> buf = allocate_buffer(t);
  Ints strides;
  for (int i = 0; i < b.ndim; ++i) strides.push_back(b.strides[i]);
  copy_row_major(static_cast<char*>(buf->data()), static_cast<const char*>(b.buf), t.shape, strides,
                 static_cast<size_t>(b.itemsize));
  return make_data(t, std::move(buf));
}

Value value_borrowing_buffer(PyObject* array) {
  auto pinned = std::shared_ptr<Py_buffer>(new Py_buffer(), [](Py_buffer* b) {
    const PyGILState_STATE g = PyGILState_Ensure();
    if (b->obj) PyBuffer_Release(b);
    PyGILState_Release(g);
    delete b;
  });
  TensorType t;
  if (PyObject_GetBuffer(array, pinned.get(), PyBUF_RECORDS_RO) != 0) throw PythonError();
  const Py_buffer& b = *pinned;
  const bool aligned =
      b.itemsize > 0 && reinterpret_cast<uintptr_t>(b.buf) % static_cast<size_t>(b.itemsize) == 0;
  if (!aligned || !PyBuffer_IsContiguous(&b, 'C') || !dtype_of_format(b.format, b.itemsize, &t.dtype))
    return value_from_buffer(array);
  for (int i = 0; i < b.ndim; ++i) t.shape.push_back(b.shape[i]);
  auto storage = make_ref<Storage>();
  storage->data = b.buf, storage->bytes = static_cast<size_t>(b.len), storage->free = [pinned] {};
  auto buf = make_ref<Buffer>();
  buf->storage = std::move(storage), buf->strides = row_major_strides(t.shape);
  return make_data(t, std::move(buf));
}

PyObject* to_numpy(Tensor& t) {
  const TensorType type = t.type();
  const Ref<Buffer> b = data_of(t);
  static PyObject* empty = nullptr;
  if (!empty) {
    const Obj np = Obj::check(PyImport_ImportModule("numpy"));
    empty = PyObject_GetAttrString(np.get(), "empty");
  }
  const Obj shape = Obj::check(PyTuple_New(type.shape.size()));
  for (uint32_t i = 0; i < type.shape.size(); ++i)
    PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(type.shape[i]));
  Obj a = Obj::check(PyObject_CallFunction(empty, "Os", shape.get(), numpy_name(type.dtype)));
  Py_buffer out;
  if (PyObject_GetBuffer(a.get(), &out, PyBUF_WRITABLE | PyBUF_ND) != 0) throw PythonError();
  copy_row_major(static_cast<char*>(out.buf), type, *b);
  PyBuffer_Release(&out);
  return a.release();
}

}  // namespace yuloh::py
