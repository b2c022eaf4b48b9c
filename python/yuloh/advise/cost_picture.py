# SPDX-License-Identifier: Apache-2.0
"""Cost (or energy) against time as a picture of the page: where every dot, name and tick stands, for a screen or a phone."""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Optional

from . import words as w


class Size(NamedTuple):
    """Of a drawing area in its own units, which the page shows one to one or nearly so."""

    name: str
    width: int
    height: int
    margin: int
    font: int
    dot: float  # radius
    ticks: int  # on an axis at most


WIDE = Size("wide", 900, 440, 64, 14, 4, 8)
NARROW = Size("narrow", 340, 360, 44, 12, 3, 5)
LETTER = 0.56  # width of one, of its height
# Of ticks within a factor of ten, from few to many.
STEPS = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (*(1 + k / 5 for k in range(5)), *(2 + k / 2 for k in range(16))))


def pareto(answer: Dict[str, object], size: Size = WIDE) -> Optional[dict]:
    """Points of cost (or energy) against hours on logarithmic axes; those that nothing beats are joined. None without."""
    training = answer.get("training")
    by = training["against"] if training else ""
    rows = [r for r in training["rows"] if r[by] is not None and r["hours"][1] > 0] if training else []
    above = [r[by] for r in rows if r[by] > 0]
    if not above:
        return None
    least = min(above) / 10 if len(above) < len(rows) else min(above)  # what costs nothing stands below all else

    def ends(values):
        return math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1

    x0, x1 = ends([r["hours"][1] for r in rows])
    y0, y1 = ends([least, *above])

    def x(v):
        return round(size.margin + (math.log10(v) - x0) / (x1 - x0) * (size.width - 2 * size.margin), 1)

    def y(v):
        return round(size.height - size.margin - (math.log10(v) - y0) / (y1 - y0) * (size.height - 2 * size.margin), 1)

    points = [
        {
            "x": x(r["hours"][1]),
            "y": y(r[by] or least),
            "front": r["pareto"],
            "late": not r["in_time"],
            "label": f"{r['count']} x {r['id']}",
            "title": f"{r['count']} x {r['name']}: {w.hours(r['hours'][1])}, "
            + (w.cost(r["cost"], answer["currency"]) if by == "cost" else f"{r['kilowatt_hours']:.3g} kWh"),
        }
        for r in rows
    ]
    front = sorted((p for p in points if p["front"]), key=lambda p: p["x"])
    first = answer["verdict"]["first"]
    _name(points, front, f"{first['count']} x {first['id']}" if first else "", size)
    return {
        **size._asdict(),
        "by": by,
        "unit": (answer["currency"] or "") if by == "cost" else "kWh",
        "points": points,
        "front": " ".join(f"{p['x']},{p['y']}" for p in front),
        "xticks": [(x(v), f"{v:,.6g} h") for v in _ticks(x0, x1, size.ticks)],
        "yticks": [(y(v), f"{v:,.6g}") for v in _ticks(y0, y1, 8)],
    }


def _name(points: List[dict], front: List[dict], chosen: str, size: Size) -> None:
    """Names the recommendation and those on the line that have room, inside the picture."""
    taken: List[tuple] = []
    for p in points:
        p["chosen"], p["named"] = p["label"] == chosen, False
    for p in [p for p in points if p["chosen"]] + [p for p in front if not p["chosen"]]:
        half = LETTER * size.font * len(p["label"]) / 2
        p["at"] = round(min(max(p["x"], size.margin + half), size.width - half), 1)
        if all(abs(p["at"] - x) > half + other + size.font or abs(p["y"] - y) > 1.3 * size.font for x, y, other in taken):
            p["named"] = True
            taken.append((p["at"], p["y"], half))


def _ticks(low: float, high: float, most: int) -> List[float]:
    """Round values between two powers of ten, as many as there is room for."""
    decades = range(math.floor(low), math.floor(high) + 1)
    tried = [[s * 10.0**k for k in decades for s in steps if low <= math.log10(s) + k <= high] for steps in STEPS]
    fit = [t for t in tried if len(t) <= most]
    return max(fit, key=len) if fit else tried[0][:: -(-len(tried[0]) // most)]
