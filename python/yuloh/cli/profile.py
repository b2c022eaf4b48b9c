# SPDX-License-Identifier: Apache-2.0
"""`yuloh profile script.py`: where does the time of a training script go, and the memory?

Runs the script as `yuloh run` does and prints, when it has ended (or failed): where the time went, every kernel with its
share of what this machine can do (measured right afterwards), the steps, and memory at its highest. Beside that it
writes trace.json (for chrome://tracing or ui.perfetto.dev), profile.txt and, with yuloh[report], profile.html.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from ..bench import machine
from . import run


def add(commands) -> None:
    p = commands.add_parser(
        "profile",
        help="run a script and show where its time and memory go",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--out", metavar="DIR", help="folder of the files (default: yuloh-profile-DATE)")
    p.add_argument("--kernels", type=int, default=25, metavar="N", help="kernels to list (default: 25)")
    p.add_argument("--steps", type=int, default=12, metavar="N", help="steps to list (default: 12)")
    p.add_argument("--no-peaks", action="store_true", help="do not measure the machine: no share of peak")
    run.add_options(p)
    p.set_defaults(carry_out=carry_out)


def carry_out(args) -> int:
    from ..profiler.recorder import RECORDER

    for name in ("kernels", "steps"):
        if getattr(args, name) < 1:
            raise ValueError(f"profile: --{name} must be positive, got {getattr(args, name)}; expected 1 or more.")
    folder = Path(args.out or time.strftime("yuloh-profile-%Y%m%d-%H%M%S"))
    try:
        folder.mkdir(parents=True, exist_ok=True)  # before the script has run for hours
    except OSError as error:
        print(f"yuloh profile: the folder {str(folder)!r} cannot be made ({error.strerror}). Hint: --out DIR.", file=sys.stderr)
        return 2
    before = _busy()
    RECORDER.start()
    leaving, status = None, 1
    try:
        status = run.carry_out(args)
    except SystemExit as asked:
        leaving = asked
    finally:
        recording = RECORDER.stop()
    wall = (recording.end - recording.begin) * 1e-9
    others = max(0.0, (_busy() - before) / wall)
    if recording.core["plans"] or recording.events or status == 0:
        _show(recording, args, folder, others)
    if leaving is not None:
        raise leaving
    return status


def _busy() -> float:
    """CPU seconds that all but this process and its children have used, since some time."""
    seconds, own = machine.busy_seconds(), os.times()
    return seconds["busy"] - sum(own[:4]) if seconds else 0.0


def _show(recording, args, folder: Path, others: float) -> None:
    from ..bench import peaks
    from ..profiler import chrome, picture, text
    from ..profiler.analysis import Analysis

    found = {} if args.no_peaks or not recording.core["kernels"] else peaks.measure()
    analysis = Analysis(recording, found, others)
    report = text.report(analysis, kernels=args.kernels, steps=args.steps)
    chrome.write(recording, folder / "trace.json")
    (folder / "profile.txt").write_text(report + "\n", encoding="utf-8")
    sys.stdout.flush()
    print(f"\n{report}")
    page = picture.write(analysis, report, args.script, folder)
    print(f"Files: {folder / 'trace.json'}, {folder / 'profile.txt'}{f', {page}' if page else ''}")
