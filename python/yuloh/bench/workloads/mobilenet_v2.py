# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 on CIFAR-100, batch 64, Adam: depthwise convolutions, much memory traffic for little
arithmetic."""

import paddle
from _paddle_training import main, start
from paddle.vision.models import mobilenet_v2


def model():
    net = mobilenet_v2(num_classes=100)
    net.classifier[0] = (
        paddle.nn.Identity()
    )  # dropout draws differ between frameworks: left out of the comparison
    return net


def loss(net, images, labels):
    return paddle.nn.functional.cross_entropy(net(images), labels)


def build(options):
    return start(model, loss, "cifar100", options)


if __name__ == "__main__":
    main(build, batch=64)
