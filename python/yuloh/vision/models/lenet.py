# SPDX-License-Identifier: Apache-2.0
"""LeNet, the small network of the first steps: 28x28 grey images, 61,610 parameters with ten classes."""

from ... import nn


class LeNet(nn.Layer):
    """LeCun et al. 1998, as Paddle builds it. Input [N, 1, 28, 28], output [N, num_classes].

    Args:
        num_classes: outputs; 0 or less leaves out the fully connected part.
    """

    def __init__(self, num_classes=10):
        super().__init__()
        self.num_classes = num_classes
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, stride=1, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 5, stride=1, padding=0),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
        )
        if num_classes > 0:
            self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, num_classes))

    def forward(self, inputs):
        x = self.features(inputs)
        if self.num_classes > 0:
            x = self.fc(x.flatten(1))
        return x
