# SPDX-License-Identifier: Apache-2.0
"""Autograd tests: modes, ``grad``, ``backward``, user-defined gradients, Jacobians, hooks."""
import random

import numpy as np
import pytest

import yuloh as paddle
from yuloh.autograd import PyLayer
from yuloh.nn import functional as F


def leaf(values):
    return paddle.to_tensor(np.asarray(values, "float32"), stop_gradient=False)


def test_modes():
    x = leaf([1.0])
    with paddle.no_grad():
        assert not paddle.is_grad_enabled() and (x * 2).stop_gradient
        with paddle.enable_grad():
            assert not (x * 2).stop_gradient
    assert paddle.is_grad_enabled()

    @paddle.no_grad()
    def with_brackets(t):
        return t * 2

    @paddle.no_grad
    def without(t):
        return t * 2

    @paddle.no_grad()
    def numbers():
        yield paddle.is_grad_enabled()
        yield paddle.is_grad_enabled()

    assert with_brackets(x).stop_gradient and without(x).stop_gradient
    walk = numbers()
    assert next(walk) is False and paddle.is_grad_enabled() and next(walk) is False
    with paddle.set_grad_enabled(False):
        assert (x * 2).stop_gradient
    assert not (x * 2).stop_gradient
    try:
        with paddle.no_grad():
            raise KeyError
    except KeyError:
        pass
    assert paddle.is_grad_enabled()


def test_grad():
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    z = x * x * y
    gx, gy = paddle.grad([z], [x, y], grad_outputs=[paddle.to_tensor([1.0, 10.0])])
    np.testing.assert_allclose(gx.numpy(), [20, 420])
    np.testing.assert_allclose(gy.numpy(), [4, 90])
    assert x.grad is None
    with pytest.raises(ValueError, match="unused|take part"):
        paddle.grad([(x * 2).sum()], [y])
    assert paddle.grad([(x * 2).sum()], [y], allow_unused=True) == [None]
    with pytest.raises(ValueError, match="shape"):
        paddle.grad([x * 2], [x], grad_outputs=[paddle.to_tensor([1.0])])
    with pytest.raises(TypeError, match="outputs"):
        paddle.grad("x", [x])


def test_second_derivative():
    x = leaf([2.0])
    first = paddle.grad(x * x * x, x, create_graph=True)[0]
    second = paddle.grad(first, x)[0]
    np.testing.assert_allclose([first.item(), second.item()], [12, 12])


def test_backward_of_several():
    x = leaf([1.0, 2.0])
    paddle.autograd.backward([x * 2, x * 3], [paddle.to_tensor([1.0, 1.0]), paddle.to_tensor([10.0, 0.0])])
    np.testing.assert_allclose(x.grad.numpy(), [32, 2])


class Scaled(PyLayer):
    """x * factor, whose gradient is made ten times too large."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensor()
        assert x.shape == grad.shape
        return grad * ctx.factor * 10


def test_py_layer():
    x = leaf([1.0, 2.0])
    y = Scaled.apply(x, 3.0)
    np.testing.assert_allclose(y.numpy(), [3, 6])
    (y * 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [60, 60])
    assert Scaled.apply(paddle.to_tensor([1.0]), 3.0).stop_gradient
    with paddle.no_grad():
        assert Scaled.apply(x, 3.0).stop_gradient


def test_py_layer_with_several_outputs():
    class Split(PyLayer):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            fixed = x * 0
            ctx.mark_non_differentiable(fixed)
            return x + y, x * y, fixed

        @staticmethod
        def backward(ctx, g_sum, g_product):
            assert g_product is None
            return g_sum, g_sum * 2

    x, y = leaf([1.0]), leaf([2.0])
    total, product, fixed = Split.apply(x, y)
    assert fixed.stop_gradient and not product.stop_gradient
    total.backward()
    assert (x.grad.item(), y.grad.item()) == (1, 2)


def test_py_layer_with_the_wrong_number_of_gradients():
    class Wrong(PyLayer):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(ValueError, match="2 tensors"):
        Wrong.apply(leaf([1.0]), leaf([1.0])).backward()


def test_saved_tensors_hooks():
    packed = []
    x = leaf([4.0])
    with paddle.autograd.saved_tensors_hooks(lambda t: packed.append(1) or t.numpy(),
                                             lambda a: paddle.to_tensor(a)):
        y = Scaled.apply(x, 2.0)
    y.backward()
    assert packed == [1] and x.grad.item() == 20


def test_jacobian_and_hessian():
    x = leaf([1.0, 2.0, 3.0])
    np.testing.assert_allclose(paddle.autograd.jacobian(x * x, x).numpy(), np.diag([2, 4, 6]), rtol=1e-6)
    np.testing.assert_allclose(paddle.autograd.hessian((x * x * x).sum(), x).numpy(), np.diag([6, 12, 18]),
                               rtol=1e-6)
    rows = leaf([[1.0, 2.0], [3.0, 4.0]])
    batched = paddle.autograd.jacobian(rows * rows, rows, batch_axis=0)
    np.testing.assert_allclose(batched.numpy(), [np.diag([2, 4]), np.diag([6, 8])], rtol=1e-6)


def test_tensor_hooks():
    x = leaf([1.0, 2.0])
    handle = x.register_hook(lambda g: g * 2)
    (x * 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [6, 6])
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [3, 3])


def _gradients_with_reads(seed, donate, reads):
    """A random program whose intermediate results are read and let go of midway; loss and gradients."""
    choose = random.Random(seed)
    one = [lambda a: a.exp() * 0.1, lambda a: a.tanh(), lambda a: a * a, lambda a: a.reshape([4, 3]).t(), lambda a: a.clip(-1, 1),
           lambda a: F.softmax(a), lambda a: a.transpose([1, 0]).reshape([3, 4]), lambda a: (a @ paddle.ones([4, 4])).sigmoid()]
    two = [lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a / (b * b + 1), lambda a, b: paddle.maximum(a, b),
           lambda a, b: paddle.concat([a[:1], b[1:]]), lambda a, b: a @ b.t() @ b * 0.1]
    before = paddle.get_flags("FLAGS_donate")
    paddle.set_flags({"FLAGS_donate": donate})
    try:
        x, w = (paddle.to_tensor(np.random.default_rng(seed + n).standard_normal((3, 4)).astype("float32"), stop_gradient=False)
                for n in range(2))
        pool = [x, w]
        for _ in range(choose.randint(3, 14)):
            pool.append(choose.choice(one)(choose.choice(pool)) if choose.random() < 0.5 else
                        choose.choice(two)(choose.choice(pool), choose.choice(pool)))
            if len(pool) > 4 and choose.random() < 0.6:
                del pool[choose.randrange(len(pool))]
            look, at = choose.random() < 0.35, choose.randrange(len(pool))
            if look and reads:
                pool[at].numpy()
        y = pool[-1] * 1 + pool[0]
        del pool
        if reads:
            y.numpy()
        loss = (y * y).mean()
        if reads:
            loss.item()
        loss.backward()
        return [loss.numpy()] + [np.zeros([1]) if t.grad is None else t.grad.numpy() for t in (x, w)]
    finally:
        paddle.set_flags(before)


@pytest.mark.parametrize("seed", range(20))
def test_values_read_midway_do_not_change_gradients(seed):
    for a, b in zip(_gradients_with_reads(seed, False, False), _gradients_with_reads(seed, True, True)):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_what_a_gradient_names_is_not_written_over():
    def product(x):
        h = x.exp()
        h.numpy()
        return h * (x * 2)
    x = paddle.to_tensor([0.3, 0.7], stop_gradient=False)
    y = product(x)
    y.numpy()
    y.sum().backward()
    v = x.numpy()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(v) * (1 + v), rtol=1e-6)
