# SPDX-License-Identifier: Apache-2.0
"""Twin of lstm.py."""

from _torch_training import start
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 256)
        self.lstm = nn.LSTM(256, 256, num_layers=2, batch_first=True)
        self.fc = nn.Linear(256, 10)

    def forward(self, tokens):
        outputs, _ = self.lstm(self.embed(tokens))
        return self.fc(outputs[:, -1])


def loss(net, tokens, labels):
    return nn.functional.cross_entropy(net(tokens), labels)


def build(options):
    return start(Classifier, loss, "sequences", options)
