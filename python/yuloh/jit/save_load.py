# SPDX-License-Identifier: Apache-2.0
"""Jit room: ``save`` and ``load`` of programs."""
import os
import warnings

from .. import _core
from ..framework.io import refuse_dry
from ..framework.parameter import Parameter
from ..nn import Layer
from .export import export
from .static_function import StaticFunction, to_static

__all__ = ["SUFFIX", "find_files", "load", "program_of", "save"]

SUFFIX = ".yuloh"
_TOGETHER = 60  # seconds within which the files of one save are written
_CONFIGS = {"output_spec", "with_hook", "combine_params", "clip_extra", "skip_forward", "skip_prune_program",
            "input_names_after_prune", "separate_params", "keep_name_table", "legacy_format"}


def _layers_of(function):
    """Layers that a plain function reaches through its closure or its globals, by name."""
    names = list(getattr(function, "__code__", None).co_freevars) if hasattr(function, "__code__") else []
    cells = getattr(function, "__closure__", None) or ()
    found = {n: c.cell_contents for n, c in zip(names, cells) if _filled(c)}
    for name in getattr(getattr(function, "__code__", None), "co_names", ()):
        found.setdefault(name, getattr(function, "__globals__", {}).get(name))
    return {n: v for n, v in found.items() if isinstance(v, Layer)}


def _filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def state_of(static):
    """[(name as in state_dict, tensor, is_parameter)] that a StaticFunction may use."""
    owner = static._instance
    if isinstance(owner, Layer):
        layers = {"": owner}
    else:
        layers = {f"{name}.": layer for name, layer in _layers_of(static._function).items()}
    return [(prefix + name, tensor, isinstance(tensor, Parameter)) for prefix, layer in layers.items()
            for name, tensor in layer.to_static_state_dict().items()]


def function_of(layer, who):
    """The StaticFunction of a Layer's forward or of a function."""
    if isinstance(layer, Layer):
        forward = layer.forward
        return forward if isinstance(forward, StaticFunction) else StaticFunction(type(layer).forward, None, layer)
    if isinstance(layer, StaticFunction):
        return layer
    if callable(layer):
        return to_static(layer)
    raise TypeError(f"{who}: expected a Layer or a function, got {type(layer).__name__}.")


def program_of(static, input_spec=None):
    """TracedProgram of a StaticFunction in evaluation mode, for ``input_spec``, its own specs, or its last call."""
    spec = static._input_spec if input_spec is None else input_spec
    if spec is not None:
        if not isinstance(spec, (list, tuple)):
            raise TypeError(f"jit.save: input_spec must be a list or tuple, got {type(spec).__name__}.")
        names = _parameter_names(static, len(spec))
        arguments = dict(zip(names, spec))

        def invoke(values):
            return static.plain(*values.values())
    elif static._seen is not None:
        args, kwargs = static._seen
        arguments = dict(zip(_parameter_names(static, len(args)), args), **kwargs)

        def invoke(values):
            given = list(values.values())
            return static.plain(*given[:len(args)], **dict(zip(kwargs, given[len(args):])))
    else:
        raise ValueError(f"jit.save: the inputs of {static.__name__} are not known. Hint: give input_spec=[InputSpec(...)], "
                         "or call it once before saving.")
    layers = [static._instance] if isinstance(static._instance, Layer) else list(_layers_of(static._function).values())
    modes = [(layer, layer.training) for top in layers for layer in top.sublayers(include_self=True)]
    try:
        for layer, _ in modes:
            layer.training = False
        program, written = export(invoke, arguments, state_of(static))
    finally:
        for layer, training in modes:
            layer.training = training
    if written:
        warnings.warn(f"jit.save: {static.__name__} changes {', '.join(written)}; the saved program keeps no state from one "
                      "call to the next.", stacklevel=3)
    return program


def _parameter_names(static, count):
    import inspect
    try:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [n for n, p in inspect.signature(static._function).parameters.items() if p.kind in kinds]
    except ValueError:
        names = []
    if static._instance is not None:
        names = names[1:]
    return (names + [f"input_{i}" for i in range(len(names), count)])[:count]


def save(layer, path, input_spec=None, **configs):
    """Saves a Layer or function as a program that runs without Python.

    ``path`` is a prefix. ``path.json`` and ``path.pdiparams`` are the program for PaddlePaddle 3.3, ``path.yuloh`` beside
    them keeps what those cannot (names of state_dict, sizes that follow from others) and refers to the weights in
    ``path.pdiparams``: keep the three together. Where Paddle has no counterpart, a warning names the op, and
    ``path.yuloh`` alone holds everything; so does a path that ends in ``.yuloh``.
    ``input_spec``: list of InputSpec (None is an open size), Tensors (their shape is fixed) or
    constants. A Layer is saved as in ``eval()``, and left in the mode it was in; its other methods marked by ``to_static``
    are saved beside ``forward``. RuntimeError with the line for code that reads tensor values in Python (``if``, ``float``).
    """
    unknown = set(configs) - _CONFIGS
    if unknown:
        raise ValueError(f"jit.save: unknown option {sorted(unknown)[0]!r}; expected one of {sorted(_CONFIGS)}.")
    if not os.path.basename(path):
        raise ValueError("jit.save: path must be a directory and a file name prefix, got "
                         f"{path!r}.")
    refuse_dry("jit.save")
    methods = {}
    if isinstance(layer, Layer):
        if not configs.get("skip_forward"):
            methods["forward"] = (function_of(layer, "jit.save"), input_spec)
        for name in dir(type(layer)):
            if name != "forward" and isinstance(getattr(type(layer), name, None), StaticFunction):
                methods[name] = (getattr(layer, name), None)
    else:
        methods["forward"] = (function_of(layer, "jit.save"), input_spec)
    own = path.endswith(SUFFIX)
    path = path[: -len(SUFFIX)] if own else path
    # All methods are recorded before the first file is touched.
    programs = {name: program_of(*method) for name, method in methods.items()}
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    for name, program in programs.items():
        prefix = path + ("" if name == "forward" else f".{name}")
        if own:
            program.save(prefix + SUFFIX)
            continue
        try:
            _core.write_model(program, prefix + ".json")
            program.save(prefix + SUFFIX, os.path.exists(prefix + ".pdiparams"))
            continue
        except (NotImplementedError, ValueError) as reason:
            warnings.warn(f"jit.save: {reason}\nPaddlePaddle cannot load what was saved; Yuloh can, from {prefix + SUFFIX}.",
                          stacklevel=2)
        program.save(prefix + SUFFIX)
        for stale in (prefix + ".json", prefix + ".pdiparams"):  # of an earlier save
            if os.path.exists(stale):
                os.remove(stale)


def find_files(path):
    """{method: file} of what was saved under a prefix; empty: nothing. Of two formats Yuloh's own, unless the other is
    newer: Paddle may have saved there since.
    """
    found = {}
    folder, base = os.path.split(path)
    names = set(os.listdir(folder or ".")) if os.path.isdir(folder or ".") else set()
    for suffix in (SUFFIX, ".json", ".pdmodel"):
        for name in sorted(names):
            if not name.startswith(base) or not name.endswith(suffix):
                continue
            middle = name[len(base):-len(suffix)]
            if middle == "" or (middle[0] == "." and middle[1:].isidentifier()):
                method, file = middle[1:] or "forward", os.path.join(folder, name)
                if method not in found or os.path.getmtime(file) > os.path.getmtime(found[method]) + _TOGETHER:
                    found[method] = file
    return found


def _program(file):
    """The program in a file; Paddle's own are recorded on placeholders, with their parameters by name."""
    if file.endswith(SUFFIX):
        try:
            program = _core.load_program(file, "")
        except ValueError as error:
            other = os.path.splitext(file)[0] + ".json"
            if "does not belong to" not in str(error) or not os.path.exists(other):
                raise
            warnings.warn(f"jit.load: {error} Loading {other} instead.", stacklevel=3)  # a save ended between the two
            return _program(other)
        if isinstance(program, _core.TracedProgram):
            return program  # else a package of somebody else's model
    from ..static import InputSpec
    params = os.path.splitext(file)[0] + ".pdiparams"
    model = _core.FileModel(file, params if os.path.exists(params) else "")
    specs = {}
    for i, (name, dtype, dims) in enumerate(model.inputs):
        specs[name] = InputSpec([n if isinstance(n, int) else None for n in dims], dtype, name)
    named = [(name, tensor, tensor.dtype.is_floating_point()) for name, tensor in model.weights]
    for name, tensor, _ in named:
        tensor.name = name
        if tensor.dtype.is_floating_point():
            tensor.stop_gradient = False
    return _Rerecorded(model, specs, named)


class _Rerecorded:
    """A file's model as a program: recorded anew for every set of sizes, so whatever it does with sizes is right."""
    _MOST = 16  # sets of sizes that are kept

    def __init__(self, model, specs, named):
        self._model, self._specs, self._named, self._kept = model, specs, named, {}
        guess = {name: [3 if axis == 0 and n < 0 else 32 if n < 0 else n for axis, n in enumerate(spec.shape)]
                 for name, spec in specs.items()}
        self._first = self._program(guess)
        self.inputs = [(name, spec.dtype, list(spec.shape), []) for name, spec in specs.items()]
        self.outputs, self.dims = self._first.outputs, []
        self.nodes, self.statistics = self._first.nodes, self._first.statistics

    def _program(self, shapes):
        from ..static import InputSpec
        specs = {name: InputSpec(shapes[name], spec.dtype, name) for name, spec in self._specs.items()}
        return export(lambda values: self._model.record(list(values.values())), specs, self._named)[0]

    def weights(self):
        """As ``TracedProgram.weights``."""
        return self._first.weights()

    def replay(self, inputs, values):
        """As ``TracedProgram.replay``."""
        key = tuple(tuple(x.shape) for x in inputs)
        program = self._kept.get(key)
        if program is None:
            program = self._kept[key] = self._program({name: list(s) for name, s in zip(self._specs, key)})
            while len(self._kept) > self._MOST:
                self._kept.pop(next(iter(self._kept)))
        mine = {w[0]: value for w, value in zip(self.weights(), values)}
        return program.replay(inputs, [mine.get(w[0], w[4]) if w[0] else w[4] for w in program.weights()])


def load(path, **configs):
    """The TranslatedLayer of what ``save`` wrote under the prefix ``path``, here or in Paddle. ValueError where nothing is
    there.
    """
    from .translated_layer import TranslatedLayer
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"jit.load: the path is {path!r}; expected a str or os.PathLike.")
    path = os.fspath(path)
    path = path[: -len(SUFFIX)] if path.endswith(SUFFIX) else path
    files = find_files(path)
    if not files:
        raise ValueError(f"jit.load: no saved program under the prefix {path!r}. Hint: give the path that jit.save was given, "
                         "without a suffix.")
    return TranslatedLayer({name: _program(file) for name, file in files.items()})
