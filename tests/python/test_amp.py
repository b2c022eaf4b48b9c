# SPDX-License-Identifier: Apache-2.0
"""Mixed-precision tests: casting while recording, loss scaling without branches, float32 twins."""
import warnings

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def batch(seed=0):
    rng = np.random.RandomState(seed)
    return [paddle.to_tensor(rng.randn(*s).astype("float32")) for s in ((5, 4), (5, 2))]


# ---- auto_cast ---------------------------------------------------------------------------------------------
def test_white_ops_compute_in_half_and_the_mode_ends():
    x, _ = batch()
    layer = nn.Linear(4, 4)
    with paddle.amp.auto_cast(dtype="bfloat16"):
        assert layer(x).dtype == paddle.bfloat16
        assert paddle.amp.is_autocast_enabled() and paddle.amp.get_autocast_dtype() == paddle.bfloat16
        with paddle.amp.auto_cast(enable=False):
            assert layer(x).dtype == paddle.float32
        assert layer(x).dtype == paddle.bfloat16
    assert layer(x).dtype == paddle.float32 and not paddle.amp.is_autocast_enabled()


def test_losses_stay_in_float32():
    x, _ = batch()
    with paddle.amp.auto_cast(dtype="bfloat16"):
        loss = nn.CrossEntropyLoss()(network()(x), paddle.to_tensor(np.array([0, 1, 1, 0, 1])))
    assert loss.dtype == paddle.float32


def test_custom_lists():
    x, _ = batch()
    layer = nn.Linear(4, 4)
    with paddle.amp.auto_cast(dtype="bfloat16", custom_black_list=["matmul"]):
        assert layer(x).dtype == paddle.float32
    with pytest.raises(ValueError, match="matmul"):
        paddle.amp.auto_cast(custom_white_list=["matmul"], custom_black_list=["matmul"])
    with pytest.raises(ValueError, match="level"):
        paddle.amp.auto_cast(level="O9")


def test_float16_becomes_bfloat16_and_says_so_once():
    import importlib
    module = importlib.import_module("yuloh.amp.auto_cast")
    module._said = False
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            with paddle.amp.auto_cast():
                out = nn.Linear(4, 4)(batch()[0])
    assert out.dtype == paddle.bfloat16
    assert sum("bfloat16" in str(w.message) for w in said) == 1


def test_decorator():
    @paddle.amp.auto_cast(dtype="bfloat16")
    def run(x):
        return nn.Linear(4, 4)(x)
    assert run(batch()[0]).dtype == paddle.bfloat16 and not paddle.amp.is_autocast_enabled()


def test_decorate_o2():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4), nn.Linear(4, 2))
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
    net, optimizer = paddle.amp.decorate(net, optimizer, level="O2", dtype="bfloat16", save_dtype="float32")
    assert net[0].weight.dtype == paddle.bfloat16 and net[1].weight.dtype == paddle.float32
    first = net[0].weight.astype("float32").numpy().copy()
    x, y = batch()
    losses = []
    for _ in range(20):
        with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
            loss = ((net(x).astype("float32") - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    master = optimizer.state_dict()["master_weights"][net[0].weight.name]
    assert master.dtype == paddle.float32
    np.testing.assert_array_equal(net[0].weight.numpy(), master.astype("bfloat16").numpy())
    assert np.abs(net[0].weight.astype("float32").numpy() - first).max() > 0
    assert net.state_dict()["0.weight"].dtype == paddle.float32


# ---- GradScaler --------------------------------------------------------------------------------------------
def scaled_step(net, optimizer, scaler, data, poison=False):
    x, y = data
    loss = ((net(x) - y) ** 2).mean()
    if poison:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.clear_grad()
    return loss


def test_scaled_steps_equal_plain_ones():
    paddle.seed(5)
    one, two = network(), network()
    two.set_state_dict(one.state_dict())
    plain = paddle.optimizer.SGD(0.1, one.parameters())
    scaled = paddle.optimizer.SGD(0.1, two.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024)
    for step in range(4):
        x, y = batch(step)
        ((one(x) - y) ** 2).mean().backward()
        plain.step()
        plain.clear_grad()
        scaled_step(two, scaled, scaler, batch(step))
    for a, b in zip(one.parameters(), two.parameters()):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-7)  # 1024 is a power of two


def test_a_bad_step_changes_nothing_but_the_scale():
    net = network()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024, incr_every_n_steps=2)
    scaled_step(net, optimizer, scaler, batch())
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    state = {k: v.numpy().copy() for k, v in optimizer.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # skipping is the scaler's job, not worth a word
        scaled_step(net, optimizer, scaler, batch(), poison=True)
    assert scaler._found_inf
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    for name, value in optimizer.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[name])
    assert scaler.state_dict()["scale"].item() == 512 and scaler._incr_count == 0
    scaled_step(net, optimizer, scaler, batch())
    assert not scaler._found_inf and scaler._incr_count == 1
    scaled_step(net, optimizer, scaler, batch())
    assert scaler.state_dict()["scale"].item() == 1024 and scaler._incr_count == 0
    assert np.abs(net.state_dict()["0.weight"].numpy() - before["0.weight"]).max() > 0


def test_one_plan_whatever_was_found():
    net = network()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024)
    factor = paddle.to_tensor(1.0)
    x, y = batch()

    def step():
        loss = ((net(x) - y) ** 2).mean() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()

    for _ in range(4):
        step()
    plans = paddle._core.stats()["plans"]
    for value in (float("inf"), 1.0, float("nan"), 1.0):
        factor.set_value(np.float32(value))
        step()
    # the set_value between the steps may be a plan of its own
    assert paddle._core.stats()["plans"] <= plans + 1
    assert scaler.state_dict()["scale"].item() == 256


def test_unscale_then_clip_then_step():
    net = network()
    optimizer = paddle.optimizer.SGD(1.0, net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1e-3))
    scaler = paddle.amp.GradScaler(init_loss_scaling=4096)
    before = nn.utils.parameters_to_vector(net.parameters()).numpy()
    x, y = batch()
    scaler.scale(((net(x) - y) ** 2).mean()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="unscaled"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already"):
        scaler.step(optimizer)
    scaler.update()
    after = nn.utils.parameters_to_vector(net.parameters()).numpy()
    assert np.linalg.norm(after - before) == pytest.approx(1e-3, rel=1e-3)


def test_minimize_disabled_and_state():
    net = network()
    optimizer = paddle.optimizer.SGD(0.1, net.parameters())
    off = paddle.amp.GradScaler(enable=False)
    x, y = batch()
    loss = ((net(x) - y) ** 2).mean()
    assert off.scale(loss) is loss and off.state_dict() == {}
    scaler = paddle.amp.GradScaler(init_loss_scaling=8)
    scaled = scaler.scale(loss)
    assert scaled.item() == pytest.approx(8 * loss.item())
    scaled.backward()
    scaler.minimize(optimizer, scaled)
    optimizer.clear_grad()
    again = paddle.amp.GradScaler()
    again.load_state_dict(scaler.state_dict())
    assert again.state_dict() == scaler.state_dict() and again._incr_count == 1
    with pytest.raises(ValueError, match="incr_ratio"):
        paddle.amp.GradScaler(incr_ratio=0.5)
