# SPDX-License-Identifier: Apache-2.0
"""The model of somebody's Python file: the one that a training script steps first, or one that is named."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Dict, Optional, Sequence

from .terms import JOB, OPTIMIZERS

NAMES = ("model", "net", "network", "make_model", "build_model", "Model", "Net")


class Failed(ValueError):
    """What the file raised, in one sentence. again: it may be because tensors read as zero in a dry run."""

    def __init__(self, file: str, error: BaseException, what: str) -> None:
        self.again = isinstance(error, Exception) and not isinstance(error, (SyntaxError, ImportError, OSError, EOFError))
        said = _words_of(error).strip().splitlines() or [""]
        line = line_of(file, error)
        if isinstance(error, SystemExit):
            told = f"ended itself (exit status {error.code if isinstance(error.code, int) else int(error.code is not None)})"
            super().__init__(f"advise: {file}{line}: {told} before {what}. Hint: arguments of the script go after --; "
                             "FILE.py:NAME with --input plans one model of it.")
            return
        hint = " Hint: there is no standard input here." if isinstance(error, EOFError) else ""
        told = f"{type(error).__name__}: {said[0][:300]}".removesuffix(": ").rstrip(".")
        super().__init__(f"advise: {file}{line}: failed before {what}: {told}.{hint}")


def _words_of(error: BaseException) -> str:
    """What it says, "" where it cannot even say that."""
    try:
        return str(error)
    except Exception:
        return ""


def line_of(file: str, error: BaseException) -> str:
    """", line 12": the innermost line of the file that led to the error."""
    path, found = os.path.abspath(file), None
    if isinstance(error, SyntaxError) and error.filename == path:
        found = error.lineno
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            found = trace.tb_lineno
        trace = trace.tb_next
    return f", line {found}" if found else ""


def model_of(file: str, name: Optional[str], specs, job: Dict[str, object], args: Sequence[str] = ()):
    """(Layer or callable, input specs) of a file, and what it says of the optimizer in `job`. Raises ValueError."""
    return _named(file, name, specs, args) if name else _trained(file, specs, job, args)


def _trained(file: str, specs, job: Dict[str, object], args: Sequence[str]):
    """Of a script without a name: what it trains, else the one model it defines."""
    from .script import follow

    seen = follow(file, args)
    _heed(seen, job)
    if seen.layer is not None and not specs:
        if seen.keywords:
            raise ValueError(
                f"advise: {file} calls its model with more than tensors. Hint: FILE.py:NAME with --input."
            )
        return seen.layer, seen.inputs
    return _with_specs(seen.layer or _pick(seen.names, "__main__", file, None), seen.names, file, specs)


def _heed(seen, job: Dict[str, object]) -> None:
    """What the script says of a training, where the question does not; `script` of the job holds the remarks on it, how to
    plan the step, and `own_micro` the samples of a pass of several."""
    if not job.get("training", True):
        return
    said: list = []
    kind = type(seen.optimizer).__name__.lower()
    if seen.optimizer is None:
        said.append(("script_no_optimizer", job.get("optimizer", JOB["optimizer"])))
    elif "optimizer" not in job and kind not in OPTIMIZERS:
        said.append(("script_optimizer_unknown", type(seen.optimizer).__name__, JOB["optimizer"]))
    elif "optimizer" not in job:
        job["optimizer"] = kind
    script: Dict[str, object] = {"remarks": said, "recomputed": seen.recomputed}
    if seen.layer is not None and "precision" not in job:
        job["precision"] = seen.precision
        script["cast"] = seen.cast
        said.append(("script_precision", seen.precision))
    elif seen.layer is not None and job["precision"] != seen.precision:
        said.append(("script_precision_other", job["precision"], seen.precision))
    first = seen.inputs[0][0][0] if seen.inputs and seen.inputs[0][0] else 0
    if seen.passes > 1 and first > 0 and "batch" not in job and "micro" not in job:
        job["batch"], job["own_micro"] = first * seen.passes, first
        said.append(("script_passes", seen.passes, first))
    if seen.recomputed:
        said.append(("script_recomputes",))
    job["script"] = script


def _named(file: str, name: str, specs, args: Sequence[str]):
    """Of a name in a Python file that says `import paddle` or `import yuloh`."""
    from ..cli.run import install

    install()
    path = os.path.abspath(file)
    sys.path.insert(0, os.path.dirname(path))
    sys.argv = [file, *args]
    try:
        loader = importlib.util.spec_from_file_location("advised_model", path)
        module = importlib.util.module_from_spec(loader)
        sys.modules["advised_model"] = module
        loader.loader.exec_module(module)
    except BaseException as error:  # of any kind: an interrupt of ours ends this process instead
        raise Failed(file, error, "it was imported") from None
    return _with_specs(_pick(vars(module), "advised_model", file, name), vars(module), file, specs)


def _with_specs(model, names, file: str, specs):
    if specs is None:
        given = getattr(model, "input_spec", None) or names.get("input_spec")
        if given is None:
            raise ValueError(
                f"advise: the input of {file} is not known. Hint: --input 32,3,224,224, or input_spec = [...] "
                "in the file."
            )
        specs = [
            ([-1 if n is None else int(n) for n in s.shape], str(s.dtype).rpartition(".")[2]) for s in given
        ]
    return model, specs


def _pick(names, home: str, file: str, name: Optional[str]):
    import yuloh

    layer = yuloh.nn.Layer

    def usable(v):
        return isinstance(v, layer) or (callable(v) and getattr(v, "__module__", "") == home)

    listed = [k for k, v in names.items() if not k.startswith("_") and usable(v)]
    has = f"it has {', '.join(listed[:8])}." if listed else "it has none."
    if name is not None:
        model = names.get(name)
        if model is None or not (isinstance(model, layer) or callable(model)):
            raise ValueError(f"advise: {file} has no Layer or function {name!r}. Hint: {has}")
        return model
    for known in NAMES:
        if usable(names.get(known)):
            return names[known]
    made = [v for v in names.values() if isinstance(v, layer)]
    classes = [
        v for v in names.values() if isinstance(v, type) and issubclass(v, layer) and v.__module__ == home
    ]
    found = made or classes
    if len(found) != 1:
        raise ValueError(f"advise: which model of {file}? Hint: FILE.py:NAME; {has}")
    return found[0]
