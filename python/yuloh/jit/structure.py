# SPDX-License-Identifier: Apache-2.0
"""Jit room: nested arguments and results as flat lists, and back."""
from .. import _core
from ..static import InputSpec

__all__ = ["flatten", "is_spec", "rebuild"]


def is_spec(value):
    """Whether it describes or is a tensor."""
    return isinstance(value, (InputSpec, _core.Tensor))


def flatten(value):
    """The leaves of nested lists, tuples and dicts, in order."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flatten(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flatten(item)]
    return [value]


def rebuild(value, leaves):
    """``value`` with its leaves replaced by the next ones of the iterator ``leaves``."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[rebuild(item, leaves) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)(rebuild(item, leaves) for item in value)
    if isinstance(value, dict):
        return {key: rebuild(item, leaves) for key, item in value.items()}
    return next(leaves)
