# SPDX-License-Identifier: Apache-2.0
"""Functional room: normalisations. The core's rows give the statistics too; here running statistics are
updated.
"""
import math
import numbers

from ... import _core
from .conv import CHANNEL_LAST, channels_first, channels_last

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize",
           "rms_norm"]

_batch_norm = _core.ops.batch_norm


def _move_by_hand(running_mean, running_var, mean, variance, momentum):
    before = _core.grad_enabled()
    _core.set_grad_enabled(False)
    running_mean._assign(_core.ops.moment_step(running_mean, mean, momentum))
    running_var._assign(_core.ops.moment_step(running_var, variance, momentum))
    _core.set_grad_enabled(before)


_running_stats = getattr(_core.ops, "running_stats_", _move_by_hand)


def normalize_batch(x, running_mean, running_var, weight, bias, momentum, epsilon):
    """Training batch norm of [N, C, ...]: normalises with the batch's statistics and records how they move
    the running ones.
    """
    out, mean, variance = _batch_norm(x, weight, bias, epsilon)
    if x.size:
        _running_stats(running_mean, running_var, mean, variance, momentum)
    return out


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.9,
               epsilon=1e-05, data_format="NCHW", use_global_stats=None, name=None):
    """Normalises each channel over all other axes.

    In training the batch's mean and biased variance are used, and move the running ones: running = momentum *
    running + (1 - momentum) * batch (recorded, not run; an empty batch moves nothing). Otherwise, or with
    ``use_global_stats``, the running ones are used.
    """
    last = data_format in CHANNEL_LAST and len(x.shape) > 2
    if last:
        x = channels_first(x)
    if not training if use_global_stats is None else use_global_stats:
        out = _core.ops.batch_norm_infer(x, running_mean, running_var, weight, bias, epsilon)
    else:
        out = normalize_batch(x, running_mean, running_var, weight, bias, momentum, epsilon)
    return channels_last(out) if last else out


def _begin_axis(x, normalized_shape, what):
    """First of the axes whose sizes are ``normalized_shape``;
    ValueError where ``x`` does not end in these.
    """
    sizes = [normalized_shape] if isinstance(normalized_shape, numbers.Integral) else list(normalized_shape)
    shape = list(x.shape)
    begin = len(shape) - len(sizes)
    if begin < 0 or shape[begin:] != sizes or not sizes:
        raise ValueError(f"{what}: x must end in normalized_shape, got shape {shape}; expected [..., "
                         f"{', '.join(map(str, sizes))}].")
    return begin


def layer_norm(x, normalized_shape, weight=None, bias=None, epsilon=1e-05, name=None):
    """Normalises over the last axes, whose sizes are ``normalized_shape``."""
    begin = _begin_axis(x, normalized_shape, "layer_norm")
    if len(x.shape) - begin > 1:  # the layer keeps vectors; the row wants the shape of the normalised axes
        weight, bias = (t if t is None else t.reshape(x.shape[begin:]) for t in (weight, bias))
    return _core.ops.layer_norm(x, weight, bias, begin, epsilon)[0]


def rms_norm(input, normalized_shape, weight=None, eps=1e-05, name=None):
    """input / sqrt(mean(input^2) + eps) * weight over the last axes."""
    return _core.ops.rms_norm(input, weight, _begin_axis(input, normalized_shape, "rms_norm"), eps)[0]


def group_norm(x, num_groups, epsilon=1e-05, weight=None, bias=None, data_format="NCHW", name=None):
    """Normalises each of ``num_groups`` groups of channels of every sample."""
    last = data_format in CHANNEL_LAST
    if last:
        x = channels_first(x)
    out = _core.ops.group_norm(x, weight, bias, num_groups, epsilon)[0]
    return channels_last(out) if last else out


def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.9, eps=1e-05, data_format="NCHW", name=None):
    """Normalises each channel plane of every sample: as many groups as channels."""
    last = data_format in CHANNEL_LAST and len(x.shape) > 2
    if last:
        x = channels_first(x)
    if not use_input_stats and running_mean is not None:
        out = _core.ops.batch_norm_infer(x, running_mean, running_var, weight, bias, eps)
    else:
        out = _core.ops.group_norm(x, weight, bias, x.shape[1], eps)[0]
    return channels_last(out) if last else out


def normalize(x, p=2, axis=1, epsilon=1e-12, out=None, name=None):
    """x / max(p-norm along ``axis``, epsilon)."""
    import yuloh
    axis = axis if len(x.shape) > 1 else 0
    if p == 2:
        length = yuloh.sqrt(yuloh.sum(x * x, axis=axis, keepdim=True))
    else:
        length = yuloh.sum(yuloh.abs(x) ** p, axis=axis, keepdim=True) ** (1.0 / p)
    return x / yuloh.clip(length, min=epsilon)


def local_response_norm(x, size, alpha=0.0001, beta=0.75, k=1.0, data_format="NCHW", name=None):
    """x / (k + alpha * mean of squares over ``size`` neighbouring channels)^beta."""
    if len(x.shape) < 3:
        raise ValueError("local_response_norm: x must have at least 3 dimensions, "
                         f"got shape {list(x.shape)}.")
    last = data_format in CHANNEL_LAST
    if last:
        x = channels_first(x)
    shape = list(x.shape)
    squares = (x * x).reshape([shape[0], 1, shape[1], math.prod(shape[2:])])
    mean = _core.ops.avg_pool(squares, [size, 1], [1, 1], [size // 2, (size - 1) // 2, 0, 0], False, False,
                              None)
    out = x / (mean.reshape(shape) * alpha + k) ** beta
    return channels_last(out) if last else out
