# SPDX-License-Identifier: Apache-2.0
"""Test room: who sees a write. Generated view x write x read cases against what Paddle 3.3.1 did (data/alias.json, made
by tests/oracle/record_alias.py). One difference is kept on purpose.
"""
import json
from pathlib import Path

import yuloh as paddle
from alias_cases import run_case
from yuloh import _core

RECORDED = json.loads((Path(__file__).parent / "data" / "alias.json").read_text())

# Paddle's set_value writes the memory of a strided view as if it were contiguous; here the view's elements are set.
STRIDED = {"columns", "step", "ellipsis", "transpose", "t", "diagonal", "row_of_t", "strided", "split", "unbind"}


def near(a, b):
    """Equal nested lists, numbers to 1e-4 relative."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(near(p, q) for p, q in zip(a, b))
    return a == b if isinstance(a, str) or isinstance(b, str) else abs(a - b) <= 1e-4 * max(1.0, abs(b))


def differences():
    """Cases whose values differ from Paddle's."""
    out = []
    for name, want in RECORDED.items():
        view, _, write = name.split()
        if write == "set_value" and view in STRIDED:
            continue
        got = run_case(paddle, *name.split())
        if not near(got, want):
            out.append(f"{name}: got {got}, Paddle {want}")
    return out


def test_writes_are_seen_as_in_paddle():
    bad = differences()
    assert not bad, f"{len(bad)} of {len(RECORDED)} cases differ:\n" + "\n".join(b[:300] for b in bad[:10])


def test_eager_mode_sees_the_same():
    _core.set_flag("eager", True)
    try:
        bad = differences()
    finally:
        _core.set_flag("eager", False)
    assert not bad, "\n".join(b[:300] for b in bad[:5])


if __name__ == "__main__":
    for line in differences():
        print(line[:260])
