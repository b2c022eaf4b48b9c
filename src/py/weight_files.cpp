// SPDX-License-Identifier: Apache-2.0
// Weight files in Python: the bytes of a file (mapped, or an object's own) and tensors in them without a
// copy; safetensors both ways. python/yuloh/framework (io.py, torch_files.py) is written with these.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <cstring>

#include "formats/foreign.h"
#include "formats/mapped_file.h"
#include "formats/onnx_types.h"
#include "formats/safetensors.h"
#include "formats/whole_file.h"
#include "py/objects.h"
#include "run/recording.h"

namespace nb = nanobind;

namespace yuloh::py {
namespace {
using namespace formats;

struct FileBytes {
  std::string name;
  Ref<Storage> bytes;
};

// `source`: a path, or bytes, which are kept alive.
void open_bytes(FileBytes* self, nb::handle source, const std::string& name) {
  auto made = std::make_unique<FileBytes>();
  made->name = name;
  if (!PyBytes_Check(source.ptr())) {
    made->bytes = map_file(nb::cast<std::string>(source));
  } else {
    made->bytes = make_ref<Storage>();
    made->bytes->data = PyBytes_AS_STRING(source.ptr()),
    made->bytes->bytes = static_cast<size_t>(PyBytes_GET_SIZE(source.ptr()));
    PyObject* held = Py_NewRef(source.ptr());
    made->bytes->free = [held] {
      const nb::gil_scoped_acquire g;
      Py_DECREF(held);
    };
  }
  new (self) FileBytes(std::move(*made));
}

FileTensor file_tensor(nb::handle h) {
  Tensor& t = tensor_of(h.ptr());
  FileTensor f;
  f.type = t.type(), f.buffer = t.materialise();
  return f;
}

nb::object float8_to_float32(nb::handle h) {
  const FileTensor t = file_tensor(h);
  if (t.type.dtype != DType::kFloat8E4M3 && t.type.dtype != DType::kFloat8E5M2)
    type_error("float8_to_float32: expected a float8 tensor, got ", t.type.dtype, ".");
  const int type = t.type.dtype == DType::kFloat8E4M3 ? kOnnxFloat8E4M3 : kOnnxFloat8E5M2;
  const Ref<Buffer> from = row_major(t.type, t.buffer);
  const TensorType wide{DType::kFloat32, t.type.shape};
  Ref<Buffer> to = allocate_buffer(wide);
  const auto* p = static_cast<const unsigned char*>(from->data());
  auto* q = static_cast<float*>(to->data());
  for (int64_t i = 0, n = numel(wide.shape); i < n; ++i) q[i] = minifloat_to_float(type, p[i]);
  return tensor_object(make_data(wide, std::move(to)));
}
}  // namespace

void bind_weight_files(nb::module_& m) {
  nb::class_<FileBytes>(m, "FileBytes",
                        "The bytes of a file, mapped: FileBytes(path or bytes, name for messages).")
      .def("__init__", &open_bytes, nb::arg("source"), nb::arg("name"))
      .def("__len__", [](const FileBytes& f) { return f.bytes->bytes; })
      .def(
          "read",
          [](const FileBytes& f, size_t offset, size_t n) {
            if (offset > f.bytes->bytes || n > f.bytes->bytes - offset)
              value_error("load: ", f.name, " is cut short: ", n, " bytes at ", offset,
                          " are needed, it has ", f.bytes->bytes, ".");
            return nb::bytes(static_cast<const char*>(f.bytes->data) + offset, n);
          },
          nb::arg("offset"), nb::arg("n"))
      .def(
          "tensor",
          [](const FileBytes& f, const std::string& name, size_t offset, const std::string& element,
             nb::handle shape, nb::handle strides, bool swap) {
            const Shape s = as_shape(shape.ptr(), "load"), by = as_shape(strides.ptr(), "load");
            const FileTensor t = tensor_in(cat(f.name, ": ", name), f.bytes, offset, element, s,
                                           Ints(by.begin(), by.end()), swap);
            return tensor_object(make_data(t.type, t.buffer));
          },
          nb::arg("name"), nb::arg("offset"), nb::arg("element"), nb::arg("shape"), nb::arg("strides"),
          nb::arg("swap") = false,
          "A tensor in it; without a copy where its layout allows. `element`: \"F32\", \"U16\" ...; strides "
          "in elements.")
      .def(
          "safetensors",
          [](const FileBytes& f) {
            const SafeTensors all = read_safetensors(f.name, f.bytes);
            nb::list tensors;
            for (const auto& [name, t] : all.tensors)
              tensors.append(nb::make_tuple(name, tensor_object(make_data(t.type, t.buffer))));
            return nb::make_tuple(tensors, nb::cast(all.metadata));
          },
          "([(name, tensor)], metadata) of a safetensors file.");
  m.def(
      "write_safetensors",
      [](const std::string& path, nb::list tensors, const std::map<std::string, std::string>& metadata) {
        std::vector<std::pair<std::string, FileTensor>> all;
        for (nb::handle h : tensors) {
          const nb::tuple pair = nb::cast<nb::tuple>(h);
          all.emplace_back(nb::cast<std::string>(pair[0]), file_tensor(nb::object(pair[1])));
        }
        write_safetensors(path, all, metadata);
      },
      nb::arg("path"), nb::arg("tensors"), nb::arg("metadata"));
  m.def("sweep_parts", &formats::sweep_parts, nb::arg("path"),
        "Removes what killed writers of this path left beside it.");
  m.def(
      "foreign_kind",
      [](nb::bytes head, size_t bytes) {
        const formats::FileKind k = formats::foreign_kind({head.c_str(), head.size()}, bytes);
        return nb::make_tuple(k.what, k.hint, k.weights);
      },
      nb::arg("head"), nb::arg("bytes"),
      "(what, hint, whether it holds weights) of a file that no reader knows; what is empty for none.");
  m.def("float8_to_float32", &float8_to_float32, nb::arg("x"), "The same values as float32.");
}

}  // namespace yuloh::py
