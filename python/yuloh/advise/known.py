# SPDX-License-Identifier: Apache-2.0
"""`--list`, `--scenario` and `--show`: what the catalogue knows, as JSON and as a section."""

from __future__ import annotations

from . import catalogue, tables_known
from . import prices as prices_of
from .question import Question
from .reckon import matrix
from .scenarios import scenario_rows


def shown(args):
    """(what --json prints, Section) of the options. Raises ValueError for unknown names."""
    language = args.language
    prices, currency = prices_of.load_prices(args.prices) if args.prices else ({}, "")
    if args.show:
        entry = catalogue.find_device(args.show)
        return entry, tables_known.device(entry, language)
    if args.scenario:
        (one,) = scenario_rows(prices, args.scenario)
        return one, tables_known.scenario(one, currency, language)
    if args.what == "scenarios":
        rows = scenario_rows(prices)
        return rows, tables_known.scenarios(rows, language)
    if args.what == "presets":
        return catalogue.presets(), tables_known.presets(language)
    if args.what == "networks":
        return catalogue.fabrics(), tables_known.networks(language)
    if args.what == "devices":
        return catalogue.devices(), tables_known.devices(language)
    q = Question({"params": 1e6, "kind": "totals", "forward_flops": 1e6, "layers": 1.0}, prices=prices, currency=currency)
    rows = matrix(q)
    return rows, tables_known.matrix({"matrix": rows}, language)
