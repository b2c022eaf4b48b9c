# SPDX-License-Identifier: Apache-2.0
"""The PNG pictures of the report: comparison bars, loss curves, batch sweep, memory.

File names: comparison.png, loss_comparison.png, batch_sweep.png, memory.png; a second workload adds -NAME,
Chinese pictures add .zh. Chinese text needs a CJK font; where there is none the English pictures serve both
languages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional, Sequence

from . import text

PALETTE = ("#0f766e", "#4f46e5", "#d97706", "#be123c", "#0284c7", "#7c3aed", "#4d7c0f", "#475569")
CJK = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "SimHei",
    "Hiragino Sans GB",
    "Droid Sans Fallback",
    "AR PL UMing CN",
)
INK, FAINT = "#1f2937", "#cbd5e1"


def _matplotlib():
    from ..cli import need

    matplotlib = need("matplotlib", "report")
    matplotlib.use("Agg")
    return matplotlib


def cjk_font() -> Optional[str]:
    """Name of an installed font with Chinese glyphs, or None."""
    _matplotlib()
    from matplotlib import font_manager

    names = {f.name for f in font_manager.fontManager.ttflist}
    return next((n for n in CJK if n in names), None)


def draw_all(record: dict, out: Path, languages: Sequence[str]) -> Dict[str, Dict[str, Dict[str, str]]]:
    """Draws everything that has data. Returns {language: {workload: {kind: file name}}}."""
    font = cjk_font() if "zh" in languages else None
    drawn: Dict[str, Dict[str, Dict[str, str]]] = {}
    for language in dict.fromkeys(["en" if lang == "zh" and not font else lang for lang in languages]):
        drawn[language] = {}
        for i, workload in enumerate(record["workloads"]):
            end = ("" if i == 0 else f"-{workload['name']}") + (".zh" if language == "zh" else "") + ".png"
            with _style(font if language == "zh" else None):
                drawn[language][workload["name"]] = _draw(workload, out, end, language)
    return {language: drawn.get(language) or drawn["en"] for language in languages}


def _style(font: Optional[str]):
    matplotlib = _matplotlib()
    return matplotlib.rc_context(
        {
            "font.family": [font, "DejaVu Sans"] if font else ["DejaVu Sans"],
            "font.size": 9.5,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": FAINT,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.grid": True,
            "grid.color": "#eef2f6",
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.dpi": 200,
            "savefig.facecolor": "white",
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "legend.frameon": False,
        }
    )


def colors(workload: dict) -> Dict[str, str]:
    """{arm id: colour}, the same in every picture and on the page."""
    return {a["id"]: PALETTE[i % len(PALETTE)] for i, a in enumerate(workload["arms"])}


def _draw(workload, out: Path, end: str, language: str) -> Dict[str, str]:
    files = {}
    measured = [a for a in workload["arms"] if a["blocks"]]
    name = "label_zh" if language == "zh" else "label"
    if measured:
        files["comparison"] = _save(_bars(workload, measured, name, language), out, "comparison" + end)
        if all(a["summary"].get("peak_mb") for a in measured):
            files["memory"] = _save(_memory(workload, measured, name, language), out, "memory" + end)
    if any(len(a["losses"]) > 1 for a in workload["arms"]):
        files["loss"] = _save(_loss(workload, name, language), out, "loss_comparison" + end)
    if sum(bool(r["fits"]) for r in workload["sweep"]) > 1:
        files["sweep"] = _save(_sweep(workload, language), out, "batch_sweep" + end)
    return files


def _figure(height: float = 2.9):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.7, height), layout="constrained")
    return figure, figure.add_subplot()


def _save(figure, out: Path, name: str) -> str:
    figure.savefig(out / name)
    return name


def _labels_and_room(axes, values, shown):
    limit = max(values) * 1.22
    axes.set_xlim(0, limit)
    for row, (value, label) in enumerate(zip(values, shown)):
        axes.text(value + limit * 0.012, row, label, va="center", fontsize=8.5)


def _bars(workload, measured, name, language):
    figure, axes = _figure(0.95 + 0.42 * len(measured))
    tint = colors(workload)
    steps = [a["summary"]["step_s"] for a in measured]
    scale, unit = (1e3, "ms") if max(s["median"] for s in steps) < 1 else (1, "s")
    values = [s["median"] * scale for s in steps]
    spread = [
        [(s["median"] - s["q1"]) * scale for s in steps],
        [(s["q3"] - s["median"]) * scale for s in steps],
    ]
    axes.barh(
        range(len(values)),
        values,
        xerr=spread,
        height=0.62,
        color=[tint[a["id"]] for a in measured],
        error_kw={"ecolor": INK, "elinewidth": 1},
    )
    axes.set_yticks(range(len(values)), [a[name] for a in measured])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{text.word('step', language)} ({unit})")
    ends = [v + e for v, e in zip(values, spread[1])]
    _labels_and_room(axes, ends, [text.duration(s["median"]) for s in steps])
    return figure


def _memory(workload, measured, name, language):
    figure, axes = _figure(0.95 + 0.42 * len(measured))
    tint = colors(workload)
    values = [a["summary"]["peak_mb"] for a in measured]
    axes.barh(range(len(values)), values, height=0.62, color=[tint[a["id"]] for a in measured])
    axes.set_yticks(range(len(values)), [a[name] for a in measured])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{text.word('memory', language)} (MB)")
    _labels_and_room(axes, values, [f"{v:,.0f}" for v in values])
    return figure


def _loss(workload, name, language):
    figure, axes = _figure()
    tint = colors(workload)
    styles = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (7, 2, 2, 2)))
    for i, arm in enumerate(a for a in workload["arms"] if len(a["losses"]) > 1):
        values = [float("nan") if v is None else v for v in arm["losses"]]
        axes.plot(
            range(1, len(values) + 1),
            values,
            color=tint[arm["id"]],
            linestyle=styles[i % len(styles)],
            linewidth=1.5,
            label=arm[name],
        )
    axes.set_xlabel("步" if language == "zh" else "Step")
    axes.set_ylabel("损失" if language == "zh" else "Loss")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    return figure


def _sweep(workload, language):
    figure, axes = _figure()
    rows = [r for r in workload["sweep"] if r["fits"]]
    place = range(len(rows))
    axes.plot(
        place,
        [r["throughput"] * workload["per_item"] for r in rows],
        "o-",
        color=PALETTE[0],
        label=text.word(workload["unit"], language),
    )
    knee = next((i for i, r in enumerate(rows) if r["knee"]), None)
    if knee is not None:
        y = rows[knee]["throughput"] * workload["per_item"]
        axes.annotate(
            text.word("knee", language),
            (knee, y),
            (0, -22),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": INK},
        )
    axes.set_xticks(list(place), [str(r["batch"]) for r in rows])
    axes.set_xlabel(text.word("batch", language))
    axes.set_ylabel(text.word(workload["unit"], language))
    axes.set_ylim(bottom=0)
    other = axes.twinx()
    other.plot(
        place,
        [r["peak_mb"] for r in rows],
        "s--",
        color=PALETTE[2],
        markersize=4,
        label=text.word("memory", language),
    )
    other.set_ylabel("MB")
    other.set_ylim(bottom=0)
    other.grid(False)
    other.spines["right"].set_visible(True)
    lines = axes.get_lines() + other.get_lines()
    axes.legend(lines, [line.get_label() for line in lines], fontsize=8, loc="lower right")
    return figure
