# SPDX-License-Identifier: Apache-2.0
"""What laziness costs: recording, plan hits and misses, first steps (the table in docs/design.md).

    python bench/costs.py

Prints microseconds per recorded call (best of 7 loops) and, per model, the parts of a training step.
"""
import time

import numpy as np

import yuloh as paddle
from yuloh import nn
from yuloh.nn import functional as F

core = paddle._core


def per_call(function, n=20000, repeats=7):
    """Best mean time of ``function()``, in microseconds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(n):
            function()
        best = min(best, (time.perf_counter() - start) / n)
    return best * 1e6


def recording():
    x = paddle.zeros([4, 4])
    y = paddle.zeros([4, 4])
    y.stop_gradient = False
    relu, linear, layer = F.relu, nn.Linear(4, 4), nn.ReLU()
    for name, call in [("F.relu(x)", lambda: relu(x)), ("F.relu(x) with gradient", lambda: relu(y)), ("x + x", lambda: x + x),
                       ("x * 3.7", lambda: x * 3.7), ("x[0]", lambda: x[0]), ("x.reshape", lambda: x.reshape([16])),
                       ("nn.ReLU()(x)", lambda: layer(x)), ("nn.Linear()(x)", lambda: linear(x))]:
        print(f"{name:26s} {per_call(call):6.2f} us")


def training(name, net, x, y, steps):
    opt = paddle.optimizer.Adam(learning_rate=0.001, parameters=net.parameters())
    record, total = [], []
    before = core.stats()
    for i in range(steps):
        at, start = core.stats(), time.perf_counter()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        recorded = time.perf_counter()
        opt.clear_grad()
        loss.item()
        end, now = time.perf_counter(), core.stats()
        record.append(recorded - start)
        total.append(end - start)
        if i < 3:
            print(f"{name} step {i}: record {1e3 * record[-1]:.2f} ms, compile "
                  f"{1e3 * (now['compile_seconds'] - at['compile_seconds']):.1f} ms, total {1e3 * total[-1]:.1f} ms, "
                  f"{now['nodes'] - at['nodes']} nodes, {now['kernels'] - at['kernels']} kernels")
    lookup = (core.stats()["lookup_seconds"] - before["lookup_seconds"]) / steps
    print(f"{name}: record {1e3 * np.median(record):.3f} ms, hash and lookup {1e3 * lookup:.3f} ms, "
          f"step median {1e3 * np.median(total):.2f} ms, best {1e3 * min(total):.2f} ms")


def main():
    recording()
    draw = np.random.RandomState(0)
    images = paddle.to_tensor(draw.rand(64, 3, 32, 32).astype("float32"))
    training("lenet", paddle.vision.models.LeNet(), paddle.to_tensor(draw.rand(64, 1, 28, 28).astype("float32")),
             paddle.to_tensor(draw.randint(0, 10, 64)), 200)
    labels = paddle.to_tensor(draw.randint(0, 100, 64))
    training("resnet50", paddle.vision.models.resnet50(num_classes=100), images, labels, 10)
    training("mobilenet_v2", paddle.vision.models.mobilenet_v2(num_classes=100), images, labels, 10)


if __name__ == "__main__":
    main()
