# SPDX-License-Identifier: Apache-2.0
"""paddle.summary: a table of a network's layers, their shapes and parameters."""

from __future__ import annotations

import numbers
from typing import Any

from . import _trace

_MIB = 1024.0 * 1024.0


def summary(net: Any, input_size: Any = None, dtypes: Any = None, input: Any = None) -> dict:
    """Print a table of the layers of `net` and return {"total_params": n, "trainable_params": n}.

    Args:
        input_size: shape with batch size (None or -1 counts as 1), InputSpec, or a list of them.
        dtypes: dtype name(s) of the inputs, float32 by default.
        input: inputs themselves (Tensor, list or dict) in place of input_size.
    """
    if input_size is None and input is None:
        raise ValueError("summary: neither input_size nor input was given; expected one of them.")
    inputs = _made_up(input_size, dtypes) if input is None else input
    if not isinstance(inputs, (list, tuple, dict)):
        inputs = [inputs]
    rows: list = []
    counted: set = set()

    def hook(layer: Any, args: Any, output: Any) -> None:
        fresh = [(p, t) for p, t in _trace.own_parameters(layer) if id(p) not in counted]
        counted.update(id(p) for p, _ in fresh)
        out = _trace.shape_of(output)
        count = sum(_trace.numel(p) for p, _ in _trace.own_parameters(layer))
        rows.append(
            (_name(layer), str(_trace.shape_of(list(args))), str(out), f"{count:,}", _trace.size_of(out))
        )

    _trace.run(net, inputs, hook)
    parameters = _trace.own_parameters(net)
    total = sum(_trace.numel(p) for p, _ in parameters)
    trainable = sum(_trace.numel(p) for p, t in parameters if t)
    values = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
    entered = sum(_trace.size_of(_trace.shape_of(v)) for v in values)
    print(_table(rows, total, trainable, entered))
    return {"total_params": total, "trainable_params": trainable}


def _made_up(input_size: Any, dtypes: Any) -> list:
    """Tensors of the asked shapes; None and -1 become 1."""
    import yuloh

    if isinstance(input_size, numbers.Number):
        input_size = (input_size,)
    single = hasattr(input_size, "shape") or all(
        s is None or isinstance(s, numbers.Number) for s in input_size
    )
    specs = [input_size] if single else list(input_size)
    if dtypes is None or isinstance(dtypes, str):
        dtypes = [dtypes] * len(specs)
    tensors = []
    for spec, dtype in zip(specs, dtypes):
        shape = spec.shape if hasattr(spec, "shape") else spec
        if dtype is None:
            dtype = str(spec.dtype).replace("paddle.", "") if hasattr(spec, "dtype") else "float32"
        extents = [1 if s is None or s == -1 else int(s) for s in shape]
        if any(e <= 0 for e in extents):
            raise ValueError(f"summary: input_size is {list(shape)}; expected positive extents.")
        tensors.append(yuloh.zeros(extents, dtype=dtype))
    return tensors


def _name(layer: Any) -> str:
    tail = layer.full_name().rsplit("_", 1)[-1]
    number = int(tail) + 1 if tail.isdigit() else 1
    return f"{type(layer).__name__}-{number}"


def _table(rows: list, total: int, trainable: int, entered: int) -> str:
    heads = ("Layer (type)", "Input Shape", "Output Shape", "Param #")
    widths = [max([len(heads[i])] + [len(r[i]) for r in rows]) + 4 for i in range(4)]
    width = sum(widths)

    def line(cells: Any) -> str:
        return "".join(str(c).center(w) for c, w in zip(cells, widths))

    forward = 2.0 * sum(r[4] for r in rows) * 4 / _MIB
    sizes = [entered * 4 / _MIB, forward, total * 4 / _MIB]
    return "\n".join(
        [
            "-" * width,
            line(heads),
            "=" * width,
            *[line(r[:4]) for r in rows],
            "=" * width,
            f"Total params: {total:,}",
            f"Trainable params: {trainable:,}",
            f"Non-trainable params: {total - trainable:,}",
            "-" * width,
            f"Input size (MB): {sizes[0]:.2f}",
            f"Forward/backward pass size (MB): {sizes[1]:.2f}",
            f"Params size (MB): {sizes[2]:.2f}",
            f"Estimated Total Size (MB): {sum(sizes):.2f}",
            "-" * width,
            "",
        ]
    )
