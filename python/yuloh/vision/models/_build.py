# SPDX-License-Identifier: Apache-2.0
"""Small helpers shared by the model zoo: channel rounding and pretrained weights."""

from __future__ import annotations

import json
import os
from typing import Any


def make_divisible(value: float, divisor: int = 8, least: "int | None" = None) -> int:
    """The multiple of `divisor` nearest to `value`, never below `least` nor below 90 % of `value`."""
    least = divisor if least is None else least
    rounded = max(least, int(value + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * value else rounded


def weight_folders() -> list:
    """Folders in which weight files are looked for; downloads go into the first."""
    mirror = os.environ.get("YULOH_WEIGHTS") or ""
    home = os.path.expanduser("~")
    return ([] if not mirror or "://" in mirror else [mirror]) + [
        os.path.join(home, ".cache", "yuloh", "weights"),
        os.path.join(home, ".cache", "paddle", "hapi", "weights"),
    ]


def official_weights() -> dict:
    """{architecture: (address, MD5)} of the files that Paddle publishes for its zoo."""
    with open(os.path.join(os.path.dirname(__file__), "weights.json"), encoding="utf-8") as f:
        return {arch: tuple(entry) for arch, entry in json.load(f).items()}


def finish(model: Any, arch: str, pretrained: "bool | str") -> Any:
    """`model`, with the weights that Paddle publishes for `arch` if `pretrained` (True, or a path to a
    ``.pdparams`` file of one's own; PyTorch's ``.pth`` and safetensors are converted).

    The file is taken from the folder or address in YULOH_WEIGHTS (a mirror), from the cache folders, or from
    Paddle's own address, and its checksum is verified.

    Raises:
        ValueError: Paddle publishes none for this architecture.
        RuntimeError: a damaged file, or no network; the message names the file and the folder.
    """
    if not pretrained:
        return model
    import yuloh

    path = pretrained if isinstance(pretrained, str) else _obtain(arch)
    if not path.endswith(".pdparams"):
        from ...convert import weights

        found = weights(path, model)
        if not found.complete:
            raise ValueError(f"{arch}: {path} does not fit.\n{found.table(False)}")
        model.set_state_dict(found.state)
        return model
    model.set_state_dict(yuloh.load(path))
    return model


def _obtain(arch: str) -> str:
    from ..datasets._files import obtain

    known = official_weights()
    if arch not in known:
        raise ValueError(
            f"{arch}: pretrained=True, but Paddle publishes no weights for it; expected one of {sorted(known)}. "
            "Hint: pretrained='FILE.pdparams' reads a file of your own."
        )
    url, md5 = known[arch]
    filename = url.rsplit("/", 1)[1]
    mirror = os.environ.get("YULOH_WEIGHTS") or ""
    urls = [mirror.rstrip("/") + "/" + filename] if "://" in mirror else []
    hints = (
        "pass pretrained='FILE.pdparams' to use a file of your own",
        "set YULOH_WEIGHTS to a folder or address that has it",
    )
    return obtain(arch, weight_folders(), filename, md5, [*urls, url], True, hints)
