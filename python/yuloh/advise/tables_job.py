# SPDX-License-Identifier: Apache-2.0
"""What the job needs and where it fits: memory, devices, changes, layouts."""

from __future__ import annotations

from typing import Optional

from ..report.text import duration, percent
from . import words as w
from .section import MARK, Section, device_row, job_words
from .tables_answer import instead, order_note, reason

FEW = 5


def memory(a, focus, language: str) -> Section:
    what = w.word("training" if a["job"]["training"] else "inference", language)
    rows = [[w.word(i[0], language), w.gib(i[2]), w.span((i[1], i[2], i[3]))] for i in focus["memory"]]
    rows.append([w.word("total", language), w.gib(focus["total"][1]), w.span(focus["total"])])
    head = [w.word("item", language), w.word("point", language), w.word("from_to", language)]
    title = w.word("memory_of", language, what=what + w.brackets(job_words(a, language, focus["precision_used"]), language), device=w.short(focus["name"], language))
    most = max(focus["memory"], key=lambda i: i[2])
    means = w.word("memory_means", language, item=w.word(most[0], language), share=percent(most[2] / focus["total"][1]),
                   shrink=w.word(_shrinks(most[0], a["job"]["training"]), language))
    notes = [means]
    if focus["devices"] == 1:
        sure, tight = f"{focus['largest_micro_batch']:,.0f}", f"{focus['largest_tight']:,.0f}"
        key = "largest_none" if tight == "0" else "largest_means" if sure != tight else "largest_same"
        notes.append(w.word(key, language, sure=sure, tight=tight, device=w.short(focus["name"], language)))
    return Section("memory", title, head, rows, notes=notes)


def _shrinks(item: str, training: bool) -> str:
    if item in ("weights", "experts", "adapters", "gradients", "optimizer"):
        return "shrink_states" if training else "shrink_weights"
    return "shrink_runtime" if item == "runtime" else "shrink_batch" if training else "shrink_serving"


def plan(a, language: str) -> Optional[Section]:
    """What the Plans of the real model say about this machine, and which of its layers to recompute."""
    p = a.get("plan")
    if not p:
        return None
    title = w.word("plan", language, batch=p["batch"], precision=p["precision"])
    notes = [
        f"{w.word('plan_' + k, language)}{w.colon(language)}{w.gib(v['value'])}{w.brackets(w.span((v['low'], v['value'], v['high'])), language)}"
        for k, v in p["memory"].items()
    ]
    t = p["seconds"]
    if t["value"] > 0:
        origin = w.word("plan_measured" if t["origin"] == "measured" else "plan_assumed", language)
        low, high = (duration(t[k]) for k in ("low", "high"))
        notes.append(f"{w.word('step' if a['job']['training'] else 'batch_time', language)}{w.colon(language)}{duration(t['value'])}{w.brackets(f'{low} - {high}', language)}{origin}")
    found = p["recompute"]
    if not found:
        return Section("plan", title, notes=notes)
    best = found[0]
    rows = [[_wrapped(r, language), w.gib(r["saved"]), f"+{percent(r['time_added'])}"] for r in found]
    head = [w.word(k, language) for k in ("recompute_layer", "saves", "time")]
    one, said = ("layer", "each") if ", " in best["name"] else ("block", "block") if best["count"] > 1 else (f"self.{best['name']}", "one")
    code = ["from paddle.distributed.fleet.utils import recompute",
            f"x = recompute({one}, x)  # {w.word(f'recompute_code_{said}', language, best['name'])}"]
    key = "plan_means_many" if best["count"] > 1 else "plan_means"
    notes.append(w.word(key, language, name=best["name"], n=best["count"], saved=w.gib(best["saved"])))
    return Section("plan", title, head, rows, code=code, notes=notes)


def _wrapped(r: dict, language: str) -> str:
    return r["name"] + w.brackets(f"{r['count']} x {r['type']}" if r["count"] > 1 else r["type"], language)


def devices(a, language: str) -> Section:
    step = "step" if a["job"]["training"] else "batch_time"
    head = [w.word(k, language) for k in ("device", "has", "needs", "fits", "largest", step, "share")]
    rows = []
    for r in a["devices"]:
        mark = "".join(sorted({MARK[r["origins"][k]] for k in ("memory", "bandwidth", r["precision_used"]) if k in r["origins"]}))
        rows.append(
            [
                f"{w.short(r['name'], language)} ({mark})",
                w.gib(r["memory_bytes"]),
                w.gib(r["total"][1]),
                w.word(r["verdict"], language),
                _largest(r),
                duration(r["seconds"][1]),
                w.share(r["share_of_peak"]),
            ]
        )
    able = sum(r["verdict"] in ("yes", "tight") for r in a["devices"])
    return Section("devices", w.word("devices", language), head, rows,
                   notes=[w.word("devices_means", language, n=able, m=len(rows))])


def _largest(row) -> str:
    """The largest micro-batch that surely fits; in brackets where only the estimate does."""
    sure, tight = row["largest_micro_batch"], row["largest_tight"]
    return f"{sure:,.0f}" if sure == tight else f"{sure:,.0f} ({tight:,.0f})"


def recommended(a, language: str) -> Optional[Section]:
    """The least of every kind of device; where a training or a rate was asked for, its own table says it."""
    if "training" in a or "serving" in a:
        return None
    if not a["recommended"]:
        return Section("recommended", w.word("none_fits", language))
    rows = [
        [
            f"{r['count']} x {w.short(r['name'], language)}",
            reason(a, r, language),
            w.layout(r["layout"]["job"], language),
            duration(r["layout"]["seconds"][1]),
            f"{r['watts']:,.0f} W",
        ]
        for r in a["recommended"]
    ]
    head = [w.word(k, language) for k in ("device", "why", "layout", "step", "watts")]
    return Section("recommended", w.word("recommended", language), head, rows, left=(0, 1, 2),
                   notes=[w.word("recommended_means", language) + order_note(a, language)])


def changes(a, focus, language: str, everything: bool) -> Optional[Section]:
    if not a["changes"]:
        return None
    rows = [
        [
            w.change(c, language),
            w.gib(c["saved"]),
            w.factor(c["time_factor"]),
            w.word(c["after"]["verdict"], language),
            w.options(focus["job"], c["after"]["job"]),
        ]
        for c in a["changes"][: 10 if everything else FEW]
    ]
    head = [w.word(k, language) for k in ("change", "saves", "time", "fits", "option")]
    name = w.short(focus["name"], language)
    made = Section("changes", w.word("changes", language, device=name), head, rows, left=(0, 4))
    if focus["verdict"] in ("no", "unlikely"):
        if a["together"]:
            made.notes.append(
                w.word("together", language, device=name) + w.colon(language) + " + ".join(w.change(c, language) for c in a["together"])
                + w.stop(language)
            )
        else:
            made.notes.append(w.word("together_none", language, device=name))
        best = next((c for c in a["changes"] if c["fits"]), None)
        if best:
            made.notes.append(w.word("changes_same" if best["same"] else "changes_means", language, w.change(best, language), w.factor(best["time_factor"])))
    else:
        made.notes.append(w.word("changes_idle" if focus["verdict"] == "yes" else "changes_tight", language))
    return made


def layouts(a, language: str, everything: bool) -> Optional[Section]:
    lay = a["layouts"]
    name = w.short(device_row(a, lay["device"])["name"], language)
    if not a["job"]["training"] or lay["count"] == 1:
        return None
    if not lay["found"]:
        return Section("layouts", w.word("layouts_none", language, count=lay["count"], device=name), notes=instead(a, language))
    rows = [
        [
            w.layout(x["job"], language),
            w.gib(x["total"][1]),
            w.word(x["verdict"], language),
            duration(x["seconds"][1]),
            percent(x["bubble"]),
            percent(w.talk_share(x)),
            w.share(x["share_of_peak"]),
        ]
        for x in lay["found"][: 6 if everything else 3]
    ]
    head = [w.word(k, language) for k in ("layout", "needs", "fits", "step", "bubble", "talk", "share")]
    over = w.word("inside_pcie" if lay["pcie"] else "inside", language, f"{lay['link'] / 1e9:.3g}") if lay["link"] else w.network(a["network"]["name"], language)
    title = w.word("layouts", language, count=lay["count"], device=name) + w.brackets(over, language)
    code = [
        f"# {w.word('strategy', language)}",
        *lay["strategy"].splitlines(),
        f"# {w.word('launch', language)}",
        lay["launch"],
        *(f"# {said}" for said in lay["last_server"]),
    ]
    best = lay["found"][0]
    lost = max((("bubble", best["bubble"]), ("talk", w.talk_share(best))), key=lambda pair: pair[1])
    means = w.word("layouts_means" if lost[1] > 0.01 else "layouts_whole", language, layout=w.layout(best["job"], language),
                   most=w.word(lost[0], language), share=percent(lost[1]))
    return Section("layouts", title, head, rows, code=code, notes=[means])
