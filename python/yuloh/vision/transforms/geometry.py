# SPDX-License-Identifier: Apache-2.0
"""Transforms that move pixels: resize, crop, flip, pad, rotate, affine, perspective.

Random draws come from Python's ``random`` and NumPy's global stream, in Paddle's order; data workers seed
both per worker and epoch.
"""

from __future__ import annotations

import math
import numbers
import random
from typing import Any, Sequence

import numpy as np

from . import functional as F
from ._base import BaseTransform
from ._kinds import size_of


class Resize(BaseTransform):
    """Resize to `size`: (height, width), or an int for the shorter side."""

    def __init__(self, size: Any, interpolation: str = "bilinear", keys: Any = None) -> None:
        super().__init__(keys)
        self.size = size
        self.interpolation = interpolation

    def _apply_image(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation)


def _pair(size: Any) -> tuple:
    return (int(size), int(size)) if isinstance(size, numbers.Number) else tuple(size)


class RandomResizedCrop(BaseTransform):
    """A random rectangle (area share in `scale`, width/height in `ratio`), resized to `size`."""

    def __init__(
        self,
        size: Any,
        scale: Sequence = (0.08, 1.0),
        ratio: Sequence = (3.0 / 4, 4.0 / 3),
        interpolation: str = "bilinear",
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            raise ValueError(
                f"RandomResizedCrop: scale is {scale}, ratio {ratio}; expected (low, high) each."
            )
        self.size = _pair(size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation

    def _get_params(self, inputs: tuple) -> tuple:
        return self._draw(*size_of(inputs[0], "RandomResizedCrop"), random, np.random)

    def _draw(self, width: int, height: int, rng: Any, np_rng: Any) -> tuple:
        """(top, left, height, width) of the rectangle; `rng`, `np_rng`: where draws come from."""
        area = width * height
        for _ in range(10):
            target = np_rng.uniform(*self.scale) * area
            low, high = (math.log(r) for r in self.ratio)
            ratio = math.exp(np_rng.uniform(low, high))
            w, h = int(round(math.sqrt(target * ratio))), int(round(math.sqrt(target / ratio)))
            if 0 < w <= width and 0 < h <= height:
                i = rng.randint(0, height - h)
                return i, rng.randint(0, width - w), h, w
        whole = width / height
        if whole < min(self.ratio):
            w, h = width, int(round(width / min(self.ratio)))
        elif whole > max(self.ratio):
            w, h = int(round(height * max(self.ratio))), height
        else:
            w, h = width, height
        return (height - h) // 2, (width - w) // 2, h, w

    def _apply_image(self, img: Any) -> Any:
        return F.resize(F.crop(img, *self.params), self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """The middle rectangle of `size`."""

    def __init__(self, size: Any, keys: Any = None) -> None:
        super().__init__(keys)
        self.size = _pair(size)

    def _apply_image(self, img: Any) -> Any:
        return F.center_crop(img, self.size)


class _RandomFlip(BaseTransform):
    def __init__(self, prob: float = 0.5, keys: Any = None) -> None:
        super().__init__(keys)
        if not 0 <= prob <= 1:
            raise ValueError(f"{type(self).__name__}: prob is {prob}; expected 0 to 1.")
        self.prob = prob

    def _get_params(self, inputs: tuple) -> bool:
        return random.random() < self.prob


class RandomHorizontalFlip(_RandomFlip):
    """Mirror left and right with probability `prob`."""

    def _apply_image(self, img: Any) -> Any:
        return F.hflip(img) if self.params else img


class RandomVerticalFlip(_RandomFlip):
    """Mirror top and bottom with probability `prob`."""

    def _apply_image(self, img: Any) -> Any:
        return F.vflip(img) if self.params else img


class RandomCrop(BaseTransform):
    """A random rectangle of `size`, after padding (see functional.pad); pad_if_needed enlarges small
    images.
    """

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        self.size = _pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def _apply_image(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        height, width = self.size
        w, h = size_of(img, "RandomCrop")
        if self.pad_if_needed and w < width:
            img = F.pad(img, (width - w, 0), self.fill, self.padding_mode)
        if self.pad_if_needed and h < height:
            img = F.pad(img, (0, height - h), self.fill, self.padding_mode)
        w, h = size_of(img, "RandomCrop")
        if h < height or w < width:
            raise ValueError(
                f"RandomCrop: the image is {h} x {w} (height x width); expected at least {height} x {width}. "
                "Hint: padding, or pad_if_needed=True."
            )
        if (h, w) == (height, width):
            return img
        top = random.randint(0, h - height)
        return F.crop(img, top, random.randint(0, w - width), height, width)


class Pad(BaseTransform):
    """Add a border; see functional.pad."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant", keys: Any = None) -> None:
        super().__init__(keys)
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def _apply_image(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


def _degrees(value: Any, name: str) -> tuple:
    if isinstance(value, numbers.Number):
        if value < 0:
            raise ValueError(f"{name} is {value}; expected >= 0, or (low, high).")
        return (-value, value)
    if len(value) not in (2, 4):
        raise ValueError(f"{name} is {value!r}; expected a number or (low, high).")
    return tuple(value)


class RandomAffine(BaseTransform):
    """Random rotation (degrees), shift (share of the size), scale and shear (degrees); centre kept."""

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: str = "nearest",
        fill: Any = 0,
        center: Any = None,
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = _degrees(degrees, "RandomAffine: degrees")
        if translate is not None and any(not 0 <= t <= 1 for t in translate):
            raise ValueError(f"RandomAffine: translate is {translate}; expected shares between 0 and 1.")
        if scale is not None and any(s <= 0 for s in scale):
            raise ValueError(f"RandomAffine: scale is {scale}; expected positive values.")
        self.translate = translate
        self.scale = scale
        self.shear = None if shear is None else _degrees(shear, "RandomAffine: shear")
        self.interpolation = interpolation
        self.fill = fill
        self.center = center

    def _get_params(self, inputs: tuple) -> tuple:
        width, height = size_of(inputs[0], "RandomAffine")
        angle = random.uniform(*self.degrees)
        shift, scale, shear = (0, 0), 1.0, (0.0, 0.0)
        if self.translate is not None:
            most_x, most_y = self.translate[0] * width, self.translate[1] * height
            shift = (int(random.uniform(-most_x, most_x)), int(random.uniform(-most_y, most_y)))
        if self.scale is not None:
            scale = random.uniform(*self.scale)
        if self.shear is not None:
            shear = (random.uniform(*self.shear[:2]), 0.0)
            if len(self.shear) == 4:
                shear = (shear[0], random.uniform(*self.shear[2:]))
        return angle, shift, scale, shear

    def _apply_image(self, img: Any) -> Any:
        return F.affine(img, *self.params, self.interpolation, self.fill, self.center)


class RandomRotation(BaseTransform):
    """Turn by a random angle in `degrees` (a number d means -d to d)."""

    def __init__(
        self,
        degrees: Any,
        interpolation: str = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = _degrees(degrees, "RandomRotation: degrees")
        self.interpolation = interpolation
        self.expand = expand
        self.center = center
        self.fill = fill

    def _get_params(self, inputs: tuple) -> float:
        return random.uniform(self.degrees[0], self.degrees[1])

    def _apply_image(self, img: Any) -> Any:
        return F.rotate(img, self.params, self.interpolation, self.expand, self.center, self.fill)


class RandomPerspective(BaseTransform):
    """With probability `prob`, move each corner inwards by up to distortion_scale / 2 of the size."""

    def __init__(
        self,
        prob: float = 0.5,
        distortion_scale: float = 0.5,
        interpolation: str = "nearest",
        fill: Any = 0,
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        if not 0 <= prob <= 1 or not 0 <= distortion_scale <= 1:
            raise ValueError(
                f"RandomPerspective: prob is {prob}, distortion_scale {distortion_scale}; expected 0 to 1."
            )
        self.prob = prob
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation
        self.fill = fill

    def _get_params(self, inputs: tuple) -> "tuple | None":
        if random.random() >= self.prob:
            return None
        width, height = size_of(inputs[0], "RandomPerspective")
        reach_x = int(self.distortion_scale * (width // 2))
        reach_y = int(self.distortion_scale * (height // 2))
        start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        end = []
        for x, y in start:
            end.append([self._draw(x, reach_x, width), self._draw(y, reach_y, height)])
        return start, end

    @staticmethod
    def _draw(corner: int, reach: int, size: int) -> int:
        if corner == 0:
            return int(random.uniform(0, reach + 1))
        return int(random.uniform(size - reach - 1, size))

    def _apply_image(self, img: Any) -> Any:
        if self.params is None:
            return img
        return F.perspective(img, *self.params, self.interpolation, self.fill)
