# SPDX-License-Identifier: Apache-2.0
"""paddle.vision.transforms.functional: one image in, one image of the same kind out.

Images are PIL images, NumPy arrays (HWC) or Tensors (CHW). All array work is NumPy: this is data preparation.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
from typing import Any, Sequence

import numpy as np

from ... import linalg
from ...tensor import to_tensor
from ...io import _runtime
from ..image import pillow
from ._kinds import by_pil, channels_of, host, kind, on_planes, resample_matrix, size_of

__all__ = [
    "to_tensor",
    "hflip",
    "vflip",
    "resize",
    "pad",
    "affine",
    "rotate",
    "perspective",
    "to_grayscale",
    "crop",
    "center_crop",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "normalize",
    "erase",
]

_GREY = np.array([0.2989, 0.587, 0.114], np.float32)
_SAMPLERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}


def _sampler(interpolation: Any, op: str) -> Any:
    if isinstance(interpolation, str) and interpolation in _SAMPLERS:
        return pillow().Resampling(_SAMPLERS[interpolation])
    if isinstance(interpolation, int):
        return interpolation
    raise ValueError(f"{op}: interpolation is {interpolation!r}; expected one of {list(_SAMPLERS)}.")


def to_tensor(pic: Any, data_format: str = "CHW") -> Any:
    """A Tensor from an image: 8-bit values are scaled to 0..1 as float32; layout CHW or HWC."""
    return _runtime.finish_tensor(to_host(pic, data_format))


def to_host(pic: Any, data_format: str = "CHW") -> np.ndarray:
    """What to_tensor holds, as a NumPy array."""
    _check_format(data_format, "to_tensor")
    what = kind(pic, "to_tensor")
    if what == "tensor":
        array = host(pic)
        array = array if data_format == "CHW" else array.transpose(1, 2, 0)
    else:
        array = _pil_array(pic) if what == "pil" else pic
        if array.ndim == 2:
            array = array[:, :, None]
        array = array.transpose(2, 0, 1) if data_format == "CHW" else array
    if array.dtype == np.uint8:
        out = np.empty(array.shape, np.float32)
        return np.divide(array, np.float32(255), out=out)
    return np.ascontiguousarray(array)


def _pil_array(image: Any) -> np.ndarray:
    if image.mode == "1":
        return np.asarray(image, np.uint8) * np.uint8(255)
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.int16)
    return np.asarray(image)


def _check_format(data_format: str, op: str) -> None:
    if data_format not in ("CHW", "HWC"):
        raise ValueError(f"{op}: data_format is {data_format!r}; expected 'CHW' or 'HWC'.")


def hflip(img: Any) -> Any:
    """Mirror left and right."""
    if kind(img, "hflip") == "pil":
        return img.transpose(pillow().Transpose.FLIP_LEFT_RIGHT)
    return on_planes(img, "hflip", lambda a: a[..., ::-1])


def vflip(img: Any) -> Any:
    """Mirror top and bottom."""
    if kind(img, "vflip") == "pil":
        return img.transpose(pillow().Transpose.FLIP_TOP_BOTTOM)
    return on_planes(img, "vflip", lambda a: a[..., ::-1, :])


def resize(img: Any, size: Any, interpolation: str = "bilinear") -> Any:
    """Resize to (height, width); an int is the length of the shorter side.

    PIL images are resampled by Pillow (which smooths when it shrinks); arrays and Tensors with half-pixel
    centres and no smoothing, as OpenCV and ``interpolate`` do.
    """
    if not (isinstance(size, int) or (isinstance(size, (list, tuple)) and len(size) == 2)):
        raise TypeError(f"resize: size is {size!r}; expected an int or (height, width).")
    width, height = size_of(img, "resize")
    new_h, new_w = resized(height, width, size)
    if isinstance(size, int) and min(width, height) == size:
        return img
    if kind(img, "resize") == "pil":
        return img.resize((new_w, new_h), _sampler(interpolation, "resize"))
    if interpolation not in ("nearest", "bilinear", "bicubic"):
        sampler = _sampler(interpolation, "resize")
        return by_pil(img, "resize", lambda p: p.resize((new_w, new_h), sampler))
    rows = resample_matrix(height, new_h, interpolation)
    columns = resample_matrix(width, new_w, interpolation)

    def work(array: np.ndarray) -> np.ndarray:
        out = rows @ array.astype(np.float32) @ columns.T
        return _like(out, array)

    return on_planes(img, "resize", work)


def resized(height: int, width: int, size: Any) -> tuple:
    """(height, width) after resize(size)."""
    if not isinstance(size, int):
        return int(size[0]), int(size[1])
    if min(width, height) == size:
        return height, width
    if width <= height:
        return int(size * height / width), size
    return size, int(size * width / height)


def _like(values: np.ndarray, array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint8:
        return np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return values.astype(array.dtype)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Add a border. padding: int, (left-right, top-bottom) or (left, top, right, bottom)."""
    left, top, right, bottom = four_sides(padding)
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(
            f"pad: padding_mode is {padding_mode!r}; expected 'constant', 'edge', 'reflect' or 'symmetric'."
        )
    if kind(img, "pad") != "pil":
        return on_planes(img, "pad", lambda a: _pad_planes(a, (left, top, right, bottom), fill, padding_mode))
    if padding_mode == "constant":
        from PIL import ImageOps

        return ImageOps.expand(img, border=(left, top, right, bottom), fill=fill)
    array = np.asarray(img)
    widths = ((top, bottom), (left, right), (0, 0))[: array.ndim]
    done = pillow().fromarray(np.pad(array, widths, mode=padding_mode))
    if img.mode == "P":
        done.putpalette(img.getpalette())
    return done


def four_sides(padding: Any) -> tuple:
    if isinstance(padding, numbers.Number):
        return (int(padding),) * 4
    if isinstance(padding, (list, tuple)) and len(padding) in (2, 4):
        return tuple(padding) if len(padding) == 4 else (*padding, *padding)
    raise ValueError(f"pad: padding is {padding!r}; expected an int or a tuple of 2 or 4 ints.")


def _pad_planes(array: np.ndarray, sides: tuple, fill: Any, mode: str) -> np.ndarray:
    left, top, right, bottom = sides
    widths = [(0, 0)] * (array.ndim - 2) + [(top, bottom), (left, right)]
    if mode != "constant":
        return np.pad(array, widths, mode=mode)
    if isinstance(fill, numbers.Number):
        return np.pad(array, widths, mode="constant", constant_values=fill)
    out = np.pad(array, widths, mode="constant")
    if array.ndim == 2:
        raise ValueError(f"pad: fill is {fill!r} for an image of one channel; expected a number.")
    inside = np.zeros(out.shape[-2:], bool)
    inside[top : top + array.shape[-2], left : left + array.shape[-1]] = True
    for channel, value in enumerate(fill):
        out[channel][~inside] = value
    return out


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The rectangle whose upper left corner is (top, left); what lies outside the image is 0."""
    if kind(img, "crop") == "pil":
        return img.crop((left, top, left + width, top + height))
    image_w, image_h = size_of(img, "crop")
    sides = (max(0, -left), max(0, -top), max(0, left + width - image_w), max(0, top + height - image_h))

    def work(array: np.ndarray) -> np.ndarray:
        if any(sides):
            array = _pad_planes(array, sides, 0, "constant")
        y, x = top + sides[1], left + sides[0]
        return array[..., y : y + height, x : x + width]

    return on_planes(img, "crop", work)


def center_crop(img: Any, output_size: Any) -> Any:
    """The rectangle of output_size (int or (height, width)) in the middle."""
    if isinstance(output_size, numbers.Number):
        output_size = (int(output_size), int(output_size))
    height, width = output_size
    image_w, image_h = size_of(img, "center_crop")
    return crop(img, *centred(image_h, image_w, height, width), height, width)


def centred(image_h: int, image_w: int, height: int, width: int) -> tuple:
    """(top, left) of the middle rectangle."""
    return int(round((image_h - height) / 2.0)), int(round((image_w - width) / 2.0))


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Luma 0.2989 R + 0.587 G + 0.114 B, in one or three equal channels."""
    if num_output_channels not in (1, 3):
        raise ValueError(f"to_grayscale: num_output_channels is {num_output_channels}; expected 1 or 3.")
    if kind(img, "to_grayscale") == "pil":
        grey = img.convert("L")
        return grey if num_output_channels == 1 else pillow().merge("RGB", (grey, grey, grey))
    if kind(img, "to_grayscale") == "array" and img.ndim == 2:
        img = img[:, :, None]
    return on_planes(img, "to_grayscale", lambda a: np.repeat(_grey_planes(a), num_output_channels, axis=-3))


def _grey_planes(array: np.ndarray) -> np.ndarray:
    if array.shape[-3] == 1:
        return array
    if array.shape[-3] != 3:
        raise ValueError(
            f"to grey: got {array.shape[-3]} channels; expected 1 or 3 (HWC array or CHW Tensor)."
        )
    grey = np.tensordot(_GREY, array.astype(np.float32), axes=([0], [array.ndim - 3]))
    return _like(np.expand_dims(grey, -3), array)


def _enhance(name: str, img: Any, factor: float) -> Any:
    from PIL import ImageEnhance

    return getattr(ImageEnhance, name)(img).enhance(factor)


def _blend(a: np.ndarray, b: Any, factor: float) -> np.ndarray:
    top = 255.0 if a.dtype == np.uint8 else 1.0
    mixed = np.clip(factor * a.astype(np.float32) + (1 - factor) * b, 0, top)
    return mixed.astype(a.dtype)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 gives black, 1 the image, 2 twice as bright. Float images range over 0..1."""
    if kind(img, "adjust_brightness") == "pil":
        return _enhance("Brightness", img, brightness_factor)
    return on_planes(img, "adjust_brightness", lambda a: _blend(a, 0.0, brightness_factor))


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 gives solid grey, 1 the image."""
    if kind(img, "adjust_contrast") == "pil":
        return _enhance("Contrast", img, contrast_factor)

    def work(array: np.ndarray) -> np.ndarray:
        grey = _grey_planes(array) if array.ndim > 2 else array
        mean = grey.astype(np.float32).mean()
        return _blend(array, np.rint(mean) if array.dtype == np.uint8 else mean, contrast_factor)

    return on_planes(img, "adjust_contrast", work)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 gives a grey image, 1 the image."""
    if kind(img, "adjust_saturation") == "pil":
        return _enhance("Color", img, saturation_factor)

    def work(array: np.ndarray) -> np.ndarray:
        if array.ndim < 3 or array.shape[-3] == 1:
            return array
        return _blend(array, _grey_planes(array).astype(np.float32), saturation_factor)

    return on_planes(img, "adjust_saturation", work)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Turn the hue by hue_factor (-0.5 to 0.5) of the circle."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"adjust_hue: hue_factor is {hue_factor}; expected -0.5 to 0.5.")
    if kind(img, "adjust_hue") == "pil":
        mode = img.mode
        if mode in ("L", "1", "I", "F"):
            return img
        hue, saturation, value = img.convert("HSV").split()
        turned = (np.asarray(hue).astype(np.int16) + int(hue_factor * 255)) % 256
        hue = pillow().fromarray(turned.astype(np.uint8), "L")
        return pillow().merge("HSV", (hue, saturation, value)).convert(mode)
    return on_planes(img, "adjust_hue", lambda a: _turn_hue(a, hue_factor))


def _turn_hue(array: np.ndarray, factor: float) -> np.ndarray:
    if array.ndim < 3 or array.shape[-3] == 1:
        return array
    if array.shape[-3] != 3:
        raise ValueError(f"adjust_hue: got {array.shape[-3]} channels; expected 1 or 3.")
    top = 255.0 if array.dtype == np.uint8 else 1.0
    red, green, blue = np.moveaxis(array.astype(np.float32) / top, -3, 0)
    high, low = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    span = np.where(high == low, 1.0, high - low)
    hue = np.where(high == red, (green - blue) / span % 6, 0.0)
    hue = np.where((high == green) & (high != red), (blue - red) / span + 2, hue)
    hue = np.where((high == blue) & (high != red) & (high != green), (red - green) / span + 4, hue)
    hue = (hue / 6 + factor) % 1.0 * 6
    chroma = high - low

    def channel(n: int) -> np.ndarray:
        k = (n + hue) % 6
        return high - chroma * np.clip(np.minimum(k, 4 - k), 0, 1)

    turned = np.stack([channel(5), channel(3), channel(1)], axis=-3) * top
    return _like(turned, array)


# One byte that all forked data workers share: whoever takes it says it, once for all of them.
_unsaid, _put = os.pipe()
os.set_blocking(_unsaid, False)
os.write(_put, b".")


def normalize(img: Any, mean: Any, std: Any, data_format: str = "CHW", to_rgb: bool = False) -> Any:
    """(img - mean) / std per channel, float32. Arrays and PIL images give an array, Tensors a Tensor.

    An image in HWC order with data_format "CHW" (which cannot be subtracted as it is) is first taken
    to a scaled CHW Tensor as to_tensor does; this is said once on stderr.
    """
    _check_format(data_format, "normalize")
    mean = np.asarray(mean, np.float32).reshape(-1)
    std = np.asarray(std, np.float32).reshape(-1)
    if (std == 0).any():
        raise ValueError(f"normalize: std is {std.tolist()}; expected no zero.")
    what = kind(img, "normalize")
    shape = (-1, 1, 1) if data_format == "CHW" else (1, 1, -1)
    if what == "tensor":
        array = host(img)
        return _runtime.finish_tensor(_scale(array, mean.reshape(shape), std.reshape(shape)))
    array = np.asarray(img)
    if data_format == "CHW" and array.ndim == 3 and len(mean) > 1 and array.shape[0] != len(mean):
        if array.shape[2] == len(mean):
            say_scaled(mean)
            return _runtime.finish_tensor(_scaled_chw(array, mean, std))
    if to_rgb and array.ndim == 3:
        array = array[::-1] if data_format == "CHW" else array[..., ::-1]
    try:
        return _scale(array, mean.reshape(shape), std.reshape(shape))
    except ValueError as e:
        raise ValueError(
            f"normalize: an image of shape {array.shape} and {len(mean)} mean values do not fit, with "
            f"data_format {data_format!r}; expected one value per channel."
        ) from e


def _scale(array: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    out = np.subtract(array, mean, dtype=np.float32)
    return np.divide(out, std, out=out)


def _scaled_chw(array: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """normalize(to_tensor(array)), with to_tensor's rounding."""
    out = to_host(array)
    shape = (-1, 1, 1)
    if out.dtype != np.float32 or out is array or out.base is array:
        return _scale(out, mean.reshape(shape), std.reshape(shape))
    out -= mean.reshape(shape)
    out /= std.reshape(shape)
    return out


def say_scaled(mean: np.ndarray) -> None:
    try:
        os.read(_unsaid, 1)
    except BlockingIOError:
        return
    extra = ""
    if mean.max() > 1:
        extra = " mean is above 1, which suits values 0 to 255: then use data_format='HWC' instead."
    print(
        "yuloh: Normalize(data_format='CHW') was given an image in HWC order; it is first taken to a float32 "
        f"CHW Tensor scaled to 0..1, as ToTensor does (said once).{extra}",
        file=sys.stderr,
    )


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """The image with rows i..i+h and columns j..j+w set to v (a number, or an array or Tensor that fits)."""
    what = kind(img, "erase")
    value = v.numpy() if hasattr(v, "numpy") else v
    if what == "pil":
        array = np.array(img)
        if array.ndim == 2 and np.ndim(value) == 3:
            value = np.asarray(value)[..., 0]
        array[i : i + h, j : j + w] = np.asarray(value).astype(array.dtype)
        return pillow().fromarray(array)
    if what == "tensor":
        if inplace and not isinstance(img, np.ndarray):
            img[..., i : i + h, j : j + w] = v
            return img
        array = host(img) if inplace else host(img).copy()
        array[..., i : i + h, j : j + w] = value
        return img if inplace else _runtime.finish_tensor(array)
    array = img if inplace else img.copy()
    array[i : i + h, j : j + w] = value
    return array


def _fill_for(img: Any, fill: Any) -> Any:
    """One fill value per band where Pillow wants it."""
    if kind(img, "fill") != "pil":
        return fill if isinstance(fill, numbers.Number) else fill[0]
    bands = len(img.getbands())
    if isinstance(fill, numbers.Number):
        return fill if bands == 1 else (fill,) * bands
    return fill[0] if bands == 1 else tuple(fill)


def rotate(
    img: Any,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: "Sequence[float] | None" = None,
    fill: Any = 0,
) -> Any:
    """Turn by `angle` degrees, counter-clockwise, about `center` (x, y; default the middle)."""
    sampler, color = _sampler(interpolation, "rotate"), _fill_for(img, fill)
    return by_pil(img, "rotate", lambda p: p.rotate(angle, sampler, expand, center, fillcolor=color))


def affine_matrix(center: Sequence, angle: float, translate: Sequence, scale: float, shear: Sequence) -> list:
    """Six coefficients that map output pixels back to input pixels: the inverse of
    move-to-centre, shift, rotate, shear, scale."""
    rot = math.radians(angle)
    sx, sy = (math.radians(s) for s in shear)
    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    inverse = [v / scale for v in (d, -b, 0.0, -c, a, 0.0)]
    dx, dy = -center[0] - translate[0], -center[1] - translate[1]
    inverse[2] = inverse[0] * dx + inverse[1] * dy + center[0]
    inverse[5] = inverse[3] * dx + inverse[4] * dy + center[1]
    return inverse


def affine(
    img: Any,
    angle: float,
    translate: Sequence,
    scale: float,
    shear: Any,
    interpolation: str = "nearest",
    fill: Any = 0,
    center: "Sequence[float] | None" = None,
) -> Any:
    """Rotate by angle and shear by degrees, scale and shift by pixels, about `center`."""
    if scale <= 0:
        raise ValueError(f"affine: scale is {scale}; expected > 0.")
    if len(translate) != 2:
        raise ValueError(f"affine: translate is {translate!r}; expected two values.")
    shear = (shear, 0.0) if isinstance(shear, numbers.Number) else tuple(shear)
    if len(shear) == 1:
        shear = (shear[0], shear[0])
    width, height = size_of(img, "affine")
    if center is None:
        center = (width * 0.5, height * 0.5)
    matrix = affine_matrix(center, angle, translate, scale, shear)
    sampler, color = _sampler(interpolation, "affine"), _fill_for(img, fill)
    how = pillow().Transform.AFFINE

    return by_pil(
        img, "affine", lambda p: p.transform((width, height), how, matrix, sampler, fillcolor=color)
    )


def perspective(
    img: Any, startpoints: Sequence, endpoints: Sequence, interpolation: str = "nearest", fill: Any = 0
) -> Any:
    """Warp so that the four `startpoints` (x, y) come to lie on `endpoints`."""
    rows, values = [], []
    for (x, y), (u, v) in zip(endpoints, startpoints):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    # Solved by the core: NumPy's OpenBLAS gives wrong numbers on some processors.
    system, right = to_tensor(np.array(rows, float)), to_tensor(np.array(values, float).reshape(8, 1))
    coefficients = linalg.solve(system, right).numpy().ravel().tolist()
    sampler, color = _sampler(interpolation, "perspective"), _fill_for(img, fill)
    how = pillow().Transform.PERSPECTIVE
    size = size_of(img, "perspective")
    return by_pil(
        img, "perspective", lambda p: p.transform(size, how, coefficients, sampler, fillcolor=color)
    )


def get_channels(img: Any) -> int:
    """Number of channels of an image of any kind."""
    return channels_of(img, "get_channels")
