# SPDX-License-Identifier: Apache-2.0
"""The advice as one self-contained page, English and Chinese: tables, memory bars, cost against time, what-if sliders.

The sliders look up figures that the core reckoned beforehand; the page needs no network and no server.
"""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from typing import Dict, List, Optional

from .. import _core
from ..report import pictures
from ..report.columns import width
from ..report.page import TEMPLATES
from . import catalogue, tables
from . import words as w
from .cost_picture import NARROW, WIDE, pareto
from .question import Question
from .section import focus_row
from .terms import MEMORY, PRECISIONS, RECOMPUTES

PALETTE = dict(zip(MEMORY, (*pictures.PALETTE, "#a16207", "#9ca3af", "#be185d", "#115e59")))
# Long tables, below the pictures and the sliders.
LOWER = ("devices", "recommended", "rates", "matrix", "scenarios")
SIDE_BY_SIDE = 6  # devices of the what-if
LONG = 15  # letters in a third of a phone's width


def write(q: Question, answer: Dict[str, object], path: Path) -> Path:
    """Writes the page. Raises ImportError naming the extra when jinja2 is missing, OSError when `path` cannot be written."""
    from ..bench.results import write_atomically

    if not path.name or path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(q, answer))
    return path


def render(q: Question, answer: Dict[str, object]) -> str:
    from ..cli import need

    jinja2 = need("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(TEMPLATES)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "advise.css"))
    # Inside a script element nothing may look like its end, whatever a name holds.
    grid = json.dumps(whatif(q, answer), ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return environment.get_template("advise.html.j2").render(
        views=[view(answer, language) for language in ("en", "zh")],
        style=style,
        grid=grid,
        palette=_legend(answer),
        pictures=[p for p in (pareto(answer, size) for size in (WIDE, NARROW)) if p],
        columns=_columns,
        script=(TEMPLATES / "advise.js").read_text(encoding="utf-8"),
    )


def view(answer: Dict[str, object], language: str) -> dict:
    focus = focus_row(answer)
    sections = tables.sections(answer, language, everything=True)
    return {
        "language": language,
        "w": lambda key, *args: w.word(key, language, *args),
        "headline": tables.lines(answer, language)[0],
        "answer": tables.lines(answer, language)[1:],
        "class": w.class_words(answer, language),
        "cards": [
            {
                "name": w.word("needs", language),
                "value": w.gib(focus["total"][1]),
                "note": f"{w.span(focus['total'])} · {focus['name']}",
            },
            {
                "name": w.word("parameters", language),
                "value": w.number(answer["model"]["params"], language),
                "note": w.class_words(answer, language),
            },
            *_first_card(answer, language),
        ],
        "sections": [s for s in sections if s.name not in LOWER],
        "lower": [s for s in sections if s.name in LOWER],
        "bars": bars(answer, language),
        "closing": tables.closing(answer, language)
        + ([answer["model"]["source_text"]] if answer["model"]["source_text"] else []),
    }


def _legend(answer) -> Dict[str, str]:
    """Colours of the items of memory that this job has on any of the devices."""
    held = {i[0] for r in answer["devices"] for i in r["memory"] if i[2] > 0}
    return {item: colour for item, colour in PALETTE.items() if item in held}


def _columns(section) -> List[str]:
    """How a cell of each column stands: "num" right, "lead" as the name of its row's card on a phone, "long" over the whole
    card."""
    kinds = []
    for i in range(len(section.head)):
        long = sum(width(r[i]) for r in section.rows) > LONG * len(section.rows)
        kinds.append(" ".join(k for k, so in (("num", i not in section.left), ("lead", i == 0), ("long", i and long)) if so))
    return kinds


def _first_card(answer, language: str) -> List[dict]:
    o = answer["verdict"]["first"]
    if not o:
        return []
    value = w.hours(o["hours"][1], language) if "hours" in o else w.duration(o["time"])
    return [{"name": w.word("best", language), "value": f"{o['count']} x {w.short(o['name'], language)}", "note": value}]


def bars(answer: Dict[str, object], language: str) -> List[dict]:
    """One bar for each device: what the job needs there, beside what the device has."""
    made = []
    shown = {answer["focus"], *(o["id"] for o in answer["verdict"]["picks"]), *catalogue.common()}
    for r in answer["devices"]:
        has, need = r["memory_bytes"], r["total"][1]
        scale = 100 / max(has, need)
        parts = [
            {
                "width": round(i[2] * scale, 3),
                "colour": PALETTE[i[0]],
                "title": f"{w.word(i[0], language)}: {w.gib(i[2])}",
            }
            for i in r["memory"]
        ]
        made.append(
            {
                "id": r["id"],
                "name": w.local_name(r["name"], language),
                "extra": r["id"] not in shown,
                "parts": parts,
                "limit": round(has * scale, 3),
                "words": f"{w.gib(need)} / {w.gib(has)}",
                "verdict": r["verdict"],
                "says": w.word(r["verdict"], language),
            }
        )
    return made


# -- what if -------------------------------------------------------------------------------------------
def whatif(q: Question, answer: Dict[str, object]) -> dict:
    """Axes and figures of the sliders: bytes of a device (low, point, high) and seconds of a sample for a few devices."""
    transformer = q.network["kind"] != "totals"
    heads, layers = q.network["heads"], q.network["layers"]
    split = [m for m in (1.0, 2.0, 4.0, 8.0) if transformer and heads % m == 0] or [1.0]
    top = 128 if q.size_class < 2 else 16
    start, shared = _start(q, answer)
    axes = {
        "precision": ["fp32", "bf16"] if q.training else ["fp32", "fp16", "int8"],
        "recompute": ["none", "full"] if q.training else ["none"],
        "mp": split,
        "pp": (
            [p for p in (1.0, 2.0, 4.0, 8.0, 16.0) if p <= layers]
            if q.training and transformer and q.size_class
            else [1.0]
        ),
        "data": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        "stage": [0.0, 1.0, 2.0, 3.0] if q.training else [0.0],
        "micro": [float(1 << k) for k in range(8) if 1 << k <= top],
    }
    for name, value in start.items():  # the answer's own job is among them
        order = {"precision": PRECISIONS, "recompute": RECOMPUTES}.get(name)
        axes[name] = sorted({*axes[name], value}, key=order.index if order else None)
    ids = [
        answer["focus"],
        *(o["id"] for o in answer["verdict"]["picks"]),
        *(catalogue.common() if q.size_class >= 2 else ()),
        *(r["id"] for r in answer["recommended"]),
    ]
    known = {d["id"]: d for d in q.devices}
    chosen = [known[i] for i in dict.fromkeys(ids) if i in known][:SIDE_BY_SIDE]
    grid = _core.advise_grid(q.network, q.job, [q.core_device(d) for d in chosen], q.fabric, {**axes, **shared})
    return {
        "axes": axes,
        **{k: [[_short(v / 2**30, 6) for v in one] for one in grid[k]] for k in ("low", "point", "high")},
        "memory_of": grid["memory_of"],
        "seconds": [[_short(v) for v in one] for one in grid["seconds"]],
        "devices": [
            {
                "id": d["id"],
                "name": d["name"],
                "memory": d["figures"]["memory"][0]["value"],
                "watts": catalogue.core_device(d).get("watts", 0.0),
                "price": q.prices.get(d["id"]),
            }
            for d in chosen
        ],
        "samples": q.goals.get("samples", 1e6),
        "units": [w.unit(q.unit, "en"), w.unit(q.unit, "zh")],
        "currency": q.currency,
        "start": start,
        "cp": shared["cp"],
        "shared": [w.word("shared_settings", x, ", ".join(f"{k} {v:.0f}" for k, v in shared.items() if v > 1)) for x in ("en", "zh")]
        if any(v > 1 for v in shared.values()) else None,
        "training": q.training,
        "words": {
            k: [w.word(k, "en"), w.word(k, "zh")] for k in ("yes", "tight", "unlikely", "no", "impossible")
        },
    }


def _start(q: Question, answer: Dict[str, object]):
    """Where the sliders stand, at the answer's own job; and what of it all settings have in common, there being no sliders."""
    first = answer["verdict"]["first"]
    layout = first["layout"] if first else None
    if not layout:  # of a rate: one copy
        layout = next(iter(answer["layouts"]["found"]), None) or next(d for d in answer["devices"] if d["id"] == answer["focus"])
    job = layout["job"]
    start = {k: job[k] for k in ("precision", "recompute", "mp", "pp", "stage")}
    start.update(data=job["dp"] * job["sharding"], micro=layout["micro_batch"])
    shared = {k: job[k] for k in ("cp", "vpp")}
    if job["stage"] > 0 and job["dp"] > 1:  # else all that hold the same part share it, however many the sliders say
        shared["shards"] = job["sharding"]  # as --sharding
    return start, {**shared, **({"ep": job["ep"]} if q.network["experts"] > 0 else {})}


def _short(v: float, digits: int = 4) -> Optional[float]:
    return None if math.isnan(v) else float(f"{v:.{digits}g}")
