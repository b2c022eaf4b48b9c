# SPDX-License-Identifier: Apache-2.0
"""GoogLeNet, the first Inception network, with its two auxiliary outputs (Szegedy et al. 2014)."""

from ... import ParamAttr, concat, nn
from ...nn import functional as F
from ...nn.initializer import Uniform
from ._build import finish


def _linear(features_in, features_out, fan):
    """Linear with weights in +-sqrt(3 / fan); `fan` is not always features_in, as in Paddle."""
    bound = (3.0 / fan) ** 0.5
    return nn.Linear(features_in, features_out, weight_attr=ParamAttr(initializer=Uniform(-bound, bound)))


class ConvLayer(nn.Layer):
    """Convolution that keeps the size (stride 1), without bias or activation."""

    def __init__(self, channels_in, channels_out, kernel, stride=1):
        super().__init__()
        self._conv = nn.Conv2D(
            channels_in, channels_out, kernel, stride=stride, padding=(kernel - 1) // 2, bias_attr=False
        )

    def forward(self, x):
        return self._conv(x)


class Inception(nn.Layer):
    """Four branches side by side: 1x1, 3x3, 5x5 and pooling; one ReLU over all."""

    def __init__(self, channels, c1, c3r, c3, c5r, c5, proj):
        super().__init__()
        self._conv1 = ConvLayer(channels, c1, 1)
        self._conv3r = ConvLayer(channels, c3r, 1)
        self._conv3 = ConvLayer(c3r, c3, 3)
        self._conv5r = ConvLayer(channels, c5r, 1)
        self._conv5 = ConvLayer(c5r, c5, 5)
        self._pool = nn.MaxPool2D(kernel_size=3, stride=1, padding=1)
        self._convprj = ConvLayer(channels, proj, 1)

    def forward(self, x):
        branches = [
            self._conv1(x),
            self._conv3(self._conv3r(x)),
            self._conv5(self._conv5r(x)),
            self._convprj(self._pool(x)),
        ]
        return F.relu(concat(branches, axis=1))


class GoogLeNet(nn.Layer):
    """Input [N, 3, 224, 224]; output: tuple of the main and the two auxiliary results, each [N,
    num_classes].
    """

    def __init__(self, num_classes=1000, with_pool=True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self._conv = ConvLayer(3, 64, 7, 2)
        self._pool = nn.MaxPool2D(kernel_size=3, stride=2)
        self._conv_1 = ConvLayer(64, 64, 1)
        self._conv_2 = ConvLayer(64, 192, 3)
        self._ince3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self._ince3b = Inception(256, 128, 128, 192, 32, 96, 64)
        self._ince4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self._ince4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self._ince4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self._ince4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self._ince4e = Inception(528, 256, 160, 320, 32, 128, 128)
        self._ince5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self._ince5b = Inception(832, 384, 192, 384, 48, 128, 128)
        if with_pool:
            self._pool_5 = nn.AdaptiveAvgPool2D(1)
            self._pool_o1 = nn.AvgPool2D(kernel_size=5, stride=3)
            self._pool_o2 = nn.AvgPool2D(kernel_size=5, stride=3)
        if num_classes > 0:
            self._drop = nn.Dropout(p=0.4, mode="downscale_in_infer")
            self._fc_out = _linear(1024, num_classes, 1024)
            self._conv_o1 = ConvLayer(512, 128, 1)
            self._fc_o1 = _linear(1152, 1024, 2048)
            self._drop_o1 = nn.Dropout(p=0.7, mode="downscale_in_infer")
            self._out1 = _linear(1024, num_classes, 1024)
            self._conv_o2 = ConvLayer(528, 128, 1)
            self._fc_o2 = _linear(1152, 1024, 2048)
            self._drop_o2 = nn.Dropout(p=0.7, mode="downscale_in_infer")
            self._out2 = _linear(1024, num_classes, 1024)

    def forward(self, x):
        x = self._pool(self._conv(x))
        x = self._pool(self._conv_2(self._conv_1(x)))
        x = self._pool(self._ince3b(self._ince3a(x)))
        middle1 = self._ince4a(x)
        middle2 = self._ince4d(self._ince4c(self._ince4b(middle1)))
        x = self._pool(self._ince4e(middle2))
        out, out1, out2 = self._ince5b(self._ince5a(x)), middle1, middle2
        if self.with_pool:
            out, out1, out2 = self._pool_5(out), self._pool_o1(out1), self._pool_o2(out2)
        if self.num_classes > 0:
            out = self._fc_out(self._drop(out).squeeze(axis=[2, 3]))
            out1 = F.relu(self._fc_o1(self._conv_o1(out1).flatten(1)))
            out1 = self._out1(self._drop_o1(out1))
            out2 = self._fc_o2(self._conv_o2(out2).flatten(1))
            out2 = self._out2(self._drop_o2(out2))
        return out, out1, out2


def googlenet(pretrained=False, **kwargs):
    """GoogLeNet."""
    return finish(GoogLeNet(**kwargs), "googlenet", pretrained)
