# SPDX-License-Identifier: Apache-2.0
"""Tensor room: other spellings that Paddle 3.3 accepts, and rarely used functions
composed of table ops. Imported by ``tensor_ops``, which re-exports the names.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from . import _core
from . import tensor_algebra as algebra
from . import tensor_lists as lists

ops = _core.ops
Tensor = _core.Tensor

# Another name for a row of the op table.
_ALIASES = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less_than",
    "le": "less_equal",
    "gt": "greater_than",
    "ge": "greater_equal",
    "less": "less_than",
    "greater": "greater_than",
    "mul": "multiply",
    "sub": "subtract",
    "div": "divide",
    "true_divide": "divide",
    "cat": "concat",
    "take_along_dim": "take_along_axis",
    "sgn": "sign",
}
globals().update({_new: getattr(ops, _old) for _new, _old in _ALIASES.items()})

__all__ = [
    *_ALIASES,
    "mm",
    "bmm",
    "clamp",
    "bernoulli",
    "binomial",
    "topk",
    "log_normal",
    "standard_gamma",
    "isreal",
    "real",
    "conj",
    "frexp",
    "multigammaln",
    "baddbmm",
    "ger",
    "vecdot",
    "pdist",
    "combinations",
    "cumulative_trapezoid",
    "diagonal_scatter",
    "scatter_add",
    "scatter_reduce",
    "reduce_as",
    "matrix_transpose",
    "as_strided",
    "unfold",
    "broadcast_shapes",
    "as_tensor",
    "asarray",
    "from_numpy",
    "finfo",
    "iinfo",
    "histogramdd",
    "angle",
]


def mm(input, mat2, name=None):
    """Matrix product."""
    return ops.matmul(input, mat2)


def bmm(x, y, name=None, *, out=None):
    """Batched matrix product of two 3-D tensors."""
    if x.ndim != 3 or y.ndim != 3 or x.shape[0] != y.shape[0]:
        raise ValueError(
            f"bmm: shapes do not fit, got {x.shape} and {y.shape}; expected [b, n, k] and [b, k, m]."
        )
    return ops.matmul(x, y)


def clamp(x, min=None, max=None, name=None, *, out=None):
    """``clip``."""
    from .tensor_ops import clip

    return clip(x, min, max)


# ---- random ----
def bernoulli(x, p=None, name=None):
    """1 with probability ``x`` (or ``p`` everywhere), else 0."""
    if p is not None:
        x = ops.full(x.shape, float(p), x.dtype)
    return ops.bernoulli(x)


class TopKRetType(NamedTuple):
    """What ``topk`` returns, by position or by name."""

    values: Tensor
    indices: Tensor


def topk(x, k, axis=None, largest=True, sorted=True, name=None):
    """(values, indices): the k largest (or smallest) elements along ``axis`` (None: the last), int64 positions."""
    return TopKRetType(*ops.topk(x, k, axis, largest, sorted))


def binomial(count, prob, name=None):
    """Successes of ``count`` trials with probability ``prob``, int64; reads the largest count."""
    from .tensor_ops import rand

    n = int(count.max()) if count.size else 0
    draws = rand([n, *lists.broadcast_tensors([count, prob])[0].shape], dtype=prob.dtype)
    number = ops.iota([n] + [1] * (draws.ndim - 1), 0, "int64")
    hit = ops.logical_and(ops.less_than(draws, prob), ops.less_than(number, count.astype("int64")))
    return ops.sum(hit, 0, "int64")


def log_normal(mean=1.0, std=2.0, shape=None, name=None):
    """exp of normal values."""
    from .tensor_ops import normal

    return ops.exp(normal(mean, std, shape))


def standard_gamma(x, name=None):
    """Gamma values of shape ``x`` and scale 1 (Marsaglia and Tsang, eight proposals; the last is taken as it is)."""
    from .tensor_ops import rand, standard_normal

    small = ops.less_than(x, 1.0)
    alpha = ops.where(small, x + 1.0, x)
    d = alpha - 1.0 / 3
    c = 1.0 / ops.sqrt(9.0 * d)
    result, open_ = d, ops.full(x.shape, 1.0, "bool")
    for _ in range(8):
        z, u = standard_normal(x.shape, x.dtype), rand(x.shape, dtype=x.dtype)
        v = ops.pow(1.0 + c * z, 3.0)
        ok = ops.logical_and(
            ops.greater_than(v, 0.0),
            ops.less_than(ops.log(u), 0.5 * z * z + d - d * v + d * ops.log(ops.maximum(v, 1e-30))),
        )
        take = ops.logical_and(open_, ok)
        result = ops.where(take, d * v, result)
        open_ = ops.logical_and(open_, ops.logical_not(ok))
    return ops.where(small, result * ops.pow(rand(x.shape, dtype=x.dtype), 1.0 / x), result)


# ---- facts and conversions ----
def isreal(x, name=None):
    """Whether each element has no imaginary part: True for real dtypes."""
    return ops.full(x.shape, 1.0, "bool")


def real(x, name=None):
    """Real part: real tensors themselves."""
    return x


def conj(x, name=None):
    """Complex conjugate: real tensors themselves."""
    return x


def angle(x, name=None):
    """0 for positive, pi for negative numbers, NaN for NaN."""
    return ops.where(ops.isnan(x), x, ops.where(ops.less_than(x, 0.0), math.pi, 0.0).astype(x.dtype))


def broadcast_shapes(*shapes):
    """The shape that all shapes broadcast to."""
    from .tensor_ops import broadcast_shape

    out = []
    for s in shapes:
        out = broadcast_shape(out, s)
    return out


def as_tensor(data, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """``to_tensor``."""
    from .tensor import to_tensor

    return to_tensor(data, dtype, stop_gradient=not requires_grad)


def asarray(data, dtype=None, **_):
    """``to_tensor``."""
    return as_tensor(data, dtype)


def from_numpy(array):
    """Tensor with a copy of a NumPy array."""
    return as_tensor(array)


class finfo:  # noqa: N801  (Paddle's name)
    """Limits of a floating point dtype: dtype, bits, eps, max, min, tiny, smallest_normal, resolution."""

    def __init__(self, dtype):
        name = _core.dtype(dtype).name
        if name == "bfloat16":
            self.bits, self.eps, self.max, self.tiny, self.resolution = (
                16,
                2.0**-7,
                3.3895313892515355e38,
                2.0**-126,
                0.01,
            )
        else:
            f = np.finfo(name)
            self.bits, self.eps, self.max, self.tiny = f.bits, float(f.eps), float(f.max), float(f.tiny)
            self.resolution = float(f.resolution)
        self.dtype, self.min, self.smallest_normal = name, -self.max, self.tiny


class iinfo:  # noqa: N801  (Paddle's name)
    """Limits of an integer dtype: dtype, bits, min, max."""

    def __init__(self, dtype):
        i = np.iinfo(_core.dtype(dtype).name)
        self.dtype, self.bits, self.min, self.max = str(i.dtype), i.bits, int(i.min), int(i.max)


# ---- arithmetic ----
def frexp(x, name=None):
    """Mantissa in [0.5, 1) and exponent with x = mantissa * 2 ** exponent."""
    a = ops.abs(x)
    zero = ops.equal(a, 0.0)
    e = ops.floor(ops.log2(ops.where(zero, 1.0, a))) + 1.0
    m = x / ops.pow(2.0, e)
    high = ops.greater_equal(ops.abs(m), 1.0)  # log2 rounds at powers of two
    low = ops.logical_and(ops.less_than(ops.abs(m), 0.5), ops.logical_not(zero))
    e = e + high.astype(x.dtype) - low.astype(x.dtype)
    return ops.where(zero, x, x / ops.pow(2.0, e)), ops.where(zero, 0.0, e).astype("int32")


def multigammaln(x, p, name=None):
    """Logarithm of the multivariate gamma function of dimension ``p``."""
    if not isinstance(p, int) or not 1 <= p <= 1 << 31:
        raise ValueError(f"multigammaln: p does not fit, got {p!r}; expected an int from 1 to 2**31.")
    if p <= 64:
        out = ops.lgamma(x)
        for k in range(1, p):
            out = out + ops.lgamma(x - 0.5 * k)
    else:
        half = ops.iota([1] * x.ndim + [p], x.ndim, "int64").astype(x.dtype) * 0.5
        out = ops.sum(ops.lgamma(ops.unsqueeze(x, [-1]) - half), [-1])
    return out + p * (p - 1) / 4 * math.log(math.pi)


def baddbmm(input, x, y, beta=1.0, alpha=1.0, name=None):
    """beta * input + alpha * x @ y, batched."""
    return ops.scale(input, float(beta)) + ops.scale(bmm(x, y), float(alpha))


def ger(x, y, name=None):
    """``outer``."""
    return algebra.outer(x, y)


def vecdot(x, y, axis=-1, name=None):
    """Sum of products along an axis."""
    return ops.sum(x * y, axis, x.dtype)


def matrix_transpose(x, name=None):
    """The last two axes exchanged."""
    return ops.swapaxes(x, -1, -2)


def pdist(x, p=2.0, name=None):
    """p-norm distances between all pairs of rows, [n (n - 1) / 2]."""
    i, j = algebra.triu_indices(x.shape[0], x.shape[0], 1).unbind(0)
    return ops.p_norm(ops.index_axis(x, i, 0, "pdist") - ops.index_axis(x, j, 0, "pdist"), float(p), -1)


def combinations(x, r=2, with_replacement=False, name=None):
    """All combinations of ``r`` elements of the 1-D ``x``, [n, r]."""
    from .tensor import to_tensor

    if x.ndim != 1 or not isinstance(r, int) or r < 0:
        raise ValueError(f"combinations: x or r does not fit, got shape {x.shape} and r {r!r}; expected 1-D, r >= 0.")
    n = x.shape[0]
    if r > 1000 or math.comb(n + r - 1 if with_replacement and r else n, r) * max(r, 1) > 1 << 27:
        raise ValueError(f"combinations: too many, got extent {n} and r {r}; expected at most 2**27 numbers.")
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    index = np.array(list(pick(range(x.shape[0]), r)), np.int64).reshape(-1, r)
    return ops.index_axis(x, to_tensor(index), 0, "combinations")


def cumulative_trapezoid(y, x=None, dx=None, axis=-1, name=None):
    """Running integral by the trapezoid rule along ``axis``."""
    axis = lists._axis("cumulative_trapezoid", axis, y.ndim)
    n = y.shape[axis]
    pair = lists.narrow(y, axis, 1, n - 1) + lists.narrow(y, axis, 0, n - 1)
    if x is not None:
        at = 0 if x.ndim == 1 else axis
        step = lists.narrow(x, at, 1, n - 1) - lists.narrow(x, at, 0, n - 1)
        pair = pair * (step.reshape([-1 if k == axis else 1 for k in range(y.ndim)]) if x.ndim == 1 else step)
    return ops.cumsum(pair * (0.5 * (1.0 if dx is None or x is not None else dx)), axis)


def histogramdd(x, bins=10, ranges=None, density=False, weights=None, name=None):
    """Counts of rows of ``x`` in a grid of bins, and the edges of each axis. Reads ``x`` when ``ranges`` is None."""
    from .tensor_ops import full, linspace

    n, d = x.shape
    counts = [bins] * d if isinstance(bins, int) else list(bins)
    cell, inside, edges, volume = full([n], 0, "int64"), full([n], True, "bool"), [], 1.0
    for k in range(d):
        column = x[:, k]
        low, high = (
            (ranges[2 * k], ranges[2 * k + 1])
            if ranges is not None
            else (float(column.min()), float(column.max()))
        )
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        edges.append(linspace(low, high, counts[k] + 1, x.dtype))
        at = ops.floor((column - low) * (counts[k] / (high - low))).astype("int64")
        at = ops.minimum(at, counts[k] - 1)
        inside = ops.logical_and(
            inside, ops.logical_and(ops.greater_equal(column, low), ops.less_equal(column, high))
        )
        cell = cell * counts[k] + at
        volume *= (high - low) / counts[k]
    weight = inside.astype(x.dtype) if weights is None else ops.where(inside, weights, 0.0)
    total = math.prod(counts)
    out = ops.index_put(full([total], 0.0, x.dtype), [ops.where(inside, cell, 0)], weight, True).reshape(
        counts
    )
    return (out / (ops.sum(out) * volume) if density else out), edges


# ---- scatter forms ----
def diagonal_scatter(x, y, offset=0, axis1=0, axis2=1, name=None):
    """``x`` with its diagonal replaced by ``y``."""
    axis1, axis2 = (lists._axis("diagonal_scatter", a, x.ndim) for a in (axis1, axis2))
    return ops.diagonal_write(x, y, offset, axis1, axis2)


def scatter_add(input, dim, index, src):
    """``input`` with ``src`` added along ``dim`` where ``index`` says."""
    part = (
        ops.slice(src, list(range(src.ndim)), [0] * src.ndim, index.shape)
        if src.shape != index.shape
        else src
    )
    return ops.put_along_axis_core(input, index, part, dim, "add", True, False)


def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """``input`` with ``src`` reduced ('sum', 'prod', 'mean', 'amax', 'amin') along ``dim`` where ``index`` says."""
    how = {"sum": "add", "prod": "multiply"}.get(reduce, reduce)
    part = (
        ops.slice(src, list(range(src.ndim)), [0] * src.ndim, index.shape)
        if src.shape != index.shape
        else src
    )
    return ops.put_along_axis_core(input, index, part, dim, how, include_self, False)


def reduce_as(x, target, name=None):
    """``x`` summed to the shape of ``target``."""
    extra = x.ndim - target.ndim
    axes = [k for k in range(x.ndim) if k < extra or target.shape[k - extra] == 1 != x.shape[k]]
    return ops.sum(x, axes, x.dtype, True).reshape(target.shape) if axes else ops.assign(x)


def as_strided(x, shape, stride, offset=0, name=None):
    """Elements of ``x`` (its row-major order) at offset + sum of position * stride; a copy."""
    shape, stride, offset = [int(n) for n in shape], [int(s) for s in stride], int(offset)
    if len(shape) != len(stride) or min(shape, default=0) < 0:
        raise ValueError(f"as_strided: shape and stride do not fit, got {shape} and {stride}.")
    ends = [(n - 1) * s for n, s in zip(shape, stride)]
    low, high = offset + sum(min(e, 0) for e in ends), offset + sum(max(e, 0) for e in ends)
    if 0 not in shape and not 0 <= low <= high < x.size:
        raise ValueError(
            f"as_strided: the elements lie outside, got positions {low} to {high} by shape {shape}, stride {stride} "
            f"and offset {offset}; expected 0 to {x.size - 1}."
        )
    index = ops.full([1] * len(shape), float(offset), "int64")
    for k, (n, s) in enumerate(zip(shape, stride)):
        index = index + ops.iota([n if i == k else 1 for i in range(len(shape))], k, "int64") * s
    return ops.index(x.reshape([x.size]), [index.broadcast_to(list(shape))])


def unfold(x, axis, size, step, name=None):
    """All windows of ``size`` along ``axis`` every ``step``, as a new last axis; a copy."""
    axis = lists._axis("unfold", axis, x.ndim)
    if not 0 <= size <= x.shape[axis] or step < 1:
        raise ValueError(
            f"unfold: the window does not fit, got size {size} and step {step} for extent {x.shape[axis]}."
        )
    n = (x.shape[axis] - size) // step + 1
    index = ops.iota([n, 1], 0, "int64") * step + ops.iota([1, size], 1, "int64")
    out = ops.index_axis(x, index, axis, "unfold")
    return out.transpose([*range(axis + 1), *range(axis + 2, out.ndim), axis + 1])
