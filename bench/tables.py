# SPDX-License-Identifier: Apache-2.0
"""Tables for the documents: markdown rows, and sections that a script may write anew between its two markers."""

import pathlib


def markdown(head, rows):
    """A markdown table; cells are made strings."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def write_section(path, name, text):
    """Puts `text` between <!-- name:begin --> and <!-- name:end --> of a document; at its end if it has none yet."""
    path = pathlib.Path(path)
    held = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    section = f"{begin}\n{text.strip()}\n{end}"
    if begin in held and end in held:
        before, rest = held.split(begin, 1)
        held = before + section + rest.split(end, 1)[1]
    else:
        held = held.rstrip("\n") + f"\n\n{section}\n"
    path.write_text(held, encoding="utf-8")
