# SPDX-License-Identifier: Apache-2.0
"""Trains small models a few steps and prints a digest of every loss, gradient and parameter: test_repeatability.py."""

import hashlib
import json
import sys

import numpy as np

import yuloh as paddle
from yuloh.bench.workloads import FOLDER
from yuloh.cli.run import install

STEPS = 3


def lenet(draw):
    x, y = draw.rand(64, 1, 28, 28).astype("float32"), draw.randint(0, 10, 64)
    return paddle.vision.models.LeNet(), lambda net, x, y: paddle.nn.functional.cross_entropy(net(x), y), x, y


def resnet18(draw):
    x, y = draw.rand(16, 3, 32, 32).astype("float32"), draw.randint(0, 10, 16)
    net = paddle.vision.models.resnet18(num_classes=10)
    return net, lambda net, x, y: paddle.nn.functional.cross_entropy(net(x), y), x, y


def gpt(draw):
    install()
    sys.path.insert(0, str(FOLDER))
    import gpt as workload

    workload.LAYERS, workload.VOCABULARY, workload.LENGTH = 2, 512, 64
    tokens = draw.randint(0, 512, [4, 65])
    return workload.GPT(), workload.loss, tokens[:, :-1].copy(), tokens[:, 1:].copy()


def digest(tensor):
    return hashlib.sha256(np.ascontiguousarray(tensor.numpy()).tobytes()).hexdigest()[:16]


def train(make):
    """[(what, digest)] in the order of the training."""
    paddle.seed(7)
    net, loss_of, x, y = make(np.random.RandomState(7))
    x, y = paddle.to_tensor(x), paddle.to_tensor(y)
    opt = paddle.optimizer.Adam(learning_rate=1e-3, parameters=net.parameters())
    found = []
    for step in range(STEPS):
        loss = loss_of(net, x, y)
        loss.backward()
        found.append((f"step {step} loss", digest(loss)))
        found += [(f"step {step} gradient of {n}", digest(p.grad)) for n, p in net.named_parameters() if p.grad is not None]
        opt.step()
        opt.clear_grad()
    found += [(f"parameter {n}", digest(p)) for n, p in net.named_parameters()]
    found += [(f"buffer {n}", digest(b)) for n, b in net.named_buffers()]
    return found


def lenet_without_library(draw):
    """Our own kernels alone (the flag stays off: this one is the last)."""
    paddle.set_flags({"FLAGS_library": 0})
    net, loss_of, x, y = lenet(draw)
    return net, loss_of, x[:16], y[:16]


if __name__ == "__main__":
    paddle._core.set_num_threads(int(sys.argv[1]))
    print(json.dumps({make.__name__: train(make) for make in (lenet, resnet18, gpt, lenet_without_library)}))
