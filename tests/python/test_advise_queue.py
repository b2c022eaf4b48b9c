# SPDX-License-Identifier: Apache-2.0
"""Latency under load: the core's queue against the same rule written event by event, against the exact M/D/1, and end to end."""

from __future__ import annotations

import math
import random

import pytest

from yuloh import _core
from yuloh.advise import Question, answer, catalogue
from yuloh.advise.question import from_preset


def simulate(rate, most, seconds, requests=60000, seed=5):
    """(99th percentile, mean batch) of Poisson arrivals at a server that takes up to `most` of what waits when free."""
    draw, t, free, took, batches = random.Random(seed), 0.0, 0.0, [], 0
    at = []
    for _ in range(requests):
        t += draw.expovariate(rate)
        at.append(t)
    i = 0
    while i < requests:
        start = max(free, at[i])
        end = i + 1
        while end < requests and end - i < most and at[end] <= start:
            end += 1
        free = start + seconds(end - i)
        took += [free - a for a in at[i:end]]
        batches += 1
        i = end
    took = sorted(took[requests // 20 :])
    return took[int(0.99 * len(took))], requests / batches


@pytest.mark.parametrize("fixed,each", [(1, 0.0), (1, 0.05), (1, 0.2), (1, 1), (0, 1)])
@pytest.mark.parametrize("most", [1, 4, 16, 64])
def test_against_a_simulation(fixed, each, most):
    seconds = [fixed + each * b for b in range(1, most + 1)]
    for load in (0.005, 0.1, 0.4, 0.7, 0.85):
        rate = load * most / seconds[-1]
        p99, batch = simulate(rate, most, lambda b: seconds[b - 1])
        found = _core.advise_queue(rate, seconds)
        # Two samples of a tail: the closer to the limit, the longer they would have to be.
        assert found["p99"] == pytest.approx(p99, rel=0.06 if load < 0.8 else 0.15)
        assert found["batch"] == pytest.approx(batch, rel=0.03)
        assert found["load"] == pytest.approx(load)
    assert math.isinf(_core.advise_queue(0.95 * most / seconds[-1], seconds)["p99"])


@pytest.mark.parametrize("load", [0.1, 0.3, 0.5, 0.7])
def test_one_at_a_time_is_md1(load):
    """Erlang: P(wait <= t) = (1 - r) sum_j (-r (t - j))^j / j! e^(r (t - j)), service 1."""

    def waits(t):
        return (1 - load) * sum(
            (-load * (t - j)) ** j / math.factorial(j) * math.exp(load * (t - j)) for j in range(int(t) + 1)
        )

    low, high = 0.0, 30.0
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (mid, high) if waits(mid) < 0.99 else (low, mid)
    assert _core.advise_queue(load, [1.0])["p99"] == pytest.approx(1 + low, rel=0.06)


@pytest.mark.parametrize("device,rate,limit", [("t4", 2400, 0.018), ("a10", 9000, 0.012), ("l4", 300, 0.002)])
def test_copies_are_enough_and_one_less_is_not(device, rate, limit):
    network, title, unit, source = from_preset("resnet50")
    entry = catalogue.find_device(device)
    q = Question(network, title, unit, "preset", source, job={"training": False, "precision": "fp16"}, devices=[entry],
                 focus=device, goals={"rate": rate, "p99": limit, "max_batch": 16})
    (row,) = answer(q)["serving"]["rows"]
    known = {}

    def seconds(b):
        if b not in known:
            job = {"training": False, "precision": "fp16", "batch": float(b), "micro": float(b)}
            known[b] = _core.advise_layout(q.network, job, q.core_device(entry), q.fabric)["seconds"][1]
        return known[b]

    def holds(copies, wanted=rate, slack=1.06):
        each = wanted / copies
        return each * seconds(16) <= 0.9 * 16 and simulate(each, 16, seconds)[0] <= slack * limit

    assert row["possible"] and row["p99"] <= limit and holds(row["copies"])
    assert row["copies"] == 1 or not holds(row["copies"] - 1, slack=0.94)
    assert row["most_rate"] >= rate and holds(row["copies"], 0.98 * row["most_rate"])
