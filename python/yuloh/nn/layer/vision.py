# SPDX-License-Identifier: Apache-2.0
"""Layer room: rearranging channels and pixels."""
from .. import functional as F
from .common import with_name
from .layers import Layer

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class _Rearrange(Layer):
    word = ""

    def __init__(self, factor, data_format, name):
        super().__init__()
        if not isinstance(factor, int) or factor < 1:
            raise ValueError(f"{type(self).__name__}: {self.word} must be a positive int, got {factor!r}.")
        if data_format not in ("NCHW", "NHWC"):
            raise ValueError(f"{type(self).__name__}: data_format must be 'NCHW' or 'NHWC', got "
                             f"{data_format!r}.")
        self._factor, self._data_format, self._name = factor, data_format, name

    def extra_repr(self):
        text = f"{self.word}={self._factor}"
        if self._data_format != "NCHW":
            text += f", data_format={self._data_format}"
        return with_name(text, self._name)


class PixelShuffle(_Rearrange):
    """[N, C r^2, H, W] -> [N, C, H r, W r]."""

    word = "upscale_factor"

    def __init__(self, upscale_factor, data_format="NCHW", name=None):
        super().__init__(upscale_factor, data_format, name)

    def forward(self, x):
        return F.pixel_shuffle(x, self._factor, self._data_format)


class PixelUnshuffle(_Rearrange):
    """[N, C, H r, W r] -> [N, C r^2, H, W]."""

    word = "downscale_factor"

    def __init__(self, downscale_factor, data_format="NCHW", name=None):
        super().__init__(downscale_factor, data_format, name)

    def forward(self, x):
        return F.pixel_unshuffle(x, self._factor, self._data_format)


class ChannelShuffle(_Rearrange):
    """Deals the channels of ``groups`` groups out one by one."""

    word = "groups"

    def __init__(self, groups, data_format="NCHW", name=None):
        super().__init__(groups, data_format, name)

    def forward(self, x):
        return F.channel_shuffle(x, self._factor, self._data_format)
