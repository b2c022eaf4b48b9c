// SPDX-License-Identifier: Apache-2.0
// Indexing: integers, slices, None and Ellipsis become views (slice, squeeze, unsqueeze) that share storage,
// so a write through them reaches the base; tensors, lists and masks are handed to yuloh.tensor_index (gather
// and scatter).
#include <algorithm>

#include "py/py_tensor.h"

namespace yuloh::py {
namespace {

struct Basic {
  Ints axes, starts, ends, strides;  // slices that change something
  Ints drop, add;                    // axes to squeeze (input numbering), axes to insert (output numbering)
  bool advanced = false;
};

bool is_basic_item(PyObject* o) {
  if (o == Py_None || o == Py_Ellipsis || PySlice_Check(o)) return true;
  if (PyBool_Check(o)) return false;
  if (is_tensor(o)) return false;
  return PyLong_Check(o) || (PyIndex_Check(o) && !PyObject_CheckBuffer(o)) ||
         (PyIndex_Check(o) && PyObject_HasAttrString(o, "ndim") && [&] {
           const Obj n(PyObject_GetAttrString(o, "ndim"));
           return n && PyLong_AsLong(n.get()) == 0;
         }());
}

Basic parse(PyObject* index, const Shape& shape) {
  Basic r;
  const Obj tuple = PyTuple_Check(index) ? Obj::borrow(index) : Obj::check(PyTuple_Pack(1, index));
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple.get());
  Py_ssize_t consuming = 0;
  bool ellipsis = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(tuple.get(), i);
    if (!is_basic_item(o)) {
      r.advanced = true;
      return r;
    }
    if (o == Py_Ellipsis) {
      if (ellipsis) index_error("indexing: more than one Ellipsis; expected at most one.");
      ellipsis = true;
    } else if (o != Py_None) {
      ++consuming;
    }
  }
  const int64_t rank = shape.size();
  if (consuming > rank)
    index_error("indexing: too many indices, got ", consuming, " for a tensor of shape ", shape, ".");
  int64_t axis = 0, out = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(tuple.get(), i);
    if (o == Py_None) {
      r.add.push_back(out++);
    } else if (o == Py_Ellipsis) {
      axis += rank - consuming, out += rank - consuming;
    } else if (PySlice_Check(o)) {
      Py_ssize_t start, stop, step;
      PyObject* fields[3] = {reinterpret_cast<PySliceObject*>(o)->start,
                             reinterpret_cast<PySliceObject*>(o)->stop,
                             reinterpret_cast<PySliceObject*>(o)->step};
      bool tensors = false;
      for (PyObject* f : fields) tensors = tensors || is_tensor(f);
      Obj plain;
      if (tensors) {  // x[:n] with a tensor bound: the extent is part of the shape, so it is read
        PyObject* ints[3];
        for (int k = 0; k < 3; ++k)
          ints[k] = fields[k] == Py_None ? Py_NewRef(Py_None)
                                         : PyLong_FromLongLong(as_int(fields[k], "slice bound"));
        plain = Obj::check(PySlice_New(ints[0], ints[1], ints[2]));
        for (PyObject* k : ints) Py_DECREF(k);
        o = plain.get();
      }
      if (PySlice_Unpack(o, &start, &stop, &step) != 0) throw PythonError();
      const Py_ssize_t len = PySlice_AdjustIndices(shape[axis], &start, &stop, step);
      if (start != 0 || step != 1 || len != shape[axis]) {
        r.axes.push_back(axis), r.starts.push_back(start), r.strides.push_back(step);
        const int64_t end = start + (len - 1) * step + (step > 0 ? 1 : -1);
        r.ends.push_back(len == 0  ? start
                         : end < 0 ? -shape[axis] - 1
                                   : end);  // "before element 0" when going down
        if (len == 0) r.strides.back() = 1;
      }
      ++axis, ++out;
    } else {
      const int64_t v = as_int(o, "index");
      if (v < -shape[axis] || v >= shape[axis])
        index_error("indexing: index out of range, got ", v, " for axis ", axis, " of extent ", shape[axis],
                    "; expected ", -shape[axis], " <= index < ", shape[axis], ".");
      const int64_t at = v < 0 ? v + shape[axis] : v;
      r.axes.push_back(axis), r.starts.push_back(at), r.ends.push_back(at + 1), r.strides.push_back(1);
      r.drop.push_back(axis++);
    }
  }
  return r;
}

PyObject* advanced(const char* fn, PyObject* self, PyObject* index, PyObject* value) {
  const Obj m = Obj::check(PyImport_ImportModule("yuloh.tensor_index"));
  const Obj f = Obj::check(PyObject_GetAttrString(m.get(), fn));
  return Obj::check(value ? PyObject_CallFunctionObjArgs(f.get(), self, index, value, nullptr)
                          : PyObject_CallFunctionObjArgs(f.get(), self, index, nullptr))
      .release();
}

Ref<Tensor> step(const Ref<Tensor>& t, std::string_view name, std::initializer_list<NamedAttr> attrs) {
  const Value v = call(name, {t->value()}, attrs);
  return Tensor::view_of(t, *v.node->op, v.node->attrs, v);
}

Ref<Tensor> basic_view(const Ref<Tensor>& self, const Basic& b) {
  Ref<Tensor> t = self;
  if (!b.axes.empty())
    t = step(t, "strided_slice",
             {{"axes", b.axes}, {"starts", b.starts}, {"ends", b.ends}, {"strides", b.strides}});
  if (!b.drop.empty()) t = step(t, "squeeze", {{"axis", b.drop}});
  for (int64_t a : b.add) t = step(t, "unsqueeze", {{"axis", Ints{a}}});
  if (t == self)
    t = step(t, "strided_slice",
             {{"axes", Ints()}, {"starts", Ints()}, {"ends", Ints()}, {"strides", Ints()}});
  return t;
}
}  // namespace

PyObject* get_item(PyObject* self, PyObject* index) {
  Tensor& t = tensor_of(self);
  const Basic b = parse(index, t.type().shape);
  if (b.advanced) return advanced("get", self, index, nullptr);
  capture_position();
  return wrap(basic_view(&t, b));
}

int set_item(PyObject* self, PyObject* index, PyObject* value) {
  Tensor& t = tensor_of(self);
  if (modes().grad && !t.stop_gradient() && t.is_leaf())
    value_error(
        "__setitem__: a leaf tensor that requires gradients cannot be changed in place. Hint: use "
        "paddle.no_grad().");
  const Basic b = parse(index, t.type().shape);
  if (b.advanced) {
    Py_DECREF(advanced("put", self, index, value));
    return 0;
  }
  capture_position();
  const Ref<Tensor> view = basic_view(&t, b);
  const TensorType type = view->type();
  Value v;
  if (is_tensor(value)) v = tensor_of(value).value();
  else if (PyLong_Check(value) && is_integral(type.dtype))
    v = make_scalar_int(type.dtype, as_int(value, "value"));
  else if (PyFloat_Check(value) || PyLong_Check(value))
    v = make_scalar(type.dtype, as_double(value, "value"));
  else if (PyObject_CheckBuffer(value)) v = value_from_buffer(value);
  else {
    const Obj np = Obj::check(PyImport_ImportModule("numpy"));
    const Obj a = Obj::check(PyObject_CallMethod(np.get(), "asarray", "O", value));
    v = value_from_buffer(a.get());
  }
  if (v.dtype() != type.dtype) v = call("cast", {v}, {{"dtype", type.dtype}});
  if (!(v.shape() == type.shape)) {
    Shape s = v.shape();
    while (s.size() > type.shape.size() && s[0] == 1) {  // leading ones of the value are dropped
      s.erase(0);
    }
    if (s.size() != v.shape().size()) v = call("reshape", {v}, {{"shape", Ints(s.begin(), s.end())}});
    if (!(broadcast_shapes("__setitem__", s, type.shape) == type.shape))
      value_error("__setitem__: the value does not fit, got shape ", v.shape(),
                  "; expected something that broadcasts to ", type.shape, ".");
    if (!(s == type.shape))
      v = call("broadcast_to", {v}, {{"shape", Ints(type.shape.begin(), type.shape.end())}});
  }
  view->assign(v);
  return 0;
}

}  // namespace yuloh::py
