# SPDX-License-Identifier: Apache-2.0
"""The answer to a question: one dict of figures that text, JSON and pages show. Every figure's origin stands beside it
(origins.py)."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence, Tuple

from .. import _core
from . import catalogue, origins
from .fleet import last_server, launch_command, of_host, refusal, skeleton, strategy_snippet
from .question import Question
from .terms import JOB
from .words import options

# Serving: the share of the memory that is used, as vLLM's default.
SERVED_SHARE = 0.9
SHOWN = 8  # rows of a table of what trains or serves


def answer(q: Question) -> Dict[str, object]:
    """All that is asked. Raises ValueError for what cannot be."""
    devices = [_row(q, d) for d in q.devices]
    rows, chosen = choose(q)
    best = _rows(rows, chosen["each"])
    focus = _focus(q, devices, chosen)
    detail = next((r for r in (chosen["first"], *best, *chosen["late"], *rows) if r and r["id"] == focus["id"]), None)
    count = q.count or (8 if detail is None else int(detail.get("group", detail["count"])))
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
        "recommended": best,
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
        found["plan"]["recompute"] = f["recompute_layers"]
        found["remarks"] = found["remarks"] + list(f["notes"])
    shown = best if len(devices) > 2 else _rows(rows, chosen["order"])
    goal = {"by": chosen["by"], "rows": rows, "best": shown[:SHOWN]}
    if q.training and q.goals.get("samples"):
        against = "cost" if chosen["by"] == "cost" else "kilowatt_hours"  # without prices the energy
        found["training"] = {**goal, "against": against, "any_fits": bool(rows)}
    if not q.training and q.goals.get("rate"):
        found["serving"] = goal
    if not q.training:
        found["rates"] = rates(q)
        if q.network["kind"] == "decoder" and q.job["new_tokens"] > 0:
            found["decoding"] = decoding(q, focus["id"])
    found["matrix"] = matrix(q)
    found["verdict"] = {k: v for k, v in chosen.items() if k not in ("each", "order")}
    origins.put(found)
    return found


def _job_defaults() -> dict:
    return {k: JOB[k] for k in ("training", "precision", "optimizer", "recompute", "offload")}


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
        "for_training": entry.get("training", True),
        "memory_bytes": figures["memory"][0]["value"] * catalogue.SCALE["memory"],
        "origins": {f: catalogue.origin(entry, f) for f in ("memory", "bandwidth", used, "watts") if f in figures},
        "differing": [f for f, _ in catalogue.differing(entry)],
        "price": q.prices.get(entry["id"]),
        **made,
    }


def choose(q: Question, counts: Sequence[int] = ()) -> Tuple[List[dict], dict]:
    """(every way to do what was asked, the core's ranking of them): src/advise/choice.h and ranking.h. In the ranking `first`,
    `cheaper`, `next`, `sure` (what is in time even at the slow end, where the first is not), `picks` and `late` are ways, `each` and `order` their indices, `able` the number of devices that do it.
    counts: of every device the only number to look at."""
    goals = {k: float(v) for k, v in q.goals.items()}
    goals.update(most=float(q.most), count=float(q.count or 0), counts=[float(c) for c in counts], named=q.focus is not None)
    markets = [catalogue.market(d) for d in q.devices]
    devices = [q.core_device(d) for d in q.devices]
    chosen = _core.advise_choose(q.network, q.job, devices, markets, q.fabric, goals, q.freedom())
    rows = [_named(q, r) for r in chosen.pop("rows")]
    chosen["sure"] = chosen["sure"] and _named(q, chosen["sure"])
    for one in ("first", "cheaper", "next"):
        chosen[one] = None if chosen[one] is None else rows[chosen[one]]
    for some in ("picks", "late"):
        chosen[some] = _rows(rows, chosen[some])
    return rows, {**chosen, "able": len(chosen["each"])}


def _rows(rows: List[dict], indices: Sequence[int]) -> List[dict]:
    return [rows[i] for i in indices]


def _named(q: Question, row: dict) -> dict:
    """A row of the core with the names of its device before it."""
    entry = q.devices[row["device"]]
    return {**row, "id": entry["id"], "name": entry["name"], "kind": entry["kind"], "use": catalogue.market(entry)["use"]}


def _focus(q: Question, rows: List[dict], chosen: dict) -> dict:
    """The device that is looked at closely: the user's, else the one to take, else the fastest."""
    ids = [q.focus] if q.focus else [*(o["id"] for o in (*chosen["picks"], *chosen["late"])), *catalogue.common()]
    return next((r for i in ids for r in rows if r["id"] == i), rows[0])


def _changes(q: Question, focus: dict, together: bool) -> List[dict]:
    return _core.advise_changes(q.network, q.job, q.core_device(_entry(q, focus["id"])), q.fabric, together)


def _layouts(q: Question, focus: dict, count: int) -> dict:
    entry = _entry(q, focus["id"])
    found = q.search(entry, count, 6) if q.training else _served(q, entry, count)
    inside = 1 < count <= entry["per_node"]
    link = _core.advise_link(q.core_device(entry), float(count))
    made = {"device": focus["id"], "count": count, "found": found, "link": link if inside and link else None,
            "pcie": "link" not in entry["figures"] and not (count == 2 and "pair_link" in entry["figures"])}
    if q.training and not found:
        made["instead"] = _instead(q, entry, focus, count)
    if found and q.training:
        best = next((x for x in found if not refusal(q.network, x["job"])), found[0])  # a script does what it says
        made["strategy"] = strategy_snippet(best["job"], best["passes"], best["micro_batch"])
        here = of_host(count, int(best["of_server"]), entry.get("per_host", entry["per_node"]))
        made["launch"] = launch_command(count, here)
        made["last_server"], made["refused"] = last_server(count, here), refusal(q.network, best["job"])
        made["said"] = made["last_server"] + _whole(q, entry, best)
        made["written"] = found.index(best)
        job = {**best["job"], "precision": best["precision_used"]}
        made["script"] = skeleton(
            q.network, job, best["passes"], best["micro_batch"], made["launch"], *own_lines(q), made["said"]
        )
    return made


def _whole(q: Question, entry: dict, best: dict) -> List[str]:
    """What a script holds where Paddle trains beside whole matrices and the plan's are stored in fewer bits."""
    bits = best["job"]["weight_bits"]
    if not 0 < bits < 16:
        return []
    whole = _core.advise_layout(q.network, {**best["job"], "weight_bits": 16.0}, q.core_device(entry), q.fabric)
    needs, plan, has = (f"{x / 2**30:.3g}" for x in (whole["total"][1], best["total"][1], entry["figures"]["memory"][0]["value"] * 2**30))
    return [f"the script keeps the frozen matrices whole, as Paddle trains adapters: {needs} of {has} GiB on a device, not the "
            f"{plan} GiB of {bits:.0f} bits"]


def _instead(q: Question, entry: dict, focus: dict, count: int) -> List[dict]:
    """What the search does not change by itself and would make a layout fit: offload (the same training), LoRA (another)."""
    found = _core.advise_rescues(q.network, q.job, q.core_device(entry), q.fabric, float(count), q.freedom())
    return [{"option": options(focus["job"], r["job"]), "seconds": r["layout"]["seconds"][1], "layout": r["layout"]} for r in found]


def _served(q: Question, entry: dict, count: int) -> List[dict]:
    made = _core.advise_group(q.network, q.job, q.core_device(entry), q.fabric, float(count), q.freedom())
    return [made] if made else []


def own_lines(q: Question):
    """Lines of a script that make the model and its data: Paddle's own where the preset is one of them, the user's file where
    the question is about one."""
    name = str(q.network["name"])
    own = ("lenet", "resnet18", "resnet50", "resnet152", "mobilenet_v2")
    if q.source == "preset" and name in own:
        shape, classes = ("1, 28, 28", 10) if name == "lenet" else ("3, 224, 224", 1000)
        data = f"tokens, labels = paddle.randn([MICRO, {shape}]), paddle.randint(0, {classes}, [MICRO])  # your data"
        return [f"model = paddle.vision.models.{'LeNet' if name == 'lenet' else name}()"], [data]
    file, _, wanted = q.title.partition(".py:") if ".py:" in q.title else (q.title.removesuffix(".py"), "", "")
    if q.source != "plan" or not q.facts:
        return [], []
    stem, kind = os.path.basename(file), wanted or str(q.facts["subject"])
    made = [
        "import sys",
        "",
        f"sys.path.insert(0, {os.path.dirname(os.path.abspath(file))!r})",
        f"from {stem} import {kind}  # what trains in {stem}.py must stand under `if __name__ == '__main__':`",
        "",
        f"model = {kind}  # the Layer itself, or with its arguments: {kind}(...)",
        "model = model if isinstance(model, paddle.nn.Layer) else model()",
    ]
    return made, [
        f"from {stem} import loader  # a function loader(samples) of yours: batches (inputs, labels) of this data parallel rank",
        "",
        "tokens, labels = next(iter(loader(MICRO)))",
    ]


def rates(q: Question) -> List[dict]:
    """For inference: what every device does a second in fp32, fp16 and int8 at its best batch (up to max_batch), beside
    memory, power and, with a price, requests per unit of currency (infinite where it is 0)."""
    top = float(q.goals.get("max_batch", 64))
    found = _core.advise_rates(q.network, q.job, [q.core_device(d) for d in q.devices], q.fabric, top, q.freedom())
    return [
        {
            "id": d["id"],
            "name": d["name"],
            "memory": d["figures"]["memory"][0]["value"],
            "watts": catalogue.core_device(d).get("watts", 0.0),
            "price": q.prices.get(d["id"]),
            **row,
        }
        for d, row in zip(q.devices, found)
    ]


def decoding(q: Question, focus: str) -> dict:
    """Of a decoder: how many requests every device holds at once, weights in 16, 8 and 4 bits; and on the one looked at,
    tokens by how many are decoded together."""
    rows = []
    for d in q.devices:
        row = {"id": d["id"], "name": d["name"], "kind": d["kind"]}
        for bits in (16, 8, 4):
            row[f"bits{bits}"] = _decoding(q, d, {"weight_bits": float(bits)})
        rows.append(row)
    own = _decoding(q, _entry(q, focus), {})
    return {"device": focus, "share": SERVED_SHARE, "new_tokens": q.job["new_tokens"], "own": own, "devices": rows}


def _decoding(q: Question, entry: dict, over: dict) -> Optional[dict]:
    """The least group of tensor parallel devices that holds a request, and what it does; None where none does."""
    return _core.advise_group_decoding(q.network, {**q.job, **over}, q.core_device(entry), q.fabric, SERVED_SHARE, q.freedom())


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
                **{k: f.get(k, []) for k in ("memory", "bandwidth", "fp16", "bf16", "int8", "link", "pair_link", "watts")},
                "link_said": d.get("article_link", ""),
                "cost_index": None if price is None or not known else price / min(known),
            }
        )
    return rows


def yearly(found: dict, runs_per_day: float) -> dict:
    """Hours and money a year of the cheapest training (runs x hours x 365 x devices x price)."""
    if not 0 < runs_per_day <= 1e6:
        raise ValueError(f"advise: --runs-per-day must be above 0 and at most 1e6, got {runs_per_day:g}.")
    ways = [found["verdict"]["first"], *(found.get("training") or {}).get("best", ())]  # what is recommended
    top = next((o for o in ways if o and "hours" in o), None)
    if not top:
        raise ValueError("advise: --runs-per-day needs a training that is possible. Hint: --samples N.")
    price = next(r["price"] for r in found["devices"] if r["id"] == top["id"])
    hours, money, machines = _core.advise_yearly(runs_per_day, top["hours"][1], float(top["count"]), price or 0.0)
    return {
        "runs_per_day": runs_per_day,
        "device": top["id"],
        "count": top["count"],
        "hours_run": top["hours"][1],
        "hours": hours,
        "machines": machines,
        "money": None if price is None else money,
    }
