# SPDX-License-Identifier: Apache-2.0
"""The search over layouts: any batch is laid out, what is asked for is kept or refused, what is said to be typed does it."""

from __future__ import annotations

import argparse
import json

import pytest
from test_advise import ask, run

from yuloh import _core
from yuloh.advise import ask as asking
from yuloh.advise import catalogue, fleet, question, tables_answer, words
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


@pytest.mark.parametrize("spelled", [("--dp", "1"), ("--mp", "1"), ("--pp", "1"), ("--sharding", "1"), ("--ep", "1"), ("--cp", "1"), ("--stage", "0")])
def test_a_degree_of_one_is_what_is_meant_anyway(spelled):
    plain, said = (question_of("llama-7b", "--device", "a100-80", *more) for more in ((), spelled))
    rows = [_core.advise_layout(q.network, q.job, q.core_device(q.devices[0]), q.fabric) for q in (plain, said)]
    assert rows[0]["total"] == rows[1]["total"] and rows[0]["passes"] == rows[1]["passes"] == 64


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("question_", [("llama-7b", "--device", "a100-80", "--precision", "tf32"), ("llama-7b", "--device", "h200"), ("llama-7b", "--device", "a100-80", "--count", "4"),
                                       ("vit-l", "--device", "a5000", "--samples", "1e6")])
def test_a_stage_that_is_given_is_kept(question_, stage):
    from yuloh.advise.reckon import answer

    found = answer(question_of(*question_, "--stage", str(stage)))
    assert found["verdict"]["first"]["layout"]["job"]["stage"] == stage
    assert all(x["job"]["stage"] == stage and x["job"]["sharding"] > 1 for x in found["layouts"]["found"])


def test_a_batch_that_does_not_lie_over_the_devices_is_the_reason():
    said = " ".join(run("resnet50", "--device", "t4", "--count", "1001").stdout.split())
    assert "No layout over 1001 x T4 fits" in said and "it would fit with --batch 1001 (" in said
    assert "Take 1001 x T4" in run("resnet50", "--device", "t4", "--count", "1001", "--batch", "1001").stdout
    assert "--batch" not in tables_answer.instead(ask("llama-13b", devices=[catalogue.find_device("t4")], focus="t4", count=2), "en")[0]


@pytest.mark.parametrize("words_,why", [
    (("--stage", "3", "--count", "1"), "sharding lies over several devices, got --stage 3 and --count 1"),
    (("--stage", "2", "--pp", "2"), "a pipeline goes with sharding stage 1 at most, got --stage 2 and pp 2"),
    (("--count", "8", "--mp", "8", "--pp", "8"), "--count must be a multiple of the degrees that are given, got 8 and mp 8, pp 8 (together 64)"),
])  # fmt: skip
def test_what_no_layout_has_is_refused(words_, why):
    done = run("llama-7b", "--device", "a100-80", *words_, ok=2)
    assert why in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("typed", [
    ("llama-7b", "--device", "rtx4090"), ("llama-7b", "--device", "a100-80"), ("resnet50", "--device", "rtx3060", "--batch", "256"),
    ("mixtral-8x7b", "--device", "h100"), ("llama-13b", "--device", "a100-40", "--batch", "48"), ("gpt3-1.3b", "--device", "t4"),
])  # fmt: skip
def test_options_to_type_do_what_their_row_says(typed):
    """Each row of "What to change", typed: the same layout, the same bytes and verdict, the batch that was asked for."""
    q = question_of(*typed)
    on, seen = q.core_device(q.devices[0]), 0
    before = _core.advise_layout(q.network, q.job, on, q.fabric)
    for c in _core.advise_changes(q.network, q.job, on, q.fabric, False):
        after = c["after"]
        options = words.options(before["job"], after["job"])
        if options == "–":
            continue
        again = question_of(*typed, *options.split())
        made = _core.advise_layout(again.network, again.job, on, again.fabric)
        assert made["total"] == after["total"] and made["seconds"] == after["seconds"], options
        assert c["what"] == "batch" or again.job["batch"] == q.job["batch"], options
        assert c["time_factor"] == pytest.approx(after["seconds"][1] / before["seconds"][1] * q.job["batch"] / again.job["batch"])
        if after["verdict"] == "yes":
            assert again.search(again.devices[0], after["devices"]), options
        seen += after["devices"] > 1
    assert seen > 1


def test_the_time_of_a_change_is_that_of_the_step():
    found = json.loads(run("llama-7b", "--device", "rtx4090", "--json").stdout)
    wide = [c for c in found["changes"] if c["after"]["devices"] >= 4 and c["what"] in ("pipeline", "tensor", "sharding")]
    assert wide and all(c["time_factor"] < 1 for c in wide)


@pytest.mark.parametrize("kind", ["optimizer", "all"])
def test_memory_of_the_host_is_said(kind):
    question_ = ("llama-7b", "--device", "rtx4090", "--count", "4", "--offload", kind)
    lay = json.loads(run(*question_, "--json").stdout)["verdict"]["first"]["layout"]
    said = " ".join(run(*question_).stdout.split("\n\n")[0].split())
    assert lay["host"] > 2**30
    assert f"Host memory: {words.gib(lay['host'])} for each device, {words.gib(4 * lay['host'])} in a server of 4." in said
    assert "主机内存" in "".join(run(*question_, "--language", "zh").stdout.split())
    assert "Host memory" not in run("llama-7b", "--device", "rtx4090", "--count", "8").stdout


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
