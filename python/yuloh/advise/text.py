# SPDX-License-Identifier: Apache-2.0
"""The answer as plain text."""

from __future__ import annotations

from typing import Dict

from ..report.columns import WIDTH, paragraph, table
from . import tables
from . import words as w
from .section import Section


def plain(section: Section) -> str:
    made = paragraph(section.title)
    made += table(section.head, section.rows, section.left)
    if section.code:
        made += ["", *(f"  {line}".rstrip() for line in section.code), ""]
    for note in section.notes:
        made += paragraph(note, WIDTH, "  ")
    return "\n".join(made)


def report(a: Dict[str, object], language: str = "en", everything: bool = False) -> str:
    """The answer in words. everything: all devices and the decision matrix too."""
    top = [line for sentence in tables.lines(a, language) for line in paragraph(sentence)]
    top += paragraph(w.word("class", language) + w.colon(language) + w.class_words(a, language))
    last = [line for sentence in tables.closing(a, language) for line in paragraph(sentence)]
    parts = ["\n".join(top), *(plain(s) for s in tables.sections(a, language, everything)), "\n".join(last)]
    return "\n\n".join(parts)
