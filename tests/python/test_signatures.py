# SPDX-License-Identifier: Apache-2.0
"""Test room: argument names, order and defaults of the public functions against Paddle 3.3.1's own
(tests/oracle/paddle_api.json). What differs on purpose stands in ``KNOWN`` with its reason.
"""

import inspect
import json
import math
from pathlib import Path

import yuloh as paddle
from yuloh import _core

API = json.loads((Path(__file__).resolve().parent.parent / "oracle" / "paddle_api.json").read_text())
KNOWN = {
    "paddle.cumprod": "dim is accepted as another name of axis",
    "paddle.gather": "axis None means 0",
    "paddle.kthvalue": "axis None means -1",
    "paddle.scale": "the fused activation (act) of old static programs is not taken",
    "paddle.softmax": "input and dim are accepted as other names",
    "paddle.swapaxes": "Paddle documents the two axes that are here, its signature hides them",
    "paddle.swapdims": "as swapaxes",
    "paddle.trunc": "input is accepted as another name of x",
    "paddle.var": "unbiased None means True",
}


def value_of(text):
    try:
        return eval(text, {"inf": math.inf})  # noqa: S307  (our own recorded file)
    except Exception:  # noqa: BLE001
        return text


def wanted(full):
    """[(name, default text)] of Paddle's positional arguments, without name and out."""
    out = []
    for item in API[full]:
        if item == "*":
            break
        name, _, default = item.partition("=")
        if name not in ("name", "out"):
            out.append((name, default))
    return out


def differences():
    found = []
    for row in _core.op_rows():
        for full in row["python"].split():
            module, _, short = full.rpartition(".")
            home = {"paddle": paddle, "paddle.nn.functional": paddle.nn.functional}.get(module)
            if home is None or full in KNOWN or not isinstance(API.get(full), list):
                continue
            if inspect.isfunction(getattr(home, short, None)):
                continue  # a Python wrapper of that name is what users call
            want, ours = wanted(full), [(n, d) for n, _, d in row["args"]]
            if [n for n, _ in ours[: len(want)]] != [n for n, _ in want]:
                found.append(f"{full}: arguments {ours}, Paddle {want}")
            found += [
                f"{full}: default of {n} is {d}, Paddle's {w}"
                for (n, d), (_, w) in zip(ours, want)
                if value_of(d) != value_of(w)
            ]
    return found


def test_rows_have_paddles_arguments():
    assert not differences(), "\n".join(differences())


def test_rows_name_only_what_paddle_has():
    names = [n for row in _core.op_rows() for n in row["python"].split()]
    hidden = {"paddle.sigmoid"}  # Paddle has it without listing it
    assert not [n for n in names if n not in API and n not in hidden]


def test_at_least_150_public_ops():
    print("public ops in the table:", _core.n_public_ops)
    assert _core.n_public_ops >= 150
