# SPDX-License-Identifier: Apache-2.0
"""report.md: the same view as the page, for a merge request or a wiki; pictures by relative file name."""

from __future__ import annotations

from typing import List


def _table(head: List[str], rows: List[List[str]]) -> List[str]:
    def line(cells):
        return "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"

    return [line(head), "|" + " --- |" * len(head), *map(line, rows), ""]


def render(v: dict) -> str:
    """Markdown of a view."""
    w, out = (
        v["w"],
        [
            f"# {v['title']}",
            "",
            f"{v['created']} · {v['subtitle']}",
            "",
            f"**{v['headline']}**",
            "",
        ],
    )
    out += [f"> {b['text']}\n" for b in v["banners"]]
    out += [f"## {w('summary')}", ""]
    for number, part in enumerate(v["parts"], 1):
        out += [f"### {number}. {part['title']}", "", *[f"- {line}" for line in part["lines"]], ""]
    for x in v["workloads"]:
        out += _workload(x, w)
    c = v["cost"]
    out += [
        f"## {w('cost')}",
        "",
        *_table([w("cost"), ""], [[r["name"], r["value"]] for r in c["rows"]]),
        c["formula"],
        "",
        c["source"],
        "",
    ]
    out += [f"## {w('method')}", "", *[f"- {line}" for line in v["method"]], "", f"## {w('machine')}", ""]
    out += _table([w("machine"), ""], [[r["name"], r["value"]] for r in v["machine"]])
    if v["errors"]:
        out += [f"## {w('errors')}", "", *[f"- {line}" for line in v["errors"]], ""]
    out += [f"## {w('repeat')}", "", "```", *v["repeat"], "```", "", w("raw"), ""]
    return "\n".join(out)


def _workload(x: dict, w) -> List[str]:
    out = [f"## {x['title']}" + (f", {w('batch')} {x['batch']}" if x["batch"] else ""), ""]
    head = [
        w("contender"),
        w("step"),
        f"{w('throughput')} ({x['unit']})",
        w("speedup"),
        w("verdict"),
        w("memory"),
        w("cpu"),
        w("first"),
        w("settings"),
    ]
    rows = []
    for r in x["rows"]:
        if not r["measured"]:
            rows.append([r["name"], "–", "–", "–", w(r["verdict"]), "–", "–", r["cold"], r["settings"]])
            continue
        speed = r["speedup"] + (f" [{r['interval']}]" if r["interval"] else "")
        rows.append(
            [
                r["name"],
                r["step"],
                r["throughput"],
                speed,
                w(r["verdict"]),
                r["memory"],
                r["cpu"],
                r["cold"],
                r["settings"],
            ]
        )
    out += _table(head, rows)
    for p in x["pictures"]:
        out += [f"![{p['alt']}]({p['file']})", "", f"*{p['caption']}*", ""]
    if x["sweep"]:
        out += [
            f"### {w('sweep')}",
            "",
            *_table(
                [w("batch"), w("step"), f"{w('throughput')} ({x['unit']})", w("memory"), w("fits")],
                [
                    [
                        f"{r['batch']}" + (f" ({w('knee')})" if r["knee"] else ""),
                        r["step"],
                        r["throughput"],
                        r["memory"],
                        r["fits"],
                    ]
                    for r in x["sweep"]
                ],
            ),
        ]
    if x["loader"]:
        out += [
            f"### {w('loader')}",
            "",
            *_table(
                [w("workers"), w("images_s"), w("waiting"), w("cpu")],
                [[r["workers"], r["images"], r["waiting"], r["cpu"]] for r in x["loader"]],
            ),
        ]
    return out
