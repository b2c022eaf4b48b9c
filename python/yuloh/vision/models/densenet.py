# SPDX-License-Identifier: Apache-2.0
"""DenseNet 121 to 264: every layer sees all earlier ones (Huang et al. 2016)."""

from ... import ParamAttr, concat, nn
from ...nn.initializer import Uniform
from ._build import finish

# depth -> (first channels, growth, layers of the four blocks)
_PLANS = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
    264: (64, 32, [6, 12, 64, 48]),
}


class BNACConvLayer(nn.Layer):
    """Batch normalisation, ReLU, convolution."""

    def __init__(self, channels_in, channels_out, kernel, pad=0):
        super().__init__()
        self._batch_norm = nn.BatchNorm(channels_in, act="relu")
        self._conv = nn.Conv2D(channels_in, channels_out, kernel, stride=1, padding=pad, bias_attr=False)

    def forward(self, x):
        return self._conv(self._batch_norm(x))


class DenseLayer(nn.Layer):
    """Bottleneck of `bn_size` times growth channels, then `growth` new channels beside the input."""

    def __init__(self, channels, growth, bn_size, dropout):
        super().__init__()
        self.dropout = dropout
        self.bn_ac_func1 = BNACConvLayer(channels, bn_size * growth, 1)
        self.bn_ac_func2 = BNACConvLayer(bn_size * growth, growth, 3, pad=1)
        if dropout:
            self.dropout_func = nn.Dropout(p=dropout, mode="downscale_in_infer")

    def forward(self, x):
        new = self.bn_ac_func2(self.bn_ac_func1(x))
        if self.dropout:
            new = self.dropout_func(new)
        return concat([x, new], axis=1)


class DenseBlock(nn.Layer):
    """A chain of DenseLayers."""

    def __init__(self, channels, growth, bn_size, layers, dropout, name):
        super().__init__()
        self.dropout = dropout
        self.dense_layer_func = [
            self.add_sublayer(f"{name}_{i + 1}", DenseLayer(channels + i * growth, growth, bn_size, dropout))
            for i in range(layers)
        ]

    def forward(self, x):
        for layer in self.dense_layer_func:
            x = layer(x)
        return x


class TransitionLayer(nn.Layer):
    """Halve the channels by 1x1 convolution and the image by averaging."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv_ac_func = BNACConvLayer(channels_in, channels_out, 1)
        self.pool2d_avg = nn.AvgPool2D(kernel_size=2, stride=2, padding=0)

    def forward(self, x):
        return self.pool2d_avg(self.conv_ac_func(x))


class ConvBNLayer(nn.Layer):
    """The first convolution, batch normalisation, ReLU."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self._conv = nn.Conv2D(channels_in, channels_out, 7, stride=2, padding=3, bias_attr=False)
        self._batch_norm = nn.BatchNorm(channels_out, act="relu")

    def forward(self, x):
        return self._batch_norm(self._conv(x))


class DenseNet(nn.Layer):
    """Input [N, 3, H, W], output [N, num_classes].

    Args:
        layers: 121, 161, 169, 201 or 264. bn_size: bottleneck width in units of growth.
        dropout: probability after each new layer. num_classes, with_pool: as in ResNet.
    """

    def __init__(self, layers=121, bn_size=4, dropout=0.0, num_classes=1000, with_pool=True):
        super().__init__()
        if layers not in _PLANS:
            raise ValueError(f"DenseNet: layers is {layers}; expected one of {sorted(_PLANS)}.")
        self.num_classes = num_classes
        self.with_pool = with_pool
        channels, growth, counts = _PLANS[layers]
        self.conv1_func = ConvBNLayer(3, channels)
        self.pool2d_max = nn.MaxPool2D(kernel_size=3, stride=2, padding=1)
        self.stages = []
        for i, count in enumerate(counts):
            number = i + 2
            block = DenseBlock(channels, growth, bn_size, count, dropout, f"conv{number}")
            self.stages.append(self.add_sublayer(f"db_conv_{number}", block))
            channels += count * growth
            if i + 1 < len(counts):
                transition = TransitionLayer(channels, channels // 2)
                self.stages.append(self.add_sublayer(f"tr_conv{number}_blk", transition))
                channels //= 2
        self.batch_norm = nn.BatchNorm(channels, act="relu")
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            bound = channels**-0.5
            attr = ParamAttr(initializer=Uniform(-bound, bound))
            self.out = nn.Linear(channels, num_classes, weight_attr=attr)

    def forward(self, x):
        x = self.pool2d_max(self.conv1_func(x))
        for stage in self.stages:
            x = stage(x)
        x = self.batch_norm(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.out(x.flatten(1))
        return x


def _densenet(layers, pretrained, kwargs):
    return finish(DenseNet(layers=layers, **kwargs), f"densenet{layers}", pretrained)


def densenet121(pretrained=False, **kwargs):
    """DenseNet of 121 layers."""
    return _densenet(121, pretrained, kwargs)


def densenet161(pretrained=False, **kwargs):
    """DenseNet of 161 layers."""
    return _densenet(161, pretrained, kwargs)


def densenet169(pretrained=False, **kwargs):
    """DenseNet of 169 layers."""
    return _densenet(169, pretrained, kwargs)


def densenet201(pretrained=False, **kwargs):
    """DenseNet of 201 layers."""
    return _densenet(201, pretrained, kwargs)


def densenet264(pretrained=False, **kwargs):
    """DenseNet of 264 layers."""
    return _densenet(264, pretrained, kwargs)
