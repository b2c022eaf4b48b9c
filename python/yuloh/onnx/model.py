# SPDX-License-Identifier: Apache-2.0
"""A model read from an ONNX file, as something to call."""
import os

import numpy as np

from .. import _core


def load(path):
    """Read an ONNX file (opset 7 and later, external data beside it) and return an :class:`OnnxModel`.

    Raises ValueError or OSError naming the file and the place where it is damaged, incomplete or hostile.
    """
    return OnnxModel(path)


class OnnxModel:
    """Calls run the model; ``inputs`` and ``outputs`` are lists of (name, dtype, dims), a named dim being a string.

    Element types without a counterpart are held in the next wider one: uint16 as int32, uint32 and uint64 as int64,
    4-bit integers as 8-bit ones, 8- and 4-bit floats as float32.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        self._file = _core.FileModel(self.path)

    @property
    def inputs(self):
        return self._file.inputs

    @property
    def outputs(self):
        return self._file.outputs

    @property
    def opsets(self):
        """{domain: version}; "" is the default domain."""
        return self._file.opsets

    def unsupported(self):
        """[(operator, count, first place)] of all operators that have no mapping."""
        return self._file.unsupported()

    def infer_types(self, *shapes):
        """[(dtype, dims)] of the outputs for inputs of these shapes, without running anything.

        Raises ValueError naming the node when a shape or a branch depends on the data that are fed: such a model is run,
        not compiled ahead.
        """
        if len(shapes) != len(self.inputs):
            raise TypeError(f"onnx: {self.path} takes {len(self.inputs)} inputs, got {len(shapes)} shapes.")
        held = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}
        return _core.infer_types(self._file, [(held.get(t, t), list(s)) for s, (_, t, _) in zip(shapes, self.inputs)])

    def __call__(self, *args, **named):
        """Outputs as a list of tensors. Inputs by position or by name: tensors, arrays, lists of them for sequences."""
        ports = self.inputs
        if len(args) == 1 and isinstance(args[0], dict) and not named:
            args, named = (), args[0]
        names = [name for name, _, _ in ports]
        unknown = set(named) - set(names)
        if unknown or len(args) > len(ports):
            raise TypeError(f"onnx: {self.path} takes the inputs {names}, got {len(args)} by position and {sorted(named)}.")
        given = dict(zip(names, args))
        twice = set(given) & set(named)
        given.update(named)
        missing = [name for name in names if name not in given]
        if missing or twice:
            raise TypeError(f"onnx: inputs {missing or sorted(twice)} of {self.path} are {'missing' if missing else 'given twice'}.")
        return self._file.record([_fed(given[name], dtype) for name, dtype, _ in ports])


def _fed(value, dtype):
    if value is None or isinstance(value, _core.Tensor):
        return value
    if isinstance(value, (list, tuple)) and (dtype == "sequence" or any(isinstance(v, (np.ndarray, _core.Tensor)) for v in value)):
        return [_fed(v, dtype) for v in value]
    array = np.asarray(value)
    held = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}
    if dtype in held and array.dtype.name == dtype:
        array = array.astype(held[dtype])
    return _core.from_buffer(np.asarray(array, order="C"))
