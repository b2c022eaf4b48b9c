// SPDX-License-Identifier: Apache-2.0
// What the nanobind part of the binding shares: types and tensors as objects. Failures of the core become
// Python exceptions by themselves (module.cpp registers the translator).
#pragma once
#include <nanobind/nanobind.h>

#include <vector>

#include "py/py_tensor.h"

namespace yuloh::py {
namespace nb = nanobind;

inline nb::object owned(PyObject* p) {  // a new reference; none: the error that is set
  if (!p) throw nb::python_error();
  return nb::steal(p);
}
inline nb::object tensor_object(const Value& v) { return owned(wrap_value(v)); }
template <class List>
nb::list tensor_objects(const List& values) {  // None for no value
  nb::list r;
  for (const Value& v : values) r.append(v ? tensor_object(v) : nb::none());
  return r;
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
