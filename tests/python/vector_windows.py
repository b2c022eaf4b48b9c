# SPDX-License-Identifier: Apache-2.0
"""Test room: NumPy references of convolution, pooling and normalisation for tests/vectors in float64."""
import itertools

import numpy as np


def _padded(x, pads, value):
    n = x.ndim - 2
    pairs = [(0, 0), (0, 0)] + [(pads[2 * i], pads[2 * i + 1]) for i in range(n)]
    return np.pad(x, pairs, constant_values=value)


def ref_conv(x, w, stride, pads, dilation, groups=1):
    """Convolution; pads = begin, end per spatial axis."""
    n = x.ndim - 2
    p = _padded(x, pads, 0.0)
    out = [(p.shape[2 + i] - (w.shape[2 + i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in range(n)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    ci, co = w.shape[1], w.shape[0] // groups
    for tap in itertools.product(*map(range, w.shape[2:])):
        first = [tap[i] * dilation[i] for i in range(n)]
        cut = tuple(slice(first[i], first[i] + (out[i] - 1) * stride[i] + 1, stride[i]) for i in range(n))
        for g in range(groups):
            part = p[(slice(None), slice(g * ci, (g + 1) * ci), *cut)]
            k = w[(slice(g * co, (g + 1) * co), slice(None), *tap)]
            y[:, g * co:(g + 1) * co] += np.einsum("nc...,oc->no...", part, k)
    return y


def ref_conv_transpose(x, w, stride, pads, extra, dilation, groups=1):
    """Transposed convolution; w is [in, out / groups, kernel...]."""
    n = x.ndim - 2
    reach = [(x.shape[2 + i] - 1) * stride[i] + 1 for i in range(n)]
    full = [reach[i] + (w.shape[2 + i] - 1) * dilation[i] + extra[i] for i in range(n)]
    y = np.zeros((x.shape[0], w.shape[1] * groups, *full))
    ci, co = x.shape[1] // groups, w.shape[1]
    for tap in itertools.product(*map(range, w.shape[2:])):
        first = [tap[i] * dilation[i] for i in range(n)]
        at = tuple(slice(first[i], first[i] + reach[i], stride[i]) for i in range(n))
        for g in range(groups):
            k = w[(slice(g * ci, (g + 1) * ci), slice(None), *tap)]
            part = x[:, g * ci:(g + 1) * ci]
            y[(slice(None), slice(g * co, (g + 1) * co), *at)] += np.einsum("nc...,co->no...", part, k)
    return y[(slice(None), slice(None), *(slice(pads[2 * i], full[i] - pads[2 * i + 1]) for i in range(n)))]


def _windows(x, kernel, stride, pads, ceil_mode):
    n = x.ndim - 2
    out = []
    for i in range(n):
        room = x.shape[2 + i] + pads[2 * i] + pads[2 * i + 1] - kernel[i]
        size = room // stride[i] + 1
        if ceil_mode and room % stride[i] and size * stride[i] < x.shape[2 + i] + pads[2 * i]:
            size += 1
        out.append(size)
    for o in itertools.product(*map(range, out)):
        start = [o[i] * stride[i] - pads[2 * i] for i in range(n)]
        yield out, o, [(max(s, 0), min(s + kernel[i], x.shape[2 + i])) for i, s in enumerate(start)], start


def ref_max_pool(x, kernel, stride, pads, ceil_mode=False):
    y = None
    for out, o, cut, _ in _windows(x, kernel, stride, pads, ceil_mode):
        y = np.zeros(x.shape[:2] + tuple(out)) if y is None else y
        part = x[(slice(None), slice(None), *(slice(a, b) for a, b in cut))]
        y[(slice(None), slice(None), *o)] = part.max(tuple(range(2, x.ndim)))
    return y


def ref_avg_pool(x, kernel, stride, pads, ceil_mode=False, exclusive=True, divisor=None):
    y = None
    for out, o, cut, start in _windows(x, kernel, stride, pads, ceil_mode):
        y = np.zeros(x.shape[:2] + tuple(out)) if y is None else y
        part = x[(slice(None), slice(None), *(slice(a, b) for a, b in cut))]
        inside = np.prod([b - a for a, b in cut])
        ends = [x.shape[2 + i] + pads[2 * i + 1] for i in range(len(start))]
        whole = np.prod([min(s + kernel[i], ends[i]) - s for i, s in enumerate(start)])
        d = divisor or (inside if exclusive else whole)
        y[(slice(None), slice(None), *o)] = part.sum(tuple(range(2, x.ndim))) / d
    return y


def ref_adaptive(f, x, size):
    """Adaptive pooling with reduction ``f``."""
    y = np.zeros(x.shape[:2] + tuple(size))
    for o in itertools.product(*map(range, size)):
        cut = tuple(slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(o, x.shape[2:], size))
        part = x[(slice(None), slice(None), *cut)]
        y[(slice(None), slice(None), *o)] = f(part, tuple(range(2, x.ndim)))
    return y


def ref_norm(x, axes, w=None, b=None, eps=1e-5, centre=True):
    """(x - mean) / sqrt(var + eps) over axes, then w, b (already broadcastable)."""
    m = x.mean(axes, keepdims=True) if centre else 0.0
    y = (x - m) / np.sqrt(((x - m) ** 2).mean(axes, keepdims=True) + eps)
    y = y if w is None else y * w
    return y if b is None else y + b


def per_channel(v, x):
    return v.reshape(-1, *[1] * (x.ndim - 2))


def grads(f, *inputs):
    """Gradients of sum(f(*inputs)) as tensors that can be differentiated again, whatever the modes around the call."""
    import yuloh as paddle
    with paddle.enable_grad():
        for x in inputs:
            if x.stop_gradient:
                x.stop_gradient = False
        return paddle.grad(f(*inputs).sum(), list(inputs), create_graph=True)
