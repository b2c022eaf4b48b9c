# SPDX-License-Identifier: Apache-2.0
"""A part of the answer as both the plain text and the page show it, and what the parts share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Sequence

from . import words as w

MARK = {"catalogue": "c", "article": "a", "recalled": "r", "measured": "m", "user": "u"}


@dataclass
class Section:
    """A title, a table (columns in `left` stand left), lines to be shown as they are, and sentences: what it means last."""

    name: str
    title: str
    head: Sequence[str] = ()
    rows: List[Sequence[str]] = field(default_factory=list)
    left: Sequence[int] = (0,)
    notes: List[str] = field(default_factory=list)
    code: List[str] = field(default_factory=list)


def device_row(a, ident: str) -> dict:
    return next(r for r in a["devices"] if r["id"] == ident)


def focus_row(a) -> dict:
    return device_row(a, a["focus"])


def job_words(a, language: str, used: str = "") -> str:
    """The job of an answer in a few words; `used`: the precision of a device that has not the one asked for."""
    job = a["job"]
    parts = [used or str(job["precision"]), w.word("batch", language, f"{job['batch']:.0f}")]
    if job.get("micro"):
        parts.append(f"{w.word('micro', language)} {job['micro']:.0f}")
    if a["model"]["kind"] in ("decoder", "encoder"):
        parts.append(w.word("tokens_each", language, f"{a['model']['seq']:.0f}"))
    if job.get("lora"):
        parts.append(f"LoRA {job['lora']:.0f}" + w.brackets(w.word(str(job.get("lora_targets", "attention")), language), language))
    if job.get("weight_bits"):
        parts.append(f"{job['weight_bits']:.0f}-bit")
    if job["training"]:
        parts.append(str(job["optimizer"]))
    return w.comma(language).join(parts)
