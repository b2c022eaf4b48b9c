# SPDX-License-Identifier: Apache-2.0
"""Gradients of relu behind a batch norm ask the norm's input again where relu was open (passes/rules.cpp); FLAGS_rules
off they read relu's result. Both give the same numbers.
"""
import numpy as np
import pytest

import yuloh as paddle


@pytest.fixture(autouse=True)
def rules_on_again():
    yield
    paddle.set_flags({"FLAGS_rules": 1})


def gradients(act, frozen, rules, shape=(4, 24, 6, 6)):
    """([gradients of x, weight, bias], names of the kernels that ran)"""
    paddle.set_flags({"FLAGS_rules": int(rules)})
    rng = np.random.default_rng(7)
    x = paddle.to_tensor(4 * rng.standard_normal(shape).astype("float32"), stop_gradient=False)
    weight = paddle.to_tensor(rng.standard_normal(shape).astype("float32"))
    norm = paddle.nn.BatchNorm2D(shape[1])
    norm.weight.set_value(rng.standard_normal(shape[1]).astype("float32") * 3)
    norm.bias.set_value(rng.standard_normal(shape[1]).astype("float32"))
    if frozen:
        norm.eval()
    core = paddle._core
    core.start_profile()
    (act(norm(x)) * weight).sum().backward()
    found = [t.grad.numpy() for t in (x, norm.weight, norm.bias)]
    rows = core._profile_rows()
    core.stop_profile()
    return found, [r[0] for r in rows]


@pytest.mark.parametrize("act", [paddle.nn.functional.relu, paddle.nn.functional.relu6])
def test_same_gradients_either_way(act):
    one, names = gradients(act, False, True)
    two, plain = gradients(act, False, False)
    assert any("norm_relu_grad" in n for n in names) and not any("norm_relu_grad" in n for n in plain)
    for a, b in zip(one, two):
        assert np.abs(a).max() > 0
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_given_statistics_read_the_result():
    """x is not kept for the mask alone."""
    one, names = gradients(paddle.nn.functional.relu, True, True)
    two, _ = gradients(paddle.nn.functional.relu, True, False)
    assert not any("norm_relu_grad" in n for n in names)
    for a, b in zip(one, two):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_few_rows_and_many_channels():
    """Sums over one group of rows are cut by channels; every channel's sum stays what it is."""
    one, _ = gradients(paddle.nn.functional.relu, False, True, (16, 700, 2, 1))
    two, _ = gradients(paddle.nn.functional.relu, False, False, (16, 700, 2, 1))
    for a, b in zip(one, two):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
