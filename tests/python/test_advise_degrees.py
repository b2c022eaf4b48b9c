# SPDX-License-Identifier: Apache-2.0
"""How degrees act together: data beside sharding, pipelines that are full, servers of other sizes than 8."""

from __future__ import annotations

import math

import pytest

from test_advise import run
from test_advise_layouts import A100, items, layout, network
from yuloh import _core


# -- a pipeline's largest batch ------------------------------------------------------------------------
@pytest.mark.parametrize("passes", [1, 64])
def test_largest_micro_batch_of_a_pipeline(passes):
    """What fits keeps pp micro-batches in flight (fewer only where the step has fewer passes than stages)."""
    net, split = network("gpt3-175b"), {"mp": 8, "pp": 8, "precision": "fp16"}
    most = layout(net, batch=passes, micro=1, **split)["largest_micro_batch"]
    assert most >= 1
    for micro, fits in ((most, True), (most + 1, False)):
        made = layout(net, batch=micro * max(passes, 8), micro=micro, **split)
        assert (made["verdict"] in ("yes", "tight")) == fits


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


# -- changes -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("micro,parts", [(3, "3"), (9, "3"), (25, "5"), (6, "2"), (7, "7")])
def test_any_micro_batch_can_be_accumulated(micro, parts):
    """The fewest parts that fit, of every divisor: here those with at most 5 samples."""
    net, job = network("gpt3-1.3b"), {"batch": micro, "micro": micro, "precision": "bf16"}
    most = 5 if micro > 5 else micro - 1
    room = layout(net, batch=most, micro=most)["total"][1]
    found = _core.advise_changes(net, {k: float(v) if k != "precision" else v for k, v in job.items()}, {**A100, "memory": room}, {"rate": 50e9}, False)
    (offer,) = [c for c in found if c["what"] == "accumulate"]
    assert offer["detail"] == parts and offer["fits"]
