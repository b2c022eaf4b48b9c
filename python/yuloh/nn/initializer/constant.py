# SPDX-License-Identifier: Apache-2.0
"""Initializer room: values that are not random."""
import math

import numpy as np

from ... import _core
from ...tensor import to_tensor
from .base import Initializer

__all__ = ["Assign", "Bilinear", "Constant", "Dirac"]


class Constant(Initializer):
    """Every element is ``value``."""

    def __init__(self, value=0.0):
        self._value = value

    def _make(self, shape, dtype):
        return _core.ops.full(shape, float(self._value), dtype)


class Assign(Initializer):
    """The given values (list, ndarray or Tensor) of the parameter's shape."""

    def __init__(self, value, name=None):
        if not isinstance(value, (list, tuple, np.ndarray, _core.Tensor)):
            raise TypeError(f"Assign: value must be a list, ndarray or Tensor, got {type(value).__name__}.")
        self._value = value

    def _make(self, shape, dtype):
        value = self._value
        if isinstance(value, _core.Tensor):
            value = value.detach().astype(dtype).clone()
        else:
            value = to_tensor(np.asarray(value)).astype(dtype)
        if list(value.shape) != list(shape):
            if math.prod(value.shape) != math.prod(shape):
                raise ValueError(f"Assign: value does not fit the parameter, got shape {list(value.shape)}; "
                                 f"expected {list(shape)}.")
            value = value.reshape(shape)
        return value


class Dirac(Initializer):
    """Convolution weight [out, in / groups, *kernel] that passes as many input channels through as it can."""

    def __init__(self, groups=1, name=None):
        if not isinstance(groups, int) or groups < 1:
            raise ValueError(f"Dirac: groups must be a positive int, got {groups!r}.")
        self._groups = groups

    def _make(self, shape, dtype):
        if len(shape) not in (3, 4, 5):
            raise ValueError(f"Dirac: only for weights of 3, 4 or 5 dimensions, got shape {shape}.")
        if shape[0] % self._groups:
            raise ValueError(f"Dirac: out channels must be a multiple of groups, got {shape[0]} and "
                             f"{self._groups}.")
        data = np.zeros(shape, np.float32)
        per_group = shape[0] // self._groups
        centre = tuple(n // 2 for n in shape[2:])
        for group in range(self._groups):
            for channel in range(min(per_group, shape[1])):
                data[(group * per_group + channel, channel) + centre] = 1.0
        return to_tensor(data).astype(dtype)


class Bilinear(Initializer):
    """Weight [out, in, k, k] of a transposed convolution that upsamples by bilinear interpolation."""

    def _make(self, shape, dtype):
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ValueError(f"Bilinear: expected a weight [out, in, k, k], got shape {shape}.")
        size = shape[3]
        factor = math.ceil(size / 2.0)
        centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        # Paddle walks the flat index i with x = i % k and y = (i / k) % k, the division not rounded; files
        # and
        # losses of users who start from this weight depend on it.
        flat = np.arange(math.prod(shape), dtype=np.float64)
        x, y = flat % size, (flat / size) % size
        data = (1 - np.abs(x / factor - centre)) * (1 - np.abs(y / factor - centre))
        return to_tensor(data.astype(np.float32).reshape(shape)).astype(dtype)
