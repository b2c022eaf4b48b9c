# SPDX-License-Identifier: Apache-2.0
"""Doc-hop check: every `file:symbol` in docs/*.md must name a file of this tree that contains the symbol.

Prints the hops that lead nowhere and exits 1; run by tests/python/test_tree.py.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOP = re.compile(r"`((?:src|python|tests|tools|bench|include)/[\w./-]+):([\w:~]+)`")


def broken():
    """([(document, file, symbol)] that do not resolve, number of hops seen)."""
    bad, seen = [], 0
    for doc in sorted((ROOT / "docs").glob("*.md")):
        for file, symbol in HOP.findall(doc.read_text()):
            seen += 1
            path = ROOT / file
            name = symbol.split("::")[-1]
            if not path.is_file() or not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", path.read_text()):
                bad.append((doc.name, file, symbol))
    return bad, seen


if __name__ == "__main__":
    bad, seen = broken()
    for doc, file, symbol in bad:
        print(f"{doc}: {file}:{symbol} does not exist")
    print(f"{seen} hops, {len(bad)} broken")
    sys.exit(bool(bad))
