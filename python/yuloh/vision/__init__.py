# SPDX-License-Identifier: Apache-2.0
"""paddle.vision: data sets, transforms, models. Loaded piece by piece, when a name is first used."""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = ("datasets", "image", "models", "ops", "transforms")
__all__ = ["set_image_backend", "get_image_backend", "image_load"]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if not name.startswith("_"):
        for module in ("image", "datasets", "transforms", "models"):
            loaded = importlib.import_module(f"{__name__}.{module}")
            if name in loaded.__all__:
                value = getattr(loaded, name)
                globals()[name] = value
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list:
    return sorted([*globals(), *_SUBMODULES])
