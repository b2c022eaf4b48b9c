# SPDX-License-Identifier: Apache-2.0
"""Network room: clipping of gradients.

Norms and factors are tensors of the step's graph; nothing is read on the training path. A norm that is not
finite would turn every gradient into 0 or NaN, so the optimizer takes ``ClipReport.bad`` as "leave everything
as it is" and names the parameters after the step ran (trap B39; see ``optimizer/optimizer.py``).
"""
from ..framework.dtype import dtype_name
from .layer.state import no_record

__all__ = ["ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue"]


class ClipReport:
    """What clipping found: ``bad`` (bool tensor: skip the update), and per parameter its name and squared
    norm.
    """

    def __init__(self, bad, names, squares):
        self.bad, self.names, self.squares = bad, names, squares

    def offenders(self):
        """Names of the parameters whose gradient's norm is not finite (reads values)."""
        import math
        return [name for name, square in zip(self.names, self.squares.numpy().reshape(-1).tolist())
                if not math.isfinite(square)]

    def message(self):
        """One sentence that names the parameters."""
        names = self.offenders() or self.names
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return f"the gradient norm is not finite; gradients with inf or NaN belong to: {shown}"


def _square_sum(grad):
    """Sum of squares as float32 [] whatever the gradient's dtype."""
    import yuloh
    if dtype_name(grad.dtype) in ("float16", "bfloat16"):
        grad = grad.astype("float32")
    return yuloh.sum(grad * grad)


def _scaled(grad, factor):
    name = dtype_name(grad.dtype)
    return grad * (factor if dtype_name(factor.dtype) == name else factor.astype(name))


class ClipGradBase:
    """Base: ``clip(params_grads) -> params_grads``; parameters with ``need_clip`` False pass unchanged."""

    def __call__(self, params_grads):
        with no_record():
            result, report = self.record(params_grads)
        if report is not None and bool(report.bad):
            raise RuntimeError(f"{type(self).__name__}: {report.message()}.")
        return result

    def record(self, params_grads):
        """(clipped pairs, ClipReport or None), recorded without reading."""
        raise NotImplementedError

    @staticmethod
    def _wants(param, grad):
        return grad is not None and getattr(param, "need_clip", True) is not False


class ClipGradByValue(ClipGradBase):
    """Every element into min..max; ``min`` defaults to -max."""

    def __init__(self, max, min=None):
        if min is None:
            if max <= 0:
                raise ValueError(f"ClipGradByValue: without min, max must be positive, got {max}.")
            min = -max
        self.max, self.min = float(max), float(min)

    def __repr__(self):
        return f"Clip Gradient By Value, min = {self.min:f}, max={self.max:f}"

    def record(self, params_grads):
        import yuloh
        return [(p, yuloh.clip(g, self.min, self.max) if self._wants(p, g) else g) for p,
                g in params_grads], None


class ClipGradByNorm(ClipGradBase):
    """Each gradient whose norm exceeds ``clip_norm`` is scaled down to it."""

    def __init__(self, clip_norm):
        self.clip_norm = float(clip_norm)

    def __repr__(self):
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"

    def record(self, params_grads):
        import yuloh
        result, names, squares = [], [], []
        for p, g in params_grads:
            if self._wants(p, g):
                square = _square_sum(g)
                names.append(p.name)
                squares.append(square)
                # max(norm, limit) keeps the factor at 1 below the limit: gradients of 0 stay 0, with no 0 /
                # 0.
                g = _scaled(g, self.clip_norm / yuloh.clip(yuloh.sqrt(square), min=self.clip_norm))
            result.append((p, g))
        if not squares:
            return result, None
        stacked = yuloh.stack(squares)
        return result, ClipReport(yuloh.logical_not(yuloh.all(yuloh.isfinite(stacked))), names, stacked)


class ClipGradByGlobalNorm(ClipGradBase):
    """All gradients are scaled by one factor so that their common norm is at most ``clip_norm``."""

    def __init__(self, clip_norm, group_name="default_group", auto_skip_clip=False):
        self.clip_norm = float(clip_norm)
        self.group_name, self.auto_skip_clip = group_name, auto_skip_clip

    def __repr__(self):
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    def record(self, params_grads):
        import yuloh
        names, squares = [], []
        for p, g in params_grads:
            if self._wants(p, g):
                names.append(p.name)
                squares.append(_square_sum(g))
        if not squares:
            return list(params_grads), None
        stacked = yuloh.stack(squares)
        total = yuloh.sum(stacked)
        factor = self.clip_norm / yuloh.clip(yuloh.sqrt(total), min=self.clip_norm)
        result = [(p, _scaled(g, factor) if self._wants(p, g) else g) for p, g in params_grads]
        return result, ClipReport(yuloh.logical_not(yuloh.isfinite(total)), names, stacked)


GradientClipByValue, GradientClipByNorm = ClipGradByValue, ClipGradByNorm
GradientClipByGlobalNorm = ClipGradByGlobalNorm
