# SPDX-License-Identifier: Apache-2.0
"""Progress of `yuloh bench` on a terminal (rich, if installed) or as plain lines in a log."""

from __future__ import annotations

import sys
import time

from ..bench.runner import Progress


class PlainProgress(Progress):
    """One line per phase, at most one a second for rounds; nothing that needs a terminal."""

    def __init__(self, out=None):
        self._out, self._last, self._stem, self._begin = out or sys.stderr, 0.0, "", time.monotonic()

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def phase(self, text: str) -> None:
        stem, now = text.partition(": round")[0], time.monotonic()
        if stem != self._stem or now - self._last > 15:
            print(f"[{now - self._begin:5.0f} s] {text}", file=self._out, flush=True)
            self._stem, self._last = stem, now

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class RichProgress(Progress):
    """A bar with elapsed time and what is being done."""

    def __init__(self, rich_progress, console):
        self._bar = rich_progress.Progress(
            rich_progress.SpinnerColumn(),
            rich_progress.BarColumn(bar_width=28, complete_style="cyan"),
            rich_progress.TaskProgressColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=1.0)

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def phase(self, text: str) -> None:
        self._bar.update(self._task, description=text)

    def advance(self, fraction: float) -> None:
        self._bar.update(self._task, completed=min(1.0, fraction))

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *_):
        self._bar.stop()


def make_progress():
    """The bar on a terminal that has rich, plain lines otherwise."""
    if not sys.stderr.isatty():
        return PlainProgress()
    try:
        import rich.console
        import rich.progress
    except ImportError:
        return PlainProgress()
    return RichProgress(rich.progress, rich.console.Console(stderr=True))
