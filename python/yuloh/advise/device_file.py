# SPDX-License-Identifier: Apache-2.0
"""Advice room: the device file, what `yuloh calibrate` measured of a machine.

One JSON file per host, ``~/.cache/yuloh/device-HOST.json`` (``XDG_CACHE_HOME`` and ``YULOH_DEVICE_FILE`` are obeyed).
The core reads it (src/advise/rates.h); this module knows where it lies.
"""
from __future__ import annotations

import json
import os
import platform
import pwd
from pathlib import Path
from typing import Any, Dict, List, Tuple

from .. import _core

__all__ = ["default_path", "notes", "own", "record", "text"]


def default_path() -> Path:
    """Where this machine's file lies, whether or not it is there."""
    given = os.environ.get("YULOH_DEVICE_FILE")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # as the XDG base directories have it: anything else counts as not set
        cache = os.path.join(_home(), ".cache")
    return Path(cache) / "yuloh" / f"device-{platform.node() or 'localhost'}.json"


def _home() -> str:
    """$HOME, or what the system knows of the user (a container's may be unknown)."""
    home = os.environ.get("HOME", "")
    if os.path.isabs(home):
        return home
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = ""
    if not os.path.isabs(home):
        raise ValueError("device file: HOME is not set and this user has no home. Hint: YULOH_DEVICE_FILE=FILE or --out FILE says where it lies.")
    return home


def text(device: Any = None) -> str:
    """The file's text; "" where nothing was asked for and there is none. Raises ValueError for a file that is not there.

    ``device``: a path, or None for this machine's file.
    """
    try:
        path = default_path() if device is None else Path(device)
    except ValueError:  # no home, so no file
        return ""
    try:
        written = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if device is None and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return ""
        raise ValueError(f"device file: cannot read {path} ({getattr(error, 'strerror', error)}). Hint: yuloh calibrate writes one.") from None
    if not written.strip():
        raise ValueError(f"device file: {path} is empty. Hint: yuloh calibrate writes one.")
    return written


def own() -> Tuple[str, str]:
    """(text of this machine's file, "") or, as an answer about it or about others must not hang on it, ("", the sentence on
    why it cannot be used); ("", "") where there is none."""
    try:
        written = text()
        if written:
            from .catalogue import calibrated, core_device

            entry = calibrated(record(written, default_path()))
            _core.advise_layout(_core.advise_network({"params": 1e9})["network"], {}, core_device(entry), {})  # figures that can be
    except ValueError as error:
        return "", f"this machine's device file is not used: {str(error).removeprefix('advise: ')}"
    return written, ""


def record(written: str, path: Any = "") -> Dict[str, Any]:
    """The contents of a device file, checked. Raises ValueError for what is damaged, or written by another version."""
    try:
        _core.rates_seconds(written, [])
        found = json.loads(written)
    except ValueError as error:
        raise ValueError(f"{path}: {error}" if path else str(error)) from None
    except RecursionError:
        raise ValueError(f"{path or 'device file'}: nested too deeply to be a device file. Hint: run yuloh calibrate.") from None
    return found


def notes(written: str) -> List[str]:
    """Sentences on why this machine's own file may not speak of this process."""
    found = json.loads(written)
    said = []
    if found.get("host") not in (None, platform.node()):
        said.append(f"seconds: the device file was measured on {found['host']}, this is {platform.node()}; yuloh calibrate measures it.")
    if found.get("threads") not in (None, _core.get_num_threads()):
        said.append(f"seconds: the device file was measured with {found['threads']} threads, this process has "
                    f"{_core.get_num_threads()}; yuloh calibrate measures again.")
    return said
