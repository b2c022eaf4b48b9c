# SPDX-License-Identifier: Apache-2.0
"""The report of a performance test: results.json in, a page, Markdown and pictures out.

    results.json -> view (figures and sentences, ready to show) -> page (HTML) | markdown
                 -> pictures (PNG, matplotlib)

`make_report` is the one entry. jinja2 and matplotlib are wanted only here (extra `report`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional, Sequence


def make_report(
    results, out, cost: Optional[dict] = None, languages: Sequence[str] = ("en", "zh")
) -> Dict[str, Path]:
    """Writes report.html, report.md, report.zh.md and the pictures into folder `out`; returns {kind: path}.

    results: path of results.json or of its folder. cost: parameters of the cost section (see
    summary.COST_DEFAULTS). languages: "en", "zh" or both; the first one opens. Raises ValueError for a file
    that is no results.json, ImportError naming the extra when jinja2 or matplotlib is missing, OSError when
    `out` cannot be written.
    """
    from ..bench.results import load, write_atomically
    from ..bench.summarise import summarise_workload
    from . import markdown, page, pictures, view

    record, out = load(Path(results)), Path(out)
    for workload in record["workloads"]:  # every figure follows from the raw samples, of a running test too
        summarise_workload(workload, final=True)
    out.mkdir(parents=True, exist_ok=True)
    made: Dict[str, Path] = {}
    drawn = pictures.draw_all(record, out, languages)
    views = {language: view.build(record, cost or {}, language, drawn[language]) for language in languages}
    made["html"] = out / "report.html"
    write_atomically(made["html"], page.render(views, out))
    for language in languages:
        kind = "markdown" if language == "en" else f"markdown {language}"
        made[kind] = out / ("report.md" if language == "en" else f"report.{language}.md")
        write_atomically(made[kind], markdown.render(views[language]))
    for files in drawn.values():
        for per_workload in files.values():
            made.update({Path(name).stem: out / name for name in per_workload.values()})
    return made
