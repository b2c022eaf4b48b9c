# SPDX-License-Identifier: Apache-2.0
"""What can be compared, and how it is written on the command line.

yuloh                       the Yuloh that runs this command
yuloh@v0.3  yuloh@HEAD~2    a git revision of the repository one stands in (built into its own environment)
paddlepaddle==3.3.1         any pip requirement; `paddlepaddle==2.6.2:python3.9` says which Python makes it
old=/opt/paddle/bin/python  a Python that has the framework already
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import List, Optional


@dataclass(frozen=True)
class Contender:
    """kind: "yuloh", "revision", "requirement" or "python"; target: revision, requirement or path."""

    spec: str
    name: str
    kind: str
    target: str = ""
    base_python: Optional[str] = None  # which interpreter makes the environment; None: the running one


def parse(spec: str) -> Contender:
    """Contender of one word of the command line; ValueError says what the word may look like."""
    spec = spec.strip()
    if spec == "yuloh":
        return Contender(spec, "yuloh", "yuloh")
    if spec.startswith("yuloh@") and len(spec) > 6:
        return Contender(spec, spec, "revision", spec[6:])
    name, equals, path = spec.partition("=")
    if equals and not path.startswith("=") and re.fullmatch(r"[\w.+-]+", name) and path:
        return Contender(spec, name, "python", path)
    requirement, _, base = spec.partition(":")
    if re.fullmatch(
        r"[A-Za-z0-9][\w.-]*(\[[\w,-]+\])?\s*((==|~=|>=|<=|!=|<|>)[\w.*+!-]+(,\s*)?)*", requirement
    ):
        label = re.sub(r"\s*==\s*", " ", requirement) + (f" ({base})" if base else "")
        return Contender(spec, label, "requirement", requirement, base or None)
    raise ValueError(
        f"bench: cannot read the contender, got {spec!r}; expected yuloh, yuloh@REVISION, a pip "
        "requirement or NAME=/path/to/python. Hint: --with paddlepaddle==3.3.1"
    )


def parse_all(specs: List[str]) -> List[Contender]:
    """Contenders of a list of words, each of which may itself hold several, parted by spaces or commas."""
    found: List[Contender] = []
    for word in (w for s in specs for w in re.split(r"[\s,]+(?![<>=!~])", s) if w):
        contender = parse(word)
        if any(c.name == contender.name for c in found):
            if any(c.spec == contender.spec for c in found):
                continue
            raise ValueError(
                f"bench: two contenders are called {contender.name!r}; expected different names. "
                "Hint: NAME=/path/to/python takes any name."
            )
        found.append(contender)
    return found
