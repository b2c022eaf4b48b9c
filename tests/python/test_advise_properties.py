# SPDX-License-Identifier: Apache-2.0
"""What must hold for every question: thousands of random ones, put to the core as `yuloh.advise` does."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from test_advise import run

from yuloh import _core
from yuloh.advise import Question, answer, catalogue, question

QUESTIONS = 80  # of each seed; 25 seeds
DEVICES = catalogue.reckoned()
PRESETS = list(json.loads(Path(catalogue.__file__).with_name("presets.json").read_text(encoding="utf-8"))["models"])
ORDER = ("no", "unlikely", "tight", "yes")


def some_network(r):
    if r.random() < 0.35:
        return question.from_preset(r.choice(PRESETS))[0]
    heads, width = r.choice([4, 8, 16, 32, 64]), r.choice([64, 128])
    n = {"kind": r.choice(["decoder", "encoder", "vision"]), "name": "numbers", "layers": r.choice([2, 4, 12, 24, 32, 48, 80]),
         "hidden": heads * width, "heads": heads, "seq": r.choice([128, 512, 2048, 4096, 32768])}
    if r.random() < 0.5:
        n.update(gated=True, rotary=True, tied=False)
    if r.random() < 0.3:
        n["kv_heads"] = r.choice([1, 2, 4])
    if n["kind"] == "decoder" and r.random() < 0.25:
        n.update(experts=r.choice([4, 8, 64]), active=2, expert_ffn=r.choice([512, 2048]))
    return n


def some_job(r, n):
    j = {"training": r.random() < 0.65, "batch": r.choice([8, 16, 32, 64, 512])}
    if not j["training"]:
        j["precision"] = r.choice(["fp32", "fp16", "bf16", "int8", "fp8"])
        if n["kind"] == "decoder" and r.random() < 0.5:
            j["new_tokens"] = r.choice([16, 256])
        return j
    j.update(precision=r.choice(["fp32", "tf32", "bf16", "fp16", "fp8"]), recompute=r.choice(["none", "none", "selective", "full"]),
             optimizer=r.choice(["sgd", "momentum", "adam", "adamw", "lamb", "adafactor"]))
    if r.random() < 0.2:
        j["eager"] = True
    split = r.random()
    if split < 0.25:
        j.update(sharding=r.choice([2, 4, 8]), stage=r.choice([1, 2, 3]))
    elif split < 0.4:
        j["dp"] = r.choice([2, 4, 8])
    elif split < 0.6 and n["kind"] != "totals" and n["heads"] % 4 == 0:
        j.update(mp=r.choice([2, 4]), pp=r.choice([1, 2]))
    if r.random() < 0.5:
        j["micro"] = 1
    return j


class Asked:
    """A question and its variations; `total`: bytes of the fullest device, `time`: seconds, by their point."""

    def __init__(self, r):
        self.network = _core.advise_network(question.floats(some_network(r)))["network"]
        self.job = question.floats(some_job(r, self.network))
        self.device = catalogue.core_device(r.choice(DEVICES))
        self.fabric = catalogue.fabric(r.choice(["infiniband-200", "ethernet-25", "roce-100"]))[0]

    def layout(self, device=None, fabric=None, **job):
        return _core.advise_layout(self.network, {**self.job, **question.floats(job)}, {**self.device, **(device or {})},
                                   {**self.fabric, **(fabric or {})})

    def total(self, **over):
        return self.layout(**over)["total"][1]

    def time(self, **over):
        return self.layout(**over)["seconds"][1]

    def __repr__(self):
        return f"{self.network} {self.job} {self.device['name']}"


@pytest.fixture(params=range(25))
def questions(request):
    r = random.Random(request.param)
    return r, [Asked(r) for _ in range(QUESTIONS)]


def rises(*values, slack=1e-9):
    return all(a <= b * (1 + slack) for a, b in zip(values, values[1:]))


def test_of_every_question(questions):
    r, asked = questions
    for q in asked:
        a = q.layout()
        low, point, high = a["total"]
        assert 0 <= low <= point <= high < math.inf, q
        assert 0 < a["seconds"][0] <= a["seconds"][1] <= a["seconds"][2] < math.inf, q  # no device without a peak
        assert sum(i[2] for i in a["memory"]) == pytest.approx(point) and min(i[1] for i in a["memory"]) >= 0, q
        # More memory never fits less, and does not change what is needed.
        more = q.layout(device={"memory": q.device["memory"] * r.choice([1.01, 2, 8])})
        assert ORDER.index(more["verdict"]) >= ORDER.index(a["verdict"]) and more["total"] == a["total"], q
        # A larger batch never needs less, nor takes less time.
        scale = r.choice([2, 3])
        batch = {"batch": q.job["batch"] * scale, **({"micro": scale} if "micro" in q.job else {})}
        larger = q.layout(**batch)
        assert all(x <= y * (1 + 1e-9) for x, y in zip(a["total"], larger["total"])), q
        assert rises(a["seconds"][1], larger["seconds"][1]), q
        # Faster links, memory, peaks and networks are never slower.
        for what in ("link", "host_link", "bandwidth", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"):
            if q.device.get(what):
                assert rises(q.time(device={what: q.device[what] * r.choice([1.1, 10])}), a["seconds"][1]), (what, q)
        assert rises(q.time(fabric={"rate": q.fabric["rate"] * 4}), a["seconds"][1]), q
        (training if q.job["training"] else inference)(q)


def training(q):
    kept = [sum(i[2] for i in q.layout(recompute=w)["memory"] if i[0] == "activations") for w in ("full", "selective", "none")]
    assert rises(*kept), (kept, q)
    assert rises(*[q.time(recompute=w) for w in ("none", "selective", "full")]), q
    # Where a stage has one layer, it is recomputed with all that it keeps, beside what went in.
    assert rises(q.total(recompute="full"), q.total(recompute="none"), slack=0.1), q
    if q.job.get("sharding", 1) > 1:
        # Twice the passes of the same size: longer, and at most twice as long, since some things are done once a step.
        few, many = (q.layout(micro=1, batch=q.job["sharding"] * n) for n in (4, 8))
        assert rises(few["seconds"][1], many["seconds"][1], 2 * few["seconds"][1]), q
        totals = [q.total(stage=s) for s in (0, 1, 2, 3)]
        assert rises(*totals[2::-1]), (totals, q)
        if q.network["layers"] >= 12:  # of few layers, the gathered ones may be more than what stage 3 saves
            assert rises(totals[3], totals[2], slack=0.02), (totals, q)
    assert rises(*[q.total(optimizer=o) for o in ("sgd", "momentum", "adam")]), q
    assert rises(*[q.total(precision=p) for p in ("bf16", "fp32")]), q
    if q.network["kind"] != "totals":
        assert rises(q.total(flash=True), q.total(flash=False)) and rises(q.time(flash=True), q.time(flash=False)), q
        assert rises(q.total(lora=8), q.total(lora=64)) and rises(q.total(lora=8), q.total()), q


def inference(q):
    # In smaller passes nothing is quicker.
    batch = q.job["batch"]
    assert rises(*[q.time(micro=m) for m in (batch, batch / 2, batch / 4)]), q
    assert rises(*[q.total(precision=p) for p in ("int8", "fp16", "fp32")]), q
    assert rises(*[q.total(precision=p) for p in ("fp8", "bf16", "fp32")]), q
    assert rises(*[q.time(precision=p) for p in ("fp16", "fp32")]), q
    if q.network["kind"] != "totals":
        assert rises(*[q.total(weight_bits=b) for b in (4, 8, 16)]), q


def asked_of(ident, prices, **goals):
    entries = [catalogue.find_device(w) for w in ("t4", "a10", "a100-80")]
    network = question.from_preset(ident)[0]
    return answer(Question(network=network, devices=entries, prices=prices, goals=goals, currency="X"))


def test_prices_scale_linearly():
    prices = {"t4": 3.0, "a10": 5.0, "a100-80": 20.0}
    one, seven = (asked_of("resnet50", {k: f * v for k, v in prices.items()}, samples=1e7) for f in (1, 7))
    costs = [(a["cost"], b["cost"]) for a, b in zip(one["training"]["rows"], seven["training"]["rows"])]
    assert costs and all(b == pytest.approx(7 * a) for a, b in costs)


def test_numbers_say_what_the_preset_says():
    """The command line by a name and by the numbers behind it: the same bytes, seconds, layouts and advice."""
    words = ("--device", "a100-80", "--count", "8", "--batch", "64", "--json")
    numbers = ("--layers", "32", "--hidden", "4096", "--heads", "32", "--ffn", "11008", "--vocab", "32000", "--seq", "2048", "--gated")
    by_name, by_numbers = (json.loads(run(*a, *words).stdout) for a in (("llama-7b",), numbers))
    assert by_name["model"]["source"] == "preset" and by_numbers["model"]["source"] == "user"
    assert by_numbers["model"]["params"] == pytest.approx(by_name["model"]["params"], rel=2e-3)

    def figures(v):
        """All numbers of an answer, in order."""
        if isinstance(v, dict):
            v = [v[k] for k in sorted(v) if k not in ("script", "launch", "strategy")]
        return [x for one in v for x in figures(one)] if isinstance(v, list) else [v] if isinstance(v, (int, float)) else []

    for part in ("devices", "layouts", "changes"):
        named, counted = figures(by_name[part]), figures(by_numbers[part])
        assert len(named) == len(counted) > 20 and counted == pytest.approx(named, rel=5e-3), part
