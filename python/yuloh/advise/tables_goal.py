# SPDX-License-Identifier: Apache-2.0
"""What it costs: training within hours, serving a rate within a latency, requests by precision, a year."""

from __future__ import annotations

import math
from typing import Optional

from ..report.text import duration, percent, three
from . import words as w
from .section import Section, device_row
from .tables_answer import order_note

FEW = 5


def training(a, language: str, everything: bool) -> Optional[Section]:
    t = a.get("training")
    if not t:
        return None
    title = w.word("train_choice" if "hours" in a["goals"] else "train_cheapest", language, samples=f"{w.number(a['goals']['samples'])} {w.unit(a['model']['unit'], language)}")
    if not t["any_fits"]:
        return Section("training", title, notes=[w.word("none_fits", language)])
    best, notes = (t["best"], []) if t["best"] else (a["verdict"]["late"][:4], [w.word("none_in_time", language)])
    best = best if everything else best[:FEW]
    rows = [
        [
            f"{r['count']} x {w.short(r['name'], language)}",
            w.hours(r["hours"][1], language),
            w.hours_span(r["hours"], language),
            f"{r['watts']:,.0f} W",
            f"{three(r['kilowatt_hours'])} kWh",
            w.cost(r["cost"], a["currency"]),
            w.layout(r["layout"]["job"], language),
        ]
        for r in best
    ]
    head = [w.word(k, language) for k in ("device", "hours", "from_to", "watts", "energy", "cost", "layout")]
    drop = set() if any(r["cost"] is not None for r in best) else {5}
    rows, head = _without(rows, drop), _without([head], drop)[0]
    notes += [order_note(a, language)] if t["best"] else []
    return Section("training", title, head, rows, left=(0, len(head) - 1), notes=notes)


def _without(rows, columns):
    return [[c for i, c in enumerate(r) if i not in columns] for r in rows]


def serving(a, language: str, everything: bool) -> Optional[Section]:
    t = a.get("serving")
    if not t:
        return None
    title = w.word(
        "serve_choice", language, rate=three(a["goals"]["rate"]), limit=duration(a["goals"]["p99"])
    )
    if not t["best"]:
        return Section("serving", title, notes=[w.word("none_fits", language)])
    best = t["best"] if everything else t["best"][:FEW]
    rows = [
        [
            f"{r['count']} x {w.short(r['name'], language)}",
            three(r["batch"]),
            duration(r["p99"]),
            percent(r["load"]),
            three(r["most_rate"]),
            f"{r['watts']:,.0f} W",
            w.cost(r["cost"], a["currency"]),
            w.cost(r["cost_year"], a["currency"]),
            _for_money(r["per_money"], language),
        ]
        for r in best
    ]
    head = [
        w.word("device", language),
        w.word("mean_batch", language),
        *(w.word(k, language) for k in ("p99", "load", "most_rate", "watts", "cost_hour", "cost_year")),
        w.word("per_money", language, currency=a["currency"] or "1"),
    ]
    drop = set() if t["by"] == "cost" else {6, 7, 8}
    notes = [order_note(a, language), w.word("serve_means", language)]
    return Section("serving", title, _without([head], drop)[0], _without(rows, drop), notes=notes)


def _for_money(value: Optional[float], language: str) -> str:
    """Requests for a unit of money; without end where the device costs nothing."""
    return "–" if value is None else w.word("unlimited", language) if math.isinf(value) else f"{value:,.0f}"


def rates(a, language: str, everything: bool) -> Optional[Section]:
    """Requests a second by precision, and for a unit of currency or a watt hour."""
    rows = a.get("rates")
    if not rows:
        return None
    priced = any(r["per_money"] is not None for r in rows)
    by = "per_money" if priced else "per_watt_hour"
    ranked = sorted((r for r in rows if r[by] is not None), key=lambda r: -r[by])
    if not ranked:
        return None
    shown = ranked if everything else ranked[:FEW]
    unit = w.unit(a["model"]["unit"], language)
    last = (
        w.word("per_money", language, currency=a["currency"] or "1")
        if priced
        else w.word("per_watt_hour", language)
    )
    head = [w.word("device", language), *(f"{p.upper()} {unit}{w.word('per_second', language)}" for p in ("fp32", "fp16", "int8"))]
    head += [w.word("watts", language), *((w.word("price", language),) if priced else ()), last]
    cells = [
        [
            w.short(r["name"], language),
            *("–" if r[p] is None else three(r[p]) for p in ("fp32", "fp16", "int8")),
            f"{r['watts']:g} W" if r["watts"] else "–",
            *((w.cost(r["price"], a["currency"]),) if priced else ()),
            _for_money(r[by], language) if math.isinf(r[by]) else three(r[by]),
        ]
        for r in shown
    ]
    return Section("rates", w.word("rates", language), head, cells, notes=[w.word("rates_means", language, w.short(shown[0]["name"], language))])


def yearly_words(found: dict, language: str) -> str:
    y = found["yearly"]
    name = f"{y['count']} x {w.short(device_row(found, y['device'])['name'], language)}"
    line = f"{w.word('yearly', language)}{w.colon(language)}{y['runs_per_day']:g} x {w.hours(y['hours_run'], language)} x 365 = {y['hours']:,.0f} {w.word('h', language)}{w.brackets(name, language)}"
    line += "" if y["money"] is None else f" = {w.cost(y['money'], found['currency'])}"
    return line + (w.word("yearly_machines", language, n=y["machines"], name=name) if y["machines"] > 1 else "")
