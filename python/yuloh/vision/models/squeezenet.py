# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet 1.0 and 1.1: few parameters by squeezing before expanding (Iandola et al. 2016)."""

from ... import concat, nn
from ...nn import functional as F
from ._build import finish


class MakeFireConv(nn.Layer):
    """Convolution and ReLU."""

    def __init__(self, channels_in, channels_out, kernel, padding=0):
        super().__init__()
        self._conv = nn.Conv2D(channels_in, channels_out, kernel, padding=padding)

    def forward(self, x):
        return F.relu(self._conv(x))


class MakeFire(nn.Layer):
    """Squeeze to `squeezed` channels, expand by 1x1 and 3x3 side by side."""

    def __init__(self, channels_in, squeezed, expanded):
        super().__init__()
        self._conv = MakeFireConv(channels_in, squeezed, 1)
        self._conv_path1 = MakeFireConv(squeezed, expanded, 1)
        self._conv_path2 = MakeFireConv(squeezed, expanded, 3, padding=1)

    def forward(self, x):
        x = self._conv(x)
        return concat([self._conv_path1(x), self._conv_path2(x)], axis=1)


class SqueezeNet(nn.Layer):
    """Input [N, 3, H, W], output [N, num_classes]. version: "1.0" or "1.1"."""

    def __init__(self, version, num_classes=1000, with_pool=True):
        super().__init__()
        if version not in ("1.0", "1.1"):
            raise ValueError(f"SqueezeNet: version is {version!r}; expected '1.0' or '1.1'.")
        self.version = version
        self.num_classes = num_classes
        self.with_pool = with_pool
        first = 96 if version == "1.0" else 64
        if version == "1.0":
            self._conv = nn.Conv2D(3, 96, 7, stride=2)
            self._pool_after = (3, 7)
        else:
            self._conv = nn.Conv2D(3, 64, 3, stride=2, padding=1)
            self._pool_after = (2, 4)
        self._pool = nn.MaxPool2D(kernel_size=3, stride=2, padding=0)
        widths = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
        self._fires = []
        channels = first
        for i, (squeezed, expanded) in enumerate(widths, 1):
            self._fires.append(self.add_sublayer(f"_conv{i}", MakeFire(channels, squeezed, expanded)))
            channels = 2 * expanded
        self._drop = nn.Dropout(p=0.5, mode="downscale_in_infer")
        if num_classes > 0:
            self._conv9 = nn.Conv2D(512, num_classes, 1)
        self._avg_pool = nn.AdaptiveAvgPool2D(1)

    def forward(self, x):
        x = self._pool(F.relu(self._conv(x)))
        for i, fire in enumerate(self._fires, 1):
            x = fire(x)
            if i in self._pool_after:
                x = self._pool(x)
        if self.num_classes > 0:
            x = self._conv9(self._drop(x))
        if self.with_pool:
            x = self._avg_pool(F.relu(x)).squeeze(axis=[2, 3])
        return x


def squeezenet1_0(pretrained=False, **kwargs):
    """SqueezeNet 1.0."""
    return finish(SqueezeNet("1.0", **kwargs), "squeezenet1_0", pretrained)


def squeezenet1_1(pretrained=False, **kwargs):
    """SqueezeNet 1.1."""
    return finish(SqueezeNet("1.1", **kwargs), "squeezenet1_1", pretrained)
