# SPDX-License-Identifier: Apache-2.0
"""The answer as sections in order, short or whole: what both the plain text and the page show."""

from __future__ import annotations

from typing import Dict, List

from . import origins, tables_goal, tables_job, tables_known, tables_serve
from . import words as w
from .section import Section, focus_row
from .tables_answer import by_use, lines

__all__ = ["Section", "closing", "lines", "sections"]


# A note of facts (src/advise/account.cpp) that the plan's own lines say already.
PLAN_ASSUMED = "seconds: catalogue peak x assumed efficiency; yuloh calibrate measures this machine."


def sections(a: Dict[str, object], language: str = "en", everything: bool = False) -> List[Section]:
    """everything: all devices, changes and layouts, and the decision matrix too."""
    focus = focus_row(a)
    asked = len(a["devices"]) <= 12  # some were named: how each of them fares
    found = a["changes"] and (everything or asked or focus["verdict"] not in ("yes",))
    made = [
        by_use(a, language),
        tables_goal.training(a, language, everything),
        tables_goal.serving(a, language, everything),
        tables_job.memory(a, focus, language),
        tables_job.plan(a, language),
        tables_job.devices(a, language) if everything or (asked and len(a["devices"]) > 1) else None,
        tables_job.recommended(a, language) if everything else None,
        tables_job.changes(a, focus, language, everything) if found else None,
        tables_job.layouts(a, language, everything),
        tables_serve.decoding(a, language),
        tables_serve.concurrent(a, language, everything),
        tables_goal.rates(a, language, everything),
        tables_known.matrix(a, language) if everything else None,
        tables_known.scenarios(a["scenarios"], language) if "scenarios" in a else None,
    ]
    return [s for s in made if s is not None]


def closing(a, language: str) -> List[str]:
    """Where the figures come from, and what was assumed."""
    made = [origins.sentence(a, language)]
    if not focus_row(a)["measured"]:
        made.append(w.word("assumed", language))
    remarks = [r for r in a["remarks"] if r != PLAN_ASSUMED]
    if remarks:
        made.append(
            w.word("remarks", language) + w.colon(language) + ("；" if language == "zh" else "; ").join(w.remark(r, language) for r in remarks)
        )
    return made
