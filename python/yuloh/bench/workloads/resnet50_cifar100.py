# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 on CIFAR-100, batch 64, Adam, cross entropy: the main job of the performance test."""

import paddle
from _paddle_training import main, start
from paddle.vision.models import resnet50


def model():
    return resnet50(num_classes=100)


def loss(net, images, labels):
    return paddle.nn.functional.cross_entropy(net(images), labels)


def build(options):
    return start(model, loss, "cifar100", options)


if __name__ == "__main__":
    main(build, batch=64)
