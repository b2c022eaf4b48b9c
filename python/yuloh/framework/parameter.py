# SPDX-License-Identifier: Apache-2.0
"""Framework room: ``Parameter``, a tensor that a layer owns and an optimizer updates, and how one is made.

A Parameter is a handle (of the core's Tensor type) on a storage cell; making one records an initialiser op,
nothing is computed until somebody reads.
"""
from .. import _core
from ..tensor import to_tensor
from . import unique_name
from .dtype import dtype_name, get_default_dtype
from .param_attr import ParamAttr

__all__ = ["EagerParamBase", "Parameter", "assign", "create_parameter", "make_parameter", "rebind"]


class Parameter(_core.Tensor):
    """Trainable tensor. ``Parameter(tensor)`` shares the tensor's storage cell.

    Attributes beyond Tensor's: ``trainable``, ``optimize_attr['learning_rate']`` (factor on the optimizer's
    rate), ``regularizer``, ``need_clip``, ``do_model_average``, ``is_distributed``.
    """

    def __init__(self, data=None, requires_grad=True, name=None):
        if data is None:
            data = to_tensor([], dtype=get_default_dtype())
        elif not isinstance(data, _core.Tensor):
            data = to_tensor(data)
        super().__init__(data)
        self.name = name or unique_name.generate("parameter.w")
        self.persistable = True
        self.stop_gradient = not requires_grad
        self.optimize_attr = {"learning_rate": 1.0}
        self.regularizer = None
        self.do_model_average = None
        self.need_clip = True
        self.is_distributed = False

    @property
    def trainable(self):
        """Whether the optimizer updates it; the opposite of ``stop_gradient``."""
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, value):
        if not isinstance(value, bool):
            raise ValueError(f"trainable: expected a bool, got {type(value).__name__}.")
        self.stop_gradient = not value

    @property
    def requires_grad(self):
        """The opposite of ``stop_gradient``."""
        return not self.stop_gradient

    @requires_grad.setter
    def requires_grad(self, value):
        self.stop_gradient = not value

    def __deepcopy__(self, memo):
        """A parameter of its own with the same value and attributes, under a name of its own."""
        twin = Parameter(self.detach().clone(), name=unique_name.generate(self.name + "_deepcopy"))
        for key in ("regularizer", "do_model_average", "need_clip", "is_distributed"):
            setattr(twin, key, getattr(self, key))
        twin.optimize_attr = dict(self.optimize_attr)
        twin.stop_gradient = self.stop_gradient
        memo[id(self)] = twin
        return twin

    def __reduce__(self):
        return _rebuild_parameter, (self.numpy(), dtype_name(self.dtype), self.stop_gradient, self.name)

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    __str__ = __repr__


EagerParamBase = Parameter


def _rebuild_parameter(array, dtype, stop_gradient, name):
    value = to_tensor(array)
    if dtype_name(value.dtype) != dtype:
        value = value.astype(dtype)
    return Parameter(value, requires_grad=not stop_gradient, name=name)


def make_parameter(attr, shape, dtype, is_bias, default_initializer, prefix):
    """New Parameter as ``attr`` wishes, or None where ``attr`` is False.

    The initializer is the first of: the attribute's, the global one, ``default_initializer``, Xavier uniform
    (0 for a bias). ``prefix`` leads its generated name: ``<prefix>.w_0`` or ``<prefix>.b_0``.
    """
    attr = ParamAttr._to_attr(attr)
    if attr is False:
        return None
    from ..nn import initializer as init
    chosen = attr.initializer or init._global(is_bias) or default_initializer
    if chosen is None:
        chosen = init.Constant(0.0) if is_bias else init.XavierUniform()
    shape = [shape] if isinstance(shape, int) else [int(n) for n in shape]
    if any(n < 0 for n in shape):
        raise ValueError(f"create_parameter: negative size in shape, got {shape}.")
    name = attr.name or unique_name.generate(f"{prefix}.{'b' if is_bias else 'w'}")
    value = chosen._make(shape, dtype_name(dtype or get_default_dtype()))
    result = Parameter(value, requires_grad=bool(attr.trainable), name=name)
    result.optimize_attr = {"learning_rate": attr.learning_rate}
    result.regularizer = attr.regularizer
    result.do_model_average = attr.do_model_average
    result.need_clip = attr.need_clip
    return result


def create_parameter(shape, dtype, name=None, attr=None, is_bias=False, default_initializer=None):
    """A parameter outside any layer; the initializer's default is Xavier uniform, 0 for a bias."""
    attr = ParamAttr._to_attr(attr)
    if name is not None and attr is not False and attr.name is None:
        attr = _with_name(attr, name)
    return make_parameter(attr, shape, dtype, is_bias, default_initializer,
                          unique_name.generate("create_parameter"))


def _with_name(attr, name):
    named = ParamAttr.__new__(type(attr))
    named.__dict__.update(vars(attr), name=name)
    return named


def rebind(tensor, other):
    """Lets the handle ``tensor`` stand for ``other``'s value, shape and dtype; who holds the handle sees the
    change.
    """
    tensor._rebind(other)


def assign(tensor, value):
    """Gives ``tensor`` (and every alias of it) the value of the Tensor ``value``; recorded, not run."""
    tensor._assign(value)
