// SPDX-License-Identifier: Apache-2.0
// Model files in Python: `_core.FileModel` reads one, lists what is in it and records it on tensors;
// `_core.add_import` hangs a Python function into the mapping table.
#include "py/formats.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "formats/import.h"
#include "formats/onnx_types.h"
#include "py/objects.h"

namespace nb = nanobind;

namespace yuloh::py {
namespace {
using namespace formats;

struct FileModel {
  std::shared_ptr<const Model> model;
  WeightCache weights;
};

Item item_of(PyObject* o) {
  Item i;
  if (o == Py_None) return i;
  if (PyList_Check(o) || PyTuple_Check(o)) {
    auto list = std::make_shared<std::vector<Value>>();
    for (nb::handle h : nb::handle(o)) list->push_back(tensor_of(h.ptr()).value());
    return i.list = list, i;
  }
  return i.value = tensor_of(o).value(), i;
}
nb::object object_of(const Item& i) {
  if (i.value) return tensor_object(i.value);
  if (!i.list) return nb::none();
  return tensor_objects(*i.list);
}

nb::list ports(const std::vector<Port>& ps) {
  nb::list r;
  for (const Port& p : ps) {
    nb::list dims;
    for (size_t d = 0; d < p.dims.size(); ++d)
      if (p.dims[d] >= 0) dims.append(p.dims[d]);
      else if (d < p.dim_names.size() && !p.dim_names[d].empty()) dims.append(p.dim_names[d]);
      else dims.append(nb::none());
    const OnnxTypeInfo* info = p.stored_as ? onnx_type_info(p.stored_as) : nullptr;
    r.append(nb::make_tuple(p.label.empty() ? p.name : p.label,
                            info ? info->name : std::string(dtype_name(p.dtype)),
                            p.ranked ? nb::object(dims) : nb::none()));
  }
  return r;
}

nb::object attribute(const Attribute& a) {
  if (const auto* v = std::get_if<int64_t>(&a)) return nb::cast(*v);
  if (const auto* v = std::get_if<double>(&a)) return nb::cast(*v);
  if (const auto* v = std::get_if<std::string>(&a))
    return nb::steal(PyUnicode_DecodeUTF8(v->data(), v->size(), "replace"));
  if (const auto* v = std::get_if<std::vector<int64_t>>(&a)) return nb::cast(*v);
  if (const auto* v = std::get_if<std::vector<double>>(&a)) return nb::cast(*v);
  if (const auto* v = std::get_if<std::vector<std::string>>(&a)) return nb::cast(*v);
  if (const auto* v = std::get_if<FileTensor>(&a); v && v->buffer)
    return tensor_object(make_data(v->type, v->buffer));
  return nb::none();
}

// Every node, those of branches and loop bodies after the one that owns them.
template <class F>
void each_node(const ModelGraph& g, const F& f) {
  for (const ModelNode& n : g.nodes) {
    f(n);
    for (const auto& [name, a] : n.attrs)
      if (const auto* body = std::get_if<std::shared_ptr<ModelGraph>>(&a); body && *body)
        each_node(**body, f);
  }
}

Dialect dialect_of(const std::string& s) { return s == "onnx" ? Dialect::kOnnx : Dialect::kPaddle; }

// A Python mapping: called with the attributes and the inputs (None where left out), returns one tensor or a
// sequence.
void call_python(Import& i, nb::handle fn) {
  nb::gil_scoped_acquire gil;
  nb::dict attrs;
  for (const auto& [name, a] : i.node.attrs)
    if (const Attribute* v = i.attribute(name.c_str())) attrs[nb::cast(name)] = attribute(*v);
  nb::list args;
  for (size_t k = 0; k < i.n_inputs(); ++k) args.append(i.has(k) ? object_of(i.item(k)) : nb::none());
  nb::object out;
  try {
    out = fn(attrs, *args);
  } catch (nb::python_error& e) {
    e.restore();
    throw PythonError();
  }
  if (is_tensor(out.ptr())) return i.out(tensor_of(out.ptr()).value());
  size_t k = 0;
  for (nb::handle h : out) i.set_item(k++, item_of(h.ptr()));
}
}  // namespace

void bind_formats(nb::module_& m) {
  nb::class_<FileModel>(m, "FileModel", "A model file as read: what it takes, gives and consists of.")
      .def(
          "__init__",
          [](FileModel* self, const std::string& path, const std::string& params) {
            const nb::gil_scoped_release free;
            new (self) FileModel{read_model(path, params), {}};
          },
          nb::arg("path"), nb::arg("params") = "")
      .def_prop_ro(
          "inputs", [](const FileModel& f) { return ports(f.model->graph.inputs); },
          "[(name, dtype, dims or None)]")
      .def_prop_ro("outputs", [](const FileModel& f) { return ports(f.model->graph.outputs); })
      .def_prop_ro("producer", [](const FileModel& f) { return f.model->producer; })
      .def_prop_ro("opsets",
                   [](const FileModel& f) {
                     nb::dict d;
                     for (const auto& [domain, version] : f.model->opsets) d[nb::cast(domain)] = version;
                     return d;
                   })
      .def_prop_ro(
          "weights",
          [](FileModel& f) {
            nb::list r;
            for (const auto& [name, t] : f.model->graph.weights)
              if (t.type.dtype != DType::kString)
                r.append(nb::make_tuple(name, tensor_object(f.weights.get(t))));
            return r;
          },
          "[(name, tensor)] of the data that recordings use.")
      .def_prop_ro("op_types",
                   [](const FileModel& f) {
                     nb::list r;
                     each_node(f.model->graph, [&](const ModelNode& n) {
                       r.append(n.domain.empty() ? n.type : n.domain + "." + n.type);
                     });
                     return r;
                   })
      .def_prop_ro(
          "constants",
          [](const FileModel& f) {
            nb::list r;
            each_node(f.model->graph, [&](const ModelNode& n) {
              for (const auto& [name, a] : n.attrs)
                if (const auto* t = std::get_if<FileTensor>(&a); t && t->buffer)
                  r.append(nb::make_tuple(n.outputs.empty() ? n.name : n.outputs[0],
                                          tensor_object(make_data(t->type, t->buffer))));
            });
            return r;
          },
          "[(name, tensor)] of the tensors that nodes carry as attributes.")
      .def_prop_ro(
          "nodes",
          [](const FileModel& f) {
            nb::list r;
            for (const ModelNode& n : f.model->graph.nodes)
              r.append(nb::make_tuple(n.domain.empty() ? n.type : n.domain + "." + n.type, n.name,
                                      nb::cast(n.inputs), nb::cast(n.outputs)));
            return r;
          },
          "[(operator, name, names of inputs, names of outputs)] of the main graph, in order.")
      .def(
          "unsupported",
          [](const FileModel& f) {
            nb::list r;
            for (const Unsupported& u : unsupported_ops(*f.model))
              r.append(nb::make_tuple(u.domain.empty() ? u.type : u.domain + "." + u.type, u.count, u.place));
            return r;
          },
          "[(operator, count, first place)] of everything without a mapping.")
      .def(
          "record",
          [](FileModel& f, nb::list inputs, nb::object watch) {
            std::vector<Item> in;
            for (nb::handle h : inputs) in.push_back(item_of(h.ptr()));
            WatchFn see;
            if (!watch.is_none())
              see = [&](const ModelNode&, const std::string& name, const Value& v) {
                watch(name, tensor_object(v));
              };
            nb::list out;
            for (const Item& i : record_items(*f.model, in, &f.weights, see)) out.append(object_of(i));
            return out;
          },
          nb::arg("inputs"), nb::arg("watch").none() = nb::none(),
          "Records the model on tensors; returns its outputs.");
  m.def(
      "infer_types",
      [](FileModel& f, nb::list types) {
        std::vector<Item> in;
        for (nb::handle h : types) {
          const nb::tuple t = nb::cast<nb::tuple>(h);
          TensorType type;
          if (!dtype_from_object(nb::object(t[0]).ptr(), &type.dtype))
            type_error("infer_types: unknown dtype.");
          type.shape = as_shape(nb::object(t[1]).ptr(), "infer_types");
          Item i;
          i.value = make_input(type, static_cast<int64_t>(in.size()));
          in.push_back(std::move(i));
        }
        nb::list out;
        for (const Item& i : record_items(*f.model, in, &f.weights)) {
          if (!i.value) type_error("infer_types: an output is a sequence.");
          nb::list dims;
          for (Dim d : i.value.shape()) dims.append(d);
          out.append(nb::make_tuple(std::string(dtype_name(i.value.dtype())), dims));
        }
        return out;
      },
      nb::arg("model"), nb::arg("types"),
      "[(dtype, dims)] of the outputs for inputs of these types, without any data.");
  m.def(
      "add_import",
      [](const std::string& dialect, const std::string& type, nb::object fn) {
        auto held = std::shared_ptr<nb::object>(new nb::object(fn), [](nb::object* o) {
          nb::gil_scoped_acquire gil;
          delete o;
        });
        add_import(dialect_of(dialect), type, [held](Import& i) { call_python(i, *held); });
      },
      nb::arg("dialect"), nb::arg("type"), nb::arg("fn"));
  m.def("has_import", [](const std::string& dialect, const std::string& type) {
    return find_import(dialect_of(dialect), type) != nullptr;
  });
}

}  // namespace yuloh::py
