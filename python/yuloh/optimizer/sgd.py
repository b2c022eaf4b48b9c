# SPDX-License-Identifier: Apache-2.0
"""Optimizer room: SGD, Momentum and the methods that scale each element by past gradients."""
from .. import _core
from .optimizer import Optimizer, record_update, select

__all__ = ["ASGD", "Adadelta", "Adagrad", "Momentum", "RMSProp", "Rprop", "SGD"]

_sgd, _momentum, _rmsprop = _core.ops.sgd_, _core.ops.momentum_, _core.ops.rmsprop_


class SGD(Optimizer):
    """p -= lr g."""

    def __init__(self, learning_rate=0.001, parameters=None, weight_decay=None, grad_clip=None,
                 multi_precision=False, name=None):
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision)

    def _update(self, param, grad, state, lr, settings, skip, original):
        if skip is None:
            _sgd(param, grad, lr)
        else:
            record_update(_sgd, (param, grad), (lr,), skip)


class Momentum(Optimizer):
    """v = momentum v + g; p -= lr v, or lr (g + momentum v) with ``use_nesterov``."""

    accumulators = (("velocity", 0.0, None),)

    def __init__(self, learning_rate=0.001, momentum=0.9, parameters=None, use_nesterov=False,
                 weight_decay=None, grad_clip=None, multi_precision=False, rescale_grad=1.0,
                 use_multi_tensor=False, name=None):
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
                   {"momentum": momentum, "use_nesterov": bool(use_nesterov), "rescale_grad": rescale_grad})

    def _update(self, param, grad, state, lr, settings, skip, original):
        if settings["rescale_grad"] != 1.0:
            grad = grad * settings["rescale_grad"]
        if skip is None:
            _momentum(param, grad, state[0], lr, settings["momentum"], settings["use_nesterov"])
        else:
            record_update(_momentum, (param, grad, state[0]),
                          (lr, settings["momentum"], settings["use_nesterov"]), skip)


class RMSProp(Optimizer):
    """v = rho v + (1 - rho) g^2; m = momentum m + lr g / sqrt(v + epsilon); p -= m. ``centered`` subtracts
    mean(g)^2.
    """

    accumulators = (("momentum", 0.0, None), ("mean_square", 0.0, None), ("mean_grad", 0.0, None))

    def __init__(self, learning_rate, rho=0.95, epsilon=1e-6, momentum=0.0, centered=False, parameters=None,
                 weight_decay=None, grad_clip=None, name=None):
        for what, value in (("rho", rho), ("epsilon", epsilon), ("momentum", momentum)):
            if value is None or value < 0.0:
                raise ValueError(f"RMSProp: {what} must be at least 0, got {value}.")
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, False,
                   {"rho": rho, "epsilon": epsilon, "momentum": momentum, "centered": bool(centered)})

    def _update(self, param, grad, state, lr, settings, skip, original):
        moment, mean_square, mean_grad = state
        numbers = (lr, *(settings[key] for key in ("rho", "epsilon", "momentum", "centered")))
        record_update(_rmsprop, (param, grad, mean_square, moment, mean_grad), numbers, skip)


class _Composed(Optimizer):
    """Methods written with public ops: ``_new_values`` gives the new parameter and accumulators."""

    def _update(self, param, grad, state, lr, settings, skip, original):
        values = (param.detach(), *(t.detach() for t in state))
        new = self._new_values(values[0], grad, values[1:], lr, settings)
        for target, old, value in zip((param, *state), values, new):
            if value is not None:
                select(skip, old, value, target)


class Adagrad(_Composed):
    """s += g^2; p -= lr g / (sqrt(s) + epsilon)."""

    def __init__(self, learning_rate, epsilon=1e-6, parameters=None, weight_decay=None, grad_clip=None,
                 name=None, initial_accumulator_value=0.0):
        self.accumulators = (("moment", initial_accumulator_value, None),)
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, False, {"epsilon": epsilon})

    def _new_values(self, p, g, state, lr, settings):
        import yuloh
        s = state[0] + g * g
        return p - g * lr / (yuloh.sqrt(s) + settings["epsilon"]), s


class Adadelta(_Composed):
    """Steps in units of past steps: u = g sqrt(du + epsilon) / sqrt(s + epsilon); p -= lr u."""

    accumulators = (("_avg_squared_grad", 0.0, None), ("_avg_squared_update", 0.0, None))

    def __init__(self, learning_rate=0.001, epsilon=1e-6, rho=0.95, parameters=None, weight_decay=None,
                 grad_clip=None, name=None):
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, False,
                   {"epsilon": epsilon, "rho": rho})

    def _new_values(self, p, g, state, lr, settings):
        import yuloh
        rho, eps = settings["rho"], settings["epsilon"]
        s = state[0] * rho + g * g * (1 - rho)
        u = yuloh.sqrt((state[1] + eps) / (s + eps)) * g
        return p - u * lr, s, state[1] * rho + u * u * (1 - rho)


class ASGD(_Composed):
    """Stochastic average gradient: p -= lr d / min(steps, batch_num), d the sum of the last gradient of each
    batch.
    """

    def __init__(self, learning_rate=0.001, batch_num=1, parameters=None, weight_decay=None, grad_clip=None,
                 multi_precision=False, name=None):
        if batch_num is None or batch_num < 1:
            raise ValueError(f"ASGD: batch_num must be at least 1, got {batch_num}.")
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
                   {"batch_num": int(batch_num)})

    def _accumulators(self, param):
        count = self._settings["batch_num"]
        return (("d", 0.0, None), ("y", 0.0, [count, *param.shape]), ("m", 0.0, [1]))

    def _new_values(self, p, g, state, lr, settings):
        import yuloh
        d, y, m = state
        count = settings["batch_num"]
        place = (yuloh.arange(count, dtype="float32") == yuloh.remainder(m, yuloh.full([1], float(count))))
        place = place.astype(g.dtype).reshape([count] + [1] * len(g.shape))
        old = yuloh.sum(y * place, axis=0)
        d = d - old + g
        steps = m + 1.0
        divisor = yuloh.clip(steps, max=float(count)).reshape([1] * len(g.shape) if len(g.shape) else [])
        return p - d * lr / divisor, d, y * (1.0 - place) + g.unsqueeze(0) * place, steps


class Rprop(_Composed):
    """Steps of an own size per element, which grows while the gradient keeps its sign and shrinks when it
    flips.
    """

    def __init__(self, learning_rate=0.001, learning_rate_range=(1e-5, 50), parameters=None, etas=(0.5, 1.2),
                 grad_clip=None, multi_precision=False, name=None):
        if not 0.0 < learning_rate_range[0] <= learning_rate <= learning_rate_range[1]:
            raise ValueError(f"Rprop: learning_rate must lie in learning_rate_range, got {learning_rate} and "
                             f"{learning_rate_range}.")
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Rprop: etas must be below and above 1, got {etas}.")
        self.accumulators = (("prevs", 0.0, None), ("learning_rates", float(learning_rate), None))
        self._init(learning_rate, parameters, None, grad_clip, name, multi_precision,
                   {"range": tuple(learning_rate_range), "etas": tuple(etas)})

    def _new_values(self, p, g, state, lr, settings):
        import yuloh
        previous, rates = state
        (shrink, grow), (low, high) = settings["etas"], settings["range"]
        product = g * previous
        one = yuloh.ones_like(g)
        flipped = product < 0
        factor = yuloh.where(product > 0, one * grow, yuloh.where(flipped, one * shrink, one))
        g = yuloh.where(flipped, yuloh.zeros_like(g), g)
        rates = yuloh.clip(rates * factor, low, high)
        return p - yuloh.sign(g) * rates, g, rates
