# SPDX-License-Identifier: Apache-2.0
"""AlexNet (Krizhevsky et al. 2012)."""

from ... import ParamAttr, nn
from ...nn import functional as F
from ...nn.initializer import Uniform
from ._build import finish


def _attr(bound):
    return ParamAttr(initializer=Uniform(-bound, bound))


def _conv(channels_in, channels_out, kernel, stride=1, padding=0):
    bound = (channels_in * kernel * kernel) ** -0.5
    return nn.Conv2D(
        channels_in,
        channels_out,
        kernel,
        stride=stride,
        padding=padding,
        weight_attr=_attr(bound),
        bias_attr=_attr(bound),
    )


class ConvPoolLayer(nn.Layer):
    """Convolution, ReLU, 3x3 max pooling by 2."""

    def __init__(self, channels_in, channels_out, kernel, stride=1, padding=0):
        super().__init__()
        self.relu = nn.ReLU()
        self._conv = _conv(channels_in, channels_out, kernel, stride, padding)
        self._pool = nn.MaxPool2D(kernel_size=3, stride=2, padding=0)

    def forward(self, inputs):
        return self._pool(self.relu(self._conv(inputs)))


class AlexNet(nn.Layer):
    """Input [N, 3, 224, 224], output [N, num_classes]; with num_classes <= 0 the features [N, 256, 6, 6]."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.num_classes = num_classes
        self._conv1 = ConvPoolLayer(3, 64, 11, 4, 2)
        self._conv2 = ConvPoolLayer(64, 192, 5, 1, 2)
        self._conv3 = _conv(192, 384, 3, 1, 1)
        self._conv4 = _conv(384, 256, 3, 1, 1)
        self._conv5 = ConvPoolLayer(256, 256, 3, 1, 1)
        if num_classes > 0:
            bound = (256 * 6 * 6) ** -0.5  # all three layers share the first one's bound, as in Paddle
            self._drop1 = nn.Dropout(p=0.5, mode="downscale_in_infer")
            self._fc6 = nn.Linear(256 * 6 * 6, 4096, weight_attr=_attr(bound), bias_attr=_attr(bound))
            self._drop2 = nn.Dropout(p=0.5, mode="downscale_in_infer")
            self._fc7 = nn.Linear(4096, 4096, weight_attr=_attr(bound), bias_attr=_attr(bound))
            self._fc8 = nn.Linear(4096, num_classes, weight_attr=_attr(bound), bias_attr=_attr(bound))

    def forward(self, inputs):
        x = self._conv2(self._conv1(inputs))
        x = F.relu(self._conv4(F.relu(self._conv3(x))))
        x = self._conv5(x)
        if self.num_classes > 0:
            x = F.relu(self._fc6(self._drop1(x.flatten(1))))
            x = self._fc8(F.relu(self._fc7(self._drop2(x))))
        return x


def alexnet(pretrained=False, **kwargs):
    """AlexNet; `pretrained` reads alexnet.pdparams from the weights folder."""
    return finish(AlexNet(**kwargs), "alexnet", pretrained)
