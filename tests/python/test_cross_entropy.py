# SPDX-License-Identifier: Apache-2.0
"""Test room: cross-entropy over many classes by its kernels against the body (library off) and NumPy: ignored labels,
weights, smoothing, half precision without widened copies, sums of gradients, extreme scores.
"""
import numpy as np
import pytest

import yuloh as paddle
from yuloh import _core

F = paddle.nn.functional


class off:
    """The plan without library kernels: every composite by its body."""

    def __enter__(self):
        _core.set_flag("library", False)

    def __exit__(self, *error):
        _core.set_flag("library", True)


def data(rows, classes, dtype="float32", spread=3.0):
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(rng.normal(0, spread, (rows, classes)).astype("float32")).astype(dtype).detach()
    x.stop_gradient = False
    label = rng.integers(0, classes, rows)
    label[:2] = 7
    return x, paddle.to_tensor(label)


def both(make):
    fast = make()
    with off():
        slow = make()
    return fast, slow


@pytest.mark.parametrize("classes", [255, 256, 300, 1024, 5000])
@pytest.mark.parametrize("how", [{}, {"reduction": "none"}, {"ignore_index": 7}, {"label_smoothing": 0.1}])
def test_kernel_against_body(classes, how):
    def run():
        x, label = data(9, classes)
        loss = F.cross_entropy(x, label, **how)
        (loss * 1.5).sum().backward()
        return [loss.numpy(), x.grad.numpy()]
    for a, b in zip(*both(run)):
        assert np.allclose(a, b, rtol=2e-5, atol=2e-6)


def names(run):
    _core.start_profile()
    run()
    found = [row[0] for row in _core._profile_rows()]
    _core.stop_profile()
    return found


def test_half_precision_reads_what_there_is():
    def run():
        x, label = data(16, 512, "bfloat16")
        with paddle.amp.auto_cast(dtype="bfloat16"):
            loss = F.cross_entropy(x, label)
        loss.backward()
        return [loss.numpy(), x.grad.astype("float32").numpy()]
    (fast, dx), (slow, want) = both(run)
    assert np.allclose(fast, slow, rtol=1e-5) and np.allclose(dx, want, rtol=1e-2, atol=1e-6)
    x, label = data(16, 512, "bfloat16")
    x.numpy()

    def step():
        with paddle.amp.auto_cast(dtype="bfloat16"):
            F.cross_entropy(x, label).backward()
        x.grad.numpy()
    kernels = names(step)
    assert "softmax_nll:yuloh_nll" in kernels and "softmax_nll_dx:yuloh_nll" in kernels
    assert "cast" not in kernels, kernels


def test_a_widened_tensor_that_is_held_keeps_its_gradient():
    x, label = data(4, 300, "bfloat16")
    wide = x.astype("float32")
    g, = paddle.grad([F.cross_entropy(wide, label)], [wide])
    soft = np.exp(wide.numpy() - wide.numpy().max(1, keepdims=True))
    soft /= soft.sum(1, keepdims=True)
    soft[np.arange(4), label.numpy()] -= 1
    assert g.dtype == paddle.float32 and np.allclose(g.numpy(), soft / 4, atol=1e-6)


def test_extreme_scores():
    x = np.full((3, 400), -1e30, "float32")
    x[0, 3], x[1] = 1e30, 88.0
    x[2, 5] = np.nan

    def run():
        t = paddle.to_tensor(x, stop_gradient=False)
        loss = F.cross_entropy(t, paddle.to_tensor(np.array([3, 0, 1])), reduction="none")
        loss.sum().backward()
        return [loss.numpy(), t.grad.numpy()]
    for a, b in zip(*both(run)):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_gradient_of_the_gradient():
    def run():
        x, label = data(3, 300)
        g, = paddle.grad([F.cross_entropy(x, label)], [x], create_graph=True)
        (g * g).sum().backward()
        return [x.grad.numpy()]
    for a, b in zip(*both(run)):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-8)
