# SPDX-License-Identifier: Apache-2.0
"""`paddle.profiler`: Profiler, RecordEvent, schedulers and exporters, on the core's own record of what ran when.

`yuloh profile script.py` needs no change to the script; these names serve scripts that profile themselves. Device
targets other than the CPU record nothing more: a Plan's kernels are seen wherever they run.
"""

from __future__ import annotations

import os
import socket
import time
from enum import Enum
from typing import Any, Callable, Iterable, List, Optional, Tuple, Union

from . import chrome, text
from .analysis import Analysis, KernelRow
from .recorder import RECORDER, Recording, now

__all__ = [
    "ProfilerState",
    "ProfilerTarget",
    "make_scheduler",
    "export_chrome_tracing",
    "export_protobuf",
    "Profiler",
    "RecordEvent",
    "load_profiler_result",
    "SortedKeys",
    "SummaryView",
    "TracerEventType",
]


class ProfilerState(Enum):
    """What happens in a step: nothing, getting ready, recording, recording whose end hands the result on."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


class ProfilerTarget(Enum):
    """Devices to look at."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


SortedKeys = Enum("SortedKeys", "CPUTotal CPUAvg CPUMax CPUMin GPUTotal GPUAvg GPUMax GPUMin", start=0)
SummaryView = Enum(
    "SummaryView",
    "DeviceView OverView ModelView DistributedView KernelView OperatorView MemoryView MemoryManipulationView UDFView",
    start=0,
)
TracerEventType = Enum(
    "TracerEventType",
    "Operator Dataloader ProfileStep CudaRuntime Kernel Memcpy Memset UserDefined OperatorInner Forward Backward "
    "Optimization Communication PythonOp PythonUserDefined DygraphKernelLaunch StaticKernelLaunch",
    start=0,
)

_RECORDING = (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)


def make_scheduler(
    *, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerState]:
    """State of every step: skip_first closed ones, then cycles of closed, ready and record ones.

    The last recorded step of a cycle is RECORD_AND_RETURN. repeat: cycles, 0 for ever; afterwards CLOSED.
    """
    if closed < 0 or ready < 0 or record < 1 or repeat < 0 or skip_first < 0:
        raise ValueError(
            f"make_scheduler: no step is ever recorded, got closed={closed}, ready={ready}, record={record}, "
            f"repeat={repeat}, skip_first={skip_first}; expected record >= 1 and the others >= 0."
        )

    def state_of(step: int) -> ProfilerState:
        step -= skip_first
        cycle, place = divmod(step, closed + ready + record)
        if step < 0 or (repeat > 0 and cycle >= repeat) or place < closed:
            return ProfilerState.CLOSED
        if place < closed + ready:
            return ProfilerState.READY
        last = place == closed + ready + record - 1
        return ProfilerState.RECORD_AND_RETURN if last else ProfilerState.RECORD

    return state_of


def export_chrome_tracing(dir_name: str, worker_name: Optional[str] = None) -> Callable[["Profiler"], None]:
    """For on_trace_ready: writes `dir_name`/NAME_time_DATE.paddle_trace.json, NAME: worker_name or host and process."""

    def export(profiler: "Profiler") -> None:
        name = worker_name or f"host_{socket.gethostname()}pid_{os.getpid()}"
        stamp = time.strftime("%Y_%m_%d_%H_%M_%S") + f"_{time.time_ns() // 1_000_000 % 1000:03d}"
        profiler.export(os.path.join(dir_name, f"{name}_time_{stamp}.paddle_trace.json"), format="json")

    return export


def export_protobuf(dir_name: str, worker_name: Optional[str] = None) -> Callable[["Profiler"], None]:
    """Paddle's own binary format; not provided."""
    raise NotImplementedError(
        "export_protobuf: Paddle's protobuf format is not written; expected the Chrome trace. "
        "Hint: export_chrome_tracing(dir_name)."
    )


def load_profiler_result(filename: str) -> None:
    """Reads Paddle's protobuf format; not provided."""
    raise NotImplementedError(
        f"load_profiler_result: Paddle's protobuf format is not read, got {filename!r}; expected the Chrome trace. "
        "Hint: json.load reads what Profiler.export wrote."
    )


class RecordEvent:
    """Names a stretch of the program's time, as a context manager or by begin() and end().

    Recorded while a Profiler records or under `yuloh profile`; otherwise it does nothing. With lazy execution the
    stretch covers recording; what it recorded runs where its values are read.
    """

    def __init__(self, name: str, event_type: Any = TracerEventType.PythonUserDefined) -> None:
        self.name, self.event_type, self._begin = name, event_type, None

    def begin(self) -> None:
        self._begin = now() if RECORDER.users else None

    def end(self) -> None:
        if self._begin is not None and RECORDER.users:
            RECORDER.add("user", self.name, self._begin)
        self._begin = None

    def __enter__(self) -> "RecordEvent":
        self.begin()
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()


class Profiler:
    """Profiles the steps that `scheduler` names; step() ends a step.

    Args:
        targets: ProfilerTargets; taken for Paddle's sake.
        scheduler: step number -> ProfilerState, or (start, end): steps start <= n < end; None records everything.
        on_trace_ready: called with this Profiler when a recorded cycle is complete (default: a Chrome trace in
            ./profiler_log).
        timer_only: only count time per step, for step_info().
        record_shapes, profile_memory, emit_nvtx, custom_device_types, with_flops: taken for Paddle's sake;
            memory and FLOPs are always there.

    Raises:
        TypeError: scheduler is neither callable nor a pair.
    """

    def __init__(
        self,
        *,
        targets: Optional[Iterable[ProfilerTarget]] = None,
        scheduler: Union[Callable[[int], ProfilerState], Tuple[int, int], None] = None,
        on_trace_ready: Optional[Callable[["Profiler"], None]] = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = False,
        custom_device_types: Iterable[str] = (),
        with_flops: bool = False,
    ) -> None:
        self.targets = list(targets) if targets is not None else [ProfilerTarget.CPU]
        self.timer_only = timer_only
        self.scheduler = _scheduler(scheduler)
        self.on_trace_ready = on_trace_ready or export_chrome_tracing("./profiler_log/")
        self.step_num = 0
        self.current_state = ProfilerState.CLOSED
        self.previous_state = ProfilerState.CLOSED
        self.profiler_result: Optional[Recording] = None
        self._begin: Optional[int] = None
        self._steps: List[Tuple[int, int]] = []
        self._step_begin = 0
        self._timer: List[Tuple[float, int]] = []

    def __enter__(self) -> "Profiler":
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Step 0 begins."""
        self._timer = []
        if not self.timer_only:
            self._enter(self.scheduler(self.step_num))
        self._step_begin = now()

    def stop(self) -> None:
        """Ends the profile; what was being recorded is handed to on_trace_ready."""
        if self.timer_only:
            return
        recorded = self._begin is not None and self.current_state in _RECORDING
        self._leave()
        self.current_state = ProfilerState.CLOSED
        if recorded:
            self.on_trace_ready(self)

    def step(self, num_samples: Optional[int] = None) -> None:
        """Ends a step and enters the next one's state. num_samples: of this step, for step_info()."""
        end = now()
        self._timer.append(((end - self._step_begin) * 1e-9, num_samples or 0))
        if self._begin is not None and self.current_state in _RECORDING:
            self._steps.append((self._step_begin, end))
        self.step_num += 1
        if not self.timer_only:
            state = self.scheduler(self.step_num)
            if self.current_state is ProfilerState.RECORD_AND_RETURN:
                self._leave()
                self.on_trace_ready(self)
            self._enter(state)
        self._step_begin = now()

    def step_info(self, unit: Optional[str] = None) -> str:
        """Mean time of the steps since the last call, with samples (or `unit`) per second where they were counted."""
        steps, self._timer = self._timer, []
        if not steps:
            return ""
        seconds, samples = sum(s for s, _ in steps), sum(n for _, n in steps)
        speed = f"{samples / seconds:.3f} {unit or 'samples'}/s" if samples else f"{len(steps) / seconds:.3f} steps/s"
        return f" batch_cost: {seconds / len(steps):.5f} s ips: {speed}"

    def export(self, path: str = "", format: str = "json") -> None:
        """Writes the last recorded cycle as a Chrome trace."""
        if format != "json":
            raise NotImplementedError(
                f"Profiler.export: the format is not provided, got {format!r}; expected 'json'. Hint: a Chrome trace."
            )
        if self.profiler_result is None:
            raise RuntimeError(
                "Profiler.export: nothing was recorded, got a profile without a finished cycle; expected start(), "
                "steps and stop(). Hint: check the scheduler."
            )
        chrome.write(self.profiler_result, path)

    def summary(
        self,
        sorted_by: Any = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: Any = None,
    ) -> None:
        """Prints what the last recorded cycle was spent on. views: a SummaryView or several (default: all).

        op_detail and thread_sep are taken for Paddle's sake: kernels are always listed, all threads together.
        """
        if self.profiler_result is None:
            return print("Profiler: nothing was recorded.")
        if time_unit not in text.UNITS:
            raise ValueError(f"Profiler.summary: unknown time_unit, got {time_unit!r}; expected one of {', '.join(text.UNITS)}.")
        a = Analysis(self.profiler_result)
        a.kernels.sort(key=_order(sorted_by))
        wanted = set(SummaryView) if views is None else set(views) if isinstance(views, (list, tuple, set)) else {views}
        print(text.report(a, kernels=50, unit=time_unit, parts={_PART.get(v) for v in wanted}))

    def _enter(self, state: ProfilerState) -> None:
        self.previous_state, self.current_state = self.current_state, state
        if state is ProfilerState.CLOSED:
            self._leave()
        elif self._begin is None:
            RECORDER.start()
            self._begin, self._steps = now(), []
        if state in _RECORDING and self.previous_state not in _RECORDING:
            self._begin, self._steps = now(), []  # not what happened while getting ready

    def _leave(self) -> None:
        if self._begin is None:
            return
        self.profiler_result = RECORDER.stop(self._begin)
        self.profiler_result.steps = self._steps or None
        self._begin = None


_PART = {
    SummaryView.OverView: "split",
    SummaryView.ModelView: "steps",
    SummaryView.KernelView: "kernels",
    SummaryView.OperatorView: "kernels",
    SummaryView.MemoryView: "memory",
    SummaryView.MemoryManipulationView: "memory",
    SummaryView.UDFView: "events",
}


def _order(key: Any) -> Callable[[KernelRow], float]:
    name = getattr(key, "name", str(key))[3:]
    return {
        "Avg": lambda r: -r.seconds / r.calls,
        "Max": lambda r: -r.longest,
        "Min": lambda r: -r.shortest,
    }.get(name, lambda r: -r.seconds)


def _scheduler(given: Any) -> Callable[[int], ProfilerState]:
    if given is None:
        return lambda step: ProfilerState.RECORD
    if callable(given):
        return given
    if isinstance(given, (tuple, list)) and len(given) == 2 and given[0] < given[1]:
        start, end = max(0, given[0]), given[1]
        ready = min(1, start)
        return make_scheduler(closed=start - ready, ready=ready, record=end - start, repeat=1)
    raise TypeError(
        f"Profiler: scheduler is no schedule, got {given!r}; expected a function of the step number or a pair "
        "(start, end) with start < end. Hint: make_scheduler(closed=1, ready=1, record=3)."
    )
