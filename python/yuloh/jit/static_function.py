# SPDX-License-Identifier: Apache-2.0
"""Jit room: ``to_static``, the mark on a function that may be saved as a program."""
import functools
import inspect

from .. import _core
from ..nn import Layer
from .structure import flatten, is_spec

__all__ = ["StaticFunction", "enable_to_static", "ignore_module", "not_to_static", "set_code_level",
           "set_verbosity", "to_static"]

_enabled = True


class StaticFunction:
    """A function or method that can be saved. Calling it runs the function: tensors are lazy, so what it records is
    one graph either way, and Python ``if`` and ``while`` over tensors behave as written.

    Attributes: ``function`` (the plain function), ``input_spec``, ``code``.
    """

    def __init__(self, function, input_spec=None, instance=None):
        if input_spec is not None and not isinstance(input_spec, (list, tuple)):
            raise TypeError("to_static: input_spec must be a list or tuple of InputSpec, got "
                            f"{type(input_spec).__name__}.")
        functools.update_wrapper(self, function)
        self._function, self._instance = function, instance
        self._input_spec = input_spec
        self._seen = None  # arguments of the last call: what `save` without input_spec takes

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        name = self._function.__name__
        bound = instance.__dict__.get("_static_functions", {}).get(name)
        if bound is None:
            bound = StaticFunction(self._function, self._input_spec, instance)
            instance.__dict__.setdefault("_static_functions", {})[name] = bound
        return bound

    def __call__(self, *args, **kwargs):
        if _enabled:
            self._seen = (args, kwargs)
            if self._input_spec is not None:
                self._check(args, kwargs)
        return self.plain(*args, **kwargs)

    def plain(self, *args, **kwargs):
        """The function itself."""
        if self._instance is not None:
            return self._function(self._instance, *args, **kwargs)
        return self._function(*args, **kwargs)

    def _check(self, args, kwargs):
        given = flatten(list(self.arguments(args, kwargs).values()))
        wanted = flatten(list(self._input_spec))
        for spec, value in zip(wanted, given):
            if is_spec(spec) and isinstance(value, _core.Tensor):
                shape = list(spec.shape)
                if len(shape) != value.ndim or any(n not in (-1, None, m) for n, m in zip(shape, value.shape)):
                    raise ValueError(f"to_static: an argument of {self.__name__} does not fit its InputSpec, got "
                                     f"shape {list(value.shape)}; expected {shape}.")

    def arguments(self, args, kwargs):
        """{name: value} of a call, without ``self``."""
        target = self._function
        if self._instance is not None:
            target = functools.partial(self._function, self._instance)
        try:
            bound = inspect.signature(target).bind(*args, **kwargs)
        except ValueError:
            return dict(enumerate(args))
        result = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                result.update({f"{name}_{i}": v for i, v in enumerate(value)})
            elif kind is inspect.Parameter.VAR_KEYWORD:
                result.update(value)
            else:
                result[name] = value
        return result

    @property
    def function(self):
        """The plain function (``dygraph_function`` is its Paddle name)."""
        return self._function

    dygraph_function = function

    @property
    def input_spec(self):
        """As given, or None."""
        return self._input_spec

    _function_spec = input_spec

    @property
    def code(self):
        """Source of the function: nothing is rewritten."""
        return inspect.getsource(self._function)

    def rollback(self):
        """Takes the mark off: the plain (bound) function, put back into its layer."""
        plain = self._function if self._instance is None else self._function.__get__(self._instance)
        if self._instance is not None:
            self._instance.__dict__.get("_static_functions", {}).pop(self._function.__name__, None)
            if self._instance.__dict__.get(self._function.__name__) is self:
                del self._instance.__dict__[self._function.__name__]
        return plain

    def concrete_program_specify_input_spec(self, input_spec=None, **_):
        """The program for these specs (or its own)."""
        from .save_load import program_of
        return program_of(self, input_spec)

    @property
    def concrete_program(self):
        """The program for its own specs, or the arguments of its last call."""
        return self.concrete_program_specify_input_spec()

    def __repr__(self):
        return f"<StaticFunction {getattr(self, '__qualname__', self._function)}>"


def to_static(function=None, input_spec=None, build_strategy=None, backend="CINN", **kwargs):
    """Marks a function, method or Layer (its ``forward``) as one that ``paddle.jit.save`` can save.

    ``input_spec``: list of InputSpec; None in a shape is an open size. ``build_strategy``, ``backend`` and
    ``full_graph`` are accepted and change nothing: every graph is compiled by the one engine.
    """
    unknown = set(kwargs) - {"full_graph", "property"}
    if unknown:
        raise TypeError(f"to_static: unknown argument {sorted(unknown)[0]!r}.")

    def mark(target):
        if isinstance(target, Layer):
            forward = target.forward
            if isinstance(forward, StaticFunction):
                if input_spec is not None:
                    forward._input_spec = input_spec
                return target
            object.__setattr__(target, "forward", StaticFunction(type(target).forward, input_spec, target))
            return target
        if isinstance(target, StaticFunction):
            if input_spec is not None:
                target._input_spec = input_spec
            return target
        if inspect.ismethod(target):
            return StaticFunction(target.__func__, input_spec, target.__self__)
        if not callable(target):
            raise TypeError("to_static: expected a function, a method or a Layer, got "
                            f"{type(target).__name__}.")
        return StaticFunction(target, input_spec)

    return mark if function is None else mark(function)


def not_to_static(func=None):
    """Marks a function as one that is left alone; every function is, so it comes back as it is."""
    return (lambda f: f) if func is None else func


def ignore_module(modules):
    """Accepted: no module's code is rewritten, so there is nothing to leave out."""


def enable_to_static(enable_to_static_bool):
    """False: functions marked by ``to_static`` are plain ones until it is switched on again."""
    global _enabled
    if not isinstance(enable_to_static_bool, bool):
        raise TypeError(f"enable_to_static: expected a bool, got {type(enable_to_static_bool).__name__}.")
    _enabled = enable_to_static_bool


def set_code_level(level=100, also_to_stdout=False):
    """Accepted: there is no rewritten code to print."""


def set_verbosity(level=0, also_to_stdout=False):
    """Accepted: recording has no log."""
