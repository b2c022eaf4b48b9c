# SPDX-License-Identifier: Apache-2.0
"""Where every figure of an answer comes from: "computed" (bytes and arithmetic, from the model's own Plans or numbers),
"assumed" (time by catalogue peaks and assumed shares of them), "measured" (time by rates that `yuloh calibrate` measured on
that device), "user" (prices and what hangs on them), or the source of a device's figure ("catalogue", "article", "recalled")."""

from __future__ import annotations

from typing import Dict

from . import words as w

# Keys of rows by what they are; a row's origins name those that it has.
BYTES = ("total", "saved", "most", "room", "cache_token", "largest_micro_batch", "host")
TIME = ("seconds", "time", "time_factor", "hours", "p50", "p99", "slow", "load", "busy", "most_rate", "copies", "prompt", "rows", "fp32", "fp16",
        "int8", "share_of_peak", "bubble", "kilowatt_hours", "per_watt_hour")
MONEY = ("cost", "cost_year", "per_money", "price")


def of_row(row: dict, time: str, watts: str = "catalogue") -> Dict[str, str]:
    """Origin of every figure that the row has; what is None has none."""
    made = {k: "computed" for k in BYTES if row.get(k) is not None}
    made.update({k: time for k in TIME if row.get(k) is not None})
    made.update({k: "user" for k in MONEY if row.get(k) is not None})
    if row.get("watts"):
        made["watts"] = watts
    return made


def put(found: dict) -> None:
    """Gives every row of the answer its `origins`, and the answer the list of those that occur."""
    devices = {r["id"]: r for r in found["devices"]}
    time = {i: "measured" if r["measured"] else "assumed" for i, r in devices.items()}
    watts = {i: r["origins"].pop("watts", "catalogue") for i, r in devices.items()}
    for i, r in devices.items():
        r["origins"] = {**of_row(r, time[i]), **r["origins"]}
    focus = time[found["focus"]]
    for c in (*found["changes"], *found["together"]):
        c["origins"], c["after"]["origins"] = of_row(c, focus), of_row(c["after"], focus)
    for x in (*found["layouts"]["found"], *(t["layout"] for t in found["layouts"].get("instead", ()))):
        x["origins"] = of_row(x, focus)
    ways = [*found["recommended"], *(o for part in ("training", "serving") for o in found.get(part, {}).get("rows", ()))]
    v = found["verdict"]
    ways += [*v["picks"], *v["late"], *(v[k] for k in ("first", "cheaper", "next", "sure") if v[k])]
    for o in ways:
        o["origins"] = of_row(o, time[o["id"]], watts[o["id"]])
        if o.get("layout"):
            o["layout"]["origins"] = of_row(o["layout"], time[o["id"]])
    for r in found.get("rates", ()):
        r["origins"] = of_row(r, time[r["id"]], watts[r["id"]])
    if "decoding" in found:
        if found["decoding"]["own"]:
            found["decoding"]["own"]["origins"] = of_row(found["decoding"]["own"], focus)
        for r in found["decoding"]["devices"]:
            for k in r:
                if k.startswith("bits") and r[k]:
                    r[k]["origins"] = of_row(r[k], time[r["id"]])
    found["origins"] = {
        "memory": ["computed"],
        "time": sorted(set(time.values())),
        "prices": ["user"] if any(r["price"] is not None for r in devices.values()) else [],
        "devices": sorted({o for r in devices.values() for k, o in r["origins"].items() if k in ("memory", "bandwidth", r["precision_used"])}),
    }


def sentence(a, language: str) -> str:
    """What the figures of this answer come from, in words."""
    measured = [w.short(r["name"], language) for r in a["devices"] if r["measured"]]
    key = "assumed" if not measured else "measured" if a["origins"]["time"] == ["measured"] else "both"
    time = w.word(f"origin_time_{key}", language, w.comma(language).join(measured))
    return w.word("origins", language, time=time, prices=w.word("origin_prices", language) if a["origins"]["prices"] else "")
