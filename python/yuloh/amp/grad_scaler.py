# SPDX-License-Identifier: Apache-2.0
"""Mixed-precision room: loss scaling.

Scale, counters and "a gradient is not finite" are tensors of the step's graph. A step that must not happen is
not a branch: the flag goes into every update op, which then keeps the old values; the new scale is selected
the same way. So one plan serves every step, whatever was found. The Python attributes read values only when
somebody asks.
"""
import enum

from .. import _core
from ..framework.dtype import dtype_name
from ..framework.kept import in_dry_run, keep
from ..nn.layer.state import no_record

__all__ = ["AmpScaler", "GradScaler", "OptimizerState"]


class OptimizerState(enum.Enum):
    """Where an optimizer stands between two ``update`` calls."""

    INIT = 0
    UNSCALED = 1
    STEPPED = 2


class AmpScaler:
    """Multiplies the loss before ``backward``, divides the gradients before the step, skips steps with inf or
    NaN.

    With ``use_dynamic_loss_scaling`` the factor grows by ``incr_ratio`` after ``incr_every_n_steps`` good
    steps in a row and shrinks by ``decr_ratio`` after ``decr_every_n_nan_or_inf`` bad ones.
    """

    def __init__(self, enable=True, init_loss_scaling=65536.0, incr_ratio=2.0, decr_ratio=0.5,
                 incr_every_n_steps=2000, decr_every_n_nan_or_inf=1, use_dynamic_loss_scaling=True):
        self._enable = bool(enable)
        if incr_ratio <= 1.0:
            raise ValueError(f"GradScaler: incr_ratio must exceed 1, got {incr_ratio}.")
        if not 0.0 < decr_ratio < 1.0:
            raise ValueError(f"GradScaler: decr_ratio must be between 0 and 1, got {decr_ratio}.")
        if init_loss_scaling <= 0:
            raise ValueError(f"GradScaler: init_loss_scaling must be positive, got {init_loss_scaling}.")
        self._init_loss_scaling = float(init_loss_scaling)
        self._incr_ratio, self._decr_ratio = float(incr_ratio), float(decr_ratio)
        self._incr_every_n_steps = int(incr_every_n_steps)
        self._decr_every_n_nan_or_inf = int(decr_every_n_nan_or_inf)
        self._use_dynamic_loss_scaling = bool(use_dynamic_loss_scaling)
        self._found = None     # bool tensor []: a gradient of this round is not finite
        self._states = {}      # id(optimizer) -> (OptimizerState, its found flag)
        self._made_dry = in_dry_run()
        if self._enable:
            self._scale = self._number(self._init_loss_scaling)
            self._good, self._bad = self._number(0.0), self._number(0.0)

    @staticmethod
    def _number(value):
        import yuloh
        return yuloh.full([], float(value), dtype="float32")

    def _keep(self):
        """In a dry run: the state from before it comes back after it."""
        if in_dry_run() and not self._made_dry:
            keep(self)

    # ---- the round: scale, unscale_, step, update ----------------------------------------------------------
    def scale(self, var):
        """``var`` times the scale, recorded."""
        if not isinstance(var, _core.Tensor):
            raise TypeError(f"GradScaler: scale expects a Tensor, got {type(var).__name__}.")
        if not self._enable:
            return var
        name = dtype_name(var.dtype)
        return var * (self._scale if name == "float32" else self._scale.astype(name))

    def unscale_(self, optimizer):
        """Divides the gradients of ``optimizer``'s parameters by the scale and looks for inf and NaN."""
        if not self._enable:
            return
        state = self._states.get(id(optimizer), (OptimizerState.INIT, None))[0]
        if state is not OptimizerState.INIT:
            done = "unscaled" if state is OptimizerState.UNSCALED else "stepped"
            raise RuntimeError(f"GradScaler: this optimizer was {done} already since the last update(). "
                               "Hint: call unscale_ once, before step.")
        self._keep()
        chosen = [p for p in optimizer._parameter_list if not p.stop_gradient and p.grad is not None]
        with no_record():
            found = self._unscale(chosen)
            if found is not None:
                import yuloh
                self._found = found if self._found is None else yuloh.logical_or(self._found, found)
        self._states[id(optimizer)] = (OptimizerState.UNSCALED, found)

    def _unscale(self, params):
        """Unscaled gradients go into ``params``; returns the flag, None without gradients."""
        import yuloh
        if not params:
            return None
        grads = [p.grad for p in params]
        op = getattr(_core.ops, "check_finite_and_unscale_", None)
        if op is not None:
            return op(grads, self._scale)
        factor = 1.0 / self._scale
        finite = []
        for p, grad in zip(params, grads):
            finite.append(yuloh.all(yuloh.isfinite(grad)))
            name = dtype_name(grad.dtype)
            p.grad = grad * (factor if name == "float32" else factor.astype(name))
        return yuloh.logical_not(yuloh.all(yuloh.stack(finite)))

    def step(self, optimizer):
        """``optimizer.step()``, which keeps the old values where a gradient is not finite."""
        if not self._enable:
            return optimizer.step()
        state, found = self._states.get(id(optimizer), (OptimizerState.INIT, None))
        if state is OptimizerState.STEPPED:
            raise RuntimeError("GradScaler: step was called already since the last update().")
        if state is OptimizerState.INIT:
            self.unscale_(optimizer)
            found = self._states[id(optimizer)][1]
        self._keep()
        if in_dry_run() and not optimizer._made_dry:
            keep(optimizer)
        optimizer._skip_update = found
        optimizer.step()
        self._states[id(optimizer)] = (OptimizerState.STEPPED, found)

    def update(self):
        """Records the scale of the next round."""
        if not self._enable:
            return
        self._keep()
        if self._use_dynamic_loss_scaling and self._found is not None:
            # The new scale belongs to the step that was just closed: one plan for both.
            closed = _core.reopen_step()
            with no_record():
                self._record_update(self._found)
            if closed:
                _core.close_step()
        self._last_found, self._found = self._found, None
        self._states.clear()

    def _record_update(self, found):
        import yuloh
        zero = yuloh.zeros_like(self._good)
        good = yuloh.where(found, zero, self._good + 1.0)
        bad = yuloh.where(found, self._bad + 1.0, zero)
        shrink = yuloh.logical_and(found, bad >= float(self._decr_every_n_nan_or_inf))
        grow = yuloh.logical_and(yuloh.logical_not(found), good >= float(self._incr_every_n_steps))
        larger = self._scale * self._incr_ratio
        larger = yuloh.where(yuloh.isfinite(larger), larger, self._scale)
        smaller = yuloh.clip(self._scale * self._decr_ratio, min=1e-30)
        self._scale = yuloh.where(shrink, smaller, yuloh.where(grow, larger, self._scale))
        self._good, self._bad = yuloh.where(grow, zero, good), yuloh.where(shrink, zero, bad)

    def minimize(self, optimizer, *args, **kwargs):
        """``step`` and ``update`` in one; the scaled loss that Paddle takes is not needed."""
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        self.step(optimizer)
        self.update()
        return [], [(p, p.grad) for p in optimizer._parameter_list if p.grad is not None]

    # ---- what was found, read on request -------------------------------------------------------------------
    @property
    def _found_inf(self):
        """Whether a gradient of this round (or, after update, of the last one) was not finite; reads it."""
        found = self._found if self._found is not None else getattr(self, "_last_found", None)
        return bool(found) if found is not None else False

    @property
    def _incr_count(self):
        return int(self._good.item())

    @property
    def _decr_count(self):
        return int(self._bad.item())

    # ---- settings ------------------------------------------------------------------------------------------
    def is_enable(self):
        """Whether the scaler does anything."""
        return self._enable

    def is_use_dynamic_loss_scaling(self):
        """Whether the scale adapts."""
        return self._use_dynamic_loss_scaling

    def get_init_loss_scaling(self):
        """The scale at start."""
        return self._init_loss_scaling

    def set_init_loss_scaling(self, new_init_loss_scaling):
        """Sets the scale now and at start."""
        self._init_loss_scaling = float(new_init_loss_scaling)
        self._scale = self._number(self._init_loss_scaling)

    def get_incr_ratio(self):
        """Factor of growth."""
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio):
        """Sets the factor of growth, above 1."""
        if new_incr_ratio <= 1.0:
            raise ValueError(f"GradScaler: incr_ratio must exceed 1, got {new_incr_ratio}.")
        self._incr_ratio = float(new_incr_ratio)

    def get_decr_ratio(self):
        """Factor of shrinking."""
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio):
        """Sets the factor of shrinking, between 0 and 1."""
        if not 0.0 < new_decr_ratio < 1.0:
            raise ValueError(f"GradScaler: decr_ratio must be between 0 and 1, got {new_decr_ratio}.")
        self._decr_ratio = float(new_decr_ratio)

    def get_incr_every_n_steps(self):
        """Good steps before growth."""
        return self._incr_every_n_steps

    def set_incr_every_n_steps(self, new_incr_every_n_steps):
        """Sets the good steps before growth."""
        self._incr_every_n_steps = int(new_incr_every_n_steps)

    def get_decr_every_n_nan_or_inf(self):
        """Bad steps before shrinking."""
        return self._decr_every_n_nan_or_inf

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf):
        """Sets the bad steps before shrinking."""
        self._decr_every_n_nan_or_inf = int(new_decr_every_n_nan_or_inf)

    # ---- state ---------------------------------------------------------------------------------------------
    def state_dict(self):
        """Settings, counters and the scale (an array of one element); empty when disabled."""
        if not self._enable:
            return {}
        return {"scale": self._scale.numpy().reshape(1), "incr_ratio": self._incr_ratio,
                "decr_ratio": self._decr_ratio, "incr_every_n_steps": self._incr_every_n_steps,
                "decr_every_n_nan_or_inf": self._decr_every_n_nan_or_inf, "incr_count": self._incr_count,
                "decr_count": self._decr_count, "use_dynamic_loss_scaling": self._use_dynamic_loss_scaling}

    def load_state_dict(self, state_dict):
        """Continues from what ``state_dict`` gave."""
        if not self._enable:
            return
        if not state_dict:
            raise RuntimeError("GradScaler: the state dict is empty. Hint: it may come from a disabled "
                               "GradScaler.")
        scale = state_dict["scale"]
        self._scale = self._number(float(scale.reshape([-1])[0]) if hasattr(scale, "reshape")
                                   else float(scale))
        self._init_loss_scaling = float(self._scale.item())
        for key in ("incr_ratio", "decr_ratio", "incr_every_n_steps", "decr_every_n_nan_or_inf",
                    "use_dynamic_loss_scaling"):
            setattr(self, "_" + key, state_dict[key])
        self._good = self._number(state_dict["incr_count"])
        self._bad = self._number(state_dict["decr_count"])

    set_state_dict = load_state_dict


class GradScaler(AmpScaler):
    """Loss scaling for mixed precision: ``scaler.scale(loss).backward(); scaler.step(opt);
    scaler.update()``.
    """
