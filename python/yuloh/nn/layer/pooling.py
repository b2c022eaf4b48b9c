# SPDX-License-Identifier: Apache-2.0
"""Layer room: pools. Each class keeps the arguments of the function of its name and calls it."""
from ... import _core
from .. import functional as F
from ..functional.conv import DATA_FORMATS, explicit_padding, to_list
from .common import with_name
from .layers import Layer

__all__ = ["AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "AdaptiveMaxPool1D",
           "AdaptiveMaxPool2D", "AdaptiveMaxPool3D", "AvgPool1D", "AvgPool2D", "AvgPool3D",
           "FractionalMaxPool2D", "FractionalMaxPool3D", "LPPool1D", "LPPool2D", "MaxPool1D", "MaxPool2D",
           "MaxPool3D", "MaxUnPool1D", "MaxUnPool2D", "MaxUnPool3D"]


class _Pool(Layer):
    """Keeps keyword arguments for its function; ``shown`` are the ones that ``repr`` shows."""

    function = ""
    shown = ("kernel_size", "stride", "padding")
    _frozen = None

    def __init__(self, name=None, **arguments):
        super().__init__()
        self.name = name
        self._arguments = arguments
        for key, value in arguments.items():
            object.__setattr__(self, key, value)

    def forward(self, x):
        return getattr(F, self.function)(x, **self._arguments)

    def _freeze(self, op, n, *rest):
        """Works out the window once: ``forward`` then records ``op`` with explicit numbers (see F.conv)."""
        a = self._arguments
        layout = a.get("data_format", DATA_FORMATS[n][0])
        name = type(self).__name__
        kernel = to_list(a["kernel_size"], n, f"{name}: kernel_size")
        stride = kernel if a["stride"] is None else to_list(a["stride"], n, f"{name}: stride")
        pads = explicit_padding(a["padding"], n, kernel, stride, [1] * n, layout, name)
        if pads is not None and layout == DATA_FORMATS[n][0] and not a.get("return_mask"):
            self._frozen = (op, n + 2, (kernel, stride, pads, bool(a["ceil_mode"]), *rest))

    def extra_repr(self):
        return with_name(", ".join(f"{key}={self._arguments[key]}" for key in self.shown), self.name)


class _Window(_Pool):
    """Maximum and mean over windows: the common case goes straight to the op."""

    def forward(self, x):
        frozen = self._frozen
        if frozen is not None and x.ndim == frozen[1]:
            return frozen[0](x, *frozen[2])
        return getattr(F, self.function)(x, **self._arguments)


class AvgPool1D(_Window):
    """Mean over windows of [N, C, L]."""

    function = "avg_pool1d"

    def __init__(self, kernel_size, stride=None, padding=0, exclusive=True, ceil_mode=False, name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding, exclusive=exclusive,
                         ceil_mode=ceil_mode)
        self._freeze(_core.ops.avg_pool, 1, bool(exclusive), None)


class AvgPool2D(_Window):
    """Mean over windows of [N, C, H, W]."""

    function = "avg_pool2d"

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True,
                 divisor_override=None, data_format="NCHW", name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
                         exclusive=exclusive, divisor_override=divisor_override, data_format=data_format)
        self._freeze(_core.ops.avg_pool, 2, bool(exclusive), divisor_override)


class AvgPool3D(_Window):
    """Mean over windows of [N, C, D, H, W]."""

    function = "avg_pool3d"

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True,
                 divisor_override=None, data_format="NCDHW", name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
                         exclusive=exclusive, divisor_override=divisor_override, data_format=data_format)
        self._freeze(_core.ops.avg_pool, 3, bool(exclusive), divisor_override)


class MaxPool1D(_Window):
    """Maximum over windows of [N, C, L]."""

    function = "max_pool1d"

    def __init__(self, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding,
                         return_mask=return_mask, ceil_mode=ceil_mode)
        self._freeze(_core.ops.max_pool, 1)


class MaxPool2D(_Window):
    """Maximum over windows of [N, C, H, W]."""

    function = "max_pool2d"

    def __init__(self, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False,
                 data_format="NCHW", name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding,
                         return_mask=return_mask, ceil_mode=ceil_mode, data_format=data_format)
        self._freeze(_core.ops.max_pool, 2)


class MaxPool3D(_Window):
    """Maximum over windows of [N, C, D, H, W]."""

    function = "max_pool3d"

    def __init__(self, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False,
                 data_format="NCDHW", name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding,
                         return_mask=return_mask, ceil_mode=ceil_mode, data_format=data_format)
        self._freeze(_core.ops.max_pool, 3)


class LPPool1D(_Pool):
    """p-norm over windows of [N, C, L]."""

    function = "lp_pool1d"
    shown = ("norm_type", "kernel_size", "stride", "padding")

    def __init__(self, norm_type, kernel_size, stride=None, padding=0, ceil_mode=False, data_format="NCL",
                 name=None):
        super().__init__(name, norm_type=float(norm_type), kernel_size=kernel_size, stride=stride,
                         padding=padding, ceil_mode=ceil_mode, data_format=data_format)


class LPPool2D(_Pool):
    """p-norm over windows of [N, C, H, W]."""

    function = "lp_pool2d"
    shown = ("norm_type", "kernel_size", "stride", "padding")

    def __init__(self, norm_type, kernel_size, stride=None, padding=0, ceil_mode=False, data_format="NCHW",
                 name=None):
        super().__init__(name, norm_type=float(norm_type), kernel_size=kernel_size, stride=kernel_size
                         if stride is None else stride, padding=padding, ceil_mode=ceil_mode,
                         data_format=data_format)


class _Adaptive(_Window):
    """Pools of a fixed number of parts: sizes that are all given are worked out once."""

    def _freeze_sizes(self, op, n, plain):
        size = self._arguments["output_size"]
        sizes = list(size) if isinstance(size, (list, tuple)) else [size] * n
        if plain and len(sizes) == n and all(isinstance(v, int) and v >= 0 for v in sizes):
            self._frozen = (op, n + 2, (sizes,))


class AdaptiveAvgPool1D(_Adaptive):
    """Mean over ``output_size`` parts of [N, C, L]."""

    function, shown = "adaptive_avg_pool1d", ("output_size",)

    def __init__(self, output_size, name=None):
        super().__init__(name, output_size=output_size)
        self._freeze_sizes(_core.ops.adaptive_avg_pool, 1, True)


class AdaptiveAvgPool2D(_Adaptive):
    """Mean over ``output_size`` parts of each spatial axis of [N, C, H, W]."""

    function, shown = "adaptive_avg_pool2d", ("output_size",)

    def __init__(self, output_size, data_format="NCHW", name=None):
        super().__init__(name, output_size=output_size, data_format=data_format)
        self._freeze_sizes(_core.ops.adaptive_avg_pool, 2, data_format == "NCHW")


class AdaptiveAvgPool3D(_Adaptive):
    """Mean over ``output_size`` parts of each spatial axis of [N, C, D, H, W]."""

    function, shown = "adaptive_avg_pool3d", ("output_size",)

    def __init__(self, output_size, data_format="NCDHW", name=None):
        super().__init__(name, output_size=output_size, data_format=data_format)
        self._freeze_sizes(_core.ops.adaptive_avg_pool, 3, data_format == "NCDHW")


class AdaptiveMaxPool1D(_Adaptive):
    """Maximum over ``output_size`` parts of [N, C, L]."""

    function, shown, n = "adaptive_max_pool1d", ("output_size", "return_mask"), 1

    def __init__(self, output_size, return_mask=False, name=None):
        super().__init__(name, output_size=output_size, return_mask=return_mask)
        self._freeze_sizes(_core.ops.adaptive_max_pool, self.n, not return_mask)


class AdaptiveMaxPool2D(AdaptiveMaxPool1D):
    """Maximum over ``output_size`` parts of each spatial axis of [N, C, H, W]."""

    function, n = "adaptive_max_pool2d", 2


class AdaptiveMaxPool3D(AdaptiveMaxPool1D):
    """Maximum over ``output_size`` parts of each spatial axis of [N, C, D, H, W]."""

    function, n = "adaptive_max_pool3d", 3


class FractionalMaxPool2D(_Pool):
    """Maximum over pseudo-random windows that give ``output_size``."""

    function, shown = "fractional_max_pool2d", ("output_size", "return_mask")

    def __init__(self, output_size, kernel_size=None, random_u=None, return_mask=False, name=None):
        super().__init__(name, output_size=output_size, kernel_size=kernel_size, random_u=random_u,
                         return_mask=return_mask)


class FractionalMaxPool3D(FractionalMaxPool2D):
    """Maximum over pseudo-random windows that give ``output_size``."""

    function = "fractional_max_pool3d"


class _UnPool(_Pool):
    shown = ("output_size",)

    def forward(self, x, indices):
        return getattr(F, self.function)(x, indices, **self._arguments)


class MaxUnPool1D(_UnPool):
    """Puts pooled values back at their positions in [N, C, L]; the rest is 0."""

    function = "max_unpool1d"

    def __init__(self, kernel_size, stride=None, padding=0, data_format="NCL", output_size=None, name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding,
                         data_format=data_format, output_size=output_size)


class MaxUnPool2D(_UnPool):
    """Puts pooled values back at their positions in [N, C, H, W]; the rest is 0."""

    function = "max_unpool2d"

    def __init__(self, kernel_size, stride=None, padding=0, data_format="NCHW", output_size=None, name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding,
                         data_format=data_format, output_size=output_size)


class MaxUnPool3D(_UnPool):
    """Puts pooled values back at their positions in [N, C, D, H, W]; the rest is 0."""

    function = "max_unpool3d"

    def __init__(self, kernel_size, stride=None, padding=0, data_format="NCDHW", output_size=None, name=None):
        super().__init__(name, kernel_size=kernel_size, stride=stride, padding=padding,
                         data_format=data_format, output_size=output_size)
