# SPDX-License-Identifier: Apache-2.0
"""Network room: clipping the gradients of parameters in place, between ``backward`` and ``step``."""
from ... import _core
from ..layer.state import no_record

__all__ = ["clip_grad_norm_", "clip_grad_value_"]


def _with_grads(parameters):
    parameters = [parameters] if isinstance(parameters, _core.Tensor) else list(parameters)
    return [p for p in parameters if p.grad is not None]


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scales all gradients so that their common norm is at most ``max_norm``; returns the norm before (a
    tensor).

    With ``error_if_nonfinite`` the norm is read and RuntimeError raised when it is NaN or infinite.
    """
    import yuloh
    chosen = _with_grads(parameters)
    max_norm, norm_type = float(max_norm), float(norm_type)
    if norm_type <= 0:
        raise ValueError(f"clip_grad_norm_: norm_type must be positive, got {norm_type}.")
    if not chosen:
        return yuloh.full([], 0.0, dtype="float32")
    with no_record():
        grads = [p.grad for p in chosen]
        if norm_type == float("inf"):
            total = yuloh.max(yuloh.stack([yuloh.max(yuloh.abs(g)) for g in grads]))
        elif norm_type == 2.0:
            total = yuloh.sqrt(yuloh.sum(yuloh.stack([yuloh.sum(g * g) for g in grads])))
        else:
            powers = [yuloh.sum(yuloh.pow(yuloh.abs(g), norm_type)) for g in grads]
            total = yuloh.pow(yuloh.sum(yuloh.stack(powers)), 1.0 / norm_type)
        if error_if_nonfinite and not bool(yuloh.isfinite(total)):
            raise RuntimeError("clip_grad_norm_: the norm of the gradients is not finite. Hint: "
                               "error_if_nonfinite=False scales them all the same.")
        factor = yuloh.clip(max_norm / (total + 1e-6), max=1.0)
        for p, g in zip(chosen, grads):
            p.grad = g * factor
    return total


def clip_grad_value_(parameters, clip_value):
    """Every element of every gradient into -clip_value..clip_value."""
    import yuloh
    clip_value = float(clip_value)
    if clip_value < 0:
        raise ValueError(f"clip_grad_value_: clip_value must be at least 0, got {clip_value}.")
    with no_record():
        for p in _with_grads(parameters):
            p.grad = yuloh.clip(p.grad, -clip_value, clip_value)
