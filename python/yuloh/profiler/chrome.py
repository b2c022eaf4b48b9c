# SPDX-License-Identifier: Apache-2.0
"""A Recording as a Chrome trace (chrome://tracing, ui.perfetto.dev): the Trace Event Format, JSON object form."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List

from .analysis import memory
from .recorder import Recording

PYTHON, CORE = 1, 1000  # thread numbers: Python's threads from 1 on, the core's from 1000 on


def events(recording: Recording) -> List[Dict[str, Any]]:
    """Complete events ("X") of kernels, phases and Python; counters ("C") of memory; names ("M"). Microseconds."""
    process = os.getpid()
    out: List[Dict[str, Any]] = []

    def at(ns: int) -> float:
        return (ns - recording.begin) / 1000

    def complete(name: str, kind: str, thread: int, begin: int, end: int, **args: Any) -> None:
        out.append({"name": name, "cat": kind, "ph": "X", "pid": process, "tid": thread, "ts": at(begin),
                    "dur": (end - begin) / 1000, "args": args})

    def label(what: str, thread: int, name: str) -> None:
        out.append({"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}})

    label("process_name", 0, "yuloh")
    threads = {name: PYTHON + i for i, name in enumerate(dict.fromkeys(e.thread for e in recording.events))}
    for name, number in threads.items():
        label("thread_name", number, f"Python: {name}")
    core = recording.core
    for number in sorted({p[1] for p in core["phases"]} | {k[2] for k in core["kernels"]}):
        label("thread_name", CORE + number, f"Plans of thread {number}")
    for e in recording.events:
        complete(e.name, e.kind, threads[e.thread], e.begin, e.end)
    for begin, end in recording.steps or []:
        complete("step", "step", PYTHON, begin, end)
    for name, thread, begin, end in core["phases"]:
        complete(name, "phase", CORE + thread, begin, end)
    for plan, step, thread, begin, end in core["kernels"]:
        what, how, refused, where, dtype, flops, moved = core["plans"][plan]["steps"][step]
        args = {"kernel": how, "dtype": dtype, "flop": flops, "bytes": moved, "plan": plan, "step": step}
        if where:
            args["recorded at"] = where
        if refused:
            args["refused"] = refused
        complete(what, "kernel", CORE + thread, begin, end, **args)
    for when, held in memory(recording).timeline:
        out.append({"name": "memory", "ph": "C", "pid": process, "tid": 0, "ts": at(when), "args": {"bytes held": held}})
    return out


def write(recording: Recording, path: "str | os.PathLike") -> None:
    """Writes the trace; parents are made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    trace = {"traceEvents": events(recording), "displayTimeUnit": "ms", "otherData": {"producer": "yuloh profile"}}
    path.write_text(json.dumps(trace), encoding="utf-8")
