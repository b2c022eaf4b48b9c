# SPDX-License-Identifier: Apache-2.0
"""Views share memory as in PaddlePaddle 3.3.1: every view x write x read of ``aliasing.py``.

Parity room. Values must be Paddle's, always. Gradients must be the *true* ones (float32 differences of the same
program), which is what Paddle gives as long as no write goes through another alias than the one it reads.
Deliberate differences, all of them:

* A write through one alias and a read through another: Paddle's gradient does not see the write; ours does.
* ``set_value`` and ``assign(..., output=)`` replace data behind autograd's back in Paddle: Paddle's gradient (as if
  nothing was written) and the true one are both accepted.
* Where Paddle ends its process (``PADDLE_CRASHES``), values are compared with nothing and the gradient with the truth.
* Where Paddle refuses a program at backward because a needed value was overwritten, we may refuse it too.
"""
import json
import os

import pytest

import aliasing

REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "aliasing.json")
BEHIND_AUTOGRAD = ("set_value", "assign_out")
with open(REFERENCE, encoding="utf-8") as f:
    FILE = json.load(f)
PROGRAMS = {name: [FILE["results"][i] for i in at] for name, at in FILE["programs"].items()}
PADDLE_CRASHES = [n for n, (values, grad, _) in PROGRAMS.items() if "crash" in (values, grad)]
BY_VIEW = {}
for _case in aliasing.cases():
    BY_VIEW.setdefault(_case[0].split(".")[0], []).append(_case)


def shorten(x):
    return f"error {aliasing.last_error}"[:300] if x == "error" else str(x)[:300]


@pytest.mark.parametrize("view", list(BY_VIEW))
def test_values(view):
    wrong = []
    for name, make, do, target in BY_VIEW[view]:
        want = PROGRAMS[name][0]
        if want == "crash":
            continue
        got = aliasing.read_values(make, do, target)
        if got != want:
            wrong.append(f"{name}: v = {make}; t = {target}; {do}\n  b, v, s, i = {shorten(got)}\n  Paddle's   = "
                         f"{str(want)[:300]}")
    assert not wrong, f"{len(wrong)} of {len(BY_VIEW[view])} programs\n" + "\n".join(wrong[:8])


@pytest.mark.parametrize("view", list(BY_VIEW))
def test_gradients(view):
    wrong = []
    for name, make, do, target in BY_VIEW[view]:
        _, paddles, true = PROGRAMS[name]
        if true == "crash":
            continue
        accepted = [true]
        if name.split(".")[1] in BEHIND_AUTOGRAD or paddles == "error":
            accepted.append(paddles)
        got = aliasing.read_gradient(make, do, target)
        if got not in accepted:
            wrong.append(f"{name}: v = {make}; t = {target}; {do}\n  x.grad  = {shorten(got)}\n  true    = "
                         f"{str(true)[:300]}\n  Paddle's = {str(paddles)[:300]}")
    assert not wrong, f"{len(wrong)} of {len(BY_VIEW[view])} programs\n" + "\n".join(wrong[:8])


def test_reference_is_whole():
    assert set(PROGRAMS) == {c[0] for c in aliasing.cases()}
    assert len(PADDLE_CRASHES) < 60
