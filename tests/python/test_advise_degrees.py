# SPDX-License-Identifier: Apache-2.0
"""How degrees act together: data beside sharding, pipelines that are full, servers of other sizes than 8."""

from __future__ import annotations

import json
import math
import re

import pytest

from test_advise import floats, run
from test_advise_layouts import A100, items, layout, network
from yuloh import _core


# -- a pipeline's largest batch ------------------------------------------------------------------------
@pytest.mark.parametrize("passes", [1, 64])
def test_largest_micro_batch_of_a_pipeline(passes):
    """What fits keeps pp micro-batches in flight (fewer only where the step has fewer passes than stages)."""
    net, split = network("gpt3-175b"), {"mp": 8, "pp": 8, "precision": "fp16"}
    one = layout(net, batch=passes, micro=1, **split)
    for most, enough in ((one["largest_micro_batch"], ("yes",)), (one["largest_tight"], ("yes", "tight"))):
        assert most >= 1 or most == 0 and "tight" not in enough
        for micro, fits in ((most, True), (most + 1, False)):
            if micro == 0:
                continue
            made = layout(net, batch=micro * max(passes, 8), micro=micro, **split)
            assert (made["verdict"] in enough) == fits


def test_uneven_stages_hold_whole_layers():
    net, job = network("llama-7b"), {"training": False, "batch": 4}
    one, five = layout(net, **job), layout(net, pp=5, **job)
    assert items(five)["cache"] == pytest.approx(items(one)["cache"] * 7 / 32)
    served = _core.advise_decoding(net, {"training": False, "pp": 5.0, "batch": 1.0}, A100, {"rate": 50e9}, 0.9)
    assert served["cache_token"] == 7 * 2 * 4096 * 2


def test_tokens_look_embeddings_up():
    """An untied table costs memory and no time: the model whose head is the table reads as much."""
    net = network("llama3-8b")
    tied = network("llama3-8b", tied=True, params=net["params"] - net["vocab"] * net["hidden"])
    job = {"training": False, "batch": 1, "new_tokens": 64}
    apart, same = layout(net, **job), layout(tied, **job)
    assert dict(apart["time"])["tokens"] == pytest.approx(dict(same["time"])["tokens"], rel=1e-9)
    assert items(apart)["weights"] > items(same)["weights"] + 1e9


# -- sharding ------------------------------------------------------------------------------------------
def test_a_stage_needs_something_to_shard_over():
    done = run("llama-7b", "--device", "a100-80", "--dp", "8", "--stage", "3", "--batch", "8", ok=2)
    assert "--sharding 8 instead of --dp" in done.stderr and done.stderr.count("\n") == 1
    net = network("llama-7b")
    alone, plain = layout(net, batch=1, stage=3), layout(net, batch=1)
    assert items(alone)["weights"] == items(plain)["weights"]  # one device gathers nothing


def sent(made):
    """What gradients and weights take, with the half of the backward pass (at stage 3 of both) that hides it."""
    time = dict(made["time"])
    work = sum(time[k] for k in ("arithmetic", "elementwise", "launch"))
    return time["data"] + 0.5 * work * (1 if made["job"]["stage"] == 3 else 2 / 3)


# So quick that little hides.
QUICK = {**A100, "fp16": 1e19, "bf16": 1e19, "bandwidth": 9e15}


def ring(count, volume, rate, latency):
    """An all-reduce: twice (count - 1) / count of the bytes, two messages a doubling."""
    return 2 * (count - 1) / count * volume / (0.75 * rate) + 2 * math.log2(count) * latency


@pytest.mark.parametrize("stage", [1, 2])
def test_gradients_go_over_sharding_then_data(stage):
    """dp 2 x sharding 8: all over the server's link, an eighth between the two servers."""
    net = network("gpt3-1.3b")
    made = layout(net, QUICK, batch=16, micro=1, sharding=8, dp=2, stage=stage)
    volume = 2 * net["params"]
    expected = ring(8, volume, 300e9, 3e-6) + ring(2, volume / 8, 50e9, 10e-6)
    assert sent(made) == pytest.approx(expected, rel=0.01)
    assert sent(layout(net, QUICK, batch=16, micro=1, sharding=16, stage=stage)) > 2 * sent(made)


def test_stage_3_sums_over_parts_of_the_sequence_too():
    """Weights are gathered twice a pass, gradients reduced once, and each half summed over the 8 parts."""
    net = network("llama3-8b", seq=65536)
    volume, times = 2 * net["params"], {}
    for stage in (1, 3):
        made = layout(net, {**QUICK, "memory": 1e13}, batch=2, micro=1, sharding=2, cp=8, stage=stage)
        times[stage] = sent(made)
        assert times[stage] == pytest.approx(
            (0.5 + (1 if stage == 3 else 0.5)) * ring(2, volume, 50e9, 10e-6) + ring(8, volume / 2, 300e9, 3e-6), rel=0.01
        )
    assert times[3] > times[1]


def test_experts_that_lie_on_one_device_are_not_gathered():
    net = network("mixtral-8x7b")
    found = _core.advise_network({k: v for k, v in net.items()})
    dense = 2 * (net["params"] - found["expert_params"])
    times = {s: sent(layout(net, QUICK, batch=8, micro=1, sharding=8, ep=8, stage=s)) for s in (2, 3)}
    assert times[2] == pytest.approx(ring(8, dense, 300e9, 3e-6), rel=0.01)
    assert times[3] == pytest.approx(1.5 * ring(8, dense, 300e9, 3e-6), rel=0.01)


# -- networks of servers ---
@pytest.mark.parametrize("card,held", [("rtx4090", 4), ("a100-80", 8), ("ascend-910c", 16), ("gb200", 72)])
def test_a_servers_network_is_shared_by_what_it_holds(card, held):
    """RoCE of 100 Gbit/s a server: 12.5 GB/s over as many devices as stand in it; a rate that is given is each device's."""
    from yuloh.advise import catalogue

    device = {**catalogue.core_device(catalogue.find_device(card)), "bf16": 1e19, "fp16": 1e19, "bandwidth": 9e15}
    assert device["per_node"] == held
    net, fabric = network("gpt3-1.3b"), catalogue.fabric("roce-100")[0]
    assert fabric["rate_server"] == 12.5e9
    count = 2 * held
    for on, rate in ((fabric, 12.5e9 / held), (catalogue.fabric("3")[0], 3e9)):
        made = _core.advise_layout(net, floats({"batch": count, "micro": 1, "dp": count}), device, on)
        assert sent(made) == pytest.approx(ring(count, 2 * net["params"], rate, on["latency"]), rel=0.02)


@pytest.mark.parametrize(
    "axes,said",
    [
        ({"precision": ["bogus"]}, "unknown precision"),
        ({"recompute": ["some"]}, "unknown recompute"),
        ({"data": [0.0]}, "whole numbers from 1"),
        ({"mp": [float("nan")]}, "whole numbers from 1"),
        ({"stage": [4.0]}, "stage must be"),
        ({"shards": 0.5}, "have in common"),
        ({"cp": 3.0}, "must divide it"),
    ],
)
def test_a_grid_refuses_what_a_job_would(axes, said):
    good = {"precision": ["bf16"], "recompute": ["none"], **{k: [1.0] for k in ("mp", "pp", "data", "micro")}, "stage": [0.0]}
    net = network("llama-7b")
    assert _core.advise_grid(net, {}, [A100], {}, good)["point"][0][0] > 1e9
    with pytest.raises(ValueError, match=said):
        _core.advise_grid(net, {}, [A100], {}, {**good, **axes})


def test_numbers_that_are_none():
    for layers in (-3.0, float("nan"), 1.5):
        with pytest.raises(ValueError, match="layers"):
            _core.advise_network({"kind": "totals", "params": 1e6, "forward_flops": 1e9, "layers": layers})
    for rate, seconds in ((1.0, [-1.0]), (1.0, [float("nan")]), (float("inf"), [0.1]), (1.0, [])):
        with pytest.raises(ValueError, match="above 0"):
            _core.advise_queue(rate, seconds)


# -- changes -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("micro,parts", [(3, "3"), (9, "3"), (25, "5"), (6, "2"), (7, "7")])
def test_any_micro_batch_can_be_accumulated(micro, parts):
    """The fewest parts that surely fit, of every divisor: here those with at most 5 samples."""
    net, job = network("gpt3-1.3b"), {"batch": micro, "micro": micro, "precision": "bf16"}
    most = 5 if micro > 5 else micro - 1
    room = layout(net, batch=most * 2, micro=most)["total"][2]
    found = _core.advise_changes(net, {k: float(v) if k != "precision" else v for k, v in job.items()}, {**A100, "memory": room}, {"rate": 50e9}, False)
    (offer,) = [c for c in found if c["what"] == "accumulate"]
    assert offer["detail"] == parts and offer["after"]["verdict"] == "yes"


# -- dp x sharding -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "count,given",
    [
        (8, {"dp": 2, "sharding": 4, "stage": 2}),
        (8, {"dp": 2, "sharding": 4}),
        (16, {"sharding": 4, "mp": 1, "pp": 1}),
        (16, {"dp": 2, "stage": 3}),
    ],
)
def test_data_parallel_beside_sharding(count, given):
    words = [w for k, v in given.items() for w in (f"--{k}", str(v))]
    if given.get("stage") and "sharding" not in given:  # the job as it is asked for, too
        words += ["--sharding", str(count // given["dp"])]
    found = json.loads(run("llama-7b", "--device", "a100-80", "--count", str(count), "--batch", "64", "--json", *words).stdout)["layouts"]["found"]
    assert found
    for x in found:
        job = x["job"]
        assert all(job[k] == v for k, v in given.items())
        assert job["dp"] * job["mp"] * job["pp"] * job["sharding"] == count


def test_the_search_shares_states_inside_a_server():
    """Over two servers: a group of one server's eight devices, copied, is among what is tried and leads."""
    found = _core.advise_search(network("llama-7b"), {"batch": 64.0}, A100, {"rate": 3e9}, 16.0, {"mp": 1.0, "pp": 1.0}, 12)
    pairs = {(x["job"]["dp"], x["job"]["sharding"]) for x in found}
    assert {(1, 16), (2, 8)} <= pairs
    assert (found[0]["job"]["dp"], found[0]["job"]["sharding"]) == (2, 8)


# -- the script is what was reckoned -------------------------------------------------------------------
LEVEL = {'level="os_g"': 2, 'level="p_g_os"': 3}


def job_of(text):
    """The job that a script for fleet runs, read back from its features."""
    (configs,) = re.findall(r"strategy.hybrid_configs = \{(.*?)\n\}", text, re.S)
    degree = {k: float(v) for k, v in re.findall(r'"(\w+)_degree": (\d+)', configs)}
    passes, micro = map(float, re.search(r"PASSES, MICRO = 10, (\d+), (\d+)", text).groups())
    job = {k: degree.get(k, 1.0) for k in ("dp", "mp", "pp", "sharding")}
    job.update(cp=degree.get("sep", 1.0), micro=micro, batch=passes * micro * job["dp"] * job["sharding"])
    job["stage"] = next((v for k, v in LEVEL.items() if k in text), 1) if job["sharding"] > 1 else 0
    job["recompute"] = "selective" if "recompute(attention" in text else "full" if "recompute" in text else "none"
    job["sequence_parallel"] = "ColumnSequenceParallelLinear" in text and "ScatterOp" in text
    job["vpp"] = float((re.findall(r"num_virtual_pipeline_stages=(\d+)", text) or [1])[0])
    job["optimizer"] = re.search(r"paddle.optimizer.(\w+)", text)[1].lower()
    job["precision"] = {"bfloat16": "bf16", "float16": "fp16"}.get((re.findall(r'dtype="(\w+)"', text) or [""])[0], "fp32")
    return floats(job)


@pytest.mark.parametrize("preset,card,count,given", [
    ("gpt3-175b", "a100-80", 64, {}),
    ("gpt3-175b", "a100-80", 64, {"sequence_parallel": True}),
    ("llama3-8b", "a100-40", 8, {}),
    ("llama-7b", "a100-40", 8, {"flash": False}),
    ("llama-13b", "rtx4090", 16, {}),
    ("gpt3-13b", "v100", 32, {"precision": "fp16"}),
])  # fmt: skip
def test_every_layout_found_is_its_script(preset, card, count, given):
    """Bytes, verdict and time of every layout are those of the script that is written for it."""
    from yuloh.advise import catalogue, fleet

    device, net = catalogue.core_device(catalogue.find_device(card)), network(preset)
    found = _core.advise_search(net, {"batch": 64.0, **given}, device, {"rate": 25e9}, float(count), {}, 40)
    assert found
    for x in found:
        text = fleet.skeleton(net, x["job"], x["passes"], x["micro_batch"], "launch")
        again = _core.advise_layout(net, {**job_of(text), "flash": x["job"]["flash"]}, device, {"rate": 25e9})
        assert again["total"] == pytest.approx(x["total"]) and again["verdict"] == x["verdict"], x["job"]
        assert again["seconds"] == pytest.approx(x["seconds"]), x["job"]


def test_sequence_parallel_is_kept_and_said():
    words = ("gpt3-175b", "--device", "a100-80", "--count", "64", "--batch", "64")
    plain, along = run(*words).stdout, run(*words, "--sequence-parallel").stdout
    assert "without sequence parallel" in plain and "without sequence parallel" not in along and "sequence parallel" in along
    done = run("gpt3-175b", "--mp", "8", "--seq", "2044", "--sequence-parallel", ok=2)
    assert "multiple of mp" in done.stderr and done.stderr.count("\n") == 1
