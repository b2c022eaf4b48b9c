# SPDX-License-Identifier: Apache-2.0
"""The direct answer: which device to take, one or none for each use, and what the next larger one buys.

What is cheapest is for the user's prices to say. Without them the least power stands in, which goes with price; a
machine is passed over where one that is hardly larger is much faster.
"""

from __future__ import annotations

from typing import Dict, List, Optional

from . import catalogue

SHOWN = 5
# Of two machines the larger is the sensible one where it costs at most this much more and is that many times as fast.
HARDLY_LARGER, MUCH_FASTER = 1.25, 2.0
TIGHT = 1.25  # what only just fits counts as so much dearer
NEXT_FASTER = 1.5
UNKNOWN = 1e9  # watts: last


def use_of(entry: dict) -> str:
    """Which of catalogue.USES a device is bought for; of the user's own its kind says it."""
    return entry.get("bought_for") or (entry["kind"] if entry["kind"] in ("edge", "cpu") else "server")


def verdict(found: dict, entries: Dict[str, dict], asked: bool, count: Optional[int] = None) -> dict:
    """{"picks", "first", "next", "by", "cheapest", "given"}: options of `found` (an answer without it), best first, at
    most SHOWN; the first of them, or the number of devices that was given; what costs least of those NEXT_FASTER times as
    fast; what they are ranked by; what costs less than the first, if anything does; whether a given number does it (None:
    none was given). asked: the user named devices."""
    options, by = _options(found)
    # Within the time that is allowed, or the latency, being faster is worth nothing.
    limited = by in ("cost", "cost_hour") and (by == "cost_hour" or bool(found.get("hours")))
    for o in options:
        o["use"] = use_of(entries[o["id"]])
        # A card for inference and small training is not what a large model is trained on, though it could be.
        o["small"] = found["job"]["training"] and found["class"] >= 2 and bool(entries[o["id"]].get("small"))
    ranked = _sensible(options, limited)
    picks: List[dict] = []
    if asked or by in ("cost", "cost_hour", "price"):
        taken: set = set()
        for o in ranked:
            if o["id"] not in taken:
                picks.append(o)
                taken.add(o["id"])
    else:
        for use in catalogue.USES:
            picks += _sensible([o for o in options if o["use"] == use], limited)[:1]
        if len([p for p in picks if p["use"] not in ("cpu", "edge")]) > 0:
            picks = [p for p in picks if p["use"] != "cpu"]
        if found["class"] > 0 and found["job"]["training"]:  # boards are not what such a model is trained on
            picks = [p for p in picks if p["use"] != "edge"] or picks
        if found["class"] >= 2:  # few uses are left: the common card, and others of the servers
            usual = [o for o in ranked if entries[o["id"]].get("common")]
            for o in [*usual, *(o for o in ranked if o["use"] == "server")]:
                if len(picks) < SHOWN and all(o["id"] != p["id"] for p in picks):
                    picks.append(o)
        # On a board first only where nothing else can.
        picks.sort(key=lambda o: (o["use"] in ("edge", "cpu"), ranked.index(o)))
    given = None
    if count is not None and (picks or asked):
        ident = next(iter(entries)) if asked else picks[0]["id"]
        mine = [o for o in options if o["id"] == ident and o["count"] == count]
        given = bool(mine)
        picks = [*mine, *(o for o in picks if not mine or o["id"] != ident)]
    first = picks[0] if picks and given is not False else None
    cheaper = [o for o in options if first and o["rank"] < first["rank"] and not o["tight"]]
    return {"picks": picks[:SHOWN], "first": first, "by": by, "next": _next(first, ranked), "given": given,
            "cheapest": min(cheaper, key=lambda o: (o["rank"], o["time"]), default=None)}


def _options(found: dict):
    """Ways to do what was asked, each with `rank` (what it costs, in `by`) and `time`."""
    training, serving = found.get("training"), found.get("serving")
    if training:
        by = training["by"]
        rows = [r for r in training["rows"] if r["in_time"] and r[by] is not None]
        return [_option(r["id"], r["name"], r["count"], _rank(r, by), r["hours"][1] * 3600, r["layout"], hours=r["hours"], cost=r["cost"],
                        kilowatt_hours=r["kilowatt_hours"], watts=r["watts"]) for r in rows], by
    if serving:
        by = serving["by"]
        rows = [r for r in serving["rows"] if r["possible"] and r[by] is not None]
        return [_option(r["id"], r["name"], int(r["copies"] * r["group"]), _rank(r, by), r["p99"], None, p99=r["p99"], load=r["load"],
                        cost=r["cost_hour"], watts=r["watts"], most_rate=r["most_rate"], cost_year=r["cost_year"])
                for r in rows], by
    rows = found["recommended"]
    by = "price" if rows and all(r["price"] is not None for r in rows) else "watts"
    return [_option(r["id"], r["name"], r["count"], _rank(r, by), r["layout"]["seconds"][1], r["layout"], cost=r["price"],
                    watts=r["watts"]) for r in rows], by


def _rank(r: dict, by: str) -> float:
    """What it costs; a price may be 0, a power of 0 is one that is not known."""
    return (r["watts"] or UNKNOWN) if by == "watts" else r[by]


def _option(ident: str, name: str, count: int, rank: float, time: float, layout: Optional[dict], **more) -> dict:
    tight = layout is not None and layout["verdict"] == "tight"
    return {"id": ident, "name": name, "count": count, "rank": rank, "time": time, "layout": layout, "tight": tight, **more}


def _sensible(options: List[dict], limited: bool) -> List[dict]:
    """Cheapest first, those last that are a false economy (limited: none is, all are fast enough)."""

    def counted(o: dict) -> float:
        # Of what costs nothing the power says which is larger.
        return (o["rank"] or o["watts"] or UNKNOWN) * (TIGHT if o["tight"] else 1)

    def poor(o: dict) -> bool:
        return not limited and any(bool(p["rank"]) == bool(o["rank"]) and counted(p) <= HARDLY_LARGER * counted(o) and MUCH_FASTER * p["time"] <= o["time"]
                   for p in options)

    return sorted(options, key=lambda o: (o["small"] or poor(o), bool(o["rank"]), counted(o), o["time"]))


def _next(first: Optional[dict], options: List[dict]) -> Optional[dict]:
    larger = [o for o in options if first and NEXT_FASTER * o["time"] <= first["time"] and o["rank"] >= first["rank"]
              and o["use"] in (first["use"], "server", "course", "workstation")]
    return min(larger, key=lambda o: o["rank"], default=None)
