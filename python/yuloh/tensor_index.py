# SPDX-License-Identifier: Apache-2.0
"""Indexing with tensors, lists and masks (the core does integers and slices itself).

NumPy's rules: index arrays broadcast together; if they stand side by side the result axes take their place, otherwise
they come first. Reading records ``index``, writing records ``index_put`` and rebinds the storage.
"""

import numpy as np

from . import _core

Tensor = _core.Tensor


def _normalise(x, index):
    """(x with None axes inserted and plain slices applied, list of index tensors or None per axis)."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [_as_index(i) for i in items]
    consumed = sum(_width(i) for i in items if i is not None and i is not Ellipsis)
    if Ellipsis not in [i for i in items if not isinstance(i, Tensor)]:
        items.append(Ellipsis)
    at = next(k for k, i in enumerate(items) if i is Ellipsis)
    fill = x.ndim - consumed
    if fill < 0:
        raise IndexError(f"indexing: too many indices, got {consumed} for a tensor of shape {x.shape}.")
    items[at : at + 1] = [slice(None)] * fill
    basic, arrays = [], []
    for i in items:
        if isinstance(i, Tensor) and i.dtype == "bool":
            parts = _core_nonzero(i)
            axis = sum(1 for b in basic if b is not None)
            for k, extent in enumerate(i.shape):
                if x.shape[axis + k] != extent:
                    raise IndexError(
                        f"indexing: the mask does not fit, got shape {i.shape}; expected extents "
                        f"{x.shape[axis : axis + i.ndim]} at axis {axis}."
                    )
            basic += [slice(None)] * i.ndim
            arrays += parts
        elif isinstance(i, Tensor):
            basic.append(slice(None))
            arrays.append(i)
        elif i is None:
            basic.append(None)
            arrays.append(None)
        else:
            basic.append(i)
            arrays.append(None if isinstance(i, slice) else "drop")
    view = x[tuple(basic)] if any(b != slice(None) for b in basic) else x
    return view, [a for a in arrays if not isinstance(a, str)]


def _core_nonzero(mask):
    from .tensor_ops import nonzero

    where = nonzero(mask)
    return [where[:, k] for k in range(mask.ndim)]


def _as_index(i):
    if isinstance(i, (list, tuple, np.ndarray)):
        array = np.asarray(i)
        if array.size == 0 and array.dtype != bool:
            array = array.astype(np.int64)
        from .tensor import to_tensor

        return to_tensor(array)
    if isinstance(i, (bool, np.bool_)):
        from .tensor import to_tensor

        return to_tensor(np.asarray(bool(i)))
    if not (i is None or i is Ellipsis or isinstance(i, (Tensor, slice)) or hasattr(i, "__index__")):
        raise IndexError(
            f"indexing: an index of type {type(i).__name__} is not supported, got {i!r:.80}; expected an integer, "
            "slice, ..., None, or a list, array or Tensor of integers or a mask."
        )
    if isinstance(i, Tensor) and i.dtype not in ("bool", "int64", "int32", "int16", "int8", "uint8"):
        raise IndexError(f"indexing: index tensors are integers or masks, got {i.dtype}.")
    return i


def _width(i):
    return i.ndim if isinstance(i, Tensor) and i.dtype == "bool" else 1


def _split(arrays):
    axes = [k for k, a in enumerate(arrays) if a is not None]
    together = axes == list(range(axes[0], axes[-1] + 1)) if axes else True
    return axes, together


def get(x, index):
    """``x[index]`` where an index is a tensor, list or mask."""
    if isinstance(index, Tensor) and index.dtype == "bool" and index.ndim == 0 or isinstance(index, bool):
        return x.unsqueeze(0)[0 : 1 if bool(index) else 0]
    view, arrays = _normalise(x, index)
    axes, together = _split(arrays)
    if not axes:
        return view
    rest = [k for k in range(view.ndim) if k not in axes]
    front = view.transpose(axes + rest) if axes + rest != list(range(view.ndim)) else view
    out = _core.ops.index(front, [arrays[k] for k in axes])
    n = out.ndim - len(rest)
    if together and axes[0] != 0:
        lead = axes[0]
        out = out.transpose([*range(n, n + lead), *range(n), *range(n + lead, out.ndim)])
    return out


def put(x, index, value):
    """``x[index] = value`` where an index is a tensor, list or mask; every alias of ``x`` sees it."""
    from .tensor import to_tensor

    if not isinstance(value, Tensor):
        value = to_tensor(np.asarray(value))
    value = value.astype(x.dtype) if value.dtype != x.dtype else value
    view, arrays = _normalise(x, index)
    axes, together = _split(arrays)
    if not axes:
        view[...] = value
        return
    rest = [k for k in range(view.ndim) if k not in axes]
    front = view.transpose(axes + rest) if axes + rest != list(range(view.ndim)) else view
    shape = list(np.broadcast_shapes(*[tuple(arrays[k].shape) for k in axes]))
    target = shape + [view.shape[k] for k in rest]
    if 0 in shape:
        return
    lead = axes[0] if together else 0
    if lead and value.ndim > view.ndim - len(axes) - lead:
        outer = [view.shape[k] for k in rest[:lead]] + shape + [view.shape[k] for k in rest[lead:]]
        value = value.broadcast_to(outer) if value.shape != outer else value
        n = len(shape)
        value = value.transpose([*range(lead, lead + n), *range(lead), *range(lead + n, value.ndim)])
    if value.shape != target:
        value = value.broadcast_to(target)
    front._assign_graph(_core.ops.index_put(front, [arrays[k] for k in axes], value, False))
