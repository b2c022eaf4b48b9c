# SPDX-License-Identifier: Apache-2.0
"""Training on real data converges, in fp32 and under bf16 autocast: handwritten digits (tests/data/digits.md)."""

import pathlib

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn
from yuloh.nn import functional as F

DATA = pathlib.Path(__file__).parents[1] / "data" / "digits.npz"


def parts():
    """(training pictures, labels), (held-out third, labels); pictures [n, 1, 8, 8] in 0..1."""
    held = np.load(DATA)
    order = np.random.RandomState(0).permutation(len(held["labels"]))
    x = held["images"][order, None].astype("float32") / 16
    y = held["labels"][order].astype("int64")
    third = len(y) // 3
    return (x[third:], y[third:]), (x[:third], y[:third])


def digits_net():
    def block(i, o, padding=1):
        return nn.Conv2D(i, o, 3, padding=padding), nn.BatchNorm2D(o), nn.ReLU()

    return nn.Sequential(*block(1, 32), *block(32, 32), nn.MaxPool2D(2), *block(32, 64, 0), nn.Flatten(), nn.Dropout(0.3),
                         nn.Linear(64 * 4, 10))


@pytest.fixture(autouse=True)
def one_thread():
    """So small a net gains nothing from a second one, and a busy machine cannot slow it down by much."""
    before = paddle._core.get_num_threads()
    paddle._core.set_num_threads(1)
    yield
    paddle._core.set_num_threads(before)


def train(precision, epochs=15, batch=64, seed=3):
    """(share of the held-out third that is recognised, loss of every step)."""
    paddle.seed(seed)
    (x, y), (tx, ty) = parts()
    net = digits_net()
    rate = paddle.optimizer.lr.CosineAnnealingDecay(3e-3, T_max=epochs * (len(y) // batch))
    opt = paddle.optimizer.AdamW(learning_rate=rate, parameters=net.parameters(), weight_decay=0.01)
    losses, draw = [], np.random.RandomState(seed)
    for _ in range(epochs):
        order = draw.permutation(len(y))
        for i in range(0, len(y) - batch + 1, batch):
            pick = order[i : i + batch]
            with paddle.amp.auto_cast(enable=precision == "bf16", dtype="bfloat16"):
                logits = net(paddle.to_tensor(x[pick]))
                loss = F.cross_entropy(logits, paddle.to_tensor(y[pick]))
            assert (str(logits.dtype).endswith("bfloat16")) == (precision == "bf16")
            loss.backward()
            opt.step()
            opt.clear_grad()
            rate.step()
            losses.append(float(loss.astype("float32")))
    net.eval()
    with paddle.no_grad(), paddle.amp.auto_cast(enable=precision == "bf16", dtype="bfloat16"):
        guessed = net(paddle.to_tensor(tx)).astype("float32").numpy().argmax(1)
    return float((guessed == ty).mean()), losses


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_digits_reach_98_percent(precision):
    right, losses = train(precision)
    print(f"{precision}: {right:.2%} of the held-out third, last losses {losses[-3:]}")
    assert np.isfinite(losses).all()
    assert right >= 0.98


def test_bf16_follows_fp32_at_first():
    """Before the two have had time to part: the first steps' losses agree as bf16's rounding (2^-8) lets expect."""
    _, a = train("fp32", epochs=1)
    _, b = train("bf16", epochs=1)
    assert b[:10] == pytest.approx(a[:10], rel=0.05)
    assert b != a
