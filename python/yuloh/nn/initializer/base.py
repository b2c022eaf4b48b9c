# SPDX-License-Identifier: Apache-2.0
"""Initializer room: what all initializers share, the global initializer and gains."""
import math

from ... import _core
from ...framework.dtype import dtype_name

__all__ = ["Initializer", "calculate_gain", "fans", "set_global_initializer"]


class Initializer:
    """Base. A subclass gives ``_make(shape, dtype) -> Tensor``, or overrides ``forward(param, block)`` to
    fill one.
    """

    def __call__(self, param, block=None):
        """Gives ``param`` a new first value in place and returns it."""
        return self.forward(param, block)

    def forward(self, param, block=None):
        """What ``__call__`` does; users' own initializers override it."""
        param.set_value(self._make(list(param.shape), dtype_name(param.dtype)))
        return param

    def _make(self, shape, dtype):
        if type(self).forward is Initializer.forward and type(self).__call__ is Initializer.__call__:
            raise NotImplementedError(f"{type(self).__name__}: an initializer must define forward(param, "
                                      "block).")
        value = _core.ops.full(shape, 0.0, dtype)
        self(value)
        return value


_global_weight = None
_global_bias = None


def _global(is_bias):
    """The initializer set by ``set_global_initializer`` for biases or for weights, or None."""
    return _global_bias if is_bias else _global_weight


def set_global_initializer(weight_init, bias_init=None):
    """Initializers for parameters made from now on whose ParamAttr names none; None removes them."""
    global _global_weight, _global_bias
    for name, value in (("weight_init", weight_init), ("bias_init", bias_init)):
        if value is not None and not isinstance(value, Initializer):
            raise TypeError(f"set_global_initializer: {name} must be an Initializer or None, "
                            f"got {type(value).__name__}.")
    _global_weight, _global_bias = weight_init, bias_init


def fans(shape):
    """(fan_in, fan_out) of a weight of ``shape``: [in, out] for a matrix, [out, in, *kernel] for a
    convolution.
    """
    if len(shape) == 0:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def calculate_gain(nonlinearity, param=None):
    """Recommended factor on the standard deviation for a nonlinearity's name.

    ``param`` is the negative slope of ``leaky_relu`` (default 0.01). Raises ValueError for an unknown name.
    """
    gains = {"sigmoid": 1, "linear": 1, "conv1d": 1, "conv2d": 1, "conv3d": 1, "conv1d_transpose": 1,
             "conv2d_transpose": 1, "conv3d_transpose": 1, "tanh": 5.0 / 3, "relu": math.sqrt(2.0),
             "selu": 3.0 / 4}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in gains:
        raise ValueError(f"calculate_gain: nonlinearity {nonlinearity!r} is not known; "
                         f"expected one of {sorted([*gains, 'leaky_relu'])}.")
    return gains[nonlinearity]
