# SPDX-License-Identifier: Apache-2.0
"""Fleet room: ``recompute``, memory for time: a function's intermediate results are not kept for the backward pass.

The core takes the part of the graph that the function recorded, keeps what goes into it, and records it once more
when gradients are built (src/grad/recompute.cpp): same nodes, same random numbers, same bits.
"""
import copy

from ... import _core

__all__ = ["recompute", "recompute_sequential"]

_kept = False  # advice plans the same step with everything kept


def recompute(function, *args, use_reentrant=True, preserve_rng_state=True, offload_indices=None, **kwargs):
    """``function(*args, **kwargs)``, whose intermediate results are computed again in the backward pass.

    Parameters that the function uses get their gradients as ever. It runs once: what it prints or counts
    happens once, running statistics are updated once, random numbers are drawn once. ``use_reentrant`` and
    ``preserve_rng_state`` are accepted; both ways of Paddle's come out the same here. ``offload_indices`` is
    not supported (ValueError). Gradients of gradients through it raise NotImplementedError.
    """
    if offload_indices:
        raise ValueError(f"recompute: offload to host memory is not supported, got offload_indices={offload_indices!r}.")
    if not callable(function):
        raise TypeError(f"recompute: function must be callable, got {type(function).__name__}.")
    if _kept or not _core.grad_enabled():
        return function(*args, **kwargs)
    mark = _core.recompute_begin()
    try:
        outputs = function(*args, **kwargs)
        found = []
        _collect(outputs, found)
    except BaseException:
        _core.recompute_end(mark, None)
        raise
    made = iter(_core.recompute_end(mark, found))
    return _replaced(outputs, made)


def recompute_sequential(ctx, functions, *args, **kwargs):
    """Applies the layers of ``functions`` in ``ctx["segments"]`` (1) recomputed parts of equal length.

    The last part keeps its results, as in Paddle: its backward pass comes first. ``ctx["preserve_rng_state"]`` is accepted.
    """
    settings = dict(ctx or {})
    segments = settings.get("segments", 1)
    if not isinstance(segments, int) or segments < 1:
        raise ValueError(f"recompute_sequential: segments must be a positive int, got {segments!r}.")
    layers = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = max(1, len(layers) // segments)

    def run(first, last):
        def forward(*values):
            for layer in layers[first:last]:
                values = layer(*values)
                values = values if isinstance(values, tuple) else (values,)
            return values if len(values) > 1 else values[0]
        return forward

    end = 0
    for first in range(0, size * (segments - 1), size):
        end = first + size
        args = recompute(run(first, end), *args, **kwargs)
        args = args if isinstance(args, tuple) else (args,)
    return run(end, len(layers))(*args)


def _collect(value, found):
    if isinstance(value, _core.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, found)


def _replaced(value, made):
    if isinstance(value, _core.Tensor):
        return next(made)
    if isinstance(value, dict):
        new = copy.copy(value)  # keeps what else belongs to its type, as the factory of a defaultdict
        for key, item in value.items():
            new[key] = _replaced(item, made)
        return new
    if isinstance(value, (list, tuple)):
        items = [_replaced(v, made) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
