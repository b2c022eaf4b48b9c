# SPDX-License-Identifier: Apache-2.0
"""A training script, followed until its first optimizer step: which Layer it called with what, and with which optimizer.

Tensors are lazy, so up to there hardly anything has been computed; the script goes no further.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple


class _Stop(BaseException):
    """The first optimizer step: no `except Exception` of the script holds it."""


@dataclass
class Seen:
    """layer: the outermost Layer called last; inputs: (shape, dtype) of its tensors; optimizer: what stepped, if any did."""

    layer: Optional[object] = None
    inputs: List[Tuple[List[int], str]] = field(default_factory=list)
    keywords: bool = False
    optimizer: Optional[object] = None
    names: Dict[str, object] = field(default_factory=dict)


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
    except (Exception, SystemExit) as error:
        if seen.layer is None or not (isinstance(error, SystemExit) and not error.code):
            raise Failed(path, error, "its first optimizer step") from None
    seen.names = dict(vars(main))
    return seen


@contextlib.contextmanager
def _watched(seen: Seen):
    import yuloh

    depth = [0]
    call = yuloh.nn.Layer.__call__

    def called(layer, *inputs, **keywords):
        if depth[0] == 0 and not type(layer).__module__.startswith("yuloh.nn.layer.loss"):
            tensors = [t for t in inputs if isinstance(t, yuloh.Tensor)]
            # The model, not a loss beside it: what holds parameters.
            if tensors and any(True for _ in layer.parameters()):
                seen.layer = layer
                seen.inputs = [([int(n) for n in t.shape], t.dtype.name) for t in tensors]
                seen.keywords = bool(keywords) or len(tensors) != len(inputs)
        depth[0] += 1
        try:
            return call(layer, *inputs, **keywords)
        finally:
            depth[0] -= 1

    def stepped(optimizer, *_, **__):
        seen.optimizer = optimizer
        raise _Stop

    def scaled(scaler, optimizer, *_, **__):
        stepped(optimizer)

    kinds = [yuloh.optimizer.Optimizer, *yuloh.optimizer.Optimizer.__subclasses__()]
    places = [(k, n, stepped) for k in kinds for n in ("step", "minimize") if n in vars(k)]
    places += [
        (yuloh.amp.GradScaler, n, scaled) for n in ("step", "minimize") if n in vars(yuloh.amp.GradScaler)
    ]
    before = [(k, n, vars(k)[n]) for k, n, _ in places]
    yuloh.nn.Layer.__call__ = called
    for kind, name, function in places:
        setattr(kind, name, function)
    try:
        yield
    finally:
        yuloh.nn.Layer.__call__ = call
        for kind, name, function in before:
            setattr(kind, name, function)
