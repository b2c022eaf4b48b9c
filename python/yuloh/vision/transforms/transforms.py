# SPDX-License-Identifier: Apache-2.0
"""Transforms: image operations as objects, most of them random, put in a row by Compose.

Random draws come from Python's ``random`` and NumPy's global stream, in Paddle's order; data workers seed
both per worker and epoch.
"""

from __future__ import annotations

import math
import numbers
import random
from typing import Any, Callable, Sequence

import numpy as np

from ...io import _runtime
from . import functional as F
from ..image import is_pil
from ._kinds import channels_of, host, kind, size_of

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


def is_builtin(transform: Any) -> bool:
    """Whether `transform` is one of this module's own classes (not a subclass of a user's)."""
    return type(transform).__module__ == __name__


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


class BaseTransform:
    """Base of transforms: define ``_apply_image`` (and ``_get_params`` for draws shared by all inputs).

    Args:
        keys: names of the inputs of a call, such as ("image", "mask"); each goes to ``_apply_<key>``.
            Inputs beyond the keys pass unchanged.
    """

    def __init__(self, keys: "Sequence[str] | None" = None) -> None:
        if keys is None:
            keys = ("image",)
        elif not isinstance(keys, (list, tuple)):
            raise ValueError(f"{type(self).__name__}: keys is {keys!r}; expected a list or tuple of names.")
        self.params: Any = None
        self.keys = keys

    def _get_params(self, inputs: tuple) -> Any:
        return None

    def __call__(self, inputs: Any) -> Any:
        if len(self.keys) == 1 and not isinstance(inputs, tuple):
            self.params = self._get_params((inputs,))
            work = self._get_apply(self.keys[0])
            return inputs if work is None else work(inputs)
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(inputs)
        outputs = []
        for i, value in enumerate(inputs):
            work = self._get_apply(self.keys[i]) if i < len(self.keys) else None
            outputs.append(value if work is None else work(value))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _get_apply(self, key: str) -> "Callable | None":
        return getattr(self, f"_apply_{key}", None)

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: _apply_image is not defined.")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: _apply_boxes is not defined.")

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: _apply_mask is not defined.")


class ToTensor(BaseTransform):
    """Image to Tensor; 8-bit values are scaled to 0..1 as float32. data_format: "CHW" or "HWC"."""

    def __init__(self, data_format: str = "CHW", keys: Any = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, img: Any) -> Any:
        return F.to_tensor(img, self.data_format)


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
