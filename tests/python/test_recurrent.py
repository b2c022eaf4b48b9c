# SPDX-License-Identifier: Apache-2.0
"""Test room: the walk of an LSTM or a GRU as one kernel against the unrolled body (library off) and against the cell, step by step;
shapes beside the kernel's block sizes, both directions, gradients of every input, gradients of gradients.
"""
import numpy as np
import pytest

import yuloh as paddle
from yuloh import _core, nn

SHAPES = [(1, 1, 1), (3, 2, 5), (4, 33, 32), (2, 7, 40), (5, 60, 70), (3, 1, 300)]  # time, batch, hidden


GATES = {"lstm_walk": 4, "gru_walk": 3}
BOTH = pytest.mark.parametrize("op", list(GATES))


class off:
    """The plan without library kernels: every composite by its body."""

    def __enter__(self):
        _core.set_flag("library", False)

    def __exit__(self, *error):
        _core.set_flag("library", True)


def leaves(time, batch, hidden, seed=0, gates=4):
    rng = np.random.default_rng(seed)
    states = [(batch, hidden)] * (2 if gates == 4 else 1)
    shapes = [(time, batch, gates * hidden), (gates * hidden, hidden), (gates * hidden,), *states]
    values = [paddle.to_tensor(rng.normal(0, 0.4, s).astype("float32")) for s in shapes]
    for v in values:
        v.stop_gradient = False
    return values


def walk(shape, reverse, used, op="lstm_walk"):
    """Results of ``used`` and the gradients of all inputs."""
    inputs = leaves(*shape, gates=GATES[op])
    outputs = getattr(_core.ops, op)(*inputs, reverse)
    rng = np.random.default_rng(1)
    loss = sum((outputs[k] * paddle.to_tensor(rng.normal(size=outputs[k].shape).astype("float32"))).sum() for k in used)
    loss.backward()
    return [outputs[k].numpy() for k in used] + [v.grad.numpy() for v in inputs]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op, used", [("lstm_walk", u) for u in [(0,), (1,), (0, 1), (0, 1, 2)]] +
                         [("gru_walk", u) for u in [(0,), (1,), (0, 1)]])
def test_kernel_against_body(shape, reverse, op, used):
    fast = walk(shape, reverse, used, op)
    with off():
        slow = walk(shape, reverse, used, op)
    for a, b in zip(fast, slow):
        assert np.abs(a - b).max() <= 2e-5 * max(1.0, np.abs(b).max()) and np.isfinite(a).all()


@BOTH
def test_the_kernel_is_taken(op):
    inputs = leaves(3, 2, 5, gates=GATES[op])
    _core.start_profile()
    getattr(_core.ops, op)(*inputs)[0].sum().backward()
    inputs[1].grad.numpy()
    names = [row[0] for row in _core._profile_rows()]
    _core.stop_profile()
    assert any(op + ":" in n for n in names) and any(op + "_grad:" in n for n in names)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_layer_against_cell(kind):
    paddle.seed(3)
    layer = kind(6, 5, direction="bidirect")
    x = paddle.randn([4, 7, 6])
    y, last = layer(x)
    last = last if kind is nn.LSTM else (last,)
    for number, cell in enumerate(cell for _, cell in layer._cells()):
        state, outputs = cell.get_initial_states(x), {}
        for t in range(7) if number == 0 else reversed(range(7)):
            outputs[t], state = cell(x[:, t], state)
        want = np.stack([outputs[t].numpy() for t in range(7)], 1)
        assert np.allclose(y.numpy()[..., number * 5:number * 5 + 5], want, atol=1e-6)
        for got, want in zip(last, state if kind is nn.LSTM else (state,)):
            assert np.allclose(got.numpy()[number], want.numpy(), atol=1e-6)


@BOTH
def test_gradient_of_the_gradient(op):
    def second(library):
        inputs = leaves(3, 2, 4, gates=GATES[op])
        y = getattr(_core.ops, op)(*inputs)[0].square().sum()
        g = paddle.grad([y], inputs, create_graph=True)
        sum(v.square().sum() for v in g).backward()
        return [v.grad.numpy() for v in inputs]
    fast = second(True)
    with off():
        slow = second(False)
    for a, b in zip(fast, slow):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind, op", [(nn.LSTM, "lstm_walk"), (nn.GRU, "gru_walk")])
def test_half_precision_weight_and_doubles(kind, op):
    layer = kind(8, 8)
    x = paddle.randn([2, 5, 8])
    want = layer(x)[0].numpy()
    with paddle.amp.auto_cast(dtype="bfloat16"):
        y = layer(x)[0]
    y.sum().backward()
    assert y.dtype == paddle.float32 and np.abs(y.numpy() - want).max() < 0.02
    assert layer.weight_hh_l0.grad.dtype == paddle.float32
    inputs = [v.astype("float64") for v in leaves(3, 2, 5, gates=GATES[op])]
    single = getattr(_core.ops, op)(*leaves(3, 2, 5, gates=GATES[op]))[0]
    assert np.allclose(getattr(_core.ops, op)(*inputs)[0].numpy(), single.numpy(), atol=1e-5)


@BOTH
@pytest.mark.parametrize("shape", SHAPES)
def test_kernel_with_a_half_weight(shape, op):
    """All sums in f32; the body rounds every state to the weight's precision, so that the two differ by that."""
    def run(cast):
        inputs = leaves(*shape, gates=GATES[op])
        narrow = [inputs[0], cast(inputs[1]), *inputs[2:]]
        outputs = getattr(_core.ops, op)(*narrow)
        (outputs[0].square().sum() + outputs[1].sum()).backward()
        return [outputs[0].numpy(), outputs[1].numpy()] + [v.grad.numpy() for v in inputs]
    fast = run(lambda w: w.astype("bfloat16"))
    exact = run(lambda w: w.astype("bfloat16").astype("float32"))
    for a, b in zip(fast[:2], exact[:2]):  # the same weight, the same arithmetic
        assert a.tobytes() == b.tobytes()
    with off():
        slow = run(lambda w: w.astype("bfloat16"))
    for a, b in zip(fast, slow):
        assert np.abs(a - b).max() <= 2e-2 * max(1.0, np.abs(b).max())


@BOTH
def test_threads_do_not_change_a_bit(op):
    before = _core.get_num_threads()
    results = []
    for threads in (1, 2):
        _core.set_num_threads(threads)
        results.append(walk((4, 33, 70), False, (0, 1), op))
    _core.set_num_threads(before)
    for a, b in zip(*results):
        assert a.tobytes() == b.tobytes()


def test_operands_that_do_not_fit():
    inputs = leaves(3, 2, 5)
    with pytest.raises(ValueError, match=r"lstm_walk: h does not fit, got shape \[3, 5\]; expected \[2, 5\]"):
        _core.ops.lstm_walk(*inputs[:3], paddle.zeros([3, 5]), inputs[4])
    with pytest.raises(ValueError, match="gates are not"):
        _core.ops.lstm_walk(inputs[1], *inputs[1:])
