# SPDX-License-Identifier: Apache-2.0
"""Advice room: the Layer of a model file, for facts."""
from __future__ import annotations

import os
from typing import Any, List, Tuple

__all__ = ["layer_of_file", "specs_of_layer"]

SUFFIXES = (".yuloh", ".json", ".pdmodel", ".pdiparams")


def layer_of_file(path: Any):
    """The TranslatedLayer of what jit.save wrote, here or in Paddle. ValueError where there is none."""
    from .. import jit
    path = os.fspath(path)
    if path.endswith(".onnx"):
        raise ValueError(f"facts: an ONNX file is not a Layer, got {path}. Hint: yuloh convert makes a saved model of it.")
    stem, end = os.path.splitext(path)
    return jit.load(stem if end in SUFFIXES else path)


def specs_of_layer(layer: Any) -> List[Tuple[list, str]]:
    """(shape, dtype) of the inputs that the file declares, -1 where open. ValueError where more than the batch is."""
    from ..framework.dtype import dtype_name
    found = []
    for name, dtype, dims, *_ in layer.program().inputs:
        if any(n == -1 for n in dims[1:]):
            raise ValueError(f"facts: input `{name}` has open sizes beyond the first, {list(dims)}; expected inputs to be given. "
                             "Hint: inputs=[([None, 3, 224, 224], 'float32')].")
        found.append((list(dims), dtype_name(dtype)))
    return found
