# SPDX-License-Identifier: Apache-2.0
"""Framework room: the default floating dtype, and dtype names in every spelling users write.

dtype objects themselves are the core's ``DType``; here strings, NumPy types and objects are turned into
names.
"""
import numpy as np

from .. import _core

__all__ = ["dtype_name", "get_default_dtype", "is_floating", "set_default_dtype"]

_default = "float32"
_FLOATS = ("bfloat16", "float16", "float32", "float64")
_ALIASES = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64",
            "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}


def dtype_name(dtype):
    """``'float32'`` for ``paddle.float32``, ``'float32'``, ``'paddle.float32'``, ``np.float32`` or
    ``np.dtype``.

    Raises TypeError for what is no dtype.
    """
    name = getattr(dtype, "name", None)
    if not isinstance(name, str):
        if isinstance(dtype, str):
            name = dtype
        elif isinstance(dtype, type):
            name = {float: "float32", int: "int64", bool: "bool"}.get(dtype) or np.dtype(dtype).name
        else:
            raise TypeError(f"dtype: not a dtype, got {dtype!r}; expected a name such as 'float32'.")
    name = name.rsplit(".", 1)[-1].lower()
    return _ALIASES.get(name, name)


def is_floating(dtype):
    """True for the real floating dtypes, half precisions included."""
    return dtype_name(dtype) in _FLOATS


def get_default_dtype():
    """Name of the dtype that Python floats and new parameters get; ``'float32'`` at start."""
    return _default


def set_default_dtype(d):
    """Sets the default floating dtype. Raises TypeError when ``d`` is no floating dtype."""
    global _default
    name = dtype_name(d)
    if name not in _FLOATS:
        raise TypeError(f"set_default_dtype: unsupported dtype, got {d!r}; expected one of "
                        f"{', '.join(_FLOATS)}.")
    _core.set_default_dtype(name)
    _default = name
