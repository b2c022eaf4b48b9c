# SPDX-License-Identifier: Apache-2.0
"""Serving what one device does not hold: groups, pipelines over servers, what is left out, the slow end of a latency."""

from __future__ import annotations

import json
import random

import pytest
from test_advise import ask, floats, run
from test_advise_serving import device, network

from yuloh import _core
from yuloh.advise import catalogue, tables_known

FAST = {"rate": 50e9}


def answered(*words):
    return json.loads(run(*words, "--json").stdout)


def taken(found):
    first = found["verdict"]["first"]
    return first and (first["id"], first["count"])


# -- what is left out ----------------------------------------------------------------------------------
@pytest.mark.parametrize("words", [("llama2-70b", "--seq", "2048"), ("mixtral-8x7b",), ("llama-13b",)], ids=str)
def test_generating_leaves_no_device_out(words):
    """Of decoding little is arithmetic: that is no waiting for one another. Who holds the prompts holds their answers."""
    prompts, tokens = (answered(*words, "--inference", "--new-tokens", n) for n in ("0", "256"))
    kept, more = ({r["id"] for r in found["recommended"]} for found in (prompts, tokens))
    assert kept and kept <= more
    asked = answered("llama2-70b", "--inference", "--seq", "2048", "--new-tokens", "256", "--device", "h100,a100-80")
    assert {r["id"]: r["count"] for r in asked["recommended"]} == {"h100": 2, "a100-80": 2}


@pytest.mark.parametrize("words", [("mixtral-8x7b", "--device", "h100", "--ep", "2", "--dp", "2", "--batch", "2"),
                                   ("deepseek-v3", "--device", "h200", "--mp", "8", "--pp", "2")], ids=str)
def test_what_holds_it_is_never_said_not_to(words):
    found = answered(*words, "--inference")
    (row,) = found["devices"]
    assert row["total"][1] <= row["memory_bytes"] and taken(found) == (row["id"], row["devices"])


@pytest.mark.parametrize("preset", ["llama-7b", "resnet50", "bert-large"])
@pytest.mark.parametrize("training", [True, False])
def test_a_named_device_that_holds_it_is_taken(preset, training):
    for d in catalogue.reckoned(training):
        found = ask(preset, job={"training": training}, devices=[d], focus=d["id"])
        (row,) = found["devices"]
        assert taken(found) or row["total"][1] > row["memory_bytes"], d["id"]


def test_a_host_is_not_what_a_large_model_is_served_on():
    """Whatever it is bought for, a CPU comes behind all else, unless it was asked for."""
    found = answered("llama2-70b", "--inference")
    kinds = [catalogue.find_device(r["id"])["kind"] for r in found["recommended"]]
    assert "cpu" in kinds and "cpu" not in kinds[: kinds.index("cpu")] and set(kinds[kinds.index("cpu"):]) <= {"cpu", "edge"}
    assert "kunpeng-920" in {r["id"] for r in found["recommended"]}
    assert not {catalogue.find_device(o["id"])["kind"] for o in found["verdict"]["picks"]} & {"cpu"}
    assert taken(answered("llama2-70b", "--inference", "--device", "kunpeng-920"))[0] == "kunpeng-920"


# -- pipelines -----------------------------------------------------------------------------------------
def decoding(net, on, free, fabric=FAST, **job):
    return _core.advise_group_decoding(net, {"training": False, **floats(job)}, on, fabric, 0.9, floats(free))


def test_a_served_pipeline_is_kept_full():
    """Two stages hold as much as two halves of tensors and, kept full, generate about as much; alone a request takes longer."""
    net, on = network("llama3-8b"), device("a100-40")
    split, staged = (decoding(net, on, free, new_tokens=256) for free in ({"mp": 2, "pp": 1}, {"mp": 1, "pp": 2}))
    assert staged["group"] == split["group"] == 2 and staged["most"][1] == pytest.approx(split["most"][1], rel=0.05)
    # Each stage reads its weights once for each half of the requests.
    assert 0.8 < staged["rows"][-1]["tokens"] / split["rows"][-1]["tokens"] < 1.1
    assert staged["prompt"] > 1.7 * split["prompt"]
    # A batch of one is in one stage at a time; of two each has a stage.
    assert staged["rows"][1]["tokens"] == pytest.approx(2 * staged["rows"][0]["tokens"], rel=1e-6)


def test_a_served_pipeline_takes_no_more_copies():
    words = ("llama-13b", "--inference", "--rate", "2", "--p99", "30000", "--new-tokens", "256", "--device", "a100-40")
    by_mp, by_pp = (answered(*words, f"--{k}", "2")["verdict"]["first"] for k in ("mp", "pp"))
    assert by_pp["copies"] == by_mp["copies"] and by_pp["p99"] > by_mp["p99"]


def slow_queue(rate, most, seconds, stages, count=20000):
    """A pipeline of equal stages, event by event: whoever comes waits until the first stage is free."""
    draw, t, arrived = random.Random(5), 0.0, []
    for _ in range(count):
        t += draw.expovariate(rate)
        arrived.append(t)
    free, took, i = [0.0] * stages, [], 0
    while i < count:
        start = max(free[0], arrived[i])
        batch = [a for a in arrived[i : i + most] if a <= start]
        for k in range(stages):
            start = max(start, free[k]) + seconds[len(batch) - 1] / stages
            free[k] = start
        took += [start - a for a in batch]
        i += len(batch)
    return sorted(took)[int(0.99 * count)]


def test_the_queue_of_a_pipeline():
    seconds = [0.1 + 0.01 * b for b in range(8)]
    one, two = (_core.advise_queue(40.0, seconds, k) for k in (1, 2))
    assert two["load"] == pytest.approx(one["load"] / 2) and two["p99"] < one["p99"]
    for stages in (1, 2, 4):
        assert _core.advise_queue(40.0, seconds, stages)["p99"] == pytest.approx(slow_queue(40.0, 8, seconds, stages), rel=0.06)
    assert _core.advise_queue(80.0, seconds, 1)["p99"] == float("inf") > _core.advise_queue(80.0, seconds, 2)["p99"]


def test_stages_hold_what_is_in_flight():
    """Every batch in flight has its keys in each stage: twice the cache of one batch must fit."""
    net, job = network("llama-13b", seq=2048), {"training": False, "pp": 2.0, "batch": 8.0, "micro": 8.0, "new_tokens": 256.0}
    made = _core.advise_layout(net, job, device("a100-40"), FAST)
    items = {i[0]: i[2] for i in made["memory"]}
    goals = {"rate": 1.0, "p99": 1e5, "max_batch": 8.0}

    def batch(memory):
        (row,) = _core.advise_choose(net, {**job, "micro": 0.0}, [device("a100-40", memory=memory)], [{}], FAST, goals, {"pp": 2.0, "mp": 1.0})["rows"]
        return row["possible"] and row["most_rate"] / row["copies"]

    enough = made["total"][1] + items["cache"]
    assert batch(enough) > batch(enough - 1) > 0


# -- over servers --------------------------------------------------------------------------------------
@pytest.mark.parametrize("preset,card", [("deepseek-v3", "h200"), ("llama3-405b", "a100-80")])
def test_a_copy_over_two_servers(preset, card):
    """Found without a word, the same as with --count, and as with the degrees; without a network it cannot be."""
    free, counted, given = (answered(preset, "--inference", "--device", card, *more)
                            for more in ((), ("--count", "16"), ("--mp", "8", "--pp", "2")))
    for found in (free, counted, given):
        job = found["verdict"]["first"]["layout"]["job"]
        assert taken(found) == (card, 16) and (job["mp"], job["pp"]) == (8, 2)
        assert dict(found["verdict"]["first"]["layout"]["time"])["pipeline"] > 0
    assert free["decoding"]["own"]["group"] == 16
    alone = run(preset, "--inference", "--device", card, "--network", "none").stdout
    assert "does not hold it" in alone and "Take" not in alone


def test_boards_and_cards_without_a_link_are_not_joined():
    for card in ("t4", "jetson-agx-orin-64", "kunpeng-920"):
        found = ask("llama3-405b", job={"training": False}, devices=[catalogue.find_device(card)])
        assert found["decoding"]["own"] is None and not found["recommended"], card


@pytest.mark.parametrize("words,said", [
    (("resnet50", "--new-tokens", "10"), "new-tokens is for models that generate tokens"),
    (("bert-base", "--cache-bits", "8"), "cache-bits is for models that generate tokens"),
    (("llama-7b", "--recompute", "full"), "recompute is for training"),
    (("llama-7b", "--optimizer", "sgd"), "--optimizer is for training"),
    (("llama-7b", "--offload", "optimizer"), "no optimizer states"),
    (("llama-7b", "--sharding", "2", "--stage", "2", "--batch", "2"), "shards what only a training has"),
    (("llama-7b", "--network", "none", "--device", "a100-80", "--count", "16"), "one server, which holds 8 x a100-80, got 16"),
    (("llama-7b", "--network", "none", "--device", "rtx4090", "--mp", "8"), "one server, which holds 4 x rtx4090, got 8"),
], ids=str)  # fmt: skip
def test_idle_options_of_serving(words, said):
    done = run(*words, "--inference", ok=2)
    assert said in done.stderr and "Hint: " in done.stderr and done.stderr.count("\n") == 1


# -- pairs ---------------------------------------------------------------------------------------------
def test_a_bridge_joins_two():
    """Two A5000 talk over the bridge, four over the host; the matrix shows both words of it."""
    net, card = network("llama-7b"), device("a5000")
    assert card["pair_link"] == 56.25e9 and "link" not in card

    def tensor(mp, **over):
        made = _core.advise_layout(net, {"training": False, "batch": 1.0, "mp": float(mp)}, {**card, **over}, FAST)
        return dict(made["time"])["tensor"]

    host = card["host_link"] / 2
    assert tensor(2) == pytest.approx(tensor(2, link=56.25e9)) and tensor(2, pair_link=0.0) == pytest.approx(tensor(2, link=host))
    assert tensor(4) == tensor(4, pair_link=0.0) == pytest.approx(tensor(4, link=host))
    made = tables_known.matrix(ask("llama-7b", devices=[catalogue.find_device(c) for c in ("a5000", "a4000", "v100")]), "en")
    assert [row[4] for row in made.rows] == ["56.25 in pairs (article 2-way)", "–", "150"]
    assert "GB/s each way between devices" in run("gpt2-xl", "--device", "a5000", "--count", "2").stdout
    assert "PCIe" in run("gpt2-xl", "--device", "a5000", "--count", "4").stdout


# -- the slow end --------------------------------------------------------------------------------------
def sentence(found_text):
    text = " ".join(found_text.split())
    return text[text.index("How sure: "):]


def test_the_slow_end_of_a_training():
    words = ("resnet50", "--samples", "1e8", "--device", "a100-80", "--hours")
    found = answered(*words, "6")
    first, sure = found["verdict"]["first"], found["verdict"]["sure"]
    assert first["hours"][1] <= 6 < first["hours"][2] and not first["sure"]
    assert sure["hours"][2] <= 6 and sure["count"] > first["count"]
    fewer = [r for r in found["training"]["rows"] if first["count"] < r["count"] < sure["count"]]
    assert all(r["hours"][2] > 6 for r in fewer)
    assert f"is late: {sure['count']} x A100 80 GB SXM4 would be in time even then" in sentence(run(*words, "6").stdout)
    assert "even the slow end is in time" in sentence(run(*words, "40").stdout)
    assert "no number of A100 80 GB SXM4 that was tried" in sentence(run(*words, "6", "--most", "2").stdout)
    assert "How sure" in run(*words[:-1]).stdout and "slow end" not in run(*words[:-1]).stdout


def test_the_slow_end_of_a_latency():
    words = ("resnet50", "--inference", "--rate", "2400", "--device", "t4", "--p99")
    found = answered(*words, "18")
    first, sure = found["verdict"]["first"], found["verdict"]["sure"]
    assert first["p99"] <= 0.018 < first["slow"] and not first["sure"]
    assert sure["copies"] > first["copies"]
    # The same devices, 1.6 times slower, say the same: so many are the fewest.
    slow = {**device("t4")}
    for rate in ("bandwidth", "fp32", "fp16", "int8"):
        slow[rate] /= 1.6
    q = (network("resnet50"), {"training": False, "batch": 1.0}, [slow], [{}], FAST, {"rate": 2400.0, "p99": 0.018, "max_batch": 64.0}, {})
    (row,) = _core.advise_choose(*q)["rows"]
    assert abs(row["copies"] - sure["copies"]) <= 1
    assert f"is late: {sure['count']} x T4 would be in time even then" in sentence(run(*words, "18").stdout)
    assert "even the slow end is in time" in sentence(run(*words, "60").stdout)
    full = run("llama-13b", "--inference", "--rate", "2", "--device", "a100-40", "--pp", "2", "--p99", "20000").stdout
    assert "at its slow end they do not keep up: " in sentence(full)
