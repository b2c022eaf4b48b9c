# SPDX-License-Identifier: Apache-2.0
"""`yuloh convert IN OUT`: weights under a model's names, or a model in another format, with proof.

Models (.onnx, .pdmodel, .json, .yuloh, or a Layer as module:Name): everything without a counterpart is listed before
anything is written; the written file is read again and run beside the source on random inputs, at two sizes of every
open dim. Above the tolerance nothing is put in place and the status is 1.

Weights (.pth, .pt, .bin, .safetensors, .index.json, .pdparams): with --model they are put under the Layer's names and
layouts (PyTorch's Linear weights are transposed, running_mean is _mean ...); what is ambiguous or left over is
listed and the status is 1. Without --model only the file format changes.

examples:
  yuloh convert net.onnx net.json
  yuloh convert net.pdmodel net.onnx --size image.2=224,320 --rtol 1e-3
  yuloh convert mynet.py:Net net.onnx --input-spec "x=float32[N,3,224,224]" --weights net.pth
  yuloh convert resnet50.pth resnet50.pdparams --model paddle.vision.models.resnet50
  yuloh convert strange.onnx net.yuloh --hook my_mappings.py

exit status: 0 converted and equal, 1 not (unsupported, ambiguous, different), 2 bad input
"""

from __future__ import annotations

import argparse
import json
import os

from ..report import columns

WEIGHTS_IN = (".pth", ".pt", ".bin", ".safetensors", ".index.json", ".pdparams", ".ckpt")
WEIGHTS_OUT = (".pdparams", ".safetensors")


def add(commands) -> None:
    p = commands.add_parser("convert",
                            help="convert a model or weights, and prove that the outputs are the same",
                            description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source", metavar="IN", help="a model file, a weight file, or module:Layer")
    p.add_argument("out",
                   metavar="OUT",
                   help="its suffix says the format: .onnx .pdmodel .json .yuloh, .pdparams .safetensors")
    p.add_argument("--hook",
                   metavar="FILE.py",
                   help="a file that adds operator mappings, or defines rename_weight(name, shape)")
    p.add_argument("--json", action="store_true", help="print the outcome as JSON")
    m = p.add_argument_group("models")
    m.add_argument("--params", default="", metavar="FILE", help="weights of a Paddle model, where they lie elsewhere")
    m.add_argument("--input-spec",
                   action="append",
                   metavar="SPEC",
                   help='of a Layer: "x=float32[N,3,224,224]", once per input')
    m.add_argument("--weights",
                   metavar="FILE",
                   help="weights of a Layer (any weight file; PyTorch's names are mapped)")
    m.add_argument("--size",
                   action="append",
                   default=[],
                   metavar="DIM=N[,M]",
                   help="sizes of an open dim to compare at (batch=1,8)")
    m.add_argument("--shape",
                   action="append",
                   default=[],
                   metavar="INPUT=N,M..",
                   help="fixes open sizes of an input (-1: stays open)")
    m.add_argument("--input", metavar="FILE.npz", help="compare on these inputs instead of random ones")
    m.add_argument("--set", action="append", default=[], metavar="INPUT=VALUE", help="fixes an input of a file (sr=16000)")
    m.add_argument("--rtol",
                   type=float,
                   default=1e-4,
                   help="allowed difference relative to an output's largest value (default 1e-4)")
    m.add_argument("--atol", type=float, default=1e-5, help="and absolute (default 1e-5)")
    m.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")
    m.add_argument("--opset", type=int, default=0, help="of an ONNX file")
    m.add_argument("--external-data",
                   type=int,
                   default=-1,
                   metavar="BYTES",
                   help="ONNX: larger tensors go to OUT.data (default: past 2 GB)")
    m.add_argument("--no-others", action="store_true", help="do not ask onnxruntime or paddle, even if installed")
    m.add_argument("--keep", action="store_true", help="keep the file even if the outputs differ")
    w = p.add_argument_group("weights")
    w.add_argument("--model",
                   metavar="NAME",
                   help="the Layer, as paddle.vision.models.resnet50 or net.py:Net(classes=10)")
    w.add_argument("--from",
                   dest="origin",
                   choices=("auto", "pytorch", "paddle"),
                   help="whose names and layouts the file has")
    w.add_argument("--key", help="entry of a checkpoint that holds the tensors (state_dict)")
    w.add_argument("--ignore", action="append", default=[], metavar="REGEX", help="names to leave out")
    w.add_argument("--loose",
                   action="store_true",
                   help="match what is left by the order within each shape; look at the table")
    w.add_argument("--partial", action="store_true", help="write what was mapped even if something is left")
    p.set_defaults(carry_out=carry_out)


def carry_out(args) -> int:
    from . import readable

    with readable(args.command):
        return _carry_out(args)


def _carry_out(args) -> int:
    from ..convert.sources import run_hook

    hook = run_hook(args.hook) if args.hook else {}
    weights = args.source.endswith(WEIGHTS_IN) and not (":" in args.source and not os.path.exists(args.source))
    if args.out.endswith(WEIGHTS_OUT):
        if not weights:
            raise ValueError(
                f"{args.out} holds weights; expected a weight file to come from ({', '.join(WEIGHTS_IN)}), got {args.source}."
            )
        return _weights(args, hook)
    if weights and not args.model:
        raise ValueError(
            f"{args.source} holds weights, {args.out} a model. Hint: name the Layer with --model and --input-spec, or "
            f"convert to {' or '.join(WEIGHTS_OUT)}.")
    return _model(args, hook, weights)


# ---- weights -----------------------------------------------------------------------------------------------
def _weights(args, hook) -> int:
    import yuloh

    from ..convert import pick_state
    from ..convert.sources import layer_named

    if not os.path.exists(args.source):
        raise ValueError(f"there is no file {args.source!r}.")
    if not args.model:
        state = pick_state(yuloh.load(args.source), args.key)
        _save_weights(state, args.out)
        text = f"{len(state)} tensors, names and layouts as they were: {args.out}. For a Layer's names give --model."
        print(json.dumps({"out": args.out, "tensors": len(state)}) if args.json else text)
        return 0
    found = _mapped(args, hook, layer_named(args.model), args.source)
    done = found.complete or (args.partial and bool(found.state))
    if args.json:
        print(
            json.dumps({
                "out":
                args.out if done else None, "from":
                found.origin, "unused":
                found.unused, "missing":
                found.missing, "dropped":
                found.dropped, "notes":
                found.hints, "rows":
                [{"target": r.target, "source": r.source, "shape": list(r.shape), "how": r.how, "note": r.note}
                 for r in found.rows]
            }))
    else:
        print(f"{args.source} ({found.origin}) -> {args.model}")
        print(found.table())
    if not done:
        if not args.json:
            print("Nothing was written.")
        return 1
    _save_weights(found.state, args.out)
    if not args.json:
        print(f"Written: {args.out}")
    return 0


def _save_weights(state, out):
    """Saves, and reads back what was saved."""
    import yuloh

    yuloh.save(state, out)
    back = yuloh.load(out)
    for name, tensor in state.items():
        if back[name].dtype != tensor.dtype or back[name].numpy().tobytes() != tensor.numpy().tobytes():
            raise OSError(f"convert: {out} does not hold what was written ({name}).")


def _mapped(args, hook, layer, path):
    from ..convert import weights

    if not hasattr(layer, "state_dict"):
        raise ValueError(f"{args.model or args.source} is no Layer, got {type(layer).__name__}.")
    return weights(path, layer, args.key, args.origin, hook.get("rename_weight"), args.ignore, args.loose)


# ---- models ------------------------------------------------------------------------------------------------
def _source(args, hook, weights):
    from ..convert.sources import ModelSource, layer_named, parse_spec

    if not weights and (os.path.isfile(args.source) or ":" not in args.source):
        if args.input_spec or args.weights:
            raise ValueError("--input-spec and --weights belong to a Layer, given as module:Name.")
        return ModelSource.of_file(args.source, args.params)
    name = args.model if weights else args.source
    layer = layer_named(name)
    file = args.source if weights else args.weights
    if file:
        found = _mapped(args, hook, layer, file)
        if not found.complete:
            raise ValueError(f"the weights do not fit {name}:\n{found.table(False)}")
        layer.set_state_dict(found.state)
        print(found.table(False)) if not args.json else None
    specs = [parse_spec(s) for s in args.input_spec] if args.input_spec else None
    return ModelSource.of_layer(layer, specs, name)


def sizes_of(options):
    """{dim: [sizes]} of --size options."""
    result = {}
    for option in options:
        label, _, numbers = option.rpartition("=")
        if not label or not all(n.strip().isdigit() and int(n) > 0 for n in numbers.split(",")):
            raise ValueError(f"a size reads DIM=N or DIM=N,M, got {option!r}.")
        result[label.strip()] = [int(n) for n in numbers.split(",")]
    return result


def size_of(options):
    """{dim: size} of --size options that allow one."""
    sizes = sizes_of(options)
    for dim, given in sizes.items():
        if len(given) > 1:
            raise ValueError(f"--size wants DIM=N, got {len(given)} sizes of {dim!r}.")
    return {dim: n for dim, (n,) in sizes.items()}


def shapes_of(options):
    """{input: sizes} of --shape options."""
    result = {}
    for option in options:
        label, _, numbers = option.partition("=")
        try:
            result[label.strip()] = [int(n) for n in numbers.strip(" []").split(",")]
        except ValueError:
            raise ValueError(f"a shape reads INPUT=N,M.., got {option!r}.") from None
    return result


def arrays_of(path, program):
    """The arrays of an .npz in the order of the inputs, by name or by position."""
    from ..inference.samples import open_arrays

    with open_arrays(path) as held:
        names = [p[0] for p in program.inputs]
        if set(names) <= set(held.files):
            return [held[n] for n in names]
        if len(held.files) == len(names):
            return [held[n] for n in held.files]
    raise ValueError(f"{path} holds {held.files}; the model takes {names}.")


def _model(args, hook, weights) -> int:
    from ..convert.models import SUFFIXES, ConversionError, convert_model

    if os.path.splitext(args.out)[1] not in SUFFIXES:
        raise ValueError(
            f"the format is not known by the suffix, got {args.out!r}; expected one of {', '.join(SUFFIXES + WEIGHTS_OUT)}."
        )
    if os.path.exists(args.source) and os.path.exists(args.out) and os.path.samefile(args.source, args.out):
        raise ValueError(f"the result would replace its own source {args.source!r}. Hint: give OUT another name.")
    source = _source(args, hook, weights)
    if args.set:
        pairs = [text.partition("=")[::2] for text in args.set]
        source = source.with_inputs_set({name.strip(): value for name, value in pairs}, shapes_of(args.shape))
    say = (lambda text: None) if args.json else print
    say(f"{source.name}: {source.form}, {source.n_operators} operators, inputs " + ", ".join(
        f"{n} {d.name}[{', '.join(str(k) if k >= 0 else (s[i] if i < len(s) and s[i] else '?') for i, k in enumerate(dims))}]"
        for n, d, dims, s in source.program.inputs))
    options = {"opset": args.opset} if args.opset else {}
    if args.external_data >= 0:
        options["external_data"] = args.external_data
    if args.shape:
        options["shapes"] = shapes_of(args.shape)
    given = arrays_of(args.input, source.program) if args.input else None
    try:
        outcome = convert_model(source, args.out, args.rtol, args.atol, args.seed, sizes_of(args.size), given,
                                not args.no_others, args.keep, **options)
    except ConversionError as error:
        print(json.dumps({"out": None, "error": str(error)}) if args.json else f"{error}\nNothing was written.")
        return 1
    found, good = outcome.differences, outcome.same
    written = good or args.keep
    if args.json:
        print(
            json.dumps({
                "out": args.out if written else None, "same": good, "rtol": args.rtol, "atol": args.atol, "notes":
                outcome.notes, "differences": [d.as_dict() for d in found]
            }))
        return 0 if good else 1
    if not good and source.quantised:
        outcome.notes.append(
            "the model is quantised: a value that falls between two steps may be rounded to either (1/255 of a tensor's "
            "range), so --rtol 2e-2 is a fair bound.")
    print("\n".join([table(found), *(f"  Note: {n}" for n in outcome.notes)]))
    if not found:
        raise ValueError("the model has no outputs, so nothing can be compared. Hint: name its outputs when it is exported.")
    worst = max(found, key=lambda d: d.of_allowed)
    print(
        f"{'Same' if good else 'DIFFERENT'}: largest difference {worst.largest:.3g}, {worst.relative:.3g} of the largest value, in "
        f"{worst.output} (allowed: {args.atol:g} + {args.rtol:g} of it).")
    print(f"Written: {args.out}" if written else
          "Not written. Hint: yuloh diff finds the first operator that differs; --keep writes it all the same.")
    return 0 if good else 1


def table(found) -> str:
    """The differences, one line per sizes, output and runtime."""
    head = ("sizes", "output", "shape", "beside", "largest", "relative", "")
    rows = [(", ".join(f"{k}={v}" for k, v in d.sizes.items()) or "fixed", d.output, str(d.shape), d.runtime or "file read again",
             f"{d.largest:.3g}", f"{d.relative:.3g}", "ok" if d.ok else d.why) for d in found]
    return "\n".join(columns.table(head, rows, left=(0, 1, 2, 3, 6), limit=columns.UNBOUNDED))
