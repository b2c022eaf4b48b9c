# SPDX-License-Identifier: Apache-2.0
"""`yuloh bench`: which framework, version or variant trains faster on this machine?

yuloh bench                                     Yuloh fp32, bf16 and fusion off on ResNet-50 / CIFAR-100
yuloh bench --with paddlepaddle==3.3.1          the same, against PaddlePaddle 3.3.1 in its own environment
yuloh bench --contenders "paddlepaddle==3.3.1 paddlepaddle==3.2.0"      two versions of anything
yuloh bench my_train.py --budget "5 CNY @ 1 CNY/h"
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path


def _batches(text: str):
    if text in ("knee", "fit"):
        return text
    try:
        values = sorted({int(x) for x in text.split(",")})
        if values and values[0] > 0:
            return values
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"got {text!r}; expected knee, fit, or batch sizes such as 32,64,128")


def _counts(text: str):
    try:
        values = [int(x) for x in text.split(",") if x != ""]
        if all(v >= 0 for v in values):
            return values
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"got {text!r}; expected numbers such as 1,2")


def _words(allowed):
    def read(text: str):
        words = text.split(",")
        if not words or not set(words) <= set(allowed):
            raise argparse.ArgumentTypeError(f"got {text!r}; expected some of {','.join(allowed)}")
        return words

    return read


def add(commands) -> None:
    p = commands.add_parser(
        "bench",
        help="compare the training speed of frameworks, versions and variants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "workloads",
        nargs="*",
        default=["resnet50_cifar100"],
        metavar="WORKLOAD",
        help="resnet50, mobilenet_v2, lenet, gpt, lstm, or a script (default: resnet50)",
    )
    p.add_argument(
        "--with",
        dest="more",
        action="append",
        default=[],
        metavar="CONTENDER",
        help="add a contender: yuloh@REVISION, a pip requirement, or NAME=/path/to/python",
    )
    p.add_argument(
        "--contenders", metavar="LIST", help="exactly these contenders instead of yuloh and --with"
    )
    p.add_argument(
        "--base", metavar="NAME", help="the arm that all others are compared with (default: the first)"
    )
    p.add_argument(
        "--precision", type=_words(("fp32", "bf16")), help="fp32, bf16 or fp32,bf16, for every contender"
    )
    p.add_argument("--fusion", type=_words(("on", "off")), help="operator fusion of Yuloh: on, off or on,off")
    p.add_argument(
        "--compile", action="store_true", help="every PyTorch contender a second time, under torch.compile"
    )
    p.add_argument("--batch", type=int, metavar="N", help="batch size (default: the workload's own)")
    p.add_argument("--sweep", type=_batches, metavar="knee|fit|N,N,...", help="sweep the batch size")
    p.add_argument(
        "--loader", type=_counts, default=[], metavar="N,N", help="DataLoader worker counts to try"
    )
    p.add_argument(
        "--threads", type=_counts, metavar="N,N", help="thread counts to try (default: 1, 2 and all)"
    )
    p.add_argument("--data", default="auto", metavar="auto|synthetic|FILE", help="image data (default: auto)")
    p.add_argument("--max-time", metavar="10m", help="time limit of the measurement")
    p.add_argument("--budget", metavar='"5 CNY @ 1 CNY/h"', help="money limit of the whole command")
    p.add_argument("--rounds", type=int, default=40, metavar="N", help="most rounds to run (default: 40)")
    p.add_argument("--seed", type=int, default=0, help="of weights, data and run order (default: 0)")
    p.add_argument("--out", metavar="DIR", help="folder of results and report (default: yuloh-bench-DATE)")
    p.add_argument("--no-report", action="store_true", help="write results.json only")
    p.add_argument(
        "--main",
        dest="main_job",
        action="store_true",
        help="what `make bench` runs: sweep and loader included, 10 min",
    )
    p.add_argument(
        "--script-args", default="", metavar="ARGS", help="arguments of a script that is run whole"
    )
    from .report import add_cost_options

    add_cost_options(p)
    p.set_defaults(carry_out=carry_out)


def _settings(args):
    import shlex

    from ..bench import contenders
    from ..bench.settings import Settings, find_workload

    listed = [args.contenders] if args.contenders else ["yuloh", *args.more]
    if args.main_job:
        args.sweep, args.loader = args.sweep or "knee", args.loader or [0, 2]
        args.max_time = args.max_time or "9m"
    if args.batch is not None and args.batch < 1:
        raise ValueError(f"batch must be positive, got {args.batch}; expected 1 or more.")
    return Settings(
        contenders=contenders.parse_all(listed),
        workloads=[find_workload(w) for w in args.workloads],
        precisions=args.precision,
        fusion=[w == "on" for w in args.fusion] if args.fusion else None,
        batch=args.batch,
        threads=[t for t in args.threads or [] if t > 0] or None,
        data=args.data,
        seed=args.seed,
        base=args.base,
        sweep=args.sweep,
        loader=args.loader,
        max_rounds=args.rounds,
        script_args=shlex.split(args.script_args),
        torch_compile=args.compile,
    )


def carry_out(args) -> int:
    from ..bench.budget import Budget, parse_duration, parse_money
    from ..bench.results import Results
    from ..bench.runner import Runner, repeat_commands
    from .progress import make_progress

    budget = Budget(
        parse_duration(args.max_time) if args.max_time else None,
        parse_money(args.budget) if args.budget else None,
    )
    settings = _settings(args)
    named = "yuloh-report" if args.main_job else time.strftime("yuloh-bench-%Y%m%d-%H%M%S")
    folder = Path(args.out or named).expanduser().resolve()
    signal.signal(signal.SIGTERM, _as_interrupt)
    with make_progress() as progress:
        results = Results(folder, progress.say)
        results.data["command"] = repeat_commands(
            args.argv[args.argv.index("bench") + 1 :], {"seed": args.seed}
        )
        record = Runner(settings, results, budget, progress).run()
    if not results.save():  # a full disk: what was measured must not vanish with the process
        print("bench: results.json could not be written; it follows on standard output.", file=sys.stderr)
        import json

        json.dump(record, sys.stdout)
        return 1
    return _tell(args, record, folder)


def _as_interrupt(*_):
    raise KeyboardInterrupt


def _tell(args, record: dict, folder: Path) -> int:
    """Report, verdict in one sentence, where everything lies. Returns the exit status."""
    from ..bench.peaks import describe
    from ..report import make_report, summary
    from .report import cost_from

    measured = any(a["blocks"] for w in record["workloads"] for a in w["arms"])
    if measured and not args.no_report:
        try:
            made = make_report(folder / "results.json", folder, cost=cost_from(args), languages=args.language)
            print(f"Report: {made['html']}")
        except ImportError as error:
            print(f"yuloh bench: no report was made: the report {error}", file=sys.stderr)
        except OSError as error:
            print(
                f"yuloh bench: no report was made: {error.strerror}: {error.filename}. Hint: free "
                "some space, then "
                f"yuloh report {folder}",
                file=sys.stderr,
            )
    print(f"Results: {folder / 'results.json'}")
    for line in summary.verdicts(record, args.language[0]):
        print(line)
    if record["environment"].get("peaks"):
        print(f"This machine: {describe(record['environment']['peaks'])}")
    if record["status"] == "interrupted":
        print("Interrupted: everything measured until then is kept.", file=sys.stderr)
        return 130
    too_short = _left_out(record)
    broken = (
        any(c.get("error") for c in record["contenders"])
        or record["status"] == "failed"
        or any(a["error"] for w in record["workloads"] for a in w["arms"])
    )
    return 1 if broken else 3 if too_short or not measured else 0


def _left_out(record: dict) -> bool:
    """Says which arms the limit left out and what time would do; whether there were any."""
    found = False
    for workload in record["workloads"]:
        names = [a["label"] for a in workload["arms"] if a["left_out"]]
        if names:
            found, seconds = True, workload["needed_s"]
            hint = f" Hint: --max-time {seconds:.0f}s would do for all." if seconds else " Hint: --max-time 5m"
            print(f"yuloh bench: {workload['title']}: the limit was too short to measure {', '.join(names)}.{hint}",
                  file=sys.stderr)
    return found
