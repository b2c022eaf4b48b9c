# SPDX-License-Identifier: Apache-2.0
"""Which layers of a planned model are worth recomputing: blocks and whole lists of them before their parts, each planned
again with that choice made, so that what is said to be saved is what the Plan saves."""

from __future__ import annotations

from typing import Callable, Dict, List

TRIED = 4  # choices that are planned, those that promise most
LEAST = 0.02  # of the activations: less is no choice


def choices(facts: dict, planned: Callable[[List[str]], dict]) -> List[dict]:
    """Rows {name, type, count, saved (bytes of the peak), time_added (share of the step's FLOPs)}, most saved first;
    `planned(names)` are the facts of the same step with these layers recomputed."""
    total, peak = facts.get("flops") or 0.0, facts["memory"]["peak"]["value"]
    least = LEAST * facts["memory"]["activations"]
    found = []
    for name, kind, names in _candidates(facts["layers"], least)[:TRIED]:
        again = planned(names)
        saved = peak - again["memory"]["peak"]["value"]
        if saved > max(least, 1.0) and total:
            found.append({"name": name, "type": kind, "count": len(names), "saved": saved,
                          "time_added": max(0.0, again["flops"] / total - 1)})
    return sorted(found, key=lambda r: -r["saved"])


def _candidates(layers: List[dict], least: float):
    """[(name, type, names of the layers)] by what they promise: their activations without what they hand on, which is kept in any case."""
    parents = {one["parent"] for one in layers}
    # A layer with parts; where the model has none, the layers themselves.
    blocks = [(i, x) for i, x in enumerate(layers) if x["depth"] >= 1 and i in parents]
    blocks = blocks or [(i, x) for i, x in enumerate(layers) if x["depth"] >= 1]
    alike: Dict[tuple, List[dict]] = {}
    for _, x in blocks:
        alike.setdefault((x["parent"], x["type"]), []).append(x)

    def promise(group):
        return sum(x["activation_bytes"] - x["output_bytes"] for x in group)

    groups = [g for g in alike.values() if len(g) > 1] + [[x] for x in (max(g, key=lambda x: promise([x])) for g in alike.values())]
    groups = sorted((g for g in groups if promise(g) > least), key=promise, reverse=True)
    return [(_name(layers, g), g[0]["type"], [x["name"] for x in g]) for g in groups]


def _name(layers: List[dict], group: List[dict]) -> str:
    """Of a list or Sequential its own, of others their names."""
    parent = layers[group[0]["parent"]]["name"]
    return parent if len(group) > 1 and parent else ", ".join(x["name"] for x in group)
