# SPDX-License-Identifier: Apache-2.0
"""Which library reads image files: Pillow ("pil", the default), OpenCV ("cv2", if installed) or plain
Tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["set_image_backend", "get_image_backend", "image_load"]

_BACKENDS = ("pil", "cv2", "tensor")
_backend = "pil"


def set_image_backend(backend: str) -> None:
    """Choose what data sets and image_load give: "pil" images, "cv2" arrays (HWC) or "tensor"."""
    global _backend
    _backend = check_backend(backend)


def get_image_backend() -> str:
    """The backend chosen, "pil" at first."""
    return _backend


def check_backend(backend: "str | None") -> str:
    """`backend`, or the global one for None. Raises ValueError for another name."""
    if backend is None:
        return _backend
    if backend not in _BACKENDS:
        raise ValueError(f"image backend: got {backend!r}; expected one of {list(_BACKENDS)}.")
    return backend


def pillow() -> Any:
    """The PIL.Image module. Raises ImportError that says how to get it."""
    try:
        from PIL import Image
    except ImportError as e:
        raise ImportError(
            "vision: reading or changing images needs Pillow, which is not installed. "
            "Hint: pip install pillow (or pip install 'yuloh[vision]')."
        ) from e
    return Image


def is_pil(image: Any) -> bool:
    """Whether `image` is a PIL image, without importing PIL for what is not."""
    if not type(image).__module__.startswith("PIL."):
        return False
    return isinstance(image, pillow().Image)


def image_load(path: str, backend: "str | None" = None) -> Any:
    """Read an image file: an RGB PIL image, a BGR uint8 array (cv2) or a uint8 Tensor [C, H, W].

    Raises:
        FileNotFoundError, or Pillow's own errors (with the path) for damaged files.
    """
    backend = check_backend(backend)
    if backend == "cv2":
        try:
            import cv2
        except ImportError:
            array = np.asarray(_open(path).convert("RGB"))
            return np.ascontiguousarray(array[:, :, ::-1])
        return cv2.imread(path)
    image = _open(path)
    if backend == "pil":
        return image
    import yuloh

    return yuloh.to_tensor(np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1)))


def _open(path: str) -> Any:
    with open(path, "rb") as f:
        image = pillow().open(f)
        image.load()
    return image


def load_rgb(path: str) -> Any:
    """An RGB PIL image from a file; errors of damaged files name the path."""
    Image = pillow()
    with open(path, "rb") as f:
        try:
            return Image.open(f).convert("RGB")
        except OSError as e:
            raise type(e)(f"vision: cannot read image {path}: {e}") from e
        except (SyntaxError, ValueError) as e:  # how Pillow reports some broken PNG and TIFF files
            raise OSError(f"vision: cannot read image {path}: {e}") from e
