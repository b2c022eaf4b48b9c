# SPDX-License-Identifier: Apache-2.0
"""LeNet on 28 x 28 digits, batch 64, Adam: so little arithmetic that the framework's own cost shows."""

import paddle
from _paddle_training import main, start
from paddle.vision.models import LeNet


def loss(net, images, labels):
    return paddle.nn.functional.cross_entropy(net(images), labels)


def build(options):
    return start(LeNet, loss, "digits", options)


if __name__ == "__main__":
    main(build, batch=64)
