# SPDX-License-Identifier: Apache-2.0
"""Optimizer room: learning-rate schedules, plain Python arithmetic on floats.

A scheduler counts epochs (or steps, as the caller likes): ``step()`` moves on, calling it gives the current
rate. The optimizer passes that float to its ops, where it is an input of the plan.
"""
import math
import warnings

__all__ = ["CosineAnnealingDecay", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialDecay",
           "InverseTimeDecay", "LRScheduler", "LambdaDecay", "LinearLR", "LinearWarmup", "MultiStepDecay",
           "MultiplicativeDecay", "NaturalExpDecay", "NoamDecay", "OneCycleLR", "PiecewiseDecay",
           "PolynomialDecay", "ReduceOnPlateau", "StepDecay"]


def _need(condition, text):
    if not condition:
        raise ValueError(text)


class LRScheduler:
    """Base. A subclass gives ``get_lr()`` from ``last_epoch``, ``base_lr`` and ``last_lr``."""

    def __init__(self, learning_rate=0.1, last_epoch=-1, verbose=False):
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"{type(self).__name__}: learning_rate must be a float, got "
                            f"{type(learning_rate).__name__}.")
        _need(learning_rate >= 0,
              f"{type(self).__name__}: learning_rate must be at least 0, got {learning_rate}.")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self._var_name = None
        self.step()

    def __call__(self):
        """The current learning rate."""
        return self.last_lr

    def step(self, epoch=None):
        """Moves to the next epoch, or to ``epoch``."""
        if epoch is None:
            self.last_epoch += 1
            self.last_lr = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            self.last_lr = self.get_lr() if closed is None else closed()
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def get_lr(self):
        """The rate of ``last_epoch``."""
        raise NotImplementedError(f"{type(self).__name__}: get_lr is not defined.")

    def state_keys(self):
        """Sets ``self.keys``, the attributes that ``state_dict`` holds; subclasses override it."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self):
        """The attributes named by ``state_keys``."""
        self.state_keys()
        return {key: self.__dict__[key] for key in self.keys if key in self.__dict__}

    def set_state_dict(self, state_dict):
        """Continues from what ``state_dict`` gave. Raises RuntimeError when an entry is missing."""
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(f"{type(self).__name__}: the state dict has no {key!r}.")
            self.__dict__[key] = state_dict[key]
        if len(state_dict) > len(self.keys):
            warnings.warn(f"{type(self).__name__}: the state dict has entries that this scheduler lacks.",
                          stacklevel=2)

    set_dict = set_state_dict


class NoamDecay(LRScheduler):
    """lr d_model^-0.5 min(epoch^-0.5, epoch warmup_steps^-1.5); 0 at epoch 0."""

    def __init__(self, d_model, warmup_steps, learning_rate=1.0, last_epoch=-1, verbose=False):
        _need(d_model > 0, f"NoamDecay: d_model must be positive, got {d_model}.")
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        rising = self.warmup_steps ** -1.5 * self.last_epoch
        falling = 1.0 if self.last_epoch == 0 else self.last_epoch ** -0.5
        return self.base_lr * self.d_model ** -0.5 * min(falling, rising)


class PiecewiseDecay(LRScheduler):
    """values[i] up to boundaries[i], the last value after all of them."""

    def __init__(self, boundaries, values, last_epoch=-1, verbose=False):
        _need(len(boundaries) > 0, "PiecewiseDecay: boundaries must not be empty.")
        _need(len(values) > len(boundaries),
              f"PiecewiseDecay: one more value than boundaries is needed, got {len(values)} and "
              f"{len(boundaries)}.")
        self.boundaries, self.values = boundaries, values
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self):
        for boundary, value in zip(self.boundaries, self.values):
            if self.last_epoch < boundary:
                return value
        return self.values[len(self.values) - 1]


class NaturalExpDecay(LRScheduler):
    """lr exp(-gamma epoch)."""

    def __init__(self, learning_rate, gamma, last_epoch=-1, verbose=False):
        _need(gamma > 0.0, f"NaturalExpDecay: gamma must be positive, got {gamma}.")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * math.exp(-1 * self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """lr / (1 + gamma epoch)."""

    def __init__(self, learning_rate, gamma, last_epoch=-1, verbose=False):
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """From lr to ``end_lr`` over ``decay_steps`` along (1 - t)^power; ``cycle`` starts again, over more
    steps.
    """

    def __init__(self, learning_rate, decay_steps, end_lr=0.0001, power=1.0, cycle=False, last_epoch=-1,
                 verbose=False):
        _need(isinstance(decay_steps, int) and decay_steps > 0,
              f"PolynomialDecay: decay_steps must be a positive int, got {decay_steps!r}.")
        _need(power > 0.0, f"PolynomialDecay: power must be positive, got {power}.")
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        steps, epoch = self.decay_steps, self.last_epoch
        if self.cycle:
            steps = self.decay_steps * (1 if epoch == 0
                                        else math.ceil(float(epoch) / float(self.decay_steps)))
        else:
            epoch = min(epoch, self.decay_steps)
        return (self.base_lr - self.end_lr) * (1 - float(epoch) / float(steps)) ** self.power + self.end_lr


class LinearWarmup(LRScheduler):
    """From ``start_lr`` to ``end_lr`` in ``warmup_steps``, then ``learning_rate`` (a float or a
    scheduler).
    """

    def __init__(self, learning_rate, warmup_steps, start_lr, end_lr, last_epoch=-1, verbose=False):
        if not isinstance(learning_rate, (float, int, LRScheduler)):
            raise TypeError(f"LinearWarmup: learning_rate must be a float or an LRScheduler, "
                            f"got {type(learning_rate).__name__}.")
        _need(isinstance(warmup_steps, int) and warmup_steps > 0,
              f"LinearWarmup: warmup_steps must be a positive int, got {warmup_steps!r}.")
        _need(end_lr > start_lr, f"LinearWarmup: end_lr must exceed start_lr, got {end_lr} and {start_lr}.")
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.start_lr, self.end_lr = start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def state_dict(self):
        """The base's entries, and the wrapped scheduler's under 'LinearWarmup_LR'."""
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict):
        """Continues from what ``state_dict`` gave."""
        own = {key: value for key, value in state_dict.items() if key != "LinearWarmup_LR"}
        super().set_state_dict(own)
        if isinstance(self.learning_rate, LRScheduler) and "LinearWarmup_LR" in state_dict:
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])

    set_dict = set_state_dict

    def get_lr(self):
        if self.last_epoch < self.warmup_steps:
            rise = (self.end_lr - self.start_lr) * float(self.last_epoch)
            return rise / float(self.warmup_steps) + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return self.learning_rate


class ExponentialDecay(LRScheduler):
    """lr gamma^epoch."""

    def __init__(self, learning_rate, gamma, last_epoch=-1, verbose=False):
        _need(0.0 < gamma < 1.0, f"ExponentialDecay: gamma must be between 0 and 1, got {gamma}.")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.gamma ** self.last_epoch


class MultiStepDecay(LRScheduler):
    """lr gamma^(number of milestones passed)."""

    def __init__(self, learning_rate, milestones, gamma=0.1, last_epoch=-1, verbose=False):
        if not isinstance(milestones, (tuple, list)):
            raise TypeError(f"MultiStepDecay: milestones must be a list, got {type(milestones).__name__}.")
        _need(all(a < b for a, b in zip(milestones, milestones[1:])),
              f"MultiStepDecay: milestones must rise, got {list(milestones)}.")
        _need(gamma < 1.0, f"MultiStepDecay: gamma must be less than 1, got {gamma}.")
        self.milestones, self.gamma = milestones, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.gamma ** sum(self.last_epoch >= m for m in self.milestones)


class StepDecay(LRScheduler):
    """lr gamma^(epoch // step_size)."""

    def __init__(self, learning_rate, step_size, gamma=0.1, last_epoch=-1, verbose=False):
        if not isinstance(step_size, int):
            raise TypeError(f"StepDecay: step_size must be an int, got {type(step_size).__name__}.")
        _need(step_size > 0, f"StepDecay: step_size must be positive, got {step_size}.")
        _need(gamma < 1.0, f"StepDecay: gamma must be less than 1, got {gamma}.")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class LambdaDecay(LRScheduler):
    """lr lr_lambda(epoch)."""

    def __init__(self, learning_rate, lr_lambda, last_epoch=-1, verbose=False):
        if not callable(lr_lambda):
            raise TypeError(f"LambdaDecay: lr_lambda must be callable, got {type(lr_lambda).__name__}.")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(LambdaDecay):
    """lr lr_lambda(1) lr_lambda(2) ... lr_lambda(epoch)."""

    def get_lr(self):
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate *= self.lr_lambda(epoch)
        return rate


class ReduceOnPlateau(LRScheduler):
    """Multiplies the rate by ``factor`` when ``step(metrics)`` saw no better metric for ``patience``
    calls.
    """

    def __init__(self, learning_rate, mode="min", factor=0.1, patience=10, threshold=1e-4,
                 threshold_mode="rel", cooldown=0, min_lr=0, epsilon=1e-8, verbose=False):
        mode, threshold_mode = mode.lower(), threshold_mode.lower()
        _need(mode in ("min", "max"), f"ReduceOnPlateau: mode must be 'min' or 'max', got {mode!r}.")
        _need(factor < 1.0, f"ReduceOnPlateau: factor must be less than 1, got {factor}.")
        _need(threshold_mode in ("rel", "abs"),
              f"ReduceOnPlateau: threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}.")
        if not isinstance(learning_rate, (float, int)):
            raise TypeError("ReduceOnPlateau: learning_rate must be a float, got "
                            f"{type(learning_rate).__name__}.")
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.min_lr, self.epsilon, self.verbose = cooldown, min_lr, epsilon, verbose
        self.cooldown_counter = 0
        self.best = None
        self.num_bad_epochs = 0
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = 0
        self._var_name = None

    def state_keys(self):
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def step(self, metrics, epoch=None):
        """Looks at ``metrics``, a number or a tensor of one element (which is read), and moves on."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if hasattr(metrics, "numpy"):
            metrics = metrics.numpy()
        if hasattr(metrics, "size") and not isinstance(metrics, (int, float)):
            _need(metrics.size == 1, f"ReduceOnPlateau: metrics must hold one number, got {metrics.size}.")
            metrics = metrics.reshape(-1)[0].item()
        elif not isinstance(metrics, (int, float)):
            raise TypeError("ReduceOnPlateau: metrics must be a number or a tensor, got "
                            f"{type(metrics).__name__}.")
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best is None or self._is_better(metrics, self.best):
            self.best = metrics
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
            lower = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - lower > self.epsilon:
                self.last_lr = lower
                if self.verbose:
                    print(f"Epoch {self.last_epoch}: ReduceOnPlateau set learning rate to {self.last_lr}.")

    def _is_better(self, now, best):
        change = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return now < best - change if self.mode == "min" else now > best + change


class CosineAnnealingDecay(LRScheduler):
    """From lr to ``eta_min`` along half a cosine of length ``T_max``, and back up after it."""

    def __init__(self, learning_rate, T_max, eta_min=0, last_epoch=-1, verbose=False):
        if not isinstance(T_max, int):
            raise TypeError(f"CosineAnnealingDecay: T_max must be an int, got {type(T_max).__name__}.")
        _need(T_max > 0, f"CosineAnnealingDecay: T_max must be positive, got {T_max}.")
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        if self.last_epoch == 0:
            return self.base_lr
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            return self.last_lr + (self.base_lr - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return now / before * (self.last_lr - self.eta_min) + self.eta_min

    def _get_closed_form_lr(self):
        return self.eta_min + (self.base_lr - self.eta_min) * (
            1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from lr to ``eta_min``; the first takes T_0 epochs, each next one T_mult times as long."""

    def __init__(self, learning_rate, T_0, T_mult=1, eta_min=0, last_epoch=-1, verbose=False):
        _need(isinstance(T_0, int) and T_0 > 0,
              f"CosineAnnealingWarmRestarts: T_0 must be a positive int, got {T_0}.")
        _need(isinstance(T_mult, int) and T_mult >= 1,
              f"CosineAnnealingWarmRestarts: T_mult must be an int of at least 1, got {T_mult}.")
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min, self.T_cur = float(eta_min), last_epoch
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return self.eta_min + (self.base_lr - self.eta_min) * height / 2

    def step(self, epoch=None):
        """Moves on by one, or to ``epoch`` (which may be a fraction)."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            _need(epoch >= 0, f"CosineAnnealingWarmRestarts: epoch must be at least 0, got {epoch}.")
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self.last_lr = self.get_lr()
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def _place(self, epoch):
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
        else:
            turn = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult ** turn - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult ** turn


class LinearLR(LRScheduler):
    """lr times a factor that goes from ``start_factor`` to ``end_factor`` in ``total_steps``."""

    def __init__(self, learning_rate, total_steps, start_factor=1.0 / 3, end_factor=1.0, last_epoch=-1,
                 verbose=False):
        _need(0 < start_factor <= 1.0,
              f"LinearLR: start_factor must be above 0 and at most 1, got {start_factor}.")
        _need(0 <= end_factor <= 1.0, f"LinearLR: end_factor must be from 0 to 1, got {end_factor}.")
        _need(total_steps > 0, f"LinearLR: total_steps must be positive, got {total_steps}.")
        self.total_steps, self.start_factor, self.end_factor = total_steps, start_factor, end_factor
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self):
        if self.last_epoch == 0:
            return self.base_lr * self.start_factor
        if self.last_epoch > self.total_steps:
            return self.last_lr
        slope = self.end_factor - self.start_factor
        base = self.total_steps * self.start_factor
        return self.last_lr * (1.0 + slope / (base + (self.last_epoch - 1) * slope))

    def _get_closed_form_lr(self):
        share = min(self.total_steps, self.last_epoch) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share)


class OneCycleLR(LRScheduler):
    """Up to ``max_learning_rate`` and down to almost nothing in ``total_steps``, in two or three phases."""

    def __init__(self, max_learning_rate, total_steps, divide_factor=25.0, end_learning_rate=0.0001,
                 phase_pct=0.3, anneal_strategy="cos", three_phase=False, last_epoch=-1, verbose=False):
        _need(max_learning_rate >= 0,
              f"OneCycleLR: max_learning_rate must be at least 0, got {max_learning_rate}.")
        _need(end_learning_rate >= 0,
              f"OneCycleLR: end_learning_rate must be at least 0, got {end_learning_rate}.")
        _need(isinstance(total_steps, int) and total_steps > 0,
              f"OneCycleLR: total_steps must be a positive int, got {total_steps!r}.")
        _need(0 <= phase_pct <= 1, f"OneCycleLR: phase_pct must be from 0 to 1, got {phase_pct}.")
        _need(anneal_strategy in ("cos", "linear"),
              f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}.")
        first = max_learning_rate / float(divide_factor)
        self.total_steps, self.three_phase, self.anneal_strategy = total_steps, three_phase, anneal_strategy
        if three_phase:
            _need(phase_pct < 0.5 and int(phase_pct * total_steps) > 0,
                  f"OneCycleLR: with three_phase, phase_pct must be below 0.5, got {phase_pct}.")
            # Phases end one step before the next begins, hence the -1 and -2.
            self._step_config = [0, phase_pct * total_steps - 1, 2 * phase_pct * total_steps - 2,
                                 total_steps - 1, total_steps - 1]
            self._lr_config = [first, max_learning_rate, first, end_learning_rate]
        else:
            self._step_config = [0, phase_pct * total_steps - 1, total_steps - 1, total_steps - 1]
            self._lr_config = [first, max_learning_rate, end_learning_rate]
        super().__init__(first, last_epoch, verbose)

    def _anneal(self, start, end, share):
        if self.anneal_strategy == "cos":
            return end + (start - end) / 2.0 * (1 + math.cos(math.pi * share))
        return start + (end - start) * share

    def get_lr(self):
        now = self.last_epoch
        _need(now <= self.total_steps,
              f"OneCycleLR: stepped {now} times, but there are {self.total_steps} steps.")
        for number, (end, following) in enumerate(zip(self._step_config[1:], self._step_config[2:])):
            if now <= end or number == len(self._lr_config) - 2:
                start = self._step_config[number]
                share = (now - start) / (end - start)
                return self._anneal(self._lr_config[number], self._lr_config[number + 1], share)
        return self._lr_config[-1]


class CyclicLR(LRScheduler):
    """Up and down between two rates; the height of a cycle may shrink ('triangular2', 'exp_range',
    ``scale_fn``).
    """

    def __init__(self, base_learning_rate, max_learning_rate, step_size_up, step_size_down=None,
                 mode="triangular", exp_gamma=1.0, scale_fn=None, scale_mode="cycle", last_epoch=-1,
                 verbose=False):
        for what, value in (("base_learning_rate", base_learning_rate),
                            ("max_learning_rate", max_learning_rate)):
            if not isinstance(value, (float, int)):
                raise TypeError(f"CyclicLR: {what} must be a float, got {type(value).__name__}.")
            _need(value >= 0, f"CyclicLR: {what} must be at least 0, got {value}.")
        for what, value in (("step_size_up", step_size_up), ("step_size_down", step_size_down)):
            _need(value is None or (isinstance(value, int) and value > 0),
                  f"CyclicLR: {what} must be a positive int, got {value!r}.")
        _need(scale_fn is not None or mode in ("triangular", "triangular2", "exp_range"),
              f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', got {mode!r}.")
        _need(scale_mode in ("cycle", "iterations"),
              f"CyclicLR: scale_mode must be 'cycle' or 'iterations', got {scale_mode!r}.")
        down = step_size_up if step_size_down is None else step_size_down
        self.cycle_size = step_size_up + down
        self.step_up_pct = step_size_up / self.cycle_size
        self.max_lr, self.amplitude = float(max_learning_rate), max_learning_rate - base_learning_rate
        self.mode, self.gamma = mode, exp_gamma
        if scale_fn is not None:
            self.scale_fn, self.scale_mode = scale_fn, scale_mode
        else:
            self.scale_fn = {"triangular": lambda x: 1.0, "triangular2": lambda x: 1 / (2.0 ** (x - 1)),
                             "exp_range": lambda x: self.gamma ** x}[mode]
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self):
        iterations = self.last_epoch
        cycle = 1 + iterations // self.cycle_size
        place = 1.0 + iterations / self.cycle_size - cycle
        rising = place <= self.step_up_pct
        share = place / self.step_up_pct if rising else (1 - place) / (1 - self.step_up_pct)
        height = self.amplitude * share
        return self.base_lr + height * self.scale_fn(cycle if self.scale_mode == "cycle" else iterations)
