// SPDX-License-Identifier: Apache-2.0
// Programs in Python: recording a function on placeholders, the program that comes out, and sessions that run
// one. python/yuloh/jit and python/yuloh/inference are written with these.
#include "run/program.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "formats/import.h"
#include "formats/onnx_write.h"
#include "formats/package.h"
#include "formats/pir_write.h"
#include "formats/write_model.h"
#include "py/objects.h"
#include "run/recording.h"
#include "run/retrace.h"
#include "run/traced.h"

namespace nb = nanobind;

namespace yuloh::py {
namespace {

nb::list ports_object(const std::vector<ProgramPort>& ports) {
  nb::list r;
  for (const ProgramPort& p : ports)
    r.append(nb::make_tuple(p.name, dtype_of(p.dtype), nb::cast(p.dims), nb::cast(p.dim_names)));
  return r;
}
std::vector<ProgramPort> ports_from(nb::handle list) {
  std::vector<ProgramPort> r;
  for (nb::handle h : list) {
    const nb::tuple t = nb::cast<nb::tuple>(h);
    ProgramPort p;
    p.name = nb::cast<std::string>(t[0]);
    if (!dtype_from_object(nb::object(t[1]).ptr(), &p.dtype)) type_error("program: unknown dtype.");
    p.dims = nb::cast<std::vector<int64_t>>(t[2]), p.dim_names = nb::cast<std::vector<std::string>>(t[3]);
    r.push_back(std::move(p));
  }
  return r;
}

// The function being recorded; `close` (or its end) puts everything back.
class Recorder {
 public:
  Recorder(nb::handle types, nb::handle named) {
    Context::current().flush();  // what was pending before has its values now
    no_grad_ = std::make_unique<NoGrad>();
    for (nb::handle h : named) {
      const nb::tuple t = nb::cast<nb::tuple>(h);  // name, tensor, is_parameter
      Tensor& x = tensor_of(nb::object(t[1]).ptr());
      names_.push_back(
          {nb::cast<std::string>(t[0]), x.name, !x.stop_gradient(), nb::cast<bool>(t[2]), x.value()});
      cells_.push_back(x.cell());
    }
    recording_ = std::make_unique<Recording>(true);
    int64_t number = 0;
    for (const TensorType& t : types_from(types)) inputs_.push_back(make_input(t, number++));
  }
  nb::list inputs() const { return tensor_objects(inputs_); }
  std::shared_ptr<Trace> finish(nb::handle outputs) {
    if (!recording_) fail(ErrorKind::kRuntime, "to_static: this recording has ended.");
    std::vector<Value> out;
    for (nb::handle h : outputs) out.push_back(tensor_of(h.ptr()).value());
    return std::make_shared<Trace>(take_trace(*recording_, inputs_, out, names_));
  }
  std::vector<std::string> written() const {  // state that the function changed
    std::vector<std::string> r;
    if (recording_)
      for (const auto& [cell, old] : recording_->written())
        for (size_t i = 0; i < cells_.size(); ++i)
          if (cells_[i] == cell) r.push_back(names_[i].name);
    return r;
  }
  void close() { recording_.reset(), no_grad_.reset(); }

 private:
  std::unique_ptr<NoGrad> no_grad_;
  std::unique_ptr<Recording> recording_;
  std::vector<Value> inputs_;
  std::vector<NamedValue> names_;
  std::vector<Ref<Cell>> cells_;
};

// A NumPy array that is only read while a session runs: no copy.
Value borrowed_array(nb::handle h) {
  PyObject* o = h.ptr();
  if (is_tensor(o)) {
    Tensor& t = tensor_of(o);
    const Ref<Buffer> b = t.materialise();
    return make_data(t.type(), b);
  }
  if (!PyObject_CheckBuffer(o))
    type_error("run: expected Tensors or NumPy arrays, got an input of type ", Py_TYPE(o)->tp_name, ".");
  return value_borrowing_buffer(o);
}

std::vector<Value> values_from(nb::handle list) {
  std::vector<Value> r;
  for (nb::handle h : list) r.push_back(tensor_of(h.ptr()).value());
  return r;
}

nb::list describe_nodes(const TracedProgram& p) {
  static const char* kinds[] = {"op", "input", "weight", "scalar"};
  nb::list r;
  for (const TracedNode& n : p.nodes) {
    nb::dict d;
    d["kind"] = kinds[static_cast<int>(n.kind)], d["number"] = n.number, d["where"] = n.where;
    if (n.op) d["op"] = n.op->name;
    nb::list in, open;
    for (const TracedRef& x : n.inputs) in.append(nb::make_tuple(x.node, x.index));
    for (const auto& [word, e] : n.open) open.append(nb::make_tuple(word, e.text(p.dims)));
    d["inputs"] = in, d["open"] = open;
    r.append(d);
  }
  return r;
}

nb::object plan_object(const std::shared_ptr<const Plan>& p) {
  if (!p) return nb::none();
  nb::dict d;
  d["steps"] = p->steps.size(), d["arena_bytes"] = p->arena_bytes, d["peak_bytes"] = p->peak_bytes;
  d["flops"] = p->cost.flops, d["bytes"] = p->cost.bytes, d["text"] = p->dump();
  nb::list kernels;
  for (const Step& s : p->steps)
    kernels.append(nb::make_tuple(s.what, s.kernel->describe(), s.kernel->cost.flops, s.kernel->cost.bytes));
  d["kernels"] = kernels;
  return d;
}

// True is "1", a list its items with commas between them, everything else its str().
std::string option_text(nb::handle h) {
  if (nb::isinstance<nb::bool_>(h)) return nb::cast<bool>(h) ? "1" : "0";
  if (!nb::isinstance<nb::list>(h)) return nb::cast<std::string>(nb::str(h));
  std::string r;
  for (nb::handle x : nb::cast<nb::list>(h)) r += (r.empty() ? "" : ",") + nb::cast<std::string>(x);
  return r;
}

std::shared_ptr<Session> make_session(std::shared_ptr<Program> p, nb::kwargs kw) {
  SessionOptions o;
  for (auto [key, value] : kw) {
    const std::string k = nb::cast<std::string>(key);
    if (!set_option(&o, k, option_text(value))) type_error("session: unknown option `", k, "`.");
  }
  return std::make_shared<Session>(std::move(p), std::move(o));
}

formats::WriteOptions write_options(const nb::kwargs& kw) {
  formats::WriteOptions o;
  for (auto [key, value] : kw) {
    const std::string k = nb::cast<std::string>(key);
    if (k == "opset") o.opset = nb::cast<int>(value);
    else if (k == "external_data") o.external_data = nb::cast<int64_t>(value);
    else if (k == "results") o.results = nb::cast<std::vector<int64_t>>(value);
    else if (k == "output_names") o.output_names = nb::cast<std::vector<std::string>>(value);
    else if (k == "shapes")
      for (auto [name, dims] : nb::cast<nb::dict>(value)) {
        std::vector<int64_t>& s = o.shapes[nb::cast<std::string>(name)];
        for (nb::handle d : dims) s.push_back(d.is_none() ? -1 : nb::cast<int64_t>(d));
      }
    else
      type_error("write_model: unknown option `", k,
                 "`; expected opset, external_data, results, output_names or shapes.");
  }
  return o;
}

void bind_traced(nb::module_& m) {
  nb::class_<Recorder>(
      m, "Recorder",
      "Records a function on placeholders: Recorder([(shape, dtype)], [(name, tensor, is_parameter)]).")
      .def(nb::init<nb::handle, nb::handle>(), nb::arg("types"), nb::arg("named"))
      .def_prop_ro("inputs", &Recorder::inputs)
      .def("finish", &Recorder::finish, "The trace of what these outputs need.")
      .def("written", &Recorder::written, "Names of the state that was changed.")
      .def("close", &Recorder::close);
  nb::class_<Trace>(m, "Trace", "One recording with concrete sizes.")
      .def_prop_rw(
          "sizes", [](const Trace& t) { return t.sizes; },
          [](Trace& t, std::vector<int64_t> s) { t.sizes = std::move(s); })
      .def_prop_ro("n_nodes", [](const Trace& t) { return t.nodes.size(); });
  nb::class_<Program>(m, "Program", "A computation that can be recorded for any concrete input types.")
      .def_prop_ro(
          "inputs", [](const Program& p) { return ports_object(p.inputs); },
          "[(name, dtype, dims, dim names)]; -1: any size.")
      .def_prop_ro("outputs", [](const Program& p) { return ports_object(p.outputs); })
      .def_prop_rw(
          "warm",
          [](const Program& p) {
            nb::list r;
            for (const auto& types : p.warm) {
              nb::list l;
              for (const TensorType& t : types) l.append(type_object(t));
              r.append(l);
            }
            return r;
          },
          [](Program& p, nb::handle list) {
            std::vector<std::vector<TensorType>> warm;
            for (nb::handle h : list) warm.push_back(types_from(h));
            p.warm = std::move(warm);
          },
          "Input types that a Session gets ready for when it is made.");
  nb::class_<TracedProgram, Program>(m, "TracedProgram")
      .def_prop_ro("dims", [](const TracedProgram& p) { return p.dims; })
      .def_prop_ro("nodes", describe_nodes)
      .def_prop_ro("statistics", &TracedProgram::statistics,
                   "Numbers of the weights that are running statistics.")
      .def(
          "weights",
          [](const TracedProgram& p) {
            nb::list r;
            for (const TracedWeight& w : p.weights)
              r.append(
                  nb::make_tuple(w.name, w.parameter, w.trainable, w.is_parameter, tensor_object(w.value)));
            return r;
          },
          "[(name, parameter name, trainable, is_parameter, tensor)]")
      .def(
          "types",
          [](const TracedProgram& p, nb::handle inputs) {
            const Recording recording(true);
            Values in, weights;
            for (const TensorType& t : types_from(inputs))
              in.push_back(make_input(t, static_cast<int64_t>(in.size())));
            for (const TracedWeight& w : p.weights) weights.push_back(w.value);
            std::vector<Values> made;
            p.replay(in, weights, &made);
            nb::list r;
            for (const Values& node : made) {
              nb::list outputs;
              for (const Value& v : node) outputs.append(type_object(v.type()));
              r.append(outputs);
            }
            return r;
          },
          "[[(shape, dtype) of every output]] of every node for [(shape, dtype)] of the inputs.")
      .def(
          "replay",
          [](const TracedProgram& p, nb::handle inputs, nb::object weights) {
            capture_position();
            const std::vector<Value> in = values_from(inputs);
            Values out;
            if (weights.is_none()) {
              out = p.record(Values(in.begin(), in.end()));
            } else {
              const std::vector<Value> w = values_from(weights);
              if (w.size() != p.weights.size())
                value_error("program: got ", w.size(), " weights; expected ", p.weights.size(), ".");
              out = p.replay(Values(in.begin(), in.end()), Values(w.begin(), w.end()));
            }
            return tensor_objects(out);
          },
          nb::arg("inputs"), nb::arg("weights").none() = nb::none(),
          "Records it into the graph of this thread; gradients flow.")
      .def(
          "save",
          [](const TracedProgram& p, const std::string& path, bool weights_beside) {
            formats::PackageExtras x;
            x.weights_beside = weights_beside;
            formats::write_package(p, path, x);
          },
          nb::arg("path"), nb::arg("weights_beside") = false)
      .def_static("load", [](const std::string& path) {
        const formats::Package p = formats::read_package(path);
        if (!p.traced)
          value_error("load: ", path,
                      " holds a model of another format, not a program that was recorded here.");
        return p.traced;
      });
  m.def(
      "load_program",
      [](const std::string& path, const std::string& params) -> std::shared_ptr<Program> {
        if (formats::is_package(path)) return formats::read_package(path).program();
        return std::const_pointer_cast<Program>(formats::make_program(formats::read_model(path, params)));
      },
      nb::arg("path"), nb::arg("params") = "", "The program in a file of any format that can be read.");
  m.def(
      "write_model",
      [](const Program& p, const std::string& path, nb::kwargs kw) {
        formats::write_model(p, path, write_options(kw));
      },
      nb::arg("program"), nb::arg("path"), nb::arg("options"),
      "Writes a program in the format of the path's suffix: .onnx, .json, .pdmodel, .yuloh. Options: opset, "
      "external_data, results, output_names, shapes.");
  m.def(
      "unwritable",
      [](const Program& p, const std::string& path, nb::kwargs kw) {
        nb::list r;
        for (const formats::Unwritable& u : formats::unwritable(p, path, write_options(kw)))
          r.append(nb::make_tuple(u.op, u.count, u.place, u.why));
        return r;
      },
      nb::arg("program"), nb::arg("path"), nb::arg("options"),
      "[(op, count, first place, why)] of all that write_model would refuse.");
  m.def(
      "writable_rows",
      [](int opset) {
        nb::dict r;
        for (const OpDef* op : all_ops())
          r[op->name.c_str()] = nb::make_tuple(formats::onnx_support(*op, formats::checked_opset(opset)),
                                               formats::pir_support(*op));
        return r;
      },
      nb::arg("opset") = 0,
      "{row: (ONNX, Paddle)}: written as its own 'operators', 'arithmetic', 'body' of other rows, or "
      "'none'.");
  m.attr("trial_sizes") = nb::make_tuple(trial_sizes.batch, trial_sizes.other, trial_sizes.most_open);
  m.def("is_package", [](const std::string& path) { return formats::is_package(path); });
  m.def(
      "generalise",
      [](const std::vector<std::shared_ptr<Trace>>& corners, const std::vector<std::shared_ptr<Trace>>& more,
         nb::handle inputs, std::vector<std::string> outputs, std::vector<std::string> dims) {
        std::vector<Trace> c, e;
        for (const auto& t : corners) c.push_back(*t);
        for (const auto& t : more) e.push_back(*t);
        return generalise(c, e, ports_from(inputs), std::move(outputs), std::move(dims));
      },
      nb::arg("corners"), nb::arg("more"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("dims"),
      "One program from traces at several sizes (run/traced.h).");
}
}  // namespace

void bind_programs(nb::module_& m) {
  bind_traced(m);
  nb::class_<Session>(m, "Session", "Runs a program; safe to use from many threads.")
      .def(nb::new_(&make_session))
      .def(
          "run",
          [](Session& s, nb::handle inputs) {
            std::vector<TensorType> types, out_types;
            std::vector<Ref<Buffer>> buffers;
            std::vector<Value> held;
            for (nb::handle h : inputs) {
              held.push_back(borrowed_array(h));
              types.push_back(held.back().type());
              buffers.push_back(held.back().node->outputs[0].buffer);
            }
            const std::vector<Ref<Buffer>> out = s.run(types, buffers, &out_types);
            nb::list r;
            for (size_t i = 0; i < out.size(); ++i) r.append(tensor_object(make_data(out_types[i], out[i])));
            return r;
          },
          "Tensors for a list of Tensors or arrays.")
      .def(
          "prepare", [](Session& s, nb::handle types) { return plan_object(s.prepare(types_from(types))); },
          "The plan for [(shape, dtype)] as a dict; None if the program needs data.")
      .def("warm_up", [](Session& s, nb::handle types) { s.warm_up(types_from(types)); })
      .def("clone", &Session::clone)
      .def("memory_report", [](const Session& s) {
        nb::dict d;
        for (const MemoryItem& i : s.memory_report()) d[i.what.c_str()] = i.bytes;
        return d;
      });
}

}  // namespace yuloh::py
