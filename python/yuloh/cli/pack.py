# SPDX-License-Identifier: Apache-2.0
"""`yuloh pack MODEL -o model.yuloh`: one verified file of a model: graph, weights, checksums, golden samples, shapes.

MODEL is an ONNX file, a Paddle program (.json or .pdmodel with .pdiparams beside it) or a package. Golden samples are inputs
with the outputs that the model gave here; `--verify` runs them again, on this machine and this version. Exit status: 0 done
or verified, 1 a sample differs, 2 wrong usage or a damaged file.

  yuloh pack net.onnx -o net.yuloh --golden 3 --size batch=4
  yuloh pack net.json -o net.yuloh --samples x.npz --shapes image=1,3,224,224 --shapes image=8,3,224,224
  yuloh pack --verify net.yuloh
"""

from __future__ import annotations

import argparse

from ..report import columns
from .convert import size_of


def add(commands) -> None:
    p = commands.add_parser(
        "pack",
        help="make one verified file of a model, or verify one",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("model", nargs="?", metavar="MODEL")
    p.add_argument("-o", "--output", metavar="FILE.yuloh", help="where the package goes")
    p.add_argument("--params", default="", metavar="FILE", help="weights of MODEL where they are not beside it")
    fed = p.add_mutually_exclusive_group()
    fed.add_argument("--samples", metavar="X.npz", help="golden inputs by name; name.0, name.1, ... for several samples")
    fed.add_argument("--golden", type=int, default=1, metavar="N", help="draw N golden samples (default: 1)")
    p.add_argument("--size", action="append", default=[], metavar="DIM=N", help="an open size of drawn samples")
    p.add_argument("--seed", type=int, default=0, help="of drawn samples (default: 0)")
    p.add_argument("--shapes", action="append", default=[], metavar="INPUT=D,D;...",
                   help="input shapes to be ready for at loading; may be given several times")
    p.add_argument("--verify", metavar="FILE.yuloh", help="check every byte and run the golden samples")
    p.set_defaults(carry_out=carry_out)


def carry_out(args) -> int:
    from . import readable

    with readable(args.command):
        if args.verify:
            if args.model or args.output:
                raise ValueError("--verify takes the one file it is given, no MODEL and no -o")
            return _verify(args.verify)
        if not args.model or not args.output:
            raise ValueError("expected MODEL -o FILE.yuloh, or --verify FILE.yuloh")
        from ..inference import pack

        info = pack(args.model, args.output, params=args.params, samples=args.samples, golden=args.golden,
                    shapes=[_shapes(t) for t in args.shapes], sizes=size_of(args.size), seed=args.seed)
    print(f"{args.output}: {describe(info)}")
    return 0


def _shapes(text) -> dict:
    """{input: shape} of "image=1,3,224,224;mask=1,7"."""
    shapes = {}
    for part in text.split(";"):
        name, equals, numbers = part.rpartition("=")
        try:
            shapes[name] = [int(n) for n in numbers.split(",") if n.strip()]
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ValueError(f"--shapes wants INPUT=D,D;INPUT=D,D, got {text!r}")
    return shapes


def describe(info) -> str:
    """One line on what a package holds."""
    size = sum(s[1] for s in info["sections"])
    warm = ", ".join(" ".join(str(list(t[0])) for t in types) for types in info["warm"]) or "none"
    return (f"{size / 2**20:.1f} MiB of {info['about'] or 'a program saved here'}, {info['golden']} golden samples, ready for {warm}, "
            f"checksum {info['hash'] & (2**64 - 1):016x}")


def _verify(path) -> int:
    from ..inference import package_info, verify_package

    print(f"{path}: every byte is as it was written: {describe(package_info(path))}")
    rows = verify_package(path)
    if not rows:
        print("It holds no golden samples: nothing was run.")
        return 0
    cells = [(str(sample), str(output), f"{error:.3g}", f"{tolerance:.3g}", "" if fits else "differs")
             for sample, output, error, tolerance, fits in rows]
    print("\n".join(columns.table(("sample", "output", "largest error", "tolerance", ""), cells, left=(4,), indent="")))
    bad = sum(not r[4] for r in rows)
    print(f"{bad} of {len(rows)} outputs differ on this machine." if bad else f"All {len(rows)} outputs are as they were.")
    return 1 if bad else 0
