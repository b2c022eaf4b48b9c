# SPDX-License-Identifier: Apache-2.0
"""The progress line of fit, evaluate and predict: redrawn in place (verbose 1) or one line a time
(verbose 2).
"""

from __future__ import annotations

import sys
import time
from typing import Any, Sequence

import numpy as np


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(_text(v) for v in value)
    if isinstance(value, np.ndarray):
        return " ".join(_text(v) for v in value.reshape(-1).tolist())
    if isinstance(value, (float, np.floating)):
        return f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.4e}"
    return str(value)


def _duration(seconds: float) -> str:
    if seconds >= 3600:
        return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"
    if seconds >= 60:
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
    return f"{int(seconds)}s"


class ProgressBar:
    """One line about `num` steps (None: not known)."""

    def __init__(self, num: "int | None" = None, width: int = 30, verbose: int = 1, file: Any = None) -> None:
        self._num = num if num else None
        self._width = width
        self._verbose = verbose
        self._file = file
        self._shown = 0
        self._start = time.time()

    def start(self) -> None:
        """Start the clock and a new line."""
        self._start = time.time()
        self._shown = 0

    def update(self, current: int, values: Sequence = ()) -> None:
        """Show step `current` and (name, value) pairs."""
        done = self._num is not None and current >= self._num
        per_step = (time.time() - self._start) / max(current, 1)
        digits = len(str(self._num)) if self._num else 0
        line = f"step {current:{digits}d}/{self._num}" if self._num else f"step {current}"
        if self._verbose == 1 and self._num:
            filled = min(self._width, int(self._width * current / self._num))
            head = "" if filled >= self._width else ">"
            line += f" [{('=' * max(filled - len(head), 0) + head).ljust(self._width, '.')}]"
        for name, value in values:
            line += f" - {name}: {_text(value)}"
        if self._verbose == 1 and self._num and not done:
            line += f" - ETA: {_duration(per_step * (self._num - current))}"
        line += f" - {self._speed(per_step)}"
        self._put(line, done)

    @staticmethod
    def _speed(per_step: float) -> str:
        if per_step >= 1:
            return f"{per_step:.0f}s/step"
        return f"{per_step * 1e3:.0f}ms/step" if per_step >= 1e-3 else f"{per_step * 1e6:.0f}us/step"

    def _put(self, line: str, done: bool) -> None:
        out = self._file or sys.stdout
        if self._verbose != 1:
            print(line, file=out, flush=True)
            return
        end = "\n" if done else ""
        print("\r" + line.ljust(self._shown), end=end, file=out, flush=True)
        self._shown = 0 if done else len(line)
