# SPDX-License-Identifier: Apache-2.0
"""Tables about serving decoders: tokens by how many requests are generated together, requests that devices hold at once."""

from __future__ import annotations

from typing import Optional

from ..report.text import duration, percent, three
from . import words as w
from .section import Section

BITS = ("bits16", "bits8", "bits4")


def decoding(a, language: str) -> Optional[Section]:
    """Tokens by how many requests are decoded together, on the device looked at."""
    made = a.get("decoding")
    own = made and made["own"]
    if not own:
        return None
    name = next(w.short(r["name"], language) for r in made["devices"] if r["id"] == made["device"])
    title = w.word("decoding", language, count=own["group"], device=name, new=f"{made['new_tokens']:.0f}")
    rows = [
        [
            f"{r['batch']:,.0f}",
            duration(r["token"]),
            three(r["tokens"]),
            three(r["requests"]),
            w.gib(r["cache"]),
        ]
        for r in own["rows"]
    ]
    head = [w.word(k, language) for k in ("together_n", "a_token", "tokens_s", "requests_s", "cache")]
    low, point, high = (f"{x:,.0f}" for x in own["most"])
    said = w.word("most_requests", language, n=point, low=low, high=high, context=f"{own['context']:,.0f}")
    first = w.word("first_token", language, first=duration(own["prompt"]))
    return Section("decoding", title, head, rows, left=(), notes=[said, first])


def concurrent(a, language: str, everything: bool) -> Optional[Section]:
    """How many requests of the context every device holds at once, by stored bits of the weights."""
    made = a.get("decoding")
    if not made:
        return None
    context = a["model"]["seq"] + made["new_tokens"]
    kept = [r for r in made["devices"] if any(r[b] for b in BITS)]
    # Most tokens of one device first: memory alone would put hosts in front.
    kept.sort(key=lambda r: -max(r[b]["rows"][-1]["tokens"] / r[b]["group"] for b in BITS if r[b]))

    def cell(found):
        if not found:
            return "–"
        count = f" / {found['group']}" if found["group"] > 1 else ""
        return f"{found['most'][1]:,.0f}{count} ({three(found['rows'][-1]['tokens'])}/s)"

    rows = [[w.short(r["name"], language), *(cell(r[f"bits{b}"]) for b in (16, 8, 4))] for r in (kept if everything else kept[:10])]
    head = [w.word("device", language), *(w.word("bits", language, b) for b in (16, 8, 4))]
    title = w.word("concurrent", language, context=f"{context:,.0f}", share=percent(made["share"]))
    return Section("concurrent", title, head, rows, notes=[w.word("concurrent_note", language)])
