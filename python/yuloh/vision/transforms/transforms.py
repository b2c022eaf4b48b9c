# SPDX-License-Identifier: Apache-2.0
"""Transforms as objects, put in a row by Compose; this module has all their names, as Paddle's has.

The classes live in geometry.py (what moves pixels) and values.py (what changes values).
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ...io import _runtime
from ..image import is_pil
from . import functional as F
from ._base import BaseTransform, is_builtin
from .geometry import (
    CenterCrop,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
)
from .values import (
    BrightnessTransform,
    ColorJitter,
    ContrastTransform,
    Grayscale,
    HueTransform,
    Normalize,
    RandomErasing,
    SaturationTransform,
    ToTensor,
    Transpose,
)

__all__ = [
    "BaseTransform",
    "Compose",
    "Resize",
    "RandomResizedCrop",
    "CenterCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "Transpose",
    "Normalize",
    "BrightnessTransform",
    "SaturationTransform",
    "ContrastTransform",
    "HueTransform",
    "ColorJitter",
    "RandomCrop",
    "Pad",
    "RandomAffine",
    "RandomRotation",
    "RandomPerspective",
    "Grayscale",
    "ToTensor",
    "RandomErasing",
]


class Compose:
    """Apply `transforms` one after the other."""

    def __init__(self, transforms: Sequence[Callable]) -> None:
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        steps, done = self.transforms, 0
        while done < len(steps):
            transform = steps[done]
            if type(transform) is ToTensor and not _runtime.host_wanted():
                values, taken = _values_at_once(steps, done, data)
                if taken:
                    data, done = values, done + taken
                    continue
            done += 1
            if is_builtin(transform):
                with _runtime.host_samples():
                    data = transform(data)
            else:
                with _runtime.visible_samples():
                    data = transform(_reveal(data))
        return _reveal(data)

    def __repr__(self) -> str:
        return "\n    ".join([f"{type(self).__name__}(", *(repr(t) for t in self.transforms)]) + "\n)"


_tables: dict = {}  # what to_tensor and some normalisations make of the 256 values of a byte


def _values_at_once(steps: Sequence, at: int, data: Any) -> tuple:
    """(Tensor, how many steps): ToTensor and the Normalize steps after it on an 8-bit image through one table; the
    arithmetic is theirs, done once per value. (None, 0) where that does not fit.
    """
    normals = []
    for step in steps[at + 1 :]:
        if type(step) is not Normalize or step.data_format != "CHW" or step.to_rgb or list(step.keys) != ["image"]:
            break
        normals.append((tuple(np.ravel(step.mean)), tuple(np.ravel(step.std))))
    image = np.asarray(data) if is_pil(data) and data.mode in ("RGB", "L") else data
    first = steps[at]
    fits = type(image) is np.ndarray and image.dtype == np.uint8 and image.ndim in (2, 3)
    if not fits or first.data_format != "CHW" or list(first.keys) != ["image"]:
        return None, 0
    image = image[..., None] if image.ndim == 2 else image
    channels = image.shape[2]
    if any(len(values) not in (1, channels) for pair in normals for values in pair):
        return None, 0
    key = channels, tuple(normals)
    table = _tables.get(key)
    if table is None:
        bytes_ = np.tile(np.arange(256, dtype=np.uint8)[None, :, None], (1, 1, channels))
        table = F.to_host(bytes_)
        for mean, std in normals:
            table = F.normalize(table.view(_runtime.HostTensor), mean, std)
            table = table.numpy()
        if len(_tables) > 64:
            _tables.clear()
        table = _tables[key] = np.ascontiguousarray(table.reshape(channels, 256), np.float32)
    return _runtime.core().image_values(image, table), 1 + len(normals)


def _reveal(data: Any) -> Any:
    """Tensors in place of HostTensors, where the user may see them."""
    if isinstance(data, _runtime.HostTensor):
        return _runtime.finish_tensor(data)
    if isinstance(data, tuple):
        return tuple(_reveal(d) for d in data)
    return data
