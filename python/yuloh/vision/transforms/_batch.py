# SPDX-License-Identifier: Apache-2.0
"""Transforms on a whole batch of equally large images at once, with the very results of one by one.

Used by the in-memory data sets when the DataLoader's own collate takes the samples. Random draws are made
sample
by sample in the order of the long way, so both ways give the same images under the same seed.
"""

from __future__ import annotations

import random
from typing import Any, Callable

import numpy as np

from . import functional as F
from . import transforms as T

_ARRAY_SAFE = (T.RandomHorizontalFlip, T.RandomVerticalFlip, T.RandomCrop, T.CenterCrop)


def plan_for(transform: Any, movers: tuple = _ARRAY_SAFE) -> "BatchPlan | None":
    """A plan if `transform` is built-in and moves pixels by `movers` only (by default those that give for an HWC
    array what they give for a PIL image), else None.
    """
    steps = list(transform.transforms) if type(transform) is T.Compose else [transform]
    if not steps or any(not T.is_builtin(s) or list(s.keys) != ["image"] for s in steps):
        return None
    plan = BatchPlan(movers)
    for step in steps:
        if not plan.add(step):
            return None
    return plan if plan.ends_as_array else None


class BatchPlan:
    """Steps that move (flip, crop), then at most one change of layout or scale, then normalisations."""

    def __init__(self, movers: tuple) -> None:
        self.movers = movers
        self.moves: list = []  # on uint8 images
        self.scale = False  # to 0..1 float32
        self.layout = ""  # "", or "CHW" once it is an array in that order
        self.normals: list = []  # (mean, std) of shape [C, 1, 1], float32
        self.ends_as_array = False
        self.whole_batch = True
        self._tables: dict = {}  # (channels, scale) -> float32 [channels, 256]

    def add(self, step: Any) -> bool:
        """Take `step` over; False when this plan cannot."""
        if type(step) in self.movers and not self.ends_as_array:
            return self._add_move(step)
        if type(step) is T.ToTensor and not self.ends_as_array and step.data_format == "CHW":
            self.scale = self.ends_as_array = True
            self.layout = "CHW"
            return True
        if type(step) is T.Transpose and not self.ends_as_array and tuple(step.order) == (2, 0, 1):
            self.ends_as_array = True
            self.layout = "CHW"
            return True
        if type(step) is T.Normalize and step.data_format == "CHW" and not step.to_rgb:
            self.normals.append((np.asarray(step.mean, np.float32), np.asarray(step.std, np.float32)))
            self.ends_as_array = True
            return True
        return False

    def _add_move(self, step: Any) -> bool:
        if type(step) is T.RandomCrop:
            plain = step.padding_mode == "constant" and isinstance(step.fill, (int, float))
            if not plain or step.pad_if_needed:
                self.whole_batch = False
        if type(step) is T.CenterCrop:
            self.whole_batch = False
        self.moves.append(step)
        return True

    def run(self, images: np.ndarray, new_array: Callable) -> "np.ndarray | None":
        """uint8 [N, C, H, W] or [N, H, W] -> the batch that collate would make; None if it cannot."""
        if images.ndim == 3:
            if not self.layout and any(len(m) != 1 or len(s) != 1 for m, s in self.normals):
                return None
            images = images[:, None]
        elif not self.layout and not self._takes_hwc(images.shape[1]):
            return None
        channels = images.shape[1]
        if any(len(m) not in (1, channels) or len(s) not in (1, channels) for m, s in self.normals):
            return None
        scale = self.scale or (not self.layout and channels > 1)
        images = self._move(images)
        if images is None:
            return None
        if not scale and not self.normals:
            out = new_array(images.shape, images.dtype)
            out[...] = images
            return out
        return self._values(images, scale, new_array)

    def _takes_hwc(self, channels: int) -> bool:
        """A first Normalize that meets HWC images is the one that scales them (see functional.normalize)."""
        mean, _ = self.normals[0]
        if len(mean) != channels or channels < 2:
            return False
        F.say_scaled(mean)
        return True

    def _values(self, images: np.ndarray, scale: bool, new_array: Callable) -> np.ndarray:
        """Pixel values through a table of 256 per channel: the same arithmetic, done once per value."""
        channels = images.shape[1]
        table = self.table(channels, scale)
        out = new_array(images.shape, np.dtype(np.float32))
        for c in range(channels):
            out[:, c] = table[c].take(images[:, c])
        return out

    def table(self, channels: int, scale: bool) -> np.ndarray:
        """float32 [channels, 256]: what becomes of each pixel value."""
        table = self._tables.get((channels, scale))
        if table is None:
            table = self._tables[channels, scale] = self._make_table(channels, scale)
        return table

    def _make_table(self, channels: int, scale: bool) -> np.ndarray:
        table = np.tile(np.arange(256, dtype=np.float32), (channels, 1))
        if scale:
            table /= np.float32(255)
        for mean, std in self.normals:
            table -= mean.reshape(-1, 1)
            table /= std.reshape(-1, 1)
        return table

    def _move(self, images: np.ndarray) -> "np.ndarray | None":
        if not self.moves:
            return images
        n, channels, height, width = images.shape
        draws: list = [[] for _ in self.moves]
        sizes = []
        for step in self.moves:
            sizes.append((height, width))
            if type(step) is T.RandomCrop:
                height, width = step.size
        for _ in range(n):
            for step, drawn, size in zip(self.moves, draws, sizes):
                value = _draw(step, size)
                if value is None:
                    return None
                drawn.append(value)
        for step, drawn in zip(self.moves, draws):
            images = _apply(step, images, drawn)
        return images


def _draw(step: Any, size: tuple) -> Any:
    if type(step) is not T.RandomCrop:
        return random.random() < step.prob
    left, top, right, bottom = F.four_sides(step.padding or 0)
    spare_h = size[0] + top + bottom - step.size[0]
    spare_w = size[1] + left + right - step.size[1]
    if spare_h < 0 or spare_w < 0:
        return None  # the long way raises the error
    if spare_h == 0 and spare_w == 0:
        return 0, 0
    return random.randint(0, spare_h), random.randint(0, spare_w)


def _apply(step: Any, images: np.ndarray, drawn: list) -> np.ndarray:
    if type(step) is T.RandomCrop:
        left, top, right, bottom = F.four_sides(step.padding or 0)
        if left or top or right or bottom:
            sides = [(0, 0), (0, 0), (top, bottom), (left, right)]
            images = np.pad(images, sides, constant_values=step.fill)
        height, width = step.size
        out = np.empty((*images.shape[:2], height, width), images.dtype)
        for i, (y, x) in enumerate(drawn):
            out[i] = images[i, :, y : y + height, x : x + width]
        return out
    chosen = np.asarray(drawn)
    out = images.copy() if images.base is not None else images
    picked = out[chosen]
    out[chosen] = picked[..., ::-1] if type(step) is T.RandomHorizontalFlip else picked[..., ::-1, :]
    return out
