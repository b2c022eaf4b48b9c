# SPDX-License-Identifier: Apache-2.0
"""An Analysis in words and tables, for a terminal."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Set

from ..bench.peaks import describe
from ..report import columns
from .analysis import Analysis, KernelRow, StepLine

KERNEL = "kernel [library: how]"
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
PARTS = (
    ("run", "kernels"),
    ("python", "Python (the script's own work)"),
    ("record", "recording (Python call to graph)"),
    ("lookup", "finding the plan (hash, lookup)"),
    ("compile", "compiling plans"),
    ("loader", "waiting for the DataLoader"),
)


def size(n: float) -> str:
    """Bytes with a unit of 2^10."""
    for unit in ("B", "KB", "MB"):
        if abs(n) < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.2f} GB"


def short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def roof(row: KernelRow) -> str:
    share = row.share_of_roof()
    if share is None:
        return "-"
    return f"{share:.0%} {row.bound}" if share <= 1.05 else "in cache"  # faster than memory: the data lay in a cache


def peaks_line(a: Analysis) -> str:
    return f"Measured peaks of this machine: {describe(a.peaks)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> List[str]:
    """One line for each row, however wide."""
    return columns.table(head, rows, left, limit=columns.UNBOUNDED, indent="  ")


def kernel_table(a: Analysis, count: int, unit: str = "ms") -> Iterator[str]:
    total, scale = sum(r.seconds for r in a.kernels), UNITS[unit]
    digits = 4 if unit == "s" else 2
    shown, rest = a.kernels[:count], a.kernels[count:]

    def rate(amount, seconds):
        return f"{amount / seconds / 1e9 if seconds else 0:.1f}"

    def spent(seconds, calls):
        return f"{seconds * scale:.{digits}f}", f"{seconds / total:.1%}", f"{calls}"

    rows = [(*spent(r.seconds, r.calls), f"{r.seconds / r.calls * 1e6:.1f}", rate(r.flops, r.seconds), rate(r.bytes, r.seconds), roof(r),
             f"{short(r.what, 60)} [{short(r.how, 60)}]") for r in shown]
    if rest:
        rows.append((*spent(sum(r.seconds for r in rest), sum(r.calls for r in rest)), "", "", "", "", f"{len(rest)} further kernels"))
    head, *lines = _table((unit, "share", "calls", "us/call", "GFLOP/s", "GB/s", "of peak", KERNEL), rows, left=(7,))
    yield head
    for r, line in zip(shown, lines):
        yield line
        note = []
        if r.where:
            note.append(f"at {r.where[0]}" + (f" and {len(r.where) - 1} more lines" if len(r.where) > 1 else ""))
        if r.refused:
            note.append(r.refused)
        if note:
            yield f"{'':{head.index(KERNEL)}}{'; '.join(note)}"
    yield from lines[len(shown):]


def step_table(a: Analysis, count: int) -> Iterator[str]:
    rows, previous = [], -1
    for s in _chosen(a.steps, count):
        if s.number != previous + 1:
            rows.append(("...", *[""] * 8))
        previous = s.number
        ms = (s.wall_s, s.loader_s, s.python_s, s.record_s, s.lookup_s, s.compile_s, s.run_s)
        rows.append((f"{s.number + 1}", *(f"{x * 1e3:.2f}" for x in ms), size(s.peak_bytes)))
    yield from _table(("step", "ms", "loader", "Python", "record", "lookup", "compile", "kernels", "peak"), rows)
    if len(a.steps) > 1:
        yield f"median of the {len(a.steady())} steps after the last plan was compiled: {a.typical_step_s() * 1e3:.2f} ms"


def _chosen(steps: List[StepLine], count: int) -> List[StepLine]:
    """The first and last ones and the slowest in between, in order."""
    if len(steps) <= count:
        return steps
    ends = count // 3
    middle = sorted(steps[ends:-ends], key=lambda s: -s.wall_s)[: count - 2 * ends]
    return [*steps[:ends], *sorted(middle, key=lambda s: s.number), *steps[-ends:]]


def memory_lines(a: Analysis, count: int) -> Iterator[str]:
    m = a.memory
    yield f"Memory: peak {size(m.peak_bytes)}, {(m.peak_at - a.recording.begin) * 1e-9:.3f} s after the begin; alive then:"
    rows = [(size(held), f"{held / m.peak_bytes if m.peak_bytes else 0:.1%}", f"{pieces} x", short(what, 80) + (f" at {where}" if where else ""))
            for held, what, where, pieces in m.alive[:count]]
    rest = m.alive[count:]
    if rest:
        rows.append((size(sum(r[0] for r in rest)), "", f"{sum(r[3] for r in rest)} x", "others"))
    yield from _table((), rows, left=(3,))
    yield "  " + sparkline(a)


def sparkline(a: Analysis, width: int = 72) -> str:
    """Bytes held over time, one character per slice: its highest."""
    m, most = a.memory, a.memory.peak_bytes or 1
    begin, span = a.recording.begin, max(1, a.recording.end - a.recording.begin)
    slices, k, held = [], 0, m.timeline[0][1]
    for i in range(width):
        high = held
        while k < len(m.timeline) and m.timeline[k][0] <= begin + span * (i + 1) // width:
            held = m.timeline[k][1]
            high = max(high, held)
            k += 1
        slices.append(high)
    return "".join(" ▁▂▃▄▅▆▇█"[min(8, round(8 * h / most))] for h in slices) + f"  0 to {a.total_s:.2f} s"


def split_lines(a: Analysis) -> Iterator[str]:
    yield from _table((), [(f"{a.split[key]:.3f} s", f"{a.split[key] / a.total_s:.1%}", words) for key, words in PARTS], left=(2,))


def conclusion(a: Analysis) -> str:
    """One sentence that says what the figures mean."""
    if not a.kernels:
        return "Nothing was computed: the script read no tensor and ended no step."
    # Steps judge the training itself; without them everything from import to exit counts.
    steps = a.steady() if len(a.steps) > 2 else []
    wall = sum(s.wall_s for s in steps) if steps else a.total_s
    part = {key: (sum(getattr(s, f"{key}_s") for s in steps) if steps else a.split[key]) for key, _ in PARTS}
    whose = "of a steady step" if steps else "of the time"
    largest = max(part, key=part.get)
    share = f"{part[largest] / wall:.0%} {whose}"
    if largest == "loader":
        return (f"The DataLoader is waited for {share}: more workers (num_workers) or cheaper transforms would help; faster "
                "kernels would not.")
    if largest == "compile":
        plans, runs = len(a.recording.core["plans"]), sum(p[0] == "run" for p in a.recording.core["phases"])
        return (f"Compiling takes {share}, {plans} plans for {runs} runs: "
                + ("shapes or the program change from step to step; padding to a few lengths would reuse plans."
                   if plans > 4 else "the run is too short for it to be spread over many steps."))
    if largest in ("python", "record", "lookup"):
        return (f"Python and recording take {(part['python'] + part['record'] + part['lookup']) / wall:.0%} {whose}, kernels "
                f"{part['run'] / wall:.0%}: larger batches or less work in the script's loop would help; faster kernels would not.")
    top = a.kernels[0]
    total = sum(r.seconds for r in a.kernels)
    reach = top.share_of_roof()
    how = (f", at {reach:.0%} of this machine's measured {top.bound} peak" if reach and reach <= 1.05 else "")
    all_roof = sum(r.roof_s for r in a.kernels) / total
    lead = f"Kernels take {share}; the largest, {short(top.what, 60)}, takes {top.seconds / total:.0%} of that{how}"
    if not a.peaks:
        return lead + "."
    if all_roof < 0.1:
        return (f"{lead}; all together they reach {all_roof:.0%} of what the machine allows: they are too small for it (larger "
                "batches would help), or other programs held the CPUs.")
    return lead + (f"; all kernels together reach {all_roof:.0%} of what the machine allows, so at most {1 / all_roof:.1f}x is "
                   "left in them." if all_roof < 0.95 else "; the machine's peaks leave hardly more.")


def event_lines(a: Analysis) -> Iterator[str]:
    """What the program named by RecordEvent."""
    named: Dict[str, List[int]] = {}
    for e in a.recording.events:
        if e.kind == "user":
            named.setdefault(e.name, []).append(e.end - e.begin)
    most = sorted(named.items(), key=lambda kv: -sum(kv[1]))
    yield from _table((), [(f"{sum(spent) * 1e-9:.3f} s", f"{len(spent)} x", name) for name, spent in most], left=(2,))


def report(a: Analysis, kernels: int = 25, steps: int = 12, alive: int = 12, unit: str = "ms",
           parts: Optional[Set[Optional[str]]] = None) -> str:
    """The whole report, or those of its parts: split, kernels, steps, memory, events."""
    runs = sum(p[0] == "run" for p in a.recording.core["phases"])
    blocks = [[f"Profile: {a.total_s:.3f} s, {len(a.steps)} steps, {runs} plan runs of {len(a.recording.core['plans'])} plans, "
               f"{len(a.recording.core['kernels'])} kernel runs, {a.recording.core['recorded']} recorded calls"]]
    if a.peaks:
        blocks[0].append(peaks_line(a))
    if a.others_cpus > 0.15:
        blocks[0].append(f"Other programs used {a.others_cpus:.1f} CPUs meanwhile: a quiet machine would be faster.")
    for name, lines in (
        ("split", split_lines(a)),
        ("kernels", kernel_table(a, kernels, unit) if a.kernels else ()),
        ("steps", step_table(a, steps) if a.steps else ()),
        ("events", event_lines(a)),
        ("memory", memory_lines(a, alive)),
        ("split", (conclusion(a),)),
    ):
        if parts is None or name in parts:
            blocks.append(list(lines))
    return "\n\n".join("\n".join(block) for block in blocks if block)
