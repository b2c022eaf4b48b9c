# SPDX-License-Identifier: Apache-2.0
"""Advice room: the device file, what `yuloh calibrate` measured of a machine.

One JSON file per host, ``~/.cache/yuloh/device-HOST.json`` (``XDG_CACHE_HOME`` and ``YULOH_DEVICE_FILE`` are obeyed).
The core reads it (src/advise/rates.h); this module knows where it lies.
"""
from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

__all__ = ["default_path", "text"]


def default_path() -> Path:
    """Where this machine's file lies, whether or not it is there."""
    given = os.environ.get("YULOH_DEVICE_FILE")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "yuloh" / f"device-{platform.node() or 'localhost'}.json"


def text(device: Any = None) -> str:
    """The file's text; "" where nothing was asked for and there is none. Raises ValueError for a file that is not there.

    ``device``: a path, or None for this machine's file.
    """
    path = default_path() if device is None else Path(device)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if device is None and isinstance(error, FileNotFoundError):
            return ""
        raise ValueError(f"device file: cannot read {path} ({getattr(error, 'strerror', error)}). Hint: yuloh calibrate writes one.") from None
