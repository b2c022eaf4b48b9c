# SPDX-License-Identifier: Apache-2.0
"""Error room: what a function written in Python says when it is given something that is no tensor.

Rows of the op table check their arguments in the core. Functions composed in Python notice a wrong argument only when
they touch an attribute it lacks; here that AttributeError becomes a TypeError naming function, argument and type.
"""

import functools
import inspect
import types

from ._core import Tensor


def guard(names, scope):
    """Replaces the Python functions ``names`` of the dict ``scope`` by guarded ones."""
    for name in names:
        if isinstance(scope.get(name), types.FunctionType):
            scope[name] = _guarded(scope[name])


def _guarded(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except AttributeError as error:
            text = _explanation(function, args, kwargs, error)
            if text is None:
                raise
            raise TypeError(text) from None

    return call


def _explanation(function, args, kwargs, error):
    """What to say if the object that lacks the attribute was an argument or an element of one, else None."""
    culprit = getattr(error, "obj", error)  # Python 3.9 does not tell
    if culprit is error or isinstance(culprit, Tensor):
        return None
    for name, value in inspect.signature(function).bind(*args, **kwargs).arguments.items():
        inner = isinstance(value, (list, tuple)) and any(v is culprit for v in value)
        if value is culprit or inner:
            what = f"argument `{name}` {'holds' if inner else 'has'} the wrong type"
            return f"{function.__name__}: {what}, got {type(culprit).__name__}; expected a Tensor."
    return None
