# SPDX-License-Identifier: Apache-2.0
"""Everything that the page and the Markdown show, in one language: plain strings, lists and dicts, no layout.

Both renderers only arrange what `build` returns, so a figure cannot differ between them.
"""

from __future__ import annotations

from typing import List

from ..bench.peaks import describe
from . import pictures, summary, text
from .summary import label


def build(record: dict, cost: dict, language: str, drawn: dict) -> dict:
    """The view of a results.json record. drawn: {workload: {kind: picture file}}."""

    def w(key):
        return text.word(key, language)

    parts = summary.three_parts(record, cost, language)
    return {
        "language": language,
        "w": w,
        "title": w("title"),
        "subtitle": w("subtitle"),
        "created": record["created"].replace("T", " ")[:16],
        "headline": _headline(record, language),
        "banners": _banners(record, language),
        "cards": _cards(record, language),
        "parts": parts,
        "workloads": [_workload(x, language, drawn.get(x["name"], {})) for x in record["workloads"]],
        "cost": _cost(record, cost, language),
        "method": _method(record, language),
        "machine": _machine(record, language),
        "repeat": record.get("command", []),
        "contenders": record["contenders"],
        "errors": record["errors"],
    }


def _headline(record, language) -> str:
    lines = summary.verdicts(record, language, brief=True)
    return lines[0] if lines else ("没有测得任何数据。" if language == "zh" else "Nothing was measured.")


_CLOCK_ZH = {"slow clock": "频率下降", "throttled": "过热降频", "clock jump": "系统时间跳变"}


def _banners(record, language) -> List[dict]:
    """What the reader must know before believing a figure: [{level, text}]."""
    zh, out = language == "zh", []
    status = record["status"]
    if status == "budget":
        out.append(
            (
                "note",
                (
                    "时间或预算上限已到，结果为部分数据。"
                    if zh
                    else "The limit was reached: the results are partial."
                ),
            )
        )
    elif status in ("interrupted", "running"):
        out.append(
            (
                "note",
                (
                    "测试被中断，此前测得的数据全部保留。"
                    if zh
                    else "The run was interrupted; everything measured until then is kept."
                ),
            )
        )
    if (record.get("data") or {}).get("source") == "synthetic":
        out.append(
            (
                "note",
                (
                    "数据为与 CIFAR-100 同格式的合成数据（缓存中没有官方数据包）。"
                    if zh
                    else "Synthetic data in CIFAR-100's format was used: the official archive was "
                    "not in the cache."
                ),
            )
        )
    hasty = [
        label(a, language) for x in record["workloads"] for a in x["arms"] if not a.get("calibrated", True)
    ]
    if hasty:
        names = ", ".join(hasty)
        line = (
            f"时间不足，未试完全部线程数与库选项：{names}。"
            if zh
            else f"No time to try every setting of: {names}."
        )
        out.append(("note", line))
    flagged = [a["summary"]["flagged"] for x in record["workloads"] for a in x["arms"] if a["blocks"]]
    clock = sorted({f for x in record["workloads"] for r in x["rounds"] for f in r["flags"]})
    if flagged and max(flagged) > 0.1:
        out.append(
            (
                "warning",
                (
                    f"测量受到干扰：最多 {text.percent(max(flagged))} 的样本期间有其他进程占用 CPU。"
                    if zh
                    else f"Contaminated: during up to {text.percent(max(flagged))} of an arm's "
                    "blocks other processes used the "
                    "CPUs. The verdicts allow for it; the absolute times may be too long."
                ),
            )
        )
    if clock:
        names = "、".join(_CLOCK_ZH.get(f, f) for f in clock)
        line = f"时钟不稳定：{names}。" if zh else f"The processor was not steady: {', '.join(clock)}."
        out.append(("warning", line))
    return [{"level": level, "text": line} for level, line in out]


def _cards(record, language) -> List[dict]:
    """Large figures of the base arm of the first workload."""
    workload = next((x for x in record["workloads"] if any(a["blocks"] for a in x["arms"])), None)
    if workload is None:
        return []
    arm = summary.base_of(workload)
    s, name = arm["summary"], label(arm, language)
    cards = [
        (text.word("step", language), text.duration(s["step_s"]["median"]), name),
        (
            text.word("throughput", language),
            text.three(s["throughput"]),
            text.word(workload["unit"], language),
        ),
        (text.word("memory", language), text.megabytes(s["peak_mb"]), name),
    ]
    if s.get("gpu"):
        cards.append((text.word("gpu", language), f"{s['gpu']['utilization_pct']:.0f} %", name))
    elif s.get("cold") and s["cold"]["first_step_s"] is not None:
        cards.append(
            (
                text.word("first", language),
                text.duration(s["cold"]["total_s"]),
                " + ".join(text.word(k, language) for k in ("import", "build", "first_step")),
            )
        )
    return [{"name": a, "value": b, "note": c} for a, b, c in cards]


def _workload(workload, language, files) -> dict:
    tint = pictures.colors(workload)
    comparisons = {c["arm"]: c for c in workload["comparisons"]}
    fastest = max((a["summary"]["throughput"] for a in workload["arms"] if a["blocks"]), default=1.0)
    rows = []
    for arm in workload["arms"]:
        s, c = arm.get("summary") or {}, comparisons.get(arm["id"])
        row = {
            "name": label(arm, language),
            "color": tint[arm["id"]],
            "version": arm["version"],
            "error": arm["error"],
            "measured": bool(arm["blocks"]),
            "settings": _settings(arm, language),
        }
        if arm["blocks"]:
            row.update(
                step=text.duration(s["step_s"]["median"]),
                throughput=text.three(s["throughput"]),
                memory=text.megabytes(s["peak_mb"]),
                cpu=f"{s['cpus_used']:.2f}",
                gpu=f"{s['gpu']['utilization_pct']:.0f} %" if s.get("gpu") else None,
                bar=round(100 * s["throughput"] / fastest, 1),
            )
        row["verdict"] = (
            "failed"
            if arm["error"]
            else "base"
            if arm["id"] == workload.get("base")
            else c["verdict"]
            if c
            else "unmeasured"
        )
        if c and c.get("untried"):
            c = None  # the measured ratio is one of thread counts, not of the two
        row["speedup"] = text.times(c["speedup"]) if c else "1×" if row["verdict"] == "base" else "–"
        row["interval"] = (
            f"{text.three(c['low'])} – {text.three(c['high'])}" if c and c["low"] is not None else ""
        )
        cold = s.get("cold")
        row["cold"] = text.duration(cold["total_s"]) if cold else "–"
        row["cold_parts"] = (
            [text.duration(cold[k]) for k in ("import_s", "build_s", "first_step_s")] if cold else []
        )
        rows.append(row)
    title = workload["title_zh" if language == "zh" else "title"]
    return {
        "title": title,
        "batch": None if workload["unit"] == "runs" else workload["batch"],
        "unit": text.word(workload["unit"], language),
        "rows": rows,
        "gpu": any(r.get("gpu") for r in rows),
        "pictures": _pictures(files, language, title),
        "parameters": next(
            (
                f"{a['summary']['parameters']:,}"
                for a in workload["arms"]
                if a.get("summary", {}).get("parameters")
            ),
            None,
        ),
        "sweep": [_sweep_row(r, workload, language) for r in workload["sweep"]],
        "loader": [
            {
                "workers": r["workers"],
                "images": text.three(r["images_per_s"]),
                "waiting": text.percent(r["waiting"]),
                "cpu": f"{r['cpus_used']:.2f}",
            }
            for r in workload["loader"]
        ],
        "rounds": len(workload["rounds"]),
        "flagged": max((a["summary"]["flagged"] for a in workload["arms"] if a["blocks"]), default=0.0),
    }


def _pictures(files, language, title) -> List[dict]:
    order = ("comparison", "memory", "loss", "sweep")
    return [
        {
            "file": files[k],
            "caption": text.word(f"pic_{k}", language),
            "alt": f"{title}: {text.word(f'pic_{k}', language)}",
        }
        for k in order
        if k in files
    ]


def _settings(arm, language) -> str:
    if not arm.get("threads"):
        return ""
    n = arm["threads"]
    unit = text.word("thread" if n == 1 else "threads", language)
    flags = [k if v is True else f"{k}={v}" for k, v in (arm.get("flags") or {}).items()]
    return ", ".join([f"{n} {unit}", *flags])


def _sweep_row(r, workload, language) -> dict:
    fits = text.word("yes" if r["fits"] else "no", language)
    if r.get("estimated"):
        fits += f" ({text.word('estimated', language)})"
    return {
        "batch": r["batch"],
        "fits": fits,
        "knee": bool(r.get("knee")),
        "memory": text.megabytes(r.get("peak_mb")),
        "step": text.duration(r.get("step_s")),
        "throughput": text.three(r["throughput"] * workload["per_item"]) if r["fits"] else "–",
    }


def _cost(record, cost, language) -> dict:
    p, zh = summary.priced(record, cost), language == "zh"
    rows = [
        ("runs_per_day", f"{p['runs_per_day']:g}"),
        ("hours_saved", f"{p['hours_saved']:.3g}"),
        ("servers", f"{p['servers']:g}"),
        ("price", text.money(p["price"], p["currency"])),
        ("hours_year", f"{p['hours_year']:,.0f}"),
        (
            "money_year" if p["money_year"] >= 0 else "cost_lost",
            text.money(abs(p["money_year"]), p["currency"]),
        ),
    ]
    formula = (
        f"{p['runs_per_day']:g} × {p['hours_saved']:.3g} h × 365 = {p['hours_year']:,.0f} h;  × "
        f"{p['servers']:g} × "
        f"{text.money(p['price'], p['currency'])} = {text.money(p['money_year'], p['currency'])}"
    )
    if not p["measured"]:
        source = (
            "每次节省的小时数由命令行给定。"
            if zh
            else "The hours that a run saves were given on the command line."
        )
    elif p["change"]:
        source = (
            f"一次训练现需 {p['hours_per_run']:g} 小时；按测得的 {text.times(p['change']['speedup'])} 速度推算节省。"
            if zh
            else f"A run takes {p['hours_per_run']:g} h today; the saving follows from the measured "
            f"{text.times(p['change']['speedup'])}."
        )
    else:
        source = (
            "没有确认的速度差异，故节省记为 0。"
            if zh
            else "No difference was established, so nothing is saved."
        )
    budget = record.get("budget") or {}
    if budget.get("spent") is not None:
        source += (
            f" 本次测试花费 {text.money(budget['spent'], budget['currency'])}"
            f"（预算 {text.money(budget['amount'], budget['currency'])}）。"
            if zh
            else f" This test itself cost {text.money(budget['spent'], budget['currency'])} of "
            f"{text.money(budget['amount'], budget['currency'])}."
        )
    return {
        "rows": [{"name": text.word(k, language), "value": v} for k, v in rows],
        "formula": formula,
        "source": source,
        "total": rows[-1][1],
        "total_name": text.word(rows[-1][0], language),
    }


def _machine(record, language) -> List[dict]:
    e = record.get("environment") or {}
    rows = [
        ("os", f"{e.get('os')}, {e.get('kernel')}"),
        ("processor", e.get("cpu")),
        ("cpus", f"{e.get('usable_cpus')} / {e.get('cpus')}"),
        ("ram", text.megabytes(e.get("memory_mb"))),
    ]
    if e.get("instructions"):
        rows.insert(2, ("SIMD", " ".join(e["instructions"])))
    if e.get("peaks"):
        rows.append(("peaks", describe(e["peaks"])))
    rows += [("GPU", f"{g['name']}, {text.megabytes(g['memory_mb'])}") for g in e.get("gpus", [])]
    data, zh = record.get("data"), language == "zh"
    if data:
        rows.append(
            (
                "data",
                {
                    "synthetic": "合成数据，CIFAR-100 格式" if zh else "synthetic, CIFAR-100 format",
                    "cifar100": "CIFAR-100 官方数据包" if zh else "CIFAR-100, official archive",
                    "file": data["note"],
                }[data["source"]],
            )
        )
    took = (record.get("budget") or {}).get("elapsed_s")
    if took:
        rows.append(("took", text.duration(took)))
    return [{"name": text.word(k, language), "value": v} for k, v in rows if v]


def _method(record, language) -> List[str]:
    floor = text.percent(2.718281828 ** record.get("judge", {}).get("floor", 0.00995) - 1)
    if language == "zh":
        return [
            "每个对象在独立进程、独立 Python 环境、清洗过的环境变量中运行；各自在 1、2 线程及其库选项中取最快设置。",
            "所有对象从相同的初始权重和相同的批次开始；参数量与首个损失值必须一致，否则不予比较。",
            "每轮按随机顺序正反各运行一遍（如 A B C C B A）；计时段以读取损失和一个更新后的参数结束，因此未完成的计算不会被漏计。",
            f"判定采用配对的序贯 Wilcoxon 符号秩检验，整次运行的误判率低于 3%；小于 {floor} 的差异不作判定。",
            "冷启动（导入、建模、首步）与稳态分开统计；其他进程占用 CPU、时钟异常的样本会被标记。",
        ]
    return [
        "Every contender runs in its own process, its own Python environment and a scrubbed set of "
        "variables, at the "
        "fastest of 1 and 2 threads and of its library flags.",
        "All start from the same weights on the same batches; parameter count and first loss must "
        "agree, or there is "
        "no comparison.",
        "A round runs everyone once forwards and once backwards in random order (A B C C B A). A "
        "timed block ends by "
        "reading the loss and one updated parameter, so no pending work escapes the clock.",
        "The verdict is a paired, sequential signed-rank test that calls equal programs different "
        "in fewer than 3 of "
        f"100 runs; differences below {floor} are never called.",
        "Cold start (import, build, first step) and steady state are kept apart; blocks during "
        "which other processes "
        "used the CPUs, or the clock changed, are flagged.",
    ]
