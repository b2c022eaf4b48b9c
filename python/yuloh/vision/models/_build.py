# SPDX-License-Identifier: Apache-2.0
"""Small helpers shared by the model zoo: channel rounding and weights from a local folder."""

from __future__ import annotations

import os
from typing import Any


def make_divisible(value: float, divisor: int = 8, least: "int | None" = None) -> int:
    """The multiple of `divisor` nearest to `value`, never below `least` nor below 90 % of `value`."""
    least = divisor if least is None else least
    rounded = max(least, int(value + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * value else rounded


def weight_folders() -> list:
    """Folders in which weight files are looked for, first match wins."""
    own = os.environ.get("YULOH_WEIGHTS")
    home = os.path.expanduser("~")
    return ([own] if own else []) + [
        os.path.join(home, ".cache", "yuloh", "weights"),
        os.path.join(home, ".cache", "paddle", "hapi", "weights"),
    ]


def finish(model: Any, arch: str, pretrained: "bool | str") -> Any:
    """`model`, with the weights of ``<arch>.pdparams`` if `pretrained` (True, or a path to such a file).

    Raises:
        FileNotFoundError: the file lies in none of the folders; the message names them.
    """
    if not pretrained:
        return model
    import yuloh

    path = pretrained if isinstance(pretrained, str) else _find(arch)
    model.set_state_dict(yuloh.load(path))
    return model


def _find(arch: str) -> str:
    name = arch + ".pdparams"
    folders = weight_folders()
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(
        f"{arch}: pretrained=True, but {name} lies in none of {folders}; expected Paddle's weight file "
        "there. "
        "Hint: put it into the first folder, or set YULOH_WEIGHTS to the folder that holds it."
    )
