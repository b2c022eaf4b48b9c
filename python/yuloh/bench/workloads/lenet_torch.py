# SPDX-License-Identifier: Apache-2.0
"""Twin of lenet.py."""

import torch
from _torch_training import start
from torch import nn


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2, 2),
        )
        self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10))

    def forward(self, x):
        return self.fc(torch.flatten(self.features(x), 1))


def loss(net, images, labels):
    return nn.functional.cross_entropy(net(images), labels)


def build(options):
    return start(LeNet, loss, "digits", options)
