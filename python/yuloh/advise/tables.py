# SPDX-License-Identifier: Apache-2.0
"""The answer as tables in words, with reasons: what both the plain text and the page show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence

from ..report.text import duration, percent, three
from . import catalogue
from . import words as w

MARK = {"catalogue": "c", "article": "a", "recalled": "r", "measured": "m", "user": "u"}


@dataclass
class Section:
    """A title, a table (columns in `left` stand left), sentences after it, and lines to be shown as they are."""

    name: str
    title: str
    head: Sequence[str] = ()
    rows: List[Sequence[str]] = field(default_factory=list)
    left: Sequence[int] = (0,)
    notes: List[str] = field(default_factory=list)
    code: List[str] = field(default_factory=list)


def sections(a: Dict[str, object], language: str = "en", everything: bool = False) -> List[Section]:
    """The answer's tables in order. everything: all devices and the decision matrix too."""
    focus = focus_row(a)
    made = [
        memory(a, focus, language),
        plan(a, language),
        devices(a, language, everything),
        recommended(a, language),
        changes(a, focus, language),
        layouts(a, language),
        training(a, language),
        serving(a, language),
        rates(a, language, everything),
        matrix(a, language) if everything else None,
        scenarios(a["scenarios"], language) if "scenarios" in a else None,
    ]
    return [s for s in made if s is not None]


def focus_row(a) -> dict:
    return next(r for r in a["devices"] if r["id"] == a["focus"])


def closing(a, language: str) -> List[str]:
    """Where the figures come from, and what was assumed."""
    lines = [w.word("origins", language)]
    if not focus_row(a)["measured"]:
        lines.append(w.word("assumed", language))
    if a["remarks"]:
        lines.append(
            f"{w.word('remarks', language)}: {'; '.join(w.remark(r, language) for r in a['remarks'])}"
        )
    return lines


def headline(a, language: str) -> str:
    what = w.word("training" if a["job"]["training"] else "inference", language)
    focus = next(r for r in a["devices"] if r["id"] == a["focus"])
    named = dict(
        model=f"{a['model']['title']} ({w.number(a['model']['params'])})",
        what=what,
        need=w.gib(focus["total"][1]),
    )
    holding = [r for r in a["devices"] if r["verdict"] in ("yes", "tight")]
    if a["class"] < 2 and holding:
        least = min(holding, key=lambda r: (r["kind"] != "gpu", r["memory_bytes"]))
        end = w.word("headline_least", language, name=least["name"])
        return w.word("headline_fit", language, n=len(holding), m=len(a["devices"]), fastest=end, **named)
    many = [r for r in a["recommended"] if r["id"] == a["focus"]] or a["recommended"]
    if many and many[0]["count"] > 1:
        return w.word("headline_many", language, count=many[0]["count"], name=many[0]["name"], **named)
    if not holding and not many:
        return w.word("headline_none", language, **named)
    return w.word("headline_fit", language, n=len(holding), m=len(a["devices"]), fastest="", **named)


def memory(a, focus, language: str) -> Section:
    what = w.word("training" if a["job"]["training"] else "inference", language)
    rows = [[w.word(i[0], language), w.gib(i[2]), w.span((i[1], i[2], i[3]))] for i in focus["memory"]]
    rows.append([w.word("total", language), w.gib(focus["total"][1]), w.span(focus["total"])])
    head = [w.word("item", language), w.word("point", language), w.word("from_to", language)]
    title = w.word(
        "memory_of", language, what=f"{what} ({job_words(a['job'], language)})", device=focus["name"]
    )
    return Section("memory", title, head, rows)


def plan(a, language: str) -> Optional[Section]:
    """What the Plans of the real model say about this machine, and which of its layers to recompute."""
    p = a.get("plan")
    if not p:
        return None
    title = w.word("plan", language, batch=p["batch"], precision=p["precision"])
    notes = [
        f"{w.word('plan_' + k, language)}: {w.gib(v['value'])} ({w.span((v['low'], v['value'], v['high']))})"
        for k, v in p["memory"].items()
    ]
    t = p["seconds"]
    if t["value"] > 0:
        notes.append(
            f"{w.word('step', language)}: {duration(t['value'])} ({duration(t['low'])} - {duration(t['high'])}; {t['origin']}{', ' + p['device'] if p['device'] else ''})"
        )
    rows = [
        [f"{r['name']} ({r['type']})", w.gib(r["saved"]), f"+{percent(r['time_added'])}"]
        for r in p["recompute"]
    ]
    head = (
        [w.word("recompute_layer", language), w.word("saves", language), w.word("time", language)]
        if rows
        else []
    )
    return Section("plan", title, head, rows, notes=notes)


def job_words(job, language: str) -> str:
    parts = [str(job["precision"]), w.word("batch", language, f"{job['batch']:.0f}")]
    if job.get("micro"):
        parts.append(f"{w.word('micro', language)} {job['micro']:.0f}")
    if job.get("lora"):
        parts.append(f"LoRA {job['lora']:.0f} ({job.get('lora_targets', 'attention')})")
    if job.get("weight_bits"):
        parts.append(f"{job['weight_bits']:.0f}-bit")
    if job["training"]:
        parts.append(str(job["optimizer"]))
    return ", ".join(parts)


def devices(a, language: str, everything: bool) -> Section:
    shown = (
        a["devices"]
        if everything or len(a["devices"]) <= 12
        else [
            r
            for r in a["devices"]
            if r["id"] == a["focus"] or any(r["id"] == x["id"] for x in a["recommended"][:10])
        ]
    )
    step = "step" if a["job"]["training"] else "batch_time"
    head = [w.word(k, language) for k in ("device", "has", "needs", "fits", "largest", step, "share")]
    rows = []
    for r in shown:
        mark = "".join(sorted({MARK[o] for o in r["origins"].values()}))
        rows.append(
            [
                f"{r['name']} ({mark})",
                w.gib(r["memory_bytes"]),
                w.gib(r["total"][1]),
                w.word(r["verdict"], language),
                f"{r['largest_micro_batch']:,.0f}",
                duration(r["seconds"][1]),
                percent(r["share_of_peak"]),
            ]
        )
    more = len(a["devices"]) - len(shown)
    return Section(
        "devices", w.word("devices", language), head, rows, notes=[f"... {more} (--all)"] if more else []
    )


def recommended(a, language: str) -> Section:
    if not a["recommended"]:
        return Section("recommended", w.word("none_fits", language))
    rows = []
    for r in a["recommended"]:
        lay = r["layout"]
        rows.append(
            [
                f"{r['count']} x {r['name']}",
                why(a, r, language),
                w.layout(lay["job"], language),
                duration(lay["seconds"][1]),
            ]
        )
    head = [
        w.word("device", language),
        w.word("why", language),
        w.word("layout", language),
        w.word("step", language),
    ]
    return Section("recommended", w.word("recommended", language), head, rows, left=(0, 1, 2))


def why(a, r, language: str) -> str:
    lay = r["layout"]
    if r["count"] > 1:
        return w.word("why_many", language, r["count"], percent(w.talk_share(lay)))
    has = next(d["memory_bytes"] for d in a["devices"] if d["id"] == r["id"])
    spare = has - lay["total"][2]
    return w.word("why_one", language, w.gib(spare)) if spare > 0 else w.word("why_one_tight", language)


def changes(a, focus, language: str) -> Optional[Section]:
    if not a["changes"]:
        return None
    rows = [
        [
            w.change(c, language),
            w.gib(c["saved"]),
            w.factor(c["time_factor"]),
            w.word("yes" if c["fits"] else "no", language),
        ]
        for c in a["changes"][:10]
    ]
    head = [w.word(k, language) for k in ("change", "saves", "time", "fits")]
    made = Section("changes", w.word("changes", language, device=focus["name"]), head, rows)
    if focus["verdict"] in ("no", "unlikely"):
        if a["together"]:
            made.notes.append(
                w.word("together", language, device=focus["name"])
                + ": "
                + " + ".join(w.change(c, language) for c in a["together"])
            )
        else:
            made.notes.append(w.word("together_none", language, device=focus["name"]))
    return made


def layouts(a, language: str) -> Optional[Section]:
    lay = a["layouts"]
    name = next((r["name"] for r in a["devices"] if r["id"] == lay["device"]), lay["device"])
    if not a["job"]["training"] or lay["count"] == 1:
        return None
    if not lay["found"]:
        return Section("layouts", w.word("layouts_none", language, count=lay["count"], device=name))
    rows = [
        [
            w.layout(x["job"], language),
            w.gib(x["total"][1]),
            w.word(x["verdict"], language),
            duration(x["seconds"][1]),
            percent(x["bubble"]),
            percent(w.talk_share(x)),
            percent(x["share_of_peak"]),
        ]
        for x in lay["found"]
    ]
    head = [w.word(k, language) for k in ("layout", "needs", "fits", "step", "bubble", "talk", "share")]
    title = f"{w.word('layouts', language, count=lay['count'], device=name)} ({a['network']['name']})"
    code = [
        f"# {w.word('strategy', language)}",
        *lay["strategy"].splitlines(),
        f"# {w.word('launch', language)}",
        lay["launch"],
    ]
    return Section("layouts", title, head, rows, code=code)


def training(a, language: str) -> Optional[Section]:
    t = a.get("training")
    if not t:
        return None
    title = w.word(
        "train_choice", language, samples=f"{w.number(a['goals']['samples'])} {a['model']['unit']}s"
    )
    if not t["any_fits"]:
        return Section("training", title, notes=[w.word("none_fits", language)])
    best, notes = t["best"], []
    if not best:
        notes.append(w.word("none_in_time", language))
        best = sorted(t["rows"], key=lambda r: r["hours"][1])[:4]
    rows = [
        [
            f"{r['count']} x {r['name']}",
            w.hours(r["hours"][1], language),
            f"{w.hours(r['hours'][0], language)} - {w.hours(r['hours'][2], language)}",
            f"{three(r['kilowatt_hours'])} kWh",
            w.cost(r["cost"], a["currency"]),
            w.layout(r["layout"]["job"], language),
        ]
        for r in best
    ]
    head = [w.word(k, language) for k in ("device", "hours", "from_to", "energy", "cost", "layout")]
    if t["by"] != "cost":
        notes.append(w.word("by_energy", language))
    return Section("training", title, head, rows, left=(0, 5), notes=notes)


def serving(a, language: str) -> Optional[Section]:
    t = a.get("serving")
    if not t:
        return None
    title = w.word(
        "serve_choice", language, rate=three(a["goals"]["rate"]), limit=duration(a["goals"].get("p99", 1.0))
    )
    if not t["best"]:
        return Section("serving", title, notes=[w.word("none_fits", language)])
    currency = a["currency"] or "1"
    rows = [
        [
            f"{r['copies'] * r['group']:.0f} x {r['name']}",
            three(r["batch"]),
            duration(r["p99"]),
            percent(r["load"]),
            three(r["most_rate"]),
            f"{r['watts']:,.0f} W",
            w.cost(r["cost_hour"], a["currency"]),
            w.cost(r["cost_year"], a["currency"]),
            "–" if r["per_money"] is None else f"{r['per_money']:,.0f}",
        ]
        for r in t["best"]
    ]
    head = [
        w.word("device", language),
        w.word("batch", language, "").strip(),
        *(w.word(k, language) for k in ("p99", "load", "most_rate", "watts", "cost_hour", "cost_year")),
        w.word("per_money", language, currency=currency),
    ]
    return Section(
        "serving", title, head, rows, notes=[w.word("by_energy", language)] if t["by"] != "cost_hour" else []
    )


def rates(a, language: str, everything: bool) -> Optional[Section]:
    """Requests a second by precision, and for a unit of currency or a watt hour."""
    rows = a.get("rates")
    if not rows:
        return None
    priced = any(r["per_money"] for r in rows)
    by = "per_money" if priced else "per_watt_hour"
    ranked = sorted((r for r in rows if r[by]), key=lambda r: -r[by])
    shown = ranked if everything else ranked[:10]
    unit = a["model"]["unit"]
    last = (
        w.word("per_money", language, currency=a["currency"] or "1")
        if priced
        else w.word("per_watt_hour", language)
    )
    head = [w.word("device", language), *(f"{p.upper()} {unit}s/s" for p in ("fp32", "fp16", "int8"))]
    head += [f"{w.word('memory', language)} GiB", w.word("watts", language), w.word("price", language), last]
    cells = [
        [
            r["name"],
            *("–" if r[p] is None else three(r[p]) for p in ("fp32", "fp16", "int8")),
            f"{r['memory']:g}",
            f"{r['watts']:g}",
            w.cost(r["price"], a["currency"]),
            three(r[by]),
        ]
        for r in shown
    ]
    return Section("rates", w.word("rates", language), head, cells)


def figure(values: List[dict], unit: str = "") -> str:
    """ "320 (article 300)": the figure that is reckoned with, and the others that differ."""
    if not values:
        return "–"
    others = list(
        dict.fromkeys(
            f"{catalogue.sources()[v['source']]['kind']} {v['value']:g}"
            for v in values[1:]
            if v["value"] != values[0]["value"] and v["source"] in catalogue.sources()
        )
    )
    mark = MARK.get("recalled") if values[0]["source"] == "recalled" else ""
    return f"{values[0]['value']:g}{unit}{mark and '?'}" + (f" ({', '.join(others)})" if others else "")


def matrix(a, language: str) -> Section:
    head = [
        w.word("device", language),
        f"{w.word('memory', language)} GiB",
        f"{w.word('bandwidth', language)} GB/s",
        "FP16 TFLOPS",
        f"{w.word('link', language)} GB/s",
        w.word("watts", language),
        w.word("cost_index", language),
        w.word("use", language),
    ]
    rows = [
        [
            r["name"],
            *(figure(r[k]) for k in ("memory", "bandwidth", "fp16", "link", "watts")),
            "–" if r["cost_index"] is None else three(r["cost_index"]),
            w.word(r["use"], language),
        ]
        for r in a["matrix"]
    ]
    return Section(
        "matrix",
        w.word("matrix", language),
        head,
        rows,
        left=(0, 7),
        notes=[w.word("recalled_mark", language)],
    )


def scenarios(rows: List[dict], language: str = "en") -> Section:
    head = [w.word(k, language) for k in ("scenario", "work", "best", "time", "article", "fits")]
    lines = []
    for s in rows:
        best = next((r for r in s["rows"] if r["id"] == s["best"] and r["count"] == s["best_count"]), None)
        took = (
            "–"
            if not best
            else w.hours(best["hours"], language) if "hours" in best else f"P99 {duration(best['p99'])}"
        )
        said = [r for r in s["rows"] if r["article"]]
        lines.append(
            [
                s["title"][language],
                s["work"][language],
                f"{best['count']} x {best['name']}" if best else "–",
                took,
                ", ".join(f"{r['count']} x {r['id']}" for r in said),
                ", ".join(w.word("yes" if r["fits"] else "no", language) for r in said),
            ]
        )
    return Section("scenarios", w.word("scenarios", language), head, lines, left=(0, 1, 2, 4, 5))
