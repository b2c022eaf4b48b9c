# SPDX-License-Identifier: Apache-2.0
"""MobileNet V1: depthwise separable convolutions (Howard et al. 2017)."""

from ... import nn
from ..ops import ConvNormActivation
from ._build import finish

# name, channels in, channels out, stride
_PLAN = [
    ("conv2_1", 32, 64, 1),
    ("conv2_2", 64, 128, 2),
    ("conv3_1", 128, 128, 1),
    ("conv3_2", 128, 256, 2),
    ("conv4_1", 256, 256, 1),
    ("conv4_2", 256, 512, 2),
    *[(f"conv5_{i}", 512, 512, 1) for i in range(1, 6)],
    ("conv5_6", 512, 1024, 2),
    ("conv6", 1024, 1024, 1),
]


class DepthwiseSeparable(nn.Layer):
    """3x3 depthwise, then 1x1 convolution."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self._depthwise_conv = ConvNormActivation(
            channels_in, channels_in, 3, stride=stride, padding=1, groups=channels_in
        )
        self._pointwise_conv = ConvNormActivation(channels_in, channels_out, 1, stride=1, padding=0)

    def forward(self, x):
        return self._pointwise_conv(self._depthwise_conv(x))


class MobileNetV1(nn.Layer):
    """Input [N, 3, H, W], output [N, num_classes]; `scale` multiplies every channel count."""

    def __init__(self, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__()
        self.scale = scale
        self.dwsl = []
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.conv1 = ConvNormActivation(3, int(32 * scale), 3, stride=2, padding=1)
        for name, channels_in, channels_out, stride in _PLAN:
            block = DepthwiseSeparable(int(channels_in * scale), int(channels_out * scale), stride)
            self.dwsl.append(self.add_sublayer(name, block))
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = nn.Linear(int(1024 * scale), num_classes)

    def forward(self, x):
        x = self.conv1(x)
        for block in self.dwsl:
            x = block(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.fc(x.flatten(1))
        return x


def mobilenet_v1(pretrained=False, scale=1.0, **kwargs):
    """MobileNetV1 of the given width."""
    return finish(MobileNetV1(scale=scale, **kwargs), f"mobilenetv1_{scale}", pretrained)
