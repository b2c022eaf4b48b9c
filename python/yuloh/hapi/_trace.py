# SPDX-License-Identifier: Apache-2.0
"""One forward pass with a hook on every leaf layer, for summary and flops. Nothing is computed: shapes
are enough.
"""

from __future__ import annotations

from typing import Any, Callable

_WHOLE = ("LSTM", "GRU", "SimpleRNN")  # counted as one layer though they hold cells


def leaves(net: Any) -> list:
    """The layers that do the work: those without sublayers, and recurrent layers as a whole."""
    found, inside = [], set()
    for layer in [net, *net.sublayers()]:
        if id(layer) in inside:
            continue
        if type(layer).__name__ in _WHOLE:
            inside.update(id(child) for child in layer.sublayers())
            found.append(layer)
        elif not layer.sublayers():
            found.append(layer)
    return found


def run(net: Any, inputs: Any, hook: Callable) -> None:
    """Call ``hook(layer, inputs, output)`` for every leaf during one forward pass in eval mode."""
    import yuloh

    handles = [layer.register_forward_post_hook(hook) for layer in leaves(net)]
    states = [(layer, layer.training) for layer in [net, *net.sublayers()]]
    net.eval()
    try:
        with yuloh.no_grad():
            net(**inputs) if isinstance(inputs, dict) else net(*inputs)
    finally:
        for handle in handles:
            handle.remove()
        for layer, training in states:
            layer.training = training


def shape_of(value: Any) -> Any:
    """Nested lists of shapes."""
    if isinstance(value, (list, tuple)):
        return [shape_of(v) for v in value]
    return [int(s) for s in value.shape] if hasattr(value, "shape") else []


def size_of(shape: Any) -> int:
    """Number of elements behind nested shapes."""
    if shape and isinstance(shape[0], list):
        return sum(size_of(s) for s in shape)
    total = 1
    for extent in shape:
        total *= extent
    return total


def own_parameters(layer: Any) -> list:
    """(tensor, trainable) of a layer and what lies below it, running statistics included, as Paddle
    counts.
    """
    found: dict = {}
    for part in [layer, *layer.sublayers()]:
        for parameter in part._parameters.values():
            if parameter is not None:
                found[id(parameter)] = (parameter, not parameter.stop_gradient)
        for name, buffer in getattr(part, "_buffers", {}).items():
            if buffer is not None and name in ("_mean", "_variance"):
                found.setdefault(id(buffer), (buffer, False))
    return list(found.values())


def numel(tensor: Any) -> int:
    return size_of([int(s) for s in tensor.shape])
