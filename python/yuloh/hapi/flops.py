# SPDX-License-Identifier: Apache-2.0
"""paddle.flops: multiply-adds of one forward pass, counted from shapes as Paddle counts them."""

from __future__ import annotations

from typing import Any, Callable

from . import _trace


def _conv(layer: Any, args: Any, out: Any) -> int:
    kernel = _trace.size_of([int(s) for s in layer.weight.shape[2:]])
    per_output = kernel * layer._in_channels // layer._groups + (0 if layer.bias is None else 1)
    return _trace.numel(out) * per_output


def _linear(layer: Any, args: Any, out: Any) -> int:
    return _trace.numel(out) * int(layer.weight.shape[0])


def _norm(layer: Any, args: Any, out: Any) -> int:
    return 2 * _trace.numel(args[0])


def _adaptive(layer: Any, args: Any, out: Any) -> int:
    area = 1
    for before, after in zip(args[0].shape[2:], out.shape[2:]):
        area *= int(before) // int(after)
    return (area + 1) * _trace.numel(out)


def _elements(layer: Any, args: Any, out: Any) -> int:
    return _trace.numel(out)


def _nothing(layer: Any, args: Any, out: Any) -> int:
    return 0


_RULES: dict = {
    **dict.fromkeys(
        ["Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"], _conv
    ),
    **dict.fromkeys(["BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D"], _norm),
    **dict.fromkeys(["AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D"], _adaptive),
    **dict.fromkeys(["AvgPool1D", "AvgPool2D", "AvgPool3D", "LeakyReLU"], _elements),
    **dict.fromkeys(["ReLU", "ReLU6", "Dropout"], _nothing),
    "Linear": _linear,
}


def flops(net: Any, input_size: Any, custom_ops: "dict | None" = None, print_detail: bool = False) -> int:
    """Multiply-adds of ``net`` for one input of shape `input_size`.

    Args:
        custom_ops: {layer class: function(layer, inputs, output)} that adds to ``layer.total_ops`` or
            returns a
            number, in place of the built-in rule.
        print_detail: print a line per layer. Layers without a rule (activations, max pooling ...) count as
            zero.
    """
    import yuloh

    custom = custom_ops or {}
    rows: list = []

    def hook(layer: Any, args: Any, output: Any) -> None:
        rows.append(
            (layer, _count(layer, args, output, custom), _trace.shape_of(args[0]), _trace.shape_of(output))
        )

    _trace.run(net, [yuloh.zeros([int(s) for s in input_size])], hook)
    total = sum(row[1] for row in rows)
    parameters = sum(_trace.numel(p) for p, _ in _trace.own_parameters(net))
    if print_detail:
        _print_rows(rows)
    print(f"Total Flops: {total}     Total Params: {parameters}")
    return int(total)


def _count(layer: Any, args: Any, output: Any, custom: dict) -> int:
    if type(layer) in custom:
        rule: Callable = custom[type(layer)]
        layer.total_ops = 0
        result = rule(layer, args, output)
        counted = layer.total_ops if result is None else result
        del layer.total_ops
        return int(counted)
    first = output[0] if isinstance(output, (list, tuple)) else output
    return int(_RULES.get(type(layer).__name__, _nothing)(layer, args, first))


def _print_rows(rows: list) -> None:
    heads = ("Layer Name", "Input Shape", "Output Shape", "Params", "Flops")
    cells = [
        (
            layer.full_name(),
            str(entered),
            str(left),
            str(sum(_trace.numel(p) for p, _ in _trace.own_parameters(layer))),
            str(count),
        )
        for layer, count, entered, left in rows
    ]
    widths = [max(len(row[i]) for row in [heads, *cells]) + 2 for i in range(5)]
    rule = "+" + "+".join("-" * w for w in widths) + "+"
    print(rule)
    for row in [heads, *cells]:
        print("|" + "|".join(c.center(w) for c, w in zip(row, widths)) + "|")
        if row is heads:
            print(rule)
    print(rule)
