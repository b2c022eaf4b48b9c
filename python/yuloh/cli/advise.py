# SPDX-License-Identifier: Apache-2.0
"""`yuloh advise`: what a model needs, on what, for how much, before spending.

yuloh advise resnet50                                     a well-known model (--list presets)
yuloh advise --params 7e9 --layers 32 --hidden 4096 --seq 4096      numbers alone
yuloh advise train.py                                     a training script, followed to its first optimizer step
yuloh advise train.py:net --input 32,3,224,224            a Layer, or a function that makes one, of a Python file
yuloh advise model.onnx --inference --batch 8             a model file (ONNX, Paddle, a saved Yuloh program)
yuloh advise llama-7b --device a100-80 --count 8 --samples 156e3 --hours 24 --prices my_prices.csv --html advice.html
yuloh advise llama-7b --lora 16 --weight-bits 4 --device rtx4090     adapters beside frozen weights of 4 bits (QLoRA)
yuloh advise llama3-8b --inference --seq 4096 --new-tokens 256       requests at once, tokens a second by batch
yuloh advise mixtral-8x7b --count 16 --device h100 --fleet train.py  experts; a training script for Paddle's fleet
yuloh advise resnet50 --inference --rate 2400 --p99 18 --prices my_prices.csv
yuloh advise --scenario nlp                               a known task: course, vision, nlp, pretrain, edge
yuloh advise --list devices|presets|networks|scenarios|matrix      what is known; yuloh advise --show t4: every figure and source

The first lines say what to take, why, how sure that is, and what the next larger device buys. Exit status: 0 with an
answer (also "nothing does it"), 2 for a mistake in what was asked, 130 when interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import sys
from pathlib import Path

from .. import _core

TERMS = _core.advise_terms()
LISTS = ("devices", "presets", "networks", "scenarios", "matrix")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected a number such as 32 or 7e9") from None


def _size(text: str) -> float:
    """7e9, or as it is written: 7B, 350M, 1.5T."""
    scale = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}.get(text.strip()[-1:].lower())
    return _number(text.strip()[:-1]) * scale if scale and text.strip()[:1].isdigit() else _number(text)


def _one_of(*known: str) -> dict:
    """For argparse: one of the words, or an error that names near ones."""

    def word(text: str) -> str:
        if text.lower() in known:
            return text.lower()
        near = difflib.get_close_matches(text.lower(), known, 3, 0.5)
        raise argparse.ArgumentTypeError(
            f"unknown, got {text!r}; expected {', '.join(known)}.{f' Near: {near[0]}.' if near else ''}"
        )

    return {"type": word, "metavar": "|".join(known)}


def _mistake(message: str) -> None:
    """One sentence instead of the whole usage."""
    sys.stderr.write(f"yuloh advise: {message.rstrip('.')}. Hint: yuloh advise --help.\n")
    raise SystemExit(2)


def add(commands) -> None:
    p = commands.add_parser(
        "advise",
        help="what a model needs, on which devices, for how much",
        description=__doc__,
        usage="yuloh advise [MODEL] [options] [-- arguments of the script]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.error = _mistake
    p.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="preset, model file, script, or FILE.py:NAME; none: --params and the like",
    )
    p.add_argument(
        "--time-limit", type=_number, metavar="S", help="of a script until its first step (default: 120)"
    )
    p.add_argument("--list", **_one_of(*LISTS), dest="what", help="print what the catalogue knows")
    p.add_argument("--scenario", metavar="NAME", help="course, vision, nlp, pretrain or edge: candidates, and why which")
    p.add_argument("--show", metavar="DEVICE", help="every figure of a device with its source and date")
    _model_options(p.add_argument_group("the model in numbers"))
    _job_options(p.add_argument_group("the job"))
    _goal_options(p.add_argument_group("devices and goals"))
    out = p.add_argument_group("output")
    out.add_argument(
        "--language", default="en", **_one_of("en", "zh"), help="of the text; the page has both (default: en)"
    )
    out.add_argument("--all", action="store_true", help="every device, change and layout, the decision matrix and the scenarios")
    out.add_argument("--json", action="store_true", help="the whole answer as JSON")
    out.add_argument(
        "--html", metavar="FILE", help="write a page: tables, memory bars, cost against time, what-if sliders; no file of others is overwritten"
    )
    out.add_argument("--fleet", metavar="FILE", help="write a training script of the best layout for Paddle's fleet")
    p.set_defaults(carry_out=carry_out)


def _model_options(g) -> None:
    for name, what in (
        ("params", "parameters, such as 7e9 or 7B"),
        ("layers", "transformer layers"),
        ("hidden", "width"),
        ("heads", "attention heads"),
        ("kv-heads", "key and value heads (grouped attention)"),
        ("ffn", "width of the feed-forward"),
        ("seq", "sequence length"),
        ("vocab", "vocabulary"),
        ("head-dim", "width of one head (default: hidden / heads)"),
        ("experts", "experts of a mixture (routed)"),
        ("active", "experts that a token meets (default: 2)"),
        ("expert-ffn", "width of one expert (default: --ffn)"),
        ("shared-experts", "experts that every token meets besides"),
        ("dense-layers", "first layers without experts"),
    ):
        g.add_argument(f"--{name}", type=_size if name == "params" else _number, metavar="N", help=what)
    g.add_argument(
        "--kind", **_one_of(*(k for k in TERMS["model"] if k != "totals")), help="of transformer (default: decoder)"
    )
    g.add_argument(
        "--gated", action="store_true", help="gated feed-forward (SwiGLU), rotary positions, as in LLaMA"
    )
    g.add_argument(
        "--input",
        action="append",
        metavar="SHAPE[:DTYPE]",
        help="input of a Layer, or of a file with open sizes, such as 32,3,224,224:float32 (may repeat)",
    )


def _job_options(g) -> None:
    g.add_argument("--inference", action="store_true", help="serve, not train")
    g.add_argument(
        "--precision", **_one_of(*TERMS["precision"]), help="default: bf16"
    )
    g.add_argument(
        "--optimizer",
        **_one_of(*TERMS["optimizer"]),
        help="default: adamw",
    )
    g.add_argument("--batch", type=_number, metavar="N", help="samples of one step over all devices")
    g.add_argument("--micro-batch", type=_number, metavar="N", help="samples of one pass on one device")
    g.add_argument("--recompute", **_one_of(*TERMS["recompute"]), help="default: the search decides")
    g.add_argument("--offload", **_one_of(*TERMS["offload"]), help="states, or all, on the host")
    g.add_argument("--sequence-parallel", action="store_true", help="with mp: norms and sums split along the sequence too")
    g.add_argument("--no-flash", action="store_true", help="attention that keeps its scores")
    g.add_argument("--new-tokens", type=_number, metavar="N", help="tokens that a request generates when a decoder serves (default: 256; 0: prompts alone)")
    g.add_argument("--lora", type=_number, metavar="RANK", help="train adapters of this rank beside frozen weights")
    g.add_argument(
        "--lora-targets",
        metavar="q,v|attention|all",
        help="matrices with adapters: q, k, v, o, ffn, attention (q,k,v,o), all (default: attention)",
    )
    g.add_argument(
        "--weight-bits", type=_number, metavar="4|8|16", help="stored bits of frozen (QLoRA) or served weights"
    )
    g.add_argument("--cache-bits", type=_number, metavar="8|16", help="of cached keys and values when serving")
    g.add_argument(
        "--eager", action="store_true", help="a stack that runs op by op keeps more: float32 norms, unfused activations"
    )
    for name in TERMS["degree"]:
        g.add_argument(f"--{name}", type=_number, metavar="N", help="fix this degree of the layout")
    g.add_argument("--stage", type=_number, metavar="0-3", help="sharding stage (ZeRO)")


def _goal_options(g) -> None:
    g.add_argument(
        "--device",
        action="append",
        metavar="ID,...",
        help="only these devices; the first is looked at closely; this = this machine",
    )
    g.add_argument(
        "--devices-file", metavar="FILE", help="more devices (JSON), such as one that yuloh calibrate wrote"
    )
    g.add_argument(
        "--count", type=_number, metavar="N", help="lay the job out over so many of the first device"
    )
    g.add_argument(
        "--network",
        default="infiniband-200",
        metavar="NAME|GB/s",
        help="between servers (default: infiniband-200)",
    )
    g.add_argument(
        "--most", type=_number, default=128, metavar="N", help="devices at most, of one kind (default: 128)"
    )
    g.add_argument("--samples", type=_size, metavar="N", help="samples of the whole training")
    g.add_argument(
        "--tokens", type=_size, metavar="N", help="tokens of the whole training, instead of --samples"
    )
    g.add_argument("--hours", type=_number, metavar="H", help="the training must end within")
    g.add_argument("--rate", type=_number, metavar="R", help="requests a second to serve")
    g.add_argument(
        "--p99", type=_number, metavar="MS", help="99 of 100 requests answered within (default: 1000, and 50 for each token that is generated)"
    )
    g.add_argument("--max-batch", type=_number, metavar="N", help="of one pass when serving (default: 64)")
    g.add_argument(
        "--prices",
        metavar="FILE",
        help="your prices: CSV device,price_hour,currency or TOML (none are shipped)",
    )
    g.add_argument(
        "--energy-price",
        type=_number,
        metavar="P",
        help="of a kWh, in the currency of --prices; added to every device's hour at its full power",
    )
    g.add_argument(
        "--runs-per-day", type=_number, metavar="N", help="yearly cost of that many such trainings a day"
    )


def carry_out(args) -> int:
    try:
        return _carry_out(args)
    except ValueError as error:  # "yuloh advise: " stands before it already
        raise ValueError(str(error).removeprefix("advise: ")) from None


def _carry_out(args) -> int:
    from ..advise import known

    if args.language == "zh" and not args.json and not _shows("内"):
        sys.stderr.write(f"yuloh advise: this output ({sys.stdout.encoding}) has no Chinese; in English. Hint: PYTHONIOENCODING=utf-8.\n")
        args.language = "en"
    if args.after_dashes and ".py" not in (args.model or ""):
        raise ValueError("advise: arguments after -- are a script's. Hint: yuloh advise train.py -- --epochs 3.")
    if args.show or args.what or args.scenario:
        told, section = known.shown(args)
        return _told(told) if args.json else _say([section])
    from ..advise import answer, ask, output, page, scenarios, tables_goal, text, words
    from ..advise.reckon import yearly

    output.check(args)
    question = ask.question_from(args)
    found = answer(question)
    if args.runs_per_day is not None:
        found["yearly"] = yearly(found, args.runs_per_day)
    if args.all or args.html:
        found["scenarios"] = scenarios.scenario_rows(question.prices)
    if args.fleet:
        if "strategy" not in found["layouts"]:
            raise ValueError(
                f"advise: no layout fits {found['layouts']['count']} x {found['layouts']['device']}, so there is no strategy to write."
            )
        lay = found["layouts"]
        if lay["refused"]:
            raise ValueError(f"advise: no script of this layout ({words.layout(lay['found'][0]['job'])}): {lay['refused']}")
        launch = lay["launch"].removesuffix("train.py") + Path(args.fleet).name
        lay["script"], lay["launch"] = lay["script"].replace(lay["launch"], launch, 1), launch
    if args.html:
        page.write(question, found, Path(args.html))
    if args.fleet:
        output.write_script(args.fleet, lay["script"])
    if args.json:
        found["remarks"] = [words.remark(r) for r in found["remarks"]]
        if "plan" in found:
            found["plan"]["notes"] = [words.remark(r) for r in found["plan"]["notes"]]
        return _told(found)
    parts = [text.report(found, args.language, args.all)]
    if "yearly" in found:
        parts.append("\n".join(text.paragraph(tables_goal.yearly_words(found, args.language))))
    files = [f"File: {name}" for name in (args.html, args.fleet) if name]
    if args.fleet:
        lay = found["layouts"]
        row = "" if not lay["written"] else f"the script is of layout {lay['written'] + 1}: {words.layout(lay['found'][lay['written']]['job'])}"
        files += [f"{args.fleet}: {said}" for said in (row, *lay["said"]) if said]
    return _say(parts + files)


def _told(found) -> int:
    """JSON; infinities, which it has not, are null."""

    def plain(v):
        if isinstance(v, dict):
            return {k: plain(x) for k, x in v.items()}
        if isinstance(v, (list, tuple)):
            return [plain(x) for x in v]
        return None if isinstance(v, float) and not math.isfinite(v) else v

    json.dump(plain(found), sys.stdout, ensure_ascii=False, indent=1, allow_nan=False)
    print()
    return 0


def _shows(text: str) -> bool:
    """Whether standard output has these signs."""
    try:
        return bool(text.encode(getattr(sys.stdout, "encoding", None) or "utf-8"))
    except (UnicodeEncodeError, LookupError):
        return False


def _say(parts) -> int:
    """Parts with a line between them, in signs that the terminal has."""
    from ..advise import text

    said = "\n\n".join(p if isinstance(p, str) else text.plain(p) for p in parts)
    if not _shows("–×µ"):
        said = said.replace("–", "-").replace("×", "x").replace("µ", "u")
    print(said)
    return 0
