# SPDX-License-Identifier: Apache-2.0
"""The three kinds of image that transforms take, and how to do one piece of array work on each.

PIL images; NumPy arrays (HWC or HW); Tensors (CHW). A HostTensor (see io._runtime) counts as a Tensor.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from ...io import _runtime
from ..image import is_pil, pillow

HostTensor = _runtime.HostTensor


def kind(image: Any, op: str) -> str:
    """'pil', 'array' or 'tensor'. Raises TypeError naming `op` for anything else."""
    if isinstance(image, HostTensor):
        return "tensor"
    if isinstance(image, np.ndarray):
        if image.ndim in (2, 3):
            return "array"
        raise ValueError(f"{op}: got an array of shape {image.shape}; expected [H, W] or [H, W, C].")
    if is_pil(image):
        return "pil"
    if _runtime.is_tensor(image):
        return "tensor"
    raise TypeError(
        f"{op}: got an image of type {type(image).__name__}; expected PIL.Image, numpy.ndarray or Tensor."
    )


def host(tensor: Any) -> np.ndarray:
    """A Tensor's values as an array, still CHW."""
    return tensor.numpy()


def on_planes(image: Any, op: str, work: Callable[[np.ndarray], np.ndarray]) -> Any:
    """`work` on an array whose last two axes are height and width; result of the same kind.

    PIL images are not taken here.
    """
    if kind(image, op) == "tensor":
        return _runtime.finish_tensor(np.ascontiguousarray(work(host(image))))
    if image.ndim == 2:
        return np.ascontiguousarray(work(image))
    return np.ascontiguousarray(work(image.transpose(2, 0, 1)).transpose(1, 2, 0))


def by_pil(image: Any, op: str, work: Callable[[Any], Any]) -> Any:
    """`work` on PIL images: the image itself, or each plane of an array or Tensor as one."""
    Image = pillow()
    if kind(image, op) == "pil":
        return work(image)

    def planes(array: np.ndarray) -> np.ndarray:
        flat = array.reshape(-1, *array.shape[-2:])
        as_is = array.dtype == np.uint8
        done = [np.asarray(work(Image.fromarray(p if as_is else p.astype(np.float32)))) for p in flat]
        return np.stack(done).reshape(*array.shape[:-2], *done[0].shape).astype(array.dtype)

    return on_planes(image, op, planes)


def size_of(image: Any, op: str) -> tuple:
    """(width, height)."""
    what = kind(image, op)
    if what == "pil":
        return tuple(image.size)
    if what == "tensor":
        return int(image.shape[-1]), int(image.shape[-2])
    return int(image.shape[1]), int(image.shape[0])


def channels_of(image: Any, op: str) -> int:
    what = kind(image, op)
    if what == "pil":
        return len(image.getbands())
    if what == "tensor":
        return int(image.shape[-3]) if len(image.shape) > 2 else 1
    return 1 if image.ndim == 2 else int(image.shape[2])


def resample_matrix(size_in: int, size_out: int, mode: str) -> np.ndarray:
    """[size_out, size_in] weights of 'nearest', 'bilinear' or 'bicubic' resampling with half-pixel
    centres.
    """
    matrix = np.zeros((size_out, size_in), np.float32)
    scale = size_in / size_out
    for i in range(size_out):
        if mode == "nearest":
            matrix[i, min(int(math.floor(i * scale)), size_in - 1)] = 1
            continue
        centre = (i + 0.5) * scale - 0.5
        left = math.floor(centre)
        t = centre - left
        taps = {0: 1 - t, 1: t} if mode == "bilinear" else {k: _cubic(abs(t - k)) for k in range(-1, 3)}
        for k, weight in taps.items():
            matrix[i, min(max(left + k, 0), size_in - 1)] += weight
    return matrix


def _cubic(x: float, a: float = -0.75) -> float:
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0
