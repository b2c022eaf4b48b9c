# SPDX-License-Identifier: Apache-2.0
"""Optimizer room: Adam and its relatives."""
from .. import _core
from .optimizer import Optimizer, record_update
from .sgd import _Composed

__all__ = ["Adam", "AdamW", "Adamax", "Lamb", "NAdam", "RAdam"]

_adam, _adamw, _lamb = _core.ops.adam_, _core.ops.adamw_, _core.ops.lamb_


def _check_betas(who, beta1, beta2, epsilon):
    for what, value in (("beta1", beta1), ("beta2", beta2)):
        if not 0 <= value < 1:
            raise ValueError(f"{who}: {what} must be from 0 to less than 1, got {value}.")
    if epsilon < 0:
        raise ValueError(f"{who}: epsilon must be at least 0, got {epsilon}.")


class Adam(Optimizer):
    """m1, m2: running means of g and g^2; p -= lr m1' / (sqrt(m2') + epsilon) with bias-corrected means.

    ``amsgrad`` divides by the largest m2 seen. ``lazy_mode`` and ``use_multi_tensor`` change nothing here.
    """

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None,
                 weight_decay=None, grad_clip=None, lazy_mode=False, multi_precision=False,
                 use_multi_tensor=False, amsgrad=False, name=None):
        self._prepare(beta1, beta2, epsilon, amsgrad)
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
                   {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon)})

    def _prepare(self, beta1, beta2, epsilon, amsgrad):
        _check_betas(type(self).__name__, beta1, beta2, epsilon)
        self._amsgrad = bool(amsgrad)
        largest = (("moment2_max", 0.0, None),) if amsgrad else ()
        self.accumulators = (("moment1", 0.0, None), ("moment2", 0.0, None), *largest,
                             ("beta1_pow_acc", "beta1", [1]), ("beta2_pow_acc", "beta2", [1]))

    def _update(self, param, grad, state, lr, settings, skip, original):
        if self._amsgrad:
            self._update_amsgrad(param, grad, state, lr, settings, skip, 0.0)
            return
        if skip is None:
            m1, m2, power1, power2 = state  # by position: the call of a C function stays a vector call
            _adam(param, grad, m1, m2, power1, power2, lr, settings["beta1"], settings["beta2"],
                  settings["epsilon"])
        else:
            record_update(_adam, (param, grad, *state),
                          (lr, settings["beta1"], settings["beta2"], settings["epsilon"]), skip)

    def _update_amsgrad(self, param, grad, state, lr, settings, skip, decay):
        import yuloh
        beta1, beta2 = settings["beta1"], settings["beta2"]
        p, m1, m2, largest, power1, power2 = (t.detach() for t in (param, *state))
        new1 = m1 * beta1 + grad * (1 - beta1)
        new2 = m2 * beta2 + grad * grad * (1 - beta2)
        top = yuloh.maximum(largest, new2)
        scale = yuloh.sqrt(1 - power2)
        kept = p * (1 - lr * decay) if decay else p
        step = new1 / (yuloh.sqrt(top) + scale * settings["epsilon"]) * (scale * lr / (1 - power1))
        from .optimizer import select
        for target, old, value in zip((param, *state), (p, m1, m2, largest, power1, power2),
                                      (kept - step, new1, new2, top, power1 * beta1, power2 * beta2)):
            select(skip, old, value, target)


class AdamW(Adam):
    """Adam with decoupled decay: p *= 1 - lr weight_decay before the step.

    ``apply_decay_param_fun(name)`` says which parameters decay, ``lr_ratio(param)`` scales their learning
    rate.
    """

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None,
                 weight_decay=0.01, use_lowprecision_moment=False, lr_ratio=None, apply_decay_param_fun=None,
                 grad_clip=None, lazy_mode=False, multi_precision=False, amsgrad=False, name=None):
        if not isinstance(weight_decay, (int, float)):
            raise TypeError(f"AdamW: weight_decay must be a float, got {type(weight_decay).__name__}.")
        self._prepare(beta1, beta2, epsilon, amsgrad)
        self._lr_ratio, self._apply_decay_param_fun = lr_ratio, apply_decay_param_fun
        self._init(learning_rate, parameters, None, grad_clip, name, multi_precision,
                   {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon),
                   "weight_decay": float(weight_decay)})

    def _update(self, param, grad, state, lr, settings, skip, original):
        decay = settings["weight_decay"]
        if self._apply_decay_param_fun is not None and not self._apply_decay_param_fun(original.name):
            decay = 0.0
        if self._lr_ratio is not None:
            lr *= self._lr_ratio(original)
        if self._amsgrad:
            self._update_amsgrad(param, grad, state, lr, settings, skip, decay)
            return
        if skip is None:
            m1, m2, power1, power2 = state
            _adamw(param, grad, m1, m2, power1, power2, lr, settings["beta1"], settings["beta2"],
                   settings["epsilon"], decay)
        else:
            record_update(_adamw, (param, grad, *state),
                          (lr, settings["beta1"], settings["beta2"], settings["epsilon"], decay), skip)


class Lamb(Optimizer):
    """Adam's direction plus decay, its length scaled to the parameter's norm.

    ``exclude_from_weight_decay_fn(param)`` says which parameters do not decay; those are not rescaled either
    unless ``always_adapt``.
    """

    accumulators = (("moment1", 0.0, None), ("moment2", 0.0, None), ("beta1_pow_acc", "beta1", [1]),
                    ("beta2_pow_acc", "beta2", [1]))

    def __init__(self, learning_rate=0.001, lamb_weight_decay=0.01, beta1=0.9, beta2=0.999, epsilon=1e-6,
                 parameters=None, grad_clip=None, exclude_from_weight_decay_fn=None, multi_precision=False,
                 always_adapt=False, name=None):
        _check_betas("Lamb", beta1, beta2, epsilon)
        self._exclude, self._always_adapt = exclude_from_weight_decay_fn, bool(always_adapt)
        self._init(learning_rate, parameters, None, grad_clip, name, multi_precision,
                   {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon),
                   "lamb_weight_decay": float(lamb_weight_decay)})

    def _update(self, param, grad, state, lr, settings, skip, original):
        decay = settings["lamb_weight_decay"]
        if self._exclude is not None and self._exclude(original):
            decay = 0.0
        if decay or self._always_adapt:
            record_update(_lamb, (param, grad, *state),
                          (lr, settings["beta1"], settings["beta2"], settings["epsilon"], decay), skip)
        else:
            self._update_plain(param, grad, state, lr, settings, skip)

    def _update_plain(self, param, grad, state, lr, settings, skip):
        """Without decay and rescaling: epsilon is added to the bias-corrected root."""
        import yuloh

        from .optimizer import select
        beta1, beta2 = settings["beta1"], settings["beta2"]
        p, m1, m2, power1, power2 = (t.detach() for t in (param, *state))
        new1 = m1 * beta1 + grad * (1 - beta1)
        new2 = m2 * beta2 + grad * grad * (1 - beta2)
        step = (new1 / (1 - power1)) / (yuloh.sqrt(new2 / (1 - power2)) + settings["epsilon"])
        for target, old, value in zip((param, *state), (p, m1, m2, power1, power2),
                                      (p - step * lr, new1, new2, power1 * beta1, power2 * beta2)):
            select(skip, old, value, target)


class Adamax(_Composed):
    """Adam with the largest decayed |g| in place of the root of m2."""

    accumulators = (("moment", 0.0, None), ("inf_norm", 0.0, None), ("beta1_pow_acc", "beta1", [1]))

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None,
                 weight_decay=None, grad_clip=None, name=None):
        _check_betas("Adamax", beta1, beta2, epsilon)
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, False,
                   {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon)})

    def _new_values(self, p, g, state, lr, settings):
        import yuloh
        m, norm, power = state
        m = m * settings["beta1"] + g * (1 - settings["beta1"])
        norm = yuloh.maximum(yuloh.abs(g), norm * settings["beta2"] + settings["epsilon"])
        return p - m / norm * (lr / (1 - power)), m, norm, power * settings["beta1"]


class NAdam(_Composed):
    """Adam with Nesterov momentum, whose momentum follows a decay schedule."""

    accumulators = (("momentum_decay_pow", 1.0, None), ("beta2_pow", 1.0, None), ("mu_product", 1.0, None),
                    ("moment1", 0.0, None), ("moment2", 0.0, None))

    def __init__(self, learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8, momentum_decay=0.004,
                 parameters=None, weight_decay=None, grad_clip=None, name=None):
        _check_betas("NAdam", beta1, beta2, epsilon)
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, False,
                   {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon),
                   "momentum_decay": float(momentum_decay)})

    def _new_values(self, p, g, state, lr, settings):
        import yuloh
        decay_power, power2, product, m1, m2 = state
        beta1, beta2, decay = settings["beta1"], settings["beta2"], settings["momentum_decay"]
        decay_power = decay_power * 0.96
        power2 = power2 * beta2
        mu = (1 - yuloh.pow(decay_power, decay) * 0.5) * beta1
        mu_next = (1 - yuloh.pow(decay_power, decay) * (0.5 * 0.96 ** decay)) * beta1
        product = product * mu
        m1 = m1 * beta1 + g * (1 - beta1)
        m2 = m2 * beta2 + g * g * (1 - beta2)
        direction = mu_next * m1 / (1 - product * mu_next) + (1 - mu) * g / (1 - product)
        p = p - direction / (yuloh.sqrt(m2 / (1 - power2)) + settings["epsilon"]) * lr
        return p, decay_power, power2, product, m1, m2


class RAdam(_Composed):
    """Adam that takes plain momentum steps until the variance of its scaling is known well enough."""

    accumulators = (("beta1_pow", 1.0, None), ("beta2_pow", 1.0, None), ("rho", 0.0, None),
                    ("moment1", 0.0, None), ("moment2", 0.0, None))

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, parameters=None,
                 weight_decay=None, grad_clip=None, name=None):
        _check_betas("RAdam", beta1, beta2, epsilon)
        self._init(learning_rate, parameters, weight_decay, grad_clip, name, False,
                   {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon)})

    def _new_values(self, p, g, state, lr, settings):
        import yuloh
        power1, power2, rho, m1, m2 = state
        beta1, beta2 = settings["beta1"], settings["beta2"]
        limit = 2.0 / (1.0 - beta2) - 1.0
        power1, power2 = power1 * beta1, power2 * beta2
        # rho holds t beta2^t / (1 - beta2^t); this recursion needs no step count.
        rho = (rho * (beta2 - power2) + power2) / (1 - power2)
        length = limit - rho * 2.0
        m1 = m1 * beta1 + g * (1 - beta1)
        m2 = m2 * beta2 + g * g * (1 - beta2)
        direction = m1 / (1 - power1)
        safe = yuloh.clip(length, min=5.0)
        trust = yuloh.sqrt((safe - 4) * (safe - 2) * limit / (safe * ((limit - 4) * (limit - 2))))
        scaled = direction * trust * yuloh.sqrt(1 - power2) / (yuloh.sqrt(m2) + settings["epsilon"])
        return p - yuloh.where(length > 5.0, scaled, direction) * lr, power1, power2, rho, m1, m2
