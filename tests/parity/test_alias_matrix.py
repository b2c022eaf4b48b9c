# SPDX-License-Identifier: Apache-2.0
"""Views share memory as in PaddlePaddle 3.3.1: every view x write x read of ``aliasing.py``.

Parity room. Values must be Paddle's, always. Gradients must be the *true* ones (float32 differences of the same
program), which is what Paddle gives as long as no write goes through another alias than the one it reads.
Deliberate differences, all of them:

* A write through one alias and a read through another: Paddle's gradient does not see the write; ours does.
* ``t[[0]] = v`` and ``set_value`` on a view that is not contiguous write the wrong elements of the base in Paddle;
  they must equal ``t[0] = v`` and ``t[...] = v`` (``SAME``).
* ``set_value`` and ``assign(..., output=)`` replace data behind autograd's back in Paddle: Paddle's gradient (as if
  nothing was written) and the true one are both accepted.
* Where the true gradient is zero throughout because x was overwritten, ``backward`` may say so with an error.
* Where Paddle ends its process, values are compared with nothing, and the gradient with the truth.
* Where Paddle refuses a program at backward because a needed value was overwritten, we may refuse it too.
"""

import json
import os

import pytest

import aliasing

REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "aliasing.json")
BEHIND_AUTOGRAD = ("set_value", "assign_out")
SAME = {"set_list": "set_row", "set_value": "set_tensor"}
with open(REFERENCE, encoding="utf-8") as f:
    FILE = json.load(f)
PROGRAMS = {name: [FILE["results"][i] for i in at] for name, at in FILE["programs"].items()}
BY_VIEW = {}
for _case in aliasing.cases():
    BY_VIEW.setdefault(_case[0].split(".")[0], []).append(_case)


MISSING = {
    "as_strided": "gives a copy here, a view in Paddle",
    "unfold": "gives a copy here, a view in Paddle",
}


def views(*missing):
    """All views, those of ``missing`` marked as known to fail."""
    marks = {v: pytest.mark.xfail(reason=MISSING[v], strict=True) for v in missing}
    return [pytest.param(v, marks=[marks[v]] if v in marks else []) for v in BY_VIEW]


def expected(name):
    """(values, gradients that are accepted) for one program; values None where Paddle crashes."""
    view, write, target = name.split(".")
    values, paddles, true = PROGRAMS[name]
    if write in SAME:
        values, _, true = PROGRAMS[f"{view}.{SAME[write]}.{target}"]
    accepted = [true]
    if write in BEHIND_AUTOGRAD or paddles == "error":
        accepted.append(paddles)
    if not any(true):
        accepted.append("error")
    return None if values == "crash" else values, accepted


def shorten(x):
    return f"error {aliasing.last_error}"[:300] if x == "error" else str(x)[:300]


@pytest.mark.parametrize("view", views("as_strided", "unfold"))
def test_values(view):
    wrong = []
    for name, make, do, target in BY_VIEW[view]:
        want = expected(name)[0]
        if want is None:
            continue
        got = aliasing.read_values(make, do, target)
        if got != want:
            wrong.append(
                f"{name}: v = {make}; t = {target}; {do}\n  b, v, s, i = {shorten(got)}\n  Paddle's   = "
                f"{str(want)[:300]}"
            )
    assert not wrong, f"{len(wrong)} of {len(BY_VIEW[view])} programs\n" + "\n".join(wrong[:8])


@pytest.mark.parametrize("view", views("as_strided", "unfold"))
def test_gradients(view):
    wrong = []
    for name, make, do, target in BY_VIEW[view]:
        accepted, paddles = expected(name)[1], PROGRAMS[name][1]
        got = aliasing.read_gradient(make, do, target)
        if got not in accepted:
            wrong.append(
                f"{name}: v = {make}; t = {target}; {do}\n  x.grad   = {shorten(got)}\n  expected = "
                f"{str(accepted[0])[:300]}\n  Paddle's = {str(paddles)[:300]}"
            )
    assert not wrong, f"{len(wrong)} of {len(BY_VIEW[view])} programs\n" + "\n".join(wrong[:8])


def test_reference_is_whole():
    assert set(PROGRAMS) == {c[0] for c in aliasing.cases()}
    crashes = [n for n, (values, grad, _) in PROGRAMS.items() if "crash" in (values, grad)]
    assert len(crashes) < 60
