# SPDX-License-Identifier: Apache-2.0
"""`yuloh report`: HTML, Markdown and pictures from a results.json, in Chinese and English, with the sum of
costs.

yuloh report yuloh-bench-20261130-081500
yuloh report DIR --runs-per-day 50 --hours-saved 0.34 --servers 4 --price 3 --currency yuan
"""

from __future__ import annotations

import argparse
from pathlib import Path


def _languages(text: str):
    words = text.split(",")
    if not set(words) <= {"en", "zh"}:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected en, zh or both as en,zh")
    return list(dict.fromkeys(words))


def add_cost_options(p) -> None:
    """Options of the cost-benefit section; shared with `yuloh bench`."""
    g = p.add_argument_group("cost and benefit")
    g.add_argument("--runs-per-day", type=float, metavar="N", help="training runs a day (default: 50)")
    g.add_argument(
        "--hours-saved",
        type=float,
        metavar="H",
        help="hours that one run saves (default: from --hours-per-run and the measured speed)",
    )
    g.add_argument("--hours-per-run", type=float, metavar="H", help="hours of one run today (default: 2)")
    g.add_argument("--servers", type=float, metavar="N", help="servers that run them (default: 4)")
    g.add_argument("--price", type=float, metavar="P", help="price of a server hour (default: 3)")
    g.add_argument("--currency", metavar="C", help="currency of the price (default: CNY)")
    p.add_argument(
        "--language",
        type=_languages,
        default=["en", "zh"],
        metavar="en,zh",
        help="languages of the report; the first opens (default: en,zh)",
    )


def cost_from(args) -> dict:
    """The cost options that were given, as parameters of report.cost.Cost."""
    names = ("runs_per_day", "hours_saved", "hours_per_run", "servers", "price", "currency")
    return {n: getattr(args, n) for n in names if getattr(args, n) is not None}


def add(commands) -> None:
    p = commands.add_parser(
        "report",
        help="make the report of a results.json",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("results", nargs="?", default=".", help="results.json or its folder (default: here)")
    p.add_argument("--out", metavar="DIR", help="where to write (default: beside results.json)")
    add_cost_options(p)
    p.set_defaults(carry_out=carry_out)


def carry_out(args) -> int:
    from ..report import make_report

    results = Path(args.results)
    out = Path(args.out) if args.out else (results if results.is_dir() else results.parent)
    made = make_report(results, out, cost=cost_from(args), languages=args.language)
    for kind, path in made.items():
        print(f"{kind:10} {path}")
    return 0
