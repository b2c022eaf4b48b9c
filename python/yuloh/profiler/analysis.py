# SPDX-License-Identifier: Apache-2.0
"""From a Recording to figures: kernels against the machine's roofs, steps, memory over time, where the time went."""

from __future__ import annotations

import bisect
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Dict, List, Optional, Tuple

from .recorder import Recording

NS = 1e-9


@dataclass
class KernelRow:
    """All calls of one kernel. Times in seconds; roof_s: what the measured peaks would allow."""

    what: str
    how: str
    dtype: str
    refused: str
    where: List[str] = field(default_factory=list)
    calls: int = 0
    seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    compute_s: float = 0.0
    memory_s: float = 0.0
    roof_s: float = 0.0
    longest: float = 0.0
    shortest: float = float("inf")

    @property
    def bound(self) -> str:
        return "compute" if self.compute_s >= self.memory_s else "memory"

    def share_of_roof(self) -> Optional[float]:
        return self.roof_s / self.seconds if self.seconds and self.roof_s else None


@dataclass
class StepLine:
    """One training step; times in seconds. python_s: what is left over, the script's own work."""

    number: int
    begin: int
    end: int
    wall_s: float
    loader_s: float
    record_s: float
    lookup_s: float
    compile_s: float
    run_s: float
    python_s: float
    peak_bytes: int


@dataclass
class Memory:
    """timeline: (ns, bytes held), alive: (bytes, what, where, pieces) at the peak, largest first."""

    timeline: List[Tuple[int, int]]
    peak_bytes: int
    peak_at: int
    alive: List[Tuple[int, str, str, int]]


class Analysis:
    """peaks: operations/s by "fp32", "bf16", "int8" and bytes/s by "read", "copy" (bench.peaks.measure).

    others_cpus: CPUs that other programs used meanwhile.
    """

    def __init__(
        self, recording: Recording, peaks: Optional[Dict[str, float]] = None, others_cpus: float = 0.0
    ) -> None:
        self.recording, self.peaks, self.others_cpus = recording, peaks or {}, others_cpus
        self.total_s = (recording.end - recording.begin) * NS
        self.kernel_s = _own_seconds(recording.core["kernels"])
        self.kernels = self._kernels()
        self.memory = memory(recording)
        self.steps = self._steps()
        self.split = self._split(recording.begin, recording.end, recording.core["recording_ns"])

    # -- kernels ---------------------------------------------------------------------------------------
    def _kernels(self) -> List[KernelRow]:
        rows: Dict[tuple, KernelRow] = {}
        plans = self.recording.core["plans"]
        stream = max(self.peaks.get("read", 0), self.peaks.get("copy", 0))
        for (plan, step, *_), seconds in zip(self.recording.core["kernels"], self.kernel_s):
            what, how, refused, where, dtype, flops, moved = plans[plan]["steps"][step]
            how = how.split("\n")[0]
            row = rows.setdefault((what, how, refused), KernelRow(what, how, dtype, refused))
            compute = flops / self._arithmetic(what, dtype) if self.peaks else 0.0
            transfer = moved / stream if stream else 0.0
            row.calls += 1
            row.seconds += seconds
            row.longest, row.shortest = max(row.longest, seconds), min(row.shortest, seconds)
            row.flops += flops
            row.bytes += moved
            row.compute_s += compute
            row.memory_s += transfer
            row.roof_s += max(compute, transfer)
            if where and where not in row.where:
                row.where.append(where)
        return sorted(rows.values(), key=lambda r: -r.seconds)

    def _arithmetic(self, what: str, dtype: str) -> float:
        """The roof of this kernel's arithmetic: fused loops compute in fp32 whatever they read."""
        kind = {"bfloat16": "bf16", "int8": "int8", "uint8": "int8"}.get(dtype, "fp32") if ":" in what else "fp32"
        found = self.peaks.get(kind) or self.peaks.get("fp32") or float("inf")
        return found / 2 if dtype == "float64" else found

    # -- where the time went ---------------------------------------------------------------------------
    def _split(self, begin: int, end: int, recording_ns: float) -> Dict[str, float]:
        phases: Dict[str, float] = defaultdict(float)
        for name, _, first, last in self.recording.core["phases"]:
            if begin <= first < end:
                phases[name] += (last - first) * NS
        inside = [(p[2], p[3]) for p in self.recording.core["phases"]]
        waits = [e for e in self.recording.events if e.kind == "loader" and begin <= e.begin < end]
        loader = sum((e.end - e.begin - _covered(inside, e.begin, e.end)) * NS for e in waits)
        wall = (end - begin) * NS
        known = {
            "loader": loader,
            "record": recording_ns * NS,
            "lookup": phases["lookup"],
            "compile": phases["compile"],
            "run": phases["run"],
        }
        return {**known, "python": max(0.0, wall - sum(known.values())), "wall": wall}

    # -- steps -----------------------------------------------------------------------------------------
    def _steps(self) -> List[StepLine]:
        told = self.recording.steps
        marks = [e for e in self.recording.events if e.kind == "step"]
        edges = self._boundaries(marks)
        bounds = told or list(zip(edges, edges[1:]))
        lines, held = [], _Peaks(self.memory.timeline)
        spent = [0, *[m.recording_ns for m in marks]]
        for i, (begin, end) in enumerate(bounds):
            recorded = spent[i + 1] - spent[i] if not told and i + 1 < len(spent) else 0
            s = self._split(begin, end, recorded)
            lines.append(
                StepLine(i, begin, end, s["wall"], s["loader"], s["record"], s["lookup"], s["compile"], s["run"],
                         s["python"], held.most(begin, end))
            )
        return lines

    def _boundaries(self, marks: list) -> List[int]:
        """Begin of the recording, then the end of every step: the run that the step's update was part of, which is
        the first one after optimizer.step() returned; or that return, where nothing ran before the next step."""
        runs = sorted((p[2], p[3]) for p in self.recording.core["phases"] if p[0] == "run")
        starts, out = [r[0] for r in runs], [self.recording.begin]
        for mark, following in zip(marks, [*marks[1:], None]):
            k = bisect.bisect_left(starts, mark.end)
            ran = k < len(runs) and (following is None or runs[k][0] < following.end)
            out.append(runs[k][1] if ran else mark.end)
        return out

    def steady(self) -> List[StepLine]:
        """Steps from the first one on after which nothing was compiled any more; all, if there are none."""
        last = max([i for i, s in enumerate(self.steps) if s.compile_s > 0], default=-1)
        return self.steps[last + 1 :] or self.steps

    def typical_step_s(self) -> Optional[float]:
        return median(s.wall_s for s in self.steady()) if self.steps else None


def _own_seconds(kernels: list) -> List[float]:
    """Seconds of every kernel run without those inside it (the body of a loop), in the order given."""
    own = [(k[4] - k[3]) * NS for k in kernels]
    open_runs: Dict[int, list] = defaultdict(list)
    for i in sorted(range(len(kernels)), key=lambda i: (kernels[i][3], -kernels[i][4])):
        stack = open_runs[kernels[i][2]]
        while stack and kernels[stack[-1]][4] <= kernels[i][3]:
            stack.pop()
        if stack:
            own[stack[-1]] -= (kernels[i][4] - kernels[i][3]) * NS
        stack.append(i)
    return [max(0.0, s) for s in own]


def _covered(spans: List[Tuple[int, int]], begin: int, end: int) -> int:
    return sum(max(0, min(last, end) - max(first, begin)) for first, last in spans)


class _Peaks:
    """Most bytes held between two times."""

    def __init__(self, timeline: List[Tuple[int, int]]) -> None:
        self.timeline, self.times = timeline, [t for t, _ in timeline]

    def most(self, begin: int, end: int) -> int:
        low, high = bisect.bisect_right(self.times, begin), bisect.bisect_right(self.times, end)
        return max((b for _, b in self.timeline[max(0, low - 1) : high]), default=0)


def memory(recording: Recording) -> Memory:
    """Walks the storages taken and given back."""
    held = peak = recording.core["held_at_start"]
    peak_at = recording.begin
    timeline = [(recording.begin, held)]
    for when, _, size, _, _ in recording.core["memory"]:
        held += size
        if when < recording.begin:  # before this window: only how much is left of it counts
            timeline[0], peak = (recording.begin, held), held
            continue
        timeline.append((when, held))
        if held > peak:
            peak, peak_at = held, when
    return Memory(timeline, peak, peak_at, _alive_at(recording, peak_at, peak))


def _alive_at(recording: Recording, when: int, total: int) -> List[Tuple[int, str, str, int]]:
    blocks: Dict[int, tuple] = {}
    for at, block, size, plan, result in recording.core["memory"]:
        if at > when:
            break
        if size > 0:
            blocks[block] = (size, plan, result)
        else:
            blocks.pop(block, None)
    found: Dict[Tuple[str, str], List[int]] = defaultdict(lambda: [0, 0])

    def add(what: str, where: str, size: int) -> None:
        entry = found[(what, where)]
        entry[0] += size
        entry[1] += 1

    plans: List[Dict[str, Any]] = recording.core["plans"]
    known = 0
    for size, plan, result in blocks.values():
        known += size
        if plan < 0:
            add("data from outside (NumPy, loader, load)", "", size)
        elif result >= 0:
            what, where, _ = plans[plan]["results"][result]
            add(f"result of {what}", where, size)
        else:
            rest = size
            for what, where, part in plans[plan]["arena"]:
                add(f"temporary of {what}", where, part)
                rest -= part
            if rest > 0:
                add("gaps of the arena, and what is in it at other times", "", rest)
    if total - known > 0:
        add("held before the profile began", "", total - known)
    return sorted(((b, what, where, n) for (what, where), (b, n) in found.items()), reverse=True)
