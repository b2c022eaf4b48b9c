# SPDX-License-Identifier: Apache-2.0
"""Initializer room: random values, each recorded as an op of the core's generator."""
import math

from ... import _core
from .base import Initializer, calculate_gain, fans

__all__ = ["KaimingNormal", "KaimingUniform", "MSRA", "Normal", "Orthogonal", "TruncatedNormal", "Uniform",
           "Xavier", "XavierNormal", "XavierUniform"]


def _uniform(shape, dtype, low, high):
    return _core.ops.uniform_static(float(low), float(high), shape, dtype)


def _normal(shape, dtype, mean, std):
    return _core.ops.gaussian_static(float(mean), float(std), shape, dtype)


class Uniform(Initializer):
    """Uniform in [low, high)."""

    def __init__(self, low=-1.0, high=1.0, name=None):
        if low is None or high is None or high < low:
            raise ValueError(f"Uniform: low must not exceed high, got {low!r} and {high!r}.")
        self._low, self._high = low, high

    def _make(self, shape, dtype):
        return _uniform(shape, dtype, self._low, self._high)


class Normal(Initializer):
    """Normal with the given mean and standard deviation."""

    def __init__(self, mean=0.0, std=1.0, name=None):
        self._mean, self._std = mean, std

    def _make(self, shape, dtype):
        return _normal(shape, dtype, self._mean, self._std)


class TruncatedNormal(Initializer):
    """Normal restricted to [a, b] (absolute bounds, not multiples of ``std``)."""

    def __init__(self, mean=0.0, std=1.0, a=-2.0, b=2.0, name=None):
        self._mean, self._std, self._a, self._b = mean, std, a, b

    def _make(self, shape, dtype):
        # The row counts its bounds in standard deviations from the mean.
        a, b = ((bound - self._mean) / self._std for bound in (self._a, self._b))
        return _core.ops.truncated_normal(shape, float(self._mean), float(self._std), a, b, dtype)


class _Fan(Initializer):
    """Shared by Xavier and Kaiming: a spread taken from the numbers of inputs and outputs."""

    _uniform_law = True

    def _spread(self, shape):
        """Standard deviation wished for a weight of ``shape``."""
        raise NotImplementedError

    def _make(self, shape, dtype):
        std = self._spread(shape)
        if self._uniform_law:
            limit = math.sqrt(3.0) * std
            return _uniform(shape, dtype, -limit, limit)
        return _normal(shape, dtype, 0.0, std)


class XavierUniform(_Fan):
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out)) (Glorot)."""

    def __init__(self, fan_in=None, fan_out=None, gain=1.0, name=None):
        self._fan_in, self._fan_out, self._gain = fan_in, fan_out, gain

    def _spread(self, shape):
        fan_in, fan_out = fans(shape)
        fan_in = fan_in if self._fan_in is None else self._fan_in
        fan_out = fan_out if self._fan_out is None else self._fan_out
        return self._gain * math.sqrt(2.0 / max(fan_in + fan_out, 1e-30))


class XavierNormal(XavierUniform):
    """Normal with std gain * sqrt(2 / (fan_in + fan_out))."""

    _uniform_law = False


class KaimingUniform(_Fan):
    """Uniform in +-gain(nonlinearity) * sqrt(3 / fan) (He)."""

    def __init__(self, fan_in=None, negative_slope=0.0, nonlinearity="relu", mode="fan_in"):
        if mode not in ("fan_in", "fan_out"):
            raise ValueError(f"{type(self).__name__}: mode must be 'fan_in' or 'fan_out', got {mode!r}.")
        self._fan_in, self._mode = fan_in, mode
        self._negative_slope, self._nonlinearity = negative_slope, nonlinearity

    def _spread(self, shape):
        fan_in, fan_out = fans(shape)
        fan = fan_out if self._mode == "fan_out" else fan_in if self._fan_in is None else self._fan_in
        return calculate_gain(self._nonlinearity, self._negative_slope) / math.sqrt(max(fan, 1))


class KaimingNormal(KaimingUniform):
    """Normal with std gain(nonlinearity) / sqrt(fan)."""

    _uniform_law = False


class Orthogonal(Initializer):
    """Rows or columns of length ``gain``, orthogonal to each other;
    dimensions after the first are flattened.
    """

    def __init__(self, gain=1.0, name=None):
        self._gain = gain

    def _make(self, shape, dtype):
        if len(shape) < 2:
            raise ValueError(f"Orthogonal: at least 2 dimensions are needed, got shape {shape}.")
        rows, cols = shape[0], math.prod(shape[1:])
        q = _orthonormal_columns(max(rows, cols), min(rows, cols))
        if rows < cols:
            q = q.t()
        q = q.reshape(shape) * self._gain
        return q if dtype == "float32" else q.astype(dtype)


def _orthonormal_columns(rows, cols):
    """Haar-distributed [rows, cols] with orthonormal columns: the polar factor of a Gaussian matrix.

    The polar factor x (x'x)^-1/2 is reached by Newton-Schulz steps x <- 1.5 x - 0.5 x x'x, which only need
    matmul. Singular values s < 1 grow by 1.5 per step until they are near 1; 60 steps bring 1e-8 there.
    """
    import yuloh
    x = _normal([rows, cols], "float64", 0.0, 1.0)
    x = x / yuloh.sqrt((x * x).sum())
    for _ in range(60):
        x = x * 1.5 - yuloh.matmul(x, yuloh.matmul(x, x, transpose_x=True)) * 0.5
    return x.astype("float32")


def Xavier(uniform=True, fan_in=None, fan_out=None, seed=0):
    """Old spelling of XavierUniform and XavierNormal."""
    return (XavierUniform if uniform else XavierNormal)(fan_in, fan_out)


def MSRA(uniform=True, fan_in=None, seed=0, negative_slope=0.0, nonlinearity="relu"):
    """Old spelling of KaimingUniform and KaimingNormal."""
    return (KaimingUniform if uniform else KaimingNormal)(fan_in, negative_slope, nonlinearity)


NormalInitializer = Normal
UniformInitializer = Uniform
