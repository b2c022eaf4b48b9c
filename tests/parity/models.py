# SPDX-License-Identifier: Apache-2.0
"""The networks of the parity tests, written for ``import paddle`` and run unchanged by Paddle and by Yuloh.

Parity room: ``record.py`` trains them with the real Paddle and keeps references in ``data/``; ``test_parity.py``
trains them with Yuloh and compares. Dropout is zero everywhere: two libraries draw different random bits.
ResNet-18 is narrow here because its state is recorded before each of 20 steps; the full-width networks of the zoo
take part in the free run only (``resnet18_zoo``, ``mobilenet_v2_zoo``), from weights made by a NumPy seed.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.vision.models import LeNet, MobileNetV2, resnet18


class Block(nn.Layer):
    """Residual block of two 3x3 convolutions; [N, in, H, W] -> [N, out, H / stride, W / stride]."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2D(n_in, n_out, 3, stride=stride, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(n_out)
        self.conv2 = nn.Conv2D(n_out, n_out, 3, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(n_out)
        self.down = None
        if stride != 1 or n_in != n_out:
            self.down = nn.Sequential(
                nn.Conv2D(n_in, n_out, 1, stride=stride, bias_attr=False), nn.BatchNorm2D(n_out)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class NarrowResNet18(nn.Layer):
    """ResNet-18 with ``width`` instead of 64 channels in its first stage; [N, 3, H, W] -> [N, classes]."""

    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2D(3, width, 7, stride=2, padding=3, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(width)
        self.pool = nn.MaxPool2D(3, stride=2, padding=1)
        blocks, n_in = [], width
        for stage in range(4):
            n_out = width << stage
            blocks += [Block(n_in, n_out, 1 if stage == 0 else 2), Block(n_out, n_out, 1)]
            n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(n_in, classes)

    def forward(self, x):
        y = self.pool(F.relu(self.bn1(self.conv1(x))))
        y = F.adaptive_avg_pool2d(self.blocks(y), 1)
        return self.fc(paddle.flatten(y, 1))


class TinyTransformer(nn.Layer):
    """Encoder of two layers over token ids; int64 [N, T] -> [N, classes]."""

    def __init__(self, vocabulary, length, classes, width=24):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = self.create_parameter(
            [1, length, width], default_initializer=nn.initializer.Normal(0.0, 0.1)
        )
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        return self.head(self.encoder(self.token(ids) + self.position).mean(axis=1))


class LstmClassifier(nn.Layer):
    """Two LSTM layers, the first state-carrying pass kept whole; int64 [N, T] -> [N, classes]."""

    def __init__(self, vocabulary, classes, width=20):
        super().__init__()
        self.token = nn.Embedding(vocabulary, 12)
        self.lstm = nn.LSTM(12, width, num_layers=2)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, ids):
        out, (h, _) = self.lstm(self.token(ids))
        return self.head(paddle.concat([out.mean(axis=1), h[1]], axis=-1))


def _without_dropout(net):
    for layer in net.sublayers():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return net


# name -> (maker, input kind, batch, learning rates {optimizer: rate}, recorded before each step?)
MODELS = {
    "lenet": (lambda: LeNet(10), ("image", 1, 28), 16, {"sgd": 0.02, "adam": 0.001}, True),
    "resnet18": (lambda: NarrowResNet18(4, 10), ("image", 3, 48), 16, {"sgd": 0.01, "adam": 0.001}, True),
    "mobilenet_v2": (
        lambda: _without_dropout(MobileNetV2(scale=0.05, num_classes=10)),
        ("image", 3, 32),
        16,
        {"sgd": 0.005, "adam": 0.0003},
        True,
    ),
    "transformer": (
        lambda: TinyTransformer(40, 12, 5),
        ("tokens", 40, 12),
        16,
        {"sgd": 0.1, "adam": 0.005},
        True,
    ),
    "lstm": (lambda: LstmClassifier(40, 5), ("tokens", 40, 12), 16, {"sgd": 1.0, "adam": 0.02}, True),
    "resnet18_zoo": (
        lambda: resnet18(num_classes=10),
        ("image", 3, 64),
        8,
        {"sgd": 0.001, "adam": 0.00005},
        False,
    ),
    "mobilenet_v2_zoo": (
        lambda: _without_dropout(MobileNetV2(num_classes=10)),
        ("image", 3, 64),
        8,
        {"sgd": 0.001, "adam": 0.00005},
        False,
    ),
}


def make_batch(name, seed):
    """Inputs and labels, the same on every machine: (float32 [N,C,H,W] or int64 [N,T], int64 [N])."""
    _, (kind, a, b), n, _, _ = MODELS[name]
    draw = np.random.RandomState(seed)
    if kind == "image":
        labels = draw.randint(0, 10, n)
        pattern = np.random.RandomState(5).standard_normal((10, a, b, b))
        x = 0.5 * pattern[labels] + draw.standard_normal((n, a, b, b))
        x *= 0.2 if name == "lenet" else 1.0  # Paddle's cross entropy cuts losses above 64 per row: stay below
        return x.astype("float32"), labels.astype("int64")
    labels = draw.randint(0, 5, n)
    telling = labels[:, None] * (a // 5) + draw.randint(0, a // 5, (n, b))
    ids = np.where(draw.randint(0, 3, (n, b)) == 0, telling, draw.randint(0, a, (n, b)))
    return ids.astype("int64"), labels.astype("int64")


def make_optimizer(name, kind, net):
    """SGD or Adam over every parameter of ``net`` with the model's learning rate."""
    rate = MODELS[name][3][kind]
    cls = paddle.optimizer.SGD if kind == "sgd" else paddle.optimizer.Adam
    return cls(learning_rate=rate, parameters=net.parameters())


def loss_of(net, batch):
    """Mean cross entropy of one batch (a 0-D tensor)."""
    x, y = batch
    return F.cross_entropy(net(paddle.to_tensor(x)), paddle.to_tensor(y))
