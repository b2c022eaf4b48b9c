# SPDX-License-Identifier: Apache-2.0
"""profile.html: the figures of an Analysis as one self-contained page with memory and steps drawn."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional, Tuple

from . import text
from .analysis import Analysis

WIDTH, HEIGHT = 960, 200  # of a drawing, in its own units
COLOURS = {"run": "#0f766e", "python": "#d97706", "record": "#4f46e5", "lookup": "#7c3aed", "compile": "#be123c",
           "loader": "#0284c7"}


def write(a: Analysis, report: str, title: str, folder: Path) -> Optional[Path]:
    """Writes the page; None where jinja2 (yuloh[report]) is not installed."""
    try:
        import jinja2
    except ImportError:
        return None
    from ..report.page import TEMPLATES

    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(str(TEMPLATES)), autoescape=True,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.get_template("profile.html.j2").render(
        a=a, title=title, report=report, conclusion=text.conclusion(a), size=text.size, roof=text.roof, short=text.short,
        parts=[(words, a.split[key], a.split[key] / a.total_s, COLOURS[key]) for key, words in text.PARTS],
        peaks=text.peaks_line(a) if a.peaks else "", memory=_outline(a), bars=_bars(a), width=WIDTH, height=HEIGHT,
        total=sum(r.seconds for r in a.kernels), style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
    )
    path = folder / "profile.html"
    path.write_text(page, encoding="utf-8")
    return path


def _outline(a: Analysis) -> str:
    """The memory held over time as the points of a polygon; of many events the highest per unit of width."""
    m, begin = a.memory, a.recording.begin
    span, most = max(1, a.recording.end - begin), max(1, m.peak_bytes)
    columns: List[int] = []
    held, k = m.timeline[0][1], 0
    for x in range(WIDTH):
        high = held
        while k < len(m.timeline) and m.timeline[k][0] - begin <= span * (x + 1) // WIDTH:
            held = m.timeline[k][1]
            high = max(high, held)
            k += 1
        columns.append(high)
    points = " ".join(f"{x},{HEIGHT * (1 - b / most):.1f}" for x, b in enumerate(columns))
    return f"0,{HEIGHT} {points} {WIDTH},{HEIGHT}"


def _bars(a: Analysis, most: int = 200) -> List[Tuple[float, float, float, float, str, str]]:
    """(x, y, width, height, colour, words) of the parts of every step, the last `most` ones."""
    steps = a.steps[-most:]
    if not steps:
        return []
    # One step of compiling must not flatten the others: heights go up to three typical steps.
    limit = min(max(s.wall_s for s in steps), 3 * (a.typical_step_s() or 1))
    out, wide = [], WIDTH / len(steps)
    for i, s in enumerate(steps):
        y = float(HEIGHT)
        for key, words in text.PARTS:
            high = min(y, getattr(s, f"{key}_s") / limit * HEIGHT)
            y -= high
            out.append((i * wide, y, wide * 0.9, high, COLOURS[key],
                        f"step {s.number + 1}: {words} {getattr(s, f'{key}_s') * 1e3:.2f} ms"))
    return out
