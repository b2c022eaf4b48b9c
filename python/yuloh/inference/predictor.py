# SPDX-License-Identifier: Apache-2.0
"""Inference room: ``Predictor`` and the handles of its inputs and outputs."""
import json
import os
import tempfile
import threading

import numpy as np

from .. import _core
from .config import Config
from .kinds import PlaceType, PrecisionType, data_type_of
from .package import require_samples

__all__ = ["Predictor", "PredictorPool", "Tensor", "create_predictor"]

_HOW_TO_QUANTISE = ("Int8 was asked for, but the model is not quantised: int8 answers need ranges that only data can give. "
                    "Hint: quantise it first (ONNX: onnxruntime.quantization.quantize_static with calibration samples, which "
                    "writes QuantizeLinear nodes) and load the result, or use PrecisionType.Half.")


class Tensor:
    """Handle of one input or output. Each thread has its own data in it: what a thread puts into an input is what that
    thread's ``run`` takes, and an output holds what that thread's last ``run`` gave. RuntimeError "in use by thread N" where
    only another thread has data here.
    """

    def __init__(self, name, dtype, is_input):
        self._name, self._dtype, self._is_input = name, dtype, is_input
        self._mine = threading.local()
        self._user = None  # name and number of the last thread that put something here

    def name(self):
        """Of the input or output."""
        return self._name

    def _put(self, value):
        self._mine.value = value
        self._user = threading.current_thread().name, threading.get_ident()

    def _get(self):
        value = getattr(self._mine, "value", None)
        if value is None and self._user is not None and self._user[1] != threading.get_ident():
            raise RuntimeError(f"predictor: handle `{self._name}` is in use by thread {self._user[0]} ({self._user[1]}); thread "
                               f"{threading.current_thread().name} has put or run nothing here. Hint: fill the inputs, run and "
                               "read in one thread, call run([tensors]), or give each thread a clone().")
        return value

    def _writable(self, what):
        if not self._is_input:
            raise RuntimeError(f"{what}: `{self._name}` is an output.")

    def reshape(self, shape):
        """Announces a shape; data decides."""
        self._writable("reshape")
        self._mine.shape = [int(n) for n in shape]

    def copy_from_cpu(self, data):
        """Takes a copy of a NumPy array of the input's dtype."""
        self._writable("copy_from_cpu")
        if not isinstance(data, np.ndarray):
            raise TypeError(f"copy_from_cpu: expected a numpy.ndarray, got {type(data).__name__}.")
        data = _plain("copy_from_cpu", self._name, data)
        given = _core.dtype(data.dtype)
        if given != self._dtype:
            raise TypeError(f"copy_from_cpu: input `{self._name}` has the wrong dtype, got {given.name}; expected "
                            f"{self._dtype.name}.")
        self._put(np.array(data, order="C"))
        self._mine.shape = None

    def share_external_data(self, data):
        """Uses a Tensor's memory without a copy; it must not change before ``run`` returns."""
        self._writable("share_external_data")
        if not isinstance(data, _core.Tensor):
            raise TypeError(f"share_external_data: expected a Tensor, got {type(data).__name__}.")
        if data.dtype != self._dtype:
            raise TypeError(f"share_external_data: input `{self._name}` has the wrong dtype, got {data.dtype.name}; expected "
                            f"{self._dtype.name}.")
        self._put(data.detach())
        self._mine.shape = None

    def copy_to_cpu(self):
        """The value as a NumPy array."""
        value = self._get()
        if value is None:
            raise RuntimeError(f"copy_to_cpu: `{self._name}` has no value yet. Hint: call run() first.")
        return np.array(value) if isinstance(value, np.ndarray) else value.numpy()

    def shape(self):
        """Extents as announced or held; [0] before that."""
        announced = getattr(self._mine, "shape", None)
        if announced is not None:
            return announced
        value = self._get()
        return [0] if value is None else list(value.shape)

    def type(self):
        """The DataType."""
        return data_type_of(self._dtype)

    def place(self):
        """PlaceType.CPU."""
        return PlaceType.CPU

    def lod(self):
        """[]: ragged tensors are not used."""
        return []

    def set_lod(self, lod):
        """Only [] is accepted."""
        if lod:
            raise NotImplementedError("set_lod: ragged tensors are not supported. Hint: pad, or run rows one by one.")


def _plain(who, which, array):
    """The array in the machine's byte order; what has no plain numbers, or hides some, is refused by the input's name or number."""
    if array.dtype.kind in "OSUMm" or array.dtype.names:
        raise TypeError(f"{who}: input `{which}` is an array of {array.dtype}; expected numbers.")
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError(f"{who}: input `{which}` is a masked array, {int(np.ma.count_masked(array))} of its elements are masked. "
                         "Hint: say what they are, as in x.filled(0).")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


class Predictor:
    """Runs requests. ``run([tensors])`` may be called from any number of threads; handles keep the data of each thread
    apart. ``clone()`` shares everything but the handles.
    """

    def __init__(self, session, program, collect="", collected=None):
        self._session, self._program = session, program
        self._inputs = {p[0]: Tensor(p[0], p[1], True) for p in program.inputs}
        self._outputs = {p[0]: Tensor(p[0], p[1], False) for p in program.outputs}
        self._collect, self._collected = collect, collected or ([], threading.Lock())

    def get_input_names(self):
        """Names in order."""
        return list(self._inputs)

    def get_output_names(self):
        """Names in order."""
        return list(self._outputs)

    def get_input_handle(self, name):
        """The handle of an input."""
        return self._handle(self._inputs, name, "input")

    def get_output_handle(self, name):
        """The handle of an output."""
        return self._handle(self._outputs, name, "output")

    @staticmethod
    def _handle(handles, name, what):
        if name not in handles:
            raise RuntimeError(f"predictor: there is no {what} {name!r}; expected one of {list(handles)}.")
        return handles[name]

    def get_input_tensor_shape(self):
        """{name: extents}, -1 where open."""
        return {p[0]: list(p[2]) for p in self._program.inputs}

    def get_input_types(self):
        """{name: DataType}."""
        return {p[0]: data_type_of(p[1]) for p in self._program.inputs}

    def run(self, inputs=None):
        """With a list of Tensors (or arrays): the outputs as a list of Tensors. Without: from input handles to output
        handles; returns None.
        """
        if inputs is not None and not isinstance(inputs, (list, tuple)):
            raise TypeError(f"run: expected a list of Tensors or arrays, one for each input, got {type(inputs).__name__}.")
        values = [_plain("run", k, x) if isinstance(x, np.ndarray) else x for k, x in enumerate(inputs)] if inputs is not None else self._fed()
        if self._collect:
            self._note_shapes(values)
        outputs = self._session.run(values)
        if inputs is not None:
            return outputs
        for handle, value in zip(self._outputs.values(), outputs):
            handle._put(value)
        return None

    def _fed(self):
        values = [handle._get() for handle in self._inputs.values()]
        for name, value in zip(self._inputs, values):
            if value is None:
                raise RuntimeError(f"predictor: input `{name}` was not given. Hint: get_input_handle({name!r})"
                                   ".copy_from_cpu(array) before run().")
        return values

    def _note_shapes(self, values):
        shapes = {name: list(value.shape) for name, value in zip(self._inputs, values)}
        collected, lock = self._collected  # shared with clones
        with lock:
            if shapes in collected:
                return
            collected.append(shapes)
            with open(self._collect + ".part", "w", encoding="utf-8") as f:
                json.dump(collected, f)
            os.replace(self._collect + ".part", self._collect)

    def clone(self, stream=None):
        """A predictor with handles of its own on the same weights and plans."""
        return Predictor(self._session.clone(), self._program, self._collect, self._collected)

    def prepare(self, shapes):
        """Compiles for ``{input: shape}`` ahead of the first request and returns the plan's facts (steps, peak_bytes,
        flops, bytes); None where the program must see data to be compiled.
        """
        types = _types_for(self._program, shapes)
        self._session.warm_up(types)
        return self._session.prepare(types)

    def memory_report(self):
        """Bytes by item. weights, plans (of all shapes kept: steps, packed weights, generated code), slack (free blocks kept,
        where requests find their workspace) and other (interpreter, libraries, everything else) add up to process, what the
        process holds. Also workspace (of the largest shape), mapped (weights that lie in their file only) and limit.
        """
        return self._session.memory_report()

    def clear_intermediate_tensor(self):
        """Nothing to clear: work memory is given back after each run."""

    def try_shrink_memory(self):
        """Gives free blocks back to the system; returns how many bytes."""
        before = _core.memory_stats()["reserved"]
        _core.release_cached_memory()
        return before - _core.memory_stats()["reserved"]

    def register_output_hook(self, hook):
        """Not supported: intermediate values do not exist once ops are fused."""
        raise NotImplementedError("register_output_hook: intermediate values are fused away. Hint: save a model that "
                                  "returns the value, too.")

    register_input_hook = register_output_hook


def _types_for(program, shapes):
    missing = [p[0] for p in program.inputs if p[0] not in shapes]
    if missing:
        raise ValueError(f"predictor: no shape for input {missing[0]!r}; got {sorted(shapes)}.")
    return [(list(shapes[p[0]]), p[1]) for p in program.inputs]


def _model_files(config):
    """(program file, params file) that a Config means."""
    if config.model_dir():
        folder = config.model_dir()
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        programs = [n for n in names if n.endswith((".yuloh", ".onnx", ".json", ".pdmodel")) or n == "__model__"]
        own = [n for n in programs if n.endswith(".yuloh")]
        if own and {os.path.splitext(n)[0] for n in programs} == {os.path.splitext(own[0])[0]}:
            programs = own  # jit.save writes the same program in several formats
        if len(programs) != 1:
            raise ValueError(f"Config: expected one model in the folder {folder!r}, found {programs}. Hint: name the program "
                             "and params files.")
        stem = os.path.splitext(programs[0])[0]
        params = [n for n in names if n in (stem + ".pdiparams", "__params__")]
        return os.path.join(folder, programs[0]), os.path.join(folder, params[0]) if params else ""
    program, params = config.prog_file(), config.params_file()
    if not program:
        raise ValueError("create_predictor: the Config names no model. Hint: Config(prog_file, params_file).")
    if not os.path.exists(program):
        stem = os.path.splitext(program)[0]
        for other in (program + ".yuloh", stem + ".yuloh"):
            if os.path.exists(other):
                return other, ""
        raise RuntimeError(f"create_predictor: there is no file {program!r}.")
    if params and not os.path.exists(params):
        raise RuntimeError(f"create_predictor: there is no file {params!r}.")
    if program.endswith((".pdiparams", ".pdparams")):
        raise ValueError(f"create_predictor: {program!r} holds weights, not a model. Hint: Config(prog_file, params_file), the "
                         ".json or .pdmodel first.")
    return program, params


def _load(config):
    if not config.model_from_memory():
        program, params = _model_files(config)
        return _core.load_program(program, params), program, params
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, n) for n in ("model", "model.pdiparams")]
        for path, data in zip(paths, config._buffers):
            if not data and path != paths[0]:
                continue
            with open(path, "wb") as f:
                f.write(data)
        params = paths[1] if config._buffers[1] else ""
        return _core.load_program(paths[0], params), "", ""


def _op_types(program, path, params):
    """Names of its ops; of a file's own operators where the program is not one of ours."""
    if hasattr(program, "nodes"):
        return [n["op"] for n in program.nodes if n["kind"] == "op"]
    return _core.FileModel(path, params).op_types if path else None


def create_predictor(config):
    """A Predictor for a Config. Compiles for every shape that is known: the file's own, ``set_trt_dynamic_shape_info``, and
    programs without open sizes; a program whose only open size is the batch is compiled for one row.
    """
    if not isinstance(config, Config):
        raise TypeError(f"create_predictor: expected a Config, got {type(config).__name__}.")
    program, path, params = _load(config)
    if config.tensorrt_precision_mode() == PrecisionType.Int8 and not _is_quantised(_op_types(program, path, params)):
        raise NotImplementedError(f"create_predictor: {_HOW_TO_QUANTISE}")
    if config._threads:
        _core.set_num_threads(config._threads)
    session = _core.Session(program, **config._session_options())
    for shapes in config._warm_shapes():
        session.warm_up(_types_for(program, shapes))
    if not config._warm_shapes() and not getattr(program, "warm", None):
        _warm_one_row(session, program)
    if config._golden:
        require_samples(session, path, config._session_options()["precision"] != "float32")
    return Predictor(session, program, config.shape_range_info_path())


def _warm_one_row(session, program):
    """Where nothing but the batch is open: a guess, so a model that refuses it is not at fault."""
    shapes = [[1 if axis == 0 and n < 0 else n for axis, n in enumerate(p[2])] for p in program.inputs]
    if any(n < 0 for shape in shapes for n in shape):
        return
    try:
        session.warm_up([(shape, p[1]) for shape, p in zip(shapes, program.inputs)])
    except (ValueError, TypeError, IndexError, ArithmeticError):
        pass


def _is_quantised(types):
    return any("quant" in name.lower() or name.startswith("QLinear") for name in types or ())


class PredictorPool:
    """``size`` predictors on the same weights, one for each thread that uses handles."""

    def __init__(self, config, size=1):
        if size < 1:
            raise ValueError(f"PredictorPool: expected at least one predictor, got {size}.")
        first = create_predictor(config)
        self._all = [first] + [first.clone() for _ in range(size - 1)]

    def retrieve(self, index):
        """One of them."""
        if not 0 <= index < len(self._all):
            raise IndexError(f"PredictorPool: index {index} is out of range, got {len(self._all)} predictors.")
        return self._all[index]
