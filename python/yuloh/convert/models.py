# SPDX-License-Identifier: Apache-2.0
"""Convert room: a model in another format, with proof. Everything without a counterpart is listed before anything is
written; what was written is read again from the disk and must give the source's outputs.
"""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from .. import _core
from .compare import compare, open_sizes, plain_session

__all__ = ["ConversionError", "SUFFIXES", "convert_model", "refusals", "runtimes"]

SUFFIXES = (".onnx", ".pdmodel", ".json", ".yuloh")

_ONNXRUNTIME = """
import sys, numpy as np, onnxruntime as rt
rt.set_default_logger_severity(3)
session = rt.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
given = np.load(sys.argv[2])
out = session.run(None, {p.name: given[f"a{i}"] for i, p in enumerate(session.get_inputs())})
np.savez(sys.argv[3], *out)
"""
_PADDLE = """
import sys, numpy as np, paddle.inference as pi
config = pi.Config(*sys.argv[1].split("|"))
config.disable_glog_info(); config.disable_gpu(); config.disable_mkldnn()
predictor = pi.create_predictor(config)
given = np.load(sys.argv[2])
for i, name in enumerate(predictor.get_input_names()):
    handle = predictor.get_input_handle(name)
    handle.reshape(given[f"a{i}"].shape); handle.copy_from_cpu(given[f"a{i}"])
predictor.run()
np.savez(sys.argv[3], *[predictor.get_output_handle(n).copy_to_cpu() for n in predictor.get_output_names()])
"""


class ConversionError(Exception):
    """The conversion is impossible or its outcome wrong; the text says why. Nothing was written."""


def refusals(source, out, **options):
    """Lines about all that has no counterpart: [] where the source can be written to ``out``."""
    lines = []
    missing = source.unsupported()
    if missing:
        lines.append(f"{source.name}: {len(missing)} operators are not supported:")
        lines += [f"  {op:<28} x{count:<4} first at {place}{_further(source, op)}" for op, count, place in missing]
        word = missing[0][0]
        lines += [
            "A way forward: a hook file, given as --hook FILE.py, that maps each of them:", "  import yuloh",
            f"  @yuloh.onnx.mapping({word!r}" + (")" if source.form == "ONNX" else ", dialect='paddle')"),
            f"  def {word.rpartition('.')[2].lower()}(attrs, x): return x * attrs['scale']",
            "or export the model from its own framework with simpler operators."
        ]
        return lines
    try:
        without = _core.unwritable(source.program, out, **options)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        if "depends on the data" in str(error):
            return [f"{source.name} cannot be written to {out}: {str(error).splitlines()[0]}",
                    "A way forward: --set INPUT=VALUE, if that input decides it and may be fixed."]
        text = str(error).replace("Hint: fix that size in the InputSpec.",
                                  "Hint: fix it by --shape INPUT=N,M.. (-1: stays open).")
        return [f"{source.name} cannot be written to {out}: {text}"]
    if without:
        lines.append(f"{len(without)} operators have no counterpart in {os.path.splitext(out)[1]}:")
        lines += [f"  {op:<28} x{count:<4} first at {place or '?'}: {why}" for op, count, place, why in without]
        lines.append(
            "A way forward: write them with other operators, compute them outside of the model, or convert to .yuloh, which "
            "keeps every op.")
    return lines


def _further(source, op):
    """Names of some more nodes of a kind."""
    names = [name or (outputs[0] if outputs else "?") for kind, name, _, outputs in source.file.nodes if kind == op]
    return f"; nodes {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}" if len(names) > 1 else ""


def runtimes(path, params=""):
    """[(name, function of arrays)] of other makers' runtimes that are installed and read this file, each in a
    process of its own.
    """
    if path.endswith(".onnx") and _installed("onnxruntime"):
        return [("onnxruntime", lambda arrays: _run_elsewhere(_ONNXRUNTIME, path, arrays))]
    if path.endswith((".json", ".pdmodel")) and _installed("paddle"):
        files = "|".join([path, params or os.path.splitext(path)[0] + ".pdiparams"])
        return [("paddle", lambda arrays: _run_elsewhere(_PADDLE, files, arrays))]
    return []


def _fixed(program, shapes):
    """{label: [size]} of open sizes that are written as fixed ones."""
    numbers = {p[0]: i for i, p in enumerate(program.inputs)}
    unknown = set(shapes or {}) - set(numbers)
    if unknown:
        raise ValueError(f"there is no input {sorted(unknown)[0]!r}; the model has {sorted(numbers)}.")
    slots = open_sizes(program)
    return {
        label: [shapes[name][axis]]
        for name, i in numbers.items() if name in (shapes or {})
        for axis, label in [(axis, label) for (at, axis), label in slots.items() if at == i]
        if axis < len(shapes[name]) and shapes[name][axis] >= 0
    }


def _installed(name):
    held = sys.modules.get(name)
    if held is not None:
        return not getattr(held, "__name__", "").startswith("yuloh")
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return found is not None and type(found.loader).__module__.split(".")[0] != "yuloh"


def _run_elsewhere(code, path, arrays):
    with tempfile.TemporaryDirectory() as folder:
        given, out = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
        np.savez(given, **{f"a{i}": a.numpy() if isinstance(a, _core.Tensor) else a for i, a in enumerate(arrays)})
        done = subprocess.run([sys.executable, "-c", code, path, given, out],
                              capture_output=True,
                              text=True,
                              timeout=600)
        if done.returncode:
            raise ConversionError(
                f"the other runtime refuses {path}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        with np.load(out) as found:
            return [found[f"arr_{i}"] for i in range(len(found.files))]


def convert_model(source,
                  out,
                  rtol=1e-4,
                  atol=1e-5,
                  seed=0,
                  sizes=None,
                  given=None,
                  others=True,
                  keep=False,
                  **options):
    """Writes ``source`` (a ModelSource) to ``out`` and returns an Outcome. Raises ConversionError, with nothing
    written, where an operator has no counterpart; where a difference is above the tolerance the file is not put in
    place either, unless ``keep``.
    """
    from ..inference import Config, create_predictor
    if os.path.splitext(out)[1] not in SUFFIXES:
        raise ValueError(
            f"the format is not known by the suffix, got {out!r}; expected one of {', '.join(SUFFIXES)}.")
    sizes = {**(sizes or {}), **_fixed(source.program, options.get("shapes"))}
    lines = refusals(source, out, **options)
    if lines:
        raise ConversionError("\n".join(lines))
    folder = os.path.dirname(os.path.abspath(out))
    os.makedirs(folder, exist_ok=True)
    parts = tempfile.mkdtemp(prefix=".convert.", dir=folder)
    try:
        written = os.path.join(parts, os.path.basename(out))
        if source.output_names:
            options["output_names"] = source.output_names
        _core.write_model(source.program, written, **options)
        beside = os.path.splitext(written)[0] + ".pdiparams"
        notes = []
        predictor = create_predictor(Config(written, beside) if os.path.exists(beside) else Config(written))
        plain = plain_session(source.whole)
        more = [(f"{name}, {side}", _optional(run, f"{name}, {side}", source, notes) if side == "IN" else run)
                for side, files in (("IN", (source.path, source.params)), ("OUT", (written, )))
                for name, run in runtimes(*files)] if others and _has_numpy_types(source.program) else []
        found = compare(source.program, lambda arrays: plain.run(source.filled(arrays)), predictor.run, seed, rtol, atol,
                        sizes, given, more, source.output_names)
        if keep or all(d.ok for d in found):
            for name in os.listdir(parts):
                os.replace(os.path.join(parts, name), os.path.join(folder, name))
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    return Outcome(found, notes)


class Outcome:
    """``differences`` ([Difference]) and ``notes`` (what another runtime could not do with the source)."""

    def __init__(self, differences, notes):
        self.differences, self.notes = differences, notes

    @property
    def same(self):
        """Whether every difference is within the tolerance."""
        return all(d.ok for d in self.differences)


def _has_numpy_types(program):
    """Whether arrays can carry all inputs: bfloat16 and float8 have no NumPy type."""
    return all(p[1].name != "bfloat16" and not p[1].name.startswith("float8") for p in program.inputs)


def _optional(run, name, source, notes):
    """``run``, but what it refuses becomes a note and is not compared: the source is not ours to mend."""

    def tried(arrays):
        try:
            return run(source.filled(arrays))
        except ConversionError as error:
            if not any(n.startswith(name) for n in notes):
                notes.append(f"{name}: {error}")
            return None

    return tried
