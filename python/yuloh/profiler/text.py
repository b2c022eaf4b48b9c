# SPDX-License-Identifier: Apache-2.0
"""An Analysis in words and tables, for a terminal."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Set

from ..bench.peaks import describe
from .analysis import Analysis, KernelRow, StepLine

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


def kernel_table(a: Analysis, count: int, unit: str = "ms") -> Iterator[str]:
    total, scale = sum(r.seconds for r in a.kernels), UNITS[unit]
    digits = 4 if unit == "s" else 2
    yield (f"{unit:>9} {'share':>6} {'calls':>6} {'us/call':>8} {'GFLOP/s':>8} {'GB/s':>7} {'of peak':>12}  "
           "kernel [library: how]")
    for r in a.kernels[:count]:
        yield (f"{r.seconds * scale:9.{digits}f} {r.seconds / total:6.1%} {r.calls:6d} {r.seconds / r.calls * 1e6:8.1f} "
               f"{r.flops / r.seconds / 1e9 if r.seconds else 0:8.1f} {r.bytes / r.seconds / 1e9 if r.seconds else 0:7.1f} "
               f"{roof(r):>12}  {short(r.what, 60)} [{short(r.how, 60)}]")
        note = []
        if r.where:
            note.append(f"at {r.where[0]}" + (f" and {len(r.where) - 1} more lines" if len(r.where) > 1 else ""))
        if r.refused:
            note.append(r.refused)
        if note:
            yield f"{'':62}  {'; '.join(note)}"
    rest = a.kernels[count:]
    if rest:
        yield (f"{sum(r.seconds for r in rest) * scale:9.{digits}f} {sum(r.seconds for r in rest) / total:6.1%} "
               f"{sum(r.calls for r in rest):6d} {'':39}  {len(rest)} further kernels")


def step_table(a: Analysis, count: int) -> Iterator[str]:
    yield (f"{'step':>6} {'ms':>9} {'loader':>8} {'Python':>8} {'record':>8} {'lookup':>8} {'compile':>8} {'kernels':>8} "
           f"{'peak':>10}")
    chosen = _chosen(a.steps, count)
    previous = -1
    for s in chosen:
        if s.number != previous + 1:
            yield f"{'...':>6}"
        previous = s.number
        ms = " ".join(f"{x * 1e3:8.2f}" for x in (s.loader_s, s.python_s, s.record_s, s.lookup_s, s.compile_s, s.run_s))
        yield f"{s.number + 1:6d} {s.wall_s * 1e3:9.2f} {ms} {size(s.peak_bytes):>10}"
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
    for held, what, where, pieces in m.alive[:count]:
        yield (f"{size(held):>10} {held / m.peak_bytes if m.peak_bytes else 0:6.1%} {pieces:5d} x {short(what, 80)}"
               f"{' at ' + where if where else ''}")
    rest = m.alive[count:]
    if rest:
        yield f"{size(sum(r[0] for r in rest)):>10} {'':6} {sum(r[3] for r in rest):5d} x others"
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
    for key, words in PARTS:
        yield f"{a.split[key]:9.3f} s {a.split[key] / a.total_s:6.1%}  {words}"


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
    for name, spent in sorted(named.items(), key=lambda kv: -sum(kv[1])):
        yield f"{sum(spent) * 1e-9:9.3f} s {len(spent):6d} x {name}"


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
