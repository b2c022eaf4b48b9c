# SPDX-License-Identifier: Apache-2.0
"""Optimizer room: L-BFGS, a quasi-Newton method for small problems.

Unlike the other optimizers it evaluates the loss several times per step, through a closure, and decides by
values: it reads one number per evaluation. Directions are vectors of all parameters, made by ordinary ops.
"""
import math

from ..nn.layer.state import no_record
from ..nn.utils.transform import vector_to_parameters
from .optimizer import Optimizer

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """``step(closure)`` minimises; ``closure`` clears the gradients, computes the loss, calls backward,
    returns it.

    ``history_size`` pairs of (step, change of gradient) approximate the inverse Hessian. ``line_search_fn``
    is None (steps of ``learning_rate``) or 'strong_wolfe'.
    """

    def __init__(self, learning_rate=1.0, max_iter=20, max_eval=None, tolerance_grad=1e-07,
                 tolerance_change=1e-09, history_size=100, line_search_fn=None, parameters=None,
                 weight_decay=None, grad_clip=None, name=None):
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', got {line_search_fn!r}.")
        self._init(learning_rate, parameters, weight_decay, grad_clip, name)
        self.max_iter = max_iter
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.history_size, self.line_search_fn = history_size, line_search_fn
        self._history = {"steps": [], "changes": [], "direction": None, "rate": None, "grad": None,
                         "iterations": 0}

    def state_dict(self):
        """What the next step continues from."""
        return {"state": dict(self._history)}

    def set_state_dict(self, state_dict):
        """Continues from what ``state_dict`` gave."""
        self._history = dict(state_dict["state"])

    load_state_dict = set_state_dict

    # ---- vectors of all parameters -------------------------------------------------------------------------
    def _vector(self, tensors):
        import yuloh
        return yuloh.concat([t.detach().reshape([-1]) for t in tensors], axis=0)

    def _gradient(self):
        """All gradients (clipped and regularised as the optimizer's settings say) as one vector."""
        import yuloh
        pairs = [(p, yuloh.zeros_like(p) if p.grad is None else p.grad) for p in self._parameter_list]
        if self._grad_clip is not None:
            pairs = self._grad_clip(pairs)
        return self._vector([g for _, g in self.append_regularization_ops(pairs, self.regularization)])

    def _evaluate(self, closure, start, direction, rate):
        """(loss, gradient, slope along the direction) at ``start + rate * direction``."""
        import yuloh
        with no_record():
            vector_to_parameters(start + direction * rate, self._parameter_list)
        loss = float(closure())
        with no_record():
            grad = self._gradient()
            return loss, grad, float(yuloh.sum(grad * direction))

    # ---- one call ------------------------------------------------------------------------------------------
    def step(self, closure):
        """Up to ``max_iter`` iterations; returns the loss of the first evaluation."""
        import yuloh
        first = closure()
        loss, evaluations = float(first), 1
        with no_record():
            grad = self._gradient()
        past = self._history
        for iteration in range(self.max_iter):
            with no_record():
                if float(yuloh.max(yuloh.abs(grad))) <= self.tolerance_grad:
                    break
                direction = self._direction(grad)
                slope = float(yuloh.sum(grad * direction))
                rate = self.get_lr()
                if past["iterations"] == 1:  # no curvature is known yet: a step of length about one
                    rate *= min(1.0, 1.0 / float(yuloh.sum(yuloh.abs(grad))))
                if slope > -self.tolerance_change:
                    break
                start = self._vector(self._parameter_list)
            before, old_grad = loss, grad
            if self.line_search_fn is None:
                loss, grad, _ = self._evaluate(closure, start, direction, rate)
                evaluations += 1
            else:
                rate, loss, grad, used = self._search(closure, start, direction, rate, loss, grad, slope)
                evaluations += used
                with no_record():
                    vector_to_parameters(start + direction * rate, self._parameter_list)
            with no_record():
                self._remember(direction * rate, grad - old_grad)
                longest = float(yuloh.max(yuloh.abs(direction))) * abs(rate)
            past["grad"], past["direction"], past["rate"] = grad, direction, rate
            if (evaluations >= self.max_eval or longest <= self.tolerance_change
                    or abs(loss - before) < self.tolerance_change):
                break
        return first

    def _remember(self, step, change):
        import yuloh
        if float(yuloh.sum(step * change)) > 1e-10:
            past = self._history
            past["steps"].append(step)
            past["changes"].append(change)
            del past["steps"][:-self.history_size], past["changes"][:-self.history_size]

    def _direction(self, grad):
        """-H grad, H the inverse Hessian that the history implies (two loops over it)."""
        import yuloh
        past = self._history
        past["iterations"] += 1
        q = -grad
        pairs = list(zip(past["steps"], past["changes"]))
        shares = []
        for step, change in reversed(pairs):
            inverse = 1.0 / yuloh.sum(step * change)
            share = yuloh.sum(step * q) * inverse
            q = q - change * share
            shares.append((share, inverse))
        if pairs:
            step, change = pairs[-1]
            q = q * (yuloh.sum(step * change) / yuloh.sum(change * change))
        for (step, change), (share, inverse) in zip(pairs, reversed(shares)):
            q = q + step * (share - yuloh.sum(change * q) * inverse)
        return q

    # ---- line search ---------------------------------------------------------------------------------------
    def _search(self, closure, start, direction, rate, loss, grad, slope, c1=1e-4, c2=0.9, limit=25):
        """(rate, loss, gradient, evaluations) at which both strong Wolfe conditions hold, or the best point
        seen.
        """
        lower = (0.0, loss, grad, slope)
        previous, used, bracket = lower, 0, None
        for number in range(limit):
            point = (rate, *self._evaluate(closure, start, direction, rate))
            used += 1
            if point[1] > loss + c1 * rate * slope or (number and point[1] >= previous[1]):
                bracket = [previous, point]
                break
            if abs(point[3]) <= -c2 * slope:
                return point[0], point[1], point[2], used
            if point[3] >= 0:
                bracket = [point, previous]
                break
            following = _cubic_minimum(previous, point, rate + 0.01 * (rate - previous[0]), rate * 10)
            previous, rate = point, following
        if bracket is None:
            return previous[0], previous[1], previous[2], used
        best, other = bracket if bracket[0][1] <= bracket[1][1] else bracket[::-1]
        while used < limit:
            low, high = sorted((best[0], other[0]))
            if (high - low) * abs(slope) < self.tolerance_change:
                break
            trial = _cubic_minimum(best, other, low, high)
            margin = 0.1 * (high - low)
            trial = min(max(trial, low + margin), high - margin)
            point = (trial, *self._evaluate(closure, start, direction, trial))
            used += 1
            if point[1] > loss + c1 * trial * slope or point[1] >= best[1]:
                other = point
            else:
                if abs(point[3]) <= -c2 * slope:
                    return point[0], point[1], point[2], used
                if point[3] * (other[0] - best[0]) >= 0:
                    other = best
                best = point
        return best[0], best[1], best[2], used


def _cubic_minimum(a, b, low, high):
    """Minimum within low..high of the cubic through two points (rate, loss, _, slope) with their slopes."""
    if a[0] > b[0]:
        a, b = b, a
    width = b[0] - a[0]
    if width == 0:
        return low
    d1 = a[3] + b[3] - 3 * (a[1] - b[1]) / (a[0] - b[0])
    square = d1 * d1 - a[3] * b[3]
    if square < 0 or not math.isfinite(square):
        return (low + high) / 2
    d2 = math.sqrt(square)
    divisor = b[3] - a[3] + 2 * d2
    if divisor == 0:
        return (low + high) / 2
    return min(max(b[0] - width * (b[3] + d2 - d1) / divisor, low), high)
