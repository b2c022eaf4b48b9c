# SPDX-License-Identifier: Apache-2.0
"""Every optimizer's memory, predicted without running: the allocator's peak of float32 training and of bfloat16 parameters
with float32 twins, against a real loop; and what no dry run can know."""
import gc
import json
import subprocess
import sys

import numpy as np
import pytest

import yuloh as paddle
from yuloh import nn
from yuloh.advise import facts
from yuloh.nn import functional as F

KINDS = ["SGD", "Momentum", "Adam", "AdamW", "Adagrad", "RMSProp", "Adadelta", "Adamax", "NAdam", "RAdam", "Lamb", "ASGD", "Rprop"]
BATCH, WIDTH = 16, 256


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b, self.c = nn.Linear(WIDTH, 512), nn.LayerNorm(512), nn.Linear(512, 512), nn.Linear(512, 10)

    def forward(self, x):
        return self.c(F.relu(self.b(self.norm(F.gelu(self.a(x))))))


def made(kind, parameters):
    options = {"Adagrad": {"learning_rate": 0.001}, "RMSProp": {"learning_rate": 0.001}}.get(kind, {})
    return getattr(paddle.optimizer, kind)(parameters=parameters, **options)


def peak(kind, half):
    """Of three steps of a real loop."""
    gc.collect()
    paddle._core.run_pending()
    paddle._core.release_cached_memory()
    before = paddle.device.memory_allocated()
    paddle._core.reset_max_memory()
    net = Net()
    opt = made(kind, net.parameters())
    if half:
        paddle.amp.decorate(net, opt, level="O2", dtype="bfloat16")
    x = paddle.to_tensor(np.ones([BATCH, WIDTH], "float32"))
    x = x.astype("bfloat16") if half else x
    y = paddle.to_tensor(np.zeros([BATCH], "int64"))
    for _ in range(3):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        loss.numpy()
    return paddle.device.max_memory_allocated() - before


@pytest.fixture(scope="module")
def real():
    folder = __file__.rsplit("/", 1)[0]
    code = (f"import json, sys; sys.path.insert(0, {folder!r}); import test_advise_optimizers as t\n"
            "print(json.dumps({k: [t.peak(k, half) for half in (False, True)] for k in t.KINDS}))")
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_peak_of_every_optimizer(real, kind, half):
    f = facts(Net, [([None, WIDTH], "float32")], batch=BATCH, optimizer=kind, precision="bfloat16" if half else "float32")
    m = f["memory"]
    assert f["optimizer"] == kind
    assert m["peak"]["value"] == pytest.approx(real[kind][half], rel=0.01)
    assert m["peak"]["low"] <= real[kind][half] <= m["peak"]["high"]
    # What it holds between steps, by element of the parameters: moments (Paddle's NAdam and RAdam keep their products of
    # coefficients by element too) and, for bfloat16, float32 twins.
    moments = {"SGD": 0, "Momentum": 1, "Adagrad": 1, "RMSProp": 3, "NAdam": 5, "RAdam": 5, "ASGD": 2}.get(kind, 2)
    assert m["optimizer"] == pytest.approx(4 * f["parameters"] * (moments + half), rel=0.01, abs=64)


def test_an_optimizer_that_decides_by_values_is_refused():
    with pytest.raises(ValueError, match="facts: LBFGS.*closure"):
        facts(Net, [([None, WIDTH], "float32")], batch=2, optimizer="LBFGS")


def test_the_table_covers_all():
    found = {n for n in dir(paddle.optimizer) if isinstance(getattr(paddle.optimizer, n), type)
             and issubclass(getattr(paddle.optimizer, n), paddle.optimizer.Optimizer)}
    assert found - {"Optimizer", "LBFGS"} == set(KINDS)
