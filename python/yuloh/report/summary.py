# SPDX-License-Identifier: Apache-2.0
"""Turns measured figures into sentences: the verdict of the command line and the three-part summary of the
report.

No sentence claims more than the judge decided: what it cannot tell is said to be so, with the largest
difference that the interval still allows.
"""

from __future__ import annotations

from typing import List, Optional

from . import text
from .cost import hours_saved_by, yearly_saving

COST_DEFAULTS = {"runs_per_day": 50.0, "hours_per_run": 2.0, "servers": 4.0, "price": 3.0, "currency": "CNY"}


def label(arm: dict, language: str) -> str:
    return arm["label_zh" if language == "zh" else "label"]


def arm_of(workload: dict, name: str) -> dict:
    return next(a for a in workload["arms"] if a["id"] == name)


def base_of(workload: dict) -> dict:
    """The arm that the others are compared with; only for a workload in which something was measured."""
    return arm_of(workload, workload["base"])


def sentence(comparison: dict, workload: dict, language: str, brief: bool = False) -> str:
    """One comparison as one sentence; the faster of the two is its subject. brief: without the interval."""
    arm, base = (label(arm_of(workload, comparison[k]), language) for k in ("arm", "base"))
    low, high, speedup = comparison["low"], comparison["high"], comparison["speedup"]
    zh = language == "zh"
    if comparison["verdict"] == "cannot tell":
        if comparison.get("untried"):
            name = label(arm_of(workload, comparison["untried"]), language)
            return (
                f"{arm} 与 {base} 无法比较：时间不足，未试完 {name} 的线程数。"
                if zh
                else f"{arm} and {base} cannot be compared: no time to try every thread count of {name}."
            )
        if low is None:
            return (
                f"{arm} 与 {base} 无法区分：只完成 {comparison['rounds']} 轮，样本太少。"
                if zh
                else f"{arm} and {base} cannot be told apart: {comparison['rounds']} rounds are too few."
            )
        widest = max(abs(1 - 1 / high), abs(1 / low - 1))
        return (
            f"{arm} 与 {base} 无法区分（{comparison['rounds']} 轮；差异至多 {text.percent(widest)}）。"
            if zh
            else f"{arm} and {base} cannot be told apart ({comparison['rounds']} rounds; they "
            "differ by at most "
            f"{text.percent(widest)})."
        )
    winner, loser = (arm, base) if comparison["verdict"] == "faster" else (base, arm)
    if comparison["verdict"] == "slower":
        speedup, low, high = 1 / speedup, 1 / high, 1 / low
    if brief:
        return (
            f"{winner} 的训练速度是 {loser} 的 {text.times(speedup)}"
            if zh
            else f"{winner} trains {text.times(speedup)} as fast as {loser}"
        )
    level = comparison["level"] * 100
    if zh:
        return (
            f"{winner} 的训练速度是 {loser} 的 {text.times(speedup)}（{level:.4g}% 置信区间 "
            f"{text.three(low)}–{text.three(high)}）。"
        )
    return (
        f"{winner} trains {text.times(speedup)} as fast as {loser} ({level:.4g} % interval "
        f"{text.three(low)} to "
        f"{text.three(high)})."
    )


def main_comparisons(workload: dict) -> List[dict]:
    """Comparisons in the order of interest: other contenders first, then variants of the base's own."""
    base = workload.get("base")
    own = arm_of(workload, base)["contender"] if base else None
    return sorted(workload["comparisons"], key=lambda c: arm_of(workload, c["arm"])["contender"] == own)


def verdicts(record: dict, language: str = "en", brief: bool = False) -> List[str]:
    """One line per workload: for the end of `yuloh bench`; brief: for the headline of the report."""
    lines = []
    for workload in record["workloads"]:
        title = workload["title_zh" if language == "zh" else "title"]
        found = main_comparisons(workload)
        if found:
            more = len(found) - 1
            tail = (
                ""
                if not more
                else (
                    f"（另有 {more} 项对比见报告）"
                    if language == "zh"
                    else f" {more} more comparison{'s' if more > 1 else ''} in the report."
                )
            )
            lines.append(f"{title}: {sentence(found[0], workload, language, brief)}{'' if brief else tail}")
        else:
            measured = [a for a in workload["arms"] if a["blocks"]]
            if measured:
                run = workload["unit"] == "runs"
                step = text.duration(base_of(workload)["summary"]["step_s"]["median"])
                lines.append(
                    f"{title}: {label(base_of(workload), language)} {step}"
                    + (
                        f"/{'次' if run else '步'}；没有可比较的对象。"
                        if language == "zh"
                        else f" a {'run' if run else 'step'}; nothing to compare it with."
                    )
                )
            else:
                lines.append(
                    f"{title}: " + ("没有测得任何数据。" if language == "zh" else "nothing was measured.")
                )
    return lines


def gain(record: dict) -> Optional[dict]:
    """The change whose benefit is priced: {workload, old, new, speedup}; None when nothing was told apart.

    With several contenders: from the fastest other one to the base, or the reverse, whichever is faster. With
    one: from the base to its fastest variant.
    """
    for workload in record["workloads"]:
        decided = [c for c in main_comparisons(workload) if c["verdict"] != "cannot tell"]
        if not decided:
            continue
        own = base_of(workload)["contender"]
        base_arm = base_of(workload)
        foreign = [
            c
            for c in decided
            if arm_of(workload, c["arm"])["contender"] != own
            and arm_of(workload, c["arm"])["precision"] == base_arm["precision"]
        ]
        chosen = max(foreign or decided, key=lambda c: c["speedup"])
        if chosen["verdict"] == "faster":
            return {
                "workload": workload,
                "old": chosen["base"],
                "new": chosen["arm"],
                "speedup": chosen["speedup"],
            }
        if foreign:
            return {
                "workload": workload,
                "old": chosen["arm"],
                "new": chosen["base"],
                "speedup": 1 / chosen["speedup"],
            }
        return None
    return None


def priced(record: dict, cost: dict) -> dict:
    """Parameters and outcome of the cost section. cost: the options given, the rest are COST_DEFAULTS."""
    p = {**COST_DEFAULTS, **cost}
    change = gain(record)
    measured = "hours_saved" not in p
    if measured:
        p["hours_saved"] = hours_saved_by(p["hours_per_run"], change["speedup"]) if change else 0.0
    saving = yearly_saving(p["runs_per_day"], p["hours_saved"], p["servers"], p["price"])
    return {
        **p,
        "measured": measured,
        "change": change,
        "hours_year": saving.hours,
        "money_year": saving.money,
    }


def three_parts(record: dict, cost: dict, language: str) -> List[dict]:
    """[{title, lines}] for speed, resources and recommendation."""
    return [
        {"title": text.word("speed", language), "lines": _speed(record, language)},
        {"title": text.word("resources", language), "lines": _resources(record, language)},
        {"title": text.word("advice", language), "lines": _advice(record, cost, language)},
    ]


def _speed(record, language) -> List[str]:
    lines = []
    for workload in record["workloads"]:
        prefix = (
            f"{workload['title_zh' if language == 'zh' else 'title']}: "
            if len(record["workloads"]) > 1
            else ""
        )
        lines += [prefix + sentence(c, workload, language) for c in main_comparisons(workload)]
    return lines or verdicts(record, language)


def _resources(record, language) -> List[str]:
    lines, zh = [], language == "zh"
    for workload in record["workloads"]:
        measured = [a for a in workload["arms"] if a["blocks"]]
        if not measured:
            continue
        base = base_of(workload)
        held, used = base["summary"]["peak_mb"], base["summary"]["cpus_used"]
        lines.append(
            f"{label(base, language)} 内存峰值 {text.megabytes(held)}，平均占用 {used:.2f} 个 CPU。"
            if zh
            else f"{label(base, language)} peaks at {text.megabytes(held)} and keeps {used:.2f} CPUs busy."
        )
        for arm in (a for a in measured if a is not base):
            ratio = arm["summary"]["peak_mb"] / held
            name = label(arm, language)
            if abs(ratio - 1) < 0.02:
                lines.append(f"{name} 的内存与其相当。" if zh else f"{name} needs the same memory.")
            elif ratio > 1:
                lines.append(
                    f"{name} 需要 {text.times(ratio)} 的内存（{text.megabytes(arm['summary']['peak_mb'])}）。"
                    if zh
                    else f"{name} needs {text.times(ratio)} of that "
                    f"({text.megabytes(arm['summary']['peak_mb'])})."
                )
            else:
                lines.append(
                    f"{name} 节省 {text.percent(1 - ratio)} 的内存（{text.megabytes(arm['summary']['peak_mb'])}）。"
                    if zh
                    else f"{name} needs {text.percent(1 - ratio)} less "
                    f"({text.megabytes(arm['summary']['peak_mb'])})."
                )
        for row in workload["loader"][1:]:
            first = workload["loader"][0]
            change = row["images_per_s"] / first["images_per_s"] - 1
            lines.append(
                f"数据加载进程由 {first['workers']} 增至 {row['workers']}：吞吐量变化 {text.percent(change, True)}。"
                if zh
                else f"{row['workers']} loader workers instead of {first['workers']} change throughput by "
                f"{text.percent(change, True)}."
            )
    return lines


def _advice(record, cost, language) -> List[str]:
    zh, lines = language == "zh", []
    p = priced(record, cost)
    change = p["change"]
    if change:
        workload = change["workload"]
        old, new = (label(arm_of(workload, change[k]), language) for k in ("old", "new"))
        lines.append(
            f"建议由 {old} 换用 {new}：速度为 {text.times(change['speedup'])}。"
            if zh
            else f"Move from {old} to {new}: {text.times(change['speedup'])} the speed."
        )
        if p["money_year"]:
            hours = f"{p['hours_year']:,.0f}"
            lines.append(
                f"按每天 {p['runs_per_day']:g} 次训练计，每年节省 {hours} 小时，"
                f"{text.money(p['money_year'], p['currency'])}。"
                if zh
                else f"At {p['runs_per_day']:g} runs a day that saves {hours} hours and "
                f"{text.money(p['money_year'], p['currency'])} a year."
            )
    else:
        lines.append(
            "没有测得可靠的速度差异，仅凭性能不值得更换。"
            if zh
            else "No difference was established: speed alone is no reason to change."
        )
    flagged = [a["summary"].get("flagged", 0) for w in record["workloads"] for a in w["arms"] if a["blocks"]]
    if flagged and max(flagged) > 0.5:
        lines.append(
            "其他进程占用了 CPU，请在空闲的机器上重测。"
            if zh
            else "Repeat it on an idle machine: others used the CPUs."
        )
    if any(c.get("untried") for w in record["workloads"] for c in w["comparisons"]):
        lines.append(
            "请延长时间（--max-time）重测：线程数未试完。"
            if zh
            else "Repeat it with more time (--max-time): not every thread count was tried."
        )
    for workload in record["workloads"]:
        lines += _variant_advice(workload, language)
        knee = next((r for r in workload["sweep"] if r.get("knee")), None)
        if knee:
            lines.append(
                f"批大小在 {knee['batch']} 处到达拐点，再大吞吐量提升不足 5%。"
                if zh
                else f"Batch {knee['batch']} is the knee: a larger one brings less than 5 % more throughput."
            )
    return lines


def _variant_advice(workload, language) -> List[str]:
    lines, zh = [], language == "zh"
    for c in workload["comparisons"]:
        arm, base = arm_of(workload, c["arm"]), arm_of(workload, c["base"])
        if arm["contender"] != base["contender"] or c["verdict"] == "cannot tell":
            continue
        share = abs(1 - 1 / c["speedup"]) if c["verdict"] == "faster" else abs(1 - c["speedup"])
        if arm["precision"] != base["precision"] and c["verdict"] == "faster":
            lines.append(
                f"使用 {arm['precision']} 可节省 {text.percent(share)} 的时间。"
                if zh
                else f"Use {arm['precision']}: it saves {text.percent(share)} of the time."
            )
        elif arm["fusion"] is False and base["fusion"] and c["verdict"] == "slower":
            lines.append(
                f"保持算子融合开启：它节省 {text.percent(share)} 的时间。"
                if zh
                else f"Leave operator fusion on: it saves {text.percent(share)} of the time."
            )
    return lines
