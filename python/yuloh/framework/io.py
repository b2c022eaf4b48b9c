# SPDX-License-Identifier: Apache-2.0
"""Framework room: ``save`` and ``load`` of state dicts and of objects that hold tensors.

The format is Paddle's: a pickle in which a state dict holds NumPy arrays (bfloat16 as uint16 bits) and a
table 'StructuredToParameterName@@', and in which a tensor elsewhere is a (name, array) tuple. Real Paddle
reads what is written here and the other way round. Two things are added: a file is written beside the old
one, flushed to the disk and renamed, so that a kill or a full disk leaves the old file (trap B42); and behind
the pickle stands a trailer of length and checksum, which Paddle's reader does not look at.

``load`` knows safetensors and PyTorch's files by their first bytes (foreign_files.py); ``save`` writes safetensors where
the path ends so.
"""
import fcntl
import io
import os
import pickle
import stat
import struct
import tempfile
import zlib

import numpy as np

from .. import _core
from ..tensor import to_tensor
from . import foreign_files
from .pickles import RestrictedUnpickler

__all__ = ["load", "save"]

_NAME_TABLE = "StructuredToParameterName@@"
_TRAILER = struct.Struct("<8sQI")  # magic, length of the pickle in bytes, CRC-32 of the pickle
_MAGIC = b"YULOHv1\n"


# ---- writing -----------------------------------------------------------------------------------------------
def _is_state_dict(obj):
    """A dict whose values are tensors, or dicts of tensors one level down, as layers and optimizers give."""
    if not isinstance(obj, dict) or not obj:
        return False

    def plain(value):
        several = isinstance(value, (list, tuple, set))
        return not several or not any(isinstance(v, _core.Tensor) for v in value)

    found = False
    for value in obj.values():
        if isinstance(value, _core.Tensor):
            found = True
        elif isinstance(value, dict):
            if any(not isinstance(v, _core.Tensor) and not plain(v) or isinstance(v, dict)
                   for v in value.values()):
                return False
            found = found or any(isinstance(v, _core.Tensor) for v in value.values())
        elif not plain(value):
            return False
    return found


def _arrays(state):
    """(state with arrays for tensors, table structured name -> parameter name)."""
    result, names = {}, {}
    for key, value in state.items():
        if isinstance(value, _core.Tensor):
            refuse_dry("save")
            result[key] = value.numpy()
            names[key] = value.name
        elif isinstance(value, dict):
            inner, _ = _arrays(value)
            result[key] = inner
            names.update({k: v.name for k, v in value.items() if isinstance(v, _core.Tensor)})
        else:
            result[key] = value
    return result, names


def refuse_dry(what):
    """Raises RuntimeError within a dry run, whose zeros must not be written as if they were weights."""
    if _core.in_dry_run():
        raise RuntimeError(f"{what}: within a dry run nothing was computed, so no weights are written. "
                           "Hint: save outside of dry_run().")


class _Pickler(pickle.Pickler):
    """Writes a tensor as the call ``tuple((name, array))``, as Paddle does for objects other than state
    dicts.
    """

    def reducer_override(self, obj):
        if isinstance(obj, _core.Tensor):
            refuse_dry("save")
            return tuple, ((obj.name, obj.numpy()),)
        return NotImplemented


class _Summing(io.RawIOBase):
    """Passes writes on to a file and keeps their length and checksum."""

    def __init__(self, file):
        self.file, self.length, self.crc = file, 0, 0

    def writable(self):
        return True

    def write(self, data):
        size = memoryview(data).nbytes
        self.file.write(data)
        self.length += size
        self.crc = zlib.crc32(data, self.crc)
        return size

    def trailer(self):
        return _TRAILER.pack(_MAGIC, self.length, self.crc)


def _dump(obj, file, protocol):
    summing = _Summing(file)
    if _is_state_dict(obj):
        state, names = _arrays(obj)
        state[_NAME_TABLE] = names
        pickle.dump(state, summing, protocol=protocol)
    else:
        _Pickler(summing, protocol=protocol).dump(obj)
    file.write(summing.trailer())


def _check_object(obj):
    from ..nn.layer.layers import Layer
    if isinstance(obj, Layer):
        raise NotImplementedError("save: a Layer itself cannot be saved. Hint: save layer.state_dict().")


def save(obj, path, protocol=4, **configs):
    """Writes ``obj`` (state dict, tensor, or containers of them) to a path or a binary file object.

    ``protocol`` is pickle's, 2 to 4. A path that ends in ``.safetensors`` takes a flat dict of tensors. A path is replaced only when the whole new file is on the disk: after a
    kill or an error (disk full: OSError with the path) the old file is as it was.
    """
    if not isinstance(protocol, int) or not 2 <= protocol <= 4:
        raise ValueError(f"save: protocol must be 2, 3 or 4, got {protocol!r}.")
    _check_object(obj)
    if hasattr(path, "write"):
        _dump(obj, path, protocol)
        return
    path = os.fspath(path)
    if os.path.basename(path) == "":
        raise ValueError(f"save: path must name a file, got {path!r}.")
    if os.path.isdir(path):
        raise ValueError(f"save: path is a directory, got {path!r}.")
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    if path.endswith(foreign_files.SAFETENSORS):
        refuse_dry("save")
        foreign_files.save_safetensors(obj, path)
        return
    try:
        write_atomically(path, lambda file: _dump(obj, file, protocol))
    except OSError as error:
        raise OSError(error.errno,
                      f"save: {path} could not be written ({error.strerror}); what stood there before "
                      "is unchanged") from error


def write_atomically(path, write):
    """Calls ``write(file)`` on a temporary binary file beside ``path``, then puts it in the place of ``path``. What is no
    regular file (a device, a pipe) is written to: a rename would put a file in its place."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        mode = stat.S_IFREG | 0o666 & ~mask
    if not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            return write(file)
    _core.sweep_parts(path)
    handle, temporary = _locked_part(path, folder)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(temporary, stat.S_IMODE(mode) & 0o777)
            os.replace(temporary, path)  # before the lock goes with the file
    except BaseException:
        _remove(temporary)
        raise
    _sync_folder(folder)


def _locked_part(path, folder):
    """A temporary file beside ``path`` and a lock on it, which says that its writer lives."""
    while True:
        handle, temporary = tempfile.mkstemp(prefix="." + os.path.basename(path) + ".", suffix=".part", dir=folder)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # a sweep may hold it for a moment
        except OSError:
            return handle, temporary  # a file system without locks
        if os.fstat(handle).st_nlink:
            return handle, temporary
        os.close(handle)  # swept between making and locking


def _remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _sync_folder(folder):
    """The new name itself reaches the disk; some file systems cannot sync a folder, which is no error."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


# ---- reading -----------------------------------------------------------------------------------------------
def _verify(file, what):
    """Checks the trailer; False where there is none (a file of Paddle's)."""
    start = file.tell()
    file.seek(0, os.SEEK_END)
    size = file.tell() - start
    if size == 0:
        raise ValueError(f"load: {what} is empty.")
    if size < _TRAILER.size:
        file.seek(start)
        return False
    file.seek(start + size - _TRAILER.size)
    magic, length, crc = _TRAILER.unpack(file.read(_TRAILER.size))
    file.seek(start)
    if magic != _MAGIC:
        return False
    if length != size - _TRAILER.size:
        raise ValueError(f"load: {what} is damaged: it holds {size - _TRAILER.size} bytes, its trailer says "
                         f"{length}.")
    found, left = 0, length
    while left:
        block = file.read(min(left, 1 << 20))
        found = zlib.crc32(block, found)
        left -= len(block)
    file.seek(start)
    if found != crc:
        raise ValueError(f"load: {what} is damaged: its checksum is {found:08x}, the trailer says {crc:08x}.")
    return True


def _read(file, what):
    verified = _verify(file, what)
    try:
        value = RestrictedUnpickler(file, encoding="latin1").load()
    except pickle.UnpicklingError as error:
        _refuse_foreign(file, what)
        raise ValueError(f"load: {what} is damaged or refused: {error}") from error
    except (EOFError, AttributeError, IndexError, KeyError, TypeError, ValueError, MemoryError, struct.error,
            UnicodeDecodeError, OverflowError, RecursionError) as error:
        _refuse_foreign(file, what)
        raise ValueError(f"load: {what} is damaged or not a saved object "
                         f"({type(error).__name__}: {error}).") from error
    rest = b"" if verified else file.read(len(_MAGIC))
    if rest and _MAGIC.startswith(rest):
        raise ValueError(f"load: {what} is damaged: it ends inside its trailer.")
    return value


def _refuse_foreign(file, what):
    """What is no pickle: a web page, a Git LFS pointer, an image ... is named as what it is."""
    file.seek(0)
    head = file.read(4096)
    kind, hint, weights = _core.foreign_kind(head, file.seek(0, io.SEEK_END))
    if kind and not weights:
        raise ValueError(f"load: {what} holds no saved object: it is {kind}. Hint: {hint}") from None


def _is_saved_tensor(value):
    return (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
            and isinstance(value[1], np.ndarray))


def _to_tensor(array, name=None):
    tensor = to_tensor(array)  # uint16 holds bfloat16 bits
    if name:
        tensor.name = name
    return tensor


def _convert(value, return_numpy, done=None):
    """Tensors (or arrays) for saved tensors, walked through containers; every object once, for a small file may name one
    very often.
    """
    if not isinstance(value, (dict, list, tuple, set)):
        return value
    done = {} if done is None else done
    if id(value) not in done:
        done[id(value)] = value, value  # what holds itself
        done[id(value)] = value, _convert_container(value, return_numpy, done)
    return done[id(value)][1]


def _convert_container(value, return_numpy, done):
    if _is_saved_tensor(value):
        return value[1] if return_numpy else _to_tensor(value[1], value[0])
    if isinstance(value, dict):
        for key in value:
            value[key] = _convert(value[key], return_numpy, done)
        return value
    if isinstance(value, list):
        value[:] = [_convert(v, return_numpy, done) for v in value]
        return value
    return type(value)(_convert(v, return_numpy, done) for v in value)


def _convert_state(value, names, return_numpy):
    """Tensors for the arrays of a state dict, under the names they had."""
    if isinstance(value, np.ndarray):
        return value
    return {key: (_to_tensor(item, names.get(key)) if isinstance(item, np.ndarray) and not return_numpy else
                  _convert_state(item, names, return_numpy) if isinstance(item, dict) else item)
            for key, item in value.items()}


def _join_big(value):
    """Undoes what Paddle's pickle protocols 2 and 3 do to arrays over 1 GiB: slices listed under
    'UnpackBigParamInfor@@'.
    """
    parts = value.pop("UnpackBigParamInfor@@", None)
    for key, info in (parts or {}).items():
        slices = [value.pop(name) for name in info["slices"]]
        value[key] = np.concatenate(slices).reshape(info["OriginShape"])
    return value


def load(path, **configs):
    """What ``save``, Paddle or PyTorch wrote: tensors in the containers they were in.

    By content: Paddle's pickles, safetensors (also by its ``.index.json`` of several files) and PyTorch's ``.pt``, ``.pth``
    and ``.bin`` of tensors. The latter two are mapped, names and layouts stay as they are (``yuloh convert --model``
    turns them into a Layer's). ``return_numpy=True`` gives arrays, ``keep_name_table=True`` keeps
    'StructuredToParameterName@@', ``verify=False`` skips the checksums of PyTorch's archives. Only arrays and plain
    containers are rebuilt: a file that asks for anything else is refused. Raises ValueError for a missing or damaged file.
    """
    verify = bool(configs.pop("verify", True))
    return_numpy = bool(configs.pop("return_numpy", False))
    keep_table = bool(configs.pop("keep_name_table", False))
    for key in ("model_filename", "params_filename"):
        configs.pop(key, None)
    if configs:
        raise ValueError(f"load: unknown settings {sorted(configs)}.")
    if hasattr(path, "read"):
        foreign = foreign_files.kind_of(path)
        if foreign:
            return foreign_files.load(path.read(), foreign, "the file object", return_numpy, verify)
        value = _read(path, "the file object")
    else:
        path = os.fspath(path)
        if not os.path.exists(path):
            raise ValueError(f"load: there is no file {path!r}.")
        if os.path.isdir(path):
            raise ValueError(f"load: {path!r} is a directory.")
        with open(path, "rb") as file:
            foreign = foreign_files.kind_of(file)
            value = None if foreign else _read(file, repr(path))
        if foreign:
            return foreign_files.load(path, foreign, repr(path), return_numpy, verify)
    if isinstance(value, dict) and (_NAME_TABLE in value or "UnpackBigParamInfor@@" in value):
        value = _join_big(value)
        names = value.get(_NAME_TABLE) or {}
        result = _convert_state({k: v for k, v in value.items() if k != _NAME_TABLE}, names, return_numpy)
        if keep_table:
            result[_NAME_TABLE] = names
        return result
    try:
        return _convert(value, return_numpy)
    except RecursionError:
        raise ValueError(f"load: {path!r} holds containers nested too deeply.") from None
