# SPDX-License-Identifier: Apache-2.0
"""The first lines: what is needed, what to take, why, how sure that is, what the next larger one buys; then one
recommendation for each use."""

from __future__ import annotations

from typing import List, Optional

from ..report.text import duration, percent, three
from . import words as w
from .section import Section, device_row, focus_row, job_words


def lines(a, language: str) -> List[str]:
    """The answer in a handful of sentences."""
    v = a["verdict"]
    made = [_need(a, language)]
    if not v["first"]:
        return made + _none(a, language)
    first = v["first"]
    return made + [s for s in (_take(a, first, language), _why(a, first, language), _sure(a, first, language), _half(a, language),
                               _unfit(a, language),
                               _next(a, first, v["next"], language)) if s]


def _need(a, language: str) -> str:
    focus = device_row(a, a["verdict"]["first"]["id"]) if a["verdict"]["first"] else focus_row(a)
    training = a["job"]["training"]
    what = w.word("training" if training else "inference", language)
    # The whole batch at once: what is taken may count on smaller passes, and says so.
    whole = training and not a["job"].get("micro") and focus["passes"] == 1 == focus["devices"]
    return w.word(
        "ans_need_whole" if whole else "ans_need", language, model=a["model"]["title"], params=w.number(a["model"]["params"], language), what=what,
        job=job_words(a, language, focus["precision_used"]), need=w.gib(focus["total"][1]), span=w.span(focus["total"]))


def _half(a, language: str) -> str:
    """Which of the devices recommended have no bf16, where that was asked for."""
    names = [w.short(o["name"]) for o in a["verdict"]["picks"] if device_row(a, o["id"])["precision_used"] == "fp16"]
    if a["job"]["precision"] != "bf16" or not names:
        return ""
    return w.word("ans_no_bf16" if a["job"]["training"] else "ans_no_bf16_serving", language, w.comma(language).join(names))


def _unfit(a, language: str) -> str:
    """Which of the devices asked about are made for inference, where training was asked."""
    names = [w.short(r["name"]) for r in a["devices"] if not r["for_training"]]
    return w.word("ans_not_for_training", language, w.comma(language).join(names)) if names and a["job"]["training"] else ""


def _named(o) -> str:
    return f"{o['count']} x {w.short(o['name'])}"


def _take(a, o, language: str) -> str:
    return _taken(a, o, language) + _how(a, o, language)


def _how(a, o, language: str) -> str:
    """The layout that is counted on, and what it holds of each device."""
    lay = o["layout"]
    if not lay or not a["job"]["training"] or (lay["passes"] == 1 and lay["devices"] == 1 and lay["job"]["recompute"] == "none"):
        return ""
    passes = w.word("how_passes" if lay["passes"] > 1 else "how_pass", language, f"{lay['passes']:,.0f}", f"{lay['micro_batch']:,.0f}")
    split = w.layout({**lay["job"], "micro": 0}, language)
    return w.word("ans_how", language, passes=passes, need=w.gib(lay["total"][1]), span=w.span(lay["total"]),
                  split="" if split == "–" else w.comma(language) + split)


def _taken(a, o, language: str) -> str:
    name = _named(o)
    if "hours" in o:
        low, point, high = (w.hours(h, language) for h in o["hours"])
        limit = w.word("ans_limit", language, w.hours(a["goals"]["hours"], language)) if "hours" in a["goals"] else ""
        return w.word("ans_take_hours", language, name=name, hours=point, low=low, high=high, limit=limit,
                      energy=f"{three(o['kilowatt_hours'])} kWh", cost=_cost(a, o["cost"], "", language))
    if "p99" in o:
        return w.word("ans_take_rate", language, name=name, p99=duration(o["p99"]), limit=duration(a["goals"].get("p99", 1.0)),
                      most=three(o["most_rate"]), cost=_cost(a, o["cost"], "an_hour", language))
    unit = w.word("a_step" if a["job"]["training"] else "a_batch", language)
    return w.word("ans_take", language, name=name, why=reason(a, o, language), time=duration(o["time"]), unit=unit,
                  cost=_cost(a, o["cost"], "an_hour", language))


def _cost(a, value: Optional[float], per: str, language: str) -> str:
    return "" if value is None else f"{'，' if language == 'zh' else ', '}{w.cost(value, a['currency'])}{w.word(per, language) if per else ''}"


def reason(a, o, language: str) -> str:
    """Why this many of it do."""
    lay = o["layout"]
    if a["verdict"]["given"] and o["id"] == a["verdict"]["first"]["id"] and o["count"] == a["verdict"]["first"]["count"] > 1:
        spare = device_row(a, o["id"])["memory_bytes"] - lay["total"][2]
        return w.word("why_asked", language, w.gib(spare), percent(w.talk_share(lay))) if spare > 0 else w.word("why_asked_tight", language)
    if o["count"] > 1:
        return w.word("why_many", language, o["count"], percent(w.talk_share(lay)))
    has = device_row(a, o["id"])["memory_bytes"]
    spare = has - lay["total"][2]
    return w.word("why_one", language, w.gib(spare)) if spare > 0 else w.word("why_one_tight", language)


def _why(a, o, language: str) -> str:
    v = a["verdict"]
    cheaper = v["cheapest"]
    by_price = v["by"] != "watts"
    less = {}
    if cheaper:
        price = _cost(a, cheaper["cost"], "" if "hours" in cheaper else "an_hour", language).lstrip(", ，") if by_price else f"{_watts(cheaper)} W"
        took = w.hours(cheaper["hours"][1], language) if "hours" in cheaper else duration(cheaper["time"])
        less = {"less": w.word("costs_less" if by_price else "draws_less", language), "name": _named(cheaper), "price": price,
                "time": took, "times": w.times(cheaper["time"] / o["time"])}
    if v["given"]:
        return w.word("why_given" if cheaper else "why_yours", language, **less)
    if len(a["devices"]) > 1:
        able, most = len(_able(a)), len(a["devices"])
        if not by_price:
            return w.word("ans_least_power", language, n=able, m=most, watts=_watts(o))
        return w.word("ans_dearer" if cheaper else "ans_cheapest", language, n=able, m=most, **less)
    if "hours" not in o:
        return ""
    if cheaper:
        return w.word("why_dearer", language, count=o["count"], **less)
    if not by_price and o["count"] == 1:
        return ""
    return w.word("why_cheapest" if by_price else "why_least" if "hours" in a["goals"] else "why_fewest", language, count=o["count"])


def _watts(o) -> str:
    return f"{o['watts']:,.0f}" if o["watts"] else "–"


def _able(a) -> set:
    """Devices that do what was asked."""
    by = a["verdict"]["by"]  # by cost: those with a price
    if a.get("training"):
        return {r["id"] for r in a["training"]["rows"] if r["in_time"] and r[by] is not None}
    if a.get("serving"):
        return {r["id"] for r in a["serving"]["rows"] if r["possible"] and r[by] is not None}
    return {r["id"] for r in a["recommended"]}


def _sure(a, o, language: str) -> str:
    row = device_row(a, o["id"])
    lay = o["layout"]
    said = w.word("sure_tight" if o["tight"] else "sure_yes", language, high=w.gib(lay["total"][2]) if lay else "")
    time = w.word("sure_measured" if row["measured"] else "sure_assumed", language)
    recalled = w.word("sure_recalled", language) if "recalled" in row["origins"].values() else ""
    return w.word("ans_sure", language, memory=said, time=time, recalled=recalled)


def _next(a, first, o, language: str) -> str:
    if not o:
        return w.word("ans_no_next", language) if len(a["devices"]) > 1 else ""
    by = w.word("by_power" if a["verdict"]["by"] == "watts" else "by_cost", language)
    took = w.hours(o["hours"][1], language) if "hours" in o else duration(o["time"])
    return w.word("ans_next", language, name=_named(o), time=took, faster=w.times(first["time"] / o["time"]),
                  more=w.ratio(o["rank"], first["rank"], language), by=by)


def _none(a, language: str) -> List[str]:
    training = a.get("training")
    if a["verdict"]["given"] is False:
        return _not_so_many(a, language)
    if training and training["rows"]:
        fastest = min(training["rows"], key=lambda r: r["hours"][1])
        return [w.word("ans_none_in_time", language, limit=w.hours(a["goals"].get("hours", 0.0), language), most=_most(training),
                       name=_named(fastest), hours=w.hours(fastest["hours"][1], language))]
    serving = a.get("serving")
    if serving and serving["rows"]:
        quick = min(serving["rows"], key=lambda r: r["seconds"][0] if r["seconds"][1] else float("inf"))
        return [w.word("ans_none_serves", language, limit=duration(a["goals"].get("p99", 1.0)), name=w.short(quick["name"]),
                       alone=duration(quick["p99"]) if quick["p99"] else "–")]
    nearest = max(a["devices"], key=lambda r: r["memory_bytes"] / r["total"][1])
    made = [w.word("ans_none" if len(a["devices"]) > 1 else "ans_none_one", language, m=len(a["devices"]), name=w.short(nearest["name"]), has=w.gib(nearest["memory_bytes"]),
                   needs=w.gib(nearest["total"][1]))]
    if a["together"]:
        made.append(w.word("together", language, device=w.short(focus_row(a)["name"])) + w.colon(language)
                    + " + ".join(w.change(c, language) for c in a["together"]))
    return made


def _not_so_many(a, language: str) -> List[str]:
    """The number of devices that was given does not do it; what would."""
    lay, name = a["layouts"], w.short(focus_row(a)["name"])
    late = next((r for r in (a.get("training") or {}).get("rows", ()) if (r["id"], r["count"]) == (lay["device"], lay["count"])), None)
    if late:
        made = w.word("ans_given_late", language, name=f"{lay['count']} x {name}", hours=w.hours(late["hours"][1], language),
                      limit=w.hours(a["goals"].get("hours", 0.0), language))
    else:
        made = w.word("layouts_none", language, count=lay["count"], device=name)
    picks = a["verdict"]["picks"]
    return [made + (w.word("ans_instead", language, _named(picks[0])) if picks else "")] + instead(a, language)


def instead(a, language: str) -> List[str]:
    """What else would make the job fit the devices."""
    tried = a["layouts"].get("instead")
    if tried is None:
        return []
    if not tried:
        return [w.word("instead_none", language)]
    return [w.word("instead", language, w.comma(language).join(f"{t['option']} ({duration(t['seconds'])})" for t in tried))]


def _most(training) -> int:
    return max(r["count"] for r in training["rows"])


def by_use(a, language: str) -> Optional[Section]:
    """One recommendation for each use."""
    picks = a["verdict"]["picks"]
    if len(picks) < 2:
        return None
    priced = any(o["cost"] is not None for o in picks)
    time = "hours" if "hours" in picks[0] else "p99" if "p99" in picks[0] else "step" if a["job"]["training"] else "batch_time"
    cost = "cost" if time == "hours" else "cost_hour"
    rows = []
    for o in picks:
        took = w.hours(o["hours"][1], language) if "hours" in o else duration(o["time"])
        row = [w.word(f"use_{o['use']}", language), _named(o), took, f"{_watts(o)} W"]
        if priced:
            row.append(w.cost(o["cost"], a["currency"]))
        rows.append([*row, _remark(a, o, language)])
    head = [w.word(k, language) for k in ("for", "device", time, "watts", *((cost,) if priced else ()), "room")]
    more = len(_able(a)) - len({o["id"] for o in picks})
    by_price = a["verdict"]["by"] != "watts"
    notes = [w.word("by_cost_note" if by_price else "use_meaning", language) + (w.word("use_more", language, more) if more > 0 else "")]
    return Section("by_use", w.word("by_use", language), head, rows, left=(0, 1, len(head) - 1), notes=notes)


def _remark(a, o, language: str) -> str:
    lay = o["layout"]
    if lay is None:
        return w.word("load_of", language, percent(o["load"]))
    if "hours" in o:
        return w.layout(lay["job"], language)
    spare = w.gib(device_row(a, o["id"])["memory_bytes"] - lay["total"][2])
    fit = w.word("fits_tight", language) if o["tight"] else w.word("fits_spare", language, spare)
    return f"{fit}{'；' if language == 'zh' else '; '}{w.word('talk', language)} {percent(w.talk_share(lay))}" if o["count"] > 1 else fit
