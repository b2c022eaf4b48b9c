# SPDX-License-Identifier: Apache-2.0
"""Functional room: linear maps, dropout and padding, whose arguments come in more shapes than a schema can
say.
"""
from ... import _core

__all__ = ["dropout", "linear", "one_hot", "pad", "silu", "smooth_l1_loss"]

_matmul = _core.ops.matmul
_dropout = _core.ops.dropout


def linear(x, weight, bias=None, name=None):
    """x [..., in] @ weight [in, out] + bias [out]."""
    out = _matmul(x, weight)
    if bias is None:
        return out
    # auto_cast may have made the product half precision; a float32 bias would widen it again.
    return out + (bias if bias.dtype is out.dtype else bias.astype(out.dtype))


def dropout(x, p=0.5, axis=None, training=True, inplace=False, mode="upscale_in_train", name=None):
    """Zeroes elements with probability ``p`` while training; ``axis`` names the axes that get choices of
    their own.

    'upscale_in_train' divides survivors by 1 - p, 'downscale_in_infer' multiplies by 1 - p outside training.
    """
    if isinstance(axis, int):
        axis = [axis]
    return _dropout(x, float(p), axis, training, mode)


def silu(x, inplace=False, name=None):
    """x * sigmoid(x); a new tensor in any case."""
    return _core.ops.silu(x)


def one_hot(x, num_classes=-1, name=None):
    """float32 [..., num_classes] with 1 at each id. With ``num_classes`` -1 the largest id decides, which
    reads ``x``.
    """
    if isinstance(num_classes, _core.Tensor):
        num_classes = int(num_classes)
    if num_classes == -1:
        num_classes = int(x.max()) + 1 if x.size else 0
    return _core.ops.one_hot(x, num_classes)


def smooth_l1_loss(input, label, reduction="mean", delta=1.0, is_huber=True, name=None):
    """0.5 d^2 below ``delta``, delta (|d| - 0.5 delta) above; divided by delta unless ``is_huber``."""
    loss = _core.ops.smooth_l1_loss(input, label, reduction, float(delta))
    return loss if is_huber else loss / float(delta)


_LAYOUTS = {"NCL": 1, "NLC": 1, "NCHW": 2, "NHWC": 2, "NCDHW": 3, "NDHWC": 3}


def _pairs(x, pad, data_format, pad_from_left_axis):
    """(begin, end) for every axis of ``x``.

    2 * rank numbers go through the axes from the first (or the last); otherwise they go through the spatial
    axes from the last.
    """
    rank = len(x.shape)
    if isinstance(pad, _core.Tensor):
        pad = pad.numpy().tolist()
    pad = [int(v) for v in pad]
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise ValueError(f"pad: got {len(pad)} numbers; expected pairs, at most {2 * rank} numbers for "
                         f"{rank} axes.")
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    if len(pairs) == rank:
        return pairs if pad_from_left_axis else pairs[::-1]
    last = data_format in ("NLC", "NHWC", "NDHWC")
    end = rank - 1 if last and rank > 2 else rank
    result = [(0, 0)] * rank
    for offset, pair in enumerate(pairs):
        axis = end - 1 - offset
        if axis < 0:
            raise ValueError(f"pad: got {len(pad)} numbers for data_format {data_format!r} and shape "
                             f"{list(x.shape)}.")
        result[axis] = pair
    return result


def _source(size, begin, end, mode):
    """Positions along an axis of ``size`` that a padded axis takes its elements from."""
    places = range(-begin, size + end)
    if mode == "replicate":
        return [min(max(p, 0), size - 1) for p in places]
    if mode == "circular":
        return [p % size for p in places]
    period = max(2 * (size - 1), 1)
    return [size - 1 - abs(p % period - (size - 1)) for p in places]


def _pad_axis(x, axis, begin, end, mode, value):
    import yuloh
    size = x.shape[axis]
    if begin < 0 or end < 0:
        first, stop = max(-begin, 0), size - max(-end, 0)
        x = yuloh.slice(x, [axis], [first], [max(stop, first)])
        begin, end, size = max(begin, 0), max(end, 0), x.shape[axis]
    if mode == "constant":
        def block(count):
            shape = list(x.shape)
            shape[axis] = count
            return _core.ops.full(shape, float(value), x.dtype)

        parts = ([block(begin)] if begin else []) + [x] + ([block(end)] if end else [])
        return parts[0] if len(parts) == 1 else yuloh.concat(parts, axis=axis)
    if max(begin, end) > 1 << 24:
        raise ValueError(f"pad: the padding is too large, got {begin} and {end} for axis {axis}; expected at most 2**24.")
    limit = size if mode == "circular" else size - 1 if mode == "reflect" else None
    if size == 0 or (limit is not None and max(begin, end) > limit):
        raise ValueError(f"pad: mode {mode!r} can add at most {limit} elements along axis {axis} of size "
                         f"{size}, " f"got {begin} and {end}.")
    return yuloh.index_select(x, yuloh.to_tensor(_source(size, begin, end, mode), dtype="int64"), axis)


def pad(x, pad, mode="constant", value=0.0, data_format=None, pad_from_left_axis=True, name=None):
    """Adds elements at the ends of axes (negative numbers take some away).

    ``pad`` holds (begin, end) for each axis from the first on, or, when shorter, for the spatial axes from
    the last on: (left, right, top, bottom, front, back). Modes: 'constant', 'reflect', 'replicate',
    'circular'.
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise ValueError(f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}.")
    if data_format is not None and data_format not in _LAYOUTS:
        raise ValueError(f"pad: data_format must be one of {list(_LAYOUTS)}, got {data_format!r}.")
    if isinstance(pad, int):
        pad = [pad] * (2 * (len(x.shape) - 2))
    for axis, (begin, end) in enumerate(_pairs(x, pad, data_format, pad_from_left_axis)):
        if begin or end:
            x = _pad_axis(x, axis, begin, end, mode, value)
    return x
