// SPDX-License-Identifier: Apache-2.0
// Packages and the first-divergence finder in Python: python/yuloh/inference/{package,divergence}.py are
// written with these.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "diff/compare.h"
#include "diff/subject.h"
#include "formats/package.h"
#include "py/objects.h"
#include "run/recording.h"

namespace yuloh::py {
namespace {
using namespace diff;

Value data_from(nb::handle h) {  // of a Tensor or an array, in memory of its own
  if (!is_tensor(h.ptr())) return value_from_buffer(h.ptr());
  Tensor& t = tensor_of(h.ptr());
  return make_data(t.type(), row_major(t.type(), t.materialise()));
}
std::vector<Value> data_list(nb::handle list) {
  std::vector<Value> r;
  for (nb::handle h : list) r.push_back(data_from(h));
  return r;
}
Values small(const std::vector<Value>& v) { return Values(v.begin(), v.end()); }
formats::PackageExtras extras_from(nb::handle golden, nb::handle warm, const std::string& about) {
  formats::PackageExtras x;
  x.about = about;
  for (nb::handle h : golden) {  // (inputs, outputs, tolerances)
    const nb::tuple t = nb::cast<nb::tuple>(h);
    x.golden.push_back({data_list(t[0]), data_list(t[1]), nb::cast<std::vector<double>>(t[2])});
  }
  for (nb::handle list : warm) { x.warm.push_back(types_from(list)); }
  return x;
}

void bind_packages(nb::module_& m) {
  m.def(
      "write_package",
      [](const std::string& from, const std::string& params, const std::string& to, nb::handle golden,
         nb::handle warm, const std::string& about) {
        formats::PackageExtras x = extras_from(golden, warm, about);
        if (!formats::is_package(from))
          return formats::write_package(*formats::read_model(from, params), to, x);
        const formats::Package p = formats::read_package(from);
        if (x.warm.empty()) x.warm = p.extras.warm;
        if (p.traced) formats::write_package(*p.traced, to, x);
        else formats::write_package(*p.model, to, x);
      },
      nb::arg("source"), nb::arg("params"), nb::arg("path"), nb::arg("golden"), nb::arg("warm"),
      nb::arg("about"),
      "Writes a package of any model file; golden: [(inputs, outputs, absolute tolerances)], warm: [[(shape, "
      "dtype)]].");
  m.def(
      "package_facts",
      [](const std::string& path) {
        const formats::Package p = formats::read_package(path);
        nb::dict d;
        d["about"] = p.extras.about, d["hash"] = p.hash, d["traced"] = static_cast<bool>(p.traced);
        nb::list sections, warm, golden;
        for (const auto& s : p.sections) sections.append(nb::make_tuple(s.name, s.bytes, s.hash));
        for (const auto& types : p.extras.warm) {
          nb::list l;
          for (const TensorType& t : types) l.append(type_object(t));
          warm.append(l);
        }
        for (const auto& s : p.extras.golden)
          golden.append(
              nb::make_tuple(tensor_objects(s.inputs), tensor_objects(s.outputs), nb::cast(s.tolerance)));
        d["sections"] = sections, d["warm"] = warm, d["golden"] = golden;
        return d;
      },
      "What a package holds, after all of it was verified.");
}

nb::object spot_object(const Spot& s) {
  nb::dict d;
  d["name"] = s.name, d["op"] = s.op, d["where"] = s.where, d["inputs"] = nb::cast(s.inputs),
  d["weights"] = nb::cast(s.weights);
  d["shape"] = type_object(s.type)[nb::int_(0)], d["dtype"] = std::string(dtype_name(s.type.dtype)),
  d["product"] = s.product;
  return d;
}
}  // namespace

void bind_divergence(nb::module_& m) {
  bind_packages(m);
  nb::class_<Subject>(m, "Subject", "A program taken apart (diff/subject.h).")
      .def_static(
          "read",
          [](const std::string& path, const std::string& params) { return read_subject(path, params); },
          nb::arg("path"), nb::arg("params") = "")
      .def_prop_ro(
          "inputs", [](const Subject& s) { return s.input_names; }, "Names of the values that it takes.")
      .def_prop_ro("outputs", [](const Subject& s) { return s.outputs; })
      .def_prop_ro("program", [](const Subject& s) { return std::const_pointer_cast<Program>(s.program()); })
      .def(
          "spots",
          [](const Subject& s, nb::handle inputs) {
            nb::list r;
            for (const Spot& x : s.spots(small(data_list(inputs)))) r.append(spot_object(x));
            return r;
          },
          "Inner values in order, as dicts.")
      .def(
          "cut",
          [](const Subject& s, nb::handle known, const std::vector<std::string>& wanted) {
            std::vector<std::pair<std::string, TensorType>> k;
            for (nb::handle h : known) {
              const nb::tuple t = nb::cast<nb::tuple>(h);
              k.emplace_back(nb::cast<std::string>(t[0]), type_from(nb::object(t[1])));
            }
            return s.cut(k, wanted);
          },
          "The stretch from known [(name, (shape, dtype))] to the wanted names.")
      .def(
          "wide",
          [](const Subject& s, nb::handle inputs, double size, uint64_t seed) {
            return tensor_objects(s.record_wide(small(data_list(inputs)), {size, seed}));
          },
          nb::arg("inputs"), nb::arg("size") = 0.0, nb::arg("seed") = 0,
          "Its outputs in float64, inputs and weights perturbed by `size`.")
      .def("save", [](const Subject& s, const std::string& path) { s.save(path); });
  m.def(
      "measure",
      [](nb::handle got, nb::handle expected, nb::handle nudged, double unit, nb::handle type) {
        DType t;
        if (!dtype_from_object(type.ptr(), &t)) type_error("measure: unknown dtype.");
        const Measure x = measure(data_from(got), data_from(expected), data_from(nudged), unit, t);
        nb::dict d;
        d["n"] = x.n, d["max_error"] = x.max_error, d["largest"] = x.largest, d["units"] = x.units;
        d["typical_units"] = x.typical_units, d["systematic"] = x.systematic, d["at"] = x.at,
        d["got"] = x.got;
        d["expected"] = x.expected, d["not_finite"] = x.not_finite, d["overflow"] = x.overflow;
        d["differing"] = x.differing, d["sensitive"] = x.sensitive;
        return d;
      },
      "diff/compare.h: measure.");
  m.def("sketch", [](nb::handle v) {
    const Sketch s = sketch(data_from(v));
    return nb::make_tuple(s.n, s.sum, s.magnitude, s.squares, s.low, s.high);
  });
  m.def("unit_roundoff", [](nb::handle type) {
    DType t;
    return dtype_from_object(type.ptr(), &t) ? unit_roundoff(t) : 0.0;
  });
}

}  // namespace yuloh::py
