# SPDX-License-Identifier: Apache-2.0
"""Convert room: what a command line means: a Layer by name, an input's spec, a hook file, a model file."""
import ast
import contextlib
import importlib
import importlib.util
import os
import re
import runpy
import sys
import traceback

from .. import _core

__all__ = ["ModelSource", "layer_named", "parse_spec", "run_hook"]


class _Said(ValueError):
    """A sentence of ours, which needs no place."""


@contextlib.contextmanager
def _of_the_user(what):
    """What the user's own code raises becomes one sentence with its place."""
    try:
        yield
    except _Said:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{error.filename}:{error.lineno}" if isinstance(error,
                                                                 SyntaxError) else f"{frame.filename}:{frame.lineno}"
        text = str(error).strip().splitlines()
        raise ValueError(f"{what}: {type(error).__name__}: {text[0] if text else ''} (at {place})") from error


def layer_named(text):
    """The Layer (or function) that ``pkg.mod.Name``, ``pkg.mod:Name`` or ``file.py:Name`` names;
    ``Name(num_classes=10)`` gives arguments, which must be literals. Classes and builder functions are called.
    `paddle` means Yuloh.
    """
    from ..cli import run
    from ..nn import Layer
    run.install()
    path, arguments = text, ""
    if text.endswith(")") and "(" in text:
        path, _, arguments = text[:-1].partition("(")
    args, kwargs = _literals(text, arguments)
    module, name = _place(path)
    with _of_the_user(text):
        made = _found(module, name)
        if isinstance(made, type) or (callable(made) and not isinstance(made, Layer) and
                                      (arguments or _builds_layer(made))):
            made = made(*args, **kwargs)
    return made


def _found(module, name):
    argv, sys.argv = sys.argv, [module]  # a script's own argparse must not read the options of yuloh
    try:
        if module.endswith(".py"):
            spec = importlib.util.spec_from_file_location(os.path.basename(module)[:-3], module)
            home = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, home)
            spec.loader.exec_module(home)
        else:
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            home = importlib.import_module(module)
        made = home
        for part in name.split("."):
            made = getattr(made, part)
        return made
    except (ImportError, AttributeError, FileNotFoundError) as error:
        raise _Said(
            f"there is no {name!r} in {module!r} ({error}). Hint: package.module:Name or file.py:Name.") from None
    except SystemExit as left:
        raise _Said(f"{module!r} ends while it is imported (SystemExit: {left.code}). Hint: keep the model in a file that can be "
                    "imported.") from None
    finally:
        sys.argv = argv


def _place(path):
    if ":" in path:
        module, _, name = path.rpartition(":")
    else:
        module, _, name = path.rpartition(".")
    if not module or not name:
        raise ValueError(f"{path!r} names no Layer; expected package.module:Name or file.py:Name.")
    return module, name


def _builds_layer(function):
    """Whether a function is one that makes a model: it can be called without arguments."""
    import inspect
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def _literals(text, arguments):
    try:
        call = ast.parse(f"f({arguments})", mode="eval").body
        return ([ast.literal_eval(a)
                 for a in call.args], {k.arg: ast.literal_eval(k.value)
                                       for k in call.keywords if k.arg})
    except (SyntaxError, ValueError, AttributeError):
        raise ValueError(f"the arguments of {text!r} must be literals, as in Name(num_classes=10).") from None


def parse_spec(text):
    """InputSpec of ``[name=][dtype][dims]``: "[N,3,224,224]", "ids=int64[N,128]"; a dim that is no number stays open,
    equal names are one size.
    """
    from ..static import InputSpec
    found = re.fullmatch(r"\s*(?:([\w.]+)\s*=)?\s*(\w+)?\s*\[([^\]]*)\]\s*", text)
    if not found:
        raise ValueError(f"an input spec reads NAME=DTYPE[SIZES], as in x=float32[N,3,224,224], got {text!r}.")
    dims = [d.strip() for d in found[3].split(",")] if found[3].strip() else []
    shape = []
    for d in dims:
        if re.fullmatch(r"\d+", d):
            shape.append(int(d))
        elif re.fullmatch(r"-1|\?|[A-Za-z_]\w*", d):
            shape.append(None)
        else:
            raise ValueError(f"the size {d!r} in {text!r} is neither a number nor a name.")
    spec = InputSpec(shape, found[2] or "float32", found[1])
    spec.dim_names = [d if re.fullmatch(r"[A-Za-z_]\w*", d) and d != "None" else "" for d in dims]
    return spec


def run_hook(path):
    """Runs a hook file; what it defines by name (``rename_weight``) is returned, mappings it adds are in force."""
    if not os.path.isfile(path):
        raise ValueError(f"there is no hook file {path!r}.")
    with _of_the_user(path):
        return runpy.run_path(path)


class ModelSource:
    """A model to convert or to look at: ``program``, ``name``, ``form`` and, of files, ``file`` (a FileModel)."""

    FORMS = {".onnx": "ONNX", ".json": "Paddle (PIR)", ".pdmodel": "Paddle (ProgramDesc)", ".yuloh": "Yuloh"}

    def __init__(self, name, form, program, file=None, path="", params=""):
        self.name, self.form, self.program, self.file, self.path, self.params = name, form, program, file, path, params
        self.whole, self._values, self._names = program, {}, []

    @classmethod
    def of_file(cls, path, params=""):
        """A model file of any format that is read, by content; a prefix of jit.save will do."""
        path = os.fspath(path)
        if not os.path.isfile(path):
            from ..jit.save_load import find_files
            found = find_files(path).get("forward")
            if found is None:
                raise ValueError(f"{path!r} is a directory." if os.path.isdir(path) else f"there is no file {path!r}.")
            path = found
        if _core.is_package(path):
            program = _core.load_program(path)
            packed = not isinstance(program, _core.TracedProgram)  # somebody else's model in a package
            return cls(path, "Yuloh", program, _core.FileModel(path) if packed else None, path)
        params = params or _params_beside(path)
        file = _core.FileModel(path, params)
        form = "ONNX" if file.opsets else cls.FORMS.get(os.path.splitext(path)[1], "Paddle")
        return cls(path, form, _core.load_program(path, params), file, path, params)

    @classmethod
    def of_layer(cls, layer, specs, name):
        """A Layer or function with InputSpecs (None: its own)."""
        from ..jit.save_load import program_of
        from ..jit.static_function import StaticFunction, to_static
        from ..nn import Layer
        static = layer
        if isinstance(layer, Layer):
            static = layer.forward if isinstance(layer.forward, StaticFunction) else StaticFunction(
                type(layer).forward, None, layer)
        elif not isinstance(layer, StaticFunction):
            static = to_static(layer)
        with _of_the_user(name):
            return cls(name, "Python", program_of(static, specs))

    def with_inputs_set(self, texts, shapes=None):
        """The source with some inputs fixed, {name: literal}: what depends on them is decided while it is recorded (an If on a
        sampling rate). Its program lacks these inputs; ``whole`` is the one that takes them all, by ``filled``.
        """
        import numpy as np

        from ..jit.export import export
        from ..static import InputSpec
        from ..tensor import to_tensor
        if self.file is None or any(p[1].name == "bfloat16" for p in self.program.inputs):
            raise ValueError("only inputs of a model file of others can be set (--set).")
        ports, values, specs, shapes = self.program.inputs, {}, {}, shapes or {}
        for name in texts:
            if name not in [p[0] for p in ports]:
                raise ValueError(f"there is no input {name!r}; the model has {[p[0] for p in ports]}.")
        for number, (name, dtype, dims, labels) in enumerate(ports):
            if name not in texts:
                dims = [m if n < 0 else n for n, m in zip(dims, shapes[name])] if name in shapes else dims
                specs[name] = InputSpec([n if n >= 0 else None for n in dims], dtype, name)
                specs[name].dim_names = [n if n != "?" else "" for n in labels]
                continue
            try:
                value = np.array(ast.literal_eval(texts[name])).astype(dtype.name)
                values[number] = value.reshape(dims) if all(n >= 0 for n in dims) else value
            except (ValueError, SyntaxError, TypeError):
                raise ValueError(f"the value of {name} must be a number or a list for {dtype.name}{list(dims)}, got "
                                 f"{texts[name]!r}.") from None
        named = [(name, tensor, tensor.dtype.is_floating_point()) for name, tensor in self.file.weights]

        def record(given):
            given = iter(given.values())
            return self.file.record([to_tensor(values[i]) if i in values else next(given) for i in range(len(ports))])

        result = ModelSource(self.name, self.form, export(record, specs, named)[0], self.file, self.path, self.params)
        result.whole, result._values, result._names = self.program, values, [p[0] for p in self.program.outputs]
        return result

    def filled(self, arrays):
        """Inputs of ``whole`` from those of ``program``."""
        if not self._values:
            return arrays
        given = iter(arrays)
        return [self._values[i] if i in self._values else next(given) for i in range(len(self.whole.inputs))]

    @property
    def output_names(self):
        """Of the file, where the program has lost them; else []."""
        return self._names

    @property
    def n_operators(self):
        """How many operators it has, of the file's own kind."""
        return len(self.file.op_types) if self.file else sum(n["kind"] == "op" for n in self.program.nodes)

    @property
    def quantised(self):
        """Whether some of its operators compute with quantised values."""
        names = self.file.op_types if self.file else [n["op"] for n in self.program.nodes if n["kind"] == "op"]
        return any("quantize" in n.lower() or n.lower().startswith("qlinear") for n in names)

    def unsupported(self):
        """[(operator, count, first place)] without a mapping."""
        return self.file.unsupported() if self.file else []


def _params_beside(path):
    params = os.path.splitext(path)[0] + ".pdiparams"
    return params if path.endswith((".json", ".pdmodel")) and os.path.exists(params) else ""
