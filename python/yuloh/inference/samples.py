# SPDX-License-Identifier: Apache-2.0
"""Inference room: inputs for a program, from an .npz file or drawn."""
import numpy as np

from .. import _core

__all__ = ["RECORD_ERRORS", "draw_inputs", "open_arrays", "read_inputs", "read_samples"]

#: What recording or running a program on some inputs raises where they, or a dtype, do not suit it.
RECORD_ERRORS = (TypeError, ValueError, RuntimeError)
_BATCH, _SIZE = 2, 32  # of open sizes that nobody fixed


def draw_inputs(ports, sizes=None, seed=0):
    """Arrays for ``[(name, dtype, dims, dim names)]``: normal numbers, small integers, booleans.

    ``sizes``: {name of a size, "input.axis", or "batch" for the first axes: extent}; other open sizes are 2 in front and 32 elsewhere.
    """
    sizes, used, arrays = dict(sizes or {}), set(), []
    known = {label for p in ports for label in (p[3] if len(p) > 3 else ())}
    if "batch" in sizes and "batch" not in known:  # a name for the open sizes in front, as in inspect and convert
        front = [f"{p[0]}.0" for p in ports if len(p[2]) and p[2][0] < 0]
        if front:
            batch = sizes.pop("batch")
            sizes = {**{n: batch for n in front}, **sizes}
    rng = np.random.default_rng(seed)
    for name, dtype, dims, *more in ports:
        labels = list(more[0]) if more else []
        shape = []
        for axis, extent in enumerate(dims):
            label = labels[axis] if axis < len(labels) else ""
            keys = [k for k in (f"{name}.{axis}", label) if k and k in sizes]
            used.update(keys)
            if extent < 0:
                extent = sizes[keys[0]] if keys else _BATCH if axis == 0 else _SIZE
            elif keys and sizes[keys[0]] != extent:
                raise ValueError(f"size {keys[0]}={sizes[keys[0]]} does not suit input `{name}`, whose axis {axis} is {extent}.")
            shape.append(int(extent))
        if any(n < 0 for n in shape):
            raise ValueError(f"input `{name}` cannot be drawn with shape {shape}; expected sizes of 0 or more.")
        try:
            arrays.append(_drawn(rng, dtype, shape))
        except (ValueError, MemoryError):
            raise ValueError(f"input `{name}` cannot be drawn with shape {shape}: no memory holds it. Hint: feed arrays of your own, or "
                             "none.") from None
    unknown = set(sizes) - used
    if unknown:
        open_sizes = list(dict.fromkeys(
            _label(p, axis) or f"{p[0]}.{axis}" for p in ports for axis, n in enumerate(p[2]) if n < 0))
        raise ValueError(f"there is no size {sorted(unknown)[0]!r}; expected one of {open_sizes or 'none: all are fixed'}.")
    return arrays


def _label(port, axis):
    labels = port[3] if len(port) > 3 else ()
    return labels[axis] if axis < len(labels) and labels[axis] != "?" else ""


def _drawn(rng, dtype, shape):
    name = dtype.name
    if name == "bool":
        return rng.random(shape) < 0.5
    if name.startswith(("int", "uint")):
        return rng.integers(0, 4, shape).astype(name)
    if name.startswith("complex"):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(name)
    values = rng.standard_normal(shape).astype("float64" if name == "float64" else "float32")
    return values if values.dtype.name == name else _core.from_buffer(np.ascontiguousarray(values)).astype(dtype)


def read_inputs(path, ports):
    """Arrays of an .npz file in the order of the ports: by input name, else by position (x0, arr_0, ...)."""
    with open_arrays(path) as file:
        return _in_order(dict(file), path, ports)


def read_samples(path, ports):
    """[arrays] of an .npz file that may hold several samples: `name`, or `name.0`, `name.1`, ... each."""
    with open_arrays(path) as file:
        arrays = dict(file)
    numbered = {}
    for key, array in arrays.items():
        stem, dot, number = key.rpartition(".")
        if dot and number.isdigit() and stem in {p[0] for p in ports}:
            numbered.setdefault(int(number), {})[stem] = array
    if not numbered:
        return [_in_order(arrays, path, ports)]
    return [_in_order(numbered[k], path, ports) for k in sorted(numbered)]


def open_arrays(path):
    """The .npz file; ValueError says what it is instead."""
    try:
        file = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"there is no file {str(path)!r}.") from None
        raise ValueError(f"{path} is no .npz file of arrays ({error}).") from None
    if not hasattr(file, "files"):
        raise ValueError(f"{path} holds one array; expected an .npz file with an array for each input.")
    return file


def _in_order(arrays, path, ports):
    names = [p[0] for p in ports]
    if all(n in arrays for n in names):
        found = [arrays[n] for n in names]
    else:
        for pattern in ("x{}", "arr_{}", "input_{}"):
            if all(pattern.format(i) in arrays for i in range(len(names))):
                found = [arrays[pattern.format(i)] for i in range(len(names))]
                break
        else:
            missing = [n for n in names if n not in arrays]
            raise ValueError(f"{path} has no array for input {missing[0]!r}, got {sorted(arrays)}; expected {names} or x0, x1, ...")
    return [_fitting(a, p) for a, p in zip(found, ports)]


def _fitting(array, port):
    name, dtype, dims = port[:3]
    if array.dtype.name != dtype.name:
        if dtype.name == "bfloat16" and array.dtype.name == "float32":
            return _core.from_buffer(np.ascontiguousarray(array)).astype(dtype)
        raise ValueError(f"input `{name}` has the wrong dtype, got {array.dtype.name}; expected {dtype.name}.")
    if len(dims) == array.ndim and all(n < 0 or n == k for n, k in zip(dims, array.shape)):
        return array
    if not dims and array.ndim:  # a file may leave the rank open
        return array
    raise ValueError(f"input `{name}` has the wrong shape, got {list(array.shape)}; expected {list(dims)} (-1: any).")
