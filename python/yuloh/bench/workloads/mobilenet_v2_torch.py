# SPDX-License-Identifier: Apache-2.0
"""Twin of mobilenet_v2.py with Paddle's parameter names."""

import torch
from _torch_training import start
from torch import nn


def unit(inside, outside, kernel=3, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inside, outside, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU6(inplace=True),
    )


class Inverted(nn.Module):
    def __init__(self, inside, outside, stride, expand):
        super().__init__()
        hidden = inside * expand
        parts = [unit(inside, hidden, kernel=1)] if expand != 1 else []
        parts += [
            unit(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, outside, 1, bias=False),
            nn.BatchNorm2d(outside),
        ]
        self.conv = nn.Sequential(*parts)
        self.shortcut = stride == 1 and inside == outside

    def forward(self, x):
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers, inside = [unit(3, 32, stride=2)], 32
        for expand, outside, count, stride in (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            for i in range(count):
                layers.append(Inverted(inside, outside, stride if i == 0 else 1, expand))
                inside = outside
        layers.append(unit(inside, 1280, kernel=1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Identity(), nn.Linear(1280, classes))

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.features(x), 1)
        return self.classifier(torch.flatten(x, 1))


def loss(net, images, labels):
    return nn.functional.cross_entropy(net(images), labels)


def build(options):
    return start(lambda: MobileNetV2(100), loss, "cifar100", options)
