# SPDX-License-Identifier: Apache-2.0
"""The first lines: what is needed, what to take, why, how sure that is, what the next larger one buys; then one
recommendation for each use."""

from __future__ import annotations

import math
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
        "ans_need_whole" if whole else "ans_need", language, model=w.word(a["model"]["title"], language), params=w.number(a["model"]["params"], language), what=what,
        job=job_words(a, language, focus["precision_used"]), need=w.gib(focus["total"][1]), span=w.span(focus["total"]))


def _half(a, language: str) -> str:
    """Which of the devices recommended compute in another precision than asked for, or at a rate that is assumed."""
    asked, said = a["job"]["precision"], []
    rows = {o["id"]: device_row(a, o["id"]) for o in a["verdict"]["picks"]}
    for used in dict.fromkeys(r["precision_used"] for r in rows.values() if r["precision_used"] != asked):
        names = w.comma(language).join(w.short(r["name"], language) for r in rows.values() if r["precision_used"] == used)
        scaled = (asked, used) == ("bf16", "fp16") and a["job"]["training"]
        said.append(w.word("ans_no_bf16" if scaled else "ans_no_precision", language, names, asked, used))
    guessed = w.comma(language).join(w.short(r["name"], language) for r in rows.values() if r["rate_assumed"])
    return " ".join([*said, *([w.word("ans_rate_assumed", language, guessed, asked)] if guessed else [])])


def _unfit(a, language: str) -> str:
    """Which of the devices asked about are made for inference, where training was asked."""
    names = [w.short(r["name"], language) for r in a["devices"] if not r["for_training"]]
    return w.word("ans_not_for_training", language, w.comma(language).join(names)) if names and a["job"]["training"] else ""


def _named(o, language: str) -> str:
    return f"{o['count']} x {w.short(o['name'], language)}"


def _take(a, o, language: str) -> str:
    return _taken(a, o, language) + _how(a, o, language) + _host(o, language)


def _host(o, language: str) -> str:
    """Memory of the host, where something lies there: of a device, and of a server with several."""
    lay = o["layout"]
    if not lay or lay["host"] < 1e6:
        return ""
    here = int(lay["of_server"])
    server = w.word("ans_host_server", language, w.gib(here * lay["host"]), here) if here > 1 else ""
    return w.word("ans_host", language, w.gib(lay["host"]), server=server)


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
    name = _named(o, language)
    if "hours" in o:
        limit = w.word("ans_limit", language, w.hours(a["goals"]["hours"], language)) if "hours" in a["goals"] else ""
        return w.word("ans_take_hours", language, name=name, hours=w.hours(o["hours"][1], language),
                      span=w.hours_span(o["hours"], language, w.word("to", language)), limit=limit,
                      energy=f"{three(o['kilowatt_hours'])} kWh", cost=_cost(a, o["cost"], "", language))
    if "p99" in o:
        if o["group"] > 1:
            name += w.brackets(w.word("in_groups", language, int(o["copies"]), int(o["group"])), language)
        return w.word("ans_take_rate", language, name=name, p99=duration(o["p99"]), limit=duration(a["goals"]["p99"]),
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
    v, cheaper = a["verdict"], a["verdict"]["cheaper"]
    if not v["why"]:
        return ""
    named = {"count": o["count"], "n": v["able"], "m": len(a["devices"]), "watts": _watts(o)}
    if cheaper:
        paid = v["by"] == "cost"
        price = _cost(a, cheaper["cost"], "" if "hours" in cheaper else "an_hour", language).lstrip(", ，") if paid else f"{_watts(cheaper)} W"
        named.update(less=w.word("costs_less" if paid else "draws_less", language), name=_named(cheaper, language), price=price,
                     time=_took(cheaper, language), times=w.times(cheaper["time"] / o["time"], language))
    made = w.word(f"why_{v['why']}" + ("_watts" if f"why_{v['why']}_watts" in w.WORDS and v["by"] == "watts" else ""), language, **named)
    stands = v["by"] == "watts" and v["given"] is None
    return made + (w.word("power_stands", language) if stands else "")


def _took(o, language: str) -> str:
    return w.hours(o["hours"][1], language) if "hours" in o else duration(o["time"])


def _watts(o) -> str:
    return f"{o['watts']:,.0f}" if o["watts"] else "–"


def _sure(a, o, language: str) -> str:
    row = device_row(a, o["id"])
    lay = o["layout"]
    said = w.word("sure_tight" if o["tight"] else "sure_yes", language, high=w.gib(lay["total"][2]) if lay else "")
    low, point, high = row["seconds"]
    assumed = "sure_planned" if a.get("plan") and row["id"] == "this" else "sure_assumed_experts" if a["model"]["experts"] else "sure_assumed"
    time = w.word("sure_measured" if row["measured"] else assumed, language, low=f"{low / point:.2g}", high=f"{high / point:.2g}")
    time += _in_time(a, o, language)
    recalled = w.word("sure_recalled", language) if "recalled" in row["origins"].values() else ""
    return w.word("ans_sure", language, memory=said, time=time, recalled=recalled)


def _in_time(a, o, language: str) -> str:
    """Whether the slow end of the interval keeps the time that was set, and what would keep it even then."""
    if "hours" not in a["goals"] and "p99" not in o:
        return ""
    if o["sure"]:
        return w.word("sure_in_time", language)
    sure = a["verdict"]["sure"]
    slow = o["hours"][2] * 3600 if "hours" in o else o["slow"]
    said = w.hours(slow / 3600, language) if "hours" in o else duration(slow)
    late = w.word("sure_late", language, said) if math.isfinite(slow) else w.word("sure_behind", language)
    return late + (w.word("sure_enough", language, _named(sure, language)) if sure else w.word("sure_never", language, w.short(o["name"], language)))


def _next(a, first, o, language: str) -> str:
    if not o:
        return w.word("ans_no_next", language) if len(a["devices"]) > 1 else ""
    by = w.word("by_power" if a["verdict"]["by"] == "watts" else "by_cost", language)
    return w.word("ans_next", language, name=_named(o, language), time=_took(o, language), faster=w.times(first["time"] / o["time"], language),
                  more=w.ratio(o["rank"], first["rank"], language), by=by)


def _none(a, language: str) -> List[str]:
    late = a["verdict"]["late"]
    if a["verdict"]["given"] is False:
        return _not_so_many(a, language)
    if late and "hours" in late[0]:
        most = max(r["count"] for r in a["training"]["rows"])
        return [w.word("ans_none_in_time", language, limit=w.hours(a["goals"].get("hours", 0.0), language), most=most,
                       name=_named(late[0], language), hours=_took(late[0], language))]
    limit = a["goals"].get("p99", 0.0)
    many = [r for r in a["serving"]["rows"] if r["most_rate"] >= a["goals"]["rate"] and r["p99"] <= limit] if late else []
    if many:  # more than --most allows
        least = min(many, key=lambda r: r["count"])
        return [w.word("ans_none_so_few", language, rate=three(a["goals"]["rate"]), limit=duration(limit), name=_named(least, language), n=least["count"])]
    if late:
        return [w.word("ans_none_serves", language, limit=duration(a["goals"]["p99"]), name=w.short(late[0]["name"], language),
                       alone=duration(late[0]["time"]))]
    nearest = max(a["devices"], key=lambda r: r["memory_bytes"] / r["total"][1])
    made = [w.word("ans_none" if len(a["devices"]) > 1 else "ans_none_one", language, m=len(a["devices"]), name=w.short(nearest["name"], language), has=w.gib(nearest["memory_bytes"]),
                   needs=w.gib(nearest["total"][1]))]
    if a["together"]:
        made.append(w.word("together", language, device=w.short(focus_row(a)["name"], language)) + w.colon(language)
                    + " + ".join(w.change(c, language) for c in a["together"]) + w.stop(language))
    return made


def _not_so_many(a, language: str) -> List[str]:
    """The number of devices that was given does not do it; what would."""
    lay, name = a["layouts"], w.short(focus_row(a)["name"], language)
    late = next((r for r in (a.get("training") or {}).get("rows", ()) if (r["id"], r["count"]) == (lay["device"], lay["count"])), None)
    if late:
        made = w.word("ans_given_late", language, name=f"{lay['count']} x {name}", hours=w.hours(late["hours"][1], language),
                      limit=w.hours(a["goals"].get("hours", 0.0), language))
    elif "serving" in a:
        made = w.word("ans_given_slow", language, name=f"{lay['count']} x {name}", limit=duration(a["goals"]["p99"]), rate=three(a["goals"]["rate"]))
    else:
        made = w.word("layouts_none", language, count=lay["count"], device=name)
    picks = a["verdict"]["picks"]
    return [made + (w.word("ans_instead", language, _named(picks[0], language)) if picks else "")] + instead(a, language)


def instead(a, language: str) -> List[str]:
    """What else would make the job fit the devices."""
    tried = a["layouts"].get("instead")
    if tried is None:
        return []
    if not tried:
        return [w.word("instead_none", language)]
    return [w.word("instead", language, w.comma(language).join(f"{t['option']} ({duration(t['seconds'])})" for t in tried))]


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
        row = [w.word(f"use_{o['use']}", language), _named(o, language), _took(o, language), f"{_watts(o)} W"]
        if priced:
            row.append(w.cost(o["cost"], a["currency"]))
        rows.append([*row, _remark(a, o, language)])
    head = [w.word(k, language) for k in ("for", "device", time, "watts", *((cost,) if priced else ()), "room")]
    more = a["verdict"]["able"] - len(picks)
    notes = [order_note(a, language) + (w.word("use_more", language, more) if more > 0 else "")]
    return Section("by_use", w.word("by_use", language), head, rows, left=(0, 1, len(head) - 1), notes=notes)


def order_note(a, language: str) -> str:
    """What the rows are ordered by."""
    limited = "serving" in a or ("training" in a and "hours" in a["goals"])
    return w.word("order_cost" if a["verdict"]["by"] == "cost" else "order_watts", language) + ("" if limited else w.word("order_speed", language))


def _remark(a, o, language: str) -> str:
    lay = o["layout"]
    if lay is None:
        return w.word("load_of", language, percent(o["load"]))
    if "hours" in o:
        return w.layout(lay["job"], language)
    spare = w.gib(device_row(a, o["id"])["memory_bytes"] - lay["total"][2])
    fit = w.word("fits_tight", language) if o["tight"] else w.word("fits_spare", language, spare)
    return f"{fit}{'；' if language == 'zh' else '; '}{w.word('talk', language)} {percent(w.talk_share(lay))}" if o["count"] > 1 else fit
