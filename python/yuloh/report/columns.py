# SPDX-License-Identifier: Apache-2.0
"""Tables of plain text for every command: columns as wide as their widest cell, and no wider than the page.

Wide characters (Chinese) count as two. Where a table would be wider than `limit`, headings break first, then the cells
of the columns that stand left.
"""

from __future__ import annotations

import re
import unicodedata
from typing import List, Sequence

WIDTH = 100
UNBOUNDED = 1 << 30  # for names that must stay whole
NARROWEST = 10  # that a column of words is squeezed to
GAP = "  "
# A word, a wide character or white space; what closes a sentence stays with what it closes.
PIECES = re.compile(r"(?:[\u2e80-\uffef]|[^\s\u2e80-\uffef]+)[，。；：）、]*|\s+")


def width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrap(text: str, limit: int) -> List[str]:
    """Lines of `limit` columns, broken between words or after wide characters; a longer word is left whole."""
    lines, line = [], ""
    for piece in PIECES.findall(text):
        if line.strip() and width(line + piece.rstrip()) > limit:
            lines.append(line.rstrip())
            line = ""
        line += piece if line or piece.strip() else ""
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def paragraph(text: str, limit: int = WIDTH, indent: str = "") -> List[str]:
    """`text` in lines of `limit`, each after `indent`."""
    return [indent + line for line in wrap(text, limit - len(indent))]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,), limit: int = WIDTH,
          indent: str = "  ") -> List[str]:
    """Lines of a table; the columns in `left` stand left, the others right. No head: pass ()."""
    everything = [r for r in (head, *rows) if r]
    if not everything:
        return []
    n = len(everything[0])
    columns = [max(width(r[i]) for r in everything) for i in range(n)]

    def excess() -> int:
        return len(indent) + sum(columns) + len(GAP) * (n - 1) - limit

    if head and excess() > 0:
        for i in range(n):
            word = max((width(w) for w in str(head[i]).split()), default=0)
            columns[i] = max([word, *(width(r[i]) for r in rows)])
    while excess() > 0:
        widest = max((i for i in left if columns[i] > NARROWEST), key=lambda i: columns[i], default=None)
        if widest is None:
            break
        columns[widest] -= 1

    def lines_of(cells) -> List[str]:
        parts = [wrap(c, columns[i]) for i, c in enumerate(cells)]
        made = []
        for k in range(max(len(p) for p in parts)):
            line = []
            for i, p in enumerate(parts):
                c = p[k] if k < len(p) else ""
                space = " " * max(0, columns[i] - width(c))
                line.append(c + space if i in left else space + c)
            made.append((indent + GAP.join(line)).rstrip())
        return made

    return [line for r in everything for line in lines_of(r)]
