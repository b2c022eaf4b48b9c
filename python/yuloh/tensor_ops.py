# SPDX-License-Identifier: Apache-2.0
"""Tensor room: public functions whose signature a schema cannot say.

Most of ``paddle.*`` comes straight from the op table. What stands here takes containers, shapes made of tensors, or has
a result whose extent depends on the data (the count is read first, then a fill op of that size is recorded). No values
are computed in Python. Lists of tensors and linear algebra live in ``tensor_lists`` and ``linalg``.
"""
import builtins
import math

import numpy as np

from . import _core
from . import tensor_create as _create
from .tensor_create import *  # noqa: F401,F403
from .tensor_create import _number, _shape, full, gaussian, linspace, uniform  # noqa: F401

ops = _core.ops
Tensor = _core.Tensor

__all__ = [
    "assign", "numel", "shape", "rank", "is_empty", "tolist", "where", "clip", "nonzero", "argwhere",
    "masked_select", "masked_scatter", "unique", "unique_consecutive", "norm", "median", "nanmedian",
    "quantile", "nanquantile", "allclose", "equal_all", "put_along_axis", "repeat_interleave", "bincount",
    "bucketize", "take", "index_fill", "view", "view_as", "unflatten", "is_floating_point", "is_integer",
    "is_complex", "increment", "msort", "broadcast_shape", "bitwise_invert", "negative", "positive", "isin",
    "diff", "histogram_bin_edges",
]


# ---- copies, facts ----
def assign(x, output=None):
    """A copy of ``x`` (tensor, array, number or list), written into ``output`` when it is given."""
    from .tensor import to_tensor

    value = (
        ops.assign(x) if isinstance(x, Tensor) else to_tensor(np.asarray(x))
    )  # lists keep NumPy's dtype, as in Paddle
    if output is None:
        return value
    output.set_value(value)
    return output


def numel(x, name=None):
    """Element count as an int64 tensor of shape []."""
    return full([], x.size, "int64")


def shape(input):
    """Shape as an int64 tensor."""
    from .tensor import to_tensor

    return to_tensor(input.shape, "int64")


def rank(input):
    """Number of axes as an int32 tensor."""
    return full([], input.ndim, "int32")


def is_empty(x, name=None):
    """Whether ``x`` has no elements, as a bool tensor."""
    return full([], x.size == 0, "bool")


def tolist(x):
    """Nested Python lists of the values."""
    return x.tolist()


def is_floating_point(x):
    """Whether the dtype is a floating point one."""
    return x.dtype.is_floating_point()


def is_integer(x):
    """Whether the dtype is an integer one (bool is not)."""
    return x.dtype.name in ("uint8", "int8", "int16", "int32", "int64")


def is_complex(x):
    """Whether the dtype is complex."""
    return x.dtype.name.startswith("complex")


def broadcast_shape(x_shape, y_shape):
    """The shape two shapes broadcast to; ValueError when they do not."""
    out = []
    a, b = list(x_shape), list(y_shape)
    n = max(len(a), len(b))
    a, b = [1] * (n - len(a)) + a, [1] * (n - len(b)) + b
    for p, q in zip(a, b):
        if p != q and 1 not in (p, q):
            raise ValueError(
                f"broadcast_shape: shapes do not broadcast, got {list(x_shape)} and {list(y_shape)}."
            )
        out.append(q if p == 1 else p)
    return out


# ---- selection ----
def where(condition, x=None, y=None, name=None, *, out=None):
    """``x`` where ``condition`` is True, else ``y``; positions of True when both are None."""
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    if x is None or y is None:
        raise ValueError("where: only one of x and y is given; expected both or none.")
    return ops.where(condition, x, y)


def clip(x, min=None, max=None, name=None, *, out=None):
    """``x`` limited to [min, max]; None means no limit. NaN stays."""
    if is_integer(x) and any(isinstance(v, float) for v in (min, max)):
        x = x.astype(_core.get_default_dtype())
    if min is not None and max is not None:
        return ops.clip(x, min, max)
    if min is not None:
        return ops.clip_low(x, min)
    return ops.clip_high(x, max) if max is not None else ops.assign(x)


def nonzero(x, as_tuple=False, *, out=None):
    """Positions of non-zero elements, [n, rank]; as a tuple of [n] tensors (one per axis) with ``as_tuple``. Reads ``x``."""
    where = ops.nonzero_fill(x, int(ops.nonzero_count(x)))
    return tuple(where[:, k] for k in _core_range(x.ndim)) if as_tuple else where


def argwhere(input):
    """Positions of non-zero elements, [n, rank]."""
    return nonzero(input)


def masked_select(x, mask, name=None, *, out=None):
    """Elements of ``x`` where ``mask`` (bool, broadcast) is True, 1-D. Reads ``mask``."""
    if mask.dtype != "bool":
        raise TypeError(
            f"masked_select: dtype is not supported, got mask of dtype {mask.dtype.name}; expected bool."
        )
    common = broadcast_shape(x.shape, mask.shape)
    flat = x.broadcast_to(common).reshape([math.prod(common)])
    index = nonzero(mask.broadcast_to(common).reshape([math.prod(common)]))
    return ops.index(flat, [index.reshape([index.shape[0]])])


def masked_scatter(x, mask, value, name=None):
    """``x`` with the elements where ``mask`` is True taken from ``value`` in order. Reads ``mask``."""
    mask = mask.broadcast_to(x.shape)
    index = nonzero(mask)
    n = index.shape[0]
    if value.size < n:
        raise ValueError(f"masked_scatter: too few values, got {value.size}; expected at least {n}.")
    if n == 0:
        return ops.assign(x)
    flat = value.reshape([value.size])[:n]
    return ops.index_put(x, [index[:, k] for k in _core_range(x.ndim)], flat, False)


def take(x, index, mode="raise", name=None):
    """Elements of the flattened ``x``; indices outside raise, wrap or are clipped."""
    n = x.size
    if mode == "wrap":
        index = ops.remainder(index, n)
    elif mode == "clip":
        index = ops.clip(index, 0, n - 1)
    elif mode != "raise":
        raise ValueError(f"take: unknown mode, got {mode!r}; expected 'raise', 'wrap' or 'clip'.")
    return ops.index(x.reshape([n]), [index])


def index_fill(x, index, axis, value, name=None):
    """``x`` with the slices ``index`` along ``axis`` set to ``value``."""
    axis = axis + x.ndim if axis < 0 else axis
    perm = list(_core_range(x.ndim))
    perm[0], perm[axis] = perm[axis], perm[0]
    value = value.astype(x.dtype) if isinstance(value, Tensor) else full([], value, x.dtype)
    return ops.index_put(x.transpose(perm), [index], value, False).transpose(perm)


def put_along_axis(arr, indices, values, axis, reduce="assign", include_self=True, broadcast=True):
    """``arr`` with ``values`` (number or tensor) put where ``take_along_axis`` would read."""
    if not isinstance(values, Tensor):
        values = full([1] * arr.ndim, values, arr.dtype)
    elif values.dtype != arr.dtype:
        values = values.astype(arr.dtype)
    if values.ndim < arr.ndim and (values.ndim == 0 or broadcast):
        values = values.reshape([1] * (arr.ndim - values.ndim) + values.shape)
    return ops.put_along_axis_core(arr, indices, values, axis, reduce, include_self, broadcast)


def repeat_interleave(x, repeats, axis=None, name=None, *, output_size=None):
    """Each slice along ``axis`` (of the flattened tensor when None) repeated; tensor ``repeats`` are read."""
    if axis is None:
        x, axis = x.reshape([x.size]), 0
    axis = axis + x.ndim if axis < 0 else axis
    n = x.shape[axis]
    if isinstance(repeats, Tensor):
        if repeats.ndim > 1 or repeats.ndim == 1 and repeats.shape[0] not in (1, n):
            raise ValueError(
                f"repeat_interleave: repeats do not fit, got shape {repeats.shape}; expected [{n}] or [1]."
            )
        repeats = repeats.broadcast_to([n])
        total = int(repeats.sum()) if output_size is None else output_size
        if total < 0 or total > 2**48:
            raise ValueError(
                f"repeat_interleave: the total is out of range, got {total}; expected 0 <= total <= 2**48."
            )
    else:
        if repeats < 0 or repeats * max(n, 1) > 2**48:
            raise ValueError(
                f"repeat_interleave: repeats out of range, got {repeats}; expected 0 <= repeats, total <= 2**48."
            )
        total = repeats * n
        repeats = full([n], repeats, "int64")
    return ops.index_axis(x, ops.repeat_index(repeats, total), axis, "repeat_interleave")


# ---- unique, counts ----
def _unique(x, axis, dtype, ordered, flags):
    if axis is None:
        x, axis = x.reshape([x.size]), 0
    axis = axis + x.ndim if axis < 0 else axis
    perm = list(_core_range(x.ndim))
    perm[0], perm[axis] = perm[axis], perm[0]
    rows = x.transpose(perm) if axis else x
    first, inverse, counts = ops.unique_fill(rows, int(ops.unique_count(rows, ordered)), ordered)
    out = [ops.index_axis(x, first, axis, "unique")]
    out += [
        v.astype(dtype) if v.dtype != dtype else v
        for v, wanted in zip((first, inverse, counts), flags)
        if wanted
    ]
    return out[0] if len(out) == 1 else tuple(out)


def unique(
    x,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    dtype="int64",
    sorted=True,
    name=None,
):
    """Distinct elements (or slices along ``axis``), sorted; with first positions, inverse and counts. Reads ``x``."""
    return _unique(x, axis, dtype, True, (return_index, return_inverse, return_counts))


def unique_consecutive(x, return_inverse=False, return_counts=False, axis=None, dtype="int64", name=None):
    """``x`` with runs of equal elements (or slices along ``axis``) reduced to one. Reads ``x``."""
    return _unique(x, axis, dtype, False, (False, return_inverse, return_counts))


def bincount(x, weights=None, minlength=0, name=None):
    """How often 0, 1, 2... occur in the 1-D ``x``, or the sums of their weights. Reads ``x``."""
    if minlength < 0:
        raise ValueError(f"bincount: minlength is negative, got {minlength}.")
    n = max(int(x.max()) + 1 if x.size else 0, minlength)
    return ops.bincount_core(x, weights, max(n, 0))


def bucketize(x, sorted_sequence, out_int32=False, right=False, name=None, *, out=None):
    """Where the elements of ``x`` would be inserted into the 1-D ``sorted_sequence``."""
    return ops.bucketize_core(sorted_sequence, x, out_int32, right)


def histogram_bin_edges(input, bins=100, min=0.0, max=0.0, name=None):
    """Edges of the bins of ``histogram``; reads ``input`` when min equals max."""
    if min == max:
        min, max = float(input.min()), float(input.max())
        if min == max:
            min, max = min - 0.5, max + 0.5
    return linspace(min, max, bins + 1, "float32")


def isin(x, test_x, assume_unique=False, invert=False, name=None):
    """Whether each element of ``x`` occurs in ``test_x``."""
    hit = ops.any(ops.equal(x.unsqueeze(-1), test_x.reshape([test_x.size])), -1)
    return ops.logical_not(hit) if invert else hit


def allclose(x, y, rtol=1e-05, atol=1e-08, equal_nan=False, name=None):
    """Whether all |x - y| <= atol + rtol * |y|, as a bool tensor of shape []."""
    return ops.all(ops.isclose(x, y, rtol, atol, equal_nan))


def equal_all(x, y, name=None):
    """Whether shapes and all elements are equal, as a bool tensor of shape []."""
    return ops.all(ops.equal(x, y)) if x.shape == y.shape else full([], False, "bool")


# ---- statistics by order ----
def norm(x, p=None, axis=None, keepdim=False, name=None):
    """p-norm over axes; None or 'fro' is the Euclidean one; 'nuc' over two axes is the sum of singular values."""
    if p == "nuc":
        from .linalg import nuclear_norm

        return nuclear_norm(x, axis, keepdim)
    p = 2.0 if p in (None, "fro") else float(p)
    return ops.p_norm(x, p, list(axis) if isinstance(axis, (list, tuple)) else axis, keepdim)


def _merged(x, axis):
    """(x with the reduced axes merged into the last one, shape with the axes kept as 1)."""
    axes = list(_core_range(x.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    for a in axes:
        if not -x.ndim <= a < x.ndim:
            raise IndexError(f"median: axis out of range, got {a} for a tensor of rank {x.ndim}.")
    axes = sorted({a % x.ndim for a in axes}) if x.ndim else []
    rest = [a for a in _core_range(x.ndim) if a not in axes]
    kept = [1 if a in axes else s for a, s in enumerate(x.shape)]
    shape = [x.shape[a] for a in rest]
    return x.transpose(rest + axes).reshape(shape + [math.prod(x.shape[a] for a in axes)]), kept, shape


def _median(x, axis, keepdim, mode, ignore_nan):
    if mode not in ("avg", "min"):
        raise ValueError(f"median: unknown mode, got {mode!r}; expected 'avg' or 'min'.")
    flat, kept, shape = _merged(x, axis)
    values, index = ops.median_core(flat, mode == "min", ignore_nan)
    out = kept if keepdim else shape
    if mode == "min" and axis is not None and isinstance(axis, int):
        return values.reshape(out), index.reshape(out)
    return values.reshape(out)


def median(x, axis=None, keepdim=False, mode="avg", name=None, *, out=None):
    """Middle value over axes; 'avg' takes the mean of the two middle ones, 'min' the lower (and its position)."""
    return _median(x, axis, keepdim, mode, False)


def nanmedian(x, axis=None, keepdim=False, mode="avg", name=None):
    """``median`` of what is not NaN."""
    return _median(x, axis, keepdim, mode, True)


def _quantile(x, q, axis, keepdim, interpolation, ignore_nan):
    flat, kept, shape = _merged(x, axis)
    many = isinstance(q, (list, tuple)) or isinstance(q, Tensor) and q.ndim > 0
    qs = [float(v) for v in (q.tolist() if isinstance(q, Tensor) else q)] if many else [float(_number(q))]
    if not qs or any(not 0 <= v <= 1 for v in qs):
        raise ValueError(f"quantile: q is out of range, got {qs}; expected values in [0, 1].")
    out = ops.quantile_core(flat, qs, interpolation, ignore_nan)
    rest = kept if keepdim else shape
    return out.reshape([len(qs), *rest]) if many else out.reshape(rest)


def quantile(x, q, axis=None, keepdim=False, interpolation="linear", name=None, *, out=None):
    """Values below which the fractions ``q`` lie; a list of q adds a leading axis."""
    return _quantile(x, q, axis, keepdim, interpolation, False)


def nanquantile(x, q, axis=None, keepdim=False, interpolation="linear"):
    """``quantile`` of what is not NaN."""
    return _quantile(x, q, axis, keepdim, interpolation, True)


# ---- small ones ----
def view(x, shape_or_dtype, name=None):
    """``x`` seen with another shape."""
    if isinstance(shape_or_dtype, (list, tuple)):
        return x.reshape(shape_or_dtype)
    raise NotImplementedError("view: reinterpreting bytes as another dtype is not built; expected a shape.")


def view_as(x, other, name=None):
    """``x`` seen with the shape of ``other``."""
    return x.reshape(other.shape)


def unflatten(x, axis, shape, name=None):
    """One axis split into several."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(x.shape[:axis] + _shape(shape) + x.shape[axis + 1 :])


def increment(x, value=1.0, name=None):
    """Adds ``value`` to ``x`` in place."""
    return x.add_(full([], value, x.dtype))


def msort(input, *, out=None):
    """Sorted along the first axis."""
    return ops.sort(input, 0)


def bitwise_invert(x, out=None, name=None):
    """All bits flipped."""
    return ops.bitwise_not(x)


def negative(x, name=None):
    """-x."""
    return ops.neg(x)


def positive(x, name=None):
    """x itself."""
    return x


def diff(x, n=1, axis=-1, prepend=None, append=None, name=None, *, out=None):
    """Differences of neighbours along ``axis``, ``n`` times."""
    parts = [t for t in (prepend, x, append) if t is not None]
    x = ops.concat(parts, axis) if len(parts) > 1 else x
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"diff: n does not fit, got {n!r}; expected an int >= 0.")
    axis = _lists._axis("diff", axis, x.ndim)
    for _ in _core_range(n):
        size = x.shape[axis]
        if size == 0:  # what remains stays empty
            break
        after = ops.slice(x, [axis], [1], [size])
        before = ops.slice(x, [axis], [0], [max(size - 1, 0)])
        x = ops.not_equal(after, before) if x.dtype == "bool" else after - before
    return x


_core_range = builtins.range

from . import tensor_algebra as _algebra  # noqa: E402
from . import tensor_lists as _lists  # noqa: E402
from .tensor_algebra import *  # noqa: E402,F401,F403
from .tensor_lists import *  # noqa: E402,F401,F403

__all__ += _create.__all__ + _lists.__all__ + _algebra.__all__

from . import tensor_more as _more  # noqa: E402
from .tensor_more import *  # noqa: E402,F401,F403

__all__ += _more.__all__

from . import tensor_methods as _methods  # noqa: E402
from .tensor_methods import *  # noqa: E402,F401,F403

__all__ += _methods.__all__

from . import linalg as _linalg  # noqa: E402  (attaches its Tensor methods)

inverse = _linalg.inv
__all__ += ["inverse"]
