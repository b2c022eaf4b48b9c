# SPDX-License-Identifier: Apache-2.0
"""The answer as plain text."""

from __future__ import annotations

import unicodedata
from typing import Dict, List, Sequence

from . import tables
from . import words as w


def width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> List[str]:
    """Columns padded to their widest cell; those in `left` stand left, the others right."""
    columns = [max(width(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(cells):
        padded = []
        for i, c in enumerate(cells):
            space = " " * (columns[i] - width(c))
            padded.append(c + space if i in left else space + c)
        return "  " + "  ".join(padded).rstrip()

    return [line(head), *(line(r) for r in rows)]


def plain(section: tables.Section) -> str:
    lines = [section.title]
    if section.rows:
        lines += table(section.head, section.rows, section.left)
    if section.code:
        lines += ["", *(f"  {line}".rstrip() for line in section.code)]
    return "\n".join(lines + [f"  {note}" for note in section.notes])


def report(a: Dict[str, object], language: str = "en", everything: bool = False) -> str:
    """The answer in words. everything: all devices and the decision matrix too."""
    top = f"{tables.headline(a, language)}\n{w.word('class', language)}: {w.word('class%d' % a['class'], language)}"
    parts = [
        top,
        *(plain(s) for s in tables.sections(a, language, everything)),
        "\n".join(tables.closing(a, language)),
    ]
    return "\n\n".join(parts)
