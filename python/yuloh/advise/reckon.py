# SPDX-License-Identifier: Apache-2.0
"""The answer to a question: one dict of figures that text, JSON and pages show. Every figure's origin stands beside it:
"computed" here, the catalogue's ("catalogue", "article", "recalled"), "measured" or "user" for the device's.
"""

from __future__ import annotations

from typing import Dict, List, Optional

from .. import _core
from . import catalogue
from .from_plan import layers_to_recompute
from .fleet import launch_command, skeleton, strategy_snippet
from .question import DEGREES, Question
from .verdict import verdict

# A group of devices is recommended where talking leaves at least this share of the peak.
LEAST_SHARE = 0.12
# Serving: the share of the memory that is used, as vLLM's default, and tokens of an answer where none are given.
SERVED_SHARE = 0.9
NEW_TOKENS = 256


def answer(q: Question) -> Dict[str, object]:
    """All that is asked. Raises ValueError for what cannot be."""
    devices = [_row(q, d) for d in q.devices]
    recommended = recommend(q)
    goals = {}
    if q.training and q.goals.get("samples"):
        goals["training"] = train(q)
    if not q.training and q.goals.get("rate"):
        goals["serving"] = serve(q)
    chosen = verdict({**goals, "recommended": recommended, "class": q.size_class, "job": {**_job_defaults(), **q.job}},
                     {d["id"]: d for d in q.devices}, q.focus is not None)
    focus = _focus(q, devices, chosen)
    count = q.count or (recommended_count(recommended, focus["id"]) or 8)
    found = {
        "schema": 1,
        "model": {
            "title": q.title,
            "source": q.source,
            "source_text": q.source_text,
            "unit": q.unit,
            **q.network,
        },
        "class": q.size_class,
        "forward_flops": q.forward_flops,
        "remarks": q.remarks,
        "job": {**_job_defaults(), **q.job},
        "network": {"name": q.fabric_name, **q.fabric},
        "devices": devices,
        "recommended": recommended,
        "focus": focus["id"],
        "changes": _changes(q, focus, False),
        "together": _changes(q, focus, True),
        "layouts": _layouts(q, focus, count),
        "goals": q.goals,
        "currency": q.currency,
    }
    if q.facts:
        f = q.facts
        found["plan"] = {k: f[k] for k in ("batch", "precision", "optimizer", "device", "seconds", "notes")}
        found["plan"]["memory"] = {k: f["memory"][k] for k in ("peak", "reserved", "process")}
        found["plan"]["recompute"] = layers_to_recompute(f) if q.training else []
        found["remarks"] = found["remarks"] + list(f["notes"])
    found.update(goals)
    if not q.training:
        found["rates"] = rates(q)
        if q.network["kind"] == "decoder":
            found["decoding"] = decoding(q, focus["id"])
    found["matrix"] = matrix(q)
    found["verdict"] = chosen
    found["origins"] = {"memory": "computed", "time": "computed", "prices": "user", "devices": "catalogue"}
    return found


def _job_defaults() -> dict:
    return {
        "training": True,
        "precision": "bf16",
        "optimizer": "adamw",
        "recompute": "none",
        "offload": "none",
    }


def _entry(q: Question, ident: str) -> dict:
    return next((d for d in q.devices if d["id"] == ident), None) or catalogue.find_device(ident)


def _layout(q: Question, entry: dict) -> dict:
    return _core.advise_layout(q.network, q.job, q.core_device(entry), q.fabric)


def _row(q: Question, entry: dict) -> dict:
    """One device and the job as it was asked for."""
    made = _layout(q, entry)
    figures = entry["figures"]
    used = made["precision_used"]
    return {
        "id": entry["id"],
        "name": entry["name"],
        "kind": entry["kind"],
        "memory_bytes": figures["memory"][0]["value"] * catalogue.SCALE["memory"],
        "origins": {f: catalogue.origin(entry, f) for f in ("memory", "bandwidth", used) if f in figures},
        "differing": [f for f, _ in catalogue.differing(entry)],
        "price": q.prices.get(entry["id"]),
        **made,
    }


def recommend(q: Question) -> List[dict]:
    """The least machine of every kind of device that does the job: count, layout, why. Least first."""
    top = 1 if not q.training and q.size_class < 2 else 8 if q.size_class < 3 else min(q.most, 1024)
    found = []
    for entry in q.devices:
        count = 1
        while count <= top:
            # What does not fit one device needs a link between them; a CPU would take years over it.
            if count > 1 and (entry["kind"] in ("edge", "cpu") or "link" not in entry["figures"]):
                break
            if entry["kind"] == "cpu" and q.training and q.size_class >= 2:
                break
            layouts = q.search(entry, count) if q.training else _serving_layout(q, entry, count)
            good = [x for x in layouts if count == 1 or x["share_of_peak"] >= LEAST_SHARE]
            if good:
                watts = catalogue.core_device(entry).get("watts", 0.0)
                price = q.prices.get(entry["id"])
                found.append(
                    {
                        "id": entry["id"],
                        "name": entry["name"],
                        "kind": entry["kind"],
                        "count": count,
                        "watts": watts * count,
                        "price": None if price is None else price * count,
                        "layout": good[0],
                    }
                )
                break
            count *= 2
    # The user's prices decide where they are all known; else power, which goes with price and is known.
    priced = bool(found) and all(r["price"] is not None for r in found)
    found.sort(key=lambda r: (r["price"] if priced else r["watts"] or 1e9, -r["layout"]["share_of_peak"]))
    return [r for r in found if r["kind"] != "edge"] + [r for r in found if r["kind"] == "edge"]


def _serving_layout(q: Question, entry: dict, count: int) -> List[dict]:
    by = q.network["split_by"] if q.network["kind"] == "totals" else q.network["heads"]
    if count > 1 and (by <= 1 or by % count or count > entry["per_node"]):
        return []
    job = {**q.job, "mp": float(count), "dp": 1.0, "pp": 1.0, "sharding": 1.0}
    made = _core.advise_layout(q.network, job, q.core_device(entry), q.fabric)
    return [made] if made["verdict"] in ("yes", "tight") else []


def recommended_count(recommended: List[dict], ident: str) -> Optional[int]:
    return next((r["count"] for r in recommended if r["id"] == ident), None)


def _focus(q: Question, rows: List[dict], chosen: dict) -> dict:
    """The device that is looked at closely: the user's, the one to take; for large models the common card."""
    ids = [q.focus] if q.focus else [*(["a100-80"] if q.size_class >= 2 and q.training else []), *(o["id"] for o in chosen["picks"]), "a100-80"]
    return next((r for i in ids for r in rows if r["id"] == i), rows[0])


def _changes(q: Question, focus: dict, together: bool) -> List[dict]:
    return _core.advise_changes(q.network, q.job, q.core_device(_entry(q, focus["id"])), q.fabric, together)


def _layouts(q: Question, focus: dict, count: int) -> dict:
    entry = _entry(q, focus["id"])
    found = q.search(entry, count, 6) if q.training else _serving_layout(q, entry, count)
    made = {"device": focus["id"], "count": count, "found": found}
    if found and q.training:
        best = found[0]
        made["strategy"] = strategy_snippet(best["job"], best["passes"], best["micro_batch"])
        made["launch"] = launch_command(count, entry["per_node"])
        made["script"] = skeleton(
            q.network, best["job"], best["passes"], best["micro_batch"], made["launch"], _expression(q)
        )
    return made


def _expression(q: Question) -> str:
    """How a script makes the model: Paddle's own where the preset is one of them."""
    name = str(q.network["name"])
    own = ("lenet", "resnet18", "resnet50", "resnet152", "mobilenet_v2")
    if q.source == "preset" and name in own:
        return f"paddle.vision.models.{'LeNet' if name == 'lenet' else name}()"
    return ""


def train(q: Question) -> dict:
    """Every device and power of two of it: hours, energy, cost; the best; what lies on the Pareto front."""
    rows = _core.advise_train(
        q.network,
        _searchable(q),
        [q.core_device(d) for d in q.devices],
        q.fabric,
        float(q.goals["samples"]),
        float(q.goals.get("hours", 0)),
        float(q.most),
        q.freedom(),
    )
    for r in rows:
        entry = q.devices[r["device"]]
        r["id"], r["name"], r["count"] = entry["id"], entry["name"], int(r["count"])
        r["watts"] = catalogue.core_device(entry).get("watts", 0.0) * r["count"]
    # Without prices the smallest machine (by power) comes first; against time its energy is drawn.
    priced = any(r["cost"] is not None for r in rows)
    by, against = ("cost", "cost") if priced else ("watts", "kilowatt_hours")
    ranked = sorted((r for r in rows if r["in_time"] and r[by]), key=lambda r: (r[by], r["hours"][1]))
    front, least = [], float("inf")
    for r in sorted((r for r in rows if r[against]), key=lambda r: (r["hours"][1], r[against])):
        if r[against] < least:
            front.append((r["id"], r["count"]))
            least = r[against]
    for r in rows:
        r["pareto"] = (r["id"], r["count"]) in front
    if len(q.devices) > 2:  # of each device the best number
        ranked = list({r["id"]: r for r in reversed(ranked)}.values())
        ranked.sort(key=lambda r: (r[by], r["hours"][1]))
    return {"by": by, "against": against, "rows": rows, "best": ranked[:8], "any_fits": bool(rows)}


def _searchable(q: Question) -> dict:
    drop = DEGREES + (() if q.given_micro else ("micro",))
    return {k: v for k, v in q.job.items() if k not in drop}


def serve(q: Question) -> dict:
    """Every device: how many serve the rate within the latency, at what cost."""
    rows = _core.advise_serve(
        q.network,
        _searchable(q),
        [q.core_device(d) for d in q.devices],
        q.fabric,
        float(q.goals["rate"]),
        float(q.goals.get("p99", 1.0)),
        float(q.goals.get("max_batch", 64)),
    )
    for r in rows:
        entry = q.devices[r["device"]]
        r["id"], r["name"], r["kind"] = entry["id"], entry["name"], entry["kind"]
        r["watts"] = catalogue.core_device(entry).get("watts", 0.0) * r["group"] * r["copies"]
        r["cost_year"] = None if r["cost_hour"] is None else r["cost_hour"] * 24 * 365
    by = "cost_hour" if any(r["cost_hour"] is not None for r in rows) else "watts"
    best = sorted((r for r in rows if r["possible"] and r[by]), key=lambda r: r[by])
    return {"by": by, "rows": rows, "best": best[:8]}


def rates(q: Question) -> List[dict]:
    """For inference: what every device does a second in fp32, fp16 and int8 at its best batch (up to max_batch), beside
    memory, power and, with a price, requests per unit of currency."""
    top = float(q.goals.get("max_batch", 64))
    rows = []
    for d in q.devices:
        row = {"id": d["id"], "name": d["name"], "memory": d["figures"]["memory"][0]["value"]}
        row["watts"], row["price"] = catalogue.core_device(d).get("watts", 0.0), q.prices.get(d["id"])
        for precision in ("fp32", "fp16", "int8"):
            row[precision] = _rate(q, d, precision, top) if precision in d["figures"] else None
        best = max((row[p] for p in ("fp32", "fp16", "int8") if row[p]), default=None)
        row["per_money"] = best * 3600 / row["price"] if best and row["price"] else None
        row["per_watt_hour"] = best * 3600 / row["watts"] if best and row["watts"] else None
        rows.append(row)
    return rows


def decoding(q: Question, focus: str) -> dict:
    """Of a decoder: how many requests every device holds at once, weights in 16, 8 and 4 bits; and on the one looked at,
    tokens by how many are decoded together."""
    new = float(q.job.get("new_tokens") or NEW_TOKENS)
    rows = []
    for d in q.devices:
        row = {"id": d["id"], "name": d["name"], "kind": d["kind"]}
        for bits in (16, 8, 4):
            row[f"bits{bits}"] = _decoding(q, d, {"weight_bits": float(bits)}, new)
        rows.append(row)
    own = _decoding(q, _entry(q, focus), {}, new)
    return {"device": focus, "share": SERVED_SHARE, "new_tokens": new, "own": own, "devices": rows}


def _decoding(q: Question, entry: dict, over: dict, new: float) -> Optional[dict]:
    """The least group of tensor parallel devices that holds a request, and what it does; None where none does."""
    job = {k: v for k, v in _searchable(q).items() if k not in ("batch", "micro")}
    most = 1 if entry["kind"] in ("edge", "cpu") else entry["per_node"]
    mp = 1.0
    while mp <= most and q.network["heads"] % mp == 0:
        asked = {**job, **over, "new_tokens": new, "mp": mp}
        found = _core.advise_decoding(q.network, asked, q.core_device(entry), q.fabric, SERVED_SHARE)
        if found["most"][1] >= 1:
            return {**found, "group": int(mp)}
        mp *= 2
    return None


def _rate(q: Question, entry: dict, precision: str, top: float) -> Optional[float]:
    job = {"training": False, "precision": precision, "new_tokens": q.job.get("new_tokens", 0.0)}
    best, batch = None, 1.0
    while batch <= top:
        made = _core.advise_layout(q.network, {**job, "batch": batch}, q.core_device(entry), q.fabric)
        if made["verdict"] in ("no", "unlikely"):
            break
        best = max(best or 0.0, batch / made["seconds"][1])
        batch *= 2
    return best


def matrix(q: Question) -> List[dict]:
    """The decision matrix: a row for each device, with every source's figure, and the cost index by the user's prices
    (the cheapest is 1)."""
    known = [p for p in q.prices.values() if p > 0]
    rows = []
    for d in q.devices:
        f = d["figures"]
        price = q.prices.get(d["id"])
        rows.append(
            {
                "id": d["id"],
                "name": d["name"],
                "use": d["use"],
                "note": d.get("note", ""),
                **{k: f.get(k, []) for k in ("memory", "bandwidth", "fp16", "bf16", "int8", "link", "watts")},
                "cost_index": None if price is None or not known else price / min(known),
            }
        )
    return rows
