# SPDX-License-Identifier: Apache-2.0
"""The article's scenarios, reckoned: every candidate with its verdict, layout and time, and which is best."""

from __future__ import annotations

from typing import Dict, List, Optional

from . import catalogue
from .question import Question, from_preset
from .reckon import choose


def scenario_rows(prices: Optional[Dict[str, float]] = None, only: Optional[str] = None) -> List[dict]:
    """Every scenario, or `only` that one: rows of candidates, and the id and number of the best. Raises ValueError for an
    unknown one."""
    made = []
    for s in catalogue.scenarios() if only is None else [catalogue.find_scenario(only)]:
        network, title, unit, source = from_preset(s["model"])
        entries, counts = zip(*((catalogue.find_device(ident), count) for ident, count in s["candidates"]))
        goals = {"samples": s["samples"]} if s["training"] else {"rate": s["rate"], "p99": s["p99_ms"] / 1e3}
        job = {"training": s["training"], "precision": s["precision"], "batch": s["batch"]}
        q = Question(network, title, unit, "preset", source, job, list(entries), entries[0]["id"], None, s["network"], goals, prices or {})
        ways, chosen = choose(q, counts if s["training"] else ())
        rows = []
        for i, (entry, count) in enumerate(zip(entries, counts)):
            row = {"id": entry["id"], "name": entry["name"], "count": count, "fits": False, "article": entry["id"] in s["article"]}
            way = next((w for w in ways if w["device"] == i), {"possible": False})
            rows.append({**row, **way, "fits": True} if way.get("possible", True) else row)
        best = chosen["first"]
        made.append(
            {
                **{k: s[k] for k in ("id", "title", "work", "article", "network", "samples", "rate", "p99_ms") if k in s},
                "model": title,
                "rows": rows,
                "priced": chosen["by"] == "cost",
                "best": best and best["id"],
                "best_count": best and best["count"],
                "able": chosen["able"],
            }
        )
    return made
