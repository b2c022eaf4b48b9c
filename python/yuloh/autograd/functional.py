# SPDX-License-Identifier: Apache-2.0
"""Autograd room: Jacobians and Hessians, one gradient per output element."""
import math

from .. import _core
from .run import grad

__all__ = ["hessian", "jacobian"]


def _jacobian(y, x, batched):
    """[M, N] for y of M and x of N elements; [B, M, N] when the first axis of both is a batch."""
    import yuloh
    shape = list(y.shape)
    batch = shape[0] if batched else None
    flat = y.reshape([batch, -1] if batched else [-1])
    count = math.prod(shape[1:] if batched else shape)
    rows = []
    for number in range(count):
        element = flat[:, number].sum() if batched else flat[number]
        row = grad(element, x, retain_graph=True, create_graph=True, allow_unused=True)[0]
        row = yuloh.zeros_like(x) if row is None else row
        rows.append(row.reshape([batch, -1] if batched else [-1]))
    return yuloh.stack(rows, axis=1 if batched else 0)


def _check_axis(batch_axis, what):
    if batch_axis not in (None, 0):
        raise ValueError(f"{what}: batch_axis must be None or 0, got {batch_axis!r}.")
    return batch_axis == 0


def jacobian(ys, xs, batch_axis=None):
    """dy/dx as [M, N] (or [B, M, N] with ``batch_axis=0``); tuples of ys and xs give tuples of these."""
    batched = _check_axis(batch_axis, "jacobian")

    def of_inputs(y):
        if isinstance(xs, _core.Tensor):
            return _jacobian(y, xs, batched)
        return tuple(_jacobian(y, x, batched) for x in xs)

    return of_inputs(ys) if isinstance(ys, _core.Tensor) else tuple(of_inputs(y) for y in ys)


def hessian(ys, xs, batch_axis=None):
    """Second derivatives of one number (one per sample with ``batch_axis=0``) as [N, N] (or [B, N, N])."""
    batched = _check_axis(batch_axis, "hessian")
    if math.prod(ys.shape[1:] if batched else ys.shape) != 1:
        raise ValueError(f"hessian: ys must hold one number{' per sample' if batched else ''}, "
                         f"got shape {list(ys.shape)}.")
    single = isinstance(xs, _core.Tensor)
    inputs = [xs] if single else list(xs)
    firsts = grad(ys, inputs, create_graph=True)
    if single:
        return _jacobian(firsts[0], xs, batched)
    return tuple(tuple(_jacobian(first, x, batched) for x in inputs) for first in firsts)
