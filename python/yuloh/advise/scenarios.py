# SPDX-License-Identifier: Apache-2.0
"""The article's scenarios, reckoned: every candidate with its verdict, layout and time, and which is best."""

from __future__ import annotations

from typing import Dict, List, Optional

from .. import _core
from . import catalogue
from .question import Question, from_preset
from .reckon import serve


def scenario_rows(prices: Optional[Dict[str, float]] = None, only: Optional[str] = None) -> List[dict]:
    """Every scenario, or `only` that one: rows of candidates, and the id and number of the best. Raises ValueError for an
    unknown one."""
    made = []
    for s in catalogue.scenarios() if only is None else [catalogue.find_scenario(only)]:
        network, title, unit, source = from_preset(s["model"])
        rows = []
        for ident, count in s["candidates"]:
            entry = catalogue.find_device(ident)
            goals = (
                {"samples": s["samples"]} if s["training"] else {"rate": s["rate"], "p99": s["p99_ms"] / 1e3}
            )
            job = {"training": s["training"], "precision": s["precision"], "batch": s["batch"]}
            q = Question(
                network,
                title,
                unit,
                "preset",
                source,
                job,
                [entry],
                ident,
                count,
                s["network"],
                goals,
                prices or {},
            )
            rows.append(_scenario_candidate(q, entry, count, s))
        good = [r for r in rows if r["fits"]]
        priced = bool(good) and all(r["cost"] is not None for r in good)
        for r in good:
            r["rank"] = r["cost"] if priced else r["kilowatt_hours"] if s["training"] else r["watts"]
        best = min(good, key=lambda r: r["rank"], default=None)
        made.append(
            {
                **{k: s[k] for k in ("id", "title", "work", "article", "network", "samples", "rate", "p99_ms") if k in s},
                "model": title,
                "rows": rows,
                "priced": priced,
                "best": best and best["id"],
                "best_count": best and best["count"],
            }
        )
    return made


def _scenario_candidate(q: Question, entry: dict, count: int, s: dict) -> dict:
    row = {"id": entry["id"], "name": entry["name"], "count": count, "fits": False, "article": entry["id"] in s["article"]}
    if s["training"]:
        found = _core.advise_train_on(
            q.network, q.job, q.core_device(entry), q.fabric, float(count), float(s["samples"]), q.freedom()
        )
        if found:
            row.update(fits=True, hours=found["hours"][1], layout=found["layout"], kilowatt_hours=found["kilowatt_hours"], cost=found["cost"])
        return row
    (r,) = serve(q)["rows"]
    if r["possible"]:
        row.update(fits=True, p99=r["p99"], copies=int(r["copies"] * r["group"]), load=r["load"], watts=r["watts"], cost=r["cost_hour"])
    return row
