# SPDX-License-Identifier: Apache-2.0
"""`yuloh diff A B`: where does one model begin to differ from another, or from itself run in another way?

A and B are model files (Paddle .json/.pdmodel, ONNX, .yuloh), each optionally with how to run it behind an @:
bf16, reference (no library, fusion or rules), nolibrary, nofusion, norules. `@bf16` alone as B is the file of A.
Every inner value is checked against float64 on the inputs that its op had, and named rounding, reduced precision or
wrong. Exit status: 0 they agree, 1 they differ, 2 wrong usage.

  yuloh diff net.json net.onnx --input samples.npz
  yuloh diff net.onnx @bf16 --random --size batch=4
  yuloh diff net.yuloh net.yuloh@reference --random --all
"""

from __future__ import annotations

import argparse
import json

from ..report import columns


def add(commands) -> None:
    p = commands.add_parser(
        "diff",
        help="find the first op in which two models differ",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("a", metavar="A", help="the model that is trusted")
    p.add_argument("b", metavar="B", help="the other; @OPTIONS alone: the file of A")
    fed = p.add_mutually_exclusive_group()
    fed.add_argument("--input", metavar="X.npz", help="arrays by input name, or x0, x1, ...")
    fed.add_argument("--random", action="store_true", help="draw the inputs (the default without --input)")
    p.add_argument("--size", action="append", default=[], metavar="DIM=N", help="an open size: its name, or INPUT.AXIS")
    p.add_argument("--seed", type=int, default=0, help="of drawn inputs (default: 0)")
    p.add_argument("--precision-b", choices=("fp32", "bf16"), help="the same as B@bf16")
    p.add_argument("--params-a", default="", metavar="FILE", help="weights of A where they are not beside it")
    p.add_argument("--params-b", default="", metavar="FILE")
    p.add_argument("--all", action="store_true", help="show every value")
    p.add_argument("--out", metavar="DIR", default="yuloh-diff", help="folder of the reproduction (default: yuloh-diff)")
    p.add_argument("--json", action="store_true", help="the result as JSON")
    p.set_defaults(carry_out=carry_out)


def carry_out(args) -> int:
    from ..inference import diff
    from . import readable
    from .convert import size_of

    b = args.b
    if args.precision_b:
        b += ("," if "@" in b else "@") + args.precision_b
    with readable(args.command):
        report = diff(args.a, b, args.input, sizes=size_of(args.size), seed=args.seed, params_a=args.params_a,
                      params_b=args.params_b, reproduction=args.out)
    print(json.dumps(facts(report), indent=1) if args.json else table(report, args.all))
    return 0 if report.equal and report.matched else 1


def table(report, everything=False) -> str:
    """Readable text: the rows that matter (all where asked for), what was skipped, and the result in a sentence."""
    rows = [r for r in report.rows if everything or _matters(report, r)]
    cells = [(_short(r.name, 44), _short(r.op, 22), *(c for v in r.verdicts for c in (_label(v), _units(v))), f"{r.difference:.2g}",
              r.place() + ("  <-- first" if r is report.first else "")) for r in rows]
    head = ("value", "op", "A", "roundings", "B", "roundings", "A - B", "layer")
    lines = columns.table(head, cells, left=(0, 1, 2, 4, 7), limit=columns.UNBOUNDED, indent="") if rows else []
    hidden = len(report.rows) - len(rows)
    if hidden:
        lines.append(f"{hidden} values that differ by rounding are not shown (--all shows them).")
    if any(report.skipped):
        lines.append(f"{report.skipped[0]} values of A and {report.skipped[1]} of B have no counterpart: each was held against its own file only.")
    lines += [f"note: {n}" for n in report.notes[:8]]
    if len(report.notes) > 8:
        lines.append(f"note: and {len(report.notes) - 8} more.")
    lines.append(report.sentence())
    if report.reproduction:
        lines.append(f"That op alone: python {report.reproduction}/reproduce.py")
    return "\n".join(lines)


def _matters(report, row):
    return row is report.first or any(v and v.label != "rounding" for v in row.verdicts)


def _short(text, width):
    return text if len(text) <= width else text[: width - 1] + "…"


def _label(verdict):
    return verdict.label + ("" if verdict.declared else "?") if verdict else "-"


def _units(verdict):
    return f"{verdict.units:.2g}" if verdict else "-"


def facts(report) -> dict:
    """The result for other programs."""
    import math

    def number(x):
        return x if math.isfinite(x) else str(x)

    rows = [{"value": r.name, "other": r.other, "op": r.op, "layer": r.layer, "where": r.where, "shape": r.shape,
             "difference": number(r.difference),
             "verdicts": [{"label": v.label, "roundings": number(v.units), "declared": v.declared, "why": v.why} for v in r.verdicts]}
            for r in report.rows]
    return {"equal": report.equal, "sentence": report.sentence(), "first": report.first.name if report.first else None,
            "side": report.bad_side, "skipped": report.skipped, "notes": report.notes, "reproduction": report.reproduction,
            "rows": rows}
