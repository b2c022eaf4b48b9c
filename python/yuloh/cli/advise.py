# SPDX-License-Identifier: Apache-2.0
"""`yuloh advise`: what a model needs, on what, for how much, before spending.

yuloh advise resnet50                                     a well-known model (--list presets)
yuloh advise --params 7e9 --layers 32 --hidden 4096 --seq 4096      numbers alone
yuloh advise train.py                                     a training script, followed to its first optimizer step
yuloh advise train.py:net --input 32,3,224,224            a Layer, or a function that makes one, of a Python file
yuloh advise model.onnx --inference --batch 8             a model file (ONNX, Paddle, a saved Yuloh program)
yuloh advise llama-7b --device a100-80 --count 8 --samples 156e3 --hours 24 --prices my_prices.csv --html advice.html
yuloh advise resnet50 --inference --rate 2400 --p99 18 --prices my_prices.csv
yuloh advise --list devices|presets|networks|scenarios|matrix      what is known; yuloh advise --show t4: every figure and source
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

NUMBERS = ("params", "layers", "hidden", "heads", "kv_heads", "ffn", "seq", "vocab", "head_dim")
NUMBERS += ("experts", "active", "expert_ffn", "shared_experts", "dense_layers")
LISTS = ("devices", "presets", "networks", "scenarios", "matrix")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected a number such as 32 or 7e9") from None


def add(commands) -> None:
    p = commands.add_parser(
        "advise",
        help="what a model needs, on which devices, for how much",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="preset, model file, script, or FILE.py:NAME; none: --params and the like",
    )
    p.add_argument(
        "--time-limit", type=_number, default=120.0, metavar="S", help="of a script until its first step (default: 120)"
    )
    p.add_argument("--list", choices=LISTS, dest="what", help="print what the catalogue knows")
    p.add_argument("--show", metavar="DEVICE", help="every figure of a device with its source and date")
    _model_options(p.add_argument_group("the model in numbers"))
    _job_options(p.add_argument_group("the job"))
    _goal_options(p.add_argument_group("devices and goals"))
    out = p.add_argument_group("output")
    out.add_argument(
        "--language", default="en", choices=("en", "zh"), help="of the text; the page has both (default: en)"
    )
    out.add_argument("--all", action="store_true", help="every device, and the decision matrix")
    out.add_argument("--json", action="store_true", help="the whole answer as JSON")
    out.add_argument(
        "--html", metavar="FILE", help="write a page: tables, memory bars, cost against time, what-if sliders"
    )
    out.add_argument("--fleet", metavar="FILE", help="write a training script of the best layout for Paddle's fleet")
    p.set_defaults(carry_out=carry_out)


def _model_options(g) -> None:
    for name, what in (
        ("params", "parameters"),
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
        g.add_argument(f"--{name}", type=_number, metavar="N", help=what)
    g.add_argument(
        "--kind", choices=("decoder", "encoder", "vision"), help="of transformer (default: decoder)"
    )
    g.add_argument(
        "--gated", action="store_true", help="gated feed-forward (SwiGLU), rotary positions, as in LLaMA"
    )
    g.add_argument(
        "--input",
        action="append",
        metavar="SHAPE[:DTYPE]",
        help="input of a Layer, such as 32,3,224,224:float32 (may repeat)",
    )


def _job_options(g) -> None:
    g.add_argument("--inference", action="store_true", help="serve, not train")
    g.add_argument(
        "--precision", choices=("fp32", "tf32", "fp16", "bf16", "fp8", "int8"), help="default: bf16"
    )
    g.add_argument(
        "--optimizer",
        choices=("sgd", "momentum", "adam", "adamw", "lamb", "adafactor"),
        help="default: adamw",
    )
    g.add_argument("--batch", type=_number, metavar="N", help="samples of one step over all devices")
    g.add_argument("--micro-batch", type=_number, metavar="N", help="samples of one pass on one device")
    g.add_argument("--recompute", choices=("none", "selective", "full"), help="default: the search decides")
    g.add_argument("--offload", choices=("none", "optimizer", "all"), help="states, or all, on the host")
    g.add_argument("--no-flash", action="store_true", help="attention that keeps its scores")
    g.add_argument("--new-tokens", type=_number, metavar="N", help="tokens that a request generates")
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
    for name in ("dp", "mp", "pp", "sharding", "ep", "cp", "vpp"):
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
    g.add_argument("--samples", type=_number, metavar="N", help="samples of the whole training")
    g.add_argument(
        "--tokens", type=_number, metavar="N", help="tokens of the whole training, instead of --samples"
    )
    g.add_argument("--hours", type=_number, metavar="H", help="the training must end within")
    g.add_argument("--rate", type=_number, metavar="R", help="requests a second to serve")
    g.add_argument(
        "--p99", type=_number, metavar="MS", help="99 of 100 requests answered within (default: 1000)"
    )
    g.add_argument("--max-batch", type=_number, metavar="N", help="of one pass when serving (default: 64)")
    g.add_argument(
        "--prices",
        metavar="FILE",
        help="your prices: CSV device,price_hour,currency or TOML (none are shipped)",
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
    from ..advise import text

    if args.after_dashes and ".py" not in (args.model or ""):
        raise ValueError("advise: arguments after -- are a script's. Hint: yuloh advise train.py -- --epochs 3.")
    if args.show:
        return _show(args.show)
    if args.what:
        return _list(args)
    question = question_from(args)
    from ..advise import answer

    found = answer(question)
    if args.runs_per_day is not None:
        found["yearly"] = yearly(found, args.runs_per_day)
    if args.all or args.html:
        from ..advise import reckon

        found["scenarios"] = reckon.scenario_rows(question.prices)
    if args.fleet:
        if "strategy" not in found["layouts"]:
            raise ValueError(
                f"advise: no layout fits {found['layouts']['count']} x {found['layouts']['device']}, so there is no strategy to write."
            )
        Path(args.fleet).write_text(found["layouts"]["script"], encoding="utf-8")
    if args.html:
        from ..advise import page

        page.write(question, found, Path(args.html))
    if args.json:
        from ..advise import words

        found["remarks"] = [words.remark(r) for r in found["remarks"]]
        json.dump(_plain(found), sys.stdout, ensure_ascii=False, indent=1, allow_nan=False)
        print()
    else:
        print(text.report(found, args.language, args.all))
        if "yearly" in found:
            print(f"\n{yearly_words(found, args.language)}")
        for name in (args.html, args.fleet):
            if name:
                print(f"File: {name}")
    return 0


def question_from(args):
    """The Question of the options. Raises ValueError with one sentence for what cannot be."""
    from ..advise import catalogue, question

    numbers = {
        k: getattr(args, k)
        for k in NUMBERS
    }
    given = {k: v for k, v in numbers.items() if v is not None}
    for name, v in given.items():
        if not (math.isfinite(v) and v > 0):
            raise ValueError(f"advise: --{name.replace('_', '-')} must be above 0, got {v:g}.")
    if "shared_experts" in given:
        given["shared"] = given.pop("shared_experts")
    job = _job(args)
    source, planned = "user", None
    if args.model is None:
        if not given:
            raise ValueError(
                "advise: no model. Hint: a preset (yuloh advise --list presets), a model file, or --params 7e9."
            )
        network, title, unit, said = {"kind": args.kind or "decoder", "name": "numbers"}, "", "sequence", ""
        if args.gated:
            network.update(gated=True, rotary=True, tied=False)
        title = f"{given['params']:.3g} parameters" if "params" in given else "the model in numbers"
    elif catalogue.is_model_file(args.model) or Path(args.model).exists():
        from ..advise import from_plan

        network, title, unit, said, planned = from_plan.network_of(
            args.model, args.input, job, args.after_dashes, _between("time-limit", args.time_limit, 1, 86400)
        )
        source = "plan"
    else:
        network, title, unit, said = question.from_preset(args.model)
        source = "preset"
    if args.model is not None and (args.kind or args.gated):
        raise ValueError(
            "advise: --kind and --gated are for a model in numbers, not for a model with a name."
        )
    extra = sorted(set(given) - {"params"}) if network["kind"] == "totals" else []
    if extra:
        raise ValueError(
            f"advise: {title} is no transformer whose --{extra[0].replace('_', '-')} could be set."
        )
    network.update(given)
    entries = catalogue.user_devices(args.devices_file) if args.devices_file else []
    prices, currency = catalogue.load_prices(args.prices, entries) if args.prices else ({}, "")
    chosen, focus = _devices(args, entries)
    return question.Question(
        network=network,
        title=title,
        unit=unit,
        source=source,
        source_text=said,
        job=job,
        devices=chosen,
        focus=focus,
        count=None if args.count is None else _whole("count", args.count),
        network_word=args.network,
        goals=_goals(args, network),
        prices=prices,
        currency=currency,
        most=_whole("most", args.most),
        facts=planned,
    )


def _between(name: str, v: float, low: float, high: float) -> float:
    if not low <= v <= high:
        raise ValueError(f"advise: --{name} must be from {low:g} to {high:g}, got {v:g}.")
    return v


def _whole(name: str, v: float) -> int:
    if not (math.isfinite(v) and v >= 1 and v == int(v) and v <= 1 << 17):
        raise ValueError(f"advise: --{name} must be a whole number from 1 to {1 << 17}, got {v:g}.")
    return int(v)


def _job(args) -> dict:
    job = {"training": not args.inference}
    for name in (
        "precision",
        "optimizer",
        "batch",
        "recompute",
        "offload",
        "new_tokens",
        "dp",
        "mp",
        "pp",
        "sharding",
        "stage",
        "lora",
        "lora_targets",
        "weight_bits",
        "cache_bits",
        "ep",
        "cp",
        "vpp",
    ):
        if getattr(args, name) is not None:
            job[name] = getattr(args, name)
    if args.micro_batch is not None:
        job["micro"] = args.micro_batch
    if args.no_flash:
        job["flash"] = False
    if args.eager:
        job["eager"] = True
    for name, v in job.items():
        if isinstance(v, float) and not math.isfinite(v):
            raise ValueError(f"advise: --{name.replace('_', '-')} must be a number, got {v}.")
    return job


def _devices(args, entries):
    from ..advise import catalogue

    if not args.device:
        return (entries + [d for d in catalogue.devices() if not d.get("incomplete")] if entries else []), (
            entries[0]["id"] if entries else None
        )
    own = {d["id"]: d for d in entries}
    chosen = []
    for word in (w for part in args.device for w in part.split(",") if w):
        entry = own.get(word) or catalogue.find_device(word)
        if entry.get("incomplete"):
            raise ValueError(f"advise: {entry['name']} cannot be reckoned with: {entry['note']}.")
        if entry not in chosen:
            chosen.append(entry)
    if not chosen:
        raise ValueError("advise: --device names none. Hint: yuloh advise --list devices.")
    return chosen, chosen[0]["id"]


def _goals(args, network) -> dict:
    goals = {}
    if args.tokens is not None:
        seq = args.seq or network.get("seq")
        if not seq:
            raise ValueError("advise: --tokens needs a sequence length. Hint: --seq, or --samples instead.")
        goals["samples"] = args.tokens / seq
    if args.samples is not None:
        goals["samples"] = args.samples
    for option, name, scale in (
        ("hours", "hours", 1),
        ("rate", "rate", 1),
        ("p99", "p99", 1e-3),
        ("max_batch", "max_batch", 1),
    ):
        if getattr(args, option) is not None:
            goals[name] = getattr(args, option) * scale
    if "rate" in goals and not args.inference:
        raise ValueError("advise: --rate is for serving. Hint: add --inference.")
    if "hours" in goals and "samples" not in goals:
        raise ValueError("advise: --hours needs the size of the training. Hint: --samples or --tokens.")
    return goals


def yearly(found: dict, runs_per_day: float) -> dict:
    """Hours and money a year of the cheapest training, by the report's arithmetic (runs x hours x 365 x devices x price)."""
    from ..report.cost import yearly_saving

    best = (found.get("training") or {}).get("best")
    if not best:
        raise ValueError("advise: --runs-per-day needs a training that is possible. Hint: --samples N.")
    top = best[0]
    price = 0.0 if top["cost"] is None else top["cost"] / (top["hours"][1] * top["count"])
    saving = yearly_saving(runs_per_day, top["hours"][1], top["count"], price)
    return {
        "runs_per_day": runs_per_day,
        "device": top["id"],
        "count": top["count"],
        "hours_run": top["hours"][1],
        "hours": saving.hours,
        "money": None if top["cost"] is None else saving.money,
    }


def yearly_words(found: dict, language: str) -> str:
    from ..advise import words as w

    y = found["yearly"]
    line = f"{w.word('yearly', language)}: {y['runs_per_day']:g} x {w.hours(y['hours_run'], language)} x 365 = {y['hours']:,.0f} h ({y['count']} x {y['device']})"
    return line + ("" if y["money"] is None else f" = {w.cost(y['money'], found['currency'])}")


def _list(args) -> int:
    from ..advise import reckon as a
    from ..advise import catalogue, tables, text

    prices, currency = catalogue.load_prices(args.prices) if args.prices else ({}, "")
    if args.what == "scenarios":
        rows = a.scenario_rows(prices)
        print(
            json.dumps(_plain(rows), ensure_ascii=False, indent=1)
            if args.json
            else text.plain(tables.scenarios(rows, args.language))
        )
    elif args.what == "presets":
        for name, p in catalogue.presets().items():
            print(f"{name:14} {p['title']:28} {p['params']:.3g}  {p['source']}")
    elif args.what == "networks":
        for name, f in catalogue.fabrics().items():
            rate = f"{f['rate_server']:g} GB/s a server" if "rate_server" in f else f"{f['rate']:g} GB/s a device"
            kind = catalogue.sources()[f["source"]]["kind"]
            told = f"{rate}, {f['latency'] * 1e6:g} us; " if name != "none" else ""
            print(f"{name:16} {f['name']}: {told}{f['note']} ({kind}, {f['date']})")
    else:
        from ..advise.question import Question

        q = Question(
            {"params": 1e6, "kind": "totals", "forward_flops": 1e6, "layers": 1.0},
            prices=prices,
            currency=currency,
        )
        rows = a.matrix(q)
        print(
            json.dumps(rows, ensure_ascii=False, indent=1)
            if args.json
            else text.plain(tables.matrix({"matrix": rows}, args.language))
        )
        if args.what == "devices":
            print("\n" + "\n".join(f"{d['id']:20} {d['name']}" for d in catalogue.devices()))
    return 0


def _show(word: str) -> int:
    from ..advise import catalogue

    entry = catalogue.find_device(word)
    units = catalogue._file("devices.json")["units"]
    print(f"{entry['name']} ({entry['id']}){': ' + entry['note'] if entry.get('note') else ''}")
    for figure, values in entry["figures"].items():
        for i, v in enumerate(values):
            source = catalogue.sources().get(
                v["source"], {"title": v["source"], "kind": v["source"], "address": ""}
            )
            note = f" ({v['note']})" if v.get("note") else ""
            print(
                f"  {figure if not i else '':10} {v['value']:>8g} {units[figure]:14} {source['kind']:9} {v['date']}  {source['title']}{note} {source['address']}".rstrip()
            )
    return 0


def _plain(found):
    """The answer without infinities, which JSON has not."""
    if isinstance(found, dict):
        return {k: _plain(v) for k, v in found.items()}
    if isinstance(found, (list, tuple)):
        return [_plain(v) for v in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
