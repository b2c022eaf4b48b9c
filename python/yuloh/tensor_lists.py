# SPDX-License-Identifier: Apache-2.0
"""Tensor room: functions that take or give several tensors (split, stack variants, meshgrid, einsum) and thin algebra.

Everything is made of table ops; what ``unbind`` gives shares storage with the tensor, as in Paddle.
"""

from . import _core

ops = _core.ops
Tensor = _core.Tensor

__all__ = [
    "split", "chunk", "unbind", "unstack", "tensor_split", "hsplit", "vsplit", "dsplit",
    "broadcast_tensors", "meshgrid", "add_n", "hstack", "vstack", "dstack", "column_stack", "row_stack",
    "cartesian_prod", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "moveaxis", "crop", "reverse",
    "ravel", "slice_scatter", "select_scatter", "multiplex", "shard_index", "permute", "narrow",
    "concatenate",
]


def _axis(name, axis, rank):
    axis = int(axis)
    if not -rank <= axis < rank:
        raise ValueError(
            f"{name}: axis out of range, got {axis} for a tensor of rank {rank}; expected {-rank} <= axis < {rank}."
        )
    return axis + rank if axis < 0 else axis


def _part(x, axis, start, stop):
    return ops.slice(x, [axis], [start], [stop])


def split(x, num_or_sections, axis=0, name=None):
    """Consecutive parts of ``x`` along ``axis``: a number of equal ones, or of the given extents (one may be -1); copies."""
    axis = _axis("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(num_or_sections, int):
        if num_or_sections < 1 or n % num_or_sections:
            raise ValueError(
                f"split: axis {axis} of extent {n} does not divide into {num_or_sections} equal parts."
            )
        sizes = [n // num_or_sections] * num_or_sections
    else:
        sizes = [int(s) for s in num_or_sections]
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = n - sum(s for s in sizes if s != -1)
        if sum(sizes) != n or min(sizes) < 0:
            raise ValueError(
                f"split: sections do not add up, got {list(num_or_sections)} for axis {axis} of extent {n}."
            )
    return ops.split(x, sizes, axis)


def chunk(x, chunks, axis=0, name=None):
    """At most ``chunks`` parts along ``axis``, equal but for the last; copies."""
    axis = _axis("chunk", axis, x.ndim)
    n = x.shape[axis]
    if chunks < 1:
        raise ValueError(f"chunk: chunks is not positive, got {chunks}.")
    size = max(1, -(-n // chunks))
    return ops.split(x, [min(k + size, n) - k for k in range(0, max(n, 1), size)], axis)


def tensor_split(x, num_or_indices, axis=0, name=None):
    """Parts along ``axis``: a number of nearly equal ones, or cut at the given positions; copies."""
    axis = _axis("tensor_split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(num_or_indices, int):
        if not 1 <= num_or_indices <= max(n, 1 << 16):
            raise ValueError(
                f"tensor_split: the number of parts does not fit, got {num_or_indices} for extent {n}; "
                f"expected 1 to {max(n, 1 << 16)}."
            )
        base, extra = divmod(n, num_or_indices)
        ends = [(k + 1) * base + min(k + 1, extra) for k in range(num_or_indices)]
    else:
        ends = [max(i + n, 0) if i < 0 else min(i, n) for i in num_or_indices] + [n]
    out, at = [], 0
    for e in ends:
        out.append(_part(x, axis, at, max(at, e)).clone())
        at = e
    return out


def hsplit(x, num_or_indices, name=None):
    """``tensor_split`` along axis 1 (0 for 1-D)."""
    return tensor_split(x, num_or_indices, 1 if x.ndim > 1 else 0)


def vsplit(x, num_or_indices, name=None):
    """``tensor_split`` along axis 0."""
    return tensor_split(x, num_or_indices, 0)


def dsplit(x, num_or_indices, name=None):
    """``tensor_split`` along axis 2."""
    return tensor_split(x, num_or_indices, 2)


def unbind(input, axis=0):
    """All slices along ``axis``, without it."""
    axis = _axis("unbind", axis, input.ndim)
    return [ops.squeeze(_part(input, axis, k, k + 1), [axis]) for k in range(input.shape[axis])]


def unstack(x, axis=0, num=None):
    """All slices along ``axis``, without it, as copies; ``num`` is checked."""
    out = [t.clone() for t in unbind(x, axis)]
    if num is not None and num != len(out):
        raise ValueError(f"unstack: num does not fit, got {num}; expected {len(out)}.")
    return out


def broadcast_tensors(input, name=None):
    """All tensors expanded to their common shape."""
    from .tensor_ops import broadcast_shape

    shape = []
    for t in input:
        shape = broadcast_shape(shape, t.shape)
    return [t.broadcast_to(shape) for t in input]


def meshgrid(*args, indexing="ij", **kwargs):
    """Coordinate tensors of a grid spanned by 1-D tensors."""
    parts = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    shape = [t.size for t in parts]
    swap = indexing == "xy" and len(parts) > 1
    out = []
    for k, t in enumerate(parts):
        g = t.reshape([-1 if i == k else 1 for i in range(len(parts))]).broadcast_to(shape)
        out.append(ops.swapaxes(g, 0, 1) if swap else g)
    return out


def add_n(inputs, name=None):
    """Sum of tensors of one shape."""
    if isinstance(inputs, Tensor):
        return ops.assign(inputs)
    if not inputs:
        raise ValueError("add_n: no tensors were given; expected at least one.")
    out = inputs[0]
    for t in inputs[1:]:
        out = ops.add(out, t)
    return out if len(inputs) > 1 else ops.assign(out)


def _at_least(inputs, rank):
    parts = list(inputs[0]) if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) else list(inputs)
    out = []
    for t in parts:
        if t.ndim < rank:
            shape = {1: [t.size], 2: [1, t.size]}.get(rank) or (
                [1, t.size, 1] if t.ndim < 2 else [*t.shape, 1]
            )
            t = t.reshape(shape)
        out.append(t)
    return out[0] if len(out) == 1 else out


def atleast_1d(*inputs, name=None):
    """Tensors with at least one axis."""
    return _at_least(inputs, 1)


def atleast_2d(*inputs, name=None):
    """Tensors with at least two axes."""
    return _at_least(inputs, 2)


def atleast_3d(*inputs, name=None):
    """Tensors with at least three axes."""
    return _at_least(inputs, 3)


def _listed(v):
    return v if isinstance(v, list) else [v]


def hstack(x, name=None):
    """Joined along axis 1 (0 for 1-D)."""
    parts = _listed(atleast_1d(*x))
    return ops.concat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(x, name=None):
    """Joined along axis 0, 1-D tensors as rows."""
    return ops.concat(_listed(atleast_2d(*x)), 0)


row_stack = vstack


def dstack(x, name=None):
    """Joined along axis 2."""
    return ops.concat(_listed(atleast_3d(*x)), 2)


def column_stack(x, name=None):
    """1-D tensors as columns, joined along axis 1."""
    return ops.concat([t.reshape([t.size, 1]) if t.ndim < 2 else t for t in x], 1)


def concatenate(x, axis=0, name=None):
    """``concat``."""
    return ops.concat(x, axis)


def cartesian_prod(x, name=None):
    """All combinations of elements of 1-D tensors, [n, len(x)]."""
    if len(x) == 1:
        return x[0]
    return ops.stack([g.reshape([g.size]) for g in meshgrid(*x)], 1)


def block_diag(inputs, name=None):
    """Matrices placed along the diagonal."""
    parts = _listed(atleast_2d(*inputs))
    rows, cols = sum(p.shape[0] for p in parts), sum(p.shape[1] for p in parts)
    out, r, c = [], 0, 0
    for p in parts:
        out.append(ops.pad_core(p, [0, 0, c, cols - c - p.shape[1]], "constant", 0.0))
        r, c = r + p.shape[0], c + p.shape[1]
    assert r == rows
    return ops.concat(out, 0)


# ---- axes ----
def moveaxis(x, source, destination, name=None):
    """Axes ``source`` moved to the places ``destination``."""
    source = [source] if isinstance(source, int) else list(source)
    destination = [destination] if isinstance(destination, int) else list(destination)
    if len(source) != len(destination):
        raise ValueError(f"moveaxis: lengths differ, got {source} and {destination}.")
    source = [_axis("moveaxis", a, x.ndim) for a in source]
    destination = [_axis("moveaxis", a, x.ndim) for a in destination]
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise ValueError(f"moveaxis: an axis is given twice, got {source} and {destination}.")
    rest = [a for a in range(x.ndim) if a not in source]
    perm = [source[destination.index(k)] if k in destination else None for k in range(x.ndim)]
    it = iter(rest)
    return x.transpose([next(it) if p is None else p for p in perm])


def permute(input, *dims):
    """``transpose`` with the axes as a list or one by one."""
    return input.transpose(
        list(dims[0]) if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else list(dims)
    )


def narrow(input, dim, start, length):
    """``length`` slices along ``dim`` from ``start``."""
    dim = _axis("narrow", dim, input.ndim)
    start = int(start) + input.shape[dim] if int(start) < 0 else int(start)
    return _part(input, dim, start, start + length)


def ravel(input):
    """Flattened to one axis."""
    return input.flatten()


def reverse(x, axis, name=None):
    """``flip``."""
    return ops.flip(x, axis)


def crop(x, shape=None, offsets=None, name=None):
    """The box of ``shape`` (-1: to the end) that starts at ``offsets``."""
    from .tensor_ops import _shape

    offsets = [0] * x.ndim if offsets is None else _shape(offsets)
    shape = x.shape if shape is None else _shape(shape)
    ends = [n if s == -1 else o + s for n, s, o in zip(x.shape, shape, offsets)]
    if any(o < 0 or e > n for o, e, n in zip(offsets, ends, x.shape)):
        raise ValueError(f"crop: the box leaves the tensor, got shape {shape} at {offsets} of {x.shape}.")
    return ops.assign(ops.slice(x, list(range(x.ndim)), offsets, ends))


def slice_scatter(x, value, axes, starts, ends, strides, name=None):
    """``x`` with the slice replaced by ``value``."""
    part = ops.strided_slice(x, list(axes), list(starts), list(ends), list(strides))
    return ops.slice_write(
        x, value.broadcast_to(part.shape), list(axes), list(starts), list(ends), list(strides)
    )


def select_scatter(x, values, axis, index, name=None):
    """``x`` with slice ``index`` along ``axis`` replaced by ``values``."""
    axis = _axis("select_scatter", axis, x.ndim)
    index = index + x.shape[axis] if index < 0 else index
    return ops.slice_write(x, values.unsqueeze(axis), [axis], [index], [index + 1], [1])


def multiplex(inputs, index, name=None):
    """Row i of the tensor that index[i] names."""
    n = inputs[0].shape[0]
    return ops.index(ops.stack(list(inputs), 0), [index.reshape([n]), ops.iota([n], 0, "int64")])


def shard_index(input, index_num, nshards, shard_id, ignore_value=-1):
    """Indices of one shard renumbered from 0, others ``ignore_value``."""
    size = -(-index_num // nshards)
    mine = ops.equal(ops.floor_divide(input, size), shard_id)
    return ops.where(mine, ops.remainder(input, size), ignore_value)
