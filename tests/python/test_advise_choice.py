# SPDX-License-Identifier: Apache-2.0
"""The choice of devices (src/advise/choice.cpp): what is given is kept, a price of 0 is a price, arguments are checked."""

from __future__ import annotations

import json

import pytest
from test_advise import ask, run

from yuloh import _core
from yuloh.advise import catalogue, page, text
from yuloh.advise.prices import with_energy
from yuloh.advise.question import Question, floats, from_preset

NAN = float("nan")


def entries(*names):
    return [catalogue.find_device(n) for n in names]


def told(found, language="en"):
    return text.report({**found, "remarks": []}, language, True)


# -- what is given is kept -----------------------------------------------------------------------------
def test_no_recompute_is_kept_where_it_was_given():
    job = {"batch": 64, "micro": 8}
    free = ask("gpt3-1.3b", job=dict(job), devices=entries("a10"), count=8)["layouts"]["found"]
    kept = ask("gpt3-1.3b", job={**job, "recompute": "none"}, devices=entries("a10"), count=8)["layouts"]["found"]
    assert free[0]["job"]["recompute"] == "full"
    assert {x["job"]["recompute"] for x in kept} == {"none"}


def test_degrees_are_kept_while_serving():
    def served(**job):
        return ask("llama-7b", job={"training": False, **job}, devices=entries("a100-80"), goals={"rate": 5, "p99": 30})

    free, two = served(), served(mp=2)
    assert free["serving"]["rows"][0]["group"] == 1 and free["decoding"]["own"]["group"] == 1
    assert two["serving"]["rows"][0]["group"] == 2 and two["decoding"]["own"]["group"] == 2
    assert two["serving"]["rows"][0]["watts"] == 2 * 400 * two["serving"]["rows"][0]["copies"]
    assert two["layouts"]["found"][0]["job"]["mp"] == 2
    assert two["decoding"]["own"]["cache_token"] == free["decoding"]["own"]["cache_token"] / 2
    staged = served(pp=2)
    assert staged["serving"]["rows"][0]["group"] == 2 and staged["layouts"]["found"][0]["job"]["pp"] == 2
    (copies,) = served(dp=3, batch=3)["serving"]["rows"]
    assert copies["copies"] == 3 and copies["possible"]
    (few,) = ask("llama-7b", job={"training": False, "dp": 1}, devices=entries("t4"), goals={"rate": 5, "p99": 30})["serving"]["rows"]
    assert not few["possible"]  # one T4 does not serve 5 a second
    with pytest.raises(ValueError, match="not reckoned for a rate, got sharding 2"):
        served(sharding=2, batch=2)


def test_a_group_that_is_no_power_of_two():
    found = ask("gpt2", job={"training": False, "mp": 3}, devices=entries("a100-80"))
    assert [(r["count"], r["layout"]["job"]["mp"]) for r in found["recommended"]] == [(3, 3.0)]
    trained = ask("gpt2", job={"batch": 64, "mp": 3}, devices=entries("a100-80"), goals={"samples": 1e6}, most=16)
    assert {r["count"] for r in trained["training"]["rows"]} == {3, 6, 12}


def test_rates_are_of_the_job():
    def rate(**job):
        return ask("llama-7b", job={"training": False, **job}, devices=entries("a100-80"))["rates"][0]

    plain, bits, both = rate(new_tokens=64), rate(new_tokens=64, weight_bits=4), rate(new_tokens=64, mp=2)
    assert bits["fp16"] > 1.02 * plain["fp16"]
    assert 0.5 * plain["fp16"] < both["fp16"] < 2 * plain["fp16"]  # a device's share of the group
    assert ask("llama-7b", job={"training": False}, devices=entries("t4"))["rates"][0]["fp32"] is None  # does not fit


def test_what_the_host_takes_of_a_served_model():
    from yuloh.advise import words

    def offered(**job):
        found = ask("llama2-70b", job=job, devices=entries("t4"))
        return {words.change(c, "en").partition(" (")[0] for c in (*found["together"], *found["changes"]) if c["what"] == "offload"}

    assert offered(training=False) == {"weights on the host"}
    assert "weights, gradients and states on the host" in offered(batch=8, micro=1)


# -- a price of 0 --------------------------------------------------------------------------------------
FREE = {"t4": 0.0, "a10": 5.0}


@pytest.mark.parametrize(
    "options",
    [
        {"goals": {"samples": 1e6}},
        {"job": {"training": False}, "goals": {"rate": 100}},
        {"job": {"training": False}},
        {},
    ],
)
def test_what_costs_nothing_is_cheapest(options):
    found = ask("resnet50", devices=entries("t4", "a10"), prices=FREE, currency="CNY", **json.loads(json.dumps(options)))
    first = found["verdict"]["first"]
    assert (first["id"], first["count"], first["rank"], first["cost"]) == ("t4", 1, 0, 0)
    for goal in ("training", "serving"):
        if goal in found:
            assert found[goal]["best"][0]["id"] == "t4"
            assert {r["id"] for r in found[goal]["rows"]} == {"t4", "a10"}
    for row in found.get("rates", ()):
        assert (row["per_money"] == float("inf")) == (row["id"] == "t4")
    for language in ("en", "zh"):
        assert "T4" in told(found, language)
    if "training" in found:
        points = page.pareto(found)["points"]
        assert len(points) == len(found["training"]["rows"])
        free = [r["cost"] == 0 for r in found["training"]["rows"]]
        assert min(p["y"] for p, f in zip(points, free) if f) > max(p["y"] for p, f in zip(points, free) if not f)
        assert [r["count"] for r in found["training"]["rows"] if r["pareto"] and r["cost"] == 0] != []


def test_energy_for_nothing():
    prices = with_energy({}, entries("t4", "a10"), 0.0)
    assert prices == {"t4": 0.0, "a10": 0.0}
    found = ask("resnet50", devices=entries("t4", "a10"), prices=prices, goals={"samples": 1e6})
    without = ask("resnet50", devices=entries("t4", "a10"), goals={"samples": 1e6})
    assert [(r["id"], r["count"]) for r in found["training"]["best"]] == [(r["id"], r["count"]) for r in without["training"]["best"]]
    assert [o["id"] for o in found["verdict"]["picks"]] and page.pareto(found) is None
    done = run("resnet50", "--energy-price", "0", "--samples", "1e6", "--device", "t4,a10", "--runs-per-day", "2")
    assert "Take 1 x " in done.stdout and "Nothing is done" not in done.stdout


def test_energy_is_added_to_an_hour():
    """At full power; where there is a list, only to what it names; what has no known power has no known price then."""
    own = {**catalogue.find_device("t4"), "id": "own", "figures": {k: v for k, v in catalogue.find_device("t4")["figures"].items() if k != "watts"}}
    asked = [*entries("t4", "a10"), own]
    assert with_energy({}, asked, 2.0) == pytest.approx({"t4": 0.14, "a10": 0.3})
    assert with_energy({"a10": 5.0, "own": 1.0}, asked, 2.0) == pytest.approx({"a10": 5.3})
    with pytest.raises(ValueError, match="energy-price must be from 0"):
        with_energy({}, asked, NAN)


def test_scenarios_with_what_costs_nothing():
    from yuloh.advise.scenarios import scenario_rows
    from yuloh.advise import tables_known

    for s in catalogue.scenarios():
        prices = {ident: float(i) for i, (ident, _) in enumerate(s["candidates"])}
        (row,) = scenario_rows(prices, s["id"])
        able = [r for r in row["rows"] if r["fits"]]
        assert row["best"] == min(able, key=lambda r: r["cost"])["id"]
        assert tables_known.scenarios([row], "en")
        for r in able:
            if s["training"]:
                assert r["kilowatt_hours"] == pytest.approx(
                    r["hours"][1] * r["count"] * catalogue.core_device(catalogue.find_device(r["id"]))["watts"] / 1e3)


def test_power_that_is_not_known_comes_last():
    own = {**catalogue.find_device("t4"), "id": "own", "aliases": []}
    own["figures"] = {k: v for k, v in own["figures"].items() if k != "watts"}
    found = ask("resnet50", devices=[own, *entries("a10", "l4")], goals={"samples": 1e6})
    assert [r["id"] for r in found["training"]["best"]] == ["l4", "a10", "own"]
    alone = ask("resnet50", devices=[own], goals={"samples": 1e6})
    assert alone["verdict"]["first"]["id"] == "own" and "1,000,000" not in told(alone)


# -- sums ----------------------------------------------------------------------------------------------
def test_hours_energy_and_money_of_a_training():
    found = ask("resnet50", devices=entries("a10"), prices={"a10": 5.0}, goals={"samples": 1e8}, job={"batch": 256})
    for r in found["training"]["rows"]:
        hours = r["layout"]["seconds"][1] * 1e8 / 256 / 3600
        assert r["hours"][1] == pytest.approx(hours)
        assert r["kilowatt_hours"] == pytest.approx(hours * r["count"] * 0.15)
        assert r["cost"] == pytest.approx(hours * r["count"] * 5) and r["watts"] == 150 * r["count"]
    front = [(r["hours"][1], r["cost"]) for r in found["training"]["rows"] if r["pareto"]]
    for r in found["training"]["rows"]:
        beaten = any(h <= r["hours"][1] and c <= r["cost"] and (h, c) != (r["hours"][1], r["cost"]) for h, c in front)
        assert beaten != r["pareto"]


def test_money_of_a_rate():
    found = ask("resnet50", job={"training": False}, devices=entries("a10"), prices={"a10": 5.0}, goals={"rate": 1e4})
    (r,) = found["serving"]["rows"]
    assert r["cost"] == 5 * r["copies"] and r["cost_year"] == r["cost"] * 8760
    assert r["per_money"] == pytest.approx(1e4 * 3600 / r["cost"])
    (rate,) = found["rates"]
    best = max(rate[p] for p in ("fp32", "fp16", "int8") if rate[p])
    assert rate["per_money"] == pytest.approx(best * 720) and rate["per_watt_hour"] == pytest.approx(best * 3600 / 150)


# -- arguments of the core -----------------------------------------------------------------------------
def arguments(preset="resnet50", **job):
    q = Question(from_preset(preset)[0], job=job)
    return q.network, q.job, [catalogue.core_device(d) for d in entries("t4")], {"rate": 25e9}


def choose(a, freedom=None, market=({},), **goals):
    network, job, devices, fabric = a
    return _core.advise_choose(network, job, devices, list(market), fabric, goals, freedom or {})


@pytest.mark.parametrize(
    "call,said",
    [
        (lambda a: choose(a, most=NAN), "most must be a whole number"),
        (lambda a: choose(a, most=-1.0), "most must be a whole number"),
        (lambda a: choose(a, most=1e300), "most must be a whole number"),
        (lambda a: choose(a, {"mp": NAN}), "a degree must be a whole number"),
        (lambda a: choose(a, {"dp": -2.0}), "a degree must be a whole number"),
        (lambda a: choose(a, samples=NAN), "samples must be above 0"),
        (lambda a: choose(a, samples=-1.0), "samples must be above 0"),
        (lambda a: choose(a, samples=1e6, hours=-1.0), "hours must be above 0"),
        (lambda a: choose(a, count=NAN), "count must be a whole number"),
        (lambda a: choose(a, counts=[1.0, 2.0]), "2 numbers were given for 1 devices"),
        (lambda a: choose(a, rate=NAN), "rate must be above 0"),
        (lambda a: choose(a, {"pp": 0.5}, rate=1.0), "a degree must be a whole number"),
        (lambda a: choose(a, market=[{"use": "toys"}]), "unknown use of a device, got 'toys'"),
        (lambda a: choose(a, market=[]), "1 devices and 0 markets"),
        (lambda a: _core.advise_rates(*a, NAN, {}), "max-batch must be above 0"),
        (lambda a: _core.advise_rates(*a, 8.0, {"cp": NAN}), "a degree must be a whole number"),
        (lambda a: _core.advise_group(*a[:2], a[2][0], a[3], 1.0, {"ep": -1.0}), "a degree must be a whole number"),
        (lambda a: _core.advise_yearly(1.0, 1.0, 1.0, -1.0), "cost: price must be a number of 0 or more"),
        (lambda a: _core.advise_yearly(NAN, 1.0, 1.0, 1.0), "cost: runs_per_day"),
        (lambda a: _core.advise_yearly(1.0, NAN, 1.0, 1.0), "cost: hours_saved must be finite"),
        (lambda a: _core.advise_queue(1.0, [NAN]), "seconds of a batch"),
        (lambda a: _core.advise_queue(1.0, [0.1, -0.1]), "seconds of a batch"),
        (lambda a: _core.advise_queue(float("inf"), [0.1]), "rate above 0"),
    ],
)
def test_senseless_arguments_are_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call(arguments(training=not "rate" in said))


def test_a_group_has_as_many_devices_as_were_said():
    net, job, _, fabric = arguments("llama-7b", training=False)
    on = catalogue.core_device(catalogue.find_device("a100-80"))
    assert _core.advise_group(net, job, on, fabric, 4.0, {})["job"]["mp"] == 4
    for count, free in ((3.0, {}), (0.5, {}), (NAN, {}), (16.0, {"pp": 1.0}), (4.0, {"mp": 1.0})):
        assert _core.advise_group(net, job, on, fabric, count, free) is None
    two = _core.advise_group(net, job, on, fabric, 16.0, {})["job"]  # servers
    assert (two["mp"], two["pp"]) == (8, 2)
    small = {**on, "memory": 1e9}
    assert _core.advise_group(net, floats(job), small, fabric, 1.0, {}) is None


def test_a_plan_of_another_optimizer_or_precision_says_so():
    from yuloh import nn
    from yuloh.advise import from_plan, words

    def notes(**job):
        return " ".join(map(words.remark, from_plan.network_of_model(nn.Linear(8, 8), [([4, 8], "float32")], job)[4]["notes"]))

    assert "the plan is of Adam: adafactor" in notes(optimizer="adafactor")
    assert "the plan is of bfloat16: fp8" in notes(precision="fp8")
    assert "the plan is of float32: int8" in notes(training=False, precision="int8")
    assert "the plan is of" not in notes(optimizer="adamw", precision="bf16")
