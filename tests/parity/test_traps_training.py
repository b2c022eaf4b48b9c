# SPDX-License-Identifier: Apache-2.0
"""Inputs on which systems in use today crash, hang or answer wrongly: training, files and data workers.

Parity room; see test_traps.py, which has the tensors and operators.
"""

import os
import random
import signal
import subprocess
import sys
import time
import warnings

import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn

import trap_workers
from trap_tensors import equal, inf, rand, tensor

HERE = os.path.dirname(os.path.abspath(__file__))


# ---- B39: clipping and non-finite gradients ---------------------------------------------------------------------
def test_b39_infinite_gradient_is_reported():
    layers = [nn.Linear(2, 1, bias_attr=False), nn.Linear(2, 1, bias_attr=False)]
    params = [p for layer in layers for p in layer.parameters()]
    before = [p.numpy().copy() for p in params]
    opt = paddle.optimizer.SGD(0.1, parameters=params, grad_clip=nn.ClipGradByGlobalNorm(1.0))
    loss = (layers[0](tensor([[inf, 1.0]])) + layers[1](tensor([[1.0, 1.0]]))).sum()
    loss.backward()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            opt.step()
            opt.clear_grad()
            after = [p.numpy() for p in params]
    except (RuntimeError, ValueError, FloatingPointError) as e:
        assert params[0].name in str(e)
        return
    assert any(params[0].name in str(w.message) for w in said), "nobody said that a gradient was infinite"
    for a, b in zip(after, before):
        equal(a, b)


def test_b39_zero_gradients_stay_zero():
    p = paddle.create_parameter([2], "float32")
    for clip in (nn.ClipGradByNorm(1.0), nn.ClipGradByGlobalNorm(1.0)):
        ((_, g),) = clip([(p, paddle.zeros([2]))])
        equal(g, [0, 0])


# ---- B41: optimizer state in a second model ---------------------------------------------------------------------
def train(net, opt, steps, seed):
    losses = []
    for k in range(steps):
        loss = F.mse_loss(net(rand(4, 2, seed=seed + k)), rand(4, 2, seed=seed + 100 + k))
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(float(loss))
    return losses


def test_b41_state_loads_into_a_second_model(tmp_path):
    paddle.seed(3)
    n, m = nn.Linear(2, 2), nn.Linear(2, 2)
    o = paddle.optimizer.Adam(0.01, parameters=n.parameters())
    train(n, o, 5, 0)
    paddle.save(n.state_dict(), str(tmp_path / "n.pdparams"))
    paddle.save(o.state_dict(), str(tmp_path / "n.pdopt"))
    want = train(n, o, 5, 50)
    saved = paddle.load(str(tmp_path / "n.pdopt"))
    keys = list(saved)
    o2 = paddle.optimizer.Adam(0.01, parameters=m.parameters())
    m.set_state_dict(paddle.load(str(tmp_path / "n.pdparams")))
    o2.set_state_dict(saved)
    assert list(saved) == keys, "loading altered the caller's dict"
    assert train(m, o2, 5, 50) == want


# ---- B42: a kill during save ------------------------------------------------------------------------------------
def test_b42_killed_save_leaves_a_loadable_file(tmp_path):
    path, draw = str(tmp_path / "w.pdparams"), random.Random(1)
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {HERE!r}); import conftest, trap_workers; "
        f"trap_workers.save_for_ever({path!r})",
    ]
    for _ in range(4):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        time.sleep(draw.uniform(0.0, 0.15))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        got = paddle.load(path)
        w = got["w"].numpy()
        assert w.shape == (1 << 20,) and (w == got["n"]).all()


# ---- B44, B45, B47: data loader ---------------------------------------------------------------------------------
def loader(dataset, **kw):
    return paddle.io.DataLoader(dataset, batch_size=kw.pop("batch_size", 4), **kw)


def test_b44_killed_worker_is_named():
    with pytest.raises(RuntimeError) as e:  # and not a loop that waits for it (conftest.py: the alarm)
        for _ in loader(trap_workers.KilledAt20(), num_workers=2):
            pass
    text = str(e.value)
    assert "worker" in text.lower() and ("9" in text or "SIGKILL" in text) and "20" in text, text


def test_b45_worker_error_keeps_type_text_and_sample():
    with pytest.raises(ValueError) as e:
        for _ in loader(trap_workers.BadAt20(), num_workers=2):
            pass
    text = str(e.value)
    assert "bad sample twenty" in text and "20" in text and "__getitem__" in text, text


def draws(workers):
    data = loader(trap_workers.Draws(), num_workers=workers)
    return [
        int(v)
        for _ in range(2)
        for batch in data
        for v in (batch[0] if isinstance(batch, list) else batch).numpy().ravel()
    ]


def test_b47_random_draws_differ_between_workers_and_epochs():
    paddle.seed(5)
    first = draws(4)
    assert len(first) == 64 and len(set(first)) == 64
    paddle.seed(5)
    assert draws(4) == first, "the same seed must give the same draws"


def items(share):
    data = loader(trap_workers.Ten(share), num_workers=3, batch_size=2)
    return [
        int(v) for batch in data for v in (batch[0] if isinstance(batch, list) else batch).numpy().ravel()
    ]


def test_b47_iterable_read_by_every_worker_warns():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = items(share=False)
    assert sorted(set(got)) == list(range(10))
    if len(got) > 10:
        assert said, "thirty items for ten and no warning"


def test_b47_iterable_that_uses_worker_info_is_read_once():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = items(share=True)
    assert sorted(got) == list(range(10))
    assert not [w for w in said if "worker" in str(w.message).lower()]
