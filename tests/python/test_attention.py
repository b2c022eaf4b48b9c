# SPDX-License-Identifier: Apache-2.0
"""Test room: attention as one kernel against its body (library off) and NumPy: lengths and widths beside the block sizes,
keys more or fewer than queries, causal, strided views, bfloat16, gradients, gradients of gradients, thread counts.
"""
import numpy as np
import pytest

import yuloh as paddle
from yuloh import _core

F = paddle.nn.functional
SHAPES = [(1, 1, 1, 1, 1), (2, 5, 5, 3, 4), (1, 33, 33, 2, 32), (2, 31, 70, 1, 40), (1, 130, 64, 2, 64), (1, 64, 64, 1, 7)]


class off:
    """The plan without library kernels: every composite by its body."""

    def __enter__(self):
        _core.set_flag("library", False)

    def __exit__(self, *error):
        _core.set_flag("library", True)


def operands(batch, queries, keys, heads, width, dtype="float32"):
    rng = np.random.default_rng(0)
    made = [paddle.to_tensor(rng.normal(0, 1, (batch, n, heads, width)).astype("float32")).astype(dtype)
            for n in (queries, keys, keys)]
    for t in made:
        t.stop_gradient = False
    return made


def results(shape, causal, dtype="float32"):
    """Output and gradients of q, k and v as float32 arrays."""
    q, k, v = operands(*shape, dtype)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    weight = paddle.to_tensor(np.random.default_rng(1).normal(size=out.shape).astype("float32")).astype(dtype)
    (out * weight).sum().backward()
    return [t.astype("float32").numpy() for t in (out, q.grad, k.grad, v.grad)]


def formula(q, k, v, causal):
    s = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    w = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", w / w.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_kernel_against_body_and_numpy(shape, causal):
    fast = results(shape, causal)
    with off():
        slow = results(shape, causal)
    for a, b in zip(fast, slow):
        assert a.shape == b.shape and np.abs(a - b).max() <= 1e-5 * max(1.0, np.abs(b).max())
    want = formula(*[t.numpy().astype("float64") for t in operands(*shape)], causal)
    assert np.allclose(fast[0], want, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_half_precision(causal):
    shape = (2, 33, 33, 2, 16)
    full = results(shape, causal)
    half = results(shape, causal, "bfloat16")
    with off():
        body = results(shape, causal, "bfloat16")
    for a, b, c in zip(full, half, body):
        assert np.abs(a - b).max() <= 0.05 * max(1.0, np.abs(a).max())
        assert np.abs(a - b).max() <= np.abs(a - c).max() * 1.5 + 1e-2  # no worse than products rounded one by one


def test_the_kernel_is_taken_and_reads_views():
    joint = paddle.randn([2, 6, 3, 4, 8])
    joint.stop_gradient = False
    _core.start_profile()
    q, k, v = joint.unbind(2)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out.sum().backward()
    joint.grad.numpy()
    names = [row[0] for row in _core._profile_rows()]
    _core.stop_profile()
    assert any(n == "scaled_dot_product_attention:yuloh_attention" for n in names), names
    assert any(n == "scaled_dot_product_attention_grad:yuloh_attention" for n in names), names
    assert "copy" not in names and not any("matmul" in n for n in names), names
    want = formula(*[t.numpy().astype("float64") for t in (q, k, v)], True)
    assert np.allclose(out.numpy(), want, atol=1e-5)


def test_hidden_keys_get_no_gradient():
    q, k, v = operands(1, 40, 40, 1, 8)
    F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :35].sum().backward()
    assert np.all(k.grad.numpy()[:, 35:] == 0) and np.all(v.grad.numpy()[:, 35:] == 0)


@pytest.mark.parametrize("causal", [False, True])
def test_gradient_of_the_gradient(causal):
    def second():
        q, k, v = operands(1, 5, 5, 2, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal).square().sum()
        g = paddle.grad([y], [q, k, v], create_graph=True)
        sum(t.square().sum() for t in g).backward()
        return [t.grad.numpy() for t in (q, k, v)]

    def composed():  # the same with a mask of zeros, which goes another way
        q, k, v = operands(1, 5, 5, 2, 4)
        mask = paddle.zeros([1, 1, 5, 5])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal).square().sum()
        g = paddle.grad([y], [q, k, v], create_graph=True)
        sum(t.square().sum() for t in g).backward()
        return [t.grad.numpy() for t in (q, k, v)]

    for a, b in zip(second(), composed()):
        assert np.allclose(a, b, rtol=1e-3, atol=1e-4)


def test_doubles_and_threads():
    q, k, v = (t.astype("float64") for t in operands(2, 5, 6, 2, 4))
    out = F.scaled_dot_product_attention(q, k, v)
    assert out.dtype == paddle.float64
    assert np.allclose(out.numpy(), formula(q.numpy(), k.numpy(), v.numpy(), False), atol=1e-12)
    before = _core.get_num_threads()
    both = []
    for threads in (1, 2):
        _core.set_num_threads(threads)
        both.append(results((2, 70, 70, 3, 32), True))
    _core.set_num_threads(before)
    for a, b in zip(*both):
        assert a.tobytes() == b.tobytes()


def test_operands_that_do_not_fit():
    q, k, _ = operands(1, 3, 4, 2, 8)
    with pytest.raises(ValueError, match="operands are not"):
        _core.ops.scaled_dot_product_attention(q, k, q, 1.0)
