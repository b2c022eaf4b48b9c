# SPDX-License-Identifier: Apache-2.0
"""Framework room: a reader of pickles that rebuilds arrays and containers and refuses everything else.

A pickle is a program: an unrestricted reader runs whatever the file's author put in. Here names outside a table, and
calls of anything but what the table holds, raise ``pickle.UnpicklingError`` before anything of theirs is called;
nothing is allocated from a size that the file merely claims. Python's own reader in Python is the base, not the one
in C: that one makes its memo as large as a file says.
"""
import codecs
import collections
import io
import pickle

import numpy as np

__all__ = ["RestrictedUnpickler"]

_MAX_DIMS = 32
_MAX_DIGITS = 4000  # of a number written as text: converting longer ones takes quadratic time


class _ArrayType:
    """Stands for ``numpy.ndarray`` in a file, which only ``_reconstruct`` may use: calling it is refused."""

    def __new__(cls, *args, **kwargs):
        raise pickle.UnpicklingError("arrays are rebuilt by numpy's own helper only.")


def _reconstruct(kind, shape, code):
    if kind is not _ArrayType:
        raise pickle.UnpicklingError("only numpy arrays can be rebuilt.")
    return np.ndarray.__new__(np.ndarray, (0, ), "b")


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


def _container(kind):
    """``kind`` of what is there already: a range could be as long as it likes."""

    def make(*items):
        if any(not isinstance(i, (list, tuple, dict, set, frozenset)) for i in items):
            _refuse(f"{kind.__name__} of anything but a container")
        return kind(*items)

    return make


def _bytearray(data=b"", encoding="latin1"):
    if isinstance(data, str):
        data = _encode(data, encoding)
    return bytearray(data) if isinstance(data, bytes) else _refuse("a bytearray of anything but bytes")


def _encode(text, encoding="utf-8"):
    return codecs.encode(text, encoding) if encoding in ("latin1", "latin-1", "utf-8", "ascii") else _refuse(encoding)


def _refuse(what):
    raise pickle.UnpicklingError(f"{what} is refused.")


_ALLOWED = {
    ("builtins", "complex"): complex,
    ("builtins", "slice"): slice,
    ("builtins", "range"): range,
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "eval"): _evaluate,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("_codecs", "encode"): _encode,
    ("numpy", "ndarray"): _ArrayType,
    ("numpy", "dtype"): _dtype,
}
for _kind in (tuple, list, dict, set, frozenset):
    _ALLOWED[("builtins", _kind.__name__)] = _container(_kind)
for _module in ("numpy.core", "numpy._core"):
    _ALLOWED[(_module + ".multiarray", "_reconstruct")] = _reconstruct
    _ALLOWED[(_module + ".multiarray", "scalar")] = _scalar
    _ALLOWED[(_module + ".numeric", "_frombuffer")] = _frombuffer
for _builtin in ("tuple", "list", "dict", "set", "frozenset", "complex", "slice", "bytearray", "eval"):
    _ALLOWED[("__builtin__", _builtin)] = _ALLOWED[("builtins", _builtin)]


class _Bounded:
    """A file that is asked for no more than it holds: a length in it may claim anything."""

    def __init__(self, file):
        self._file, self.readline = file, file.readline

    def read(self, n):
        if n > 1 << 16:
            here = self._file.tell()
            left = self._file.seek(0, io.SEEK_END) - here
            self._file.seek(here)
            if n > left:
                raise EOFError(f"{n} bytes are needed where {left} are left")
        data = self._file.read(n)
        if len(data) < n:
            raise EOFError("it ends early")
        return data


def _forbidden(what):

    def refuse(self):
        _refuse(what)

    return refuse


class RestrictedUnpickler(pickle._Unpickler):
    """``pickle.Unpickler`` limited to arrays, numbers, text and containers. A subclass may know more names
    (``allowed``: {(module, name): object}) and give reasons for those it refuses (``reason(module, name)``).
    """
    allowed = _ALLOWED

    def __init__(self, file, **options):
        super().__init__(_Bounded(file), **options)
        self._may_call = {id(value) for value in self.allowed.values()}

    def reason(self, module, name):
        """What to do instead."""
        return "save tensors, arrays, numbers, text and containers of them only."

    def find_class(self, module, name):
        """The stand-in for a name; everything else is refused."""
        try:
            return self.allowed[(module, name)]
        except KeyError:
            raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which is refused. Hint: "
                                         f"{self.reason(module, name)}") from None

    def persistent_load(self, pid):
        """Refused."""
        _refuse("a reference to something outside the file")

    def _load_reduce(self):
        args = self.stack.pop()
        function = self.stack[-1]
        if id(function) not in self._may_call or not isinstance(args, tuple):
            _refuse("a call of something that the file made itself")
        self.stack[-1] = function(*args)

    def _load_build(self):
        state = self.stack.pop()
        made = self.stack[-1]
        if isinstance(made, (np.ndarray, np.dtype)):
            made.__setstate__(state)
        elif not isinstance(made,
                            collections.OrderedDict):  # attributes of an OrderedDict (torch's _metadata) are dropped
            _refuse(f"setting the state of a {type(made).__name__}")

    def _load_bytearray8(self):
        size = int.from_bytes(self.read(8), "little")
        self.append(bytearray(self.read(size)))

    def _load_long(self):
        text = self.readline()[:-1]
        if len(text) > _MAX_DIGITS:
            _refuse(f"a number of {len(text)} digits")
        self.append(int(text[:-1] if text.endswith(b"L") else text, 0))

    def _load_int(self):
        text = self.readline()[:-1]
        if len(text) > _MAX_DIGITS:
            _refuse(f"a number of {len(text)} digits")
        self.append({b"00": False, b"01": True}.get(text) if text in (b"00", b"01") else int(text, 0))

    dispatch = dict(pickle._Unpickler.dispatch)
    dispatch[pickle.REDUCE[0]] = _load_reduce
    dispatch[pickle.BUILD[0]] = _load_build
    dispatch[pickle.BYTEARRAY8[0]] = _load_bytearray8
    dispatch[pickle.LONG[0]] = _load_long
    dispatch[pickle.INT[0]] = _load_int
    for _code in (pickle.INST, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX):
        dispatch[_code[0]] = _forbidden("making an object of a class")
    for _code in (pickle.EXT1, pickle.EXT2, pickle.EXT4):
        dispatch[_code[0]] = _forbidden("an object of the extension registry")
