# SPDX-License-Identifier: Apache-2.0
"""A bias added to a product's rows is part of the product's kernel (passes/rules.cpp); the switch FLAGS_rules keeps them
apart. Both ways give the same bits, and so does a product that was read before; in half precision, where the sum would be
rounded once instead of twice, they stay apart.
"""
import numpy as np
import pytest

import yuloh as paddle


@pytest.fixture
def rules():
    yield lambda on: paddle.set_flags({"FLAGS_rules": int(on)})
    paddle.set_flags({"FLAGS_rules": 1})


def operands(dtype, transpose_x, transpose_y):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 40, 96) if not transpose_x else (96, 120)).astype("float32")
    y = rng.standard_normal((128, 96) if transpose_y else (96, 128)).astype("float32")
    made = [paddle.to_tensor(v).astype(dtype) for v in (x, y, rng.standard_normal(128).astype("float32"))]
    for t in made:
        t.numpy()
    return made


def joined(run):
    """(result, whether a plan of it had the joined op)"""
    core = paddle._core
    core.start_profile()
    value = run().astype("float32").numpy()
    names = [r[0] for r in core.profile_costs(1e9)]
    core.stop_profile()
    return value, any(n.startswith("gemm/matmul_bias") for n in names)  # and by whom it is computed


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("transposes", [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("first", [True, False])
def test_joined_apart_and_read_first_are_the_same_bits(rules, dtype, transposes, first):
    x, y, b = operands(dtype, *transposes)

    def run(read=False):
        z = paddle.matmul(x, y, *transposes)
        if read:
            z.numpy()
        return z + b if first else b + z

    rules(True)
    one, used = joined(run)
    read, apart = joined(lambda: run(True))
    rules(False)
    two, still = joined(run)
    assert used == (dtype == "float32") and not apart and not still
    np.testing.assert_array_equal(one, read)
    np.testing.assert_array_equal(one, two)


def test_products_that_others_read_stay(rules):
    x, y, b = operands("float32", False, False)
    z = paddle.matmul(x, y)
    out, used = joined(lambda: paddle.stack([z + b, z * 2.0]))
    assert not used
    np.testing.assert_allclose(out[0] - b.numpy(), out[1] / 2, rtol=1e-4, atol=1e-4)


def test_strided_operands(rules):
    x, y, b = operands("float32", False, False)
    wide = paddle.concat([b, b])[::2]
    out, _ = joined(lambda: paddle.matmul(x[:, :, ::2], y[::2]) + wide)
    want = x.numpy()[:, :, ::2] @ y.numpy()[::2] + np.concatenate([b.numpy()] * 2)[::2]
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_few_rows_are_the_own_products_and_stay_apart(rules):
    rng = np.random.default_rng(5)
    x, y, b = (paddle.to_tensor(rng.standard_normal(s).astype("float32")) for s in ((4, 512), (512, 512), (512,)))
    one, used = joined(lambda: paddle.matmul(x, y) + b)
    rules(False)
    two, _ = joined(lambda: paddle.matmul(x, y) + b)
    assert not used
    np.testing.assert_array_equal(one, two)


def test_gradients_pass_through(rules):
    grads = []
    for on in (True, False):
        rules(on)
        x, y, b = (t.detach() for t in operands("float32", False, False))
        for t in (x, y, b):
            t.stop_gradient = False
        paddle.nn.functional.gelu(paddle.matmul(x, y) + b).sum().backward()
        grads.append([t.grad.numpy() for t in (x, y, b)])
    for one, two in zip(*grads):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)
