# SPDX-License-Identifier: Apache-2.0
"""The vision data sets as sources of the loader's thread path (io/native.py)."""

from __future__ import annotations

import glob
import os
from typing import Any, Callable

import numpy as np

from ...io import _runtime, native
from ..image import load_rgb, pillow
from ..transforms import functional as F
from ..transforms import transforms as T
from ..transforms._batch import BatchPlan, plan_for

_MOVERS = (
    T.RandomHorizontalFlip,
    T.RandomVerticalFlip,
    T.RandomCrop,
    T.CenterCrop,
    T.Resize,
    T.RandomResizedCrop,
    T.Pad,
)
_FILTERS = {"bilinear": 2, "bicubic": 3, 2: 2, 3: 3}
_JPEG = (".jpg", ".jpeg")


def native_plan(transform: Any) -> "BatchPlan | None":
    """The transform if the threads know all of its steps, else None."""
    plan = plan_for(transform, _MOVERS)
    return plan if plan is not None and all(map(_known, plan.moves)) else None


def _known(step: Any) -> bool:
    if isinstance(step, (T.Resize, T.RandomResizedCrop)):
        size = step.size
        fits = isinstance(size, int) or (isinstance(size, (list, tuple)) and len(size) == 2)
        return fits and not isinstance(size, bool) and step.interpolation in _FILTERS
    if isinstance(step, (T.RandomCrop, T.Pad)):
        black = isinstance(step.fill, (int, float)) and step.fill == 0
        return step.padding_mode == "constant" and black and not getattr(step, "pad_if_needed", False)
    return True


def draw(step: Any, size: tuple, rng: Any, np_rng: Any) -> "tuple | None":
    """(five integers, size after) of one step on a sample of (height, width), with the step's own draws in
    their
    order.
    """
    height, width = size
    kind = type(step)
    if kind is T.RandomHorizontalFlip or kind is T.RandomVerticalFlip:
        flip = native.MIRROR if kind is T.RandomHorizontalFlip else native.TURN_OVER
        return ((flip, 0, 0, 0, 0) if rng.random() < step.prob else native.NO_MOVE), size
    if kind is T.CenterCrop:
        return _crop(*F.centred(height, width, *step.size), *step.size)
    if kind is T.Pad:
        left, top, right, bottom = F.four_sides(step.padding)
        return _crop(-top, -left, height + top + bottom, width + left + right)
    if kind is T.Resize:
        new = F.resized(height, width, step.size)
        return (native.RESIZE, *new, _FILTERS[step.interpolation], _down_first(size, new)), new
    if kind is T.RandomCrop:
        left, top, right, bottom = F.four_sides(step.padding or 0)
        spare_h = height + top + bottom - step.size[0]
        spare_w = width + left + right - step.size[1]
        if spare_h < 0 or spare_w < 0:
            return None
        y = x = 0
        if spare_h or spare_w:
            y, x = rng.randint(0, spare_h), rng.randint(0, spare_w)
        return _crop(y - top, x - left, *step.size)
    return None


def _down_first(old: tuple, new: tuple) -> bool:
    """Whether Pillow resamples columns before rows: since 13, where the height shrinks by more than twice
    as many
    pixels as the width (found by trial on random sizes; a test compares)."""
    return pillow_major() >= 13 and old[0] > new[0] and old[0] - new[0] > 2 * (old[1] - new[1])


def pillow_major() -> int:
    import PIL

    return int(PIL.__version__.split(".")[0])


def _crop(top: int, left: int, height: int, width: int) -> "tuple | None":
    if height <= 0 or width <= 0:
        return None
    return (native.CROP, top, left, height, width), (height, width)


class _Planned(native.Source):
    """A source whose transform is a BatchPlan; RandomResizedCrop counts as two moves."""

    def __init__(self, plan: BatchPlan, table: "np.ndarray | None") -> None:
        self.table = table
        moves: list = []
        for step in plan.moves:
            if type(step) is T.RandomResizedCrop:
                resize = T.Resize(tuple(step.size), step.interpolation)
                moves += [step, resize]
            else:
                moves.append(step)
        self.moves = tuple(moves)

    def draw(self, move: Any, size: tuple, rng: Any, np_rng: Any) -> "tuple | None":
        if type(move) is T.RandomResizedCrop:
            return _crop(*move._draw(size[1], size[0], rng, np_rng))
        return draw(move, size, rng, np_rng)


class ArraySource(_Planned):
    """An ImageArrayDataset: images uint8 [N, C, H, W], labels [N, ...]."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, plan: BatchPlan, table: Any) -> None:
        super().__init__(plan, table)
        self.images = images
        self.labels = labels

    def fields(self, order: np.ndarray) -> list:
        return [self.labels[order]]


def array_source(images: np.ndarray, labels: np.ndarray, transform: Any) -> "ArraySource | None":
    """Source of images uint8 [N, C, H, W] or [N, H, W] under `transform`, None where Python must do it."""
    plan = native_plan(transform)
    if plan is None or images.dtype != np.uint8 or not len(images):
        return None
    grey = images.ndim == 3
    images = np.ascontiguousarray(images[:, None] if grey else images)
    channels = images.shape[1]
    if channels not in (1, 3) or not plan.layout and (grey or not plan._takes_hwc(channels)):
        return None
    if any(len(m) not in (1, channels) or len(s) not in (1, channels) for m, s in plan.normals):
        return None
    scale = plan.scale or not plan.layout
    table = plan.table(channels, scale) if scale or plan.normals else None
    return ArraySource(images, labels, plan, table)


class FolderSource(_Planned):
    """JPEG files; `path_of(index)`, and `targets_of(order)` for the classes or None."""

    def __init__(self, plan: BatchPlan, table: Any, path_of: Callable, targets_of: "Callable | None") -> None:
        super().__init__(plan, table)
        self.path = path_of  # type: ignore[method-assign]
        self.targets_of = targets_of

    def sizes(self, rows: list) -> list:
        return _runtime.core().jpeg_sizes([self.path(i) for i in rows])

    def read(self, index: int) -> np.ndarray:
        return np.ascontiguousarray(np.asarray(load_rgb(self.path(index))))

    def fields(self, order: np.ndarray) -> list:
        return [] if self.targets_of is None else [np.array(self.targets_of(order.tolist()))]


def folder_source(paths: Any, transform: Any, path_of: Callable, targets_of: "Callable | None") -> Any:
    """Source of image files under `transform`, None where most are no JPEG or the threads cannot do it."""
    plan = native_plan(transform)
    if plan is None or not jpeg_library() or not len(paths):
        return None
    some = range(0, len(paths), max(1, len(paths) // 1000))
    if sum(path_of(i).lower().endswith(_JPEG) for i in some) < 0.9 * len(some):
        return None
    if not plan.layout and not plan._takes_hwc(3):
        return None
    if any(len(m) not in (1, 3) or len(s) not in (1, 3) for m, s in plan.normals):
        return None
    scale = plan.scale or not plan.layout
    table = plan.table(3, scale) if scale or plan.normals else None
    return FolderSource(plan, table, path_of, targets_of)


_library: "str | None" = None


def jpeg_library() -> str:
    """Name of the libjpeg-turbo that the threads decode with: Pillow's own copy, else the system's; "" for
    none."""
    global _library
    if _library is None:
        try:
            packages = os.path.dirname(os.path.dirname(pillow().__file__))
        except ImportError:
            return ""
        own = sorted(glob.glob(os.path.join(glob.escape(packages), "pillow.libs", "libjpeg*.so*")))
        _library = _runtime.core().load_jpeg_library([*own, "libjpeg.so.62", "libjpeg.so.8"])
    return _library
