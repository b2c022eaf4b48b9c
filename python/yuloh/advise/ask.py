# SPDX-License-Identifier: Apache-2.0
"""From the options of `yuloh advise` to a Question, or one sentence that says what cannot be."""

from __future__ import annotations

import math
from pathlib import Path

from .. import _core
from . import catalogue, from_plan, question
from . import prices as prices_of
from .terms import DEGREES

NUMBERS = ("params", "layers", "hidden", "heads", "kv_heads", "ffn", "seq", "vocab", "head_dim")
NUMBERS += ("experts", "active", "expert_ffn", "shared_experts", "dense_layers")


def question_from(args):
    """The Question of the options. Raises ValueError with one sentence for what cannot be."""
    numbers = {k: getattr(args, k) for k in NUMBERS}
    given = {k: v for k, v in numbers.items() if v is not None}
    for name, v in given.items():
        if not (math.isfinite(v) and v > 0):
            raise ValueError(f"advise: --{name.replace('_', '-')} must be above 0, got {v:g}.")
    if "shared_experts" in given:
        given["shared"] = given.pop("shared_experts")
    file = args.model is not None and not args.model.startswith("-") and ".py" not in args.model and catalogue.is_model_file(args.model)
    if file and not any(getattr(args, k) is not None for k in ("optimizer", "samples", "tokens", "hours", "lora", "recompute")):
        args.inference = True  # what such a file is for
    _idle(args)
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
        title = "the model in numbers"
    elif catalogue.is_model_file(args.model) or Path(args.model).exists():
        network, title, unit, said, planned = from_plan.network_of(
            args.model, args.input, job, args.after_dashes, _between("time-limit", 120.0 if args.time_limit is None else args.time_limit, 1, 86400)
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
    if args.input and source != "plan":
        raise ValueError(f"advise: --input is for a script or a model file, got it for {title}. Hint: FILE.py:NAME --input SHAPE.")
    remarks = job.pop("remarks", [])
    if source == "preset" and network["kind"] in ("decoder", "encoder") and "seq" not in given:
        remarks = [*remarks, ("preset_seq", network["seq"])]
    own_micro = job.pop("own_micro", None)
    network.update(given)
    entries = catalogue.user_devices(args.devices_file) if args.devices_file else []
    prices, currency = prices_of.load_prices(args.prices, entries) if args.prices else ({}, "")
    chosen, focus = _devices(args, entries)
    for entry in chosen:
        if entry.get("remark") and entry["remark"] not in (planned or {"notes": ()})["notes"]:
            remarks = [*remarks, entry["remark"]]
    if args.energy_price is not None:
        prices = prices_of.with_energy(prices, chosen or catalogue.reckoned(), args.energy_price)
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
        own_micro=own_micro,
        remarks=remarks,
    )


def _idle(args) -> None:
    """Raises ValueError for options that could do nothing, with what they are for."""
    planned = args.model is not None and (catalogue.is_model_file(args.model) or Path(args.model).exists())
    for option, idle, what in (
        *((o, args.inference, "is for training. Hint: --rate R, or leave --inference away") for o in ("samples", "tokens", "hours", "runs_per_day", "fleet")),
        ("optimizer", args.inference, "is for training. Hint: leave it or --inference away"),
        ("time_limit", not planned or ".py" not in args.model, "is for a script. Hint: leave it away"),
    ):
        if idle and getattr(args, option) is not None:
            raise ValueError(f"advise: --{option.replace('_', '-')} {what}.")


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
        *DEGREES,
        "stage",
        "lora",
        "lora_targets",
        "weight_bits",
        "cache_bits",
    ):
        if getattr(args, name) is not None:
            job[name] = getattr(args, name)
    if args.micro_batch is not None:
        job["micro"] = args.micro_batch
    if args.no_flash:
        job["flash"] = False
    if args.eager:
        job["eager"] = True
    if args.sequence_parallel:
        job["sequence_parallel"] = True
    for name, v in job.items():
        if isinstance(v, float) and not math.isfinite(v):
            raise ValueError(f"advise: --{name.replace('_', '-')} must be a number, got {v}.")
    return job


def _devices(args, entries):
    if not args.device:
        return (entries + catalogue.reckoned(not args.inference) if entries else []), (
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
        if network["kind"] == "totals":
            raise ValueError("advise: --tokens is for a model of sequences. Hint: --samples instead.")
        seq = _core.advise_network(question.floats(network))["network"]["seq"]
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
    if args.max_batch is not None:
        _whole("max-batch", args.max_batch)
    for option in ("new_tokens", "max_batch", "p99"):
        if getattr(args, option) is not None and not args.inference:
            raise ValueError(f"advise: --{option.replace('_', '-')} is for serving. Hint: add --inference.")
    if args.p99 is not None and args.rate is None:
        raise ValueError("advise: --p99 needs the requests a second. Hint: --rate R.")
    if "rate" in goals and not args.inference:
        raise ValueError("advise: --rate is for serving. Hint: add --inference.")
    if "hours" in goals and "samples" not in goals:
        raise ValueError("advise: --hours needs the size of the training. Hint: --samples or --tokens.")
    return goals
