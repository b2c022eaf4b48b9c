# SPDX-License-Identifier: Apache-2.0
"""Test room: the NumPy side of tests/vectors: reference functions in float64 that vector files may name."""
import math

import numpy as np

from vector_windows import *  # noqa: F401,F403


def _each(f):
    return lambda x: np.vectorize(f, otypes=[np.float64])(np.asarray(x, np.float64))


def _lgamma(v):
    if math.isnan(v):
        return v
    if math.isinf(v) or (v <= 0 and v == math.floor(v)):
        return math.inf
    return math.lgamma(v)


erf = _each(math.erf)
lgamma = _each(_lgamma)


def digamma(x):
    """Derivative of lgamma by recurrence and the asymptotic series."""
    def one(v):
        if v <= 0 and v == math.floor(v):
            return math.nan
        if v < 0:
            return one(1 - v) - math.pi / math.tan(math.pi * v)
        r = 0.0
        while v < 12:
            r -= 1 / v
            v += 1
        f = 1 / (v * v)
        return r + math.log(v) - 0.5 / v - f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f / 132))))
    return _each(one)(x)


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def softmax(x, axis=-1):
    if x.size == 0:
        return x
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis=-1):
    s = x - x.max(axis, keepdims=True)
    return s - np.log(np.exp(s).sum(axis, keepdims=True))


def logsumexp(x, axis=None, keepdims=False):
    m = x.max(axis, keepdims=True)
    m = np.where(np.isfinite(m), m, 0)
    r = np.log(np.exp(x - m).sum(axis, keepdims=True)) + m
    return r if keepdims else np.squeeze(r, tuple(range(x.ndim)) if axis is None else axis)


def ref_cross_entropy(x, label, axis=-1, ignore=-100, weight=None, reduction="mean", smooth=0.0):
    """Hard labels by row; the mean is over weights of kept rows, 0 when there are none."""
    x = np.moveaxis(x, axis, -1)
    n = x.shape[-1]
    lp = log_softmax(x)
    keep = label != ignore
    safe = np.where(keep, label, 0).astype(int)
    w = np.ones(n) if weight is None else weight
    target = np.eye(n)[safe] * (1 - smooth) + smooth / n
    loss = -(target * lp).sum(-1)
    row = w[safe] * keep if smooth == 0 or weight is None else (target * w).sum(-1) * keep
    loss = loss * row
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else (loss.sum() / row.sum() if row.sum() else np.float64(0))


def running(f, x, axis):
    """Scan along an axis."""
    return f.accumulate(x, axis)


def one_hot(x, n):
    return np.eye(n)[x]


def embed_diag(x, offset=0):
    n = x.shape[-1] + abs(offset)
    out = np.zeros(x.shape[:-1] + (n, n), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return out


def scatter_add(x, index, updates):
    out = x.copy()
    np.add.at(out, index, updates)
    return out


def put(x, index, value):
    out = x.copy()
    out[index] = value
    return out


def along_put(x, i, v, axis, how="assign"):
    out = x.copy()
    if how == "assign":
        np.put_along_axis(out, i, v, axis)
        return out
    for at in np.ndindex(i.shape):
        to = list(at)
        to[axis] = i[at]
        out[tuple(to)] = out[tuple(to)] + v[at] if how == "add" else out[tuple(to)] * v[at]
    return out
