# SPDX-License-Identifier: Apache-2.0
"""Functional room: convolutions. Turns Paddle's ways of saying padding into begin/end numbers, then records
one op.
"""
from ... import _core

__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"]

DATA_FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
CHANNEL_LAST = ("NLC", "NHWC", "NDHWC")


def to_list(value, n, what):
    """``n`` ints from an int, or from a list of ``n`` (one is repeated)."""
    if isinstance(value, (list, tuple)):
        values = [int(v) for v in value]
        if len(values) == 1:
            values *= n
        if len(values) != n:
            raise ValueError(f"{what}: got {list(value)}; expected an int or {n} ints.")
    else:
        values = [int(value)] * n
    return values


def spatial_shape(x, data_format):
    """Sizes of the spatial axes of ``x``."""
    shape = list(x.shape)
    return shape[1:-1] if data_format in CHANNEL_LAST else shape[2:]


def explicit_padding(padding, n, kernel, stride, dilation, data_format, what):
    """2n numbers (begin, end per spatial axis), or None for 'SAME', which depends on the input's size.

    ``padding`` is an int, n ints, 2n ints, n + 2 pairs with those of batch and channel 0, 'VALID' or 'SAME'.
    """
    if isinstance(padding, str):
        word = padding.upper()
        if word == "VALID":
            return [0] * (2 * n)
        if word == "SAME":
            return None
        raise ValueError(f"{what}: padding as a word must be 'SAME' or 'VALID', got {padding!r}.")
    if isinstance(padding, (list, tuple)):
        values = list(padding)
        if values and isinstance(values[0], (list, tuple)):
            if len(values) == n + 2:
                ends = (values[0], values[-1]) if data_format in CHANNEL_LAST else values[:2]
                if any(tuple(pair) != (0, 0) for pair in ends):
                    raise ValueError(f"{what}: padding of batch and channel must be 0, got {values}.")
                values = values[1:-1] if data_format in CHANNEL_LAST else values[2:]
            if len(values) != n or any(len(pair) != 2 for pair in values):
                raise ValueError(f"{what}: got padding {padding}; expected {n + 2} pairs.")
            return [int(v) for pair in values for v in pair]
        values = [int(v) for v in values]
        if len(values) == 1:
            values *= n
        if len(values) == n:
            return [v for v in values for _ in range(2)]
        if len(values) == 2 * n:
            return values
        raise ValueError(f"{what}: got padding {list(padding)}; expected an int, {n} or {2 * n} ints, or a "
                         "word.")
    return [int(padding)] * (2 * n)


def same_padding(size, kernel, stride):
    """Begin/end numbers such that the output has ceil(size / stride) elements;
    the odd one goes to the end.
    """
    result = []
    for length, window, step in zip(size, kernel, stride):
        total = max((-(-length // step) - 1) * step + window - length, 0)
        result += [total // 2, total - total // 2]
    return result


def channels_first(x):
    """[N, spatial..., C] -> [N, C, spatial...]."""
    rank = len(x.shape)
    return x.transpose([0, rank - 1, *range(1, rank - 1)])


def channels_last(x):
    """[N, C, spatial...] -> [N, spatial..., C]."""
    return x.transpose([0, *range(2, len(x.shape)), 1])


def _with_bias(out, bias):
    """Adds ``bias`` [C] to [N, C, spatial...]; the plan makes it part of the convolution."""
    return out if bias is None else _core.ops.channel_bias(out, bias)


def conv_nd(n, x, weight, bias, stride, padding, dilation, groups, data_format):
    """Records the n-dimensional convolution; ``padding`` None means 'SAME' (then dilation counts as 1, as in
    Paddle).
    """
    if padding is None:
        dilation = [1] * n
        padding = same_padding(spatial_shape(x, data_format), weight.shape[2:], stride)
    if data_format in CHANNEL_LAST:
        out = _core.ops.conv(channels_first(x), weight, stride, padding, dilation, groups)
        return channels_last(_with_bias(out, bias))
    out = _core.ops.conv(x, weight, stride, padding, dilation, groups)
    return _with_bias(out, bias)


def _conv(n, x, weight, bias, stride, padding, dilation, groups, data_format):
    name = f"conv{n}d"
    if data_format not in DATA_FORMATS[n]:
        raise ValueError(f"{name}: data_format must be one of {DATA_FORMATS[n]}, got {data_format!r}.")
    stride = to_list(stride, n, f"{name}: stride")
    dilation = to_list(dilation, n, f"{name}: dilation")
    if len(x.shape) != n + 2:
        raise ValueError(f"{name}: x must have {n + 2} dimensions, got shape {list(x.shape)}.")
    padding = explicit_padding(padding, n, None, stride, dilation, data_format, name)
    return conv_nd(n, x, weight, bias, stride, padding, dilation, groups, data_format)


def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCL", name=None):
    """Convolution of [N, C, L] with weight [out, C / groups, k]."""
    return _conv(1, x, weight, bias, stride, padding, dilation, groups, data_format)


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCHW", name=None):
    """Convolution of [N, C, H, W] with weight [out, C / groups, kh, kw]."""
    return _conv(2, x, weight, bias, stride, padding, dilation, groups, data_format)


def conv3d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCDHW", name=None):
    """Convolution of [N, C, D, H, W] with weight [out, C / groups, kd, kh, kw]."""
    return _conv(3, x, weight, bias, stride, padding, dilation, groups, data_format)


def _conv_transpose(n, x, weight, bias, stride, padding, output_padding, groups, dilation, output_size,
                    data_format):
    name = f"conv{n}d_transpose"
    if data_format not in DATA_FORMATS[n]:
        raise ValueError(f"{name}: data_format must be one of {DATA_FORMATS[n]}, got {data_format!r}.")
    stride = to_list(stride, n, f"{name}: stride")
    dilation = to_list(dilation, n, f"{name}: dilation")
    kernel = list(weight.shape)[2:]
    size = spatial_shape(x, data_format)
    pads = explicit_padding(padding, n, kernel, stride, dilation, data_format, name)
    if pads is None:
        pads = same_padding(size, kernel, stride)
    extra = to_list(output_padding, n, f"{name}: output_padding")
    if output_size is not None:
        if any(extra):
            raise ValueError(f"{name}: output_padding and output_size cannot both be given.")
        wanted = to_list(output_size, n, f"{name}: output_size")
        smallest = [(s - 1) * st - pads[2 * i] - pads[2 * i + 1] + d * (k - 1) + 1
                    for i, (s, st, d, k) in enumerate(zip(size, stride, dilation, kernel))]
        extra = [w - s for w, s in zip(wanted, smallest)]
        if any(not 0 <= e < st for e, st in zip(extra, stride)):
            raise ValueError(f"{name}: output_size does not fit, got {wanted}; expected from {smallest} up "
                             "to less " f"than a stride {stride} more.")
    last = data_format in CHANNEL_LAST
    out = _core.ops.conv_transpose(channels_first(x) if last else x, weight, stride, pads, extra, dilation,
                                   groups)
    out = _with_bias(out, bias)
    return channels_last(out) if last else out


def conv1d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1,
                     output_size=None, data_format="NCL", name=None):
    """Transposed convolution of [N, C, L] with weight [C, out / groups, k]."""
    return _conv_transpose(1, x, weight, bias, stride, padding, output_padding, groups, dilation, output_size,
                           data_format)


def conv2d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1,
                     output_size=None, data_format="NCHW", name=None):
    """Transposed convolution of [N, C, H, W] with weight [C, out / groups, kh, kw]."""
    return _conv_transpose(2, x, weight, bias, stride, padding, output_padding, groups, dilation, output_size,
                           data_format)


def conv3d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1,
                     output_size=None, data_format="NCDHW", name=None):
    """Transposed convolution of [N, C, D, H, W] with weight [C, out / groups, kd, kh, kw]."""
    return _conv_transpose(3, x, weight, bias, stride, padding, output_padding, groups, dilation, output_size,
                           data_format)
