# SPDX-License-Identifier: Apache-2.0
"""Inception V3: factorised convolutions in parallel branches (Szegedy et al. 2015)."""

from ... import ParamAttr, concat, nn
from ...nn.initializer import Uniform
from ..ops import ConvNormActivation
from ._build import finish


def _conv(channels_in, channels_out, kernel, stride=1, padding=0):
    return ConvNormActivation(channels_in, channels_out, kernel, stride=stride, padding=padding)


def _chain(x, *layers):
    for layer in layers:
        x = layer(x)
    return x


class InceptionStem(nn.Layer):
    """299x299 images to [N, 192, 35, 35]."""

    def __init__(self):
        super().__init__()
        self.conv_1a_3x3 = _conv(3, 32, 3, stride=2)
        self.conv_2a_3x3 = _conv(32, 32, 3)
        self.conv_2b_3x3 = _conv(32, 64, 3, padding=1)
        self.max_pool = nn.MaxPool2D(kernel_size=3, stride=2, padding=0)
        self.conv_3b_1x1 = _conv(64, 80, 1)
        self.conv_4a_3x3 = _conv(80, 192, 3)

    def forward(self, x):
        x = _chain(x, self.conv_1a_3x3, self.conv_2a_3x3, self.conv_2b_3x3, self.max_pool)
        return _chain(x, self.conv_3b_1x1, self.conv_4a_3x3, self.max_pool)


class InceptionA(nn.Layer):
    """Branches 1x1, 5x5, double 3x3, pooling."""

    def __init__(self, channels, pool_features):
        super().__init__()
        self.branch1x1 = _conv(channels, 64, 1)
        self.branch5x5_1 = _conv(channels, 48, 1)
        self.branch5x5_2 = _conv(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = _conv(channels, 64, 1)
        self.branch3x3dbl_2 = _conv(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = _conv(96, 96, 3, padding=1)
        self.branch_pool = nn.AvgPool2D(kernel_size=3, stride=1, padding=1, exclusive=False)
        self.branch_pool_conv = _conv(channels, pool_features, 1)

    def forward(self, x):
        branches = [
            self.branch1x1(x),
            _chain(x, self.branch5x5_1, self.branch5x5_2),
            _chain(x, self.branch3x3dbl_1, self.branch3x3dbl_2, self.branch3x3dbl_3),
            _chain(x, self.branch_pool, self.branch_pool_conv),
        ]
        return concat(branches, axis=1)


class InceptionB(nn.Layer):
    """Halves the image: 3x3, double 3x3, max pooling."""

    def __init__(self, channels):
        super().__init__()
        self.branch3x3 = _conv(channels, 384, 3, stride=2)
        self.branch3x3dbl_1 = _conv(channels, 64, 1)
        self.branch3x3dbl_2 = _conv(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = _conv(96, 96, 3, stride=2)
        self.branch_pool = nn.MaxPool2D(kernel_size=3, stride=2)

    def forward(self, x):
        branches = [
            self.branch3x3(x),
            _chain(x, self.branch3x3dbl_1, self.branch3x3dbl_2, self.branch3x3dbl_3),
            self.branch_pool(x),
        ]
        return concat(branches, axis=1)


class InceptionC(nn.Layer):
    """7x7 convolutions factorised into 1x7 and 7x1."""

    def __init__(self, channels, c7):
        super().__init__()
        row = {"kernel": (1, 7), "padding": (0, 3)}
        column = {"kernel": (7, 1), "padding": (3, 0)}
        self.branch1x1 = _conv(channels, 192, 1)
        self.branch7x7_1 = _conv(channels, c7, 1)
        self.branch7x7_2 = _conv(c7, c7, **row)
        self.branch7x7_3 = _conv(c7, 192, **column)
        self.branch7x7dbl_1 = _conv(channels, c7, 1)
        self.branch7x7dbl_2 = _conv(c7, c7, **column)
        self.branch7x7dbl_3 = _conv(c7, c7, **row)
        self.branch7x7dbl_4 = _conv(c7, c7, **column)
        self.branch7x7dbl_5 = _conv(c7, 192, **row)
        self.branch_pool = nn.AvgPool2D(kernel_size=3, stride=1, padding=1, exclusive=False)
        self.branch_pool_conv = _conv(channels, 192, 1)

    def forward(self, x):
        double = [getattr(self, f"branch7x7dbl_{i}") for i in range(1, 6)]
        branches = [
            self.branch1x1(x),
            _chain(x, self.branch7x7_1, self.branch7x7_2, self.branch7x7_3),
            _chain(x, *double),
            _chain(x, self.branch_pool, self.branch_pool_conv),
        ]
        return concat(branches, axis=1)


class InceptionD(nn.Layer):
    """Halves the image again: 3x3, 7x7 then 3x3, max pooling."""

    def __init__(self, channels):
        super().__init__()
        self.branch3x3_1 = _conv(channels, 192, 1)
        self.branch3x3_2 = _conv(192, 320, 3, stride=2)
        self.branch7x7x3_1 = _conv(channels, 192, 1)
        self.branch7x7x3_2 = _conv(192, 192, (1, 7), padding=(0, 3))
        self.branch7x7x3_3 = _conv(192, 192, (7, 1), padding=(3, 0))
        self.branch7x7x3_4 = _conv(192, 192, 3, stride=2)
        self.branch_pool = nn.MaxPool2D(kernel_size=3, stride=2)

    def forward(self, x):
        long = [self.branch7x7x3_1, self.branch7x7x3_2, self.branch7x7x3_3, self.branch7x7x3_4]
        branches = [_chain(x, self.branch3x3_1, self.branch3x3_2), _chain(x, *long), self.branch_pool(x)]
        return concat(branches, axis=1)


class InceptionE(nn.Layer):
    """The widest block: 3x3 convolutions split into 1x3 beside 3x1."""

    def __init__(self, channels):
        super().__init__()
        row = {"kernel": (1, 3), "padding": (0, 1)}
        column = {"kernel": (3, 1), "padding": (1, 0)}
        self.branch1x1 = _conv(channels, 320, 1)
        self.branch3x3_1 = _conv(channels, 384, 1)
        self.branch3x3_2a = _conv(384, 384, **row)
        self.branch3x3_2b = _conv(384, 384, **column)
        self.branch3x3dbl_1 = _conv(channels, 448, 1)
        self.branch3x3dbl_2 = _conv(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = _conv(384, 384, **row)
        self.branch3x3dbl_3b = _conv(384, 384, **column)
        self.branch_pool = nn.AvgPool2D(kernel_size=3, stride=1, padding=1, exclusive=False)
        self.branch_pool_conv = _conv(channels, 192, 1)

    def forward(self, x):
        single = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        branches = [
            self.branch1x1(x),
            self.branch3x3_2a(single),
            self.branch3x3_2b(single),
            self.branch3x3dbl_3a(double),
            self.branch3x3dbl_3b(double),
            _chain(x, self.branch_pool, self.branch_pool_conv),
        ]
        return concat(branches, axis=1)


class InceptionV3(nn.Layer):
    """Input [N, 3, 299, 299], output [N, num_classes]."""

    def __init__(self, num_classes=1000, with_pool=True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.inception_stem = InceptionStem()
        blocks = [InceptionA(192, 32), InceptionA(256, 64), InceptionA(288, 64), InceptionB(288)]
        blocks += [InceptionC(768, c7) for c7 in (128, 160, 160, 192)]
        blocks += [InceptionD(768), InceptionE(1280), InceptionE(2048)]
        self.inception_block_list = nn.LayerList(blocks)
        if with_pool:
            self.avg_pool = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            bound = 2048**-0.5
            self.dropout = nn.Dropout(p=0.2, mode="downscale_in_infer")
            self.fc = nn.Linear(2048, num_classes, weight_attr=ParamAttr(initializer=Uniform(-bound, bound)))

    def forward(self, x):
        x = _chain(self.inception_stem(x), *self.inception_block_list)
        if self.with_pool:
            x = self.avg_pool(x)
        if self.num_classes > 0:
            x = self.fc(self.dropout(x.reshape([-1, 2048])))
        return x


def inception_v3(pretrained=False, **kwargs):
    """InceptionV3."""
    return finish(InceptionV3(**kwargs), "inception_v3", pretrained)
