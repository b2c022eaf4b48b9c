# SPDX-License-Identifier: Apache-2.0
"""Tensor room: products and integrals made of matmul, sums and views (einsum, tensordot, outer, cross, trapezoid...)."""
import math

import numpy as np

from . import _core
from .tensor_lists import _axis, _part

ops = _core.ops

__all__ = [
    "diagflat", "trace", "kron", "inner", "outer", "dot", "mv", "cross", "dist", "cdist", "tensordot",
    "einsum", "addmm", "trapezoid", "vander", "tril_indices", "triu_indices", "renorm",
]


# ---- algebra made of matmul, sums and views ----
def diagflat(x, offset=0, name=None):
    """A matrix with the flattened ``x`` on its diagonal."""
    return ops.diag(x.flatten() if x.ndim else x.reshape([1]), offset)


def trace(x, offset=0, axis1=0, axis2=1, name=None):
    """Sum of the diagonal."""
    return ops.sum(ops.diagonal(x, offset, axis1, axis2), -1)


def dot(x, y, name=None, *, out=None):
    """Sum of products along the last axis."""
    if x.shape != y.shape or x.ndim not in (1, 2):
        raise ValueError(
            f"dot: shapes do not fit, got {x.shape} and {y.shape}; expected two equal shapes of rank 1 or 2."
        )
    return ops.sum(ops.multiply(x, y), -1, x.dtype)


def mv(x, vec, name=None):
    """Matrix times vector."""
    if x.ndim != 2 or vec.ndim != 1:
        raise ValueError(
            f"mv: shapes do not fit, got {x.shape} and {vec.shape}; expected a matrix and a vector."
        )
    return ops.matmul(x, vec)


def inner(x, y, name=None):
    """Sums of products over the last axes."""
    if x.ndim == 0 or y.ndim == 0:
        return ops.multiply(x, y)
    a, b = x.reshape([-1, x.shape[-1]]), y.reshape([-1, y.shape[-1]])
    return ops.matmul(a, b, False, True).reshape(x.shape[:-1] + y.shape[:-1])


def outer(x, y, name=None, *, out=None):
    """Products of all pairs of elements, [x.size, y.size]."""
    return ops.multiply(x.reshape([-1, 1]), y.reshape([1, -1]))


def kron(x, y, name=None):
    """Kronecker product."""
    n = max(x.ndim, y.ndim)
    a, b = x.reshape([1] * (n - x.ndim) + x.shape), y.reshape([1] * (n - y.ndim) + y.shape)
    left = [v for s in a.shape for v in (s, 1)]
    right = [v for s in b.shape for v in (1, s)]
    return ops.multiply(a.reshape(left), b.reshape(right)).reshape([p * q for p, q in zip(a.shape, b.shape)])


def cross(x, y, axis=9, name=None):
    """Vector product along an axis of extent 3 (the first one when ``axis`` is 9)."""
    if axis == 9:
        axis = next((k for k, n in enumerate(x.shape) if n == 3), None)
        if axis is None:
            raise ValueError(f"cross: no axis of extent 3, got shape {x.shape}.")
    axis = _axis("cross", axis, x.ndim)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError(f"cross: axis {axis} has extents {x.shape[axis]} and {y.shape[axis]}; expected 3.")
    after = [ops.roll(t, [-1], [axis]) for t in (x, y)]
    before = [ops.roll(t, [-2], [axis]) for t in (x, y)]
    return after[0] * before[1] - before[0] * after[1]


def dist(x, y, p=2, name=None):
    """p-norm of ``x - y``."""
    from .tensor_ops import norm

    return norm((x - y).flatten() if (x - y).ndim else (x - y).reshape([1]), float(p))


def cdist(x, y, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary", name=None):
    """p-norm distances between all rows of ``x`` and ``y``."""
    from .tensor_ops import norm

    return norm(x.unsqueeze(-2) - y.unsqueeze(-3), float(p), -1)


def renorm(x, p, axis, max_norm):
    """Slices along ``axis`` whose p-norm is above ``max_norm`` scaled down to it."""
    axis = _axis("renorm", axis, x.ndim)
    n = ops.p_norm(x, float(p), [a for a in range(x.ndim) if a != axis], True)
    return x * ops.where(ops.greater_than(n, max_norm), max_norm / (n + 1e-7), 1.0)


def addmm(input, x, y, beta=1.0, alpha=1.0, name=None):
    """beta * input + alpha * x @ y."""
    return ops.scale(input, float(beta)) + ops.scale(ops.matmul(x, y), float(alpha))


def tensordot(x, y, axes=2, name=None):
    """Sums of products over paired axes."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(x.ndim, y.ndim):
            raise ValueError(
                f"tensordot: axes does not fit, got {axes} for shapes {x.shape} and {y.shape}; "
                f"expected 0 to {min(x.ndim, y.ndim)}."
            )
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        pair = [axes, axes] if all(isinstance(a, int) for a in axes) else list(axes)
        pair = pair * 2 if len(pair) == 1 else pair
        left, right = ([p] if isinstance(p, int) else list(p) for p in pair)
    left = [_axis("tensordot", a, x.ndim) for a in left]
    right = [_axis("tensordot", a, y.ndim) for a in right]
    free_x, free_y = [a for a in range(x.ndim) if a not in left], [a for a in range(y.ndim) if a not in right]
    k = math.prod(x.shape[a] for a in left)
    a = x.transpose(free_x + left).reshape([math.prod(x.shape[i] for i in free_x), k])
    b = y.transpose(right + free_y).reshape([k, math.prod(y.shape[i] for i in free_y)])
    return ops.matmul(a, b).reshape([x.shape[i] for i in free_x] + [y.shape[i] for i in free_y])


def _letters(equation, operands):
    """([labels of each operand], labels of the result); an ellipsis becomes capital placeholders."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(
            f"einsum: operand count does not fit, got {len(operands)} for {equation!r}; expected {len(terms)}."
        )
    wide = max([t.ndim - len(s.replace("...", "")) for s, t in zip(terms, operands) if "..." in s], default=0)
    dots = [f"<{k}>" for k in range(wide)]
    lists = []
    for s, t in zip(terms, operands):
        before, found, after = s.partition("...")
        n = t.ndim - len(before) - len(after)
        if n < 0 or (n and not found):
            raise ValueError(f"einsum: {s!r} does not fit a tensor of shape {t.shape}.")
        lists.append([*before, *dots[wide - n :], *after])
    if arrow:
        before, found, after = right.partition("...")
        result = [*before, *(dots if found else []), *after]
    else:
        seen = [c for labels in lists for c in labels]
        result = dots + sorted(c for c in set(seen) if seen.count(c) == 1 and c not in dots)
    for c in result:
        if all(c not in labels for labels in lists):
            raise ValueError(f"einsum: label {c!r} of the result does not occur in {left!r}.")
    return lists, result


def _own(t, labels):
    """Repeated labels of one operand become a diagonal."""
    k = 0
    while k < len(labels):
        if labels.count(labels[k]) > 1:
            other = labels.index(labels[k], k + 1)
            c = labels[k]
            t = ops.diagonal(t, 0, k, other)
            labels = [v for i, v in enumerate(labels) if i not in (k, other)] + [c]
            k = 0
        else:
            k += 1
    return t, labels


def _contract(a, la, b, lb, keep):
    """One matmul over the labels that both have and nobody needs later."""
    shared = [c for c in la if c in lb]
    batch = [c for c in shared if c in keep]
    inner_labels = [c for c in shared if c not in keep]
    for c in [c for c in la if c not in lb and c not in keep]:
        a, la = ops.sum(a, la.index(c), a.dtype), [v for v in la if v != c]
    for c in [c for c in lb if c not in la and c not in keep]:
        b, lb = ops.sum(b, lb.index(c), b.dtype), [v for v in lb if v != c]
    size = {
        c: max(a.shape[la.index(c)] if c in la else 1, b.shape[lb.index(c)] if c in lb else 1)
        for c in la + lb
    }
    for c in shared:
        if {a.shape[la.index(c)], b.shape[lb.index(c)]} - {1, size[c]}:
            raise ValueError(
                f"einsum: extents of label {c!r} differ, got {a.shape[la.index(c)]} and {b.shape[lb.index(c)]}."
            )
    rows, cols = [c for c in la if c not in shared], [c for c in lb if c not in shared]

    def arranged(t, labels, order):
        t = t.transpose([labels.index(c) for c in order])
        want = [size[c] if c in shared else n for c, n in zip(order, t.shape)]
        return t.broadcast_to(want) if t.shape != want else t

    def merged(t, first, second):
        return t.reshape(
            [size[c] for c in batch] + [math.prod(size[c] for c in first), math.prod(size[c] for c in second)]
        )

    x = merged(arranged(a, la, batch + rows + inner_labels), rows, inner_labels)
    y = merged(arranged(b, lb, batch + inner_labels + cols), inner_labels, cols)
    out = ops.matmul(x, y) if inner_labels else ops.multiply(x, y)
    labels = batch + rows + cols
    return out.reshape([size[c] for c in labels]), labels


def einsum(equation, *operands):
    """Sum of products written with labels: ``'ij,jk->ik'``; an ellipsis stands for axes that broadcast."""
    operands = (
        list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    )
    lists, result = _letters(equation, operands)
    t, labels = _own(operands[0], lists[0])
    for k in range(1, len(operands)):
        other, other_labels = _own(operands[k], lists[k])
        later = set(result).union(*[set(x) for x in lists[k + 1 :]])
        t, labels = _contract(t, labels, other, other_labels, later)
    for c in [c for c in labels if c not in result]:
        t, labels = ops.sum(t, labels.index(c), t.dtype), [v for v in labels if v != c]
    order = [labels.index(c) for c in result]
    return (
        t.transpose(order) if order != list(range(len(order))) else t if len(operands) > 1 else ops.assign(t)
    )


def trapezoid(y, x=None, dx=None, axis=-1, name=None):
    """Integral by the trapezoid rule along ``axis``."""
    axis = _axis("trapezoid", axis, y.ndim)
    n = y.shape[axis]
    pair = _part(y, axis, 1, n) + _part(y, axis, 0, n - 1)
    if x is None:
        return ops.sum(pair, axis) * (0.5 * (1.0 if dx is None else dx))
    m = x.shape[-1] if x.ndim == 1 else x.shape[axis]
    at = 0 if x.ndim == 1 else axis
    step = _part(x, at, 1, m) - _part(x, at, 0, m - 1)
    if x.ndim == 1:
        step = step.reshape([-1 if k == axis else 1 for k in range(y.ndim)])
    return ops.sum(pair * step, axis) * 0.5


def vander(x, n=None, increasing=False, name=None):
    """Columns of powers of the 1-D ``x``."""
    n = x.shape[0] if n is None else n
    powers = ops.iota([n], 0, "int64") if increasing else ops.flip(ops.iota([n], 0, "int64"), [0])
    return ops.pow(x.reshape([-1, 1]), powers.astype(x.dtype))


def _triangle(who, rows, cols, offset, upper, dtype):
    """Positions on one side of a diagonal, row by row, [2, n]."""
    from .tensor import to_tensor

    cols = rows if cols is None else cols
    if not 0 <= rows <= 1 << 24 or not 0 <= cols <= 1 << 40:
        raise ValueError(f"{who}: row and col do not fit, got {rows} and {cols}; expected 0 to 2**24 rows.")
    offset = min(max(int(offset), -rows - 1), cols)
    edge = np.arange(rows) + (offset if upper else offset + 1)
    edge = np.clip(edge, 0, cols)
    count = cols - edge if upper else edge
    total = int(count.sum())
    if total > 1 << 30:
        raise MemoryError(f"{who}: {total} positions are too many, got {rows} rows and {cols} columns.")
    first = np.repeat(np.cumsum(count) - count - (edge if upper else 0), count)
    return to_tensor(np.stack([np.repeat(np.arange(rows), count), np.arange(total) - first]), dtype)


def tril_indices(row, col, offset=0, dtype="int64"):
    """Rows and columns of the lower triangle, [2, n]."""
    return _triangle("tril_indices", row, col, offset, False, dtype)


def triu_indices(row, col=None, offset=0, dtype="int64"):
    """Rows and columns of the upper triangle, [2, n]."""
    return _triangle("triu_indices", row, col, offset, True, dtype)
