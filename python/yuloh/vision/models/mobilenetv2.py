# SPDX-License-Identifier: Apache-2.0
"""MobileNet V2: inverted residuals with linear bottlenecks (Sandler et al. 2018)."""

from ... import nn
from ..ops import ConvNormActivation
from ._build import finish, make_divisible

# expansion, channels, repeats, stride of the first
_PLAN = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


class InvertedResidual(nn.Layer):
    """Expand by 1x1, filter depthwise, project by 1x1; with a shortcut where shapes allow it."""

    def __init__(self, inp, oup, stride, expand_ratio, norm_layer=nn.BatchNorm2D):
        super().__init__()
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        hidden = int(round(inp * expand_ratio))
        layers = []
        if expand_ratio != 1:
            layers.append(
                ConvNormActivation(inp, hidden, 1, norm_layer=norm_layer, activation_layer=nn.ReLU6)
            )
        layers += [
            ConvNormActivation(
                hidden, hidden, stride=stride, groups=hidden, norm_layer=norm_layer, activation_layer=nn.ReLU6
            ),
            nn.Conv2D(hidden, oup, 1, 1, 0, bias_attr=False),
            norm_layer(oup),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Layer):
    """Input [N, 3, H, W], output [N, num_classes]; `scale` multiplies every channel count."""

    def __init__(self, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        channels = make_divisible(32 * scale)
        last = make_divisible(1280 * max(1.0, scale))
        features = [ConvNormActivation(3, channels, stride=2, activation_layer=nn.ReLU6)]
        for expansion, out, repeats, stride in _PLAN:
            out = make_divisible(out * scale)
            for i in range(repeats):
                features.append(InvertedResidual(channels, out, stride if i == 0 else 1, expansion))
                channels = out
        features.append(ConvNormActivation(channels, last, kernel_size=1, activation_layer=nn.ReLU6))
        self.features = nn.Sequential(*features)
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, num_classes))

    def forward(self, x):
        x = self.features(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.classifier(x.flatten(1))
        return x


def mobilenet_v2(pretrained=False, scale=1.0, **kwargs):
    """MobileNetV2 of the given width."""
    return finish(MobileNetV2(scale=scale, **kwargs), f"mobilenetv2_{scale}", pretrained)
