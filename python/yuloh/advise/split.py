# SPDX-License-Identifier: Apache-2.0
"""What tensor parallel can share of a planned model, for the core's Network and in words; found by src/advise/split.cpp."""

from __future__ import annotations

from collections import Counter
from typing import Dict


def split_fields(facts: dict, batch: int) -> Dict[str, float]:
    """Fields of the core's Network (split_*); none where no pair of products is known."""
    found, root = facts["split"], (facts["layers"] or [{}])[0]
    if not found["products"]:
        return {}

    def share(part, whole):
        return min(1.0, part / whole) if whole else 0.0

    return {
        "split_params": share(found["parameters"], root.get("parameters")),
        "split_flops": share(found["flops"], root.get("flops_forward")),
        "split_kept": min(1.0, found["kept_share"]),
        "split_sent": found["sent"] / batch,
        "split_by": float(found["by"]),
    }


def split_sentence(facts: dict) -> tuple:
    """What splits and what does not, as a remark (words.remark)."""
    found, layers = facts["split"], facts["layers"]
    parents, used = {one["parent"] for one in layers}, set(found["layers"])
    whole = Counter(
        one["type"]
        for i, one in enumerate(layers)
        if one["parameters"] > 0 and i not in used and i not in parents and "Norm" not in one["type"]
    )
    rest = ", ".join(f"{n} x {kind}" for kind, n in whole.most_common(5))
    if not found["products"]:
        return "split_none", rest or "0"
    kind = "Linears" if {layers[i]["type"] for i in used} == {"Linear"} else "products"
    said = found["products"], kind, found["by"]
    return ("split_whole", *said, rest) if rest else ("split_found", *said)
