# SPDX-License-Identifier: Apache-2.0
"""Extras after the rounds: batch sweep to the knee or to the largest batch that fits, and the DataLoader
trial."""

from __future__ import annotations

from statistics import median
from typing import Iterator, List, Union

from . import machine
from .arms import Arm
from .budget import Budget
from .errors import ContenderError

KNEE = 1.05  # a doubling of the batch that brings less than this in throughput is beyond the knee
SPARE = 0.85  # part of the available memory that a batch may take


def measure_sweep(
    arm: Arm, request: dict, wanted: Union[str, List[int]], budget: Budget, end: float, timeout: float
) -> Iterator[dict]:
    """Rows {batch, step_s, throughput (samples/s), peak_mb, fits, knee}; each batch runs in its own
    process."""
    batches = wanted if isinstance(wanted, list) else [2**i for i in range(3, 16)]
    rows: List[dict] = []
    for batch in batches:
        expected = 4 + (rows[-1]["step_s"] * 5 * batch / rows[-1]["batch"] if rows else 3)
        if budget.elapsed() + expected > end or not budget.allows(expected):
            return
        available = machine.memory_mb()["available"]
        need = predicted_peak(rows, batch)
        if available and need and need > SPARE * available:
            yield {
                "arm": arm.label,
                "batch": batch,
                "fits": False,
                "estimated": True,
                "peak_mb": need,
                "reason": f"would need about {need:.0f} MB of {available:.0f} MB available",
            }
            return
        options = dict(request["options"], batch=batch, weights=None)
        try:
            worker = arm.start(arm.threads, arm.flags, {**request, "options": options}, timeout)
        except ContenderError as error:
            yield {"arm": arm.label, "batch": batch, "fits": False, "estimated": False, "reason": str(error)}
            return
        try:
            times: List[float] = []
            worker.ask("steps", timeout=timeout, n=1)
            while len(times) < 3 or (sum(times) < 0.8 and len(times) < 30):
                answer = worker.ask("steps", timeout=timeout, n=1)
                times.append(answer["seconds"])
        finally:
            worker.close()
        step = median(times)
        row = {
            "arm": arm.label,
            "batch": batch,
            "fits": True,
            "estimated": False,
            "step_s": step,
            "throughput": batch / step,
            "peak_mb": answer["peak_mb"],
            "knee": False,
        }
        past_knee = bool(rows) and row["throughput"] < KNEE * rows[-1]["throughput"]
        if past_knee and not any(r["knee"] for r in rows):
            rows[-1]["knee"] = True
        rows.append(row)
        yield row
        if past_knee and wanted == "knee":
            return


def predicted_peak(rows: List[dict], batch: int):
    """MB that a batch would need, from a straight line through the last two rows; None before there are
    two."""
    if len(rows) < 2:
        return None
    a, b = rows[-2], rows[-1]
    slope = (b["peak_mb"] - a["peak_mb"]) / (b["batch"] - a["batch"])
    return b["peak_mb"] + max(slope, 0.0) * (batch - b["batch"])


def measure_loader(
    arm: Arm, worker_counts: List[int], archive: str, batch: int, budget: Budget, end: float, timeout: float
) -> List[dict]:
    """Rows {workers, images_per_s, waiting share, cpus_used} of whole training loops fed by a DataLoader."""
    rows = []
    for count in worker_counts:
        seconds = max(3.0, arm.step_s * 6)
        if budget.elapsed() + 2 * seconds > end or not budget.allows(2 * seconds):
            break
        answer = arm.worker.ask("loader", timeout=timeout, archive=archive, workers=count, seconds=seconds)
        rows.append(
            {
                "arm": arm.label,
                "workers": count,
                "batches": answer["batches"],
                "seconds": answer["seconds"],
                "images_per_s": answer["batches"] * batch / answer["seconds"],
                "waiting": answer["waiting_s"] / answer["seconds"],
                "cpus_used": answer["cpu_s"] / answer["seconds"],
            }
        )
    return rows
