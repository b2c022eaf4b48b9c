# SPDX-License-Identifier: Apache-2.0
"""Functional room: resizing and patches, written as selections along axes.

Every resize here is separable: along one axis an output element is a weighted sum of a few input elements
(taps). Positions and weights follow from the sizes alone (`interpolate_core`).
"""

from ... import _core

__all__ = ["fold", "interpolate", "unfold", "upsample"]

_SPATIAL = {
    "nearest": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
    "area": (1, 2, 3),
}


def _select(x, index, axis):
    import yuloh

    return yuloh.index_select(x, yuloh.to_tensor(index, dtype="int64"), axis)


def _sizes(x, spatial, size, scale_factor):
    """(output size, scale or None) of each spatial axis."""

    def numbers(value, what):
        if isinstance(value, _core.Tensor):
            value = value.numpy().reshape(-1).tolist()
        if isinstance(value, (list, tuple)):
            value = [v.item() if isinstance(v, _core.Tensor) else v for v in value]
            if len(value) != len(spatial):
                raise ValueError(f"interpolate: {what} has {len(value)} numbers; expected {len(spatial)}.")
            return value
        return [value] * len(spatial)

    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: exactly one of size and scale_factor must be given.")
    if size is not None:
        return [(int(n), None) for n in numbers(size, "size")]
    result = []
    for axis, scale in zip(spatial, numbers(scale_factor, "scale_factor")):
        if scale <= 0:
            raise ValueError(f"interpolate: scale_factor must be positive, got {scale}.")
        result.append((int(x.shape[axis] * scale), float(scale)))
    return result


def interpolate(
    x,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=False,
    align_mode=0,
    data_format=None,
    recompute_scale_factor=None,
    antialias=False,
    name=None,
):
    """Resizes the spatial axes of [N, C, ...] (or channels last) to ``size`` or by ``scale_factor``.

    Modes: 'nearest', 'area', 'linear' (3-D), 'bilinear' and 'bicubic' (4-D), 'trilinear' (5-D).
    ``align_mode`` 1 takes corners instead of centres as the origin of source coordinates.
    """
    mode = mode.lower()
    n = len(x.shape) - 2
    if mode not in _SPATIAL or n not in _SPATIAL[mode]:
        raise ValueError(
            f"interpolate: mode {mode!r} does not fit a tensor of {len(x.shape)} dimensions; "
            "the modes are "
            f"{list(_SPATIAL)}."
        )
    if align_corners and mode in ("nearest", "area"):
        raise ValueError(f"interpolate: align_corners needs a linear or cubic mode, got {mode!r}.")
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not there yet.")
    last = data_format in ("NLC", "NWC", "NHWC", "NDHWC")
    spatial = list(range(1, 1 + n)) if last else list(range(2, 2 + n))
    sizes = _sizes(x, spatial, size, scale_factor)
    if any(out < 1 for out, _ in sizes):
        raise ValueError(f"interpolate: the output would be empty, got sizes {[out for out, _ in sizes]}.")
    if mode == "area":
        from . import pooling

        pool = (pooling.adaptive_avg_pool1d, pooling.adaptive_avg_pool2d, pooling.adaptive_avg_pool3d)[n - 1]
        return pool(x, [out for out, _ in sizes])
    scales = [0.0 if recompute_scale_factor or scale is None else scale for _, scale in sizes]
    return _core.ops.interpolate_core(x, spatial, [out for out, _ in sizes], scales, mode, align_corners, align_mode)


def upsample(
    x,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=False,
    align_mode=0,
    data_format=None,
    name=None,
):
    """``interpolate`` under its old name."""
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format)


# ---- patches -----------------------------------------------------------------------------------------------
def _two(value, what):
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise ValueError(f"{what}: got {list(value)}; expected an int or 2 ints.")
        return [int(v) for v in value]
    return [int(value)] * 2


def _patch_index(size, kernel, stride, dilation, what):
    """(flat positions of every kernel element of every patch, patches down, patches across) in a padded
    plane.
    """
    counts = [(s - d * (k - 1) - 1) // st + 1 for s, k, st, d in zip(size, kernel, stride, dilation)]
    if min(counts) < 1:
        raise ValueError(
            f"{what}: the kernel {kernel} with dilation {dilation} does not fit the padded plane {size}."
        )
    index = [
        (py * stride[0] + ky * dilation[0]) * size[1] + px * stride[1] + kx * dilation[1]
        for ky in range(kernel[0])
        for kx in range(kernel[1])
        for py in range(counts[0])
        for px in range(counts[1])
    ]
    return index, counts[0], counts[1]


def _four(paddings, what):
    """(left, right, top, bottom) from an int, (height, width) or (top, left, bottom, right)."""
    if isinstance(paddings, (list, tuple)) and len(paddings) == 4:
        top, left, bottom, right = (int(v) for v in paddings)
        return [left, right, top, bottom]
    height, width = _two(paddings, what)
    return [width, width, height, height]


def unfold(x, kernel_sizes, strides=1, paddings=0, dilations=1, name=None):
    """Patches of [N, C, H, W] as columns: [N, C * kh * kw, number of patches]."""
    from .common import pad

    if len(x.shape) != 4:
        raise ValueError(f"unfold: x must have 4 dimensions, got shape {list(x.shape)}.")
    kernel, stride, dilation = (_two(v, "unfold") for v in (kernel_sizes, strides, dilations))
    x = pad(x, _four(paddings, "unfold: paddings"), data_format="NCHW")
    n, c, h, w = x.shape
    index, down, across = _patch_index([h, w], kernel, stride, dilation, "unfold")
    columns = _select(x.reshape([n, c, h * w]), index, 2)
    return columns.reshape([n, c * kernel[0] * kernel[1], down * across])


def fold(x, output_sizes, kernel_sizes, strides=1, paddings=0, dilations=1, name=None):
    """Adds columns [N, C * kh * kw, patches] up to [N, C, *output_sizes], the reverse walk of ``unfold``."""
    import yuloh

    if len(x.shape) != 3:
        raise ValueError(f"fold: x must have 3 dimensions, got shape {list(x.shape)}.")
    size = _two(output_sizes, "fold: output_sizes")
    kernel, stride, dilation = (_two(v, "fold") for v in (kernel_sizes, strides, dilations))
    left, right, top, bottom = _four(paddings, "fold: paddings")
    h, w = size[0] + top + bottom, size[1] + left + right
    index, down, across = _patch_index([h, w], kernel, stride, dilation, "fold")
    n, rows, patches = x.shape
    channels = rows // (kernel[0] * kernel[1])
    if rows % (kernel[0] * kernel[1]) or patches != down * across:
        raise ValueError(
            f"fold: x has shape {[n, rows, patches]}; expected [N, multiple of "
            f"{kernel[0] * kernel[1]}, "
            f"{down * across}]."
        )
    flat = x.reshape([n, channels, len(index)])
    plane = _core.ops.index_axis_grad(flat, yuloh.to_tensor(index, dtype="int64"), [n, channels, h * w], 2)
    plane = plane.reshape([n, channels, h, w])
    if top or bottom or left or right:
        plane = yuloh.slice(plane, [2, 3], [top, left], [top + size[0], left + size[1]])
    return plane
