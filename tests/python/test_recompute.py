# SPDX-License-Identifier: Apache-2.0
"""recompute: gradients bit for bit those without it, one forward pass as the user sees it, less memory at the peak."""
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn
from yuloh.distributed.fleet.utils import recompute, recompute_sequential
from yuloh.nn import functional as F


class Block(nn.Layer):
    """Dropout, normalisation over the batch with running statistics, and matrix products."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.drop = nn.BatchNorm1D(width), nn.Dropout(0.3)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Net(nn.Layer):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.blocks = nn.LayerList([Block(width) for _ in range(depth)])
        self.again = False

    def forward(self, x):
        for block in self.blocks:
            x = recompute(block, x) if self.again else block(x)
        return x


def run(again, read_early=False, amp=False, steps=2):
    paddle.seed(7)
    net = Net()
    net.again = again
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    rng = np.random.default_rng(0)
    grads, losses = [], []
    for _ in range(steps):
        x = paddle.to_tensor(rng.standard_normal((16, 32)).astype("float32"), stop_gradient=False)
        with paddle.amp.auto_cast(enable=amp, dtype="bfloat16"):
            loss = (net(x) ** 2).mean()
        if read_early:
            losses.append(loss.item())
        loss.backward()
        grads.append([p.grad.numpy() for p in net.parameters() if not p.stop_gradient] + [x.grad.numpy()])
        opt.step()
        opt.clear_grad()
        losses.append(loss.item())
    state = [b.numpy() for b in net.buffers()] + [p.numpy() for p in net.parameters()]
    return losses, grads, state, paddle.rand([4]).numpy()


@pytest.mark.parametrize("read_early", [False, True])
@pytest.mark.parametrize("amp", [False, True])
def test_same_bits_statistics_and_random_stream(read_early, amp):
    plain, again = run(False, read_early, amp), run(True, read_early, amp)
    assert plain[0] == again[0]
    for a, b in zip(plain[1], again[1]):
        for x, y in zip(a, b):
            np.testing.assert_array_equal(x, y)
    for x, y in zip(plain[2], again[2]):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(plain[3], again[3])


OPTIMIZERS = {
    "SGD": lambda p: paddle.optimizer.SGD(0.1, parameters=p),
    "Momentum, L2": lambda p: paddle.optimizer.Momentum(0.1, parameters=p, weight_decay=1e-4),
    "Adam": lambda p: paddle.optimizer.Adam(1e-3, parameters=p),
    "Adam, L2": lambda p: paddle.optimizer.Adam(1e-3, parameters=p, weight_decay=1e-4),
    "AdamW": lambda p: paddle.optimizer.AdamW(1e-3, parameters=p),
    "AdamW, clip": lambda p: paddle.optimizer.AdamW(1e-3, parameters=p, grad_clip=nn.ClipGradByGlobalNorm(1.0)),
    "Lamb": lambda p: paddle.optimizer.Lamb(1e-3, parameters=p),
}


class Chosen(nn.Layer):
    """Looks a number up: a repeated node that checks what it reads."""

    def __init__(self, width):
        super().__init__()
        self.block, self.table = Block(width), nn.Embedding(4, width)

    def forward(self, x):
        return self.block(x) + self.table(paddle.ones([1], dtype="int64"))


def steps(again, optimizer, loop, block=Block, batch=512, width=32, depth=4):
    """The peak of each of three steps, beyond what is held before, and the parameters after them."""
    paddle.seed(3)
    net = Net(width, 0)
    net.blocks.extend([block(width) for _ in range(depth)])
    net.again = again
    opt = OPTIMIZERS[optimizer](net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0) if loop == "amp" else None
    x = paddle.ones([batch, width])
    peaks = []
    for _ in range(3):
        paddle.device.reset_peak_memory_stats()
        before = paddle.device.memory_allocated()
        for _ in range(2 if loop == "two passes" else 1):
            with paddle.amp.auto_cast(enable=scaler is not None, dtype="bfloat16"):
                loss = (net(x) ** 2).mean()
            if loop in ("divided", "two passes"):
                loss = loss / 2
            if loop == "read early":
                float(loss)
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
        opt.clear_grad()
        float(loss)
        peaks.append(paddle.device.max_memory_allocated() - before)
    return peaks, [p.numpy() for p in net.parameters()]


@pytest.mark.parametrize("loop", ["plain", "divided", "read early", "two passes", "amp"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_peak_is_lower_in_every_step_and_bits_are_the_same(optimizer, loop):
    plain, without = steps(False, optimizer, loop)
    again, with_recompute = steps(True, optimizer, loop)
    for one, other in zip(again, plain):
        assert one < 0.7 * other, (again, plain)
    for a, b in zip(with_recompute, without):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("loop", ["plain", "two passes"])
def test_peak_is_lower_where_repeated_work_checks_its_input(loop):
    for one, other in zip(steps(True, "AdamW", loop, Chosen)[0], steps(False, "AdamW", loop, Chosen)[0]):
        assert one < 0.7 * other


def test_the_peak_does_not_depend_on_what_ran_before():
    first = steps(True, "Adam", "plain", batch=4096)[0]
    steps(False, "Adam", "plain", batch=4096)  # leaves a larger block, which the next arena lies in
    assert steps(True, "Adam", "plain", batch=4096)[0] == first


def test_forward_is_recorded_once_and_runs_twice():
    calls = []
    layer = nn.Linear(8, 8)

    def f(x):
        calls.append(1)
        return F.relu(layer(x))

    x = paddle.ones([2, 8])
    x.stop_gradient = False
    recompute(f, x).sum().backward()
    assert len(calls) == 1 and x.grad is not None and layer.weight.grad is not None


def test_nested_structures_and_inputs_handed_through():
    w = paddle.ones([3])
    w.stop_gradient = False

    def f(a, scale=1.0):
        return {"twice": [a * w * scale, (a, None)], "n": 3}

    a = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
    out = recompute(f, a, scale=2.0)
    assert out["n"] == 3 and out["twice"][1][1] is None
    out["twice"][0].sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2, 4, 6])
    np.testing.assert_array_equal(a.grad.numpy(), [2, 2, 2])


def test_nested_recompute():
    layer = nn.Linear(8, 8)

    def grad(f):
        layer.clear_gradients()
        f(paddle.ones([2, 8])).sum().backward()
        return layer.weight.grad.numpy()

    def inner(x):
        return F.gelu(layer(x))

    plain = grad(lambda x: layer(inner(x)))
    np.testing.assert_array_equal(plain, grad(lambda x: recompute(lambda y: layer(recompute(inner, y)), x)))


class Uses(nn.Layer):
    """Uses one Linear several times, between layers of its own and around parts that use it too."""

    def __init__(self, shared, parts=()):
        super().__init__()
        self.shared, self.own, self.norm = shared, nn.Linear(24, 24), nn.LayerNorm(24)
        self.parts = nn.LayerList(parts)

    def forward(self, x, call=lambda part, x: part(x)):
        a = F.gelu(self.shared(self.shared(self.norm(x))))
        x = x + 0.3 * self.shared(self.own(a) + self.shared(x))
        for part in self.parts:
            x = F.tanh(self.shared(call(part, x)))
        return x


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("nested", [False, True])
def test_shared_parameters_have_the_same_bits(nested, optimizer):
    """Parts that share a parameter with each other, with parts inside them and with what lies around: its gradient is the sum
    in the order of its uses, as without recompute."""

    def states(outer, inner):
        paddle.seed(3)
        shared = nn.Linear(24, 24)
        parts = [Uses(shared, [Uses(shared), Uses(shared)]) for _ in range(2)]
        net = nn.LayerList([shared, *parts])
        opt = getattr(paddle.optimizer, optimizer)(parameters=net.parameters(), learning_rate=0.01)
        x = paddle.to_tensor(np.random.default_rng(0).standard_normal((6, 24)).astype("float32"), stop_gradient=False)
        found = []
        for _ in range(3):
            y = x
            for part in parts:
                y = shared(outer(lambda z, part=part: part(z, inner), y))
            loss = (y * y).mean()
            loss.backward()
            found += [loss.numpy(), x.grad.numpy(), *(p.grad.numpy() for p in net.parameters())]
            opt.step()
            opt.clear_grad()
            x.clear_grad()
        return found + [p.numpy() for p in net.parameters()]

    def plain(f, x):
        return f(x)

    for a, b in zip(states(plain, plain), states(recompute, recompute if nested else plain)):
        np.testing.assert_array_equal(a, b)


def test_inner_layers_of_users_own_gradient():
    class Double(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensor()
            return 7 * g * x

    x = paddle.to_tensor([2.0], stop_gradient=False)
    recompute(lambda v: Double.apply(v) * 2, x).backward()
    assert x.grad.item() == 28


def test_under_no_grad_and_without_gradients_it_is_a_call():
    with paddle.no_grad():
        assert recompute(lambda x: x + 1, paddle.ones([1])).item() == 2
    assert recompute(lambda x: x + 1, paddle.ones([1])).stop_gradient


def test_a_value_read_inside():
    layer = nn.Linear(4, 4)

    def f(x):
        y = layer(x)
        return y * 2 if y.sum().item() > -1e9 else y

    recompute(f, paddle.ones([2, 4])).sum().backward()
    np.testing.assert_allclose(layer.bias.grad.numpy(), [4, 4, 4, 4])


def test_recompute_sequential():
    paddle.seed(3)
    net = nn.Sequential(*[nn.Linear(8, 8) for _ in range(5)])
    x = paddle.ones([2, 8])
    net(x).sum().backward()
    want = [p.grad.numpy() for p in net.parameters()]
    net.clear_gradients()
    recompute_sequential({"segments": 2}, net, x).sum().backward()
    for w, p in zip(want, net.parameters()):
        np.testing.assert_array_equal(w, p.grad.numpy())


def test_reachable_as_in_paddle_scripts():
    assert paddle.fleet.utils.recompute is recompute is paddle.distributed.fleet.recompute


def test_results_keep_their_containers():
    Pair = namedtuple("Pair", "a b")

    def forward(x):
        found = defaultdict(list, {"y": [x * x], "pair": Pair(x + 1, "text")})
        return found, OrderedDict(b=x - 1, a=x + 2)

    x = paddle.to_tensor([3.0], stop_gradient=False)
    found, ordered = recompute(forward, x)
    assert type(found) is defaultdict and found["none"] == [] and type(found["pair"]) is Pair and found["pair"].b == "text"
    assert type(ordered) is OrderedDict and list(ordered) == ["b", "a"]
    (found["y"][0] + found["pair"].a + ordered["a"]).backward()
    assert x.grad.item() == 8


def test_errors():
    with pytest.raises(TypeError, match="callable"):
        recompute(3)
    with pytest.raises(ValueError, match="segments"):
        recompute_sequential({"segments": 0}, nn.Sequential(), paddle.ones([1]))
    with pytest.raises(ValueError, match="offload"):
        recompute(lambda x: x, paddle.ones([1]), offload_indices=[0])
    with pytest.raises(ZeroDivisionError):
        recompute(lambda x: 1 / 0, paddle.ones([1]))
    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(lambda v: (v * v).sum(), x)
    with pytest.raises(NotImplementedError, match="gradients of gradients"):
        paddle.grad(y, x, create_graph=True)


def test_accumulated_micro_batches_hold_the_results_of_one():
    def highest(parts):
        net = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(8)])
        opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        data = [paddle.to_tensor(np.random.rand(512, 64).astype("float32")) for _ in range(parts)]
        for _ in range(2):
            paddle.device.reset_peak_memory_stats()
            before = paddle.device.memory_allocated()
            for x in data:
                net(x).mean().backward()
            opt.step()
            opt.clear_grad()
            paddle._core.run_pending()
        return paddle.device.max_memory_allocated() - before
    assert highest(6) < 1.3 * highest(1)
