// SPDX-License-Identifier: Apache-2.0
// What program.cpp and advise.cpp share: failures as Python exceptions, types and tensors as objects.
#pragma once
#include <nanobind/nanobind.h>

#include <vector>

#include "py/py_tensor.h"
#include "run/program.h"

namespace yuloh::py {
namespace nb = nanobind;

// A failure of the core as the Python exception it stands for.
template <class F>
auto checked(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const PythonError&) {
    throw nb::python_error();
  } catch (const NeedsData& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (const Error& e) {
    set_python_error(e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  throw nb::python_error();
}

inline nb::object tensor_object(const Value& v) {
  PyObject* o = wrap_value(v);
  if (!o) throw nb::python_error();
  return nb::steal(o);
}
inline nb::object dtype_of(DType t) { return nb::borrow(dtype_object(t)); }

inline TensorType type_from(nb::handle h) {  // (shape, dtype)
  TensorType t;
  const nb::tuple pair = nb::cast<nb::tuple>(h);
  t.shape = as_shape(nb::object(pair[0]).ptr(), "shape");
  if (!dtype_from_object(nb::object(pair[1]).ptr(), &t.dtype)) type_error("program: unknown dtype.");
  return t;
}
inline std::vector<TensorType> types_from(nb::handle list) {
  std::vector<TensorType> r;
  for (nb::handle h : list) r.push_back(type_from(h));
  return r;
}
inline nb::object type_object(const TensorType& t) {
  nb::list shape;
  for (Dim d : t.shape) shape.append(d);
  return nb::make_tuple(shape, dtype_of(t.dtype));
}

}  // namespace yuloh::py
