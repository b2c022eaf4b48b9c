# SPDX-License-Identifier: Apache-2.0
"""Optimizer room: finding which saved accumulator belongs to which parameter.

Files name accumulators ``<parameter name>_<accumulator>_<count>``, and parameter names depend on how many
layers the process had made before. So names are tried first, and then positions: the order of parameters is
that of the model.
"""
import re

import numpy as np

from .. import _core
from ..tensor import to_tensor

__all__ = ["match", "own_tensor"]

_NOT_ACCUMULATORS = ("master_weights", "LR_Scheduler", "StructuredToParameterName@@")


def own_tensor(value):
    """A tensor that no one else holds, with the value of a Tensor or array."""
    if isinstance(value, _core.Tensor):
        return value.detach().clone()
    return to_tensor(np.asarray(value))


def _shape(value):
    return list(getattr(value, "shape", np.shape(value)))


def _by_kind(optimizer, state_dict):
    """{accumulator: [(parameter name, value), ...]} in the order of the dict."""
    kinds = sorted({name for p in optimizer._parameter_list for name, _, _ in optimizer._accumulators(p)},
                   key=len, reverse=True)
    saved = {kind: [] for kind in kinds}
    for key, value in state_dict.items():
        if key in _NOT_ACCUMULATORS:
            continue
        for kind in kinds:
            hit = re.fullmatch(rf"(.+)_{re.escape(kind)}_\d+", key)
            if hit:
                saved[kind].append((hit.group(1), value))
                break
    return {kind: pairs for kind, pairs in saved.items() if pairs}


def _wanted_shape(optimizer, p, kind):
    shape = next(shape for name, _, shape in optimizer._accumulators(p) if name == kind)
    return list(p.shape) if shape is None else list(shape)


def _align(optimizer, names, shapes):
    """{saved parameter name: own parameter} by position; saved parameters may be fewer (some never had
    gradients).
    """
    result, own = {}, iter([p for p in optimizer._parameter_list if not p.stop_gradient])
    for name in names:
        for p in own:
            if shapes[name] == list(p.shape):
                result[name] = p
                break
        else:
            raise ValueError(f"set_state_dict: no parameter fits the saved state of {name}, got shape "
                             f"{shapes[name]}; "
                             "the parameters are "
                             f"{[(q.name, list(q.shape)) for q in optimizer._parameter_list][:8]}.")
    return result


def match(optimizer, state_dict):
    """({id(param): {accumulator: value}}, {id(param): float32 twin}) for the parameters of ``optimizer``."""
    saved = _by_kind(optimizer, state_dict)
    masters = dict(state_dict.get("master_weights") or {})
    full = [kind for kind in saved if any(name == kind and shape is None
                                          for p in optimizer._parameter_list[:1]
                                          for name, _, shape in optimizer._accumulators(p))]
    names, shapes = [], {}
    for kind in full or list(saved):
        for name, value in saved[kind]:
            if name not in shapes:
                names.append(name)
                shapes[name] = _shape(value)
    for name, value in masters.items():
        if name not in shapes:
            names.append(name)
            shapes[name] = _shape(value)
    own = {p.name: p for p in optimizer._parameter_list}
    if all(name in own for name in names):
        owner = {name: own[name] for name in names}
    else:
        owner = _align(optimizer, names, shapes)
    found = {}
    for kind, pairs in saved.items():
        for name, value in pairs:
            p = owner.get(name)
            if p is None:
                continue
            wanted = _wanted_shape(optimizer, p, kind)
            if _shape(value) != wanted:
                raise ValueError(f"set_state_dict: {kind} of {p.name} does not fit, got shape "
                                 f"{_shape(value)}; " f"expected {wanted}.")
            found.setdefault(id(p), {})[kind] = value
    return found, {id(owner[name]): value for name, value in masters.items() if name in owner}
