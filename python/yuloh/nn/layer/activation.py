# SPDX-License-Identifier: Apache-2.0
"""Layer room: activations as layers."""
from .. import functional as F
from ..initializer import Constant
from .common import with_name
from .layers import Layer

__all__ = ["CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
           "LogSigmoid", "LogSoftmax", "Maxout", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "Sigmoid",
           "Silu", "Softmax", "Softmax2D", "Softplus", "Softshrink", "Softsign", "Swish", "Tanh",
           "Tanhshrink", "ThresholdedReLU"]


class _Activation(Layer):
    """Keeps each setting as ``_<setting>`` and shows it."""

    def __init__(self, name=None, **settings):
        super().__init__()
        self._name = name
        self._shown = ", ".join(f"{key}={value}" for key, value in settings.items())
        for key, value in settings.items():
            object.__setattr__(self, "_" + key, value)

    def extra_repr(self):
        return with_name(self._shown, self._name)


class CELU(_Activation):
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""

    def __init__(self, alpha=1.0, name=None):
        super().__init__(name, alpha=alpha)

    def forward(self, x):
        return F.celu(x, alpha=self._alpha)


class ELU(_Activation):
    """x above 0, alpha (exp(x) - 1) below."""

    def __init__(self, alpha=1.0, name=None):
        super().__init__(name, alpha=alpha)

    def forward(self, x):
        return F.elu(x, alpha=self._alpha)


class GELU(_Activation):
    """x Phi(x); ``approximate`` takes the tanh form."""

    def __init__(self, approximate=False, name=None):
        super().__init__(name, approximate=approximate)

    def forward(self, x):
        return F.gelu(x, approximate=self._approximate)


class GLU(_Activation):
    """First half of ``axis`` times the sigmoid of the second."""

    def __init__(self, axis=-1, name=None):
        super().__init__(name, axis=axis)

    def forward(self, x):
        return F.glu(x, axis=self._axis)


class Hardshrink(_Activation):
    """x where |x| > threshold, else 0."""

    def __init__(self, threshold=0.5, name=None):
        super().__init__(name, threshold=threshold)

    def forward(self, x):
        return F.hardshrink(x, threshold=self._threshold)


class Hardsigmoid(_Activation):
    """x / 6 + 1 / 2 clipped to 0..1."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.hardsigmoid(x)


class Hardswish(_Activation):
    """x min(max(x + 3, 0), 6) / 6."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.hardswish(x)


class Hardtanh(_Activation):
    """x clipped to ``min``..``max``."""

    def __init__(self, min=-1.0, max=1.0, name=None):
        super().__init__(name, min=min, max=max)

    def forward(self, x):
        return F.hardtanh(x, min=self._min, max=self._max)


class LeakyReLU(_Activation):
    """x above 0, negative_slope x below."""

    def __init__(self, negative_slope=0.01, name=None):
        super().__init__(name, negative_slope=negative_slope)

    def forward(self, x):
        return F.leaky_relu(x, negative_slope=self._negative_slope)


class LogSigmoid(_Activation):
    """log(1 / (1 + exp(-x)))."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.log_sigmoid(x)


class LogSoftmax(_Activation):
    """x - log(sum(exp(x))) along ``axis``."""

    def __init__(self, axis=-1, name=None):
        super().__init__(name, axis=axis)

    def forward(self, x):
        return F.log_softmax(x, axis=self._axis)


class Maxout(_Activation):
    """Maximum over ``groups`` neighbouring channels."""

    def __init__(self, groups, axis=1, name=None):
        super().__init__(name, groups=groups, axis=axis)

    def forward(self, x):
        return F.maxout(x, groups=self._groups, axis=self._axis)


class Mish(_Activation):
    """x tanh(softplus(x))."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.mish(x)


class ReLU(_Activation):
    """max(x, 0)."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.relu(x)


class ReLU6(_Activation):
    """x clipped to 0..6."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.relu6(x)


class SELU(_Activation):
    """scale (max(0, x) + min(0, alpha (exp(x) - 1)))."""

    def __init__(self, scale=1.0507009873554805, alpha=1.6732632423543772, name=None):
        super().__init__(name, scale=scale, alpha=alpha)

    def forward(self, x):
        return F.selu(x, scale=self._scale, alpha=self._alpha)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.sigmoid(x)


class Softmax(_Activation):
    """exp(x) / sum(exp(x)) along ``axis``."""

    def __init__(self, axis=-1, name=None):
        super().__init__(name, axis=axis)

    def forward(self, x):
        return F.softmax(x, axis=self._axis)


class Softplus(_Activation):
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""

    def __init__(self, beta=1, threshold=20, name=None):
        super().__init__(name, beta=beta, threshold=threshold)

    def forward(self, x):
        return F.softplus(x, beta=self._beta, threshold=self._threshold)


class Softshrink(_Activation):
    """x moved towards 0 by ``threshold``."""

    def __init__(self, threshold=0.5, name=None):
        super().__init__(name, threshold=threshold)

    def forward(self, x):
        return F.softshrink(x, threshold=self._threshold)


class Softsign(_Activation):
    """x / (1 + |x|)."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.softsign(x)


class Swish(_Activation):
    """x sigmoid(x)."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.swish(x)


class Tanh(_Activation):
    """Hyperbolic tangent."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.tanh(x)


class Tanhshrink(_Activation):
    """x - tanh(x)."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        return F.tanhshrink(x)


class ThresholdedReLU(_Activation):
    """x where x > threshold, else ``value``."""

    def __init__(self, threshold=1.0, value=0.0, name=None):
        super().__init__(name, threshold=threshold, value=value)

    def forward(self, x):
        return F.thresholded_relu(x, threshold=self._threshold, value=self._value)



class Silu(_Activation):
    """x sigmoid(x)."""

    def __init__(self, inplace=False, name=None):
        super().__init__(name, inplace=inplace)

    def forward(self, x):
        return F.silu(x)


class Softmax2D(_Activation):
    """Softmax over the channels of [N, C, H, W] or [C, H, W]."""

    def __init__(self, name=None):
        super().__init__(name)

    def forward(self, x):
        if len(x.shape) not in (3, 4):
            raise ValueError(f"Softmax2D: x must have 3 or 4 dimensions, got shape {list(x.shape)}.")
        return F.softmax(x, axis=-3)


class PReLU(Layer):
    """x above 0, weight x below; weight has 1 or ``num_parameters`` (one per channel) learnable slopes."""

    def __init__(self, num_parameters=1, init=0.25, weight_attr=None, data_format="NCHW", name=None):
        super().__init__()
        self._num_parameters, self._init = num_parameters, init
        self._data_format, self._name = data_format, name
        self._weight = self.create_parameter([num_parameters], attr=weight_attr,
                                             default_initializer=Constant(init))

    def forward(self, x):
        return F.prelu(x, self._weight, data_format=self._data_format)

    def extra_repr(self):
        return with_name(f"num_parameters={self._num_parameters}, data_format={self._data_format}, "
                         f"init={self._init}, dtype={self._dtype}", self._name)


class RReLU(Layer):
    """x above 0, a x below; a is drawn from lower..upper while training, their mean otherwise."""

    def __init__(self, lower=1.0 / 8.0, upper=1.0 / 3.0, name=None):
        super().__init__()
        self._lower, self._upper, self._name = lower, upper, name

    def forward(self, x):
        return F.rrelu(x, lower=self._lower, upper=self._upper, training=self.training)

    def extra_repr(self):
        return with_name(f"lower={self._lower}, upper={self._upper}, training={self.training}, "
                         f"dtype={self._dtype}", self._name)
