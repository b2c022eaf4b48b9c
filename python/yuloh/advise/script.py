# SPDX-License-Identifier: Apache-2.0
"""A training script, followed until its first optimizer step: which Layer it called with what, and with which optimizer.

Tensors are lazy, so up to there hardly anything has been computed; the script goes no further.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import types
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple


class _Stop(BaseException):
    """The first optimizer step: no `except Exception` of the script holds it."""


@dataclass
class Seen:
    """layer: the outermost Layer called last; inputs: (shape, dtype) of its tensors; optimizer: what stepped, if any did.
    precision: what that call computed in, of fp32, bf16, fp16; cast: by auto_cast, with float32 parameters. passes: backward
    passes before the step, each after a call of the layer; recomputed: a part was passed to recompute."""

    layer: Optional[object] = None
    inputs: List[Tuple[List[int], str]] = field(default_factory=list)
    keywords: bool = False
    optimizer: Optional[object] = None
    names: Dict[str, object] = field(default_factory=dict)
    precision: str = "fp32"
    cast: bool = False
    passes: int = 1
    recomputed: bool = False


def follow(path: str, args: Sequence[str] = ()) -> Seen:
    """Runs the script as __main__ with `args` until its first optimizer step or its end.

    Raises ValueError, in one sentence with the line, when it fails before. Data sets are synthetic unless YULOH_DATA says
    otherwise: only shapes matter here. This process is the script's afterwards: see contained.py.
    """
    from ..cli.run import install
    from .user_file import Failed

    install()
    os.environ.setdefault("YULOH_DATA", "synthetic")
    seen, full = Seen(), os.path.abspath(path)
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = full, __builtins__
    sys.modules["__main__"], sys.argv = main, [path, *args]
    sys.path.insert(0, os.path.dirname(full))
    try:
        with open(full, "rb") as file:
            code = compile(file.read(), full, "exec")
        with _watched(seen):
            exec(code, main.__dict__)
    except _Stop:
        pass
    except BaseException as error:  # of any kind: an interrupt of ours ends this process instead
        if seen.layer is None or not (isinstance(error, SystemExit) and not error.code):
            raise Failed(path, error, "its first optimizer step") from None
    seen.names = dict(vars(main))
    return seen


@contextlib.contextmanager
def _watched(seen: Seen):
    import yuloh

    from ..distributed.fleet import utils

    depth, calls, backwards, asked = [0], [0], [0], ["bf16"]
    call, enter, backward = yuloh.nn.Layer.__call__, yuloh.amp.auto_cast.__enter__, yuloh.Tensor.backward
    begin = utils._core.recompute_begin

    def called(layer, *inputs, **keywords):
        if depth[0] == 0 and not type(layer).__module__.startswith("yuloh.nn.layer.loss"):
            tensors = [t for t in inputs if isinstance(t, yuloh.Tensor)]
            # The model, not a loss beside it: what holds parameters.
            if tensors and any(True for _ in layer.parameters()):
                seen.layer = layer
                seen.inputs = [([int(n) for n in t.shape], t.dtype.name) for t in tensors]
                seen.keywords = bool(keywords) or len(tensors) != len(inputs)
                calls[0] += layer.training
                of = [p.dtype.name for p in layer.parameters()]
                half = next((n for n in ("bfloat16", "float16") if sum(d == n for d in of) * 2 > len(of)), None)
                seen.precision = {"bfloat16": "bf16", "float16": "fp16"}.get(half, "fp32")
                seen.cast = False
                if yuloh.amp.is_autocast_enabled():
                    casts()
        depth[0] += 1
        try:
            return call(layer, *inputs, **keywords)
        finally:
            depth[0] -= 1

    def casts():
        """The call is under auto_cast, or enters it: parameters say whether they were decorated."""
        seen.cast, seen.precision = seen.precision == "fp32", asked[0]

    def entered(block):
        result = enter(block)
        if block._settings is not None:
            asked[0] = "fp16" if block._asked == "float16" else "bf16"
            if depth[0]:
                casts()
        return result

    def differentiated(tensor, *words, **named):
        backwards[0] += 1
        return backward(tensor, *words, **named)

    def recomputes(*words):
        seen.recomputed = True
        return begin(*words)

    def stepped(optimizer, *_, **__):
        seen.optimizer = optimizer
        # Several models, or several calls for one loss, are no accumulation.
        seen.passes = backwards[0] if backwards[0] == calls[0] > 1 else 1
        raise _Stop

    def scaled(scaler, optimizer, *_, **__):
        stepped(optimizer)

    kinds = [yuloh.optimizer.Optimizer, *yuloh.optimizer.Optimizer.__subclasses__()]
    places = [(k, n, stepped) for k in kinds for n in ("step", "minimize") if n in vars(k)]
    places += [
        (yuloh.amp.GradScaler, n, scaled) for n in ("step", "minimize") if n in vars(yuloh.amp.GradScaler)
    ]
    before = [(k, n, vars(k)[n]) for k, n, _ in places]
    yuloh.nn.Layer.__call__, yuloh.amp.auto_cast.__enter__ = called, entered
    yuloh.Tensor.backward, utils._core.recompute_begin = differentiated, recomputes
    said = threading.excepthook
    threading.excepthook = lambda what: None if what.exc_type is _Stop else said(what)
    for kind, name, function in places:
        setattr(kind, name, function)
    try:
        yield
    finally:
        yuloh.nn.Layer.__call__, yuloh.amp.auto_cast.__enter__ = call, enter
        yuloh.Tensor.backward, utils._core.recompute_begin = backward, begin
        threading.excepthook = said
        for kind, name, function in before:
            setattr(kind, name, function)
