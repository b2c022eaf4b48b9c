# SPDX-License-Identifier: Apache-2.0
"""Data in any layout goes in and comes out in row-major order (base/strided.h): against NumPy, bit for bit."""
import itertools

import numpy as np
import pytest

import yuloh as paddle

SHAPES = [(), (1,), (5,), (3, 70), (70, 3), (33, 65), (2, 3, 4), (2, 1, 40, 37), (3, 5, 1, 7, 2), (0, 3), (4, 0)]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_order_of_axes_goes_in(shape, dtype):
    base = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    for order in itertools.islice(itertools.permutations(range(len(shape))), 24):
        given = base.transpose(order)
        np.testing.assert_array_equal(paddle.to_tensor(given).numpy(), given)


def test_steps_back_gaps_and_repeats_go_in():
    base = np.arange(60 * 50, dtype="float32").reshape(60, 50)
    repeated = np.lib.stride_tricks.as_strided(base, (60, 7, 50), (200, 0, 4))
    for given in (base[::-1], base[::2, ::3], base[:, ::-1].T, base[10:40, 5:6], repeated, repeated.transpose(2, 1, 0)):
        np.testing.assert_array_equal(paddle.to_tensor(given).numpy(), given)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 40, 33, 35), (3, 16, 1, 9)])
def test_results_in_another_layout_come_out(size, dtype):
    """A convolution's result is channels-last; transposed views of it have other strides again."""
    conv = paddle.nn.Conv2D(size[1], size[1] + 3, 1)
    x = paddle.randn(size)
    if dtype == "bfloat16":
        conv, x = conv.to(dtype=dtype), x.astype(dtype)
    y = conv(x)
    plain = (y.astype("float32") + 0).numpy()
    for order in ((0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2)):
        out = y.transpose(order)
        got = out.astype("float32").numpy() if dtype == "bfloat16" else out.numpy()
        np.testing.assert_array_equal(got, plain.transpose(order))
        if dtype == "bfloat16":
            np.testing.assert_array_equal(out.numpy(), (plain.transpose(order).view("uint32") >> 16).astype("uint16"))
