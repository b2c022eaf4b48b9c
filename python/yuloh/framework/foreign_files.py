# SPDX-License-Identifier: Apache-2.0
"""Framework room: weight files of other makers, known by their first bytes: safetensors and PyTorch's."""
import io
import json
import os
import pickle
import struct
import zipfile

from .. import _core
from . import torch_files

__all__ = ["SAFETENSORS", "kind_of", "load", "metadata_of", "save_safetensors"]

SAFETENSORS = ".safetensors"
_MAX_INDEX = 64 << 20  # bytes of an index of several files


def kind_of(file):
    """"safetensors", "torch", "index" (of a model in several files) or "", by what stands at a file's position."""
    start = file.tell()
    head = file.read(16)
    size = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    if torch_files.is_torch_file(head):
        return "torch"
    if len(head) > 8 and head[8:9] == b"{" and struct.unpack_from("<Q", head)[0] <= size - 8:
        return "safetensors"
    name = str(getattr(file, "name", ""))
    if head[:1] == b"{" and name.endswith(".index.json"):
        return "index"
    return "safetensors" if name.endswith(SAFETENSORS) else ""  # its reader says what is wrong with it


def load(source, kind, what, return_numpy=False, verify=True):
    """The object in a path, or in bytes, of a ``kind``; ``what`` names it in messages."""
    try:
        if kind == "index":
            value = _load_index(source, return_numpy, verify)
        elif kind == "safetensors":
            value = _load_safetensors(source, what)
        else:
            value = torch_files.load_torch(source, what, verify)
    except (pickle.UnpicklingError, zipfile.BadZipFile, EOFError, AttributeError, IndexError, KeyError, TypeError,
            UnicodeDecodeError, OverflowError, RecursionError, struct.error, AssertionError) as error:
        raise ValueError(f"load: {what} is damaged or refused: {error or type(error).__name__}") from error
    except (ValueError, NotImplementedError, MemoryError) as error:
        text = str(error)
        if text.startswith("load: "):
            raise
        raise type(error)(f"load: {what}: {text}") from error
    return _as_arrays(value, {}) if return_numpy else value


def metadata_of(path):
    """The texts that a safetensors file carries beside its tensors."""
    return _core.FileBytes(os.fspath(path), os.fspath(path)).safetensors()[1]


def _load_safetensors(source, what):
    tensors, metadata = _core.FileBytes(source, what).safetensors()
    state = dict(tensors)
    for name, kept in metadata.items():  # a tensor under several names is stored once (see save_safetensors)
        if name not in state and kept in state:
            state[name] = state[kept]
    return state


def _load_index(path, return_numpy, verify):
    if os.path.getsize(path) > _MAX_INDEX:
        raise ValueError(f"an index of more than {_MAX_INDEX} bytes is refused")
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    places = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(places, dict) or not all(isinstance(n, str) for n in places.values()):
        raise ValueError("the index has no table weight_map {name: file}")
    folder, state, parts = os.path.dirname(path), {}, {}
    for name, part in places.items():
        if part != os.path.basename(part) or part in ("", ".", "..") or part.endswith(".index.json"):
            raise ValueError(f"the index names {part[:100]!r}; expected a file beside it")
        if part not in parts:
            from .io import load as load_file
            parts[part] = load_file(os.path.join(folder, part),
                                    return_numpy=return_numpy,
                                    **({} if verify else {"verify": False}))
        if name not in parts[part]:
            raise ValueError(f"{part} holds no tensor {name[:100]}, which the index promises")
        state[name] = parts[part][name]
    return state


def _as_arrays(value, done):
    if isinstance(value, _core.Tensor):
        return value.numpy()
    if not isinstance(value, (dict, list, tuple, set)):
        return value
    if id(value) not in done:
        done[id(value)] = value, value
        if isinstance(value, dict):
            for key in value:
                value[key] = _as_arrays(value[key], done)
        elif isinstance(value, list):
            value[:] = [_as_arrays(item, done) for item in value]
        else:
            done[id(value)] = value, type(value)(_as_arrays(item, done) for item in value)
    return done[id(value)][1]


def save_safetensors(obj, path):
    """Writes {name: tensor or array}. A tensor under several names is written once; the other names go into the
    metadata as {name: name that is stored}, the convention of Hugging Face's ``save_model``.
    """
    from ..tensor import to_tensor
    if not isinstance(obj, dict):
        raise TypeError(f"save: a safetensors file takes a dict of tensors, got {type(obj).__name__}.")
    stored, first, metadata = [], {}, {"format": "pd"}
    for name, value in obj.items():
        if not isinstance(name, str) or isinstance(value, (dict, list, tuple)) or not hasattr(value, "shape"):
            raise TypeError(
                f"save: a safetensors file takes names and tensors only, got {name!r}: {type(value).__name__}. Hint: "
                "save optimizer states and nested containers as .pdparams.")
        if id(value) in first:
            if name == "format":
                raise ValueError("save: a second name of a tensor must not be `format` in a safetensors file.")
            metadata[name] = first[id(value)]
            continue
        first[id(value)] = name
        stored.append((name, value if isinstance(value, _core.Tensor) else to_tensor(value)))
    _core.write_safetensors(path, stored, metadata)
