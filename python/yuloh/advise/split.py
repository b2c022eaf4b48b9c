# SPDX-License-Identifier: Apache-2.0
"""Which products of a planned Layer tensor parallel can split: pairs whose first matrix is split by columns and whose second
by rows, so that what lies between needs no exchange (arXiv:1909.08053, section 3). Read off the Layer's tree, the sizes of its
matrices and its Plan; what lies between a pair is taken to work on every column, or every head, by itself."""

from __future__ import annotations

import re
from collections import Counter
from functools import reduce
from math import gcd
from typing import Dict, List, Tuple

LAST = re.compile(r"(out|o_proj|c_proj|proj$|wo$|^o$|dense$)")
HEADS = re.compile(r"(^|_)(n|num|nb)?_?(attention_|kv_|key_value_|q_)?n?heads?$")
WIDEST_HEAD = 128  # where the number of heads is not known


def kept_layer(model) -> Tuple[list, object]:
    """(a list that holds the Layer once it is made, what makes it)."""
    import yuloh

    if isinstance(model, yuloh.nn.Layer):
        return [model], model
    if not callable(model):
        return [], model
    held: list = []

    def make():
        net = model()
        if isinstance(net, yuloh.nn.Layer):
            held[:] = [net]
        return net

    return held, make


def tensor_split(net, facts: dict, batch: int, element: int) -> Tuple[Dict[str, float], str]:
    """Fields of the core's Network (split_*), and a sentence that says what splits and what does not."""
    records = facts["layers"]
    layers = {"": net, **dict(net.named_sublayers())}
    children: Dict[int, List[int]] = {}
    for i, one in enumerate(records):
        children.setdefault(one["parent"], []).append(i)
    total = {"params": 0.0, "flops": 0.0, "kept": 0.0, "sent": 0.0}
    by, used, unknown = [], set(), False
    for p, kids in children.items():
        if p < 0:
            continue
        linears = {i: tuple(layers[records[i]["name"]].weight.shape) for i in kids if records[i]["type"] == "Linear"}
        groups = _pairs(records, linears)
        if not groups:
            continue
        own = {k: records[p][k] - sum(records[i][k] for i in kids) for k in ("activation_bytes", "flops_forward")}
        total["kept"] += max(0.0, own["activation_bytes"])
        for first, last, attention in groups:
            width = linears[last][0]
            for i in (*first, last):
                total["params"] += records[i]["parameters"] - (0 if i != last else records[i]["parameters"] % width)
                total["flops"] += records[i]["flops_forward"]
            total["kept"] += sum(records[i]["activation_bytes"] for i in first)
            total["sent"] += records[last]["output_bytes"]
            if attention:
                total["flops"] += max(0.0, own["flops_forward"])
                heads = _heads(layers, records, p)
                unknown |= not heads
                by += heads or [max(1, width // WIDEST_HEAD)]
            else:
                by.append(width)
                wide = records[first[0]]["output_bytes"]
                narrow = records[last]["output_bytes"]
                total["kept"] += sum(
                    records[i]["activation_bytes"]
                    for i in kids
                    if records[i]["parameters"] == 0 and records[i]["output_bytes"] == wide != narrow
                )
            used.update((*first, last))
    return _fields(records, total, by, batch, element), _sentence(records, used, by, unknown, children)


def _pairs(records, linears) -> List[Tuple[List[int], int, bool]]:
    """(column split, row split, whether it is attention) among the Linears of one parent."""
    groups, left = [], dict(linears)
    for last, (a, b) in sorted(linears.items(), key=lambda x: -x[0]):
        if last not in left or a == b:
            continue
        first = [i for i, shape in left.items() if i != last and shape == (b, a)]
        if first and a > b:  # a feed-forward: in and out again; two first ones where it is gated
            groups.append((first, last, False))
            for i in (*first, last):
                left.pop(i)
    square = [i for i, (a, b) in left.items() if a == b]
    for width in {left[i][0] for i in square}:
        same = [i for i in square if left[i][0] == width]
        fused = [i for i, (a, b) in left.items() if a == width and b == 3 * width]
        keys = [i for i, (a, b) in left.items() if a == width and b < width and width % b == 0]
        named = [i for i in same if LAST.search(records[i]["name"].rpartition(".")[2])]
        last = named[-1] if named else same[-1]
        if fused:
            groups.append((fused[:1], last, True))
        elif len(same) == 4 or (len(same) == 2 and len(keys) == 2):
            groups.append(([i for i in (*same, *keys) if i != last], last, True))
    return groups


def _heads(layers, records, p: int) -> List[int]:
    """Numbers of heads that the Layer or one around it names."""
    while p >= 0:
        known = vars(layers[records[p]["name"]])
        found = [v for k, v in known.items() if HEADS.search(k) and isinstance(v, int) and v > 0]
        if found:
            return found
        p = records[p]["parent"]
    return []


def _fields(records, total, by, batch, element) -> Dict[str, float]:
    if not by or not records:
        return {}
    root = records[0]

    def share(part, whole):
        return min(1.0, part / whole) if whole > 0 else 0.0

    return {
        "split_params": share(total["params"], root["parameters"]),
        "split_flops": share(total["flops"], root["flops_forward"]),
        "split_kept": share(total["kept"], root["activation_bytes"]),
        "split_sent": total["sent"] / element / batch,
        "split_by": float(reduce(gcd, by)),
    }


def _sentence(records, used, by, unknown, children) -> str:
    parents = set(children)
    whole = Counter(
        one["type"]
        for i, one in enumerate(records)
        if one["parameters"] > 0 and i not in used and i not in parents and "Norm" not in one["type"]
    )
    rest = ", ".join(f"{n} x {kind}" for kind, n in whole.most_common(5))
    if not by:
        return f"tensor parallel: no pairs of products are known to split (it has {rest or 'none'}), so layouts use data, sharding and pipeline"
    limit = reduce(gcd, by)
    said = f"tensor parallel: {len(used)} Linears split in pairs over devices that divide {limit}"
    if unknown:
        said += f" (the number of heads is not known; heads of {WIDEST_HEAD} are assumed)"
    return said + (f"; whole on every device: {rest}" if rest else "")
