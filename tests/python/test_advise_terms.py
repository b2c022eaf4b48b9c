# SPDX-License-Identifier: Apache-2.0
"""Words of a question: one table each in the core, read at the door, listed in Python from there."""

import math

import pytest

import yuloh
from yuloh import _core
from yuloh.advise import catalogue, question, terms, words

FABRIC = {"rate": 25e9, "latency": 1e-5}
BOX = {"name": "box", "memory": 8e10, "bandwidth": 1e12, "bf16": 1e14, "host_link": 3e10}


def layout(network=None, job=None, device=None):
    net = _core.advise_network(network or question.floats(question.from_preset("llama-7b")[0]))["network"]
    return _core.advise_layout(net, {"batch": 1.0, **(job or {})}, device or BOX, FABRIC)


@pytest.mark.parametrize("precision", terms.PRECISIONS)
@pytest.mark.parametrize("optimizer", terms.OPTIMIZERS)
def test_every_word_is_taken_and_given_back(precision, optimizer):
    job = {"precision": precision, "optimizer": optimizer, "training": precision != "int8"}
    made = layout(job=job)["job"]
    assert {k: made[k] for k in job} == job


@pytest.mark.parametrize("field, allowed", [("precision", terms.PRECISIONS), ("optimizer", terms.OPTIMIZERS), ("recompute", None), ("offload", None)])
def test_other_words_are_refused_at_the_door(field, allowed):
    with pytest.raises(ValueError, match=f"unknown {field}, got 'toaster'; expected one of .*Hint: check --{field}") as said:
        layout(job={field: "toaster"})
    assert all(word in str(said.value) for word in allowed or ("none",))
    with pytest.raises(ValueError, match=f"{field} has the wrong type"):
        layout(job={field: 3.0})


def test_other_kinds_are_refused_at_the_door():
    with pytest.raises(ValueError, match="unknown kind of device, got 'toaster'; expected one of gpu, npu, edge, cpu"):
        layout(device={**BOX, "kind": "toaster"})
    with pytest.raises(ValueError, match="unknown kind of model, got 'rnn'; expected one of decoder, encoder, vision, totals"):
        layout(network={"kind": "rnn", "params": 1e9})


def test_a_device_with_one_rate_computes_in_it():
    """Whatever is asked for: the first that it has of what stands in for that, but never a less exact one at its rate."""
    for have in ("fp32", "tf32", "fp16", "bf16"):
        device = {k: v for k, v in BOX.items() if k != "bf16"}
        for precision in ("fp32", "tf32", "fp16", "bf16", "fp8"):
            made = layout(job={"precision": precision}, device={**device, have: 1e14})
            exact = precision in ("fp32", "tf32") and have != precision and have != "fp32"
            used = precision if exact else have
            assert made["precision_used"] == used and math.isfinite(made["seconds"][2])
            assert made["rate_assumed"] == (used != have)
    with pytest.raises(ValueError, match="no rate of arithmetic"):
        layout(device={**{k: v for k, v in BOX.items() if k != "bf16"}, "int8": 1e14})


@pytest.mark.parametrize("given, meant", [("v,q", "q,v"), ("q,k,v,o", "attention"), ("attention,ffn", "all"), ("ffn,ffn", "ffn")])
def test_targets_that_mean_the_same(given, meant):
    a, b = (layout(job={"lora": 8.0, "lora_targets": words_}) for words_ in (given, meant))
    assert a == b and a["job"]["lora_targets"] == meant


def test_items_and_changes_have_words():
    """What the core itemises has a sentence in both languages."""
    for key in terms.MEMORY:
        assert key in words.WORDS
    assert set(terms.TALK) < set(_core.advise_terms()["time"]) and "bubble" not in terms.TALK
    assert set(catalogue.PRECISIONS) < set(catalogue.SCALE)
    for optimizer, name in terms.CLASSES.items():
        assert not name or hasattr(yuloh.optimizer, name), optimizer


def test_a_remark_keeps_what_a_name_holds():
    assert words.remark(("assumed_sizes", "x|in 2,64")).startswith("sizes assumed where the file leaves them open: x|in 2,64 (")
    assert words.remark(("assumed_seq", 2048.0)) == "sequence length assumed: 2048"
    assert words.remark("a sentence | of its own") == "a sentence | of its own"
