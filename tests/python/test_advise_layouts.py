# SPDX-License-Identifier: Apache-2.0
"""Adapters, experts, virtual stages, context parallel: formulas against the literature, published runs, errors."""

from __future__ import annotations

import json
import math
import re
import statistics

import pytest

from test_advise import PUBLISHED, floats, published, run
from yuloh import _core
from yuloh.advise import catalogue
from yuloh.advise.question import from_preset

A100 = catalogue.core_device(catalogue.find_device("a100-80"))
NOT_TENSORS = ("runtime", "fragmentation", "communication")


def network(preset, **over):
    return _core.advise_network(floats({**from_preset(preset)[0], **over}))["network"]


def layout(net, device=A100, **job):
    return _core.advise_layout(net, floats(job), device, {"rate": 50e9})


def items(made):
    return {i[0]: i[2] for i in made["memory"]}


# -- adapters ------------------------------------------------------------------------------------------
def test_lora_paper_gpt3():
    """arXiv:2106.09685, section 4.2: rank 4 on query and value of GPT-3 175B trains 10,000 times fewer parameters, whose
    checkpoint is 35 MB, and needs 350 GB: the frozen weights in half precision."""
    held = items(layout(network("gpt3-175b"), precision="fp16", lora=4, lora_targets="q,v"))
    trained = held["adapters"] / 2
    assert trained == 2 * 96 * 4 * 2 * 12288 and 175e9 / trained == pytest.approx(10_000, rel=0.1)
    assert held["adapters"] == pytest.approx(35e6, rel=0.1)
    assert held["weights"] + held["adapters"] + held["gradients"] + held["optimizer"] == pytest.approx(350e9, rel=0.01)


def test_adapters_are_counted_as_peft_counts_them():
    """LitGPT's table: rank 8 on query and value is 4,194,304 parameters for Llama 2 7B, 6,553,600 for 13B."""
    for preset, count in (("llama-7b", 4_194_304), ("llama-13b", 6_553_600)):
        assert items(layout(network(preset), lora=8, lora_targets="q,v"))["adapters"] == 2 * count


def test_frozen_matrices_keep_no_inputs_and_have_no_gradients():
    net = network("llama-7b")
    full, few, all_ = layout(net), layout(net, lora=8, lora_targets="q,v"), layout(net, lora=8, lora_targets="all")
    assert items(few)["activations"] < items(all_)["activations"] < items(full)["activations"] * 1.02
    assert items(few)["gradients"] < 1e-3 * items(full)["gradients"]
    assert dict(few["time"])["arithmetic"] == pytest.approx(dict(full["time"])["arithmetic"] * 2 / 3, rel=0.05)
    # One sample and layer: two norms' inputs, one output read by an adapter, q, k, v, the result, gate and up.
    s, h, f, rank = 2048, 4096, 11008, 8
    one = 2 * s * (2 * h + h + 4 * h + 2 * f + 2 * rank)
    assert items(few)["activations"] == pytest.approx(32 * one, rel=1e-9)


def test_stored_bits():
    net = network("llama-65b", seq=512)
    job = {"lora": 64, "lora_targets": "all", "recompute": "full"}
    sizes = {b: items(layout(net, weight_bits=b, **job))["weights"] for b in (16, 8, 4)}
    tables = 2 * 32000 * 8192
    assert sizes[16] == 2 * 65.286e9
    assert sizes[4] - 2 * tables == pytest.approx((65.286e9 - tables) * 0.54, rel=1e-6)
    assert sizes[4] < 0.6 * sizes[8] < 0.4 * sizes[16]


def test_measured_bytes_of_published_runs():
    """What allocators of other stacks held, against our tensors: each within 20 %, half of them within 7 %."""
    off = []
    for row in PUBLISHED["layouts"]:
        if "measured_gb" in row:
            _, made, _ = published(row)
            ours = sum(v for k, v in items(made).items() if k not in NOT_TENSORS) / 1e9
            off.append(abs(ours / row["measured_gb"] - 1))
            assert off[-1] <= 0.20, (row["id"], ours)
    assert len(off) >= 25 and statistics.median(off) <= 0.07


def test_lora_is_offered_as_another_training():
    from yuloh.advise import words

    changes = _core.advise_changes(network("llama-7b"), {"batch": 8.0, "micro": 1.0}, A100, {"rate": 25e9}, False)
    found = {c["what"]: c for c in changes}
    assert found["lora"]["fits"] and found["qlora"]["saved"] > found["lora"]["saved"] > 80e9
    assert "another training" in words.change(found["lora"]) and "4 bits" in words.change(found["qlora"])
    order = [c["what"] for c in changes]
    assert order.index("sharding") < order.index("lora")  # what leaves the training as it is comes first
    alone = _core.advise_changes(network("llama-7b"), {"batch": 1.0}, A100, {"rate": 25e9}, True)
    assert not {c["what"] for c in alone} & {"lora", "qlora"}


def test_more_devices_share_the_batch():
    """Sharding and experts over devices leave the batch and divide its passes; what does not divide grows, and says so."""
    from yuloh.advise import words

    def asked(preset, **job):
        found = _core.advise_changes(network(preset), floats(job), A100, {"rate": 25e9}, False)
        return [c for c in found if c["what"] in ("sharding", "experts_over")]

    for preset, job in (("llama-7b", {"batch": 64, "micro": 1}), ("llama-7b", {"batch": 64}), ("mixtral-8x7b", {"batch": 64, "micro": 4})):
        found = asked(preset, **job)
        assert len(found) >= 3 and all(c["same"] for c in found)
        for c in found:
            after = c["after"]["job"]
            assert after["batch"] == 64 and "another" not in words.change(c)
            assert c["after"]["passes"] * c["after"]["micro_batch"] * after["dp"] * after["sharding"] == 64
            assert c["after"]["micro_batch"] <= (job.get("micro") or 64)
    for c in asked("llama-7b", batch=1):
        after = c["after"]["job"]
        assert not c["same"] and after["batch"] == after["sharding"] and f", batch {after['batch']:.0f} (another training)" in words.change(c)
    text = " ".join(run("resnet50", "--batch", "64", "--device", "jetson-orin-nano-4").stdout.split())
    assert "--batch 256" not in text


# -- experts -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "preset,total,active",
    [
        ("mixtral-8x7b", 46.7e9, 12.9e9),
        ("deepseek-v2-lite", 15.7e9, 2.66e9),  # 2.4e9 without the embeddings
        ("deepseek-v3", 671e9, 37e9),
        ("qwen1.5-moe", 14.3e9, 2.7e9),
        ("qwen3-30b-a3b", 30.5e9, 3.3e9),
        ("qwen3-235b-a22b", 235e9, 22e9),
    ],
)
def test_parameters_follow_from_the_shape(preset, total, active):
    made = _core.advise_network(floats({**from_preset(preset)[0], "params": 0}))
    assert made["network"]["params"] == pytest.approx(total, rel=0.004)
    assert made["active_params"] == pytest.approx(active, rel=0.02)
    assert made["forward_flops"] / made["network"]["seq"] < 3 * active  # a token pays for what it meets, and the scores


def test_latent_cache_is_small():
    """DeepSeek-V2 (arXiv:2405.04434, table 1): 4.5 heads' worth of 128 numbers a token and layer."""
    net = network("deepseek-v3", seq=1000)
    held = items(layout(net, training=False, batch=1, precision="bf16"))
    assert held["cache"] == 61 * 4.5 * 128 * 1000 * 2


def test_expert_parallel():
    net, job = network("mixtral-8x7b"), {"batch": 8, "micro": 1, "dp": 8}
    alone, spread = layout(net, **job), layout(net, ep=8, **job)
    assert items(spread)["experts"] == pytest.approx(items(alone)["experts"] / 8)
    assert items(spread)["weights"] == items(alone)["weights"]
    # Two all-to-alls a layer, forward and backward, of 7/8 of (sequence x active x hidden) elements of 2 bytes.
    volume, messages = 32 * 4 * 7 / 8 * 4096 * 2 * 4096 * 2, 32 * 4 * 8
    assert dict(spread["time"])["experts"] == pytest.approx(volume / (0.75 * 300e9) + messages * 3e-6)
    # Experts' states cannot be sharded over more devices than hold the same expert.
    job = {"batch": 8, "micro": 1, "sharding": 8, "stage": 1, "ep": 8}
    held = items(layout(net, **job))
    routed = held["experts"] / 2
    assert held["optimizer"] == pytest.approx(12 * ((46.703e9 - 8 * routed) / 8 + routed), rel=0.01)


def test_numbers_form():
    words = ("--layers", "32", "--hidden", "4096", "--heads", "32", "--kv-heads", "8", "--ffn", "14336", "--gated")
    words += ("--experts", "8", "--active", "2", "--vocab", "32000", "--device", "h200", "--json")
    found = json.loads(run(*words).stdout)
    assert found["model"]["params"] == pytest.approx(46.7e9, rel=0.001)
    assert found["model"]["expert_ffn"] == 14336


def test_search_spreads_experts():
    h100 = catalogue.core_device(catalogue.find_device("h100"))
    found = _core.advise_search(network("mixtral-8x7b"), {"batch": 256.0}, h100, {"rate": 50e9}, 32.0, {}, 6)
    assert found and any(x["job"]["ep"] > 1 for x in found)
    for x in found:
        j = x["job"]
        assert j["dp"] * j["mp"] * j["pp"] * j["sharding"] * j["cp"] == 32
        assert (j["dp"] * j["sharding"] * j["cp"]) % j["ep"] == 0 and 8 % j["ep"] == 0


# -- virtual stages and context ------------------------------------------------------------------------
def test_interleaved_pipeline():
    """arXiv:2104.04473, section 2.2: bubble (p - 1)/(v m) of the ideal time, in-flight activations times 1 + (p - 1)/(p v)."""
    net, p, m = network("gpt3-175b"), 8, 16
    job = {"batch": m, "micro": 1, "pp": p, "mp": 8}
    plain = layout(net, **job)
    for v in (2, 4, 12):
        made = layout(net, vpp=v, **job)
        share = (p - 1) / v / m
        assert made["bubble"] == pytest.approx(share / (1 + share))
        grown = items(made)["activations"] / items(plain)["activations"]
        assert grown == pytest.approx(1 + (p - 1) / (p * v))
        assert dict(made["time"])["bubble"] < dict(plain["time"])["bubble"]
        assert dict(made["time"])["pipeline"] == pytest.approx(v * dict(plain["time"])["pipeline"])


def test_context_parallel():
    net = network("llama3-8b", seq=131072)
    one, four = layout(net, batch=1), layout(net, batch=1, cp=4)
    assert items(four)["activations"] == pytest.approx(items(one)["activations"] / 4)
    assert items(four)["weights"] == items(one)["weights"] and four["devices"] == 4
    assert dict(four["time"])["arithmetic"] == pytest.approx(dict(one["time"])["arithmetic"] / 4)
    # Long parts hide the exchange behind the scores (a tenth stays); short ones do not.
    def ring(seq, link):  # keys and values of 8 heads of 128 to 3 others: forward, backward, and their gradients
        return 32 * 3 * 3 * 2 * 2 * 1024 * seq / 4 / (0.75 * link)

    assert dict(four["time"])["context"] == pytest.approx(0.1 * ring(131072, 300e9))
    short = layout(network("llama3-8b", seq=8192), {**A100, "link": 2e9}, batch=1, cp=4)
    assert 0.9 * ring(8192, 2e9) < dict(short["time"])["context"] < ring(8192, 2e9)


# Took / ours - 1 of Megatron Bridge's table. With small experts the software decides: 2.0 and 2.4 times ours.
SPEEDS = {
    "llama3-8B-bridge-8": 0.25,
    "llama3-70B-bridge-64": 0.05,
    "llama3-405B-bridge-1024": 0.05,
    "llama3-405B-bridge-128xB200": 0.05,
    "qwen3-235B-bridge-64xB200": 0.25,
    "deepseek-v3-bridge-256xB200": 0.15,
    "qwen3-30B-bridge-16": None,
    "qwen3-30B-bridge-8xB200": None,
}


def test_speeds_of_published_runs():
    """Each near what docs/advise.md says of it; the two runs with experts of 768 stay far off, inside a wider interval."""
    rows = {row["id"]: row for row in PUBLISHED["layouts"] if "tokens_per_gpu" in row}
    assert set(rows) == set(SPEEDS)
    for name, row in rows.items():
        net, made, _ = published(row)
        took = row["job"]["batch"] * net["seq"] / made["devices"] / row["tokens_per_gpu"]
        low, point, high = (x / took for x in made["seconds"])
        assert low <= 1 <= high, name
        if SPEEDS[name] is None:
            assert 0.38 <= point <= 0.52, (name, point)
        else:
            assert abs(1 / point - 1) <= SPEEDS[name], (name, point)
            assert high < (2.4 if net["experts"] else 1.65), name


def test_degrees_that_are_given_are_kept():
    words = ("llama-13b", "--device", "h100", "--count", "16", "--batch", "64", "--json")
    for fixed in (("mp", 2), ("pp", 4), ("pp", 1), ("cp", 2), ("sharding", 4)):
        found = json.loads(run(*words, f"--{fixed[0]}", str(fixed[1])).stdout)["layouts"]["found"]
        assert found and all(x["job"][fixed[0]] == fixed[1] for x in found), fixed
    found = json.loads(run(*words, "--pp", "4", "--vpp", "5", "--micro-batch", "1").stdout)["layouts"]["found"]
    assert found and all(x["job"]["vpp"] == 5 and x["job"]["micro"] == 1 for x in found)
    found = json.loads(run(*words, "--recompute", "full", "--samples", "1e6", "--mp", "4").stdout)["training"]["rows"]
    assert found and all(x["layout"]["job"]["mp"] == 4 and x["layout"]["job"]["recompute"] == "full" for x in found)


# -- errors --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words,said",
    [
        (("llama-7b", "--lora", "0.5"), "whole number"),
        (("llama-7b", "--lora", "5000"), "rank of LoRA cannot exceed"),
        (("llama-7b", "--lora", "nan"), "must be a number"),
        (("llama-7b", "--lora", "8", "--lora-targets", "w"), "lora-targets"),
        (("llama-7b", "--lora", "8", "--inference"), "LoRA trains"),
        (("resnet50", "--lora", "8"), "transformer's shape"),
        (("llama-7b", "--weight-bits", "4"), "cannot be trained"),
        (("llama-7b", "--weight-bits", "3", "--inference"), "4, 8 or 16"),
        (("llama-7b", "--cache-bits", "8"), "inference only"),
        (("llama-7b", "--active", "2"), "without experts"),
        (("--layers", "4", "--hidden", "512", "--experts", "4", "--active", "8"), "cannot exceed the experts"),
        (("--layers", "4", "--hidden", "512", "--experts", "1"), "2 or more"),
        (("--layers", "4", "--hidden", "512", "--experts", "8", "--dense-layers", "4"), "fewer than the layers"),
        (("--params", "7e9", "--experts", "8"), "need the shape"),
        (("llama-7b", "--ep", "2", "--dp", "2", "--batch", "2"), "mixture of experts"),
        (("mixtral-8x7b", "--ep", "3", "--dp", "3", "--batch", "3"), "multiple of ep"),
        (("mixtral-8x7b", "--ep", "4", "--dp", "2", "--batch", "2"), "multiple of ep"),
        (("llama-7b", "--vpp", "2"), "need a pipeline"),
        (("llama-7b", "--vpp", "3", "--pp", "2"), "multiple of pp x vpp"),
        (("llama-7b", "--vpp", "2", "--pp", "2", "--batch", "3", "--micro-batch", "1"), "multiple of pp micro-batches"),
        (("llama-7b", "--cp", "3"), "multiple of 2 cp"),
        (("resnet50", "--cp", "2"), "context parallel"),
    ],
)
def test_absurd_input_gets_one_sentence(words, said):
    done = run(*words, ok=2)
    assert said in done.stderr and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_every_item_is_finite():
    for job in ({"lora": 8, "weight_bits": 4, "cp": 2, "mp": 2}, {"training": False, "weight_bits": 4, "cache_bits": 8}):
        for preset in ("llama-7b", "mixtral-8x7b", "deepseek-v2-lite"):
            made = layout(network(preset), batch=1, **job)
            assert all(math.isfinite(x) and x >= 0 for i in made["memory"] for x in i[1:])
            assert all(math.isfinite(s) and s > 0 for _, s in made["time"])


# -- fleet ---------------------------------------------------------------------------------------------
def fleet_scripts():
    from importlib import util
    from pathlib import Path

    path = Path(__file__).parent.parent / "oracle" / "check_fleet.py"
    spec = util.spec_from_file_location("check_fleet", path)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LAYOUTS, module.scripts()


def test_fleet_scripts():
    """What tests/oracle/check_fleet.py holds against Paddle: whole Python, groups that are the devices, the layout's parts."""
    layouts, scripts = fleet_scripts()
    assert len(layouts) >= 20
    for name, (devices, text) in scripts.items():
        compile(text, name, "exec")
        degrees = dict(re.findall(r'"(\w+)_degree": (\d+)', text))
        of = math.prod(int(degrees.get(k, 1)) for k in ("dp", "mp", "pp", "sharding", "sep"))
        assert of == devices, (name, degrees)
        job = layouts[name]
        assert ("PipelineLayer" in text) == (job.get("pp", 1) > 1)
        along = bool(job.get("sequence_parallel"))
        assert ("ColumnParallelLinear" in text) == (job.get("mp", 1) > 1 and not along)
        assert ("ColumnSequenceParallelLinear" in text) == ("register_sequence_parallel" in text) == along
        assert ("group_sharded_parallel" in text) == (job.get("stage", 0) >= 2)
        assert ("MoELayer" in text) == ("experts" in name or "ep" in job)
        again = job.get("recompute", "none")
        assert ("recompute(attention" in text) == (again == "selective") and ("recompute" in text) == (again != "none")
        if "ep" not in job:  # what talks most lies nearest, as the plan reckons
            assert "\"order\": ['pp', 'dp', 'sharding', 'sep', 'mp']" in text
        assert "np." not in text and "TODO" not in text


def test_fleet_file_of_the_command(tmp_path):
    file = tmp_path / "train.py"
    run("llama-7b", "--lora", "8", "--device", "a100-40", "--count", "16", "--batch", "64", "--fleet", str(file))
    text = file.read_text()
    compile(text, "train", "exec")
    assert "--nnodes 2 --devices 0,1,2,3,4,5,6,7 train.py" in text and "class Adapted" in text
    run("resnet50", "--device", "v100", "--count", "4", "--fleet", str(file))
    assert "paddle.vision.models.resnet50()" in file.read_text()


@pytest.mark.parametrize("ident", ["t4", "rtx4090", "a100-80"])
def test_a_group_over_servers_is_no_quicker_than_one_within(ident):
    """A ring over servers goes round inside each of them too, through the host where there is no link."""
    from yuloh.advise.question import floats

    entry = catalogue.find_device(ident)
    device, network = catalogue.core_device(entry), floats(catalogue.presets()["bert-large"])
    network = _core.advise_network({k: v for k, v in network.items() if k not in ("title", "unit", "source")})["network"]
    per = float(entry["per_node"])

    def talk(dp):
        made = _core.advise_layout(network, {"batch": 4 * dp, "micro": 4.0, "dp": dp}, device, {"rate": 25e9, "latency": 8e-6})
        return dict(made["time"])["data"]

    assert talk(2 * per) > talk(per)
