# SPDX-License-Identifier: Apache-2.0
"""Optimizer room: the base class.

``step()`` records one in-place op per parameter and closes the step's graph; it runs nothing. The learning
rate and other settings go in as Python floats, which the core makes inputs of the plan: changing them
recompiles nothing.

Steps that must not happen (a loss scaler found inf, a clipped norm is not finite) are not branches: a bool
tensor ``skip`` goes into every update op, which then keeps the old values. After the step ran (``clear_grad``
or the next ``step``, when reading the flag costs no run of its own) a skip caused by clipping is reported
with the names of the parameters.
"""
import warnings
from collections import OrderedDict

from .. import _core
from ..framework import unique_name
from ..framework.dtype import dtype_name
from ..framework.kept import in_dry_run, keep
from ..framework.parameter import Parameter
from ..nn.layer.state import no_record
from ..regularizer import L2Decay, WeightDecayRegularizer
from . import state as saved_state
from .lr import LRScheduler

__all__ = ["Optimizer"]

_HALF = ("float16", "bfloat16")


def _decay(weight_decay, who):
    """Regularizer from None, a float (L2) or a regularizer."""
    if weight_decay is None or isinstance(weight_decay, WeightDecayRegularizer):
        return weight_decay
    if isinstance(weight_decay, (int, float)):
        return L2Decay(float(weight_decay))
    raise TypeError(f"{who}: weight_decay must be a float, a regularizer or None, got "
                    f"{type(weight_decay).__name__}.")


class Group:
    """Parameters with common settings; ``lr_factor`` multiplies the optimizer's learning rate."""

    __slots__ = ("clip", "decay", "lr_factor", "params", "settings")

    def __init__(self, params, lr_factor, decay, clip, settings):
        self.params, self.lr_factor = params, lr_factor
        self.decay, self.clip, self.settings = decay, clip, settings


class Optimizer:
    """Base class. A subclass names its accumulators and gives ``_update``.

    ``parameters`` is a list of Parameters, or of dicts {'params': [...], 'learning_rate': factor, ...} whose
    other keys override the optimizer's settings for the group. ``weight_decay`` is a float (L2) or a
    regularizer; a parameter's own regularizer comes before it.
    """

    # (name in saved files, first value or the name of the setting that is it, shape: None for the
    # parameter's)
    accumulators = ()

    def __init__(self, learning_rate, parameters=None, weight_decay=None, grad_clip=None, name=None):
        self._init(learning_rate, parameters, weight_decay, grad_clip, name)

    def _init(self, learning_rate, parameters, weight_decay, grad_clip, name, multi_precision=False,
              settings=None):
        who = type(self).__name__
        if not isinstance(learning_rate, (int, float, LRScheduler)):
            raise TypeError(f"{who}: learning_rate must be a float or an LRScheduler, "
                            f"got {type(learning_rate).__name__}.")
        if parameters is None:
            raise ValueError(f"{who}: parameters must be given. Hint: parameters=model.parameters().")
        if isinstance(parameters, (_core.Tensor, dict, str)):
            raise TypeError(f"{who}: parameters must be a list of Parameters, got "
                            f"{type(parameters).__name__}.")
        self._name = name
        scheduled = isinstance(learning_rate, LRScheduler)
        self._learning_rate = learning_rate if scheduled else float(learning_rate)
        self._grad_clip = grad_clip
        self.regularization = _decay(weight_decay, who)
        self._multi_precision = bool(multi_precision)
        self._settings = dict(settings or {})
        self._groups = []
        self._parameter_list = []
        parameters = list(parameters)
        if parameters and isinstance(parameters[0], dict):
            for group in parameters:
                self._add_param_group(group)
        else:
            self._add_param_group({"params": parameters})
        self._states = {}          # id(param) -> tuple of accumulators, in the order of ``accumulators``
        self._masters = {}         # id(param) -> float32 twin of a half-precision parameter
        self._skip_update = None   # bool tensor set by GradScaler for one step
        self._report = None        # ClipReport of a step that has not been looked at
        self._made_dry = in_dry_run()

    # ---- parameters ----------------------------------------------------------------------------------------
    def _add_param_group(self, group):
        """Adds parameters with settings of their own."""
        who = type(self).__name__
        group = dict(group)
        params = group.pop("params")
        params = [params] if isinstance(params, _core.Tensor) else list(params)
        known = {id(p) for p in self._parameter_list}
        for p in params:
            if not isinstance(p, _core.Tensor):
                raise TypeError(f"{who}: parameters must be Parameters, got {type(p).__name__}.")
            if id(p) in known:
                raise ValueError(f"{who}: parameter {p.name} is given twice.")
            known.add(id(p))
        decay = self.regularization
        if "weight_decay" in group and "weight_decay" not in self._settings:
            decay = _decay(group.pop("weight_decay"), who)
        clip = group.pop("grad_clip", self._grad_clip)
        settings = dict(self._settings)
        factor = group.pop("learning_rate", 1.0)
        settings.update(group)
        self._groups.append(Group(params, float(factor), decay, clip, settings))
        self._parameter_list.extend(params)

    @property
    def _param_groups(self):
        return self._parameter_list if len(self._groups) == 1 else [
            {"params": g.params, "learning_rate": g.lr_factor, **g.settings} for g in self._groups]

    # ---- learning rate -------------------------------------------------------------------------------------
    def get_lr(self):
        """The learning rate of the next step, a float."""
        rate = self._learning_rate
        return rate if isinstance(rate, float) else float(rate())

    def set_lr(self, value):
        """Sets a constant learning rate. Raises RuntimeError when a scheduler decides it."""
        if not isinstance(value, (int, float)):
            raise TypeError(f"set_lr: value must be a float, got {type(value).__name__}.")
        if isinstance(self._learning_rate, LRScheduler):
            raise RuntimeError("set_lr: the learning rate is set by a scheduler. Hint: set_lr_scheduler "
                               "replaces it.")
        self._learning_rate = float(value)

    def set_lr_scheduler(self, scheduler):
        """Lets ``scheduler`` decide the learning rate from now on."""
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(f"set_lr_scheduler: expected an LRScheduler, got {type(scheduler).__name__}.")
        self._learning_rate = scheduler

    # ---- the step ------------------------------------------------------------------------------------------
    def step(self):
        """Records the update of every parameter that has a gradient, and closes the step."""
        if self._report is not None:
            self._tell()
        rate = self.get_lr()
        with no_record():
            for group in self._groups:
                pairs = []
                for p in group.params:
                    if not p.stop_gradient:
                        grad = p.grad
                        if grad is not None:
                            pairs.append((p, grad))
                self._record_group(group, pairs, rate)
        self._skip_update = None
        _core.close_step()

    def _record_group(self, group, pairs, rate):
        if in_dry_run() and not self._made_dry:
            keep(self)
        skip = self._skip_update
        if group.clip is not None and pairs:
            pairs, report = group.clip.record(pairs)
            # A loss scaler looks for inf itself and skips silently, as it is meant to.
            if report is not None and skip is None:
                skip, self._report = report.bad, report
        decay, settings, states, update = group.decay, group.settings, self._states, self._update
        rate *= group.lr_factor
        masters = self._masters
        for p, grad in pairs:
            state = states.get(id(p))
            if state is None:
                state = self._make_state(p)
            lr, own = rate, decay
            if type(p) is Parameter:
                factor = p.optimize_attr["learning_rate"]
                if factor != 1.0:
                    lr *= factor
                own = p.regularizer or decay
            if masters and id(p) in masters:
                self._record_half(p, grad, state, lr, own, settings, skip)
                continue
            if own is not None:
                grad = grad + own.term(p)
            update(p, grad, state, lr, settings, skip, p)

    def _record_half(self, p, grad, state, lr, decay, settings, skip):
        """Updates the float32 twin of a half-precision parameter and rounds it into the parameter."""
        master = self._masters[id(p)]
        grad = grad.astype("float32")
        if decay is not None:
            grad = grad + decay.term(master)
        self._update(master, grad, state, lr, settings, skip, p)
        p._assign(master.astype(p.dtype))

    def _update(self, param, grad, state, lr, settings, skip, original):
        """Records the update of ``param`` (float32 twin included) and of its accumulators ``state``.

        ``original`` is the user's Parameter. With ``skip`` (bool tensor) true nothing may change.
        """
        raise NotImplementedError(f"{type(self).__name__}: _update is not defined.")

    # ---- accumulators --------------------------------------------------------------------------------------
    def _accumulators(self, param):
        """(name, first value, shape) of each accumulator of ``param``."""
        return self.accumulators

    def _make_state(self, p, given=None, master=None):
        """Accumulators of ``p``, from ``given`` (name -> tensor) where it has them."""
        import yuloh
        half = dtype_name(p.dtype) in _HALF
        dtype = "float32" if half and self._multi_precision else dtype_name(p.dtype)
        settings = next(g.settings for g in self._groups if any(q is p for q in g.params))
        state = []
        for name, value, shape in self._accumulators(p):
            value = settings[value] if isinstance(value, str) else value
            if given is not None and name in given:
                tensor = given[name]
            else:
                # beta powers are kept in float32 whatever the parameter's dtype: 0.999 has no half-precision
                # twin.
                kind = "float32" if shape is not None and half else dtype
                tensor = yuloh.full(list(p.shape) if shape is None else shape, value, dtype=kind)
            tensor.name = unique_name.generate(f"{p.name}_{name}")
            tensor.persistable = True
            state.append(tensor)
        state = self._states[id(p)] = tuple(state)
        if half and self._multi_precision:
            twin = p.detach().astype("float32") if master is None else master
            twin.name = unique_name.generate(p.name + "_fp32_master")
            self._masters[id(p)] = twin
        return state

    # ---- around the step -----------------------------------------------------------------------------------
    def clear_grad(self, set_to_zero=True):
        """Drops the gradients, then runs what is pending. ``set_to_zero`` changes nothing: a dropped gradient
        is 0.
        """
        for p in self._parameter_list:
            p.grad = None
        _core.run_pending()
        if self._report is not None:
            self._tell()

    clear_gradients = clear_grad

    def zero_grad(self, set_to_none=True):
        """torch's spelling of ``clear_grad``."""
        self.clear_grad(not set_to_none)

    def _tell(self):
        """Says which parameters had no finite gradient norm in the last step, if it was skipped for that."""
        report, self._report = self._report, None
        if bool(report.bad):
            warnings.warn(f"{type(self).__name__}: the step was skipped for all parameters: "
                          f"{report.message()}. "
                          "Hint: look at the loss, lower the learning rate, or use amp.GradScaler in mixed "
                          "precision.", RuntimeWarning, stacklevel=3)

    def backward(self, loss, startup_program=None, parameters=None, no_grad_set=None, callbacks=None):
        """(parameter, gradient) pairs; the gradients are those of ``loss.backward()``, called before."""
        chosen = self._parameter_list if parameters is None else parameters
        return [(p, p.grad) for p in chosen if not p.stop_gradient and p.grad is not None]

    def apply_gradients(self, params_grads):
        """Records the update from the given (parameter, gradient) pairs."""
        given = {id(p): g for p, g in params_grads}
        rate = self.get_lr()
        with no_record():
            for group in self._groups:
                self._record_group(group, [(p, given[id(p)]) for p in group.params if id(p) in given], rate)
        _core.close_step()
        return []

    def minimize(self, loss, startup_program=None, parameters=None, no_grad_set=None):
        """One step from the gradients of ``loss.backward()``; returns ([], (parameter, gradient) pairs)."""
        if not isinstance(loss, _core.Tensor):
            raise TypeError(f"minimize: loss must be a Tensor, got {type(loss).__name__}.")
        pairs = self.backward(loss, startup_program, parameters, no_grad_set)
        self.apply_gradients(pairs)
        return [], pairs

    def append_regularization_ops(self, parameters_and_grads, regularization=None):
        """Pairs with each gradient's penalty added."""
        result = []
        for p, g in parameters_and_grads:
            own = getattr(p, "regularizer", None) or regularization
            result.append((p, g if g is None or own is None else g + own.term(p)))
        return result

    # ---- state ---------------------------------------------------------------------------------------------
    def state_dict(self):
        """Accumulators by Paddle's names, 'master_weights' and 'LR_Scheduler' where there are any."""
        result = OrderedDict()
        made = [(p, self._states[id(p)]) for p in self._parameter_list if id(p) in self._states]
        for place in range(max((len(state) for _, state in made), default=0)):
            for p, state in made:
                if place < len(state):
                    result[state[place].name] = state[place]
        if self._masters:
            result["master_weights"] = OrderedDict((p.name, self._masters[id(p)])
                                                   for p in self._parameter_list if id(p) in self._masters)
        if isinstance(self._learning_rate, LRScheduler):
            result["LR_Scheduler"] = self._learning_rate.state_dict()
        return dict(result)

    def set_state_dict(self, state_dict):
        """Loads what ``state_dict`` gave, of this optimizer or of one over a model of the same structure.

        Names are tried first; where they belong to another model, accumulators are taken in the order of the
        parameters and must fit in shape (trap B41). The given dict is not changed. Raises ValueError when it
        does not fit.
        """
        if isinstance(self._learning_rate, LRScheduler) and "LR_Scheduler" in state_dict:
            self._learning_rate.set_state_dict(state_dict["LR_Scheduler"])
        found, masters = saved_state.match(self, state_dict)
        with no_record():
            for p in self._parameter_list:
                if id(p) in found:
                    self._take_state(p, found[id(p)], masters.get(id(p)))

    set_dict = load_state_dict = set_state_dict

    def _take_state(self, p, given, master):
        copied = {name: saved_state.own_tensor(value) for name, value in given.items()}
        old = self._states.get(id(p))
        if old is None:
            self._make_state(p, copied, None if master is None else saved_state.own_tensor(master))
            return
        for tensor, (name, _, _) in zip(old, self._accumulators(p)):
            if name in copied:
                tensor._assign(copied[name])
        if master is not None and id(p) in self._masters:
            self._masters[id(p)]._assign(saved_state.own_tensor(master))

    def get_opti_var_name_list(self):
        """Names of all accumulators made so far."""
        return [tensor.name for state in self._states.values() for tensor in state]


# ---- helpers of the subclasses -----------------------------------------------------------------------------
_no_skip_argument = set()


def record_update(op, tensors, arguments, skip):
    """Records the in-place table op ``op`` on ``tensors``; with ``skip`` true they keep their values."""
    if skip is None:
        return op(*tensors, *arguments)
    if op not in _no_skip_argument:
        try:
            return op(*tensors, *arguments, skip_update=skip)
        except TypeError:
            _no_skip_argument.add(op)
    # The gradient stands second and is only read.
    changing = [t for number, t in enumerate(tensors) if number != 1]
    before = [t.detach().clone() for t in changing]
    op(*tensors, *arguments)
    for tensor, old in zip(changing, before):
        select(skip, old, tensor.detach(), tensor)


def select(skip, old, new, target):
    """Gives ``target`` the value ``new``, or ``old`` where ``skip`` (None: never)."""
    import yuloh
    target._assign(new if skip is None else yuloh.where(skip, old, new))
