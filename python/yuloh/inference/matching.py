# SPDX-License-Identifier: Apache-2.0
"""Inference room: which inner value of one graph is which of another, for ``diff``."""
import difflib
import math
import re

from .. import _core
from .samples import RECORD_ERRORS

__all__ = ["match"]

_CLOSE = 1e-6  # relative: both graphs in float64; an exporter may have folded weights in float32


def match(sides, fed, spots, notes):
    """{name in the first: name in the second}. By content in float64 first, which tells equal names with other meanings
    apart; then by name; then, in what lies between, by order, kind of op and shape; outputs by position.
    """
    pairs = {}
    sketches = [_sketches(s, f, sp, notes) for s, f, sp in zip(sides, fed, spots)]
    if all(sketches):
        _by_content(spots, sketches, pairs)
    used = set(pairs.values())
    theirs = {s["name"]: s for s in spots[1]}
    for spot in spots[0]:
        name = spot["name"]
        if name not in pairs and name in theirs and name not in used and theirs[name]["shape"] == spot["shape"]:
            pairs[name] = name
            used.add(name)
    known = {s["name"] for s in spots[0]}
    for mine, other in zip(sides[0].subject.outputs, sides[1].subject.outputs):
        if mine in known and other in theirs and mine not in pairs and other not in used:
            pairs[mine] = other
            used.add(other)
    _by_order(spots, pairs)
    return pairs


def _sketches(side, fed, spots, notes):
    """{name: sketch} in float64 from the inputs on; empty where an op cannot."""
    names = [s["name"] for s in spots]
    try:
        known = [(n, (list(v.shape), v.dtype if isinstance(v, _core.Tensor) else _core.dtype(v.dtype))) for n, v in fed.items()]
        part = side.subject.cut(known, names)
        return {n: _core.sketch(v) for n, v in zip(names, part.wide([fed[n] for n in part.inputs]))}
    except RECORD_ERRORS as error:
        notes.append(f"{side.label}: values are matched by name and order only, not by content ({error})")
        return {}


def _alike(x, y):
    if x[0] != y[0]:
        return False
    scale = max(x[2], y[2], 1e-300)
    return (abs(x[1] - y[1]) <= _CLOSE * scale and abs(x[2] - y[2]) <= _CLOSE * scale
            and abs(x[3] - y[3]) <= _CLOSE * max(x[3], y[3], 1e-300)
            and all(abs(p - q) <= _CLOSE * max(abs(p), abs(q), math.sqrt(max(x[3], y[3]) / max(x[0], 1))) for p, q in zip(x[4:], y[4:])))


def _by_content(spots, sketches, pairs):
    by_shape = {}
    for position, spot in enumerate(spots[1]):
        by_shape.setdefault(tuple(spot["shape"]), []).append((position, spot["name"]))
    used, last = set(), -1
    for spot in spots[0]:
        sketch = sketches[0][spot["name"]]
        if not all(map(math.isfinite, sketch)):
            continue
        found = [(p, n) for p, n in by_shape.get(tuple(spot["shape"]), []) if n not in used and _alike(sketch, sketches[1][n])]
        if not found:
            continue
        same_name = [c for c in found if c[1] == spot["name"]]
        after = [c for c in found if c[0] > last]
        position, name = (same_name or after or found)[0]
        pairs[spot["name"]] = name
        used.add(name)
        last = max(last, position) if position - last < 50 else last


def _kind(op):
    """A family of operators whatever the dialect: conv, matmul, norm, ..."""
    word = re.sub(r"[^a-z]", "", op.rpartition(".")[2].lower())
    for stem in ("conv", "matmul", "gemm", "norm", "softmax", "relu", "sigmoid", "tanh", "pool", "transpose", "reshape", "concat",
                 "add", "mul", "sub", "div", "gelu", "erf", "embedding", "gather"):
        if stem in word:
            return {"gemm": "matmul", "gather": "embedding"}.get(stem, stem)
    return word


def _by_order(spots, pairs):
    """In each gap between matched values, the longest common sequence of kinds and shapes."""
    used = set(pairs.values())
    positions = {s["name"]: i for i, s in enumerate(spots[1])}
    gaps, mine, start = [], [], 0
    for spot in [*spots[0], None]:
        if spot is None or spot["name"] in pairs:
            stop = positions.get(pairs[spot["name"]], start) if spot else len(spots[1])
            if mine and stop > start:
                gaps.append((mine, spots[1][start:stop]))
            mine, start = [], max(start, stop + 1 if spot else stop)
        else:
            mine.append(spot)
    for left, right in gaps:
        right = [s for s in right if s["name"] not in used]
        keys = [[(_kind(s["op"]), tuple(s["shape"])) for s in part] for part in (left, right)]
        for block in difflib.SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
            for i in range(block.size):
                pairs[left[block.a + i]["name"]] = right[block.b + i]["name"]
