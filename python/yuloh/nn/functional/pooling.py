# SPDX-License-Identifier: Apache-2.0
"""Functional room: pools. Windows, strides and padding become explicit numbers; the core records one op."""
from ... import _core
from .conv import (CHANNEL_LAST, DATA_FORMATS, channels_first, channels_last, explicit_padding, same_padding,
                   spatial_shape, to_list)

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
           "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
           "lp_pool1d", "lp_pool2d", "max_pool1d", "max_pool2d", "max_pool3d", "fractional_max_pool2d",
           "fractional_max_pool3d", "max_unpool1d", "max_unpool2d",
           "max_unpool3d"]


def _window(n, name, x, kernel_size, stride, padding, ceil_mode, data_format):
    """(kernel, stride, padding of 2n, ceil_mode) as explicit numbers, ``data_format`` and rank checked."""
    if data_format not in DATA_FORMATS[n]:
        raise ValueError(f"{name}: data_format must be one of {DATA_FORMATS[n]}, got {data_format!r}.")
    if len(x.shape) != n + 2:
        raise ValueError(f"{name}: x must have {n + 2} dimensions, got shape {list(x.shape)}.")
    kernel = to_list(kernel_size, n, f"{name}: kernel_size")
    stride = kernel if stride is None else to_list(stride, n, f"{name}: stride")
    if isinstance(padding, str) and ceil_mode and padding.upper() == "VALID":
        raise ValueError(f"{name}: padding 'VALID' and ceil_mode=True cannot both be given.")
    pads = explicit_padding(padding, n, kernel, stride, [1] * n, data_format, name)
    if pads is None:
        pads = same_padding(spatial_shape(x, data_format), kernel, stride)
    return kernel, stride, pads, bool(ceil_mode)


def _laid_out(op, x, data_format, *arguments):
    """``op`` on channels-first data whatever the layout of ``x``;
    the plan chooses the layout it computes in.
    """
    if data_format in CHANNEL_LAST:
        return channels_last(op(channels_first(x), *arguments))
    return op(x, *arguments)


def _max_pool(n, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format):
    name = f"max_pool{n}d"
    kernel, stride, pads, ceil_mode = _window(n, name, x, kernel_size, stride, padding, ceil_mode,
                                              data_format)
    if return_mask:
        if data_format in CHANNEL_LAST:
            raise ValueError(f"{name}: return_mask needs channels first, got data_format {data_format!r}.")
        return _core.ops.max_pool_with_index(x, kernel, stride, pads, ceil_mode)
    return _laid_out(_core.ops.max_pool, x, data_format, kernel, stride, pads, ceil_mode)


def max_pool1d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, name=None):
    """Maximum over windows of [N, C, L]; with ``return_mask`` also the int32 position of each within its
    plane.
    """
    return _max_pool(1, x, kernel_size, stride, padding, return_mask, ceil_mode, "NCL")


def max_pool2d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format="NCHW",
               name=None):
    """Maximum over windows of [N, C, H, W]; with ``return_mask`` also the int32 position of each in its
    plane.
    """
    return _max_pool(2, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


def max_pool3d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False,
               data_format="NCDHW", name=None):
    """Maximum over windows of [N, C, D, H, W]; with ``return_mask`` also the int32 position of each."""
    return _max_pool(3, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


def _avg_pool(n, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format):
    name = f"avg_pool{n}d"
    kernel, stride, pads, ceil_mode = _window(n, name, x, kernel_size, stride, padding, ceil_mode,
                                              data_format)
    return _laid_out(_core.ops.avg_pool, x, data_format, kernel, stride, pads, ceil_mode, bool(exclusive),
                     divisor_override)


def avg_pool1d(x, kernel_size, stride=None, padding=0, exclusive=True, ceil_mode=False, name=None):
    """Mean over windows of [N, C, L]; ``exclusive`` leaves padding out of the divisor."""
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL")


def avg_pool2d(x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None,
               data_format="NCHW", name=None):
    """Mean over windows of [N, C, H, W]; ``divisor_override`` replaces the number of elements."""
    return _avg_pool(2, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)


def avg_pool3d(x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None,
               data_format="NCDHW", name=None):
    """Mean over windows of [N, C, D, H, W]."""
    return _avg_pool(3, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)


def lp_pool1d(x, norm_type, kernel_size, stride=None, padding=0, ceil_mode=False, data_format="NCL",
              name=None):
    """(sum |x|^p)^(1/p) over windows of [N, C, L]."""
    return _lp_pool(1, x, norm_type, kernel_size, stride, padding, ceil_mode, data_format)


def lp_pool2d(x, norm_type, kernel_size, stride=None, padding=0, ceil_mode=False, data_format="NCHW",
              name=None):
    """(sum |x|^p)^(1/p) over windows of [N, C, H, W]."""
    return _lp_pool(2, x, norm_type, kernel_size, stride, padding, ceil_mode, data_format)


def _lp_pool(n, x, norm_type, kernel_size, stride, padding, ceil_mode, data_format):
    if norm_type == 0:
        raise ValueError(f"lp_pool{n}d: norm_type must not be 0.")
    if norm_type == float("inf"):
        return _max_pool(n, x, kernel_size, stride, padding, False, ceil_mode, data_format)
    # A sum is the mean with a divisor of 1; Paddle raises x itself, so odd powers keep the sign.
    total = _avg_pool(n, x ** norm_type, kernel_size, stride, padding, ceil_mode, False, 1, data_format)
    return total ** (1.0 / norm_type)


def _adaptive(kind, n, x, output_size, data_format, mask=False):
    name = f"adaptive_{kind}_pool{n}d"
    if data_format not in DATA_FORMATS[n]:
        raise ValueError(f"{name}: data_format must be one of {DATA_FORMATS[n]}, got {data_format!r}.")
    if len(x.shape) != n + 2:
        raise ValueError(f"{name}: x must have {n + 2} dimensions, got shape {list(x.shape)}.")
    size = spatial_shape(x, data_format)
    wanted = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * n
    if len(wanted) != n:
        raise ValueError(f"{name}: got output_size {output_size}; expected an int or {n} ints.")
    wanted = [s if w is None else int(w) for w, s in zip(wanted, size)]
    if any(w < 0 for w in wanted):
        raise ValueError(f"{name}: output_size must be at least 0, got {wanted}.")
    if kind == "avg":
        return _laid_out(_core.ops.adaptive_avg_pool, x, data_format, wanted)
    return (_core.ops.adaptive_max_pool_with_index if mask else _core.ops.adaptive_max_pool)(x, wanted)


def adaptive_avg_pool1d(x, output_size, name=None):
    """Mean over ``output_size`` nearly equal parts of [N, C, L]."""
    return _adaptive("avg", 1, x, output_size, "NCL")


def adaptive_avg_pool2d(x, output_size, data_format="NCHW", name=None):
    """Mean over ``output_size`` nearly equal parts of each spatial axis; None keeps an axis as it is."""
    return _adaptive("avg", 2, x, output_size, data_format)


def adaptive_avg_pool3d(x, output_size, data_format="NCDHW", name=None):
    """Mean over ``output_size`` nearly equal parts of each spatial axis; None keeps an axis as it is."""
    return _adaptive("avg", 3, x, output_size, data_format)


def adaptive_max_pool1d(x, output_size, return_mask=False, name=None):
    """Maximum over ``output_size`` nearly equal parts of [N, C, L];
    with ``return_mask`` also the positions.
    """
    return _adaptive("max", 1, x, output_size, "NCL", return_mask)


def adaptive_max_pool2d(x, output_size, return_mask=False, name=None):
    """Maximum over ``output_size`` nearly equal parts of each spatial axis."""
    return _adaptive("max", 2, x, output_size, "NCHW", return_mask)


def adaptive_max_pool3d(x, output_size, return_mask=False, name=None):
    """Maximum over ``output_size`` nearly equal parts of each spatial axis."""
    return _adaptive("max", 3, x, output_size, "NCDHW", return_mask)


def _max_unpool(n, x, indices, kernel_size, stride, padding, data_format, output_size):
    name = f"max_unpool{n}d"
    if data_format != DATA_FORMATS[n][0]:
        raise ValueError(f"{name}: data_format must be {DATA_FORMATS[n][0]!r}, got {data_format!r}.")
    kernel = to_list(kernel_size, n, f"{name}: kernel_size")
    stride = kernel if stride is None else to_list(stride, n, f"{name}: stride")
    pads = to_list(padding, n, f"{name}: padding")
    if output_size is None:
        size = [(s - 1) * st - 2 * p + k for s, st, p, k in zip(list(x.shape)[2:], stride, pads, kernel)]
    else:
        size = [int(v) for v in output_size][-n:]
    return _core.ops.max_unpool(x, indices, size)


def max_unpool1d(x, indices, kernel_size, stride=None, padding=0, data_format="NCL", output_size=None,
                 name=None):
    """Zeros with the values of ``x`` at ``indices`` (positions in the unpooled plane)."""
    return _max_unpool(1, x, indices, kernel_size, stride, padding, data_format, output_size)


def max_unpool2d(x, indices, kernel_size, stride=None, padding=0, data_format="NCHW", output_size=None,
                 name=None):
    """Zeros with the values of ``x`` at ``indices`` (positions in the unpooled plane)."""
    return _max_unpool(2, x, indices, kernel_size, stride, padding, data_format, output_size)


def max_unpool3d(x, indices, kernel_size, stride=None, padding=0, data_format="NCDHW", output_size=None,
                 name=None):
    """Zeros with the values of ``x`` at ``indices`` (positions in the unpooled volume)."""
    return _max_unpool(3, x, indices, kernel_size, stride, padding, data_format, output_size)


# ---- pools whose windows are drawn -------------------------------------------------------------------------
def _fractional_windows(size, out, kernel, u):
    """(begin, end) of each of ``out`` windows along an axis, shifted by the random ``u`` in 0..1."""
    if kernel:
        alpha = (size - kernel) / (out - 1) if out > 1 else 0.0
    else:
        alpha = size / out
        base = size // out
        u *= min((base + 2) / alpha - 1, (size + 1 - base) / alpha - (out - 1))
    first = int(u * alpha)
    begins = [int((i + u) * alpha) - first for i in range(out)]
    if kernel:
        return [(b, b + kernel) for b in begins]
    return [(b, int((i + 1 + u) * alpha) - first) for i, b in enumerate(begins)]


def _fractional(n, x, output_size, kernel_size, random_u, return_mask):
    import itertools

    import yuloh
    name = f"fractional_max_pool{n}d"
    if len(x.shape) != n + 2:
        raise ValueError(f"{name}: x must have {n + 2} dimensions, got shape {list(x.shape)}.")
    sizes = list(x.shape)[2:]
    wanted = output_size if isinstance(output_size, (list, tuple)) else [output_size] * n
    wanted = [s if w is None else int(w) for w, s in zip(wanted, sizes)]
    kernel = [0] * n if kernel_size is None else to_list(kernel_size, n, f"{name}: kernel_size")
    if any(not 1 <= w <= s - max(k - 1, 0) for w, s, k in zip(wanted, sizes, kernel)):
        raise ValueError(f"{name}: output_size {wanted} and kernel {kernel} do not fit the input's sizes "
                         f"{sizes}.")
    u = float(yuloh.uniform([1], min=0.0, max=1.0)) if random_u is None else float(random_u)
    if not 0 < u < 1:
        raise ValueError(f"{name}: random_u must lie between 0 and 1, got {random_u}.")
    windows = [_fractional_windows(s, w, k, u) for s, w, k in zip(sizes, wanted, kernel)]
    strides = [1] * n
    for axis in reversed(range(n - 1)):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    # Positions of every window in the flattened plane; shorter windows repeat their last position.
    longest = [max(e - b for b, e in w) for w in windows]
    table = []
    for window in itertools.product(*windows):
        for offset in itertools.product(*(range(m) for m in longest)):
            table.append(sum(min(b + o, e - 1, s - 1) * stride
                             for (b, e), o, s, stride in zip(window, offset, sizes, strides)))
    count = len(table)
    for w in wanted:
        count //= w
    index = yuloh.to_tensor(table, dtype="int64")
    batch, channels = x.shape[0], x.shape[1]
    flat = yuloh.index_select(x.reshape([batch, channels, -1]), index,
                              2).reshape([batch, channels, -1, count])
    # Picked by position, so that a repeated maximum gets its gradient once.
    place = yuloh.argmax(flat.detach(), axis=-1)
    out = yuloh.take_along_axis(flat, yuloh.unsqueeze(place, -1), -1).reshape([batch, channels, *wanted])
    if not return_mask:
        return out
    row = yuloh.arange(place.shape[2], dtype="int64") * count
    mask = yuloh.index_select(index, (place + row).reshape([-1]), 0).astype("int32")
    return out, mask.reshape([batch, channels, *wanted])


def fractional_max_pool2d(x, output_size, kernel_size=None, random_u=None, return_mask=False, name=None):
    """Maximum over pseudo-random windows of [N, C, H, W] that give ``output_size``."""
    return _fractional(2, x, output_size, kernel_size, random_u, return_mask)


def fractional_max_pool3d(x, output_size, kernel_size=None, random_u=None, return_mask=False, name=None):
    """Maximum over pseudo-random windows of [N, C, D, H, W] that give ``output_size``."""
    return _fractional(3, x, output_size, kernel_size, random_u, return_mask)
