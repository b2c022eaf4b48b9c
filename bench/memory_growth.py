# SPDX-License-Identifier: Apache-2.0
"""Does a long run leak? Trains LeNet for 10,000 steps and prints how resident memory grows after the first 1,000.

    python bench/memory_growth.py [steps]

Fresh batches every step, a changing learning rate, a read every 100 steps. Exits 1 above 2 MB.
"""
import sys

import numpy as np

import yuloh as paddle
from yuloh.nn import functional as F


def resident():
    """Resident bytes of this process."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


def main(steps=10_000):
    paddle.seed(0)
    net = paddle.vision.models.LeNet()
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.001, steps)
    opt = paddle.optimizer.Adam(learning_rate=schedule, parameters=net.parameters())
    draw = np.random.RandomState(0)
    images = draw.rand(16, 64, 1, 28, 28).astype("float32")
    labels = draw.randint(0, 10, (16, 64))
    start = None
    for i in range(steps):
        loss = F.cross_entropy(net(paddle.to_tensor(images[i % 16])), paddle.to_tensor(labels[i % 16]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        schedule.step()
        if i % 100 == 0:
            loss.item()
        if i == min(1000, steps // 10):
            start = resident()
    grown = resident() - start
    stats = paddle._core.stats()
    print(f"{steps} steps: resident memory grew by {grown / 1e6:.2f} MB after the first {min(1000, steps // 10)}; "
          f"{stats['plans']} plans, {stats['hits']} hits, loss {loss.item():.4f}")
    return 0 if grown < 2e6 else 1


if __name__ == "__main__":
    sys.exit(main(*[int(a) for a in sys.argv[1:2]]))
