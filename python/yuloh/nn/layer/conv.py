# SPDX-License-Identifier: Apache-2.0
"""Layer room: convolutions and transposed convolutions in one, two and three dimensions.

Weights are [out, in / groups, *kernel] (transposed: [in, out / groups, *kernel]). What ``F.convND`` would
have to work out on every call (strides as lists, explicit padding) is worked out once, here.
"""
import math

from .. import functional as F
from ..functional.conv import DATA_FORMATS, conv_nd, explicit_padding, to_list
from ..initializer import Normal
from .layers import Layer

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]

_PAD_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Layer):
    """What all six share. ``n`` is the number of spatial axes."""

    n = 2
    transposed = False

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, weight_attr,
                 bias_attr, data_format, dtype=None, padding_mode="zeros", output_padding=0):
        super().__init__(dtype=dtype or "float32")
        name, n = type(self).__name__, self.n
        self._check(name, in_channels, out_channels, groups, padding_mode, data_format)
        self._in_channels, self._out_channels, self._groups = in_channels, out_channels, groups
        self._kernel_size = to_list(kernel_size, n, f"{name}: kernel_size")
        self._stride = to_list(stride, n, f"{name}: stride")
        self._dilation = to_list(dilation, n, f"{name}: dilation")
        self._padding, self._padding_mode = padding, padding_mode
        self.output_padding = output_padding
        self._data_format = data_format
        self._explicit = explicit_padding(padding, n, self._kernel_size, self._stride, self._dilation,
                                          data_format, name)
        if self.transposed:
            shape, default = [in_channels, out_channels // groups, *self._kernel_size], None
        else:
            shape = [out_channels, in_channels // groups, *self._kernel_size]
            default = Normal(0.0, math.sqrt(2.0 / (math.prod(self._kernel_size) * in_channels)))
        self.weight = self.create_parameter(shape, attr=weight_attr, default_initializer=default)
        self.bias = self.create_parameter([out_channels], attr=bias_attr, is_bias=True)

    def _check(self, name, in_channels, out_channels, groups, padding_mode, data_format):
        for what, value in (("groups", groups), ("in_channels", in_channels), ("out_channels", out_channels)):
            if value < 1:
                raise ValueError(f"{name}: {what} must be positive, got {value}.")
            if value % groups:
                raise ValueError(f"{name}: {what} must be a multiple of groups, got {value} and {groups}.")
        if padding_mode not in _PAD_MODES:
            raise ValueError(f"{name}: padding_mode must be one of {_PAD_MODES}, got {padding_mode!r}.")
        if data_format not in DATA_FORMATS[self.n]:
            raise ValueError(f"{name}: data_format must be one of {DATA_FORMATS[self.n]}, got "
                             f"{data_format!r}.")

    def forward(self, x):
        if self._padding_mode != "zeros":
            pad = [p for axis in reversed(range(self.n)) for p in self._explicit[2 * axis:2 * axis + 2]]
            x = F.pad(x, pad, mode=self._padding_mode, data_format=self._data_format)
            return conv_nd(self.n, x, self.weight, self.bias, self._stride, [0] * (2 * self.n),
                           self._dilation, self._groups, self._data_format)
        return conv_nd(self.n, x, self.weight, self.bias, self._stride, self._explicit, self._dilation,
                       self._groups, self._data_format)

    def extra_repr(self):
        n = self.n
        text = f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"
        if self._stride != [1] * n:
            text += f", stride={self._stride}"
        if self._padding != 0:
            text += f", padding={self._padding}"
        if self._padding_mode != "zeros":
            text += f", padding_mode={self._padding_mode}"
        if self.output_padding != 0:
            text += f", output_padding={self.output_padding}"
        if self._dilation != [1] * n:
            text += f", dilation={self._dilation}"
        if self._groups != 1:
            text += f", groups={self._groups}"
        return text + f", data_format={self._data_format}"


class _Transposed(_ConvNd):
    transposed = True

    def forward(self, x, output_size=None):
        op = (F.conv1d_transpose, F.conv2d_transpose, F.conv3d_transpose)[self.n - 1]
        return op(x, self.weight, bias=self.bias, stride=self._stride, padding=self._padding, output_padding=0
                  if output_size is not None else self.output_padding, dilation=self._dilation,
                  groups=self._groups, output_size=output_size, data_format=self._data_format)


def _bias_attr(bias, bias_attr):
    """torch's ``bias=False`` is Paddle's ``bias_attr=False``."""
    return bias_attr if bias else False


class Conv1D(_ConvNd):
    """Convolution over [N, C, L]."""

    n = 1

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, *,
                 bias=True, padding_mode="zeros", device=None, dtype=None, weight_attr=None, bias_attr=None,
                 data_format="NCL"):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         weight_attr, _bias_attr(bias, bias_attr), data_format, dtype, padding_mode)


class Conv2D(_ConvNd):
    """Convolution over [N, C, H, W]."""

    n = 2

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, *,
                 bias=True, padding_mode="zeros", device=None, dtype=None, weight_attr=None, bias_attr=None,
                 data_format="NCHW"):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         weight_attr, _bias_attr(bias, bias_attr), data_format, dtype, padding_mode)


class Conv3D(_ConvNd):
    """Convolution over [N, C, D, H, W]."""

    n = 3

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, *,
                 bias=True, padding_mode="zeros", device=None, dtype=None, weight_attr=None, bias_attr=None,
                 data_format="NCDHW"):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         weight_attr, _bias_attr(bias, bias_attr), data_format, dtype, padding_mode)


class Conv1DTranspose(_Transposed):
    """Transposed convolution over [N, C, L]."""

    n = 1

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
                 groups=1, dilation=1, weight_attr=None, bias_attr=None, data_format="NCL"):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         weight_attr, bias_attr, data_format, output_padding=output_padding)


class Conv2DTranspose(_Transposed):
    """Transposed convolution over [N, C, H, W]."""

    n = 2

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
                 dilation=1, groups=1, weight_attr=None, bias_attr=None, data_format="NCHW"):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         weight_attr, bias_attr, data_format, output_padding=output_padding)


class Conv3DTranspose(_Transposed):
    """Transposed convolution over [N, C, D, H, W]."""

    n = 3

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
                 dilation=1, groups=1, weight_attr=None, bias_attr=None, data_format="NCDHW"):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         weight_attr, bias_attr, data_format, output_padding=output_padding)
