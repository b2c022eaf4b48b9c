# SPDX-License-Identifier: Apache-2.0
"""What the catalogue knows: the decision matrix, the scenarios, devices, presets and networks."""

from __future__ import annotations

from typing import List

from ..report.text import duration, percent, three
from . import catalogue
from . import words as w
from .section import MARK, Section


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


def _link(r, language: str) -> str:
    """The link to all others of a server, else that of a pair; beside it what the article says, which has words there."""
    pair = w.word("of_a_pair", language, figure(r["pair_link"])) if r["pair_link"] else "–"
    said = w.brackets(f"article {r['link_said']}", language) if r["link_said"] else ""
    return (figure(r["link"]) if r["link"] else pair) + said


def matrix(a, language: str) -> Section:
    priced = any(r["cost_index"] is not None for r in a["matrix"])
    head = [
        w.word("device", language),
        f"{w.word('memory', language)} GiB",
        f"{w.word('bandwidth', language)} GB/s",
        "FP16 TFLOPS",
        f"{w.word('link', language)} GB/s",
        w.word("watts_w", language),
        *((w.word("cost_index", language),) if priced else ()),
        w.word("use", language),
    ]
    rows = [
        [
            w.short(r["name"], language),
            *(_link(r, language) if k == "link" else figure(r[k]) for k in ("memory", "bandwidth", "fp16", "link", "watts")),
            *(("–" if r["cost_index"] is None else three(r["cost_index"]),) if priced else ()),
            w.word(r["use"], language),
        ]
        for r in a["matrix"]
    ]
    return Section("matrix", w.word("matrix", language), head, rows, left=(0, 1, 2, 3, 4, 5, len(head) - 1),
                   notes=[w.word("recalled_mark", language), w.word("matrix_means", language)])


def scenarios(rows: List[dict], language: str = "en") -> Section:
    head = [w.word(k, language) for k in ("scenario", "best", "time", "article_holds")]
    lines, works = [], []
    for s in rows:
        best, said = _best(s), [r for r in s["rows"] if r["article"]]
        lines.append(
            [
                s["id"],
                f"{best['count']} x {w.short(best['name'], language)}" if best else "–",
                _took(best, language),
                w.comma(language).join(f"{r['count']} x {w.short(r['name'], language)}{w.brackets(w.word('yes' if r['fits'] else 'no', language), language)}" for r in said),
            ]
        )
        works.append(f"{s['id']}{w.colon(language)}{s['work'][language]}")
    return Section("scenarios", w.word("scenarios", language), head, lines, left=(0, 1, 3),
                   notes=[*works, w.word("scenarios_means", language)])


def scenario(s: dict, currency: str, language: str = "en") -> Section:
    """One scenario: every candidate, and in words why ours and how the article's compare."""
    training = "samples" in s
    head = [w.word(k, language) for k in ("device", "fits", "hours" if training else "p99", "watts", *(("energy",) if training else ()), "cost", "layout")]
    rows = []
    for r in s["rows"]:
        rows.append([
            f"{r['count']} x {w.short(r['name'], language)}{' *' if r['article'] else ''}",
            w.word("yes" if r["fits"] else "no", language),
            _took(r, language) if r["fits"] else "–",
            f"{r['watts']:,.0f} W" if r["fits"] else "–",
            *((f"{three(r['kilowatt_hours'])} kWh" if r["fits"] else "–",) if training else ()),
            w.cost(r.get("cost"), currency),
            w.layout(r["layout"]["job"], language) if r.get("layout") else "–",
        ])
    return Section("scenario", f"{s['title'][language]}{w.colon(language)}{s['work'][language]}", head, rows, left=(0, 1, len(head) - 1),
                   notes=[w.word("article_mark", language), *_reasons(s, currency, language)])


def _reasons(s: dict, currency: str, language: str) -> List[str]:
    best = _best(s)
    if best is None:
        return [w.word("none_fits", language)]
    by = w.word("by_cost" if s["priced"] else "by_power", language)
    made = [w.word("scenario_best", language, name=f"{best['count']} x {w.short(best['name'], language)}", took=_took(best, language), by=by,
                   n=s["able"], m=len(s["rows"]))]
    if "samples" in s:
        made[0] += w.word("order_speed", language)
    if best.get("layout") and best["count"] > 1:
        made[0] += w.word("scenario_layout", language, layout=w.layout(best["layout"]["job"], language),
                          talk=percent(w.talk_share(best["layout"])))
    for r in s["rows"]:
        if not r["article"]:
            continue
        name = f"{r['count']} x {w.short(r['name'], language)}"
        if not r["fits"]:
            made.append(w.word("scenario_article_no", language, name))
        elif r is best:
            made.append(w.word("scenario_article_same", language, name))
        else:
            made.append(w.word("scenario_article", language, name=name, took=_took(r, language), more=w.ratio(r["rank"], best["rank"], language), by=by))
    return made


def _best(s: dict):
    return next((r for r in s["rows"] if r["id"] == s["best"] and r["count"] == s["best_count"]), None)


def _took(r, language: str) -> str:
    return "–" if not r else w.hours(r["hours"][1], language) if "hours" in r else f"P99 {duration(r['p99'])}"


def presets(language: str) -> Section:
    rows = [[name, p["title"], w.number(p["params"]), p["source"]] for name, p in catalogue.presets().items()]
    head = [w.word(k, language) for k in ("name", "model", "parameters", "source")]
    return Section("presets", w.word("presets", language), head, rows, left=(0, 1, 3))


def networks(language: str) -> Section:
    rows = []
    for name, f in catalogue.fabrics().items():
        rate = f"{f['rate_server']:g}" if "rate_server" in f else f"{f['rate']:g}" if name != "none" else "–"
        per = w.word("per_server" if "rate_server" in f else "per_device", language) if name != "none" else ""
        kind = catalogue.sources()[f["source"]]["kind"]
        rows.append([name, f["name"], rate, per, f"{f['latency'] * 1e6:g} µs", f"{f['note']} ({kind}, {f['date']})"])
    head = [w.word(k, language) for k in ("name", "network", "rate_gbs", "of_what", "latency", "source")]
    return Section("networks", w.word("networks", language), head, rows, left=(0, 1, 3, 5))


def devices(language: str) -> Section:
    rows = [[d["id"], d["name"], w.word(d["use"], language), ", ".join(d["aliases"])] for d in catalogue.devices()]
    head = [w.word(k, language) for k in ("name", "device", "use", "aliases")]
    return Section("known", w.word("known_devices", language), head, rows, left=(0, 1, 2, 3), notes=[w.word("known_means", language)])


def device(entry: dict, language: str) -> Section:
    """Every figure of a device with its source and date."""
    units, rows, named = catalogue.units(), [], []
    for name, values in entry["figures"].items():
        for i, v in enumerate(values):
            source = catalogue.sources().get(v["source"], {"title": v["source"], "kind": v["source"], "address": ""})
            said = f"{source['title']} {source.get('address', '')}".strip()
            if said not in named:
                named.append(said)
            rows.append([name if not i else "", f"{v['value']:g}", units[name], source["kind"], v["date"],
                         f"[{named.index(said) + 1}] {v.get('note', '')}".strip()])
    head = [w.word(k, language) for k in ("figure", "value", "unit", "kind", "date", "source")]
    note = [f"{entry['note'].rstrip('.')}."] if entry.get("note") else []
    return Section("device", f"{entry['name']} ({entry['id']})", head, rows, left=(0, 2, 3, 4, 5),
                   notes=[*(f"[{i}] {said}" for i, said in enumerate(named, 1)), *note, w.word("device_means", language)])
