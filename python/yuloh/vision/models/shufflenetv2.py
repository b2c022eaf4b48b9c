# SPDX-License-Identifier: Apache-2.0
"""ShuffleNet V2: channel split and shuffle (Ma et al. 2018)."""

from ... import concat, nn
from ..ops import ConvNormActivation
from ._build import finish

# scale -> channels of stem, three stages, last convolution
_CHANNELS = {
    0.25: (24, 24, 48, 96, 512),
    0.33: (24, 32, 64, 128, 512),
    0.5: (24, 48, 96, 192, 1024),
    1.0: (24, 116, 232, 464, 1024),
    1.5: (24, 176, 352, 704, 1024),
    2.0: (24, 224, 488, 976, 2048),
}
_ACTIVATIONS = {"relu": nn.ReLU, "swish": nn.Swish, None: None}


def channel_shuffle(x, groups):
    """Interleave the channels of `groups` equal parts of x [N, C, H, W]."""
    n, channels, height, width = x.shape
    x = x.reshape([n, groups, channels // groups, height, width])
    return x.transpose([0, 2, 1, 3, 4]).reshape([n, channels, height, width])


def _conv(channels_in, channels_out, act, kernel=1, stride=1, depthwise=False):
    return ConvNormActivation(
        channels_in,
        channels_out,
        kernel,
        stride=stride,
        padding=(kernel - 1) // 2,
        groups=channels_in if depthwise else 1,
        activation_layer=act,
    )


class InvertedResidual(nn.Layer):
    """Half of the channels pass, half are filtered; then all are shuffled."""

    def __init__(self, channels, act):
        super().__init__()
        half = channels // 2
        self._half = half
        self._conv_pw = _conv(half, half, act)
        self._conv_dw = _conv(half, half, None, kernel=3, depthwise=True)
        self._conv_linear = _conv(half, half, act)

    def forward(self, x):
        kept, filtered = x[:, : self._half], x[:, self._half :]
        filtered = self._conv_linear(self._conv_dw(self._conv_pw(filtered)))
        return channel_shuffle(concat([kept, filtered], axis=1), 2)


class InvertedResidualDS(nn.Layer):
    """Halves the image: both branches are filtered by stride 2."""

    def __init__(self, channels_in, channels_out, act):
        super().__init__()
        half = channels_out // 2
        self._conv_dw_1 = _conv(channels_in, channels_in, None, kernel=3, stride=2, depthwise=True)
        self._conv_linear_1 = _conv(channels_in, half, act)
        self._conv_pw_2 = _conv(channels_in, half, act)
        self._conv_dw_2 = _conv(half, half, None, kernel=3, stride=2, depthwise=True)
        self._conv_linear_2 = _conv(half, half, act)

    def forward(self, x):
        first = self._conv_linear_1(self._conv_dw_1(x))
        second = self._conv_linear_2(self._conv_dw_2(self._conv_pw_2(x)))
        return channel_shuffle(concat([first, second], axis=1), 2)


class ShuffleNetV2(nn.Layer):
    """Input [N, 3, H, W], output [N, num_classes]. act: "relu", "swish" or None."""

    def __init__(self, scale=1.0, act="relu", num_classes=1000, with_pool=True):
        super().__init__()
        if scale not in _CHANNELS:
            raise NotImplementedError(f"ShuffleNetV2: scale is {scale}; expected one of {list(_CHANNELS)}.")
        if act not in _ACTIVATIONS:
            raise RuntimeError(f"ShuffleNetV2: act is {act!r}; expected 'relu', 'swish' or None.")
        act = _ACTIVATIONS[act]
        self.scale = scale
        self.num_classes = num_classes
        self.with_pool = with_pool
        stem, *stages, last = _CHANNELS[scale]
        self._conv1 = _conv(3, stem, act, kernel=3, stride=2)
        self._max_pool = nn.MaxPool2D(kernel_size=3, stride=2, padding=1)
        self._block_list = []
        channels = stem
        for number, (out, repeats) in enumerate(zip(stages, (4, 8, 4)), 2):
            for i in range(repeats):
                block = InvertedResidualDS(channels, out, act) if i == 0 else InvertedResidual(out, act)
                self._block_list.append(self.add_sublayer(f"{number}_{i + 1}", block))
            channels = out
        self._last_conv = _conv(channels, last, act)
        if with_pool:
            self._pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self._fc = nn.Linear(last, num_classes)

    def forward(self, x):
        x = self._max_pool(self._conv1(x))
        for block in self._block_list:
            x = block(x)
        x = self._last_conv(x)
        if self.with_pool:
            x = self._pool2d_avg(x)
        if self.num_classes > 0:
            x = self._fc(x.flatten(1))
        return x


def _shufflenet(arch, pretrained, kwargs, **fixed):
    return finish(ShuffleNetV2(**fixed, **kwargs), arch, pretrained)


def shufflenet_v2_x0_25(pretrained=False, **kwargs):
    """ShuffleNetV2 of width 0.25."""
    return _shufflenet("shufflenet_v2_x0_25", pretrained, kwargs, scale=0.25)


def shufflenet_v2_x0_33(pretrained=False, **kwargs):
    """ShuffleNetV2 of width 0.33."""
    return _shufflenet("shufflenet_v2_x0_33", pretrained, kwargs, scale=0.33)


def shufflenet_v2_x0_5(pretrained=False, **kwargs):
    """ShuffleNetV2 of width 0.5."""
    return _shufflenet("shufflenet_v2_x0_5", pretrained, kwargs, scale=0.5)


def shufflenet_v2_x1_0(pretrained=False, **kwargs):
    """ShuffleNetV2 of width 1."""
    return _shufflenet("shufflenet_v2_x1_0", pretrained, kwargs, scale=1.0)


def shufflenet_v2_x1_5(pretrained=False, **kwargs):
    """ShuffleNetV2 of width 1.5."""
    return _shufflenet("shufflenet_v2_x1_5", pretrained, kwargs, scale=1.5)


def shufflenet_v2_x2_0(pretrained=False, **kwargs):
    """ShuffleNetV2 of width 2."""
    return _shufflenet("shufflenet_v2_x2_0", pretrained, kwargs, scale=2.0)


def shufflenet_v2_swish(pretrained=False, **kwargs):
    """ShuffleNetV2 of width 1 with swish in place of ReLU."""
    return _shufflenet("shufflenet_v2_swish", pretrained, kwargs, scale=1.0, act="swish")
