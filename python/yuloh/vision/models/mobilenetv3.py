# SPDX-License-Identifier: Apache-2.0
"""MobileNet V3 Small and Large: inverted residuals with squeeze and excitation (Howard et al. 2019)."""

from functools import partial

from ... import nn
from ..ops import ConvNormActivation
from ._build import finish, make_divisible

# kernel, expanded channels, channels out, squeeze and excitation, hardswish, stride
_SMALL = [
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
]
_LARGE = [
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
]


class SqueezeExcitation(nn.Layer):
    """Scale every channel by a gate computed from the channels' means."""

    def __init__(self, input_channels, squeeze_channels, activation=nn.ReLU, scale_activation=nn.Sigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2D(1)
        self.fc1 = nn.Conv2D(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2D(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, x):
        gate = self.activation(self.fc1(self.avgpool(x)))
        return x * self.scale_activation(self.fc2(gate))


class InvertedResidual(nn.Layer):
    """Expand, filter depthwise, gate, project."""

    def __init__(self, channels, expanded, out, kernel, stride, use_se, activation, norm_layer):
        super().__init__()
        self.use_res_connect = stride == 1 and channels == out
        self.use_se = use_se
        self.expand = channels != expanded
        conv = partial(ConvNormActivation, norm_layer=norm_layer)
        if self.expand:
            self.expand_conv = conv(channels, expanded, 1, stride=1, padding=0, activation_layer=activation)
        self.bottleneck_conv = conv(
            expanded,
            expanded,
            kernel,
            stride=stride,
            padding=(kernel - 1) // 2,
            groups=expanded,
            activation_layer=activation,
        )
        if use_se:
            squeezed = make_divisible(expanded // 4)
            self.mid_se = SqueezeExcitation(expanded, squeezed, scale_activation=nn.Hardsigmoid)
        self.linear_conv = conv(expanded, out, 1, stride=1, padding=0, activation_layer=None)

    def forward(self, x):
        out = self.expand_conv(x) if self.expand else x
        out = self.bottleneck_conv(out)
        if self.use_se:
            out = self.mid_se(out)
        out = self.linear_conv(out)
        return out + x if self.use_res_connect else out


class MobileNetV3(nn.Layer):
    """Body of both sizes. `plan`: the table above; `last_channel`: width of the hidden classifier layer."""

    def __init__(self, plan, last_channel, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__()
        self.scale = scale
        self.last_channel = last_channel
        self.num_classes = num_classes
        self.with_pool = with_pool
        norm = partial(nn.BatchNorm2D, epsilon=0.001, momentum=0.99)
        channels = make_divisible(16 * scale)
        self.conv = ConvNormActivation(
            3, channels, 3, stride=2, padding=1, norm_layer=norm, activation_layer=nn.Hardswish
        )
        blocks = []
        for kernel, expanded, out, use_se, hard, stride in plan:
            out, expanded = make_divisible(out * scale), make_divisible(expanded * scale)
            activation = nn.Hardswish if hard else nn.ReLU
            blocks.append(InvertedResidual(channels, expanded, out, kernel, stride, use_se, activation, norm))
            channels = out
        self.blocks = nn.Sequential(*blocks)
        self.lastconv = ConvNormActivation(
            channels, channels * 6, 1, stride=1, padding=0, norm_layer=norm, activation_layer=nn.Hardswish
        )
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(channels * 6, last_channel),
                nn.Hardswish(),
                nn.Dropout(p=0.2),
                nn.Linear(last_channel, num_classes),
            )

    def forward(self, x):
        x = self.lastconv(self.blocks(self.conv(x)))
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.classifier(x.flatten(1))
        return x


class MobileNetV3Small(MobileNetV3):
    """Input [N, 3, H, W], output [N, num_classes]."""

    def __init__(self, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__(_SMALL, make_divisible(1024 * scale), scale, num_classes, with_pool)


class MobileNetV3Large(MobileNetV3):
    """Input [N, 3, H, W], output [N, num_classes]."""

    def __init__(self, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__(_LARGE, make_divisible(1280 * scale), scale, num_classes, with_pool)


def mobilenet_v3_small(pretrained=False, scale=1.0, **kwargs):
    """MobileNetV3Small of the given width."""
    return finish(MobileNetV3Small(scale=scale, **kwargs), f"mobilenet_v3_small_x{scale}", pretrained)


def mobilenet_v3_large(pretrained=False, scale=1.0, **kwargs):
    """MobileNetV3Large of the given width."""
    return finish(MobileNetV3Large(scale=scale, **kwargs), f"mobilenet_v3_large_x{scale}", pretrained)
