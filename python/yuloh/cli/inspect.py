# SPDX-License-Identifier: Apache-2.0
"""`yuloh inspect FILE`: what a model or a weight file consists of and what a request costs, without running it.

Operators with counts, parameters, FLOPs, bytes moved and planned peak memory at given sizes of the open dims; what
fuses, what suits quantisation, which operators have no mapping. A weight file: every tensor with type, shape and
size.

examples:
  yuloh inspect net.onnx
  yuloh inspect net.pdmodel --size batch=1,8,32 --ops
  yuloh inspect mynet.py:Net --input-spec "x=float32[N,3,224,224]"
  yuloh inspect weights.safetensors --json

exit status: 0, 1 where operators are not supported, 2 bad input
"""

from __future__ import annotations

import argparse
import json
import os

from ..report import columns


def add(commands) -> None:
    p = commands.add_parser("inspect",
                            help="operators, parameters, FLOPs, memory of a model; tensors of a weight file",
                            description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source", metavar="FILE", help="a model file, a weight file, or module:Layer")
    p.add_argument("--params", default="", metavar="FILE", help="weights of a Paddle model, where they lie elsewhere")
    p.add_argument("--size",
                   action="append",
                   default=[],
                   metavar="DIM=N[,M]",
                   help="sizes of an open dim (batch=1,8)")
    p.add_argument("--ops", action="store_true", help="list every operator with its shapes, and every kernel")
    p.add_argument("--input-spec",
                   action="append",
                   metavar="SPEC",
                   help='of a Layer: "x=float32[N,3,224,224]", once per input')
    p.add_argument("--hook", metavar="FILE.py", help="a file that adds operator mappings")
    p.add_argument("--json", action="store_true", help="print the figures as JSON")
    p.set_defaults(carry_out=carry_out)


def carry_out(args) -> int:
    from . import readable

    with readable(args.command):
        return _carry_out(args)


def _carry_out(args) -> int:
    from ..convert.sources import ModelSource, layer_named, parse_spec, run_hook
    from ..inference.model_summary import summarise
    from .convert import WEIGHTS_IN, sizes_of

    if args.hook:
        run_hook(args.hook)
    if args.source.endswith(WEIGHTS_IN) and os.path.isfile(args.source):
        return _weights(args)
    if os.path.exists(args.source) or ":" not in args.source:
        source = ModelSource.of_file(args.source, args.params)
    else:
        specs = [parse_spec(s) for s in args.input_spec] if args.input_spec else None
        source = ModelSource.of_layer(layer_named(args.source), specs, args.source)
    found = summarise(source, sizes_of(args.size), args.ops)
    print(found.as_json() if args.json else found)
    return 1 if found["unsupported"] else 0


def _weights(args) -> int:
    import yuloh

    from ..inference.model_summary import _count, _size

    rows = list(_tensors(yuloh.load(args.source), "", set()))
    if args.json:
        print(
            json.dumps({
                "file": args.source, "tensors":
                [{"name": n, "dtype": t.dtype.name, "shape": list(t.shape)} for n, t in rows]
            }))
        return 0
    total = sum(_count(t) for _, t in rows)
    print(
        f"{args.source}: {len(rows)} tensors, {total:,} elements, {_size(sum(_count(t) * t.dtype.itemsize for _, t in rows))}"
    )
    cells = [(name, t.dtype.name, str(list(t.shape)), _size(_count(t) * t.dtype.itemsize)) for name, t in rows]
    if cells:
        print("\n".join(columns.table((), cells, left=(0, 1, 2), limit=columns.UNBOUNDED)))
    return 0


def _tensors(value, name, seen):
    import yuloh

    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, yuloh.Tensor):
        from ..convert.units import as_tensor
        value = as_tensor(value)
    if isinstance(value, yuloh.Tensor):
        yield name or "(tensor)", value
        return
    if not isinstance(value, (dict, list, tuple)) or id(value) in seen:
        return
    seen.add(id(value))
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if key != "StructuredToParameterName@@":
            yield from _tensors(item, f"{name}.{key}" if name else str(key), seen)
