# SPDX-License-Identifier: Apache-2.0
"""Framework room: a reader of pickles that rebuilds arrays and containers and refuses everything else.

A pickle is a program: an unrestricted reader runs whatever the file's author put in. Names outside the table
below raise ``pickle.UnpicklingError`` before anything of theirs is called.
"""
import codecs
import collections
import pickle

import numpy as np

__all__ = ["RestrictedUnpickler"]

_MAX_DIMS = 32


class _ArrayType:
    """Stands for ``numpy.ndarray`` in a file, which only ``_reconstruct`` may use: calling it is refused."""

    def __new__(cls, *args, **kwargs):
        raise pickle.UnpicklingError("arrays are rebuilt by numpy's own helper only.")


def _reconstruct(kind, shape, code):
    if kind is not _ArrayType:
        raise pickle.UnpicklingError("only numpy arrays can be rebuilt.")
    return np.ndarray.__new__(np.ndarray, (0,), "b")


def _scalar(dtype, data=b""):
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise pickle.UnpicklingError("arrays of Python objects are refused.")
    return np.frombuffer(data.encode("latin1") if isinstance(data, str) else data, dtype=dtype)[0]


def _frombuffer(buffer, dtype, shape, order):
    dtype = np.dtype(dtype)
    if dtype.hasobject or len(shape) > _MAX_DIMS:
        raise pickle.UnpicklingError("arrays of Python objects are refused.")
    return np.frombuffer(buffer, dtype=dtype).reshape(shape, order=order).copy()


def _dtype(name, *flags):
    dtype = np.dtype(name)
    if dtype.kind in "OV":  # a record type could be told to hold objects after it was made
        raise pickle.UnpicklingError("arrays of Python objects and records are refused.")
    return dtype


def _evaluate(text, names):
    """Old Paddle files write a tensor as the call ``eval('data', {'data': array})``;
    only that form is known.
    """
    if text == "data" and isinstance(names, dict) and set(names) == {"data"}:
        return names["data"]
    raise pickle.UnpicklingError("the file asks to run Python code, which is refused.")


def _encode(text, encoding="utf-8"):
    return codecs.encode(text, encoding) if encoding in ("latin1", "latin-1", "utf-8",
                                                         "ascii") else _refuse(encoding)


def _refuse(what):
    raise pickle.UnpicklingError(f"{what} is refused.")


_ALLOWED = {
    ("builtins", "tuple"): tuple, ("builtins", "list"): list, ("builtins", "dict"): dict,
    ("builtins", "set"): set, ("builtins", "frozenset"): frozenset, ("builtins", "complex"): complex,
    ("builtins", "slice"): slice, ("builtins", "range"): range, ("builtins", "bytearray"): bytearray,
    ("builtins", "eval"): _evaluate, ("collections", "OrderedDict"): collections.OrderedDict,
    ("_codecs", "encode"): _encode, ("numpy", "ndarray"): _ArrayType, ("numpy", "dtype"): _dtype,
}
for _module in ("numpy.core", "numpy._core"):
    _ALLOWED[(_module + ".multiarray", "_reconstruct")] = _reconstruct
    _ALLOWED[(_module + ".multiarray", "scalar")] = _scalar
    _ALLOWED[(_module + ".numeric", "_frombuffer")] = _frombuffer
for _builtin in ("tuple", "list", "dict", "set", "frozenset", "complex", "slice", "bytearray", "eval"):
    _ALLOWED[("__builtin__", _builtin)] = _ALLOWED[("builtins", _builtin)]


class RestrictedUnpickler(pickle.Unpickler):
    """``pickle.Unpickler`` limited to arrays, numbers, text and containers."""

    def find_class(self, module, name):
        try:
            return _ALLOWED[(module, name)]
        except KeyError:
            raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which is refused. Hint: save "
                                         "tensors, "
                                         "arrays, numbers, text and containers of them only.") from None

    def persistent_load(self, pid):
        _refuse("a reference to something outside the file")
