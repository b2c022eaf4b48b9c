# SPDX-License-Identifier: Apache-2.0
"""From raw blocks to the figures of the report: comparisons with the base arm and one summary per arm."""

from __future__ import annotations

import math
from typing import Dict, List, Set

from . import statistics


def round_seconds(arm: dict) -> Dict[int, float]:
    """{round: seconds per step} over the rounds in which the arm ran both of its blocks."""
    blocks: Dict[int, list] = {}
    for block in arm["blocks"]:
        blocks.setdefault(block["round"], []).append(block)
    return {
        r: sum(b["seconds"] for b in bs) / sum(b["steps"] for b in bs)
        for r, bs in blocks.items()
        if len(bs) == 2
    }


def log_ratios(arm: dict, base: dict) -> List[float]:
    """ln(time of arm / time of base) of every round that both finished, in order."""
    own, other = round_seconds(arm), round_seconds(base)
    return [math.log(own[r] / other[r]) for r in sorted(set(own) & set(other))]


def summarise_arm(arm: dict, workload: dict) -> None:
    """Writes arm["summary"]: step time, throughput, memory, CPU use, cold start, contamination."""
    blocks = arm["blocks"]
    out: dict = {}
    if blocks:
        steps = statistics.summary([b["seconds"] / b["steps"] for b in blocks])
        wall = sum(b["seconds"] for b in blocks)
        out.update(
            step_s=steps,
            cpus_used=sum(b["cpu_s"] for b in blocks) / wall,
            peak_mb=max(b["peak_mb"] for b in blocks),
            rss_mb=statistics.summary([b["rss_mb"] for b in blocks])["median"],
            throughput=workload["batch"] * workload["per_item"] / steps["median"],
            flagged=sum(bool(b["flags"]) for b in blocks) / len(blocks),
        )
        gpu = [b["gpu"] for b in blocks if b.get("gpu")]
        if gpu:
            out["gpu"] = {
                "utilization_pct": sum(g["utilization_pct"] for g in gpu) / len(gpu),
                "used_mb": max(g["used_mb"] for g in gpu),
            }
    launches = [
        x for x in arm["launches"] if x.get("first_step_s") is not None and x["batch"] == workload["batch"]
    ]
    if launches:
        chosen = [
            x for x in launches if x["threads"] == arm.get("threads") and x["flags"] == arm.get("flags")
        ]
        last = (chosen or launches)[-1]
        out["cold"] = {k: last[k] for k in ("import_s", "build_s", "first_step_s")}
        out["cold"]["total_s"] = sum(out["cold"].values())
        out["cold"]["launches"] = len(launches)
        out["parameters"] = last["parameters"]
        out.setdefault("peak_mb", last["peak_mb"])
    arm["summary"] = out


def summarise_workload(workload: dict, final: bool = False) -> Set[str]:
    """Fills "summary" of every arm and "comparisons"; returns the labels of arms that are not decided yet."""
    for arm in workload["arms"]:
        summarise_arm(arm, workload)
    measured = [a for a in workload["arms"] if a["blocks"]]
    undecided: Set[str] = set()
    workload["comparisons"] = []
    if not measured:
        return undecided
    base = next((a for a in measured if not a["error"]), measured[0])  # a base that broke is replaced
    workload["base"] = base["id"]
    for arm in (a for a in measured if a is not base):
        ratios = log_ratios(arm, base)
        if not ratios:
            continue
        result = statistics.judge(ratios, final=final or bool(arm["error"]))
        speedup, low, high = result.speedup()
        finite = math.isfinite(result.low)
        untried = _untried_loser(arm, base, result.verdict)
        workload["comparisons"].append(
            {
                "arm": arm["id"],
                "base": base["id"],
                "verdict": statistics.CANNOT_TELL if untried else result.verdict,
                "untried": untried,
                "decided": result.decided,
                "rounds": result.rounds,
                "log_ratio": result.log_ratio,
                "speedup": speedup,
                "low": low if finite else None,
                "high": high if finite else None,
                "level": result.level,
                "memory_ratio": _ratio(arm, base, "peak_mb"),
            }
        )
        if not result.decided:
            undecided.add(arm["id"])
    return undecided


def _untried_loser(arm: dict, base: dict, verdict: str) -> "str | None":
    """The slower one's id when it may only be slower because the time did not suffice to try the thread
    count at which the other one ran."""
    if verdict == statistics.CANNOT_TELL:
        return None
    loser, winner = (base, arm) if verdict == statistics.FASTER else (arm, base)
    tried = {c["threads"] for c in loser["calibration"]}
    return None if loser.get("calibrated", True) or winner.get("threads") in tried else loser["id"]


def _ratio(arm: dict, base: dict, key: str):
    a, b = arm["summary"].get(key), base["summary"].get(key)
    return a / b if a and b else None
