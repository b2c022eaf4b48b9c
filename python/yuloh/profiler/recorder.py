# SPDX-License-Identifier: Apache-2.0
"""Collects what happens between start and stop: the core's kernels, phases and storages, and Python's own events.

The core is asked to record only while somebody wants it, so nothing here costs anything otherwise. Loader waits and
steps are seen by wrapping DataLoader.__iter__ and Optimizer.step for that time. Times are time.perf_counter_ns().
"""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from .. import _core

now = time.perf_counter_ns


@dataclass
class Event:
    """A stretch of Python's time. kind: "loader", "user" (RecordEvent), "step" (an optimizer's step())."""

    kind: str
    name: str
    thread: str
    begin: int
    end: int
    recording_ns: int = 0  # step: what the core had spent recording until then


@dataclass
class Recording:
    """Everything between `begin` and `end`; `core` is _core.profile_data()."""

    begin: int
    end: int
    core: Dict[str, Any]
    events: List[Event] = field(default_factory=list)
    steps: Optional[List[Tuple[int, int]]] = None  # (begin, end), where the program tells them itself

    def window(self, begin: int, end: int) -> "Recording":
        """The part of it between two times: what lies inside wholly, and the memory held at its begin."""
        core = dict(self.core)
        core["kernels"] = [k for k in core["kernels"] if begin <= k[3] and k[4] <= end]
        core["phases"] = [p for p in core["phases"] if begin <= p[2] and p[3] <= end]
        core["memory"] = [m for m in core["memory"] if m[0] <= end]
        return Recording(begin, end, core, [e for e in self.events if begin <= e.begin and e.end <= end])


class _Recorder:
    """One per process; several users may overlap, each takes its window."""

    def __init__(self) -> None:
        self.users, self.begin, self.events = 0, 0, []  # type: int, int, List[Event]
        self.undo: list = []
        self.lock = threading.Lock()

    def start(self) -> None:
        with self.lock:
            self.users += 1
            if self.users > 1:
                return
            self.events, self.begin = [], now()
            _core.start_profile()
            self._wrap()

    def stop(self, begin: Optional[int] = None) -> Recording:
        """Ends one user's recording, which began at `begin` (default: all that is there)."""
        with self.lock:
            end = now()
            self.users -= 1
            if not self.users:
                _core.stop_profile()
                self._unwrap()
            whole = Recording(self.begin, end, _core.profile_data(), list(self.events))
        return whole if begin is None or begin <= whole.begin else whole.window(begin, end)

    def add(self, kind: str, name: str, begin: int) -> None:
        recorded = _core.profile_recording_ns() if kind == "step" else 0
        self.events.append(Event(kind, name, threading.current_thread().name, begin, now(), recorded))

    def _wrap(self) -> None:
        from ..io.dataloader import DataLoader
        from ..optimizer.optimizer import Optimizer

        self._replace(DataLoader, "__iter__", lambda made: lambda loader: _TimedIterator(made(loader), self))
        kinds = [Optimizer]
        for kind in kinds:
            kinds.extend(kind.__subclasses__())
            if "step" in vars(kind):
                self._replace(kind, "step", self._timed_step)

    def _timed_step(self, step):
        @functools.wraps(step)
        def timed(optimizer, *args, **kwargs):
            begin = now()
            try:
                return step(optimizer, *args, **kwargs)
            finally:
                self.add("step", f"{type(optimizer).__name__}.step", begin)

        return timed

    def _replace(self, owner: type, name: str, wrap) -> None:
        held = vars(owner)[name]
        self.undo.append((owner, name, held))
        setattr(owner, name, wrap(held))

    def _unwrap(self) -> None:
        while self.undo:
            setattr(*self.undo.pop())


class _TimedIterator:
    """An iterator of a DataLoader whose __next__ is timed; everything else is the iterator's own."""

    def __init__(self, made, recorder: _Recorder) -> None:
        self._made, self._recorder = made, recorder

    def __iter__(self):
        return self

    def __next__(self):
        begin = now()
        item = next(self._made)
        if self._recorder.users:
            self._recorder.add("loader", "DataLoader", begin)
        return item

    def __getattr__(self, name):
        return getattr(self._made, name)


RECORDER = _Recorder()
