# SPDX-License-Identifier: Apache-2.0
"""Data sets that lie in memory as one array: single samples, and whole batches at once for the DataLoader."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...io import Dataset, _runtime, collate
from ..image import check_backend, pillow
from ..transforms._base import is_builtin


class ImageArrayDataset(Dataset):
    """Images uint8 [N, H, W] or [N, C, H, W] and int64 labels, with an optional transform.

    A sample is (image, label): what the transform makes of a PIL image (backend "pil") or of an HWC array.
    """

    _arrays_are_float = False  # backend "cv2" hands the transform floats, not bytes

    def __init__(self, transform: Any, backend: "str | None") -> None:
        self.transform = transform
        self.backend = check_backend(backend)
        self.dtype = _default_dtype()
        self._plan: Any = None
        self._plan_for: Any = self  # a transform that no one can have set
        self._source: Any = None
        self._source_for: Any = self

    def _set_arrays(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._images = images
        self._targets = labels

    def __len__(self) -> int:
        return len(self._targets)

    def _hwc(self, idx: Any) -> np.ndarray:
        """Image idx, uint8 [H, W, C] (or [H, W])."""
        image = self._images[idx]
        return image if image.ndim == 2 else image.transpose(1, 2, 0)

    @property
    def _host_samples_(self) -> bool:
        """Whether the loader may take samples as NumPy arrays: no code of the user's looks at them."""
        return type(self).__getitem__ is ImageArrayDataset.__getitem__

    def _transformed(self, image: Any) -> Any:
        if self.transform is None:
            return image
        if is_builtin(self.transform):
            return self.transform(image)  # a Compose shields the user's functions within
        with _runtime.visible_samples():
            return self.transform(image)

    def _label(self, idx: Any) -> np.ndarray:
        return np.array(self._targets[idx])

    def __getitem__(self, idx: int) -> tuple:
        image = self._hwc(idx)
        if self.backend == "pil":
            # A built-in transform that gives the same for an array is spared the PIL image.
            if self.transform is None or self._array_plan() is None:
                image = pillow().fromarray(image)
            return self._transformed(image), self._label(idx)
        if self._arrays_are_float:
            image = image.astype(self.dtype)
        image = self._transformed(image)
        image = image.astype(self.dtype) if isinstance(image, np.ndarray) else image
        return image, self._label(idx)

    def _array_plan(self) -> Any:
        """The transform as a BatchPlan if it can run on arrays, else None (found once per transform)."""
        if self._plan_for is not self.transform:
            from ..transforms._batch import plan_for

            self._plan = plan_for(self.transform)
            self._plan_for = self.transform
        return self._plan

    def _native_source_(self) -> Any:
        """For the loader's thread path (io/native.py); None where only Python gives the right samples."""
        plain = all(
            getattr(type(self), name) is getattr(ImageArrayDataset, name)
            for name in ("__getitem__", "_hwc", "_label", "_transformed")
        )
        if not plain or self.transform is None or self.backend != "pil":
            return None
        if self._source_for is not self.transform:
            from ._native import array_source

            self._source = array_source(self._images, self._targets, self.transform)
            self._source_for = self.transform
        return self._source

    def _fetch_batch_(self, indices: Any) -> "list | None":
        """[images, labels] of a batch, made at once; None where only the sample-by-sample way is right."""
        plan = self._array_plan() if self.transform is not None else None
        if not self._host_samples_ or plan is None or not plan.whole_batch:
            return None
        if self._arrays_are_float and self.backend != "pil":
            return None
        indices = np.asarray(indices)
        if indices.dtype.kind not in "iu" or (
            len(indices) and not 0 <= indices.min() <= indices.max() < len(self)
        ):
            return None
        images = self._images[indices]
        batch = plan.run(images, collate.new_array)
        if batch is None:
            return None
        if self.backend != "pil" and batch.dtype.name != self.dtype:
            batch = batch.astype(self.dtype)
        return [batch, np.stack([self._label(i) for i in indices.tolist()])]


def _default_dtype() -> str:
    try:
        import yuloh

        return str(yuloh.get_default_dtype()).replace("paddle.", "")
    except (ImportError, AttributeError):
        return "float32"
