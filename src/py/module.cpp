// SPDX-License-Identifier: Apache-2.0
// The extension module `yuloh._core`: the Tensor type, one callable per row of the op table, and the few
// functions that are not ops (modes, gradients, flags, memory, plans). This is the only place that names
// Python beside py_tensor.h.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <set>

#include "base/cgroup.h"
#include "cpu/cpu.h"
#include "cpu/parallel.h"
#include "plan/profile.h"
#include "py/formats.h"
#include "py/objects.h"
#include "py/py_tensor.h"

namespace nb = nanobind;

namespace yuloh::py {
void bind_profile(nb::module_& m);       // profile.cpp
void bind_dry_run(nb::module_& m);       // dry_run.cpp
void bind_loader(nb::module_& m);        // loader.cpp
void bind_programs(nb::module_& m);      // program.cpp
void bind_weight_files(nb::module_& m);  // weight_files.cpp
void bind_advise(nb::module_& m);        // advise.cpp
void bind_divergence(nb::module_& m);    // divergence.cpp
namespace {

struct DTypeObject {
  DType t;
};

std::vector<std::string> words(const char* s) {
  std::vector<std::string> r;
  std::string w;
  for (; *s; ++s) {
    if (*s != ' ') w += *s;
    else if (!w.empty()) r.push_back(w), w.clear();
  }
  if (!w.empty()) r.push_back(w);
  return r;
}

std::vector<Value> values_of(nb::handle list) {
  std::vector<Value> r;
  for (nb::handle h : list) r.push_back(h.is_none() ? Value() : tensor_of(h.ptr()).value());
  return r;
}

void bind_dtypes(nb::module_& m) {
  nb::class_<DTypeObject>(m, "DType", "An element type, e.g. paddle.float32.")
      .def_prop_ro("name", [](const DTypeObject& d) { return std::string(dtype_name(d.t)); })
      .def_prop_ro("itemsize", [](const DTypeObject& d) { return dtype_size(d.t); })
      .def("is_floating_point", [](const DTypeObject& d) { return is_float(d.t); })
      .def("__repr__", [](const DTypeObject& d) { return "paddle." + std::string(dtype_name(d.t)); })
      // The name of a global of this module: copies and pickles are the object itself.
      .def("__reduce__", [](const DTypeObject& d) { return "_dtype_" + std::string(dtype_name(d.t)); })
      .def("__hash__", [](const DTypeObject& d) { return static_cast<int64_t>(d.t) + 7; })
      .def(
          "__eq__",
          [](const DTypeObject& d, nb::handle o) {
            DType t;
            return dtype_from_object(o.ptr(), &t) && t == d.t;
          },
          nb::arg("other").none());
  nb::dict all;
  for (int i = 0; i < kNumDTypes; ++i) {
    nb::object o = nb::cast(DTypeObject{static_cast<DType>(i)});
    register_dtype_object(static_cast<DType>(i), o.ptr());
    all[nb::cast(std::string(dtype_name(static_cast<DType>(i))))] = o;
    m.attr(("_dtype_" + std::string(dtype_name(static_cast<DType>(i)))).c_str()) = o;
  }
  m.attr("dtypes") = all;
  m.def(
      "dtype",
      [](nb::handle o) {
        DType t;
        if (!dtype_from_object(o.ptr(), &t)) type_error("dtype: unknown element type.");
        return dtype_of(t);
      },
      "The DType for a name, a NumPy dtype or a Python type.");
}

void bind_ops(nb::module_& m) {
  PyTypeObject* op_type = make_op_type();
  PyTypeObject* tensor_type = make_tensor_type();
  if (!op_type || !tensor_type) throw nb::python_error();
  m.attr("Op") = nb::borrow(reinterpret_cast<PyObject*>(op_type));
  m.attr("Tensor") = nb::borrow(reinterpret_cast<PyObject*>(tensor_type));
  nb::object ops = nb::module_::import_("types").attr("SimpleNamespace")();
  nb::dict table;  // public module -> {name: callable}
  auto publish = [&](const std::string& name, const OpDef& op, bool inplace) {
    const auto dot = name.rfind('.');
    const std::string scope = name.substr(0, dot), leaf = name.substr(dot + 1);
    nb::object f = owned(make_op_callable(op, inplace, leaf.c_str()));
    if (scope == "paddle.Tensor") {
      if (PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), leaf.c_str(), f.ptr()) != 0)
        throw nb::python_error();
      return;
    }
    nb::object key = nb::cast(scope);
    if (!table.contains(key)) table[key] = nb::dict();
    nb::cast<nb::dict>(table[key])[nb::cast(leaf)] = f;
  };
  size_t n_public = 0;
  std::set<std::string> names;
  for (const OpDef* op : all_ops()) {
    ops.attr(op->name.c_str()) = owned(make_op_callable(*op, false, op->name.c_str()));
    for (const std::string& name : words(op->python)) {
      publish(name, *op, false);
      names.insert(name.substr(name.rfind('.') + 1));
      if (op->inplace_variant) publish(name + "_", *op, true);
    }
    if (op->inplace_variant)
      ops.attr((op->name + "_").c_str()) = owned(make_op_callable(*op, true, (op->name + "_").c_str()));
  }
  n_public = names.size();
  m.attr("ops") = ops;
  m.attr("_public") = table;
  m.attr("n_public_ops") = n_public;
  m.def(
      "public",
      [table](const std::string& scope) -> nb::dict {
        nb::object key = nb::cast(scope);
        return table.contains(key) ? nb::cast<nb::dict>(table[key]) : nb::dict();
      },
      "Public functions of one Paddle module that the op table provides: {name: callable}.");
  m.def(
      "op_rows",
      [] {
        nb::list r;
        for (const OpDef* op : all_ops()) {
          nb::dict d;
          d["name"] = op->name, d["schema"] = op->schema, d["python"] = op->python, d["doc"] = op->doc,
          d["needs"] = op->needs;
          d["lowering"] = op->scalar                        ? "scalar"
                          : op->reduce != ReduceKind::kNone ? "reduce"
                          : op->view                        ? "view"
                          : op->expand                      ? "expand"
                                                            : "host";
          d["differentiable"] = !op->no_grad && (op->vjp || op->scalar || op->expand);
          d["inner"] = op->inner || std::string_view(op->kind) == "optimizer";
          d["vjp"] = op->vjp != nullptr, d["random"] = op->random, d["view"] = op->view != nullptr,
          d["inplace_variant"] = op->inplace_variant;
          nb::list args;
          for (const ArgSpec& a : op->args)
            args.append(nb::make_tuple(a.name, a.is_input(), a.has_default ? a.default_text : ""));
          d["args"] = args;
          nb::list cands;
          for (const Candidate& c : candidates_for(op->name)) cands.append(std::string(c.name));
          d["candidates"] = cands;
          r.append(d);
        }
        return r;
      },
      "Every row of the op table as a dict: docs, stubs and tests derive from it.");
}

void bind_tensors(nb::module_& m) {
  m.def(
      "from_buffer",
      [](nb::handle array, nb::object dtype, bool stop_gradient) {
        Value v = value_from_buffer(array.ptr());
        if (!dtype.is_none()) {
          DType t;
          if (!dtype_from_object(dtype.ptr(), &t)) type_error("to_tensor: unknown dtype.");
          NoGrad guard;
          if (v.dtype() != t) v = call("cast", {v}, {{"dtype", t}});
        }
        auto x = make_ref<Tensor>(v);
        if (!stop_gradient) x->set_stop_gradient(false);
        return owned(wrap(x));
      },
      nb::arg("array"), nb::arg("dtype").none() = nb::none(), nb::arg("stop_gradient") = true,
      "A tensor with a copy of a NumPy array (or other buffer).");
  m.def(
      "grad",
      [](nb::handle outputs, nb::handle inputs, nb::object grad_outputs, bool retain, bool create,
         bool allow_unused, nb::object) {
        const GradMode mode(
            true);  // the graph was recorded: under no_grad, too, leaves are asked for as leaves
        BackwardRequest r;
        r.outputs = values_of(outputs), r.wanted = values_of(inputs);
        if (!grad_outputs.is_none()) r.grads = values_of(grad_outputs);
        r.leaves = false, r.retain_graph = retain, r.create_graph = create;
        BackwardResult res = backward(r);
        for (size_t i = 0; i < res.wanted.size(); ++i)
          if (!res.wanted[i] && !allow_unused)
            value_error("grad: input ", i,
                        " does not take part in the outputs. Hint: allow_unused=True returns None for it.");
        return tensor_objects(res.wanted);
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("grad_outputs").none() = nb::none(),
      nb::arg("retain_graph") = false, nb::arg("create_graph") = false, nb::arg("allow_unused") = false,
      nb::arg("no_grad_vars").none() = nb::none());
  m.def(
      "backward",
      [](nb::handle tensors, nb::object grads, bool retain) {
        BackwardRequest r;
        r.outputs = values_of(tensors), r.retain_graph = retain;
        if (!grads.is_none()) r.grads = values_of(grads);
        accumulate_backward(r);
      },
      nb::arg("tensors"), nb::arg("grad_tensors").none() = nb::none(), nb::arg("retain_graph") = false);
  m.def(
      "custom_grad",
      [](nb::handle inputs, nb::handle outputs, nb::object backward) {
        std::vector<Value> in = values_of(inputs), out = values_of(outputs);
        Values all(out.begin(), out.end());
        for (const Value& v : in) all.push_back(v);
        Values r = call_all("custom_grad", all, {{"n", static_cast<int64_t>(out.size())}});
        if (!r.empty() && r[0].node->requires_grad) {
          const size_t n_out = out.size(), n_in = in.size();
          auto fn = std::shared_ptr<nb::object>(new nb::object(backward), [](nb::object* o) {
            nb::gil_scoped_acquire g;
            delete o;
          });
          r[0].node->make_extra().custom_vjp = [fn, n_out, n_in](const Values& g) -> Values {
            const Obj res =
                Obj::check(PyObject_CallFunctionObjArgs(fn->ptr(), tensor_objects(g).ptr(), nullptr));
            Values gi(static_cast<uint32_t>(n_out + n_in));
            const Obj seq =
                Obj::check(PySequence_Fast(res.get(), "backward must return a list of gradients"));
            for (Py_ssize_t i = 0;
                 i < PySequence_Fast_GET_SIZE(seq.get()) && i < static_cast<Py_ssize_t>(n_in); ++i) {
              PyObject* o = PySequence_Fast_GET_ITEM(seq.get(), i);
              if (o != Py_None) gi[n_out + i] = tensor_of(o).value();
            }
            return gi;
          };
        }
        return tensor_objects(r);
      },
      nb::arg("inputs"), nb::arg("outputs"), nb::arg("backward"));
}

// recompute_begin() -> mark; recompute_end(mark, tensors) -> tensors, or with None after a failure.
void bind_recompute(nb::module_& m) {
  m.def("recompute_begin", [] { return ++Context::current().uncut, next_node_id(); });
  m.def(
      "recompute_end",
      [](uint64_t mark, nb::object outputs) -> nb::object {
        --Context::current().uncut;
        if (outputs.is_none()) return outputs;
        const std::vector<Value> out = values_of(outputs);
        const Values made = recompute(Values(out.begin(), out.end()), mark);
        nb::list r;
        for (uint32_t i = 0; i < made.size(); ++i)
          r.append(made[i] == out[i] ? nb::object(outputs[i]) : tensor_object(made[i]));
        return r;
      },
      nb::arg("mark"), nb::arg("outputs").none());
}

void bind_modes(nb::module_& m) {
  m.def(
      "run_pending", [] { Context::current().flush(); }, "Runs what live tensors are waiting for.");
  m.def(
      "close_step", [] { Context::current().step_closed = true; },
      "optimizer.step() was recorded; it runs at the next trigger.");
  m.def(
      "reopen_step", [] { return std::exchange(Context::current().step_closed, false); },
      "What follows still belongs to the closed step; returns whether one was.");
  m.def("cut_point", [] { Context::current().cut_point(); });
  m.def("grad_enabled", [] { return modes().grad; });
  m.def("set_grad_enabled", [](bool on) { modes().grad = on; });
  m.def("set_default_dtype", [](nb::handle h) {
    DType t;
    if (!dtype_from_object(h.ptr(), &t) || !is_float(t))
      type_error("set_default_dtype: expected a floating-point dtype.");
    set_default_dtype(t);
  });
  m.def("get_default_dtype", [] { return nb::borrow(dtype_object(default_dtype())); });
  m.def(
      "set_amp",
      [](nb::object level, nb::object dtype, nb::object white, nb::object black) {
        Amp a;
        if (!level.is_none()) {
          const std::string l = nb::cast<std::string>(level);
          a.level = l == "O2" ? 2 : l == "O1" ? 1 : 0;
          DType t = DType::kBFloat16;
          if (!dtype.is_none() && !dtype_from_object(dtype.ptr(), &t))
            type_error("auto_cast: unknown dtype.");
          a.dtype = t;
          auto uids = [](nb::object set, std::vector<uint64_t>* out) {
            if (set.is_none()) return;
            for (nb::handle h : set)
              if (const OpDef* op = find_op(nb::cast<std::string>(h))) out->push_back(op->uid);
          };
          uids(white, &a.white), uids(black, &a.black);
        }
        amp() = std::move(a);
      },
      nb::arg("level").none(), nb::arg("dtype").none() = nb::none(), nb::arg("white").none() = nb::none(),
      nb::arg("black").none() = nb::none());
  m.def("amp_state", []() -> nb::object {
    if (amp().level == 0) return nb::none();
    return nb::make_tuple(amp().level == 1 ? "O1" : "O2", nb::borrow(dtype_object(amp().dtype)));
  });
  m.def("seed", [](int64_t s) { set_rng_state({s, 0}); });
  m.def("get_rng_state", [] { return nb::make_tuple(rng_state().seed, rng_state().offset); });
  m.def("set_rng_state", [](nb::tuple t) {
    set_rng_state({nb::cast<int64_t>(t[0]), nb::cast<int64_t>(t[1])});
  });
  m.def("set_flag", [](const std::string& name, nb::handle v) -> bool {
    Flags& f = flags();
    const bool b = PyObject_IsTrue(v.ptr()) == 1;
    if (name == "fusion") f.fusion = b;
    else if (name == "eager") f.eager = b;
    else if (name == "library") f.library = b;
    else if (name == "donate") f.donate = b;
    else if (name == "rules") f.rules = b;
    else if (name == "plan_cache_bytes") f.plan_cache_bytes = nb::cast<int64_t>(v);
    else if (name == "native_loader") f.native_loader = b;
    else if (name == "pending_bytes_limit") f.pending_bytes_limit = nb::cast<int64_t>(v);
    else return false;
    return true;
  });
  m.def("get_flag", [](const std::string& name) -> nb::object {
    const Flags& f = flags();
    if (name == "fusion") return nb::cast(f.fusion);
    if (name == "eager") return nb::cast(f.eager);
    if (name == "library") return nb::cast(f.library);
    if (name == "donate") return nb::cast(f.donate);
    if (name == "rules") return nb::cast(f.rules);
    if (name == "plan_cache_bytes") return nb::cast(f.plan_cache_bytes);
    if (name == "native_loader") return nb::cast(f.native_loader);
    if (name == "pending_bytes_limit") return nb::cast(f.pending_bytes_limit);
    return nb::none();
  });
  m.def("set_num_threads", [](int n) { set_num_threads(n); });
  m.def("get_num_threads", [] { return num_threads(); });
  m.def(
      "before_fork", [] { before_fork(); }, "For os.register_at_fork: waits until no thread runs a step.");
  m.def("after_fork", [] { after_fork(); });
  m.def("thread_reason", [] { return thread_reason(); });
}

void bind_stats(nb::module_& m) {
  m.def("memory_stats", [] {
    const MemoryStats s = memory_stats();
    nb::dict d;
    d["allocated"] = s.allocated, d["reserved"] = s.reserved, d["max_allocated"] = s.max_allocated,
    d["max_reserved"] = s.max_reserved;
    return d;
  });
  m.def("reset_max_memory", [] { reset_max_memory(); });
  m.def("release_cached_memory", [] { release_cached_memory(); });
  m.def(
      "machine_memory",
      [] {
        const MachineMemory machine = machine_memory();
        return nb::make_tuple(machine.total, machine.available);
      },
      "(total, available) bytes of the machine or the container, whichever has less.");
  m.def("throttled_seconds", &throttled_seconds,
        "Seconds, summed over CPUs, for which a CPU quota has stopped this process's control group so far.");
  m.def("set_memory_limit", [](size_t b) { set_memory_limit(b); });
  m.def("stats", [] {
    const RunStats& s = run_stats();
    nb::dict d;
    d["plans"] = s.plans, d["hits"] = s.hits, d["flushes"] = s.flushes, d["kernels"] = s.kernels,
    d["nodes"] = s.nodes;
    d["calls"] = Context::current().calls;
    d["compile_seconds"] = s.compile_seconds, d["lookup_seconds"] = s.lookup_seconds,
    d["run_seconds"] = s.run_seconds;
    d["plan_cache_plans"] = s.kept_plans, d["plan_cache_bytes"] = s.kept_bytes;
    const CompileSeconds& c = compile_seconds();
    d["passes_seconds"] = c.passes, d["layouts_seconds"] = c.layouts, d["fusion_seconds"] = c.fusion;
    d["kernels_seconds"] = c.kernels, d["primitives_seconds"] = c.primitives, d["memory_seconds"] = c.memory;
    return d;
  });
  m.def("clear_plan_cache", [] { clear_plan_cache(); });
}

// Only the main thread handles signals. The interpreter's lock may take long to get where another thread
// computes in Python, so it is asked for now and then only.
void poll_signals() {
  constexpr int64_t kEvery = 50'000'000;  // ns
  static std::atomic<int64_t> last{0};
  const int64_t now = profile::now();
  if (now - last.load(std::memory_order_relaxed) < kEvery || getpid() != gettid()) return;
  last.store(now, std::memory_order_relaxed);
  const PyGILState_STATE g = PyGILState_Ensure();
  const int r = PyErr_CheckSignals();
  PyGILState_Release(g);
  if (r != 0) throw PythonError();
}
}  // namespace
}  // namespace yuloh::py

NB_MODULE(_core, m) {
  using namespace yuloh;
  using namespace yuloh::py;
  nb::set_leak_warnings(false);
  m.doc() = "The C++ core of Yuloh.";
  nb::register_exception_translator([](const std::exception_ptr& e, void*) {
    try {
      std::rethrow_exception(e);
    } catch (const PythonError&) {  // is set already
    } catch (const Error& error) { set_python_error(error); }
  });
  register_cpu();
  bind_dtypes(m);
  bind_ops(m);
  bind_tensors(m);
  bind_modes(m);
  bind_stats(m);
  bind_formats(m);
  bind_profile(m);
  bind_recompute(m);
  bind_dry_run(m);
  bind_loader(m);
  bind_programs(m);
  bind_weight_files(m);
  bind_advise(m);
  bind_divergence(m);
  set_poll(poll_signals);
  set_interpreter_lock({[]() -> void* { return PyGILState_Check() ? PyEval_SaveThread() : nullptr; },
                        [](void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }});
}
