# SPDX-License-Identifier: Apache-2.0
"""The search over layouts: any batch is laid out, what is asked for is kept or refused, what is said to be typed does it."""

from __future__ import annotations

import argparse
import json

import pytest
from test_advise import ask, run

from yuloh import _core
from yuloh.advise import ask as asking
from yuloh.advise import catalogue, fleet, question, words
from yuloh.cli import advise as command


def device(ident):
    return catalogue.core_device(catalogue.find_device(ident))


def network(preset):
    return _core.advise_network(question.floats(question.from_preset(preset)[0]))["network"]


def question_of(*typed):
    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    return asking.question_from(parser.parse_args(["advise", *typed]))


@pytest.mark.parametrize("preset,card,job", [
    ("resnet50", "t4", {"precision": "fp16"}), ("lenet", "h100", {}), ("resnet152", "rtx3060", {"precision": "fp32"}), ("llama-7b", "h200", {}),
])  # fmt: skip
def test_no_batch_takes_longer_than_a_larger_one(preset, card, job):
    """Odd and prime batches too: step times grow about as the batch does."""
    net, on = network(preset), device(card)
    made = [_core.advise_search(net, {"batch": float(b), **job}, on, {}, 1.0, {}, 1)[0] for b in range(1, 131)]
    seconds = [x["seconds"][1] for x in made]
    for b in range(1, 130):
        assert seconds[b - 1] <= 1.3 * seconds[b], b
        assert seconds[b] / (b + 1) <= 1.3 * seconds[b - 1] / b, b  # of a sample
    for b, x in enumerate(made, 1):
        rows = x["passes"] * x["micro_batch"]
        assert b <= rows < b + x["passes"] and rows - b < x["micro_batch"], b


def test_a_batch_that_does_not_divide_has_a_smaller_last_pass():
    net, on = network("resnet152"), device("rtx3060")
    made = _core.advise_search(net, {"batch": 131.0, "precision": "fp32"}, on, {}, 1.0, {}, 1)[0]
    passes, micro = int(made["passes"]), int(made["micro_batch"])
    assert 1 < passes < 131 and 0 < 131 - (passes - 1) * micro < micro
    script = fleet.skeleton(net, made["job"], passes, micro, "launch")
    assert f"LAST = {131 - (passes - 1) * micro}  #" in script and "for rows in [MICRO] * (PASSES - 1) + [LAST]:" in script
    compile(script, "script", "exec")
    typed = _core.advise_layout(net, {**made["job"], "micro": float(micro)}, on, {})
    assert typed["total"] == made["total"] and typed["seconds"] == made["seconds"]
    even = _core.advise_search(net, {"batch": 128.0, "precision": "fp32"}, on, {}, 1.0, {}, 1)[0]
    assert even["passes"] * even["micro_batch"] == 128 and "LAST" not in fleet.skeleton(net, even["job"], even["passes"], even["micro_batch"], "launch")


@pytest.mark.parametrize("shape,what", [
    ({"hidden": 768.0, "heads": 12.0, "gated": True}, "ffn 2048"), ({"hidden": 768.0, "heads": 96.0, "ffn": 64.0}, "ffn 64"),
    ({"hidden": 768.0, "heads": 12.0, "kv_heads": 4.0, "ffn": 3072.0}, "kv-heads 4"),
    ({"hidden": 768.0, "heads": 12.0, "ffn": 3072.0, "experts": 8.0, "active": 2.0, "expert_ffn": 1000.0}, "expert-ffn 1000"),
])  # fmt: skip
def test_tensor_parallel_divides_all_that_it_cuts(shape, what):
    net = _core.advise_network({"layers": 4.0, "seq": 512.0, "vocab": 30000.0, **shape})["network"]
    found = _core.advise_search(net, {"batch": 96.0}, device("b300"), {"rate": 50e9}, 6.0, {}, 60)
    assert found and not any(x["job"]["mp"] % 3 == 0 for x in found)
    with pytest.raises(ValueError, match=f"multiples of mp, got .*{what}.* and mp 3"):
        _core.advise_layout(net, {"batch": 96.0, "mp": 3.0}, device("b300"), {})
    assert _core.advise_layout(net, {"batch": 96.0, "mp": 2.0}, device("b300"), {})["total"]


def test_most_holds_in_training_and_serving():
    assert ask("llama-7b", devices=[catalogue.find_device("a100-80")], focus="a100-80", most=2)["verdict"]["first"]["count"] == 2
    one = ask("llama-7b", devices=[catalogue.find_device("a100-80")], focus="a100-80", most=1)
    assert one["verdict"]["first"] is None
    devices = [catalogue.find_device("t4"), catalogue.find_device("a10")]
    goals = {"rate": 50000.0, "p99": 1.0}
    free = ask("resnet50", devices=devices, job={"training": False}, goals=goals, most=100)
    need = min(r["count"] for r in free["serving"]["rows"])
    assert 3 < need < 100
    held = ask("resnet50", devices=devices, job={"training": False}, goals=goals, most=3)
    assert held["verdict"]["first"] is None and not held["recommended"]
    said = run("resnet50", "--device", "t4,a10", "--inference", "--rate", "50000", "--p99", "1000", "--most", "3").stdout
    assert f"The fewest that do are {need:.0f} x" in " ".join(said.split())


def test_a_faster_device_is_never_none():
    """Where something fits, the device asked about has an answer, however much of its peak waits."""
    for preset, card, job in (("gpt3-175b", "a100-40", {}), ("mixtral-8x7b", "gaudi3", {"batch": 3.0, "stage": 1.0}), ("qwen3-30b-a3b", "h100", {})):
        for times in (1, 2, 8, 64):
            on = dict(device(card))
            for rate in ("fp32", "tf32", "bf16", "fp16", "fp8", "int8"):
                if rate in on:
                    on[rate] *= times
            made = _core.advise_choose(network(preset), {"batch": 64.0, **job}, [on], [catalogue.market(catalogue.find_device(card))], {"rate": 25e9},
                                       {"named": True, "most": 128.0}, {})
            assert made["rows"], (preset, times)
