# SPDX-License-Identifier: Apache-2.0
"""What laziness costs a training step: first steps, plan misses and hits (the table in docs/design.md).

    python bench/costs.py

Prints the parts of the first three steps and of the steady ones, per model; bench/overhead.py times single calls.
"""
import time

import numpy as np

import yuloh as paddle
from yuloh.nn import functional as F

core = paddle._core


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
    draw = np.random.RandomState(0)
    images = paddle.to_tensor(draw.rand(64, 3, 32, 32).astype("float32"))
    training("lenet", paddle.vision.models.LeNet(), paddle.to_tensor(draw.rand(64, 1, 28, 28).astype("float32")),
             paddle.to_tensor(draw.randint(0, 10, 64)), 200)
    labels = paddle.to_tensor(draw.randint(0, 100, 64))
    training("resnet50", paddle.vision.models.resnet50(num_classes=100), images, labels, 10)
    training("mobilenet_v2", paddle.vision.models.mobilenet_v2(num_classes=100), images, labels, 10)


if __name__ == "__main__":
    main()
