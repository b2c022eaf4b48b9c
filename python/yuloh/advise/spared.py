# SPDX-License-Identifier: Apache-2.0
"""What a followed script saves is not written: its weights are random ones, or zeros of a dry run, and the user's checkpoint
of that name is worth more. Loading such a name gives what was saved."""

from __future__ import annotations

import os
from typing import Any, Dict


def spare_files() -> None:
    """For the rest of this process: paddle.save keeps things in memory, jit.save and onnx.export write nothing. Files that
    the script opens by itself are its own."""
    import yuloh
    from yuloh.framework import io

    kept: Dict[str, Any] = {}
    really_save, really_load = io.save, io.load

    def save(obj, path, *words, **configs):
        if hasattr(path, "write"):
            return really_save(obj, path, *words, **configs)
        kept[os.path.realpath(os.fspath(path))] = obj

    def load(path, **configs):
        at = None if hasattr(path, "read") else os.path.realpath(os.fspath(path))
        if at not in kept:
            return really_load(path, **configs)
        return _copied(kept[at], configs.get("return_numpy", False))

    for place in (yuloh, yuloh.framework, io):
        place.save, place.load = save, load
    yuloh.jit.save = yuloh.onnx.export = lambda *_, **__: None


def _copied(v: Any, arrays: bool) -> Any:
    """New containers around the same tensors, or around arrays of them."""
    from yuloh import Tensor

    if isinstance(v, Tensor):
        return v.numpy() if arrays else v
    if isinstance(v, dict):
        return type(v)((k, _copied(x, arrays)) for k, x in v.items())
    return type(v)(_copied(x, arrays) for x in v) if type(v) in (list, tuple) else v
