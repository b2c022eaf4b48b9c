# SPDX-License-Identifier: Apache-2.0
"""What the trap tests share: tensors made from lists and comparison of values (shape first, NaN equal to NaN)."""

import numpy as np
import paddle

nan, inf = float("nan"), float("inf")
REFUSED = (ValueError, TypeError)


def tensor(data, dtype="float32", grad=False):
    return paddle.to_tensor(np.array(data, dtype), stop_gradient=not grad)


def rand(*shape, grad=False, seed=0):
    return tensor(np.random.RandomState(seed).rand(*shape), grad=grad)


def number(t):
    """The one element of a tensor of any rank."""
    return t.numpy().item()


def equal(got, want, tolerance=0.0):
    want = np.asarray(want)
    got = got.numpy() if hasattr(got, "numpy") else np.asarray(got)
    assert list(got.shape) == list(want.shape), f"shape {got.shape}, expected {want.shape}"
    np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=tolerance, atol=tolerance)
