# SPDX-License-Identifier: Apache-2.0
"""Tensor room: tensors from nothing: constants, ranges, random numbers.

The rows underneath take static shapes and dtypes; here stand Paddle's signatures (default dtypes, shapes made of tensors).
"""
from . import _core

ops = _core.ops
Tensor = _core.Tensor

__all__ = [
    "full", "zeros", "ones", "empty", "empty_like", "arange", "range", "linspace", "logspace", "eye",
    "rand", "randn", "standard_normal", "uniform", "normal", "gaussian", "randint", "randint_like",
    "rand_like", "randn_like", "randperm", "multinomial", "poisson",
]


def _shape(shape):
    """Shape as a list of ints; tensors (whole or as elements) are read."""
    if isinstance(shape, Tensor):
        return [int(v) for v in shape.tolist()] if shape.ndim else [int(shape)]
    if isinstance(shape, int):
        return [shape]
    return [int(v) for v in shape]


def _number(x):
    return x.item() if isinstance(x, Tensor) else x


def _float_dtype(dtype):
    return _core.get_default_dtype() if dtype is None else dtype


def _done(x, requires_grad=False):
    if requires_grad:
        x.stop_gradient = False
    return x


# ---- creation ----
def full(
    shape, fill_value, dtype=None, name=None, *, out=None, device=None, requires_grad=False, pin_memory=False
):
    """Tensor of ``shape`` filled with a number or 0-D tensor; float dtype by default, bool for a bool."""
    if dtype is None:
        dtype = "bool" if isinstance(fill_value, bool) else _core.get_default_dtype()
    return _done(ops.fill(fill_value, _shape(shape), dtype), requires_grad)


def zeros(shape, dtype=None, name=None, *, out=None, device=None, requires_grad=False, pin_memory=False):
    """Zeros of ``shape``."""
    return _done(ops.full(_shape(shape), 0.0, _float_dtype(dtype)), requires_grad)


def ones(shape, dtype=None, name=None, *, out=None, device=None, requires_grad=False, pin_memory=False):
    """Ones of ``shape``."""
    return _done(ops.full(_shape(shape), 1.0, _float_dtype(dtype)), requires_grad)


def empty(shape, dtype=None, name=None, *, out=None, device=None, requires_grad=False, pin_memory=False):
    """Tensor of ``shape`` whose contents mean nothing (zeros, so that results repeat)."""
    return zeros(shape, dtype, requires_grad=requires_grad)


def empty_like(x, dtype=None, name=None, **_):
    """``empty`` of the shape (and dtype, if None) of ``x``."""
    return ops.zeros_like(x, dtype)


def _range_dtype(*numbers):
    values = [n for n in numbers if n is not None]
    if any(isinstance(n, Tensor) and n.dtype.is_floating_point() or isinstance(n, float) for n in values):
        tensors = [n.dtype for n in values if isinstance(n, Tensor)]
        return tensors[0] if tensors else _core.get_default_dtype()
    return "int64"


def arange(
    start=0,
    end=None,
    step=1,
    dtype=None,
    *,
    out=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    name=None,
):
    """``start``, ``start + step``, ... below ``end``; int64 unless a float is given."""
    if end is None:
        start, end = 0, start
    dtype = _range_dtype(start, end, step) if dtype is None else dtype
    return _done(ops.arange_static(_number(start), _number(end), _number(step), dtype), requires_grad)


def range(start, end=None, step=1, dtype=None, name=None):  # noqa: A001  (Paddle's name)
    """``arange`` with ``end`` included; the default float dtype unless one is given."""
    dtype = _core.get_default_dtype() if dtype is None else dtype
    return arange(start, (end if end is not None else start) + step, step, dtype)


def linspace(start, stop, num, dtype=None, name=None, *, out=None, device=None, requires_grad=False):
    """``num`` evenly spaced values from ``start`` to ``stop``, both included."""
    return _done(
        ops.linspace_static(_number(start), _number(stop), _number(num), 0.0, _float_dtype(dtype)),
        requires_grad,
    )


def logspace(start, stop, num, base=10.0, dtype=None, name=None):
    """``base`` to the power of ``linspace(start, stop, num)``."""
    return ops.linspace_static(
        _number(start), _number(stop), _number(num), _number(base), _float_dtype(dtype)
    )


def eye(
    num_rows,
    num_columns=None,
    dtype=None,
    name=None,
    *,
    out=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Ones on the diagonal, zeros elsewhere."""
    columns = num_rows if num_columns is None else num_columns
    return _done(ops.eye_static(int(num_rows), int(columns), _float_dtype(dtype)), requires_grad)


# ---- random ----
def uniform(
    shape, dtype=None, min=-1.0, max=1.0, seed=0, name=None, *, out=None, device=None, requires_grad=False
):
    """Uniform in [min, max)."""
    return _done(
        ops.uniform_static(float(_number(min)), float(_number(max)), _shape(shape), _float_dtype(dtype)),
        requires_grad,
    )


def rand(shape, *args, dtype=None, name=None, out=None, device=None, requires_grad=False, pin_memory=False):
    """Uniform in [0, 1)."""
    if args and not isinstance(shape, int):
        dtype, args = args[0], ()
    return uniform([shape, *args] if args else shape, dtype, 0.0, 1.0, requires_grad=requires_grad)


def standard_normal(shape, dtype=None, name=None, *, out=None, device=None, requires_grad=False):
    """Normal with mean 0 and standard deviation 1."""
    return _done(ops.gaussian_static(0.0, 1.0, _shape(shape), _float_dtype(dtype)), requires_grad)


def randn(shape, *args, dtype=None, name=None, out=None, device=None, requires_grad=False, pin_memory=False):
    """Normal with mean 0 and standard deviation 1."""
    if args and not isinstance(shape, int):
        dtype, args = args[0], ()
    return standard_normal([shape, *args] if args else shape, dtype, requires_grad=requires_grad)


def gaussian(shape, mean=0.0, std=1.0, seed=0, dtype=None, name=None):
    """Normal with ``mean`` and standard deviation ``std``."""
    return ops.gaussian_static(float(mean), float(std), _shape(shape), _float_dtype(dtype))


def normal(mean=0.0, std=1.0, shape=None, name=None, *, out=None):
    """Normal; ``mean`` and ``std`` may be tensors, whose shape is then that of the result."""
    for t in (mean, std):
        if isinstance(t, Tensor):
            return standard_normal(t.shape, t.dtype) * std + mean
    return gaussian([1] if shape is None else shape, mean, std)


def randint(low=0, high=None, shape=[1], dtype=None, name=None):  # noqa: B006
    """Integers in [low, high), or [0, low) when ``high`` is None."""
    if high is None:
        low, high = 0, low
    return ops.randint_static(int(low), int(high), _shape(shape), "int64" if dtype is None else dtype)


def randint_like(x, low=0, high=None, dtype=None, name=None):
    """``randint`` of the shape (and dtype, if None) of ``x``."""
    return randint(low, high, x.shape, x.dtype if dtype is None else dtype)


def rand_like(input, name=None, *, dtype=None, device=None, requires_grad=False):
    """``rand`` of the shape (and dtype, if None) of ``input``."""
    return rand(input.shape, dtype=input.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randn_like(x, dtype=None, name=None, *, device=None, requires_grad=False):
    """``randn`` of the shape (and dtype, if None) of ``x``."""
    return standard_normal(x.shape, x.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randperm(n, dtype="int64", name=None, *, out=None, device=None, requires_grad=False, pin_memory=False):
    """0..n-1 in random order."""
    return ops.randperm_static(int(n), dtype)


def multinomial(x, num_samples=1, replacement=False, name=None, *, out=None):
    """Class numbers drawn from the (unnormalised) probabilities in the last axis of ``x``."""
    return ops.multinomial_core(x, num_samples, replacement)


def poisson(x, name=None):
    """Poisson counts with rates ``x``."""
    return ops.poisson_core(x)
