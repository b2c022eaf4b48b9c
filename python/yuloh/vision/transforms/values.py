# SPDX-License-Identifier: Apache-2.0
"""Transforms that change values or layout: ToTensor, Normalize, Transpose, colours, erasing.

Random draws: see geometry.py.
"""

from __future__ import annotations

import math
import numbers
import random
from typing import Any, Sequence

import numpy as np

from ...io import _runtime
from . import functional as F
from ._base import BaseTransform
from ._kinds import channels_of, host, kind, size_of


class ToTensor(BaseTransform):
    """Image to Tensor; 8-bit values are scaled to 0..1 as float32. data_format: "CHW" or "HWC"."""

    def __init__(self, data_format: str = "CHW", keys: Any = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, img: Any) -> Any:
        return F.to_tensor(img, self.data_format)


class Normalize(BaseTransform):
    """(image - mean) / std per channel, float32.

    With the default data_format "CHW" an image in HWC order (a PIL image, say) is first taken to a scaled CHW
    Tensor as ToTensor does; said once on stderr.
    """

    def __init__(
        self,
        mean: Any = 0.0,
        std: Any = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, numbers.Number) else mean
        self.std = [std] * 3 if isinstance(std, numbers.Number) else std
        self.data_format = data_format
        self.to_rgb = to_rgb

    def _apply_image(self, img: Any) -> Any:
        return F.normalize(img, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """Permute the axes, HWC to CHW by default; the result is an array (a Tensor stays one)."""

    def __init__(self, order: Sequence = (2, 0, 1), keys: Any = None) -> None:
        super().__init__(keys)
        self.order = order

    def _apply_image(self, img: Any) -> Any:
        what = kind(img, "Transpose")
        if what == "tensor":
            return _runtime.finish_tensor(np.ascontiguousarray(host(img).transpose(self.order)))
        array = np.asarray(img)
        if array.ndim == 2:
            array = array[..., None]
        return array.transpose(self.order)


def _range_of(value: Any, name: str, center: float = 1.0, bound: tuple = (0, float("inf"))) -> "list | None":
    """[low, high] of a jitter value; None for no jitter at all."""
    if isinstance(value, numbers.Number):
        if value < 0:
            raise ValueError(f"{name} value is {value}; expected >= 0.")
        low, high = center - value, center + value
        low = max(low, 0) if center == 1.0 else low
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        low, high = value
    else:
        raise TypeError(f"{name} value is {value!r}; expected a number or (low, high).")
    if not bound[0] <= low <= high <= bound[1]:
        raise ValueError(f"{name} values are {[low, high]}; expected between {bound[0]} and {bound[1]}.")
    return None if low == high == center else [low, high]


class _Jitter(BaseTransform):
    _name = ""
    _center, _bound = 1.0, (0, float("inf"))

    def __init__(self, value: Any, keys: Any = None) -> None:
        super().__init__(keys)
        self.value = _range_of(value, self._name, self._center, self._bound)

    def _get_params(self, inputs: tuple) -> Any:
        return None if self.value is None else random.uniform(self.value[0], self.value[1])

    def _apply_image(self, img: Any) -> Any:
        return img if self.params is None else getattr(F, f"adjust_{self._name}")(img, self.params)


class BrightnessTransform(_Jitter):
    """Brightness by a factor in [max(0, 1 - value), 1 + value]."""

    _name = "brightness"


class ContrastTransform(_Jitter):
    """Contrast by a factor in [max(0, 1 - value), 1 + value]."""

    _name = "contrast"


class SaturationTransform(_Jitter):
    """Saturation by a factor in [max(0, 1 - value), 1 + value]."""

    _name = "saturation"


class HueTransform(_Jitter):
    """Hue turned by up to `value` (0 to 0.5) of the circle."""

    _name = "hue"
    _center, _bound = 0.0, (-0.5, 0.5)


class ColorJitter(BaseTransform):
    """Brightness, contrast, saturation and hue, in random order."""

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0, keys: Any = None
    ) -> None:
        super().__init__(keys)
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue

    def _get_params(self, inputs: tuple) -> list:
        parts = [
            BrightnessTransform(self.brightness, self.keys),
            ContrastTransform(self.contrast, self.keys),
            SaturationTransform(self.saturation, self.keys),
            HueTransform(self.hue, self.keys),
        ]
        random.shuffle(parts)
        return parts

    def _apply_image(self, img: Any) -> Any:
        for part in self.params:
            img = part(img)
        return img


class Grayscale(BaseTransform):
    """To grey, in one or three equal channels."""

    def __init__(self, num_output_channels: int = 1, keys: Any = None) -> None:
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, img: Any) -> Any:
        return F.to_grayscale(img, self.num_output_channels)


class RandomErasing(BaseTransform):
    """With probability `prob`, overwrite a random rectangle by `value` (number, one per channel, or
    "random").
    """

    def __init__(
        self,
        prob: float = 0.5,
        scale: Sequence = (0.02, 0.33),
        ratio: Sequence = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        if not 0 <= prob <= 1:
            raise ValueError(f"RandomErasing: prob is {prob}; expected 0 to 1.")
        if scale[0] > scale[1] or not 0 <= scale[0] <= scale[1] <= 1 or ratio[0] > ratio[1]:
            raise ValueError(f"RandomErasing: scale is {scale}, ratio {ratio}; expected (low, high) each.")
        if isinstance(value, str) and value != "random":
            raise ValueError(f"RandomErasing: value is {value!r}; expected a number, numbers or 'random'.")
        self.prob = prob
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    def _get_params(self, inputs: tuple) -> "tuple | None":
        img = inputs[0]
        if random.random() >= self.prob:
            return None
        width, height = size_of(img, "RandomErasing")
        channels = channels_of(img, "RandomErasing")
        for _ in range(10):
            target = np.random.uniform(*self.scale) * width * height
            ratio = math.exp(np.random.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            h, w = int(round(math.sqrt(target * ratio))), int(round(math.sqrt(target / ratio)))
            if h < height and w < width:
                top = int(np.random.randint(0, height - h + 1))
                left = int(np.random.randint(0, width - w + 1))
                return top, left, h, w, self._value_for(img, channels, h, w)
        return None

    def _value_for(self, img: Any, channels: int, h: int, w: int) -> Any:
        is_tensor = kind(img, "RandomErasing") == "tensor"
        if isinstance(self.value, str):
            noise = np.random.normal(size=(channels, h, w) if is_tensor else (h, w, channels))
            return noise.astype(np.float32)
        if isinstance(self.value, numbers.Number):
            return self.value
        values = np.asarray(self.value, np.float32)
        return values[:, None, None] if is_tensor else values

    def _apply_image(self, img: Any) -> Any:
        return img if self.params is None else F.erase(img, *self.params, self.inplace)
