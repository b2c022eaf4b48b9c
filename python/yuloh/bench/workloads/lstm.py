# SPDX-License-Identifier: Apache-2.0
"""An LSTM classifier: embedding of 1000 tokens, two layers of 256, sequences of 64, batch 32, Adam."""

import paddle
from _paddle_training import main, start
from paddle import nn


class Classifier(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 256)
        self.lstm = nn.LSTM(256, 256, num_layers=2)
        self.fc = nn.Linear(256, 10)

    def forward(self, tokens):
        outputs, _ = self.lstm(self.embed(tokens))
        return self.fc(outputs[:, -1])


def loss(net, tokens, labels):
    return paddle.nn.functional.cross_entropy(net(tokens), labels)


def build(options):
    return start(Classifier, loss, "sequences", options)


if __name__ == "__main__":
    main(build, batch=32)
